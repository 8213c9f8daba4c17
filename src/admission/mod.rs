//! The admission routes: review codec, limits, decisions.
//!
//! It owns what lies between an HTTP request and a verdict: who may ask and how much, the `AdmissionReview` v1 envelope, the
//! deadline, overload, panics, and the answer's bytes. It judges nothing itself: verdicts come from `policy` and `inject`
//! through the two traits of [`handlers`], and it opens no socket ([`crate::server`] does).
//!
//! ```text
//! request -> route, method, media type -> body (limit, budget, deadline) -> Review -> handler -> Decision -> answer
//!            router                       body                              review    handlers   decision    answer
//! ```
//!
//! What cannot be answered as a review is an HTTP error whose body is a `metav1.Status` ([`refusal`]): the API server shows
//! the sentence of such a body to the user and drops anything else.

mod answer;
mod body;
mod custom_resources;
mod deadline;
mod decision;
mod handlers;
mod pods;
mod refusal;
mod review;
mod router;
mod uid;
mod webhook;

pub use custom_resources::StoredCustomResources;
pub use decision::{Cause, Decision, Denial, Details, Undecided};
pub use handlers::{CustomResources, Handlers, Pods, Verdict};
pub use pods::StoredPods;
pub use review::{GroupVersionKind, GroupVersionResource, Object, Operation, Request};
pub use router::{Limits, router};
pub use webhook::Webhook;

#[cfg(test)]
mod tests;
