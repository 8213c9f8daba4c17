//! Rules of `SriovNetwork`, `SriovIBNetwork` and `OVSNetwork`: only networks of the operator's namespace reach into others.

use serde::de::DeserializeOwned;

use super::{Rules, Verdict, decode::Review, fault::Fault};
use crate::api::{OVSNetworkSpec, SriovIBNetworkSpec, SriovNetworkSpec};

/// What the kinds of networks have in common, as far as the rules go.
pub(super) trait NetworkSpec: DeserializeOwned {
    fn network_namespace(&self) -> Option<&str>;

    /// The MTU, where the kind has one.
    fn mtu(&self) -> Option<i64> {
        None
    }
}

impl NetworkSpec for SriovNetworkSpec {
    fn network_namespace(&self) -> Option<&str> {
        self.network_namespace.as_deref()
    }
}

impl NetworkSpec for SriovIBNetworkSpec {
    fn network_namespace(&self) -> Option<&str> {
        self.network_namespace.as_deref()
    }
}

impl NetworkSpec for OVSNetworkSpec {
    fn network_namespace(&self) -> Option<&str> {
        self.network_namespace.as_deref()
    }

    fn mtu(&self) -> Option<i64> {
        self.mtu
    }
}

pub(super) fn validate<S: NetworkSpec>(review: &Review<'_>, rules: &Rules, verdict: &mut Verdict) {
    // No schema asks for a spec, and a network without one harms nobody.
    if review.spec.is_none() {
        return;
    }
    let required = [(
        "resourceName",
        "names the resource whose virtual functions are used",
    )];
    let Some(spec) = review.decode::<S>(&required, verdict) else {
        return;
    };
    let reaches_out = spec
        .network_namespace()
        .is_some_and(|target| !target.is_empty());
    if reaches_out && review.namespace != rules.namespace {
        verdict.fault(Fault::forbidden(
            "spec.networkNamespace",
            format!(
                "may only be set on networks in namespace {:?}; this one serves its own namespace",
                rules.namespace
            ),
        ));
    }
    if let Some(mtu) = spec.mtu().filter(|mtu| *mtu < 0) {
        verdict.fault(Fault::invalid("spec.mtu", mtu, "must not be negative"));
    }
}
