//! The rules as a whole: the recorded admission cases, what holds for every kind, and properties of a verdict.

mod configs;
mod conformance;
mod kinds;
mod properties;
mod scale;
pub(in crate::policy) mod support;
