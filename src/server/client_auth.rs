//! Which clients may connect, when that is restricted: a certificate of a given CA, and a name in it.

use std::{fs, sync::Arc};

use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore,
    SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, UnixTime, pem::PemObject},
    server::{
        WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};
use x509_parser::{extensions::GeneralName, prelude::*};

use super::tls;
use crate::settings::ClientCa;

/// The verifier for `ca`, whose file is read now.
pub(super) fn verifier(
    ca: &ClientCa,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, tls::Error> {
    let failed = |reason: String| tls::Error::ClientCa {
        path: ca.file.clone(),
        reason,
    };
    let pem = fs::read(&ca.file).map_err(|error| failed(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| failed(error.to_string()))?;
        roots
            .add(certificate)
            .map_err(|error| failed(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(failed("it holds no certificate".to_owned()));
    }
    let inner = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| failed(error.to_string()))?;
    if ca.allowed_names.is_empty() {
        return Ok(inner);
    }
    Ok(Arc::new(Named {
        inner,
        names: ca.allowed_names.clone(),
    }))
}

/// Also wants one of a few names.
#[derive(Debug)]
struct Named {
    inner: Arc<dyn ClientCertVerifier>,
    names: Vec<String>,
}

impl Named {
    fn carries_a_name(&self, certificate: &CertificateDer<'_>) -> bool {
        let Ok((_, certificate)) = X509Certificate::from_der(certificate) else {
            return false;
        };
        let allowed = |name: &str| self.names.iter().any(|allowed| allowed == name);
        let common = certificate
            .subject()
            .iter_common_name()
            .filter_map(|name| name.as_str().ok())
            .any(allowed);
        common
            || certificate
                .subject_alternative_name()
                .ok()
                .flatten()
                .is_some_and(|names| {
                    names.value.general_names.iter().any(|name| match name {
                        GeneralName::DNSName(name)
                        | GeneralName::RFC822Name(name)
                        | GeneralName::URI(name) => allowed(name),
                        _ => false,
                    })
                })
    }
}

impl ClientCertVerifier for Named {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self
            .inner
            .verify_client_cert(end_entity, intermediates, now)?;
        if self.carries_a_name(end_entity) {
            Ok(verified)
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
