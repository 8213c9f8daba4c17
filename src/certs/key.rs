//! A private key in memory that cannot be printed.
//!
//! Every private key of this program travels in this type, so that no log line, error or debug output can hold one.
//! It does not judge what it holds: whether the bytes are a key is found out where the key is used.

use std::fmt;

/// The PEM text of a private key. `Debug` prints `[redacted]`, and there is no `Display` and no `Serialize`.
#[derive(Clone, PartialEq, Eq)]
pub struct PrivateKey(Vec<u8>);

impl PrivateKey {
    /// Takes the bytes as they are.
    pub fn new(pem: impl Into<Vec<u8>>) -> Self {
        Self(pem.into())
    }

    /// The PEM bytes: for signing, and for the Secret that keeps the key. Never for a message.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_never_printed() {
        let key = PrivateKey::new("-----BEGIN PRIVATE KEY-----secret");
        assert_eq!(format!("{key:?} {key:#?}"), "[redacted] [redacted]");
        assert_eq!(format!("{:?}", Some(&key)), "Some([redacted])");
    }
}
