//! Writing objects: server-side apply, take-over, ownership, drift, removal. It does not know what the objects mean.
//!
//! One [`Applier`] remembers what it applied and what the watches show. An object whose rendering is the remembered
//! one and whose entry in `managedFields` is the one that the last apply left needs nothing: no read, no write.

mod applier;
mod calls;
mod error;
pub mod finalizers;
mod kinds;
mod object;
mod ownership;
mod repairs;
mod theirs;
mod tracker;
mod watches;

pub use applier::{Applied, Applier, Repair};
pub use error::Error;
pub use kinds::{Kind, Watched};
pub use object::ObjectRef;
pub use ownership::{LEGACY_FIELD_MANAGER, Owner, Whose, take_over};
pub use repairs::{Contested, Repairs};
pub use watches::watch;

pub use crate::render::{MANAGED_BY, MANAGED_BY_LABEL};

use kube::api::{PatchParams, PostParams};

/// The one field manager of everything that this process applies.
pub const FIELD_MANAGER: &str = "sriov-operator";
/// The annotation that names the installation's namespace on a cluster-wide object that has no owner.
pub const INSTALLATION_ANNOTATION: &str = "sriovnetwork.openshift.io/operator-namespace";
/// The field manager of what is created once and then belongs to the users.
const CREATOR: &str = "sriov-operator-defaults";

/// How we write what is no server-side apply.
pub fn by_us() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.into()),
        ..PatchParams::default()
    }
}

/// The same of an object that is made.
pub fn made_by_us() -> PostParams {
    PostParams {
        field_manager: Some(FIELD_MANAGER.into()),
        ..PostParams::default()
    }
}
