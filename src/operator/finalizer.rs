//! The finalizer of the config.

use json_patch::Patch as JsonPatch;
use kube::{Api, api::Patch};

use super::Error;
use crate::{
    api::{DEFAULT_CONFIG_NAME, OPERATOR_CONFIG_FINALIZER, SriovOperatorConfig},
    apply::{by_us, finalizers},
};

/// Whether the config carries our finalizer.
pub(super) fn is_present(config: &SriovOperatorConfig) -> bool {
    finalizers(config)
        .iter()
        .any(|finalizer| finalizer == OPERATOR_CONFIG_FINALIZER)
}

/// Adds our finalizer. A config that changed meanwhile is a conflict, which the next pass resolves.
pub(super) async fn add(
    api: &Api<SriovOperatorConfig>,
    config: &SriovOperatorConfig,
) -> Result<(), Error> {
    let uid = config.metadata.uid.as_deref();
    let addition = finalizers::addition(uid, finalizers(config), OPERATOR_CONFIG_FINALIZER);
    patch(api, addition).await
}

/// Removes our finalizer.
pub(super) async fn remove(
    api: &Api<SriovOperatorConfig>,
    config: &SriovOperatorConfig,
) -> Result<(), Error> {
    let uid = config.metadata.uid.as_deref();
    let removal = finalizers::removal(uid, finalizers(config), OPERATOR_CONFIG_FINALIZER);
    patch(api, removal).await
}

async fn patch(api: &Api<SriovOperatorConfig>, patch: Option<JsonPatch>) -> Result<(), Error> {
    let Some(patch) = patch else {
        return Ok(());
    };
    match api
        .patch(DEFAULT_CONFIG_NAME, &by_us(), &Patch::Json::<()>(patch))
        .await
    {
        Ok(_) => Ok(()),
        // Gone meanwhile: the watch shows it.
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(error) => Err(Error::Config(error.into())),
    }
}

pub(super) fn finalizers(config: &SriovOperatorConfig) -> &[String] {
    config.metadata.finalizers.as_deref().unwrap_or_default()
}
