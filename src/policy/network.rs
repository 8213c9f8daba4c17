//! Rules of `SriovNetwork`, `SriovIBNetwork` and `OVSNetwork`: what the controller could not make a definition of is
//! refused, by the very function that makes it; so is a network that reaches out of its namespace without the right to.

use serde::de::DeserializeOwned;

use super::{Rules, Verdict, decode::Review};
use crate::{
    inject::label::is_dns_label,
    networks::{NetworkKind, NetworkRef, NetworkSpec, check},
};

pub(super) fn validate<S: NetworkSpec + DeserializeOwned>(
    kind: NetworkKind,
    review: &Review<'_>,
    rules: &Rules,
    verdict: &mut Verdict,
) {
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
    if !review.name.is_empty() && !is_dns_label(review.name) {
        verdict.warn(format!(
            "metadata.name: {:?} cannot be named by pods: they name networks by lower case letters, digits and '-', at most 63 of them",
            review.name
        ));
    }
    let network = NetworkRef {
        kind,
        namespace: review.namespace.to_owned(),
        name: review.name.to_owned(),
    };
    for fault in check(&network, &spec, &rules.namespace)
        .err()
        .into_iter()
        .flatten()
    {
        verdict.fault(fault);
    }
}
