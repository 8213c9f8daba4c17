//! What Events and logs tell about the config: each thing once, when it begins.

use std::collections::BTreeMap;

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
    apply::{ObjectRef, Repair},
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
    /// The uid of the config that it is about.
    config: Option<String>,
    enabled: BTreeMap<Component, bool>,
    contests: Vec<String>,
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

    /// What follows is about this config: another one is another story.
    pub(super) fn about(&self, config: &SriovOperatorConfig) {
        let mut told = self.told.lock();
        if told.config != config.metadata.uid {
            *told = Told {
                config: config.metadata.uid.clone(),
                ..Told::default()
            };
        }
    }

    fn tell(&self, config: &SriovOperatorConfig, reason: Reason, note: &str) {
        let about: ObjectReference = config.object_ref(&());
        self.events.publish(&about, reason, note);
    }

    /// The conditions that were written and differ from those before. That one is about a newer generation is not told.
    pub(super) fn conditions(
        &self,
        config: &SriovOperatorConfig,
        before: &[Condition],
        changed: &[&Condition],
    ) {
        let said = |one: &Condition| (one.type_.clone(), one.status.clone(), one.message.clone());
        for condition in changed
            .iter()
            .filter(|condition| condition.type_ == status::READY)
            .filter(|condition| before.iter().all(|one| said(one) != said(condition)))
        {
            let note = format!("Ready is {}: {}", condition.status, condition.message);
            self.tell(config, Reason::ReadyChanged, &note);
        }
    }

    /// A component is on, or off. `changed`: objects of it were made, or removed, in this pass. That alone tells a
    /// process that has just begun to lead.
    pub(super) fn component(
        &self,
        config: &SriovOperatorConfig,
        component: Component,
        enabled: bool,
        changed: bool,
    ) {
        let before = self.told.lock().enabled.insert(component, enabled);
        if !before.map_or(changed, |before| before != enabled) {
            return;
        }
        if enabled {
            let note = format!("{component} is rolled out");
            self.tell(config, Reason::ComponentEnabled, &note);
        } else {
            let note = format!("{component} is removed");
            self.tell(config, Reason::ComponentDisabled, &note);
        }
    }

    /// An object that somebody had changed or deleted is as it was.
    pub(super) fn repaired(
        &self,
        config: &SriovOperatorConfig,
        object: &ObjectRef,
        repair: &Repair,
    ) {
        let what = match repair {
            Repair::Changed(Some(manager)) => format!("was changed by {manager}"),
            Repair::Changed(None) => "was changed".to_owned(),
            Repair::Deleted => "was deleted".to_owned(),
        };
        info!(%object, what, "repaired");
        self.tell(
            config,
            Reason::DriftRepaired,
            &format!("{object} {what} and is repaired"),
        );
    }

    /// Objects that somebody keeps changing.
    pub(super) fn contests(&self, config: &SriovOperatorConfig, notes: &[String]) {
        self.each_new(config, Reason::RepairsSpacedOut, notes, |told| {
            &mut told.contests
        });
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
