//! Networks: each `SriovNetwork`, `SriovIBNetwork` and `OVSNetwork` has its network attachment definition.
//!
//! ```text
//! networks, definitions, namespaces -> stores -> plan (pure) -> calls
//! ```
//!
//! A definition is the network's when it says so in its annotation `sriovnetwork.openshift.io/owner-ref`. One that says
//! nothing and that nobody controls is adopted, as the reference's operator does; one that belongs to something else is
//! left alone. Nothing is written that is as wanted, whoever wrote it.

mod calls;
mod objects;
mod plan;
mod stores;

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use tracing::info;

use self::{
    calls::Calls,
    objects::{Definition, Network},
    plan::{Finalizer, Make, Note, Plan, Ready, View, plan},
    stores::Stores,
};
use super::{
    Controller, Error, Outcome, Queue,
    calls::Answer,
    drift::{Cause, Drift},
};
use crate::{
    api::API_VERSION,
    networks::{Attachment, NetworkRef, Setting},
    operator::{Events, Reason, status},
    server::metrics::Metrics,
    stores::{Key, Mirror},
};

/// The label of metrics about definitions.
const COMPONENT: &str = "networks";

/// The controller of networks.
pub struct Networks {
    setting: Setting,
    stores: Arc<Stores>,
    calls: Calls,
    events: Events,
    drift: Drift<NetworkRef, Attachment>,
}

impl Networks {
    /// The controller of one leadership, and the tasks that fill its stores.
    pub fn start(
        client: &Client,
        setting: &Setting,
        events: &Events,
        metrics: &Arc<Metrics>,
        queue: &Queue<NetworkRef>,
    ) -> (Self, Vec<Mirror>) {
        let (stores, mirrors) = Stores::start(client, setting, queue);
        let networks = Self {
            setting: setting.clone(),
            stores,
            calls: Calls::new(client.clone()),
            events: events.clone(),
            drift: Drift::new(COMPONENT, metrics),
        };
        (networks, mirrors)
    }
}

impl Controller for Networks {
    type Key = NetworkRef;
    const NAME: &'static str = "networks";
    const WORKERS: usize = 4;

    async fn reconcile(&self, network: &NetworkRef) -> Result<Outcome, Error> {
        let object = self
            .stores
            .networks(network.kind)
            .get(&network.namespace, &network.name);
        let marked = self.stores.marked(network);
        let plan = plan(&View {
            network,
            object: object.as_deref(),
            setting: &self.setting,
            definition: &|namespace| self.stores.definitions.get(namespace, &network.name),
            marked: &marked,
            installed: self.stores.installed(&self.setting.namespace),
            namespace: &|namespace| self.stores.namespaces.get("", namespace),
        });
        match &object {
            Some(object) => self.carry_out(network, object, plan).await,
            None => self.clear(network, plan).await,
        }
    }
}

impl Networks {
    /// The network is gone: what is left of it goes, once the API server has confirmed that.
    async fn clear(&self, network: &NetworkRef, plan: Plan) -> Result<Outcome, Error> {
        self.drift.forget(network);
        if plan.delete.is_empty() || !self.calls.is_gone(network).await? {
            return Ok(Outcome::Done);
        }
        self.delete(network, &plan).await?;
        Ok(Outcome::Done)
    }

    async fn carry_out(
        &self,
        network: &NetworkRef,
        object: &Network,
        plan: Plan,
    ) -> Result<Outcome, Error> {
        if plan.finalizer == Finalizer::Add {
            let answer = self.calls.finalize(network, object, true).await?;
            self.absorb_network(network, answer);
        }
        self.delete(network, &plan).await?;
        if plan.finalizer == Finalizer::Remove {
            let answer = self.calls.finalize(network, object, false).await?;
            self.absorb_network(network, answer);
            return Ok(Outcome::Done);
        }
        let Some(ready) = &plan.ready else {
            return Ok(Outcome::Done);
        };
        if let (Some(wanted), Some(make)) = (&plan.wanted, &plan.make) {
            match self.make(network, object, wanted, make).await {
                Ok(Made::Yes) => {}
                Ok(Made::Contested(ready, outcome)) => {
                    self.report(network, object, &ready).await?;
                    return Ok(outcome);
                }
                Err(error) if error.is_outdated() => return Err(error),
                Err(error) => {
                    self.drift.failed();
                    let ready = Ready::invalid(error.to_string());
                    self.report(network, object, &ready).await?;
                    return Err(error);
                }
            }
        } else if let Some(wanted) = plan.wanted.filter(|_| ready.status) {
            self.drift.is_as_wanted(network, wanted);
        }
        let annotation = match &plan.note {
            Note::Leave => None,
            Note::Write(namespace) => Some(Some(namespace.as_str())),
            Note::Remove => Some(None),
        };
        if let Some(namespace) = annotation {
            let answer = self.calls.annotate(network, object, namespace).await?;
            self.absorb_network(network, answer);
        }
        self.report(network, object, ready).await?;
        Ok(Outcome::Done)
    }

    async fn delete(&self, network: &NetworkRef, plan: &Plan) -> Result<(), Error> {
        for doomed in &plan.delete {
            self.calls.delete(&network.name, doomed).await?;
            info!(%network, namespace = doomed.namespace, "removed its definition");
        }
        Ok(())
    }

    /// Makes the definition as wanted.
    async fn make(
        &self,
        network: &NetworkRef,
        object: &Network,
        wanted: &Attachment,
        make: &Make,
    ) -> Result<Made, Error> {
        let change = match self.drift.judge(network, wanted) {
            Ok(change) => change,
            Err(contested) => {
                let ready = Ready::invalid(format!(
                    "NetworkAttachmentDefinition {}/{} is changed again and again by {}",
                    wanted.namespace, network.name, contested.manager
                ));
                return Ok(Made::Contested(ready, Outcome::Again(contested.retry_in)));
            }
        };
        let answer = match make {
            Make::Create => self.calls.create(wanted).await?,
            Make::Change(live) => self.calls.change(wanted, live).await?,
        };
        self.absorb_definition(wanted, answer);
        let manager = match make {
            Make::Create => None,
            Make::Change(live) => live.last_other_manager(),
        };
        self.drift.written(network, wanted.clone(), change, manager);
        if change == Cause::Drifted {
            let what = match make {
                Make::Create => "was deleted",
                Make::Change(_) => "was changed",
            };
            let note = format!(
                "NetworkAttachmentDefinition {}/{} {what} and is repaired",
                wanted.namespace, network.name
            );
            info!(%network, note);
            self.tell(network, object, Reason::DriftRepaired, &note);
        } else {
            info!(%network, namespace = wanted.namespace, "made its definition");
        }
        Ok(Made::Yes)
    }

    /// Writes the condition when it says something new.
    async fn report(
        &self,
        network: &NetworkRef,
        object: &Network,
        ready: &Ready,
    ) -> Result<(), Error> {
        let before = object.conditions();
        let stored = before
            .iter()
            .find(|condition| condition.type_ == status::READY);
        let condition = status::condition(
            before,
            status::READY,
            if ready.status { "True" } else { "False" },
            ready.reason,
            ready.message.clone(),
            object.metadata.generation,
            Timestamp::now(),
        );
        let is_told = stored.is_some_and(|stored| {
            (&stored.status, &stored.reason, stored.observed_generation)
                == (&condition.status, &condition.reason, condition.observed_generation)
                // What is fine has only one meaning; the reference's operator says it in other words.
                && (ready.status || stored.message == condition.message)
        });
        if is_told {
            return Ok(());
        }
        let answer = self.calls.report(network, object, &condition).await?;
        self.absorb_network(network, answer);
        let (reason, status, message) = match stored {
            None => (Reason::ReadyAdded, &condition.status, &condition.message),
            Some(_) => (Reason::ReadyChanged, &condition.status, &condition.message),
        };
        info!(%network, status, message, "Ready");
        let note = format!("Ready is {status}: {message}");
        self.tell(network, object, reason, &note);
        Ok(())
    }

    fn tell(&self, network: &NetworkRef, object: &Network, reason: Reason, note: &str) {
        let about = ObjectReference {
            api_version: Some(API_VERSION.into()),
            kind: Some(network.kind.as_str().into()),
            namespace: Some(network.namespace.clone()),
            name: Some(network.name.clone()),
            uid: Some(object.metadata.uid.clone()),
            resource_version: Some(object.metadata.resource_version.clone()),
            ..ObjectReference::default()
        };
        self.events.publish(&about, reason, note);
    }

    fn absorb_network(&self, network: &NetworkRef, answer: Option<Answer<Network>>) {
        if let Some(Answer { version, body }) = answer {
            let key = Key::new(&network.namespace, &network.name);
            let networks = self.stores.networks(network.kind);
            networks.absorb(&key, &version, body);
        }
    }

    fn absorb_definition(&self, wanted: &Attachment, answer: Answer<Definition>) {
        let key = Key::new(&wanted.namespace, &wanted.network.name);
        let Answer { version, body } = answer;
        self.stores.definitions.absorb(&key, &version, body);
    }
}

/// What came of making a definition.
enum Made {
    /// It is as wanted.
    Yes,
    /// Others keep changing it, and it is not repaired yet.
    Contested(Ready, Outcome),
}
