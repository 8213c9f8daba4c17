//! One X.509 certificate: its DER and the few facts that decisions here need.
//!
//! Facts are read once, when the certificate is parsed. Trust is not judged here (see [`super::pair`]).

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::parse_x509_certificate;
use x509_parser::x509::{X509Name, X509Version};

use super::lifetimes::Validity;

/// A parsed certificate. Two are equal when their DER is.
#[derive(Clone)]
pub struct Certificate {
    der: CertificateDer<'static>,
    validity: Validity,
    subject: String,
    issuer: String,
    is_authority: bool,
    may_sign: bool,
    serves_tls: bool,
}

/// Bytes that are no certificate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a certificate: {0}")]
pub struct CertificateError(String);

impl Certificate {
    /// Reads a certificate.
    ///
    /// # Errors
    /// When the DER is malformed, is followed by something else, or has dates beyond the year 9999.
    pub fn parse(der: CertificateDer<'static>) -> Result<Self, CertificateError> {
        let (rest, x509) =
            parse_x509_certificate(&der).map_err(|error| CertificateError(error.to_string()))?;
        if !rest.is_empty() {
            return Err(CertificateError("bytes follow the certificate".into()));
        }
        let moment = |seconds| {
            Timestamp::from_second(seconds).map_err(|error| CertificateError(error.to_string()))
        };
        let validity = Validity {
            not_before: moment(x509.validity().not_before.timestamp())?,
            not_after: moment(x509.validity().not_after.timestamp())?,
        };
        let (subject, issuer) = (common_name(x509.subject()), common_name(x509.issuer()));
        let (is_authority, may_sign, serves_tls) =
            (x509.is_ca(), may_sign(&x509), serves_tls(&x509));
        Ok(Self {
            der,
            validity,
            subject,
            issuer,
            is_authority,
            may_sign,
            serves_tls,
        })
    }

    /// The bytes that were parsed.
    pub fn der(&self) -> &CertificateDer<'static> {
        &self.der
    }

    /// When it is valid.
    pub fn validity(&self) -> Validity {
        self.validity
    }

    /// The subject's common name, or nothing.
    pub fn common_name(&self) -> &str {
        &self.subject
    }

    /// The issuer's common name, or nothing.
    pub fn issuer_common_name(&self) -> &str {
        &self.issuer
    }

    /// Whether it carries the CA bit.
    pub fn is_authority(&self) -> bool {
        self.is_authority
    }

    /// Whether the API server takes it as the signer of another: CA bit (which version 1 did not have yet), and a key
    /// usage that does not exclude signing.
    pub fn may_sign(&self) -> bool {
        self.may_sign
    }

    /// Whether its extended key usage, where it has one, includes serving TLS.
    pub fn serves_tls(&self) -> bool {
        self.serves_tls
    }

    /// Whether `signer` made this certificate's signature and is named as its issuer. Dates are not looked at.
    pub fn is_signed_by(&self, signer: &Self) -> bool {
        let (Ok((_, child)), Ok((_, parent))) = (
            parse_x509_certificate(&self.der),
            parse_x509_certificate(&signer.der),
        ) else {
            return false;
        };
        child.issuer().as_raw() == parent.subject().as_raw()
            && child.verify_signature(Some(parent.public_key())).is_ok()
    }

    /// One PEM block, ending in a newline.
    pub fn to_pem(&self) -> String {
        let text = STANDARD.encode(&self.der);
        let mut pem = String::with_capacity(text.len() + text.len() / 64 + 64);
        pem.push_str("-----BEGIN CERTIFICATE-----\n");
        let mut rest = text.as_str();
        while !rest.is_empty() {
            let (line, tail) = rest.split_at(rest.len().min(64));
            pem.push_str(line);
            pem.push('\n');
            rest = tail;
        }
        pem.push_str("-----END CERTIFICATE-----\n");
        pem
    }
}

impl PartialEq for Certificate {
    fn eq(&self, other: &Self) -> bool {
        self.der == other.der
    }
}

impl Eq for Certificate {}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Certificate({:?}, from {} to {})",
            self.subject, self.validity.not_before, self.validity.not_after
        )
    }
}

fn common_name(name: &X509Name<'_>) -> String {
    name.iter_common_name()
        .find_map(|attribute| attribute.as_str().ok())
        .unwrap_or_default()
        .to_owned()
}

fn may_sign(x509: &X509Certificate<'_>) -> bool {
    let usage_allows = x509
        .key_usage()
        .is_ok_and(|usage| usage.is_none_or(|usage| usage.value.key_cert_sign()));
    (x509.is_ca() || x509.version() == X509Version::V1) && usage_allows
}

fn serves_tls(x509: &X509Certificate<'_>) -> bool {
    x509.extended_key_usage()
        .is_ok_and(|usage| usage.is_none_or(|usage| usage.value.any || usage.value.server_auth))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certs::testing::{LATER, authority, leaf, now};

    #[test]
    fn facts_are_read_from_the_certificate() {
        let ca = authority();
        let issued = leaf(&ca);
        let leaf = issued.certificate();
        assert!(ca.certificate().may_sign() && ca.certificate().is_authority());
        assert!(!leaf.may_sign() && leaf.serves_tls());
        assert_eq!(leaf.issuer_common_name(), "sriov-operator-ca");
        assert!(leaf.validity().contains(now()) && !leaf.validity().contains(*LATER));
    }

    #[test]
    fn a_signature_is_attributed_to_the_key_that_made_it_and_no_other_of_the_same_name() {
        let (one, other) = (authority(), authority());
        let issued = leaf(&one);
        assert!(issued.certificate().is_signed_by(one.certificate()));
        assert!(!issued.certificate().is_signed_by(other.certificate()));
        assert!(one.certificate().is_signed_by(one.certificate()));
    }

    #[test]
    fn garbage_is_refused_with_a_reason() {
        for bytes in [&b""[..], b"garbage", &[0x30, 0x82, 0xff, 0xff, 0]] {
            let error = Certificate::parse(CertificateDer::from(bytes.to_vec())).unwrap_err();
            assert!(error.to_string().starts_with("not a certificate: "));
        }
        let mut trailing = authority().certificate().der().to_vec();
        trailing.push(0);
        assert!(Certificate::parse(CertificateDer::from(trailing)).is_err());
    }
}
