//! What is injected into pods, as pure functions over a review and a view of the cluster. No I/O.
