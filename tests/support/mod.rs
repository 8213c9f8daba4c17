//! The harness: a real control plane on loopback, the real operator binary under its own ServiceAccount, and the
//! questions that tests and demo ask them. It holds no expectation about the product; those are in the tests.
//!
//! ```text
//! assets    -> where etcd, kube-apiserver and kube-controller-manager are
//! loopback  -> addresses of one cluster, its own /16 of 127.0.0.0/8, so that clusters run side by side
//! pki       -> the cluster's CA, certificates and service account key
//! process   -> a child that never outlives its owner
//! cluster   -> boots the three, hands out credentials
//! user      -> REST calls of one account, with their status and warnings
//! manifests -> the repository's CRDs and roles, as applied by an administrator
//! dockerfile -> the image, by its Dockerfile
//! probe     -> GETs of health and metrics
//! caller    -> what an API server does to call a webhook, and what a stranger would
//! gateway   -> the operator's way to the API server, in which trouble can be made
//! issuer    -> certificates of others, and stand-ins for what fills in Secrets and bundles
//! load      -> admissions at a steady rate, each of which has to be answered
//! operator  -> one replica of the product
//! proxy     -> what kube-proxy does: ClusterIP:443 to the ready replicas
//! workload  -> a pod of a rendered DaemonSet that runs the product
//! old_webhook -> another program that answers a webhook
//! scene     -> all of that, installed and seeded, for tests
//! cli       -> the commands that people run
//! audit     -> what an account did, as the API server saw it
//! ```

pub(crate) mod assets;
pub(crate) mod audit;
pub(crate) mod caller;
pub(crate) mod cli;
pub(crate) mod cluster;
pub(crate) mod dockerfile;
pub(crate) mod gateway;
pub(crate) mod issuer;
pub(crate) mod kinds;
pub(crate) mod load;
pub(crate) mod loopback;
pub(crate) mod manifests;
pub(crate) mod old_webhook;
pub(crate) mod operator;
pub(crate) mod pki;
pub(crate) mod probe;
pub(crate) mod process;
pub(crate) mod proxy;
pub(crate) mod scene;
pub(crate) mod user;
pub(crate) mod wait;
pub(crate) mod workload;
pub(crate) mod world;

/// Whether tests that have a longer form take it: `LONG=1` (`make long`).
pub(crate) fn is_long() -> bool {
    std::env::var_os("LONG").is_some_and(|value| !value.is_empty() && value != "0")
}

/// The operator's namespace, as in the shipped manifests.
pub(crate) const NAMESPACE: &str = "sriov-network-operator";
/// The operator's ServiceAccount, as in the shipped manifests.
pub(crate) const SERVICE_ACCOUNT: &str = "sriov-network-operator";
