//! The four modes of certificates, and which one the settings ask for.
//!
//! The variables are the Go operator's. What follows from a mode (annotations, whose `caBundle`) is rendered elsewhere.

use super::bundle::{Bundle, BundleError};

/// The variable with the CA bundle of the operator's webhooks.
pub const OPERATOR_CA_CRT: &str = "ADMISSION_CONTROLLERS_CERTIFICATES_OPERATOR_CA_CRT";

/// The variable with the CA bundle of the injector.
pub const INJECTOR_CA_CRT: &str = "ADMISSION_CONTROLLERS_CERTIFICATES_INJECTOR_CA_CRT";

/// Who writes the serving pairs and the bundles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// This program does: a CA in a Secret, rotated.
    SelfSigned,
    /// cert-manager writes the Secrets, its CA injector the bundles.
    CertManager,
    /// OpenShift's service CA writes both.
    ServiceCa,
    /// The administrator writes the Secrets and hands the bundles in.
    Provided {
        /// Verifies the pair of the operator's webhooks.
        operator_bundle: Bundle,
        /// Verifies the pair of the injector.
        injector_bundle: Bundle,
    },
}

/// What the mode follows from. An empty text counts as unset.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inputs<'a> {
    /// Whether the cluster is an OpenShift.
    pub openshift: bool,
    /// `ADMISSION_CONTROLLERS_CERTIFICATES_CERT_MANAGER_ENABLED`.
    pub cert_manager: bool,
    /// [`OPERATOR_CA_CRT`].
    pub operator_ca_crt: &'a str,
    /// [`INJECTOR_CA_CRT`].
    pub injector_ca_crt: &'a str,
}

/// Settings that select no mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModeError {
    /// One bundle without the other.
    #[error(
        "{missing} is not set although {present} is: certificates of your own need both, each the PEM (or base64 of it) of the CA that verifies the Secret's pair; unset both for self-signed certificates"
    )]
    Unpaired {
        /// The variable that is set.
        present: &'static str,
        /// The variable that is not.
        missing: &'static str,
    },
    /// A bundle that cannot be read.
    #[error(
        "{variable}: {source}: it must be one or more PEM certificates, or base64 of them (once or twice)"
    )]
    Bundle {
        /// The variable at fault.
        variable: &'static str,
        /// What is wrong with its value, which is not repeated: it might hold a key.
        source: BundleError,
    },
}

impl Mode {
    /// Selects the mode: OpenShift first, then cert-manager, then bundles that are handed in, else self-signed.
    ///
    /// # Errors
    /// When one bundle is given without the other, or one that would be used cannot be read.
    pub fn select(inputs: Inputs<'_>) -> Result<Self, ModeError> {
        let operator = inputs.operator_ca_crt.trim();
        let injector = inputs.injector_ca_crt.trim();
        match (operator.is_empty(), injector.is_empty()) {
            (false, true) => Err(ModeError::Unpaired {
                present: OPERATOR_CA_CRT,
                missing: INJECTOR_CA_CRT,
            }),
            (true, false) => Err(ModeError::Unpaired {
                present: INJECTOR_CA_CRT,
                missing: OPERATOR_CA_CRT,
            }),
            _ if inputs.openshift => Ok(Self::ServiceCa),
            _ if inputs.cert_manager => Ok(Self::CertManager),
            (true, true) => Ok(Self::SelfSigned),
            (false, false) => Ok(Self::Provided {
                operator_bundle: read(OPERATOR_CA_CRT, operator)?,
                injector_bundle: read(INJECTOR_CA_CRT, injector)?,
            }),
        }
    }

    /// The mode's name, as in the folder `certs/` and in the documentation.
    pub fn name(&self) -> &'static str {
        match self {
            Self::SelfSigned => "self-signed",
            Self::CertManager => "cert-manager",
            Self::ServiceCa => "service-ca",
            Self::Provided { .. } => "provided",
        }
    }
}

fn read(variable: &'static str, value: &str) -> Result<Bundle, ModeError> {
    Bundle::from_setting(value).map_err(|source| ModeError::Bundle { variable, source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certs::testing::authority;

    #[test]
    fn openshift_comes_first_then_cert_manager_then_bundles_then_self_signed() {
        let pem = authority().certificate().to_pem();
        let mode = |openshift, cert_manager, bundle: &str| {
            let inputs = Inputs {
                openshift,
                cert_manager,
                operator_ca_crt: bundle,
                injector_ca_crt: bundle,
            };
            Mode::select(inputs).unwrap().name()
        };
        assert_eq!(mode(true, true, &pem), "service-ca");
        assert_eq!(mode(true, false, ""), "service-ca");
        assert_eq!(mode(false, true, &pem), "cert-manager");
        assert_eq!(mode(false, false, &pem), "provided");
        assert_eq!(mode(false, false, " \n"), "self-signed");
        assert_eq!(mode(true, false, "not read here"), "service-ca");
    }

    #[test]
    fn one_bundle_without_the_other_is_an_error_that_names_both_variables() {
        let pem = authority().certificate().to_pem();
        for (operator, injector) in [(pem.as_str(), ""), ("", pem.as_str())] {
            let inputs = Inputs {
                operator_ca_crt: operator,
                injector_ca_crt: injector,
                ..Inputs::default()
            };
            let text = Mode::select(inputs).unwrap_err().to_string();
            assert!(text.contains(OPERATOR_CA_CRT) && text.contains(INJECTOR_CA_CRT));
        }
    }

    #[test]
    fn a_bundle_that_cannot_be_read_is_named_and_not_repeated() {
        let pem = authority().certificate().to_pem();
        let inputs = Inputs {
            operator_ca_crt: &pem,
            injector_ca_crt: "nonsense",
            ..Inputs::default()
        };
        let text = Mode::select(inputs).unwrap_err().to_string();
        assert!(text.starts_with(INJECTOR_CA_CRT), "{text}");
        assert!(!text.contains("nonsense"), "{text}");
    }
}
