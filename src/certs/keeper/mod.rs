//! Keeps the Secrets of the self-signed mode as [`super::rotation`] says. The leader's work: nobody else writes them.
//!
//! One look: read the CA Secret and the serving Secrets, plan, write the CA Secret, then the serving Secrets. Every
//! write is guarded by what was read, so whoever comes second reads again and takes over what the first one made. A
//! Secret that is somebody else's is never written. Other modes: see [`handover`].

pub mod cache;
pub mod handover;
mod report;
pub mod secrets;
pub mod store;

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use tracing::info;

use super::authority::Authority;
use super::lifetimes::{Lifetimes, span};
use super::names::Endpoint;
use super::pair::PairContents;
use super::rotation::leaves::{LeafStep, LeafView, Reason};
use super::rotation::state::{ALL_KEYS, State};
use super::rotation::{Plan, Situation, plan};
use cache::CachedSecrets;
use secrets::{AUTHORITY_SECRET, SERVING_KEYS};
use store::{KubeSecrets, SecretStore, StoreError};

pub use report::{KeeperError, KeeperOutcome, News, Request};

/// How often a look starts again because somebody else wrote meanwhile. Each start sees what the other made, so more
/// than a few mean that somebody keeps writing.
const ATTEMPTS: usize = 8;

/// The keeper of the Secrets in one namespace.
pub struct Keeper<S = CachedSecrets> {
    store: S,
    lifetimes: Lifetimes,
}

/// What is on the API server.
struct Live {
    authority: Option<Secret>,
    /// In the order of the endpoints.
    serving: Vec<Option<Secret>>,
    /// Indexes of the serving Secrets that are somebody else's.
    foreign: BTreeSet<usize>,
}

impl Keeper {
    /// A keeper of the Secrets in `namespace`.
    pub fn new(client: Client, namespace: &str, lifetimes: Lifetimes) -> Self {
        let store = CachedSecrets::new(KubeSecrets::new(client, namespace));
        Self::with_store(store, lifetimes)
    }

    /// Forgets what the Secrets were, as one who begins to lead does.
    pub fn forget(&self) {
        self.store.forget();
    }

    /// Follows the Secrets of `endpoints` and the CA's until dropped, and calls `changed` when somebody else changed
    /// one. While it runs, a look reads nothing that is known.
    pub async fn follow(&self, endpoints: &[Endpoint], changed: impl Fn()) {
        let mut names: Vec<String> = endpoints.iter().map(|one| one.secret.clone()).collect();
        names.push(AUTHORITY_SECRET.to_owned());
        names.sort();
        names.dedup();
        self.store.follow(&names, changed).await;
    }
}

impl<S: SecretStore> Keeper<S> {
    /// A keeper of the Secrets in `store`.
    pub fn with_store(store: S, lifetimes: Lifetimes) -> Self {
        Self { store, lifetimes }
    }

    /// One look: brings the Secrets to where they should be now, and says what to publish. Safe to be killed at any
    /// point and to be run twice at once; a look with nothing to do writes nothing.
    ///
    /// # Errors
    /// When the CA Secret cannot be read or written: then no bundle can be vouched for. What concerns one serving
    /// Secret alone is in [`KeeperOutcome::faults`].
    pub async fn reconcile(&self, request: Request<'_>) -> Result<KeeperOutcome, KeeperError> {
        let mut news = Vec::new();
        for _ in 0..ATTEMPTS {
            match self.attempt(request, &mut news).await {
                Err(error) if error.is_conflict() => {}
                done => return done,
            }
        }
        Err(KeeperError::Contended {
            namespace: self.store.namespace().to_owned(),
        })
    }

    async fn attempt(
        &self,
        request: Request<'_>,
        news: &mut Vec<News>,
    ) -> Result<KeeperOutcome, KeeperError> {
        let live = self.read(request).await?;
        let stored = live
            .authority
            .as_ref()
            .map(|secret| State::decode(&secrets::data(secret)))
            .unwrap_or_default();
        let (contents, views) = views(request, &live);
        let planned = plan(Situation {
            now: request.now,
            lifetimes: self.lifetimes,
            stored: &stored,
            leaves: &views,
            observed: request.observed,
        })?;
        self.write_authority(request, &live, &planned).await?;
        for change in &planned.changes {
            info!(?change, "the certificate authority changed");
        }
        news.extend(planned.changes.iter().cloned().map(News::Authority));

        let mut faults = Vec::new();
        let steps = planned.leaves.iter().zip(request.endpoints).enumerate();
        for (index, (step, endpoint)) in steps {
            let present = contents.get(index).and_then(Option::as_ref);
            let live_secret = live.serving.get(index).and_then(Option::as_ref);
            let written = if live.foreign.contains(&index) {
                Err(KeeperError::ForeignPair {
                    namespace: self.store.namespace().to_owned(),
                    name: endpoint.secret.clone(),
                })
            } else {
                self.write_serving(request, &planned, endpoint, step, present, live_secret)
                    .await
            };
            match written {
                Ok(issued) => news.extend(issued),
                Err(error) if error.is_conflict() => return Err(error),
                Err(error) => faults.push(error),
            }
        }
        Ok(KeeperOutcome {
            phase: planned.phase(),
            check_again_in: span(request.now, planned.check_at),
            authority_expires: planned
                .state
                .current
                .as_ref()
                .map(|current| current.certificate().validity().not_after),
            bundle: planned.bundle,
            news: std::mem::take(news),
            faults,
        })
    }

    async fn read(&self, request: Request<'_>) -> Result<Live, KeeperError> {
        let authority = self.read_one(AUTHORITY_SECRET).await?;
        if authority
            .as_ref()
            .is_some_and(|secret| !secrets::is_ours(secret, request.owner))
        {
            return Err(KeeperError::ForeignAuthority {
                namespace: self.store.namespace().to_owned(),
            });
        }
        let mut live = Live {
            authority,
            serving: Vec::new(),
            foreign: BTreeSet::new(),
        };
        for (index, endpoint) in request.endpoints.iter().enumerate() {
            let secret = self.read_one(&endpoint.secret).await?;
            if secret
                .as_ref()
                .is_some_and(|secret| !secrets::is_ours(secret, request.owner))
            {
                live.foreign.insert(index);
            }
            live.serving.push(secret);
        }
        Ok(live)
    }

    async fn write_authority(
        &self,
        request: Request<'_>,
        live: &Live,
        planned: &Plan,
    ) -> Result<(), KeeperError> {
        let wanted = secrets::authority_secret(
            self.store.namespace(),
            request.owner,
            &planned.state.encode(),
        );
        let (verb, written) = match &live.authority {
            Some(secret) if secrets::is_as_wanted(secret, &wanted, &ALL_KEYS) => return Ok(()),
            Some(secret) if secrets::must_be_recreated(secret, &wanted) => {
                self.delete(secret).await?;
                ("create", self.store.create(&wanted).await)
            }
            Some(secret) => {
                let patch = secrets::authority_patch(secret, &wanted);
                ("patch", self.store.merge(AUTHORITY_SECRET, &patch).await)
            }
            None => ("create", self.store.create(&wanted).await),
        };
        written
            .map(drop)
            .map_err(store_error(verb, AUTHORITY_SECRET))
    }

    async fn write_serving(
        &self,
        request: Request<'_>,
        planned: &Plan,
        endpoint: &Endpoint,
        step: &LeafStep,
        present: Option<&PairContents>,
        live: Option<&Secret>,
    ) -> Result<Option<News>, KeeperError> {
        let ca_crt = planned.bundle.to_pem().into_bytes();
        let (contents, news) = match (step, present, &planned.state.current) {
            (LeafStep::Keep | LeafStep::Rebundle, Some(present), _) => {
                let ca_crt = ca_crt.clone();
                let contents = PairContents {
                    ca_crt,
                    ..present.clone()
                };
                (contents, None)
            }
            (LeafStep::Issue(reason), _, Some(current)) => {
                self.issue(request, endpoint, current, reason, ca_crt)?
            }
            _ => return Ok(None),
        };
        let wanted = secrets::serving_secret(
            &endpoint.secret,
            self.store.namespace(),
            request.owner,
            &contents,
        );
        self.apply_serving(live, wanted, &endpoint.secret).await?;
        Ok(news)
    }

    fn issue(
        &self,
        request: Request<'_>,
        endpoint: &Endpoint,
        current: &Authority,
        reason: &Reason,
        ca_crt: Vec<u8>,
    ) -> Result<(PairContents, Option<News>), KeeperError> {
        let issued = current.issue(&endpoint.service, request.now, self.lifetimes.certificate())?;
        let expires = issued.certificate().validity().not_after;
        info!(secret = endpoint.secret, %reason, %expires, "issued a serving certificate");
        let contents = PairContents {
            tls_crt: issued.certificate().to_pem().into_bytes(),
            tls_key: issued.key().clone(),
            ca_crt,
        };
        let news = News::Issued {
            secret: endpoint.secret.clone(),
            expires,
            reason: reason.clone(),
        };
        Ok((contents, Some(news)))
    }

    async fn apply_serving(
        &self,
        live: Option<&Secret>,
        wanted: Secret,
        name: &str,
    ) -> Result<(), KeeperError> {
        let (verb, written) = match live {
            // Without force: if somebody else creates it at this moment, its fields are not taken over.
            None => ("create", self.store.apply(&wanted, false).await),
            Some(live) if secrets::is_as_wanted(live, &wanted, &SERVING_KEYS) => return Ok(()),
            Some(live) if secrets::must_be_recreated(live, &wanted) => {
                self.delete(live).await?;
                ("create", self.store.apply(&wanted, false).await)
            }
            Some(live) => {
                let wanted = secrets::guarded(wanted, live);
                ("apply", self.store.apply(&wanted, true).await)
            }
        };
        written.map(drop).map_err(store_error(verb, name))
    }

    async fn read_one(&self, name: &str) -> Result<Option<Secret>, KeeperError> {
        self.store
            .read(name)
            .await
            .map_err(store_error("read", name))
    }

    async fn delete(&self, secret: &Secret) -> Result<(), KeeperError> {
        let name = secret.metadata.name.as_deref().unwrap_or_default();
        let uid = secret.metadata.uid.as_deref().unwrap_or_default();
        self.store
            .delete(name, uid)
            .await
            .map_err(store_error("delete", name))
    }
}

/// The serving Secrets as the planner sees them; somebody else's look missing to it.
fn views(request: Request<'_>, live: &Live) -> (Vec<Option<PairContents>>, Vec<LeafView>) {
    let contents: Vec<Option<PairContents>> = live
        .serving
        .iter()
        .enumerate()
        .map(|(index, secret)| {
            let ours = secret.as_ref().filter(|_| !live.foreign.contains(&index));
            ours.map(|secret| PairContents::from_data(secret.data.as_ref()))
        })
        .collect();
    let views = request
        .endpoints
        .iter()
        .zip(&contents)
        .map(|(endpoint, contents)| LeafView::new(endpoint.service.clone(), contents.as_ref()))
        .collect();
    (contents, views)
}

fn store_error(verb: &'static str, name: &str) -> impl FnOnce(StoreError) -> KeeperError {
    move |source| KeeperError::Store {
        verb,
        name: name.to_owned(),
        source,
    }
}

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;
