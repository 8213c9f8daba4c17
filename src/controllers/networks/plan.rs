//! What a network needs: from the network and the definitions around it to what is to be made, removed and told. Pure.

use std::sync::Arc;

use super::objects::{Claim, Definition, Network, Presence};
use crate::networks::{Attachment, NetworkRef, Setting, attachment};

/// What is known.
pub(super) struct View<'a> {
    /// Which network it is about.
    pub(super) network: &'a NetworkRef,
    /// The network, if there is one.
    pub(super) object: Option<&'a Network>,
    /// What does not depend on it.
    pub(super) setting: &'a Setting,
    /// The definition of the network's name in a namespace.
    pub(super) definition: &'a dyn Fn(&str) -> Option<Arc<Definition>>,
    /// The namespaces with a definition of the network's name that says that it comes of the network.
    pub(super) marked: &'a [String],
    /// Whether the operator is there to stay: its config is there and not being deleted.
    pub(super) installed: bool,
    /// A namespace.
    pub(super) namespace: &'a dyn Fn(&str) -> Option<Arc<Presence>>,
}

/// A definition that is to go: the very one that was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Doomed {
    pub(super) namespace: String,
    pub(super) uid: String,
}

/// What is to be done about the finalizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finalizer {
    /// Nothing.
    Leave,
    /// It is missing.
    Add,
    /// Once everything else is done, it goes.
    Remove,
}

/// What is to be done to make the definition as wanted.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Make {
    /// There is none.
    Create,
    /// There is this one, which is different.
    Change(Arc<Definition>),
}

/// What the annotation about the last namespace has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Note {
    /// What it says.
    Leave,
    /// This namespace.
    Write(String),
    /// Nothing.
    Remove,
}

/// The condition Ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ready {
    pub(super) status: bool,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// What a network needs, in the order in which it is done.
#[derive(Debug, PartialEq)]
pub(super) struct Plan {
    pub(super) finalizer: Finalizer,
    pub(super) delete: Vec<Doomed>,
    pub(super) wanted: Option<Attachment>,
    pub(super) make: Option<Make>,
    pub(super) note: Note,
    /// Nothing for a network that goes.
    pub(super) ready: Option<Ready>,
}

impl Ready {
    fn yes(namespace: &str) -> Self {
        Self {
            status: true,
            reason: "NetworkReady",
            message: format!("NetworkAttachmentDefinition is provisioned in namespace {namespace}"),
        }
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self {
            status: false,
            reason: "NetworkAttachmentDefinitionInvalid",
            message: message.into(),
        }
    }

    fn not_there(message: String) -> Self {
        Self {
            status: false,
            reason: "NetworkAttachmentDefinitionNotFound",
            message,
        }
    }

    fn no_namespace(message: String) -> Self {
        Self {
            status: false,
            reason: "NamespaceNotFound",
            message,
        }
    }
}

impl Plan {
    fn nothing() -> Self {
        Self {
            finalizer: Finalizer::Leave,
            delete: Vec::new(),
            wanted: None,
            make: None,
            note: Note::Leave,
            ready: None,
        }
    }
}

/// What a network needs.
pub(super) fn plan(view: &View<'_>) -> Plan {
    let Some(object) = view.object else {
        // Its finalizer was dropped while no operator ran. The mark alone is the proof here.
        return Plan {
            delete: view.all_marked(""),
            ..Plan::nothing()
        };
    };
    // What is in a namespace that goes will go, too: better while there is an operator to do it.
    if object.metadata.goes() || view.goes(&view.network.namespace) {
        return view.removal(object);
    }
    let ours = view.network.namespace == view.setting.namespace;
    // When the product is taken away, nothing is to wait for it.
    let finalizer = if ours && view.installed && !object.is_finalized() {
        Finalizer::Add
    } else {
        Finalizer::Leave
    };
    let uid = Some(object.metadata.uid.as_str());
    match attachment(view.network, uid, &object.spec, view.setting) {
        Ok(wanted) => Plan {
            finalizer,
            ..view.provision(object, wanted)
        },
        Err(faults) => {
            let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
            Plan {
                finalizer,
                ready: Some(Ready::invalid(faults.join("; "))),
                ..Plan::nothing()
            }
        }
    }
}

impl View<'_> {
    fn goes(&self, namespace: &str) -> bool {
        (self.namespace)(namespace).is_some_and(|namespace| namespace.goes())
    }

    /// The network goes. Without our finalizer nobody waits for us: the garbage collector does it.
    fn removal(&self, object: &Network) -> Plan {
        if !object.is_finalized() {
            return Plan::nothing();
        }
        let mut delete = self.all_marked(&object.metadata.uid);
        // A definition of an older version carries no mark: where the annotation says, the writer is the proof.
        delete.extend(
            object
                .last_namespace()
                .and_then(|last| self.unmarked(object, last)),
        );
        Plan {
            finalizer: Finalizer::Remove,
            delete,
            ..Plan::nothing()
        }
    }

    fn provision(&self, object: &Network, wanted: Attachment) -> Plan {
        let target = wanted.namespace.as_str();
        let last = object.last_namespace().filter(|last| *last != target);
        let mut delete: Vec<Doomed> = self
            .marked
            .iter()
            .filter(|namespace| *namespace != target)
            .filter_map(|namespace| {
                let definition = (self.definition)(namespace)?;
                // A copy that a user made elsewhere carries the mark as well.
                let left_behind = last == Some(namespace) || definition.is_of_operators();
                doomed(namespace, &definition).filter(|_| left_behind)
            })
            .collect();
        delete.extend(last.and_then(|last| self.unmarked(object, last)));
        let gone = match last {
            Some(_) => Note::Remove,
            None => Note::Leave,
        };
        let written = match object.last_namespace() {
            Some(last) if last == target => Note::Leave,
            _ => Note::Write(target.to_owned()),
        };
        let (make, note, ready) = match (self.definition)(target) {
            None => match (self.namespace)(target) {
                None => {
                    let message = format!("namespace {target} does not exist");
                    (None, gone, Ready::no_namespace(message))
                }
                Some(namespace) if namespace.goes() => {
                    let message = format!("namespace {target} is being deleted");
                    (None, gone, Ready::no_namespace(message))
                }
                Some(_) => (Some(Make::Create), written, Ready::yes(target)),
            },
            Some(live) => match live.claim(self.network, &object.metadata.uid) {
                Claim::Anothers(other) => {
                    let name = &self.network.name;
                    let message = format!(
                        "NetworkAttachmentDefinition {target}/{name} belongs to {other}: rename this network or delete the other"
                    );
                    (None, gone, Ready::invalid(message))
                }
                Claim::Ours | Claim::Nobodys if live.metadata.goes() => {
                    let name = &self.network.name;
                    let message = format!(
                        "NetworkAttachmentDefinition {target}/{name} is being deleted and is made again afterwards"
                    );
                    (None, gone, Ready::not_there(message))
                }
                Claim::Ours | Claim::Nobodys => {
                    let make = (!live.is_as_wanted(&wanted)).then_some(Make::Change(live));
                    (make, written, Ready::yes(target))
                }
            },
        };
        Plan {
            finalizer: Finalizer::Leave,
            delete,
            make,
            note,
            ready: Some(ready),
            wanted: Some(wanted),
        }
    }

    /// All definitions that are marked as the network's.
    fn all_marked(&self, uid: &str) -> Vec<Doomed> {
        self.marked
            .iter()
            .filter_map(|namespace| {
                let definition = (self.definition)(namespace)?;
                let ours = definition.claim(self.network, uid) == Claim::Ours;
                doomed(namespace, &definition).filter(|_| ours)
            })
            .collect()
    }

    /// The definition in a namespace, if it carries no mark and an operator wrote it.
    fn unmarked(&self, object: &Network, namespace: &str) -> Option<Doomed> {
        let definition = (self.definition)(namespace)?;
        let claim = definition.claim(self.network, &object.metadata.uid);
        doomed(namespace, &definition)
            .filter(|_| claim == Claim::Nobodys && definition.is_of_operators())
    }
}

/// A definition that is to go, unless it goes already.
fn doomed(namespace: &str, definition: &Definition) -> Option<Doomed> {
    (!definition.metadata.goes()).then(|| Doomed {
        namespace: namespace.to_owned(),
        uid: definition.metadata.uid.clone(),
    })
}

#[cfg(test)]
mod tests;
