//! Defaulting and validation of the custom resources, as pure functions. No I/O, no clock.
