//! What the keeper is asked, what it answers, and how it fails.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::ATTEMPTS;
use super::secrets::AUTHORITY_SECRET;
use super::store::StoreError;
use crate::certs::authority::AuthorityError;
use crate::certs::bundle::Bundle;
use crate::certs::names::Endpoint;
use crate::certs::rotation::leaves::Reason;
use crate::certs::rotation::{Change, Phase};
use crate::settings::{INJECTOR_CA_CRT, OPERATOR_CA_CRT};

/// What one look needs to know from outside.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The wall clock.
    pub now: Timestamp,
    /// The `SriovOperatorConfig`, which our Secrets belong to.
    pub owner: &'a OwnerReference,
    /// The Services with their Secrets.
    pub endpoints: &'a [Endpoint],
    /// The `caBundle` of every webhook configuration of ours that exists, read with [`Bundle::from_live`]; one without
    /// a `caBundle` counts as an empty bundle.
    pub observed: &'a [Bundle],
}

/// What one look came to.
#[derive(Debug)]
pub struct KeeperOutcome {
    /// The bundle to publish in every configuration.
    pub bundle: Bundle,
    /// Where rotation stands.
    pub phase: Phase,
    /// How long until the next look at the latest; a changed Secret or `caBundle` asks for one at once.
    pub check_again_in: Duration,
    /// When the current CA expires, unless a new one is only being made known.
    pub authority_expires: Option<Timestamp>,
    /// What was done, for Events.
    pub news: Vec<News>,
    /// Secrets that could not be written, each by itself; the others were.
    pub faults: Vec<KeeperError>,
}

/// Something that was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// About the CA.
    Authority(Change),
    /// A pair was issued into a serving Secret.
    Issued {
        /// The Secret's name.
        secret: String,
        /// When the certificate expires.
        expires: Timestamp,
        /// Why.
        reason: Reason,
    },
}

impl fmt::Display for News {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Authority(change) => write!(f, "the certificate authority: {change}"),
            Self::Issued {
                secret,
                expires,
                reason,
            } => {
                write!(
                    f,
                    "a certificate valid until {expires} was issued into Secret {secret}: {reason}"
                )
            }
        }
    }
}

/// Why Secrets are not as they should be.
#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    /// A serving Secret of somebody else.
    #[error(
        "Secret {namespace}/{name} exists and was not made by sriov-operator, so it is left alone: either delete it, and a certificate is issued into a new one, or keep it and set {OPERATOR_CA_CRT} and {INJECTOR_CA_CRT} to the CA bundles that verify your own certificates"
    )]
    ForeignPair {
        /// Namespace of the Secret.
        namespace: String,
        /// Name of the Secret.
        name: String,
    },
    /// A CA Secret of somebody else.
    #[error(
        "Secret {namespace}/{AUTHORITY_SECRET} exists and was not made by sriov-operator, so it is left alone: delete or rename it, and a CA is made in a new one"
    )]
    ForeignAuthority {
        /// Namespace of the Secret.
        namespace: String,
    },
    /// A serving Secret where OpenShift's service CA would make its own.
    #[error(
        "Secret {namespace}/{name} was not made by OpenShift's service CA, which fills in no others: delete it, and one is made; its pair is served meanwhile"
    )]
    InTheWay {
        /// Namespace of the Secret.
        namespace: String,
        /// Name of the Secret.
        name: String,
    },
    /// A request failed.
    #[error("failed to {verb} Secret {name}: {source}")]
    Store {
        /// What was tried.
        verb: &'static str,
        /// Name of the Secret.
        name: String,
        /// What went wrong.
        source: StoreError,
    },
    /// A certificate could not be made.
    #[error("failed to make a certificate: {0}")]
    Authority(#[from] AuthorityError),
    /// Somebody else keeps writing the same Secrets.
    #[error(
        "the certificate Secrets in namespace {namespace} were changed by somebody else {ATTEMPTS} times in a row"
    )]
    Contended {
        /// Namespace of the Secrets.
        namespace: String,
    },
}

impl KeeperError {
    /// Whether waiting and trying again may help without anybody doing something.
    pub fn is_transient(&self) -> bool {
        !matches!(
            self,
            Self::ForeignPair { .. } | Self::ForeignAuthority { .. } | Self::InTheWay { .. }
        )
    }

    pub(super) fn is_conflict(&self) -> bool {
        matches!(
            self,
            Self::Store {
                source: StoreError::Conflict,
                ..
            }
        )
    }
}
