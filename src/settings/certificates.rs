//! Which of the four certificate modes the settings ask for, and the CA bundles that come with `provided`.

use base64::{Engine, engine::general_purpose::STANDARD};
use x509_parser::pem::Pem;

use super::{
    ClusterType,
    flags::SettingsCommand,
    parse,
    reader::{Reader, SettingsError},
    table::{
        ADMISSION_CONTROLLERS_CERTIFICATES_CERT_MANAGER_ENABLED as CERT_MANAGER,
        ADMISSION_CONTROLLERS_CERTIFICATES_INJECTOR_CA_CRT as INJECTOR_CA,
        ADMISSION_CONTROLLERS_CERTIFICATES_OPERATOR_CA_CRT as OPERATOR_CA,
    },
};

/// Who writes the serving pairs, and who fills in `caBundle`.
///
/// The first that applies of: OpenShift, cert-manager switched on, CA bundles given, self-signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateMode {
    /// The operator makes a CA and the pairs.
    SelfSigned,
    /// cert-manager issues the pairs; its CA injector fills in `caBundle`.
    CertManager,
    /// OpenShift's service CA does both.
    ServiceCa,
    /// The administrator provides the pairs, and these bundles.
    Provided(ProvidedBundles),
}

impl CertificateMode {
    /// The mode's name in messages and in the documentation.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::SelfSigned => "self-signed",
            Self::CertManager => "cert-manager",
            Self::ServiceCa => "service-ca",
            Self::Provided(_) => "provided",
        }
    }
}

/// The CA bundles of the environment, as PEM text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvidedBundles {
    /// That of the operator webhook.
    pub operator: String,
    /// That of the injector.
    pub injector: String,
}

pub(super) fn mode<C: SettingsCommand>(
    reader: &Reader<'_, C>,
    cluster_type: ClusterType,
) -> Result<CertificateMode, SettingsError> {
    let cert_manager = reader.read(&CERT_MANAGER, parse::boolean)?;
    let operator = reader.optional(&OPERATOR_CA, ca_bundle)?;
    let injector = reader.optional(&INJECTOR_CA, ca_bundle)?;
    let provided = match (operator, injector) {
        (Some(operator), Some(injector)) => Some(ProvidedBundles { operator, injector }),
        (None, None) => None,
        (Some(_), None) => {
            return Err(reader.conflict(
                &INJECTOR_CA,
                format_args!("given together with {}", OPERATOR_CA.variable),
            ));
        }
        (None, Some(_)) => {
            return Err(reader.conflict(
                &OPERATOR_CA,
                format_args!("given together with {}", INJECTOR_CA.variable),
            ));
        }
    };
    Ok(match (cluster_type, cert_manager, provided) {
        (ClusterType::OpenShift, ..) => CertificateMode::ServiceCa,
        (ClusterType::Kubernetes, true, _) => CertificateMode::CertManager,
        (ClusterType::Kubernetes, false, Some(bundles)) => CertificateMode::Provided(bundles),
        (ClusterType::Kubernetes, false, None) => CertificateMode::SelfSigned,
    })
}

/// PEM text with at least one certificate and nothing but certificates: as it is, in base64, or in base64 twice, as it
/// comes out of a Secret whose `ca.crt` was encoded for `caBundle` already.
fn ca_bundle(text: &str) -> Option<String> {
    let mut pem = text.to_owned();
    for _ in 0..2 {
        if pem.contains("-----BEGIN ") {
            break;
        }
        let packed: String = pem.split_whitespace().collect();
        pem = String::from_utf8(STANDARD.decode(packed).ok()?).ok()?;
    }
    // Two files joined without a newline in between.
    let pem = pem.replace("----------BEGIN ", "-----\n-----BEGIN ");
    let blocks: Vec<Pem> = Pem::iter_from_buffer(pem.as_bytes())
        .collect::<Result<_, _>>()
        .ok()?;
    let legal = !blocks.is_empty()
        && blocks
            .iter()
            .all(|block| block.label == "CERTIFICATE" && block.parse_x509().is_ok());
    legal.then_some(pem)
}
