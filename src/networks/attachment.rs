//! The network attachment definition of a network: where it is, what it says, whose it is.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{NetworkKind, NetworkRef, NetworkSpec};
use crate::{
    api::{API_VERSION, OVSNetworkSpec, SriovIBNetworkSpec, SriovNetworkSpec},
    inject::label::is_dns_label,
    policy::{Fault, labels},
};

/// Annotation of a definition: the resource that a pod gets with the network.
pub const RESOURCE_ANNOTATION: &str = "k8s.v1.cni.cncf.io/resourceName";
/// Annotation of a definition: the network that it comes of.
pub const OWNER_ANNOTATION: &str = "sriovnetwork.openshift.io/owner-ref";
/// Annotation of a network: where its definition was made last.
pub const LAST_NAMESPACE_ANNOTATION: &str =
    "operator.sriovnetwork.openshift.io/last-network-namespace";

/// What does not depend on the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The operator's namespace: only its networks reach into others.
    pub namespace: String,
    /// The prefix of resource names.
    pub resource_prefix: String,
}

/// A definition as it is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// The network that it comes of, whose name it has.
    pub network: NetworkRef,
    /// Where it is.
    pub namespace: String,
    /// Prefix and name of the resource.
    pub resource: String,
    /// The text of `spec.config`.
    pub config: String,
    /// The network's uid, when the definition is in its namespace and so can be owned by it.
    pub owner_uid: Option<String>,
}

impl Attachment {
    /// The object, with nothing but what is ours.
    pub fn object(&self) -> Value {
        let mut object = json!({
            "apiVersion": "k8s.cni.cncf.io/v1",
            "kind": "NetworkAttachmentDefinition",
            "metadata": {
                "name": self.network.name,
                "namespace": self.namespace,
                "annotations": {
                    RESOURCE_ANNOTATION: self.resource,
                    OWNER_ANNOTATION: self.network.to_string(),
                },
            },
            "spec": { "config": self.config },
        });
        if let (Some(uid), Some(metadata)) = (&self.owner_uid, object["metadata"].as_object_mut()) {
            let owner = json!({
                "apiVersion": API_VERSION, "kind": self.network.kind.as_str(), "name": self.network.name, "uid": uid,
            });
            metadata.insert("ownerReferences".into(), json!([owner]));
        }
        object
    }
}

/// What a network comes to. `spec` is that of the stored object, null when it has none; `uid` is nothing for one that is
/// not stored.
///
/// # Errors
/// Every fault of the spec.
pub fn attachment(
    network: &NetworkRef,
    uid: Option<&str>,
    spec: &Value,
    setting: &Setting,
) -> Result<Attachment, Vec<Fault>> {
    match network.kind {
        NetworkKind::Sriov => of::<SriovNetworkSpec>(network, uid, spec, setting),
        NetworkKind::Ib => of::<SriovIBNetworkSpec>(network, uid, spec, setting),
        NetworkKind::Ovs => of::<OVSNetworkSpec>(network, uid, spec, setting),
    }
}

fn of<S: NetworkSpec + DeserializeOwned + Default>(
    network: &NetworkRef,
    uid: Option<&str>,
    spec: &Value,
    setting: &Setting,
) -> Result<Attachment, Vec<Fault>> {
    let spec: S = if spec.is_null() {
        S::default()
    } else {
        serde_path_to_error::deserialize(spec).map_err(|error| {
            let field = match error.path().to_string().as_str() {
                "." => "spec".to_owned(),
                path => format!("spec.{path}"),
            };
            vec![Fault::invalid(field, None::<()>, error.inner().to_string())]
        })?
    };
    let config = check(network, &spec, &setting.namespace)?;
    let namespace = target(network, &spec);
    let owner_uid = uid
        .filter(|_| namespace == network.namespace)
        .map(str::to_owned);
    Ok(Attachment {
        network: network.clone(),
        namespace,
        resource: format!(
            "{}/{}",
            setting.resource_prefix,
            spec.common().resource_name
        ),
        config,
        owner_uid,
    })
}

/// Where the definition of a network is.
pub fn target(network: &NetworkRef, spec: &impl NetworkSpec) -> String {
    spec.common()
        .network_namespace
        .unwrap_or(&network.namespace)
        .to_owned()
}

/// The configuration of a network, if nothing is wrong with its spec. `operator_namespace` is the one whose networks
/// may be for other namespaces.
///
/// # Errors
/// Every fault.
pub fn check(
    network: &NetworkRef,
    spec: &impl NetworkSpec,
    operator_namespace: &str,
) -> Result<String, Vec<Fault>> {
    let mut faults = Vec::new();
    if let Some(target) = spec.common().network_namespace {
        let field = "spec.networkNamespace";
        if network.namespace != operator_namespace {
            let detail = format!(
                "networkNamespace cannot be set outside namespace {operator_namespace:?}; this network serves its own namespace"
            );
            faults.push(Fault::forbidden(field, detail));
        } else if !is_dns_label(target) {
            let detail = "a namespace has 1 to 63 lower-case letters, digits and '-', and begins and ends with a letter or digit";
            faults.push(Fault::invalid(field, target, detail));
        }
    }
    // A resource's name follows the rules of a label's value; an empty one is a network without a resource.
    if labels::value_fault(spec.common().resource_name).is_some() {
        let detail = "a resource name has at most 63 letters, digits, '-', '_' and '.', and begins and ends with a letter or digit";
        let resource = spec.common().resource_name;
        faults.push(Fault::invalid("spec.resourceName", resource, detail));
    }
    match spec.config(&network.name) {
        Ok(config) if faults.is_empty() => Ok(config),
        Ok(_) => Err(faults),
        Err(more) => {
            faults.extend(more);
            Err(faults)
        }
    }
}
