//! The long tasks of the process: the first that ends unexpectedly ends the process.
