//! Events about the config and other objects, published beside the reconcile so that a slow or refusing API server delays nothing.
//!
//! An Event that says the same as a recent one counts up that one. The note belongs to what is the same: a condition
//! that turns from False to True is another Event, not the first one twice.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use jiff::Timestamp;
use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1::Event},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::sync::mpsc;
use tracing::warn;

use crate::lines::said;

/// How many Events may wait. More than that at once says nothing that the status does not.
const QUEUE: usize = 128;
/// How long publishing one may take.
const PUBLISH_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest note that the API server takes, in bytes.
const LONGEST_NOTE: usize = 1024;
/// The longest `reportingInstance` that the API server takes, in bytes.
const LONGEST_INSTANCE: usize = 128;
const CONTROLLER: &str = "sriov-operator";
/// For how long an Event that says the same counts up the one before.
const SERIES: Duration = Duration::from_secs(360);

/// A closed set of reasons, each with the action that it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// There is a condition where there was none.
    ReadyAdded,
    /// A condition has a new status, reason or message.
    ReadyChanged,
    /// A component was switched on.
    ComponentEnabled,
    /// A component was switched off.
    ComponentDisabled,
    /// An object that somebody changed or deleted was brought back.
    DriftRepaired,
    /// Somebody keeps changing an object, so that repairs are spaced out.
    RepairsSpacedOut,
    /// A certificate was issued or renewed.
    CertificateRenewed,
    /// A serving certificate cannot be used.
    CertificateRefused,
    /// A feature gate that is not known is set.
    UnknownFeatureGate,
    /// An entry of the injector's switches cannot be used.
    InvalidSwitches,
    /// A policy, or a part of it, has no effect.
    InvalidPolicy,
    /// Policies contradict each other on a node.
    PolicyConflict,
    /// A pool selects no node.
    InvalidPool,
    /// Pools do not say what a node's RDMA mode is.
    AmbiguousPools,
    /// The config's node selector is malformed.
    InvalidNodeSelector,
    /// There is no room for the configuration of every node's device plugin.
    DevicePluginConfigFull,
    /// A node begins to be drained.
    DrainStarted,
    /// A node waits until it may be drained, which needs nobody's help.
    DrainWaiting,
    /// A node is not drained, or not further, until somebody does something about it.
    DrainBlocked,
    /// A node is drained: its daemon may go on.
    DrainCompleted,
    /// A node is back in use after its drain.
    DrainEnded,
    /// What a pool asks for cannot be made.
    OffloadBlocked,
}

impl Reason {
    fn action(self) -> &'static str {
        match self {
            Self::ReadyAdded | Self::ReadyChanged => "StatusChange",
            Self::ComponentEnabled | Self::ComponentDisabled => "Rollout",
            Self::DriftRepaired | Self::RepairsSpacedOut => "Repair",
            Self::CertificateRenewed | Self::CertificateRefused => "Certificate",
            Self::DrainStarted | Self::DrainWaiting | Self::DrainBlocked | Self::DrainCompleted => {
                "DrainNode"
            }
            Self::DrainEnded => "CompleteDrain",
            Self::OffloadBlocked => "ConfigureOffload",
            Self::UnknownFeatureGate
            | Self::InvalidSwitches
            | Self::InvalidPolicy
            | Self::PolicyConflict
            | Self::InvalidPool
            | Self::AmbiguousPools
            | Self::InvalidNodeSelector => "Validate",
            Self::DevicePluginConfigFull => "Configure",
        }
    }

    fn type_(self) -> &'static str {
        match self {
            Self::ReadyAdded
            | Self::ReadyChanged
            | Self::ComponentEnabled
            | Self::ComponentDisabled
            | Self::CertificateRenewed
            | Self::DrainStarted
            | Self::DrainWaiting
            | Self::DrainCompleted
            | Self::DrainEnded => "Normal",
            Self::DriftRepaired
            | Self::RepairsSpacedOut
            | Self::CertificateRefused
            | Self::UnknownFeatureGate
            | Self::InvalidSwitches
            | Self::InvalidPolicy
            | Self::PolicyConflict
            | Self::InvalidPool
            | Self::AmbiguousPools
            | Self::InvalidNodeSelector
            | Self::DevicePluginConfigFull
            | Self::DrainBlocked
            | Self::OffloadBlocked => "Warning",
        }
    }
}

/// Something to tell.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Told {
    namespace: String,
    uid: String,
    reason: Reason,
    note: String,
}

/// Where Events are handed in. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Events {
    queue: mpsc::Sender<(Told, ObjectReference)>,
    dropped: Arc<AtomicU64>,
}

impl Events {
    /// The sender, and the task that publishes what is handed in until every sender is gone.
    pub fn new(client: Client, instance: &str) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let (queue, mut receiver) = mpsc::channel::<(Told, ObjectReference)>(QUEUE);
        let dropped = Arc::new(AtomicU64::new(0));
        let events = Self {
            queue,
            dropped: Arc::clone(&dropped),
        };
        let mut publisher = Publisher {
            client,
            instance: cut(instance, LONGEST_INSTANCE),
            recent: HashMap::new(),
        };
        let publish = async move {
            while let Some((told, about)) = receiver.recv().await {
                let reason = told.reason;
                match tokio::time::timeout(PUBLISH_TIMEOUT, publisher.publish(told, about)).await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => {
                        warn!(?reason, error = %said(&error), "failed to publish an Event");
                    }
                    Err(_) => warn!(?reason, "failed to publish an Event: no answer in time"),
                }
                let count = dropped.swap(0, Ordering::Relaxed);
                if count > 0 {
                    warn!(count, "Events were dropped: too many were waiting");
                }
            }
        };
        (events, publish)
    }

    /// Hands in an Event. One that does not fit into the queue is dropped.
    pub fn publish(&self, about: &ObjectReference, reason: Reason, note: &str) {
        let told = Told {
            namespace: about.namespace.clone().unwrap_or_default(),
            uid: about.uid.clone().unwrap_or_default(),
            reason,
            note: cut(note, LONGEST_NOTE),
        };
        if self.queue.try_send((told, about.clone())).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

struct Publisher {
    client: Client,
    instance: String,
    recent: HashMap<Told, Series>,
}

/// An Event that was published.
struct Series {
    name: String,
    count: u32,
    last: Instant,
}

impl Publisher {
    async fn publish(&mut self, told: Told, about: ObjectReference) -> Result<(), kube::Error> {
        self.recent
            .retain(|_, series| series.last.elapsed() < SERIES);
        let events: Api<Event> = Api::namespaced(self.client.clone(), &told.namespace);
        let now = MicroTime(Timestamp::now());
        if let Some(series) = self.recent.get_mut(&told) {
            let count = series.count + 1;
            let patch = json!({"series": {"count": count, "lastObservedTime": now}});
            let params = PatchParams::default();
            match events
                .patch(&series.name, &params, &Patch::Merge(patch))
                .await
            {
                Ok(_) => {
                    series.count = count;
                    series.last = Instant::now();
                    return Ok(());
                }
                // It has expired or was deleted: it is told anew.
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        let name = format!(
            "{}.{:x}",
            about.name.as_deref().unwrap_or(CONTROLLER),
            now.0.as_nanosecond()
        );
        let event = Event {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                namespace: Some(told.namespace.clone()),
                ..ObjectMeta::default()
            },
            action: Some(told.reason.action().into()),
            event_time: Some(now),
            note: Some(told.note.clone()),
            reason: Some(format!("{:?}", told.reason)),
            regarding: Some(about),
            reporting_controller: Some(CONTROLLER.into()),
            reporting_instance: Some(self.instance.clone()),
            type_: Some(told.reason.type_().into()),
            ..Event::default()
        };
        events.create(&PostParams::default(), &event).await?;
        let series = Series {
            name,
            count: 1,
            last: Instant::now(),
        };
        self.recent.insert(told, series);
        Ok(())
    }
}

/// At most so many bytes, ending between characters.
fn cut(text: &str, longest: usize) -> String {
    let mut room = longest;
    text.chars()
        .take_while(|character| {
            let fits = character.len_utf8() <= room;
            room = room.saturating_sub(character.len_utf8());
            fits
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stores::fake_api::FakeApi;

    #[tokio::test(start_paused = true)]
    async fn what_does_not_fit_into_the_queue_is_dropped_and_what_follows_is_told() {
        let api = FakeApi::default();
        api.set_silent(true);
        let (events, publish) = Events::new(api.client(), "pod");
        let publishing = tokio::spawn(publish);
        let about = ObjectReference {
            namespace: Some("sriov".into()),
            name: Some("default".into()),
            ..ObjectReference::default()
        };
        let tell = |note: usize| events.publish(&about, Reason::DriftRepaired, &note.to_string());
        (0..QUEUE + 10).for_each(tell);
        assert_eq!(events.dropped.load(Ordering::Relaxed), 10);
        // The one that is on its way is given up.
        tokio::time::sleep(PUBLISH_TIMEOUT).await;
        api.set_silent(false);
        tokio::time::sleep(PUBLISH_TIMEOUT).await;
        assert_eq!(events.dropped.load(Ordering::Relaxed), 0, "it is told");
        let posted = api.requests("POST").len();
        assert!(posted >= QUEUE - 2, "{posted} were told");
        tell(QUEUE * 2);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(api.requests("POST").len(), posted + 1);
        drop(events);
        publishing.await.unwrap();
    }

    #[test]
    fn texts_fit_the_api_server() {
        assert_eq!(cut("short", 1024), "short");
        let cut = cut(&"é".repeat(700), LONGEST_NOTE);
        assert_eq!(cut.len(), 1024);
        assert!("é".repeat(700).starts_with(&cut));
    }
}
