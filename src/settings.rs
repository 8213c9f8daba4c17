//! What flags and environment say, typed. Read once, at start.
