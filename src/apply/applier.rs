//! The calls: apply, create once, remove. Each looks first, so that nothing foreign is touched.

use std::{
    future::Future,
    time::{Duration, Instant},
};

use kube::{
    Api, Client,
    api::{
        ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions,
    },
    discovery::Scope,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tracing::{debug, info};

use super::{
    CREATOR, Error, FIELD_MANAGER, Kind, ObjectRef,
    ownership::{Owner, Whose, last_other_manager, our_fields, take_over},
    tracker::{State, Tracker},
};

/// How long one call may take. The API server's own limit for a request is 60 s; a reconcile is retried anyway.
const CALL_TIMEOUT: Duration = Duration::from_secs(20);

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
    client: Client,
    owner: Mutex<Owner>,
    tracker: Mutex<Tracker>,
}

impl Applier {
    /// An applier for the operator's namespace that has seen nothing yet.
    pub fn new(client: Client, namespace: &str) -> Self {
        Self {
            client,
            owner: Mutex::new(Owner {
                namespace: namespace.to_owned(),
                config_uid: None,
            }),
            tracker: Mutex::default(),
        }
    }

    /// The operator's namespace.
    pub fn namespace(&self) -> String {
        self.owner.lock().namespace.clone()
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
            Err(error) if is_immutable(&error) && live.is_some() => {
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
            let drifted = self.may_write(&object)?;
            let live = self.get(&object).await?;
            match &live {
                Some(live) if !self.owner.lock().owns(live) => return Ok(Applied::Unchanged),
                Some(_) => {}
                None => self.create(&object, desired).await?,
            }
            let result = self.patch(&object, &metadata).await?;
            applied = self.done(&object, metadata.clone(), &result, live.as_ref(), drifted);
        }
        Ok(applied)
    }

    async fn create(&self, object: &ObjectRef, desired: &Value) -> Result<(), Error> {
        let mut desired = desired.clone();
        // Owners come with the apply that follows: the creator must not hold on to one that has gone.
        if let Some(metadata) = desired["metadata"].as_object_mut() {
            metadata.remove("ownerReferences");
        }
        let body: DynamicObject =
            decode(&desired).map_err(|error| Error::api("create", object, error))?;
        let api = self.api(object.kind);
        let params = PostParams {
            field_manager: Some(CREATOR.into()),
            ..PostParams::default()
        };
        match call("create", object, api.create(&params, &body)).await {
            Err(Error::Api { source, .. }) if is_already_exists(&source) => Ok(()),
            other => other.map(drop),
        }
    }

    /// Whether what is to be written mends something; an error while that has to wait or is of no use.
    fn may_write(&self, object: &ObjectRef) -> Result<bool, Error> {
        let tracker = self.tracker.lock();
        if tracker.lacks(object.kind) {
            return Err(Error::UnknownKind(object.clone()));
        }
        if tracker.state(object) != State::Drifted {
            return Ok(false);
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

    fn is_ours(&self, object: &ObjectRef, live: &Value) -> Result<(), Error> {
        match self.owner.lock().whose(live) {
            Whose::Ours => Ok(()),
            Whose::Foreign => Err(Error::Foreign(object.clone())),
            Whose::Installation(namespace) => Err(Error::OtherInstallation {
                object: object.clone(),
                namespace,
            }),
        }
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
        let live = match self.get(object).await {
            Err(Error::UnknownKind(_)) => None,
            other => other?,
        };
        let refusal = live.and_then(|live| self.is_ours(object, &live).err());
        Ok(refusal.filter(|error| matches!(error, Error::OtherInstallation { .. })))
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
        if self.tracker.lock().state(object) == State::Absent {
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
        let api = self.api(object.kind);
        match call("read", object, api.get_opt(&object.name)).await {
            Ok(Some(live)) => serde_json::to_value(live)
                .map(Some)
                .map_err(|error| Error::api("read", object, kube::Error::SerdeError(error))),
            Ok(None) => Ok(None),
            Err(error) => Err(self.known_kind(object, error)),
        }
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

    /// The error, or that the kind is unknown, which is remembered until a watch shows otherwise.
    fn known_kind(&self, object: &ObjectRef, error: Error) -> Error {
        match error {
            Error::Api { source, .. } if is_unknown_kind(&source) => {
                self.tracker.lock().unknown(object.kind);
                Error::UnknownKind(object.clone())
            }
            other => other,
        }
    }

    /// Takes in what a watch saw, and says what follows.
    pub(super) fn observe<T>(&self, observe: impl FnOnce(&mut Tracker) -> T) -> T {
        observe(&mut self.tracker.lock())
    }

    /// How an API of a kind is addressed: namespaced kinds in our namespace.
    pub(super) fn api(&self, kind: &Kind) -> Api<DynamicObject> {
        dynamic(&self.client, kind, &self.owner.lock().namespace)
    }

    async fn take_over(&self, object: &ObjectRef, live: &Value) -> Result<(), Error> {
        let Some(patch) = take_over(live) else {
            return Ok(());
        };
        info!(%object, "taking over the fields of the reference's operator");
        let api = self.api(object.kind);
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.into()),
            ..PatchParams::default()
        };
        call(
            "take over",
            object,
            api.patch(&object.name, &params, &Patch::Json::<()>(patch)),
        )
        .await
        .map(|_| ())
    }

    async fn patch(&self, object: &ObjectRef, desired: &Value) -> Result<Value, Error> {
        let api = self.api(object.kind);
        let params = PatchParams::apply(FIELD_MANAGER).force();
        match call(
            "apply",
            object,
            api.patch(&object.name, &params, &Patch::Apply(desired)),
        )
        .await
        {
            Ok(live) => serde_json::to_value(live)
                .map_err(|error| Error::api("apply", object, kube::Error::SerdeError(error))),
            Err(error) => Err(self.known_kind(object, error)),
        }
    }

    async fn delete(&self, object: &ObjectRef, live: Option<&Value>) -> Result<(), Error> {
        let uid = live
            .and_then(|live| live.pointer("/metadata/uid"))
            .and_then(Value::as_str)
            .map(str::to_owned);
        let params = DeleteParams::default().preconditions(Preconditions {
            uid,
            resource_version: None,
        });
        let api = self.api(object.kind);
        match call("delete", object, api.delete(&object.name, &params)).await {
            Err(Error::Api { source, .. }) if is_not_found(&source) => Ok(()),
            other => other.map(|_| ()),
        }
    }
}

/// The API of a kind, in that namespace when it is namespaced.
pub(super) fn dynamic(client: &Client, kind: &Kind, namespace: &str) -> Api<DynamicObject> {
    let resource: ApiResource = kind.api_resource();
    if kind.namespaced {
        Api::dynamic(client.clone(), &resource, &Scope::Namespaced).constrain(namespace)
    } else {
        Api::dynamic(client.clone(), &resource, &Scope::Cluster)
    }
}

async fn call<T>(
    verb: &'static str,
    object: &ObjectRef,
    future: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Error> {
    match tokio::time::timeout(CALL_TIMEOUT, future).await {
        Ok(result) => result.map_err(|error| Error::api(verb, object, error)),
        Err(_) => Err(Error::Timeout {
            verb,
            object: object.clone(),
            seconds: CALL_TIMEOUT.as_secs(),
        }),
    }
}

fn decode(value: &Value) -> Result<DynamicObject, kube::Error> {
    serde_json::from_value(value.clone()).map_err(kube::Error::SerdeError)
}

fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_not_found())
}

fn is_already_exists(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_already_exists())
}

/// A missing object is a `Status` with reason `NotFound`; a missing kind is a 404 in plain text.
fn is_unknown_kind(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404 && status.reason != "NotFound")
}

fn is_immutable(error: &Error) -> bool {
    let Error::Api { source, .. } = error else {
        return false;
    };
    matches!(source.as_ref(), kube::Error::Api(status)
        if status.is_invalid() && (status.message.contains("immutable") || status.message.contains("cannot change roleRef")))
}
