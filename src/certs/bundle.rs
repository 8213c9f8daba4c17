//! Bundles of CA certificates: reading, de-duplicating, writing them again in one normal form.
//!
//! The API server takes any bytes as a `caBundle` and then fails every call when, for instance, two blocks are joined
//! without a newline. So what is published is always what this module wrote, never what was handed in.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{PemObject, SectionKind};

use super::certificate::{Certificate, CertificateError};

/// Certificates without repetition, in the order in which they were first seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bundle(Vec<Certificate>);

/// A text that is no bundle of certificates.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BundleError {
    /// PEM without a certificate in it.
    #[error("no certificate in it")]
    Empty,
    /// A block that cannot be read as PEM. Its text is not repeated: it may be a misplaced key.
    #[error("block {position} is not well-formed PEM")]
    Malformed {
        /// Counted from 1.
        position: usize,
    },
    /// A block of another kind, a private key above all.
    #[error("block {position} is a {kind}, and only certificates belong in a CA bundle")]
    NotCertificate {
        /// Counted from 1.
        position: usize,
        /// What it is instead.
        kind: &'static str,
    },
    /// A block labelled as a certificate that holds none.
    #[error("block {position} is {source}")]
    Unreadable {
        /// Counted from 1.
        position: usize,
        /// What is wrong with it.
        source: CertificateError,
    },
}

impl Bundle {
    /// Reads PEM in which every block has to be a certificate.
    ///
    /// # Errors
    /// Names the first block that is none, by position.
    pub fn from_pem(pem: &[u8]) -> Result<Self, BundleError> {
        let mut bundle = Self::default();
        for (index, section) in sections(&separate_blocks(pem)).enumerate() {
            let position = index + 1;
            let (kind, der) = section.ok_or(BundleError::Malformed { position })?;
            if kind != SectionKind::Certificate {
                return Err(BundleError::NotCertificate {
                    position,
                    kind: label(kind),
                });
            }
            let certificate = Certificate::parse(CertificateDer::from(der))
                .map_err(|source| BundleError::Unreadable { position, source })?;
            bundle.insert(certificate);
        }
        if bundle.is_empty() {
            return Err(BundleError::Empty);
        }
        Ok(bundle)
    }

    /// Reads a live `caBundle` or `ca.crt` as the API server would: what is no certificate is passed over.
    pub fn from_live(pem: &[u8]) -> Self {
        if contains(pem, JOINED) {
            return Self::default();
        }
        sections(pem)
            .flatten()
            .filter(|(kind, _)| *kind == SectionKind::Certificate)
            .filter_map(|(_, der)| Certificate::parse(CertificateDer::from(der)).ok())
            .collect()
    }

    /// Adds a certificate unless it is there already.
    pub fn insert(&mut self, certificate: Certificate) {
        if !self.contains(&certificate) {
            self.0.push(certificate);
        }
    }

    /// Whether this very certificate is in it.
    pub fn contains(&self, certificate: &Certificate) -> bool {
        self.0.contains(certificate)
    }

    /// What both bundles carry: for a Service that several configurations call.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let common = self.0.iter().filter(|one| other.contains(one));
        Self(common.cloned().collect())
    }

    /// Whether every certificate of `other` is in it.
    pub fn holds(&self, other: &Self) -> bool {
        other.0.iter().all(|certificate| self.contains(certificate))
    }

    /// The certificates, in order.
    pub fn certificates(&self) -> &[Certificate] {
        &self.0
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The normal form: one block after the other, each ending in a newline.
    pub fn to_pem(&self) -> String {
        self.0.iter().map(Certificate::to_pem).collect()
    }
}

impl FromIterator<Certificate> for Bundle {
    fn from_iter<I: IntoIterator<Item = Certificate>>(certificates: I) -> Self {
        let mut bundle = Self::default();
        bundle.extend(certificates);
        bundle
    }
}

impl Extend<Certificate> for Bundle {
    fn extend<I: IntoIterator<Item = Certificate>>(&mut self, certificates: I) {
        for certificate in certificates {
            self.insert(certificate);
        }
    }
}

/// Where one block's last line runs into the next one's first.
const JOINED: &[u8] = b"----------BEGIN ";

fn separate_blocks(pem: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(pem.len());
    let mut rest = pem;
    while let Some(at) = find(rest, JOINED) {
        let (head, tail) = rest.split_at(at + 5);
        text.extend_from_slice(head);
        text.push(b'\n');
        rest = tail;
    }
    text.extend_from_slice(rest);
    text
}

fn sections(pem: &[u8]) -> impl Iterator<Item = Option<(SectionKind, Vec<u8>)>> + '_ {
    <(SectionKind, Vec<u8>)>::pem_slice_iter(pem).map(Result::ok)
}

fn label(kind: SectionKind) -> &'static str {
    match kind {
        SectionKind::PrivateKey | SectionKind::RsaPrivateKey | SectionKind::EcPrivateKey => {
            "private key"
        }
        SectionKind::PublicKey => "public key",
        SectionKind::Csr => "certificate request",
        SectionKind::Crl => "revocation list",
        _ => "block of another kind",
    }
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    find(haystack, needle).is_some()
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack
        .windows(needle.len())
        .position(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certs::testing::authority;
    use proptest::prelude::*;

    fn two() -> (String, String) {
        (
            authority().certificate().to_pem(),
            authority().certificate().to_pem(),
        )
    }

    #[test]
    fn a_bundle_is_written_again_in_normal_form() {
        let (one, other) = two();
        let wanted = format!("{one}{other}");
        for text in [
            format!("{one}{other}"),
            format!("# a comment\r\n{one}\n\n{other}\n{one}"),
            format!("{}{other}", one.trim_end()),
            format!("{one}{}", other.replace('\n', "\r\n")),
        ] {
            let bundle = Bundle::from_pem(text.as_bytes()).unwrap();
            assert_eq!(bundle.to_pem(), wanted);
        }
    }

    #[test]
    fn what_does_not_belong_in_a_bundle_is_named_by_position_and_never_repeated() {
        let (one, _) = two();
        let key = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n";
        for (text, wanted) in [
            (
                format!("{one}{key}"),
                "block 2 is a private key, and only certificates belong in a CA bundle",
            ),
            (
                "-----BEGIN PRIVATE KEY-----c2VjcmV0-----END PRIVATE KEY".to_owned(),
                "block 1 is not well-formed PEM",
            ),
            (
                format!("{one}-----BEGIN CERTIFICATE-----\nc2VjcmV0\n"),
                "block 2 is not well-formed PEM",
            ),
            (String::new(), "no certificate in it"),
        ] {
            let error = Bundle::from_pem(text.as_bytes()).unwrap_err();
            assert_eq!(error.to_string(), wanted);
        }
        let garbage = "-----BEGIN CERTIFICATE-----\nc2VjcmV0\n-----END CERTIFICATE-----\n";
        let error = Bundle::from_pem(garbage.as_bytes()).unwrap_err();
        assert!(error.to_string().starts_with("block 1 is not a cert"));
    }

    #[test]
    fn what_two_bundles_share() {
        let (one, other) = two();
        let bundle = |text: &str| Bundle::from_live(text.as_bytes());
        let both = bundle(&format!("{one}{other}"));
        assert_eq!(both.intersection(&bundle(&other)), bundle(&other));
        assert!(bundle(&one).intersection(&bundle(&other)).is_empty());
    }

    #[test]
    fn a_live_bundle_holds_what_the_api_server_finds_in_it() {
        let (one, other) = two();
        let garbage = "-----BEGIN CERTIFICATE-----\nc2VjcmV0\n-----END CERTIFICATE-----\n";
        let live = |text: String| Bundle::from_live(text.as_bytes()).certificates().len();
        assert_eq!(live(format!("{one}{garbage}{other}")), 2);
        assert_eq!(live(format!("{}{other}", one.trim_end())), 0);
        assert_eq!(live("garbage".into()), 0);
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_readers(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Bundle::from_live(&bytes);
            let _ = Bundle::from_pem(&bytes);
        }
    }
}
