//! Logs: format, level, and changing the level at run time.
