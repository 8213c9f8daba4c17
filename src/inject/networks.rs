//! From the two network annotations to what their networks ask for: resources, and labels of the node.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use super::{
    Stop,
    message::{Faults, quote},
    nad::{Found, NadKey, NadView},
    pod::Unreadable,
    selection::{self, DEFAULT_NETWORK, NETWORKS, Selected},
    selector::NodeLabels,
};

/// How many NADs are read live for one pod. A watch lags by moments, so that more unknown ones than a pod has
/// interfaces are not new but wrong, and a pod must not cost a thousand reads.
const MOST_UNKNOWN: usize = 32;

/// The attachments that a pod asks for.
#[derive(Debug)]
pub(super) struct Networks {
    selected: Vec<Selected>,
    default: Option<Selected>,
}

/// What the attachments amount to.
#[derive(Debug, Default)]
pub(super) struct Attachments<'v> {
    /// How many of each resource they need.
    pub(super) resources: BTreeMap<&'v str, u64>,
    /// Where the pod has to run.
    pub(super) node_labels: NodeLabels<'v>,
}

impl Networks {
    /// Reads the annotations that `annotation` returns; nothing where they name no network. Warns of blank elements.
    pub(super) fn read<'p>(
        annotation: impl Fn(&str) -> Result<Option<Cow<'p, str>>, Unreadable>,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Self>, Stop> {
        let networks = annotation(NETWORKS)?.unwrap_or_default();
        let default = annotation(DEFAULT_NETWORK)?.unwrap_or_default();
        if networks.is_empty() && default.is_empty() {
            return Ok(None);
        }
        let mut faults = Faults::default();
        let selected = read_one(NETWORKS, &networks, &mut faults, warnings);
        let mut defaults = read_one(DEFAULT_NETWORK, &default, &mut faults, warnings).into_iter();
        let network = defaults.next();
        let more = defaults.len();
        if faults.is_empty() && !default.is_empty() && (network.is_none() || more > 0) {
            let named = usize::from(network.is_some()) + more;
            faults.push(format!(
                "annotation {DEFAULT_NETWORK}: {} names {named} networks, and a pod has one default network",
                quote(&default)
            ));
        }
        if !faults.is_empty() {
            return Err(Stop::Denied(faults.into_message()));
        }
        let networks = Self {
            selected,
            default: network,
        };
        Ok((!networks.selected.is_empty() || networks.default.is_some()).then_some(networks))
    }

    /// Looks all networks up, those without a namespace in `namespace`; a default network also in `multus_namespace`.
    pub(super) fn attach<'v>(
        &self,
        namespace: &str,
        multus_namespace: &str,
        nads: &'v dyn NadView,
    ) -> Result<Attachments<'v>, Stop> {
        let mut lookup = Lookup {
            nads,
            attachments: Attachments::default(),
            faults: Faults::default(),
            missing: BTreeSet::new(),
            unknown: BTreeSet::new(),
        };
        for selected in &self.selected {
            lookup.attach(
                NETWORKS,
                &[selected.namespace.as_deref().unwrap_or(namespace)],
                &selected.name,
            );
        }
        if let Some(default) = &self.default {
            let namespaces = match &default.namespace {
                Some(given) => &[given.as_str()][..],
                None if namespace == multus_namespace => &[namespace],
                None => &[namespace, multus_namespace],
            };
            lookup.attach(DEFAULT_NETWORK, namespaces, &default.name);
        }
        lookup.finish()
    }
}

fn read_one(
    annotation: &str,
    text: &str,
    faults: &mut Faults,
    warnings: &mut Vec<String>,
) -> Vec<Selected> {
    match selection::parse(text) {
        Ok(selections) => {
            if selections.blanks > 0 {
                warnings.push(format!(
                    "annotation {annotation}: blank elements between commas are skipped here, but Multus refuses them"
                ));
            }
            selections.networks
        }
        Err(found) => {
            for fault in found {
                faults.push(format!("annotation {annotation}: {fault}"));
            }
            Vec::new()
        }
    }
}

/// A walk through the networks of one pod.
struct Lookup<'v> {
    nads: &'v dyn NadView,
    attachments: Attachments<'v>,
    faults: Faults,
    missing: BTreeSet<String>,
    unknown: BTreeSet<NadKey>,
}

impl<'v> Lookup<'v> {
    /// Takes the first of `namespaces` that is known to have the network.
    fn attach(&mut self, annotation: &str, namespaces: &[&str], name: &str) {
        let mut unknown = Vec::new();
        for namespace in namespaces {
            match self.nads.find(namespace, name) {
                Found::Nad(nad) => {
                    for resource in nad.resources() {
                        *self.attachments.resources.entry(resource).or_default() += 1;
                    }
                    if let Some(selector) = nad.node_selector() {
                        for fault in self
                            .attachments
                            .node_labels
                            .add(selector, &key(namespace, name))
                        {
                            self.faults.push(fault);
                        }
                    }
                    return;
                }
                Found::Missing => {}
                Found::Unknown => unknown.push(key(namespace, name)),
            }
        }
        if !unknown.is_empty() {
            self.unknown.extend(unknown);
            return;
        }
        let places: Vec<String> = namespaces
            .iter()
            .map(|namespace| format!("{namespace}/{name}"))
            .collect();
        let fault = format!(
            "annotation {annotation}: network attachment definition {} does not exist",
            places.join(" or ")
        );
        if self.missing.insert(fault.clone()) {
            self.faults.push(fault);
        }
    }

    fn finish(mut self) -> Result<Attachments<'v>, Stop> {
        if self.unknown.len() > MOST_UNKNOWN {
            for nad in std::mem::take(&mut self.unknown) {
                self.faults
                    .push(format!("network attachment definition {nad} is not known"));
            }
        }
        if !self.unknown.is_empty() {
            Err(Stop::Unknown(self.unknown.into_iter().collect()))
        } else if self.faults.is_empty() {
            Ok(self.attachments)
        } else {
            Err(Stop::Denied(self.faults.into_message()))
        }
    }
}

fn key(namespace: &str, name: &str) -> NadKey {
    NadKey {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}
