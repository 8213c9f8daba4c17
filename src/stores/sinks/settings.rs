//! What steers this process while it runs: the switches of the injector, and our own config.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

use super::ConfigMapBody;
use crate::api::{SriovOperatorConfig, SriovOperatorConfigSpec};
use crate::inject::{CONFIG_KEY, Loaded, Switches};
use crate::stores::object::Key;
use crate::stores::reflect::Sink;

/// The runtime switches of the injector.
pub(in crate::stores) struct SwitchSink {
    start_up: Switches,
    present: AtomicBool,
    loaded: watch::Sender<Arc<Loaded>>,
}

impl SwitchSink {
    /// Without the `ConfigMap`, what was said at start-up holds.
    pub(in crate::stores) fn new(start_up: Switches) -> Self {
        let loaded = Arc::new(Loaded::parse(None, &start_up));
        Self {
            start_up,
            present: AtomicBool::new(false),
            loaded: watch::Sender::new(loaded),
        }
    }

    /// What is in force, and what was set aside.
    pub(in crate::stores) fn loaded(&self) -> watch::Receiver<Arc<Loaded>> {
        self.loaded.subscribe()
    }

    /// What is in force now.
    pub(in crate::stores) fn now(&self) -> Arc<Loaded> {
        Arc::clone(&self.loaded.borrow())
    }

    fn set(&self, present: bool, text: Option<&str>) -> Vec<String> {
        self.present.store(present, Ordering::Relaxed);
        let loaded = Loaded::parse(text, &self.start_up);
        let aside = loaded.set_aside.clone();
        self.loaded.send_if_modified(|was| {
            let news = **was != loaded;
            if news {
                *was = Arc::new(loaded);
            }
            news
        });
        aside
    }
}

impl Sink for SwitchSink {
    type Body = ConfigMapBody;

    fn put(&self, _: &Key, _: &str, body: ConfigMapBody) -> Vec<String> {
        let data = body.data.unwrap_or_default();
        self.set(true, data.get(CONFIG_KEY).map(String::as_str))
    }

    fn remove(&self, _: &Key) {
        self.set(false, None);
    }

    fn retain(&self, seen: &HashSet<Key>, _: &str) {
        if seen.is_empty() {
            self.set(false, None);
        }
    }

    fn len(&self) -> usize {
        usize::from(self.present.load(Ordering::Relaxed))
    }
}

/// Our own config.
pub(in crate::stores) struct ConfigSink(watch::Sender<Option<Arc<SriovOperatorConfigSpec>>>);

impl ConfigSink {
    pub(in crate::stores) fn new() -> Self {
        Self(watch::Sender::new(None))
    }

    /// Its spec; None while there is no config.
    pub(in crate::stores) fn spec(&self) -> watch::Receiver<Option<Arc<SriovOperatorConfigSpec>>> {
        self.0.subscribe()
    }

    fn set(&self, spec: Option<SriovOperatorConfigSpec>) {
        self.0.send_if_modified(|was| {
            let news = was.as_deref() != spec.as_ref();
            if news {
                *was = spec.map(Arc::new);
            }
            news
        });
    }
}

impl Sink for ConfigSink {
    type Body = SriovOperatorConfig;

    fn put(&self, _: &Key, _: &str, body: SriovOperatorConfig) -> Vec<String> {
        self.set(Some(body.spec));
        Vec::new()
    }

    fn remove(&self, _: &Key) {
        self.set(None);
    }

    fn retain(&self, seen: &HashSet<Key>, _: &str) {
        if seen.is_empty() {
            self.set(None);
        }
    }

    fn len(&self) -> usize {
        usize::from(self.0.borrow().is_some())
    }
}
