//! A serving pair, and whether the API server would accept it.
//!
//! Four checks, each with its own error: key and certificate match, the name is covered, the dates hold, and the bundle
//! verifies it. The last is answered as Go's verifier answers, because that is what the API server asks: a path to a CA
//! of the bundle, or the serving certificate itself in the bundle, CA bit or not.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use rustls::RootCertStore;
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;

use super::bundle::Bundle;
use super::certificate::Certificate;
use super::key::PrivateKey;
use super::lifetimes::span;
use super::names::ServiceName;

/// The keys of a Secret of type `kubernetes.io/tls`.
pub const TLS_CRT: &str = "tls.crt";
/// See [`TLS_CRT`].
pub const TLS_KEY: &str = "tls.key";
/// The bundle beside the pair.
pub const CA_CRT: &str = "ca.crt";

/// How many signers between a serving certificate and the bundle are followed.
const LONGEST_PATH: usize = 4;

/// How many certificates of a chain are looked at: the search is exponential otherwise, and the Secret may be anybody's.
const LONGEST_CHAIN: usize = 8;

/// A Secret's three values, as they are. A value that is missing is empty.
#[derive(Clone, PartialEq, Eq)]
pub struct PairContents {
    /// `tls.crt`: the serving certificate, then those that signed it.
    pub tls_crt: Vec<u8>,
    /// `tls.key`.
    pub tls_key: PrivateKey,
    /// `ca.crt`.
    pub ca_crt: Vec<u8>,
}

/// A certificate chain with its key, known to belong together.
#[derive(Clone)]
pub struct ServingPair {
    certified: Arc<CertifiedKey>,
    leaf: Certificate,
    intermediates: Vec<Certificate>,
}

/// Why a pair is not used. No message repeats anything of a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PairError {
    /// No Secret at all.
    #[error("the Secret does not exist")]
    NoSecret,
    /// `tls.crt` is missing or empty.
    #[error("tls.crt is missing or empty")]
    NoCertificate,
    /// `tls.crt` cannot be read.
    #[error("tls.crt cannot be read: {0}")]
    BadCertificate(String),
    /// `tls.key` is missing or empty.
    #[error("tls.key is missing or empty")]
    NoKey,
    /// `tls.key` cannot be read or is of a kind that TLS cannot use.
    #[error("tls.key is not a PEM private key (RSA, ECDSA or Ed25519)")]
    BadKey,
    /// The two do not belong together.
    #[error("tls.key does not match tls.crt")]
    Mismatch,
    /// The Service's name is not covered.
    #[error("the certificate does not cover {0} (subject alternative names)")]
    NotFor(String),
    /// Not yet valid.
    #[error("the certificate is not valid before {0}")]
    NotYetValid(Timestamp),
    /// No longer valid.
    #[error("the certificate expired at {0}")]
    Expired(Timestamp),
    /// An extended key usage without serving.
    #[error("the certificate's extended key usage does not include server authentication")]
    NotForServing,
    /// There is nothing to verify it with.
    #[error("there is no CA bundle to verify the certificate with")]
    NoBundle,
    /// Not verified by the bundle.
    #[error("the CA bundle does not verify the certificate, whose issuer is {issuer:?}: {reason}")]
    NotTrusted {
        /// Common name of the certificate's issuer.
        issuer: String,
        /// What the verifier said.
        reason: String,
    },
}

impl PairContents {
    /// Takes the three values out of a Secret's data.
    pub fn from_data(data: Option<&BTreeMap<String, ByteString>>) -> Self {
        let value = |key| {
            data.and_then(|data| data.get(key))
                .map(|value| value.0.clone())
                .unwrap_or_default()
        };
        Self {
            tls_crt: value(TLS_CRT),
            tls_key: PrivateKey::new(value(TLS_KEY)),
            ca_crt: value(CA_CRT),
        }
    }
}

impl fmt::Debug for PairContents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PairContents")
            .field("tls_crt", &self.tls_crt.len())
            .field("tls_key", &self.tls_key)
            .field("ca_crt", &self.ca_crt.len())
            .finish()
    }
}

impl ServingPair {
    /// Reads a pair and checks everything about it.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn check(
        tls_crt: &[u8],
        tls_key: &PrivateKey,
        bundle: &Bundle,
        service: &ServiceName,
        now: Timestamp,
    ) -> Result<Self, PairError> {
        let pair = Self::load(tls_crt, tls_key)?;
        pair.verify(bundle, service, now)?;
        Ok(pair)
    }

    /// Reads a pair and checks that key and certificate belong together.
    ///
    /// # Errors
    /// When one of them is missing, cannot be read, or belongs to another.
    pub fn load(tls_crt: &[u8], tls_key: &PrivateKey) -> Result<Self, PairError> {
        let chain = read_chain(tls_crt)?;
        let key = read_key(tls_key)?;
        let signer = aws_lc_rs::sign::any_supported_type(&key).map_err(|_| PairError::BadKey)?;
        let certified =
            CertifiedKey::new(chain.iter().map(|one| one.der().clone()).collect(), signer);
        certified.keys_match().map_err(|_| PairError::Mismatch)?;
        let mut chain = chain.into_iter();
        let leaf = chain.next().ok_or(PairError::NoCertificate)?;
        Ok(Self {
            certified: Arc::new(certified),
            leaf,
            intermediates: chain.take(LONGEST_CHAIN).collect(),
        })
    }

    /// Name, dates and trust.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn verify(
        &self,
        bundle: &Bundle,
        service: &ServiceName,
        now: Timestamp,
    ) -> Result<(), PairError> {
        self.covers(&service.called_as())?;
        self.in_date(now)?;
        self.trusted_by(bundle, now)
    }

    /// Whether the certificate covers `name`.
    ///
    /// # Errors
    /// [`PairError::NotFor`], or when the certificate is beyond what TLS can use.
    pub fn covers(&self, name: &str) -> Result<(), PairError> {
        let wanted = ServerName::try_from(name).map_err(|_| PairError::NotFor(name.to_owned()))?;
        verify_server_name(&self.parsed()?, &wanted).map_err(|_| PairError::NotFor(name.to_owned()))
    }

    /// Whether the dates hold.
    ///
    /// # Errors
    /// [`PairError::NotYetValid`] or [`PairError::Expired`].
    pub fn in_date(&self, now: Timestamp) -> Result<(), PairError> {
        let validity = self.leaf.validity();
        if now < validity.not_before {
            return Err(PairError::NotYetValid(validity.not_before));
        }
        if now > validity.not_after {
            return Err(PairError::Expired(validity.not_after));
        }
        Ok(())
    }

    /// Whether the API server, with `bundle` as its `caBundle`, accepts the certificate at `now`.
    ///
    /// # Errors
    /// [`PairError::NoBundle`], [`PairError::NotForServing`] or [`PairError::NotTrusted`].
    pub fn trusted_by(&self, bundle: &Bundle, now: Timestamp) -> Result<(), PairError> {
        if bundle.is_empty() {
            return Err(PairError::NoBundle);
        }
        if !self.leaf.serves_tls() {
            return Err(PairError::NotForServing);
        }
        if bundle.contains(&self.leaf) {
            return Ok(());
        }
        // Unlike rustls, Go looks at the dates and the CA bit of a root too.
        let anchors: Vec<&Certificate> = bundle
            .certificates()
            .iter()
            .filter(|anchor| anchor.may_sign() && anchor.validity().contains(now))
            .collect();
        if anchors.is_empty() {
            return Err(self.not_trusted("no CA in the bundle is in date and may sign"));
        }
        if self.leaf.is_authority() {
            return if self.reaches(&self.leaf, &anchors, now, LONGEST_PATH) {
                Ok(())
            } else {
                Err(self.not_trusted("none of its CAs signed it"))
            };
        }
        self.has_path(&anchors, now)
    }

    /// What a TLS listener serves.
    pub fn certified(&self) -> &Arc<CertifiedKey> {
        &self.certified
    }

    /// The serving certificate.
    pub fn leaf(&self) -> &Certificate {
        &self.leaf
    }

    fn has_path(&self, anchors: &[&Certificate], now: Timestamp) -> Result<(), PairError> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(anchors.iter().map(|anchor| anchor.der().clone()));
        let intermediates: Vec<CertificateDer<'static>> = self
            .intermediates
            .iter()
            .map(|one| one.der().clone())
            .collect();
        let time = UnixTime::since_unix_epoch(span(Timestamp::UNIX_EPOCH, now));
        verify_server_cert_signed_by_trust_anchor(
            &self.parsed()?,
            &roots,
            &intermediates,
            time,
            aws_lc_rs::default_provider()
                .signature_verification_algorithms
                .all,
        )
        .map_err(|error| self.not_trusted(&error.to_string()))
    }

    /// A path for a serving certificate that has the CA bit: Go accepts one, rustls has no way to ask for it.
    fn reaches(
        &self,
        from: &Certificate,
        anchors: &[&Certificate],
        now: Timestamp,
        steps: usize,
    ) -> bool {
        if anchors.iter().any(|anchor| from.is_signed_by(anchor)) {
            return true;
        }
        steps > 0
            && self.intermediates.iter().any(|next| {
                next.may_sign()
                    && next.validity().contains(now)
                    && from.is_signed_by(next)
                    && self.reaches(next, anchors, now, steps - 1)
            })
    }

    fn parsed(&self) -> Result<ParsedCertificate<'_>, PairError> {
        ParsedCertificate::try_from(self.leaf.der())
            .map_err(|error| PairError::BadCertificate(error.to_string()))
    }

    fn not_trusted(&self, reason: &str) -> PairError {
        PairError::NotTrusted {
            issuer: self.leaf.issuer_common_name().to_owned(),
            reason: reason.to_owned(),
        }
    }
}

impl fmt::Debug for ServingPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServingPair").field(&self.leaf).finish()
    }
}

fn read_chain(tls_crt: &[u8]) -> Result<Vec<Certificate>, PairError> {
    if tls_crt.trim_ascii().is_empty() {
        return Err(PairError::NoCertificate);
    }
    let bundle =
        Bundle::from_pem(tls_crt).map_err(|error| PairError::BadCertificate(error.to_string()))?;
    Ok(bundle.certificates().to_vec())
}

fn read_key(tls_key: &PrivateKey) -> Result<PrivateKeyDer<'static>, PairError> {
    if tls_key.expose().trim_ascii().is_empty() {
        return Err(PairError::NoKey);
    }
    PrivateKeyDer::from_pem_slice(tls_key.expose()).map_err(|_| PairError::BadKey)
}

#[cfg(test)]
mod tests;
