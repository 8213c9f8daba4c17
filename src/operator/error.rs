//! What fails outside the components: the config itself.

/// Why the config could not be written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its finalizer or its status could not be written.
    #[error("failed to write SriovOperatorConfig default: {}", describe(.0))]
    Config(#[source] Box<kube::Error>),
}

/// What the server said, on one line.
fn describe(error: &kube::Error) -> String {
    let text = match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    };
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
