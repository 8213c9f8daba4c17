//! Events about the config and other objects, published beside the reconcile so that a slow or refusing API server delays nothing.

use std::{collections::VecDeque, time::Duration};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use tokio::sync::mpsc;
use tracing::{debug, warn};

/// How many Events may wait. More than that at once says nothing that the status does not.
const QUEUE: usize = 128;
/// Events whose repetitions are counted instead of published anew.
const REMEMBERED: usize = 32;
/// How long publishing one may take.
const PUBLISH_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest note that the API server takes, in bytes.
const LONGEST_NOTE: usize = 1024;

/// A closed set of reasons, each with the action that it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// A certificate was issued or renewed.
    CertificateRenewed,
    /// A serving certificate cannot be used.
    CertificateRefused,
    /// A feature gate that is not known is set.
    UnknownFeatureGate,
    /// An entry of the injector's switches cannot be used.
    InvalidSwitches,
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
            Self::DriftRepaired => "Repair",
            Self::CertificateRenewed | Self::CertificateRefused => "Certificate",
            Self::DrainStarted | Self::DrainWaiting | Self::DrainBlocked | Self::DrainCompleted => {
                "DrainNode"
            }
            Self::DrainEnded => "CompleteDrain",
            Self::OffloadBlocked => "ConfigureOffload",
            Self::UnknownFeatureGate | Self::InvalidSwitches => "Validate",
        }
    }

    fn type_(self) -> EventType {
        match self {
            Self::ReadyAdded
            | Self::ReadyChanged
            | Self::ComponentEnabled
            | Self::ComponentDisabled
            | Self::CertificateRenewed
            | Self::DrainStarted
            | Self::DrainWaiting
            | Self::DrainCompleted
            | Self::DrainEnded => EventType::Normal,
            Self::DriftRepaired
            | Self::CertificateRefused
            | Self::UnknownFeatureGate
            | Self::InvalidSwitches
            | Self::DrainBlocked
            | Self::OffloadBlocked => EventType::Warning,
        }
    }
}

/// A recorder for each text. One recorder takes Events of one reason for repetitions, whatever their notes say, and the
/// second note is never seen.
struct Recorders {
    client: Client,
    reporter: Reporter,
    /// By reason and note, the last used at the end.
    known: VecDeque<((String, Option<String>), Recorder)>,
}

impl Recorders {
    fn of(&mut self, event: &Event) -> Recorder {
        let text = (event.reason.clone(), event.note.clone());
        let place = self.known.iter().position(|(known, _)| *known == text);
        let known = place.and_then(|place| self.known.remove(place));
        let recorder = known.map_or_else(
            || Recorder::new(self.client.clone(), self.reporter.clone()),
            |(_, recorder)| recorder,
        );
        if self.known.len() >= REMEMBERED {
            self.known.pop_front();
        }
        self.known.push_back((text, recorder.clone()));
        recorder
    }
}

/// Where Events are handed in. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Events(mpsc::Sender<(Event, ObjectReference)>);

impl Events {
    /// The sender, and the task that publishes what is handed in until every sender is gone.
    pub fn new(client: Client, instance: &str) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let (sender, mut receiver) = mpsc::channel::<(Event, ObjectReference)>(QUEUE);
        let reporter = Reporter {
            controller: "sriov-operator".into(),
            instance: Some(instance.to_owned()),
        };
        let mut recorders = Recorders {
            client,
            reporter,
            known: VecDeque::new(),
        };
        let publish = async move {
            while let Some((event, about)) = receiver.recv().await {
                let recorder = recorders.of(&event);
                match tokio::time::timeout(PUBLISH_TIMEOUT, recorder.publish(&event, &about)).await
                {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => {
                        warn!(reason = event.reason, %error, "failed to publish an Event");
                    }
                    Err(_) => warn!(
                        reason = event.reason,
                        "failed to publish an Event: no answer in time"
                    ),
                }
            }
        };
        (Self(sender), publish)
    }

    /// Hands in an Event. One that does not fit into the queue is dropped.
    pub fn publish(&self, about: &ObjectReference, reason: Reason, note: &str) {
        let note: String = note.chars().take(LONGEST_NOTE / 4).collect();
        let event = Event {
            type_: reason.type_(),
            reason: format!("{reason:?}"),
            note: Some(note),
            action: reason.action().into(),
            secondary: None,
        };
        if self.0.try_send((event, about.clone())).is_err() {
            debug!(?reason, "an Event is dropped: too many are waiting");
        }
    }
}
