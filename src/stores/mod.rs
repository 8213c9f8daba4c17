//! What admission reads: watches, cut down when decoded, with their indexes.

mod health;
mod object;
mod reflect;

#[cfg(test)]
pub(crate) mod fake_api;
