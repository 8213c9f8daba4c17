//! The operator's own certificate authority: making one, reading one back, issuing with it.
//!
//! Keys are ECDSA P-256. Subject and authority key identifiers are set, so that a verifier that knows several CAs of
//! this name finds the right one. Nothing here decides when to issue (see [`super::rotation`]).

use std::time::Duration;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PublicKeyData,
};
use time::OffsetDateTime;
use x509_parser::parse_x509_certificate;

use super::bundle::{Bundle, BundleError};
use super::certificate::{Certificate, CertificateError};
use super::key::PrivateKey;
use super::lifetimes::{BACKDATE, after, before};
use super::names::ServiceName;

/// Common name of every CA that this program makes.
pub const AUTHORITY_NAME: &str = "sriov-operator-ca";

/// The longest common name that X.509 allows.
const LONGEST_COMMON_NAME: usize = 64;

/// A CA certificate with its key, known to belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    certificate: Certificate,
    key: PrivateKey,
}

/// A serving certificate with its key, as an authority issued it.
#[derive(Clone, Debug)]
pub struct IssuedPair {
    certificate: Certificate,
    key: PrivateKey,
}

/// Why a CA cannot be made, read or used.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// The certificate's PEM.
    #[error("its certificate cannot be read: {0}")]
    Bundle(#[from] BundleError),
    /// The certificate itself.
    #[error("its certificate cannot be read: {0}")]
    Certificate(#[from] CertificateError),
    /// More or fewer than one certificate.
    #[error("it has {0} certificates instead of one")]
    Count(usize),
    /// No CA bit, or a key usage without signing.
    #[error("its certificate may not sign others")]
    MayNotSign,
    /// The key cannot be parsed; its text is never repeated.
    #[error("its key cannot be read")]
    Key,
    /// Key and certificate do not belong together.
    #[error("its key does not match its certificate")]
    Mismatch,
    /// Dates that a certificate cannot hold.
    #[error("{0} cannot be written into a certificate")]
    Date(Timestamp),
    /// The cryptographic library failed.
    #[error("failed to issue a certificate: {0}")]
    Issue(#[from] rcgen::Error),
}

impl Authority {
    /// Makes a new CA that lasts for `lifetime` from `now`.
    ///
    /// # Errors
    /// When the end lies beyond what a certificate can hold, or key generation fails.
    pub fn make(now: Timestamp, lifetime: Duration) -> Result<Self, AuthorityError> {
        let key = KeyPair::generate()?;
        let mut params = params(AUTHORITY_NAME, now, after(now, lifetime))?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        Ok(Self {
            certificate: Certificate::parse(params.self_signed(&key)?.into())?,
            key: PrivateKey::new(key.serialize_pem()),
        })
    }

    /// Reads a CA from PEM and checks that it can sign. Its dates are not looked at.
    ///
    /// # Errors
    /// Says what is wrong with it, without repeating any of it.
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, AuthorityError> {
        let bundle = Bundle::from_pem(certificate)?;
        let [certificate] = bundle.certificates() else {
            return Err(AuthorityError::Count(bundle.certificates().len()));
        };
        if !certificate.may_sign() {
            return Err(AuthorityError::MayNotSign);
        }
        let pair = key_pair(key)?;
        let (_, x509) =
            parse_x509_certificate(certificate.der()).map_err(|_| AuthorityError::Key)?;
        if x509.public_key().raw != pair.subject_public_key_info() {
            return Err(AuthorityError::Mismatch);
        }
        Ok(Self {
            certificate: certificate.clone(),
            key: PrivateKey::new(pair.serialize_pem()),
        })
    }

    /// The CA certificate.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// The CA's private key, for the Secret that keeps it.
    pub fn key(&self) -> &PrivateKey {
        &self.key
    }

    /// Issues a serving pair for `service` that lasts for `lifetime` from `now`, or until this CA ends.
    ///
    /// # Errors
    /// When a name is no DNS name, or the cryptographic library fails.
    pub fn issue(
        &self,
        service: &ServiceName,
        now: Timestamp,
        lifetime: Duration,
    ) -> Result<IssuedPair, AuthorityError> {
        let issuer =
            Issuer::from_ca_cert_der(self.certificate.der(), key_pair(self.key.expose())?)?;
        let not_after = after(now, lifetime).min(self.certificate.validity().not_after);
        let called_as = service.called_as();
        // The names that count are in the SANs; a subject that is too long would only make it unreadable.
        let subject = if called_as.len() <= LONGEST_COMMON_NAME {
            called_as.as_str()
        } else {
            "sriov-operator"
        };
        let mut params = params(subject, now, not_after)?;
        params.subject_alt_names = CertificateParams::new(service.dns_names())?.subject_alt_names;
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        Ok(IssuedPair {
            certificate: Certificate::parse(params.signed_by(&key, &issuer)?.into())?,
            key: PrivateKey::new(key.serialize_pem()),
        })
    }
}

impl IssuedPair {
    /// The serving certificate.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// Its private key.
    pub fn key(&self) -> &PrivateKey {
        &self.key
    }
}

fn params(
    common_name: &str,
    now: Timestamp,
    not_after: Timestamp,
) -> Result<CertificateParams, AuthorityError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, common_name);
    params.not_before = date(before(now, BACKDATE))?;
    params.not_after = date(not_after)?;
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

fn date(at: Timestamp) -> Result<OffsetDateTime, AuthorityError> {
    // The encoder knows no years before 0; no sane clock is before 1970.
    if at < Timestamp::UNIX_EPOCH {
        return Err(AuthorityError::Date(at));
    }
    OffsetDateTime::from_unix_timestamp(at.as_second()).map_err(|_| AuthorityError::Date(at))
}

fn key_pair(pem: &[u8]) -> Result<KeyPair, AuthorityError> {
    let text = str::from_utf8(pem).map_err(|_| AuthorityError::Key)?;
    KeyPair::from_pem(text).map_err(|_| AuthorityError::Key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certs::testing::{authority, now, operator_service};
    use x509_parser::extensions::ParsedExtension;

    fn key_ids(certificate: &Certificate) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        let (_, x509) = parse_x509_certificate(certificate.der()).unwrap();
        let (mut subject, mut authority) = (None, None);
        for extension in x509.extensions() {
            match extension.parsed_extension() {
                ParsedExtension::SubjectKeyIdentifier(id) => subject = Some(id.0.to_vec()),
                ParsedExtension::AuthorityKeyIdentifier(id) => {
                    authority = id.key_identifier.as_ref().map(|id| id.0.to_vec());
                }
                _ => {}
            }
        }
        (subject, authority)
    }

    #[test]
    fn a_certificate_lasts_from_a_little_before_now_for_its_lifetime() {
        let ca = Authority::make(now(), Duration::from_secs(60)).unwrap();
        let validity = ca.certificate().validity();
        assert_eq!(validity.not_before, before(now(), BACKDATE));
        assert_eq!(validity.not_after, after(now(), Duration::from_secs(60)));
    }

    #[test]
    fn a_leaf_never_outlives_its_ca() {
        let ca = Authority::make(now(), Duration::from_secs(60)).unwrap();
        for (lifetime, wanted) in [(20, 20), (60, 60), (3600, 60)] {
            let pair = ca
                .issue(&operator_service(), now(), Duration::from_secs(lifetime))
                .unwrap();
            assert_eq!(
                pair.certificate().validity().not_after,
                after(now(), Duration::from_secs(wanted))
            );
        }
    }

    #[test]
    fn key_identifiers_lead_from_the_leaf_to_its_ca() {
        let ca = authority();
        let pair = ca
            .issue(&operator_service(), now(), Duration::from_secs(60))
            .unwrap();
        let (ca_subject, _) = key_ids(ca.certificate());
        let (_, leaf_authority) = key_ids(pair.certificate());
        assert!(ca_subject.is_some());
        assert_eq!(ca_subject, leaf_authority);
    }

    #[test]
    fn a_service_with_a_long_name_gets_a_certificate_too() {
        let service = ServiceName::new("s".repeat(63), "n".repeat(63));
        let pair = authority()
            .issue(&service, now(), Duration::from_secs(60))
            .unwrap();
        assert_eq!(pair.certificate().common_name(), "sriov-operator");
    }

    #[test]
    fn a_ca_survives_being_written_and_read() {
        let ca = authority();
        let pem = ca.certificate().to_pem();
        assert_eq!(
            Authority::from_pem(pem.as_bytes(), ca.key().expose()).unwrap(),
            ca
        );
    }

    #[test]
    fn what_cannot_sign_is_no_ca() {
        let (ca, other) = (authority(), authority());
        let pair = ca
            .issue(&operator_service(), now(), Duration::from_secs(60))
            .unwrap();
        let pem = |certificate: &Certificate| certificate.to_pem().into_bytes();
        let read =
            |certificate: &[u8], key: &[u8]| Authority::from_pem(certificate, key).unwrap_err();
        assert!(matches!(
            read(&pem(pair.certificate()), pair.key().expose()),
            AuthorityError::MayNotSign
        ));
        assert!(matches!(
            read(&pem(ca.certificate()), other.key().expose()),
            AuthorityError::Mismatch
        ));
        assert!(matches!(
            read(&pem(ca.certificate()), b"-----BEGIN"),
            AuthorityError::Key
        ));
        assert!(matches!(
            read(b"", ca.key().expose()),
            AuthorityError::Bundle(BundleError::Empty)
        ));
        let both = [pem(ca.certificate()), pem(other.certificate())].concat();
        assert!(matches!(
            read(&both, ca.key().expose()),
            AuthorityError::Count(2)
        ));
    }

    #[test]
    fn a_lifetime_beyond_the_calendar_is_an_error_and_no_panic() {
        assert!(matches!(
            Authority::make(Timestamp::MIN, Duration::from_secs(60)),
            Err(AuthorityError::Date(_))
        ));
        let ca = Authority::make(now(), Duration::MAX).unwrap();
        assert_eq!(
            ca.certificate().validity().not_after.as_second(),
            Timestamp::MAX.as_second()
        );
    }
}
