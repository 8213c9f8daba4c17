//! What fails outside the components: the config itself.

use crate::lines::said;

/// Why the config could not be written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its finalizer or its status could not be written.
    #[error("failed to write SriovOperatorConfig default: {}", said(.0))]
    Config(#[source] Box<kube::Error>),
}
