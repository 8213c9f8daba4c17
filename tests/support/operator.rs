//! One replica of the product: the real binary, at an address of its own as a pod would have, with nothing but its
//! ServiceAccount's token.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use http::Method;
use kube::config::Kubeconfig;
use serde_json::json;

use super::dockerfile::FinalStage;
use super::probe::Probe;
use super::process::{Launch, Process, tail};
use super::proxy::Pod;
use super::user::User;
use super::wait::eventually;
use super::{NAMESPACE, SERVICE_ACCOUNT};

/// Where a replica with an address of its own serves admission.
pub(crate) const WEBHOOK_PORT: u16 = 19_443;
/// Images that rendered objects name; nothing pulls them here.
const IMAGES: [(&str, &str); 8] = [
    (
        "SRIOV_NETWORK_CONFIG_DAEMON_IMAGE",
        "example.com/sriov-network-config-daemon:test",
    ),
    ("SRIOV_CNI_IMAGE", "example.com/sriov-cni:test"),
    (
        "SRIOV_INFINIBAND_CNI_IMAGE",
        "example.com/ib-sriov-cni:test",
    ),
    ("OVS_CNI_IMAGE", "example.com/ovs-cni:test"),
    ("RDMA_CNI_IMAGE", "example.com/rdma-cni:test"),
    (
        "SRIOV_DEVICE_PLUGIN_IMAGE",
        "example.com/sriov-device-plugin:test",
    ),
    (
        "NETWORK_RESOURCES_INJECTOR_IMAGE",
        "example.com/sriov-operator:test",
    ),
    (
        "SRIOV_NETWORK_WEBHOOK_IMAGE",
        "example.com/sriov-operator:test",
    ),
];

/// Where a replica listens.
#[derive(Clone, Copy)]
struct Ports {
    webhook: u16,
    health: u16,
    metrics: u16,
}

impl Ports {
    /// Nobody else has an address of one's own.
    const OWN: Self = Self {
        webhook: WEBHOOK_PORT,
        health: 18_081,
        metrics: 18_080,
    };

    /// Ports that are free at every address of this machine.
    fn free() -> Result<Self> {
        let listen = || TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0));
        // All at once, so that they differ.
        let taken = [listen()?, listen()?, listen()?];
        let [webhook, health, metrics] = taken.each_ref().map(TcpListener::local_addr);
        Ok(Self {
            webhook: webhook?.port(),
            health: health?.port(),
            metrics: metrics?.port(),
        })
    }
}

/// A replica, running or not.
pub(crate) struct Operator {
    name: String,
    address: Ipv4Addr,
    webhook_host: Ipv4Addr,
    ports: Ports,
    kubeconfig: PathBuf,
    log: PathBuf,
    environment: Vec<(String, String)>,
    arguments: Vec<String>,
    process: Option<Process>,
}

impl Operator {
    /// A replica that is not started yet, for the cluster of the administrator's kubeconfig. Its files go to
    /// `directory`, which must outlive it.
    pub(crate) async fn new(
        admin: &User,
        admin_kubeconfig: &str,
        directory: &Path,
        address: Ipv4Addr,
    ) -> Result<Self> {
        let name = format!("operator-{}", address.octets()[3]);
        let kubeconfig = directory.join(format!("{name}.kubeconfig"));
        let own = account_kubeconfig(admin, admin_kubeconfig, SERVICE_ACCOUNT).await?;
        std::fs::write(&kubeconfig, own)?;
        let mut environment = FinalStage::read()?.environment;
        environment.extend(
            IMAGES
                .iter()
                .map(|(name, image)| ((*name).to_owned(), (*image).to_owned())),
        );
        for (name, value) in [
            ("NAMESPACE", NAMESPACE),
            ("CLUSTER_TYPE", "kubernetes"),
            ("RESOURCE_PREFIX", "openshift.io"),
        ] {
            environment.push((name.to_owned(), value.to_owned()));
        }
        // A replica at the general loopback address stands for one that is called from elsewhere.
        let (webhook_host, ports) = if address == Ipv4Addr::LOCALHOST {
            (Ipv4Addr::UNSPECIFIED, Ports::free()?)
        } else {
            (address, Ports::OWN)
        };
        Ok(Self {
            log: directory.join(format!("{name}.log")),
            name,
            address,
            webhook_host,
            ports,
            kubeconfig,
            environment,
            arguments: Vec::new(),
            process: None,
        })
    }

    /// Sets an environment variable for the next start.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.environment.retain(|(known, _)| known != name);
        self.environment.push((name.to_owned(), value.to_owned()));
    }

    /// Gives it, for the next start, the images that the metrics exporter needs.
    pub(crate) fn set_exporter_images(&mut self) {
        self.set(
            "METRICS_EXPORTER_IMAGE",
            "example.com/metrics-exporter:test",
        );
        self.set(
            "METRICS_EXPORTER_KUBE_RBAC_PROXY_IMAGE",
            "example.com/kube-rbac-proxy:test",
        );
    }

    /// Adds an argument for the next start.
    pub(crate) fn argument(&mut self, argument: &str) {
        self.arguments.push(argument.to_owned());
    }

    /// How Services see it.
    pub(crate) fn pod(&self) -> Pod {
        let label = (
            "app.kubernetes.io/name".to_owned(),
            "sriov-operator".to_owned(),
        );
        Pod {
            ip: self.address,
            labels: [label].into(),
            probe: self.health(),
        }
    }

    /// Starts the process.
    pub(crate) fn start(&mut self) -> Result<()> {
        let mut arguments = vec![
            "run".to_owned(),
            format!("--kubeconfig={}", self.kubeconfig.display()),
            format!(
                "--webhook-bind-address={}:{}",
                self.webhook_host, self.ports.webhook
            ),
            format!(
                "--health-probe-bind-address={}:{}",
                self.address, self.ports.health
            ),
            format!(
                "--metrics-bind-address={}:{}",
                self.address, self.ports.metrics
            ),
        ];
        arguments.extend(self.arguments.iter().cloned());
        self.process = Some(Process::start(Launch {
            name: &self.name,
            program: &binary()?,
            arguments,
            environment: self.environment.clone(),
            log: self.log.clone(),
        })?);
        Ok(())
    }

    /// Waits until its readiness probe says yes, failing at once when the process ends.
    pub(crate) async fn ready(&mut self) -> Result<()> {
        let probe = self.health();
        let process = self
            .process
            .as_mut()
            .context("the operator is not started")?;
        eventually(
            Duration::from_secs(30),
            "the operator to be ready",
            async || {
                if process.check_running().is_err() {
                    return Ok(());
                }
                probe.ready().await
            },
        )
        .await?;
        process.check_running()
    }

    /// Reaches the API server by this kubeconfig from the next start on, with the token that it has.
    pub(crate) fn reach(&mut self, server: &str) -> Result<()> {
        let mut config: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(&self.kubeconfig)?)?;
        config["clusters"][0]["cluster"] = json!({ "server": server });
        std::fs::write(&self.kubeconfig, config.to_string())?;
        Ok(())
    }

    /// Reads its token from this file from the next start on.
    pub(crate) fn token_file(&mut self, path: &Path) -> Result<()> {
        let mut config: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(&self.kubeconfig)?)?;
        config["users"][0]["user"] = json!({ "tokenFile": path });
        std::fs::write(&self.kubeconfig, config.to_string())?;
        Ok(())
    }

    /// Sends a signal by its short name, such as `TERM`.
    pub(crate) fn signal(&self, signal: &str) -> Result<()> {
        let process = self.process.as_ref();
        process
            .context("the operator is not started")?
            .signal(signal)
    }

    /// How many files the process has open.
    pub(crate) fn open_files(&self) -> Result<usize> {
        let process = self.process.as_ref();
        let id = process.context("the operator is not started")?.id();
        Ok(std::fs::read_dir(format!("/proc/{id}/fd"))?.count())
    }

    /// Where it serves admission.
    pub(crate) fn webhook(&self) -> SocketAddr {
        SocketAddr::from((self.address, self.ports.webhook))
    }

    /// The value of a metric, by its name with labels.
    pub(crate) async fn metric(&self, name: &str) -> Result<Option<f64>> {
        let (code, text) = Probe::new(self.address, self.ports.metrics)
            .get("/metrics")
            .await?;
        ensure!(code == 200, "/metrics answered {code}");
        let value = text.lines().find_map(|line| line.strip_prefix(name));
        Ok(value.map(str::trim).map(str::parse).transpose()?)
    }

    /// Ends it as a kubelet does, and waits for it.
    pub(crate) async fn stop(&mut self) -> Result<ExitStatus> {
        let mut process = self.process.take().context("the operator is not started")?;
        process.signal("TERM")?;
        process.ended(Duration::from_secs(40)).await
    }

    /// Ends it as a crash does.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill();
        }
    }

    /// Waits until it has ended by itself.
    pub(crate) async fn ended(&mut self, within: Duration) -> Result<ExitStatus> {
        let process = self
            .process
            .as_mut()
            .context("the operator is not started")?;
        process.ended(within).await
    }

    /// The last lines of its log.
    pub(crate) fn log(&self, lines: usize) -> String {
        tail(&self.log, lines)
    }

    /// How many lines of its log have that text.
    pub(crate) fn said(&self, text: &str) -> Result<usize> {
        let log = std::fs::read_to_string(&self.log)?;
        Ok(log.lines().filter(|line| line.contains(text)).count())
    }

    /// Its process id.
    #[allow(dead_code, reason = "the demo does not ask for it")]
    pub(crate) fn process_id(&self) -> Result<u32> {
        let process = self
            .process
            .as_ref()
            .context("the operator is not started")?;
        Ok(process.id())
    }

    /// Its metrics endpoint.
    pub(crate) fn metrics(&self) -> Probe {
        Probe::new(self.address, self.ports.metrics)
    }

    /// Its health endpoint.
    pub(crate) fn health(&self) -> Probe {
        Probe::new(self.address, self.ports.health)
    }
}

/// The same cluster, with nothing but the token of a ServiceAccount of the operator's namespace.
pub(crate) async fn account_kubeconfig(
    admin: &User,
    admin_kubeconfig: &str,
    account: &str,
) -> Result<String> {
    with_token(admin_kubeconfig, &token(admin, account).await?)
}

/// The same cluster, with nothing but this token.
fn with_token(kubeconfig: &str, token: &str) -> Result<String> {
    let mut config = serde_json::to_value(Kubeconfig::from_yaml(kubeconfig)?)?;
    let contexts = config["contexts"].as_array().cloned().unwrap_or_default();
    config["users"] = contexts
        .iter()
        .map(|context| json!({ "name": context["context"]["user"], "user": { "token": token } }))
        .collect();
    Ok(config.to_string())
}

async fn token(admin: &User, account: &str) -> Result<String> {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token");
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": { "expirationSeconds": 86_400 },
    });
    let answer = admin
        .call(Method::POST, &path, "application/json", Some(&request))
        .await?
        .object()
        .with_context(|| format!("failed to get a token for ServiceAccount {account}"))?;
    let token = answer["status"]["token"].as_str();
    Ok(token.context("the token is missing")?.to_owned())
}

/// Cargo tells tests where it built the product; an example finds it in the directory above its own.
pub(crate) fn binary() -> Result<PathBuf> {
    if let Some(path) = option_env!("CARGO_BIN_EXE_sriov-operator") {
        return Ok(path.into());
    }
    let own = std::env::current_exe()?;
    for directory in own.ancestors().skip(1).take(2) {
        let path = directory.join("sriov-operator");
        if path.is_file() {
            return Ok(path);
        }
    }
    bail!("sriov-operator is not built: run `cargo build` first")
}
