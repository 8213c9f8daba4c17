//! What Events and logs tell about the config: each thing once, when it begins.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;
use parking_lot::Mutex;
use tracing::info;

use super::{
    events::{Events, Reason},
    status,
};
use crate::{
    api::{Condition, SriovOperatorConfig},
    apply::{Drift, ObjectRef},
    certs::{keeper::News, serving::Status},
    inject::Loaded,
    render::Component,
};

/// Tells, and remembers what it told.
pub(super) struct Announcer {
    events: Events,
    told: Mutex<Told>,
}

#[derive(Default)]
struct Told {
    enabled: Vec<(Component, bool)>,
    unknown_gates: Vec<String>,
    set_aside: Vec<String>,
    refused: Vec<String>,
}

impl Announcer {
    pub(super) fn new(events: Events) -> Self {
        Self {
            events,
            told: Mutex::default(),
        }
    }

    /// Forgets what was told: another config is another story.
    pub(super) fn forget(&self) {
        *self.told.lock() = Told::default();
    }

    fn tell(&self, config: &SriovOperatorConfig, reason: Reason, note: &str) {
        let about: ObjectReference = config.object_ref(&());
        self.events.publish(&about, reason, note);
    }

    /// The conditions that were written and differ from those before.
    pub(super) fn conditions(&self, config: &SriovOperatorConfig, changed: &[&Condition]) {
        for condition in changed
            .iter()
            .filter(|condition| condition.type_ == status::READY)
        {
            let note = format!("Ready is {}: {}", condition.status, condition.message);
            self.tell(config, Reason::ReadyChanged, &note);
        }
    }

    /// Whether a component is on.
    pub(super) fn component(
        &self,
        config: &SriovOperatorConfig,
        component: Component,
        enabled: bool,
    ) {
        let before = {
            let mut told = self.told.lock();
            let before = told
                .enabled
                .iter()
                .position(|(known, _)| *known == component);
            let before = before.map(|index| told.enabled.swap_remove(index).1);
            told.enabled.push((component, enabled));
            before
        };
        match (before, enabled) {
            (Some(true), true) | (Some(false) | None, false) => {}
            (_, true) => self.tell(
                config,
                Reason::ComponentEnabled,
                &format!("{component} is rolled out"),
            ),
            (_, false) => self.tell(
                config,
                Reason::ComponentDisabled,
                &format!("{component} is removed"),
            ),
        }
    }

    /// An object that somebody had changed or deleted is as it was.
    pub(super) fn repaired(
        &self,
        config: &SriovOperatorConfig,
        object: &ObjectRef,
        drifts: &[Drift],
    ) {
        let what = match drifts.iter().find(|drift| drift.object() == object) {
            Some(Drift::Changed(_, Some(manager))) => format!("was changed by {manager}"),
            Some(Drift::Deleted(_)) => "was deleted".to_owned(),
            Some(Drift::Changed(_, None) | Drift::Appeared(_)) | None => "was changed".to_owned(),
        };
        info!(%object, what, "repaired");
        self.tell(
            config,
            Reason::DriftRepaired,
            &format!("{object} {what} and is repaired"),
        );
    }

    /// What was issued, and pairs that cannot be used.
    pub(super) fn certificates(
        &self,
        config: &SriovOperatorConfig,
        news: &[News],
        pairs: &[Status],
    ) {
        for news in news {
            self.tell(config, Reason::CertificateRenewed, &news.to_string());
        }
        let refused: Vec<String> = pairs
            .iter()
            .filter_map(|pair| {
                Some(format!(
                    "Secret {}: {}",
                    pair.endpoint.secret,
                    pair.refused.as_ref()?
                ))
            })
            .collect();
        self.each_new(config, Reason::CertificateRefused, &refused, |told| {
            &mut told.refused
        });
    }

    /// Gates that are set and not known.
    pub(super) fn unknown_gates(&self, config: &SriovOperatorConfig, notes: &[String]) {
        self.each_new(config, Reason::UnknownFeatureGate, notes, |told| {
            &mut told.unknown_gates
        });
    }

    /// Entries of the injector's switches that cannot be used.
    pub(super) fn set_aside(&self, config: &SriovOperatorConfig, switches: &Loaded) {
        let notes = switches
            .set_aside
            .iter()
            .map(|entry| format!("ConfigMap nri-control-switches: {entry}"))
            .collect::<Vec<String>>();
        self.each_new(config, Reason::InvalidSwitches, &notes, |told| {
            &mut told.set_aside
        });
    }

    /// Tells those of the notes that did not hold a moment ago.
    fn each_new(
        &self,
        config: &SriovOperatorConfig,
        reason: Reason,
        notes: &[String],
        of: impl FnOnce(&mut Told) -> &mut Vec<String>,
    ) {
        let before = std::mem::replace(of(&mut self.told.lock()), notes.to_vec());
        for note in notes.iter().filter(|note| !before.contains(note)) {
            self.tell(config, reason, note);
        }
    }
}
