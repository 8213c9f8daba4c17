//! What admission reads: watches, cut down when decoded, with their indexes.
