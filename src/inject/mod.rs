//! What is injected into pods: from a pod and a view of the cluster to a patch, as pure functions.
//!
//! [`decide`] is the one way in. It reads which networks the pod will attach to, counts the devices that they need, and
//! makes the patch that asks for them. It does no I/O: NADs come from a [`NadView`], switches from [`Loaded::parse`],
//! and what the view does not know is for the caller to read:
//!
//! ```text
//! decide(pod, index) ── Unknown(keys) ──> read them live into a Nads, once ──> decide(pod, Live { index, read })
//! ```

mod borrowed;
mod condition;
pub(crate) mod label;
mod message;
mod nad;
mod networks;
mod patch;
mod pod;
mod podnetinfo;
mod quantity;
mod resources;
pub mod selection;
mod selector;
mod spec;
mod switches;
#[cfg(test)]
mod tests;

use std::{borrow::Cow, collections::BTreeMap};

pub use self::{
    condition::match_condition,
    nad::{Found, Live, NODE_SELECTOR, Nad, NadKey, NadView, Nads},
    pod::{PodReview, Unreadable},
    quantity::{Quantity, QuantityError},
    resources::INJECTED_RESOURCES,
    selection::{DEFAULT_NETWORK, NETWORKS},
    switches::{CONFIG_KEY, Loaded, Switches},
};
use self::{
    networks::{Attachments, Networks},
    patch::{Part, Patch},
    podnetinfo::Shown,
    spec::Spec,
};

/// What does not change while the process runs.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where a default network without a namespace is looked up when the pod's namespace has none of the name.
    pub multus_namespace: String,
}

impl Default for Options {
    /// Multus' own default.
    fn default() -> Self {
        Self {
            multus_namespace: "kube-system".to_owned(),
        }
    }
}

/// What becomes of a pod. Warnings are bounded as the API server passes them on.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is admitted as it is.
    Unchanged {
        /// What its author should know.
        warnings: Vec<String>,
    },
    /// It is admitted with changes.
    Patched {
        /// The text of a JSON patch, which applies to the pod.
        patch: Vec<u8>,
        /// What its author should know.
        warnings: Vec<String>,
    },
    /// It is refused.
    Denied {
        /// All that is wrong, on one line: annotation, element, reason.
        message: String,
        /// What its author should know.
        warnings: Vec<String>,
    },
    /// The view lacks NADs, at most 32 of them: all of these are to be read, and the question put again with [`Live`].
    Unknown(Vec<NadKey>),
    /// The patch cannot be written, a fault of ours.
    Fault {
        /// Why not.
        message: String,
        /// What the pod's author should know.
        warnings: Vec<String>,
    },
}

/// Why there is nothing to admit.
#[derive(Debug)]
enum Stop {
    Denied(String),
    Unknown(Vec<NadKey>),
    Fault(String),
}

impl From<Unreadable> for Stop {
    fn from(error: Unreadable) -> Self {
        Self::Denied(error.to_string())
    }
}

impl From<serde_json::Error> for Stop {
    fn from(error: serde_json::Error) -> Self {
        Self::Fault(format!("the patch cannot be written: {error}"))
    }
}

/// Decides about the creation of a pod. The same pod, view and switches always get the same answer, and the pod that
/// comes out of a patch is left unchanged.
pub fn decide(
    pod: &PodReview<'_>,
    nads: &dyn NadView,
    switches: &Switches,
    options: &Options,
) -> Outcome {
    let mut warnings = Vec::new();
    let result = inject(pod, nads, switches, options, &mut warnings);
    let warnings = message::bounded(warnings);
    match result {
        Ok(None) => Outcome::Unchanged { warnings },
        Ok(Some(patch)) => Outcome::Patched { patch, warnings },
        Err(Stop::Denied(message)) => Outcome::Denied { message, warnings },
        Err(Stop::Unknown(nads)) => Outcome::Unknown(nads),
        Err(Stop::Fault(message)) => Outcome::Fault { message, warnings },
    }
}

/// The text of the patch, where the pod needs one.
fn inject(
    pod: &PodReview<'_>,
    nads: &dyn NadView,
    switches: &Switches,
    options: &Options,
    warnings: &mut Vec<String>,
) -> Result<Option<Vec<u8>>, Stop> {
    // What a label asks for comes first and wins, so that the networks the pod ends up with decide its resources.
    let injected = injected_annotations(pod, switches);
    let annotation = |key: &str| match injected.get(key) {
        Some(value) => Ok(Some(Cow::Borrowed(*value))),
        None => pod.annotation(key),
    };
    let attachments = match Networks::read(annotation, warnings)? {
        Some(networks) => networks.attach(&pod.namespace, &options.multus_namespace, nads)?,
        None => Attachments::default(),
    };

    let mut annotations = BTreeMap::new();
    for (&key, &value) in &injected {
        if pod.annotation(key)?.as_deref() != Some(value) {
            annotations.insert(key, value.to_owned());
        }
    }
    let mut patch = Patch::default();
    let needs_spec = !attachments.resources.is_empty() || !attachments.node_labels.is_empty();
    let spec = if needs_spec { pod.spec()? } else { None };
    if let Some(spec) = &spec {
        if let Some(record) =
            inject_resources(spec, &attachments, switches, annotation, &mut patch)?
        {
            annotations.insert(INJECTED_RESOURCES, record);
        }
        if !attachments.resources.is_empty() {
            let shown = Shown {
                labels: pod.labels().next().is_some(),
                annotations: pod.is_annotated() || !annotations.is_empty(),
                hugepages: switches.hugepages,
            };
            podnetinfo::inject(spec, shown, &mut patch).map_err(Stop::Denied)?;
        }
        if !attachments.node_labels.is_empty() {
            warnings.extend(attachments.node_labels.inject(spec, &mut patch));
        }
    }
    add_annotations(pod, annotations, &mut patch);
    if patch.is_empty() {
        return Ok(None);
    }
    Ok(Some(patch.text(pod)?))
}

/// The annotations that the pod's labels ask for; of one key, the injection that comes last.
fn injected_annotations<'s>(
    pod: &PodReview<'_>,
    switches: &'s Switches,
) -> BTreeMap<&'s str, &'s str> {
    let mut injected = BTreeMap::new();
    for (label, annotations) in &switches.injections {
        if pod
            .labels()
            .any(|(key, value)| key == label && value.eq_ignore_ascii_case("true"))
        {
            injected.extend(
                annotations
                    .iter()
                    .map(|(key, value)| (key.as_str(), value.as_str())),
            );
        }
    }
    injected
}

/// Makes the first container ask for what the attachments need. Returns the record of it where one is kept and changes.
fn inject_resources<'p>(
    spec: &Spec<'_>,
    attachments: &Attachments<'_>,
    switches: &Switches,
    annotation: impl Fn(&str) -> Result<Option<Cow<'p, str>>, Unreadable>,
    patch: &mut Patch,
) -> Result<Option<String>, Stop> {
    // Without containers the API server refuses the pod, whatever is injected.
    let Some((place, first)) = spec.first_container() else {
        return Ok(None);
    };
    let (additions, record) = if switches.honor_existing {
        let record = annotation(INJECTED_RESOURCES)?;
        resources::unrecorded(record.as_deref(), &attachments.resources).map_err(Stop::Denied)?
    } else {
        let additions = resources::shortfall(spec, &attachments.resources);
        (additions.map_err(Stop::Denied)?, None)
    };
    resources::add(&additions, place, first, patch).map_err(Stop::Denied)?;
    Ok(record)
}

fn add_annotations(pod: &PodReview<'_>, annotations: BTreeMap<&str, String>, patch: &mut Patch) {
    let exist = pod
        .metadata
        .as_ref()
        .is_some_and(|metadata| metadata.annotations.is_some());
    if exist {
        for (key, value) in annotations {
            patch.add_member(Part::Annotations, key, &value);
        }
    } else if !annotations.is_empty() {
        patch.make(Part::Annotations, &annotations);
    }
}
