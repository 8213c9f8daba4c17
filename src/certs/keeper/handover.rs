//! What becomes of our Secrets when they are no longer wanted: another mode, or the end of the configuration.

use k8s_openapi::api::core::v1::Secret;

use super::secrets::{self, AUTHORITY_SECRET};
use super::store::SecretStore;
use super::{Keeper, KeeperError, Request, store_error};
use crate::certs::authority::AUTHORITY_NAME;
use crate::certs::bundle::Bundle;
use crate::certs::names::Endpoint;

/// How the issuer of another mode brings its pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewIssuer {
    /// It writes into the Secret that is there: cert-manager, an administrator.
    TakesOver,
    /// It only makes new ones, so ours has to go first: OpenShift's service CA.
    StartsAfresh,
}

impl<S: SecretStore> Keeper<S> {
    /// One look while another mode is in force: gives up what the new issuer has filled, removes what is in its way,
    /// and the CA when nothing needs it any more. Returns whether nothing of ours is left; then it writes nothing.
    ///
    /// # Errors
    /// When a request fails; the next look goes on from there.
    pub async fn hand_over(
        &self,
        request: Request<'_>,
        issuer: NewIssuer,
    ) -> Result<bool, KeeperError> {
        let mut pending = false;
        for endpoint in request.endpoints {
            let Some(secret) = self.read_ours(&endpoint.secret, request).await? else {
                continue;
            };
            if secrets::holds_others_pair(&secret) {
                self.store
                    .apply(&secrets::release(&secret), true)
                    .await
                    .map(drop)
                    .map_err(store_error("release", &endpoint.secret))?;
            } else if issuer == NewIssuer::StartsAfresh {
                self.delete(&secret).await?;
            } else {
                pending = true;
            }
        }
        let Some(authority) = self.read_ours(AUTHORITY_SECRET, request).await? else {
            return Ok(!pending);
        };
        let still_published = request
            .observed
            .iter()
            .flat_map(Bundle::certificates)
            .any(|one| one.common_name() == AUTHORITY_NAME);
        if pending || still_published {
            return Ok(false);
        }
        self.delete(&authority).await?;
        Ok(true)
    }

    /// Fails while a Secret of somebody else is where OpenShift's service CA would make its own: it fills in none that it
    /// did not make.
    ///
    /// # Errors
    /// [`KeeperError::InTheWay`] names the Secret; or the request fails.
    pub async fn has_room_for_service_ca(
        &self,
        endpoint: &Endpoint,
        request: Request<'_>,
    ) -> Result<(), KeeperError> {
        match self.read_one(&endpoint.secret).await? {
            Some(secret)
                if !secrets::is_ours(&secret, request.owner)
                    && !secrets::is_of_service_ca(&secret) =>
            {
                Err(KeeperError::InTheWay {
                    namespace: self.store.namespace().to_owned(),
                    name: endpoint.secret.clone(),
                })
            }
            _ => Ok(()),
        }
    }

    /// Deletes every Secret of ours; somebody else's stay.
    ///
    /// # Errors
    /// The first request that fails, after all were tried.
    pub async fn remove(&self, request: Request<'_>) -> Result<(), KeeperError> {
        let mut first_error = None;
        let serving = request.endpoints.iter().map(|one| one.secret.as_str());
        for name in serving.chain([AUTHORITY_SECRET]) {
            let removed = match self.read_ours(name, request).await {
                Ok(Some(secret)) => self.delete(&secret).await,
                Ok(None) => Ok(()),
                Err(error) => Err(error),
            };
            first_error = first_error.or(removed.err());
        }
        first_error.map_or(Ok(()), Err)
    }

    async fn read_ours(
        &self,
        name: &str,
        request: Request<'_>,
    ) -> Result<Option<Secret>, KeeperError> {
        let secret = self.read_one(name).await?;
        Ok(secret.filter(|secret| secrets::is_ours(secret, request.owner)))
    }
}
