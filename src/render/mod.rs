//! Templates to objects: one typed input a component. No I/O.
