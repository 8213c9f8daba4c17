//! Rules of `SriovNetworkPoolConfig`: how many nodes may be unavailable, which nodes are meant, and what goes together.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{
    Rules, Verdict,
    decode::Review,
    fault::Fault,
    labels,
    max_unavailable::{LEGAL, MaxUnavailable},
};
use crate::api::{
    SriovNetworkPoolConfigSpec,
    pool_config::{CONTROL_PLANE_POOL, LabelSelector, LabelSelectorRequirement},
};

pub(super) fn validate(review: &Review<'_>, rules: &Rules, verdict: &mut Verdict) {
    let Some(spec) = review.decode::<SriovNetworkPoolConfigSpec>(&[], verdict) else {
        return;
    };
    if review.namespace != rules.namespace {
        verdict.warn(format!(
            "metadata.namespace: only pools in {} have an effect",
            rules.namespace
        ));
    }
    if let Some(name) = spec.offload_pool() {
        check_offload(name, verdict);
    }
    let offload = spec.offload_pool().is_some();
    let mut not_with_offload = |field: &str, set: bool| {
        if offload && set {
            verdict.fault(Fault::forbidden(
                field,
                "may not be set together with ovsHardwareOffloadConfig, whose MachineConfigPool chooses the nodes",
            ));
        }
    };
    not_with_offload("spec.maxUnavailable", spec.max_unavailable.is_some());
    not_with_offload("spec.nodeSelector", spec.node_selector.is_some());
    if let Some(most) = &spec.max_unavailable {
        check_max_unavailable(most, verdict);
    }
    if let Some(selector) = &spec.node_selector {
        check_selector(selector, verdict);
    }
}

/// The MachineConfig is named after the MachineConfigPool.
fn check_offload(name: &str, verdict: &mut Verdict) {
    let field = "spec.ovsHardwareOffloadConfig.name";
    if name == CONTROL_PLANE_POOL {
        verdict.warn(format!(
            "{field}: {CONTROL_PLANE_POOL:?} has no effect: the control plane gets no hardware offload"
        ));
    } else if !labels::is_dns_subdomain(name) {
        verdict.fault(Fault::invalid(
            field,
            name,
            "must be the name of a MachineConfigPool: lower-case letters, digits, '-' and '.'",
        ));
    }
}

fn check_max_unavailable(most: &IntOrString, verdict: &mut Verdict) {
    match MaxUnavailable::parse(most) {
        Some(MaxUnavailable::Nodes(0)) => {
            verdict.warn("spec.maxUnavailable: 0 lets no node of the pool be drained, so that none is configured that needs it");
            return;
        }
        Some(_) => return,
        None => {}
    }
    match most {
        IntOrString::Int(number) => {
            verdict.fault(Fault::invalid("spec.maxUnavailable", number, LEGAL));
        }
        IntOrString::String(text) => {
            let detail = if text.parse::<u32>().is_ok() {
                format!("{LEGAL}; a number is written without quotes")
            } else {
                LEGAL.to_owned()
            };
            verdict.fault(Fault::invalid("spec.maxUnavailable", text, detail));
        }
    }
}

/// One selector that the controllers cannot read takes the RDMA mode from every node, so it is not let in.
fn check_selector(selector: &LabelSelector, verdict: &mut Verdict) {
    let labels = selector.match_labels.iter().flatten();
    labels::check("spec.nodeSelector.matchLabels", labels, verdict);
    for (index, requirement) in selector.match_expressions.iter().flatten().enumerate() {
        let path = format!("spec.nodeSelector.matchExpressions[{index}]");
        check_requirement(&path, requirement, verdict);
    }
}

fn check_requirement(path: &str, requirement: &LabelSelectorRequirement, verdict: &mut Verdict) {
    let LabelSelectorRequirement {
        key,
        operator,
        values,
    } = requirement;
    let values = values.as_deref().unwrap_or_default();
    if let Some(fault) = labels::key_fault(key) {
        verdict.fault(Fault::invalid(format!("{path}.key"), key, fault));
    }
    match operator.as_str() {
        "In" | "NotIn" if values.is_empty() => {
            let detail = "must be set when operator is In or NotIn";
            verdict.fault(Fault::required(format!("{path}.values"), detail));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be set when operator is Exists or DoesNotExist";
            verdict.fault(Fault::forbidden(format!("{path}.values"), detail));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => {
            let supported = ["In", "NotIn", "Exists", "DoesNotExist"];
            verdict.fault(Fault::not_supported(
                format!("{path}.operator"),
                other,
                &supported,
            ));
        }
    }
    for (index, value) in values.iter().enumerate() {
        if let Some(fault) = labels::value_fault(value) {
            verdict.fault(Fault::invalid(
                format!("{path}.values[{index}]"),
                value,
                fault,
            ));
        }
    }
}
