//! Apply, create once, remove: each looks first, so that nothing foreign is touched, and remembers what came of it.

use std::{collections::BTreeMap, time::Instant};

use kube::{Api, Client, Resource, api::ApiResource, core::DynamicResourceScope};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;
use tracing::{debug, info};

use super::{
    Error, Kind, ObjectRef,
    calls::Calls,
    ownership::{Owner, Whose, last_other_manager, our_fields, take_over},
    theirs::Signs,
    tracker::{State, Tracker},
};

/// What an apply did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    /// Nothing: the object is as wanted.
    Unchanged,
    /// Made it.
    Created,
    /// Brought it to a new rendering, or looked at it for the first time.
    Applied,
    /// Brought back what somebody had changed or deleted.
    Repaired(Repair),
}

/// What a repair mended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repair {
    /// The object was changed; by whom, where that is known.
    Changed(Option<String>),
    /// The object was deleted.
    Deleted,
}

/// Applies and removes objects in the cluster and in the operator's namespace.
pub struct Applier {
    calls: Calls,
    owner: Mutex<Owner>,
    tracker: Mutex<Tracker>,
    /// What others have under names of ours, as it was when it was looked at.
    theirs: watch::Sender<BTreeMap<ObjectRef, Signs>>,
}

impl Applier {
    /// An applier for the operator's namespace that has seen nothing yet.
    pub fn new(client: Client, namespace: &str) -> Self {
        Self {
            calls: Calls::new(client, namespace),
            owner: Mutex::new(Owner {
                namespace: namespace.to_owned(),
                config_uid: None,
            }),
            tracker: Mutex::default(),
            theirs: watch::Sender::default(),
        }
    }

    /// Whose objects count as ours: those controlled by the config with that uid. A new uid makes everything be
    /// looked at again, since owner references change with it.
    pub fn set_config_uid(&self, uid: &str) {
        let mut owner = self.owner.lock();
        if owner.config_uid.as_deref() != Some(uid) {
            owner.config_uid = Some(uid.to_owned());
            self.tracker.lock().forget_applied();
        }
    }

    /// Forgets everything, as a new leader does: the next pass looks at everything once.
    pub fn forget(&self) {
        self.tracker.lock().forget();
        self.theirs.send_replace(BTreeMap::new());
    }

    /// Makes an object be as rendered.
    ///
    /// # Errors
    /// [`Error::Foreign`] when one of that name is not ours, [`Error::OtherInstallation`] when it is another operator's,
    /// [`Error::UnknownKind`] when the server lacks the kind, [`Error::Contested`] while repairs of it are spaced out,
    /// [`Error::Malformed`] for a fault of a template, and what the API server refuses.
    pub async fn apply(&self, desired: &Value) -> Result<Applied, Error> {
        let object = ObjectRef::of(desired)?;
        let mut applied = Applied::Unchanged;
        // Again when somebody was at it before the answer came; that counts as a repair, and repairs are spaced out.
        while !self.tracker.lock().is_current(&object, desired) {
            applied = self.apply_once(&object, desired).await?;
        }
        Ok(applied)
    }

    async fn apply_once(&self, object: &ObjectRef, desired: &Value) -> Result<Applied, Error> {
        let drifted = self.may_write(object)?;
        let live = self.get(object).await?;
        if let Some(live) = &live {
            self.is_ours(object, live)?;
            self.take_over(object, live).await?;
        }
        let result = match self.patch(object, desired).await {
            Err(error) if error.is_immutable() && live.is_some() => {
                info!(%object, "deleting it to make it again: a field that cannot be changed differs");
                self.delete(object, live.as_ref()).await?;
                self.patch(object, desired).await?
            }
            other => other?,
        };
        let applied = self.done(object, desired.clone(), &result, live.as_ref(), drifted);
        debug!(%object, ?applied, "applied");
        Ok(applied)
    }

    /// Makes an object when there is none, and afterwards applies only its metadata: what it holds belongs to the
    /// users. One that exists and is not ours is used as it is.
    ///
    /// # Errors
    /// What the API server refuses.
    pub async fn create_once(&self, desired: &Value) -> Result<Applied, Error> {
        let object = ObjectRef::of(desired)?;
        let metadata = json!({
            "apiVersion": desired["apiVersion"], "kind": desired["kind"], "metadata": desired["metadata"],
        });
        let mut applied = Applied::Unchanged;
        while !self.tracker.lock().is_current(&object, &metadata) {
            applied = match self.create_once_more(&object, desired, &metadata).await {
                Err(Error::Foreign(_) | Error::OtherInstallation { .. }) => {
                    return Ok(Applied::Unchanged);
                }
                other => other?,
            };
        }
        Ok(applied)
    }

    async fn create_once_more(
        &self,
        object: &ObjectRef,
        desired: &Value,
        metadata: &Value,
    ) -> Result<Applied, Error> {
        let drifted = self.may_write(object)?;
        let live = self.get(object).await?;
        if let Some(live) = &live {
            self.is_ours(object, live)?;
        } else {
            let mut desired = desired.clone();
            // Owners come with the apply that follows: the creator must not hold on to one that has gone.
            if let Some(metadata) = desired["metadata"].as_object_mut() {
                metadata.remove("ownerReferences");
            }
            self.calls.create(object, &desired).await?;
        }
        let result = self.patch(object, metadata).await?;
        Ok(self.done(object, metadata.clone(), &result, live.as_ref(), drifted))
    }

    /// Whether what is to be written mends something; an error while that has to wait or is of no use.
    fn may_write(&self, object: &ObjectRef) -> Result<bool, Error> {
        let tracker = self.tracker.lock();
        if tracker.lacks(object.kind) {
            return Err(Error::UnknownKind(object.clone()));
        }
        match tracker.state(object) {
            State::Drifted => {}
            State::Theirs(whose) => return not_ours(object, whose).map(|()| false),
            State::Unknown | State::Absent | State::Applied(_) => return Ok(false),
        }
        tracker
            .may_repair(object, Instant::now())
            .map_err(|contested| Error::Contested {
                object: object.clone(),
                manager: contested.manager,
                retry_in: contested.retry_in,
            })?;
        Ok(true)
    }

    /// An error when a live object is not ours; then it is left alone until what makes it others' changes.
    fn is_ours(&self, object: &ObjectRef, live: &Value) -> Result<(), Error> {
        let whose = self.owner.lock().whose(live);
        if whose != Whose::Ours {
            self.tracker.lock().theirs(object, whose.clone());
            self.theirs.send_modify(|theirs| {
                theirs.insert(object.clone(), Signs::of(live));
            });
        }
        not_ours(object, whose)
    }

    /// What others have under names of ours.
    pub(super) fn theirs(&self) -> watch::Receiver<BTreeMap<ObjectRef, Signs>> {
        self.theirs.subscribe()
    }

    /// What others had may be gone, or ours by now: the next pass looks at it.
    pub(super) fn reconsider(&self, object: &ObjectRef) {
        self.tracker.lock().reconsider(object);
        self.theirs.send_modify(|theirs| {
            theirs.remove(object);
        });
    }

    /// Remembers an apply, and says what it was.
    fn done(
        &self,
        object: &ObjectRef,
        desired: Value,
        result: &Value,
        live: Option<&Value>,
        drifted: bool,
    ) -> Applied {
        let mut tracker = self.tracker.lock();
        tracker.applied(object, desired, result);
        if !drifted {
            return if live.is_some() {
                Applied::Applied
            } else {
                Applied::Created
            };
        }
        let manager = live.and_then(last_other_manager);
        tracker.repaired(object, manager.clone(), Instant::now());
        Applied::Repaired(match live {
            Some(_) => Repair::Changed(manager),
            None => Repair::Deleted,
        })
    }

    /// That an object belongs to another installation, if it does.
    ///
    /// # Errors
    /// What the API server refuses. A kind that the server does not know has no objects.
    pub async fn other_installation(&self, object: &ObjectRef) -> Result<Option<Error>, Error> {
        let known = match self.tracker.lock().state(object) {
            State::Theirs(whose) => Some(not_ours(object, whose)),
            _ => None,
        };
        let checked = match known {
            Some(checked) => checked,
            None => match self.get(object).await {
                Ok(Some(live)) => self.is_ours(object, &live),
                Ok(None) | Err(Error::UnknownKind(_)) => Ok(()),
                Err(error) => return Err(error),
            },
        };
        Ok(checked
            .err()
            .filter(|error| matches!(error, Error::OtherInstallation { .. })))
    }

    /// Whether an object is as it was applied, and that is what is desired. Reads nothing.
    pub fn is_current(&self, desired: &Value) -> bool {
        ObjectRef::of(desired).is_ok_and(|object| self.tracker.lock().is_current(&object, desired))
    }

    /// Removes an object if it is there and ours. Says whether it did.
    ///
    /// # Errors
    /// What the API server refuses. A kind that the server does not know has no objects.
    pub async fn remove(&self, object: &ObjectRef) -> Result<bool, Error> {
        if matches!(
            self.tracker.lock().state(object),
            State::Absent | State::Theirs(_)
        ) {
            return Ok(false);
        }
        let live = match self.get(object).await {
            Err(Error::UnknownKind(_)) => None,
            other => other?,
        };
        let Some(live) = live else {
            self.tracker.lock().absent(object);
            return Ok(false);
        };
        if !self.owner.lock().owns(&live) {
            // Looked at once; the label that would make it ours would bring an event.
            self.tracker.lock().absent(object);
            return Ok(false);
        }
        if live.pointer("/metadata/deletionTimestamp").is_none() {
            self.delete(object, Some(&live)).await?;
            debug!(%object, "removed");
        }
        self.tracker.lock().absent(object);
        Ok(true)
    }

    /// Reads an object live. For what is asked once, such as a bundle that somebody else fills.
    ///
    /// # Errors
    /// What the API server refuses.
    pub async fn get(&self, object: &ObjectRef) -> Result<Option<Value>, Error> {
        self.learn(self.calls.get(object).await)
    }

    /// Reads an object live, if it is ours. A kind that the server does not know has no objects.
    ///
    /// # Errors
    /// What the API server refuses.
    pub async fn get_ours(&self, object: &ObjectRef) -> Result<Option<Value>, Error> {
        match self.get(object).await {
            Err(Error::UnknownKind(_)) => Ok(None),
            other => Ok(other?.filter(|live| self.owner.lock().owns(live))),
        }
    }

    /// What was applied is not what is there at `version`, although the owners of its fields do not show it: the next
    /// apply looks for itself. A version from before the last apply proves nothing.
    pub fn doubt(&self, object: &ObjectRef, version: &str) {
        self.tracker.lock().doubt(object, version);
    }

    /// Whether an object is there and ours to take over, and has not been applied yet.
    ///
    /// # Errors
    /// As for [`Applier::get`].
    pub async fn is_inherited(&self, object: &ObjectRef) -> Result<bool, Error> {
        let live = self.get_ours(object).await?;
        Ok(live.is_some_and(|live| our_fields(&live).is_none()))
    }

    /// Remembers a kind that turns out to be unknown until a watch shows otherwise.
    fn learn<T>(&self, answer: Result<T, Error>) -> Result<T, Error> {
        if let Err(Error::UnknownKind(object)) = &answer {
            self.tracker.lock().unknown(object.kind);
        }
        answer
    }

    /// Takes in what a watch saw, and says what follows.
    pub(super) fn observe<T>(&self, observe: impl FnOnce(&mut Tracker) -> T) -> T {
        observe(&mut self.tracker.lock())
    }

    /// How a kind is addressed: namespaced ones in our namespace.
    pub(super) fn api<K>(&self, kind: &Kind) -> Api<K>
    where
        K: Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>,
    {
        self.calls.api(kind)
    }

    /// The client.
    pub(super) fn client(&self) -> Client {
        self.calls.client()
    }

    async fn take_over(&self, object: &ObjectRef, live: &Value) -> Result<(), Error> {
        let Some(patch) = take_over(live) else {
            return Ok(());
        };
        info!(%object, "taking over the fields of the reference's operator");
        self.calls.take_over(object, patch).await
    }

    async fn patch(&self, object: &ObjectRef, desired: &Value) -> Result<Value, Error> {
        self.learn(self.calls.apply(object, desired).await)
    }

    async fn delete(&self, object: &ObjectRef, live: Option<&Value>) -> Result<(), Error> {
        let uid = live
            .and_then(|live| live.pointer("/metadata/uid"))
            .and_then(Value::as_str)
            .map(str::to_owned);
        self.calls.delete(object, uid).await
    }
}

fn not_ours(object: &ObjectRef, whose: Whose) -> Result<(), Error> {
    match whose {
        Whose::Ours => Ok(()),
        Whose::Foreign => Err(Error::Foreign(object.clone())),
        Whose::Installation(namespace) => Err(Error::OtherInstallation {
            object: object.clone(),
            namespace,
        }),
    }
}
