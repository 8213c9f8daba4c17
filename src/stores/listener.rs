//! Word of changes for the one controller that works from the stores of admission, so that nodes, node states and
//! policies are watched once.

use std::sync::Arc;

use parking_lot::RwLock;

/// What a change of the stores touches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Touched {
    /// This node: it, or its state, is new, different or gone.
    Node(Box<str>),
    /// This policy is new, different or gone; so these nodes, which it selects or selected.
    Policy(Box<str>, Vec<Box<str>>),
    /// All nodes: the list of supported NICs has changed.
    Everything,
}

type Hear = dyn Fn(Touched) + Send + Sync;

/// Where the sinks tell of changes. Nothing is told, and nothing costs, while nobody listens.
#[derive(Clone, Default)]
pub(super) struct Listener(Arc<RwLock<Option<Arc<Hear>>>>);

impl Listener {
    /// From now on changes are told to `hear`, and no longer to whoever listened before.
    pub(super) fn listen(&self, hear: impl Fn(Touched) + Send + Sync + 'static) {
        *self.0.write() = Some(Arc::new(hear));
    }

    pub(super) fn is_heard(&self) -> bool {
        self.0.read().is_some()
    }

    pub(super) fn tell(&self, touched: impl FnOnce() -> Touched) {
        let hear = self.0.read().clone();
        if let Some(hear) = hear {
            hear(touched());
        }
    }

    pub(super) fn tell_nodes<'a>(&self, names: impl IntoIterator<Item = &'a str>) {
        for name in names {
            self.tell(|| Touched::Node(name.into()));
        }
    }
}
