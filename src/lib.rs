//! The SR-IOV network operator: reconciler, admission server and certificates in one process.
//!
//! # The two flows
//!
//! ```text
//! review:  accept -> TLS -> limits -> decode review -> handler -> view of the stores
//!          server           admission                             stores
//!                                       -> policy | inject -> decision -> encode review
//!                                                             admission
//! config:  watch -> controller (only while the Lease is held) -> finalizer
//!                   operator
//!          -> steps: desired objects -> apply / delete -> Ready condition, Events
//!                    render             apply
//! ```
//!
//! Node policies, networks, pools and drains have flows of their own beside that of the config, all in the form that
//! `controllers` describes: watches -> stores -> queue of keys -> pure plan -> calls.
//!
//! # The layers
//!
//! A module uses those above it in this list, never one below.
//!
//! | layer | modules | owns |
//! | --- | --- | --- |
//! | API types | [`api`] | the custom resources, serde and schemas, no I/O |
//! | pure logic | [`settings`], [`features`], [`policy`], [`nodes`], [`networks`], [`drain`], [`pools`], [`inject`], [`render`], [`scan`], [`brief`] | what is legal, what nodes and networks are to be, which node is drained when, what is injected, what is rendered: no tokio, no client, no clock but one passed in |
//! | I/O | [`lines`], [`watching`], [`apply`], [`stores`], [`certs`], [`platform`] | what is written to and read from the API server, and how its errors are told |
//! | services | [`operator`], [`controllers`], [`admission`], [`server`], [`status`] | the reconciler of the config, the controllers beside it, the routes, the TLS listener, how it all stands |
//! | entry | [`commands`], [`supervisor`], [`telemetry`] | one file a subcommand; the long tasks; logs |

pub mod admission;
pub mod api;
pub mod apply;
pub mod brief;
pub mod certs;
pub mod commands;
pub mod controllers;
pub mod drain;
pub mod features;
pub mod inject;
pub mod lines;
pub mod networks;
pub mod nodes;
pub mod operator;
pub mod platform;
pub mod policy;
pub mod pools;
pub mod render;
pub mod scan;
pub mod server;
pub mod settings;
pub mod status;
pub mod stores;
pub mod supervisor;
pub mod telemetry;
pub mod watching;
