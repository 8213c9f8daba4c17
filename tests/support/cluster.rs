//! Boots etcd and kube-apiserver (and kube-controller-manager on request) on loopback, ends them when dropped, and
//! hands out credentials.
//!
//! The API server dials a webhook's Service at its `ClusterIP` when there is no proxy, and the Services' addresses are
//! this machine's own: so webhooks are called as registered, through `clientConfig.service` and `caBundle`.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use http::Method;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::assets;
use super::audit::{self, Call};
use super::gateway::Gateway;
use super::loopback::Loopback;
use super::operator::Operator;
use super::pki::Pki;
use super::process::{Launch, Process};
use super::user::User;
use super::wait::eventually;
use super::workload::Workload;

const BOOT_TIME: Duration = Duration::from_secs(120);
/// An apiserver takes a processor for some seconds while it starts.
static AT_ONCE: Semaphore = Semaphore::const_new(2);

/// A running control plane.
pub(crate) struct Cluster {
    // Ended in this order: clients of a server before the server, files last.
    controllers: Option<Process>,
    api_server: Process,
    _etcd: Process,
    addresses: Loopback,
    pki: Pki,
    admin: User,
    directory: TempDir,
    _turn: SemaphorePermit<'static>,
}

impl Cluster {
    /// etcd and kube-apiserver.
    pub(crate) async fn boot() -> Result<Self> {
        Self::boot_with(false).await
    }

    /// The same, with an API server that presents a client certificate to webhooks, as an administrator can have it do.
    pub(crate) async fn boot_known_to_webhooks() -> Result<Self> {
        Self::boot_with(true).await
    }

    async fn boot_with(known_to_webhooks: bool) -> Result<Self> {
        let turn = AT_ONCE.acquire().await?;
        let directory = tempfile::Builder::new()
            .prefix("sriov-operator-")
            .tempdir()?;
        let addresses = Loopback::claim()?;
        let pki = Pki::create(directory.path(), addresses.control_plane())?;
        let mut etcd = start_etcd(&addresses, directory.path())?;
        if known_to_webhooks {
            write_admission_configuration(&pki, directory.path())?;
        }
        let mut api_server = start_api_server(&addresses, &pki, directory.path())?;
        let kubeconfig = admin_kubeconfig(&addresses, &pki);
        std::fs::write(directory.path().join("admin.kubeconfig"), &kubeconfig)?;
        let admin = User::new(client(&kubeconfig).await?);
        eventually(BOOT_TIME, "the API server to be ready", async || {
            if etcd.check_running().is_err() || api_server.check_running().is_err() {
                return Ok(());
            }
            ready(&admin)
                .await
                .with_context(|| format!("the end of its log:\n{}", api_server.log_tail(15)))
        })
        .await?;
        etcd.check_running()?;
        api_server.check_running()?;
        Ok(Self {
            controllers: None,
            api_server,
            _etcd: etcd,
            addresses,
            pki,
            admin,
            directory,
            _turn: turn,
        })
    }

    /// Ends the API server as a crash does.
    pub(crate) fn stop_api_server(&mut self) {
        self.api_server.kill();
    }

    /// Starts it again on the same data, and waits until it is ready.
    pub(crate) async fn start_api_server(&mut self) -> Result<()> {
        self.api_server = start_api_server(&self.addresses, &self.pki, self.directory.path())?;
        eventually(BOOT_TIME, "the API server to be back", async || {
            self.api_server.check_running()?;
            ready(&self.admin).await
        })
        .await
    }

    /// A gateway to the API server, to make trouble in.
    pub(crate) async fn gateway(&self, number: u8) -> Result<Gateway> {
        let kubeconfig = std::fs::read_to_string(self.admin_kubeconfig())?;
        Gateway::start(&kubeconfig, self.addresses.replica(number)).await
    }

    /// The cluster's certificates.
    pub(crate) fn pki(&self) -> &Pki {
        &self.pki
    }

    /// Where its files are.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Adds the controllers for garbage collection, namespaces and service accounts.
    pub(crate) fn with_controller_manager(mut self) -> Result<Self> {
        let arguments = vec![
            format!("--kubeconfig={}", self.admin_kubeconfig().display()),
            "--controllers=garbage-collector-controller,namespace-controller,serviceaccount-controller".to_owned(),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
            format!("--service-account-private-key-file={}", self.pki.file("service-accounts.key")),
            format!("--root-ca-file={}", self.pki.file("ca.crt")),
            // New custom resources become part of the collector's graph when it looks again.
            "--kube-api-qps=200".to_owned(),
            "--kube-api-burst=400".to_owned(),
        ];
        let process = Process::start(Launch {
            name: "kube-controller-manager",
            program: &assets::binary("kube-controller-manager")?,
            arguments,
            environment: Vec::new(),
            log: self.directory.path().join("kube-controller-manager.log"),
        })?;
        self.controllers = Some(process);
        Ok(self)
    }

    /// The cluster administrator.
    pub(crate) fn admin(&self) -> &User {
        &self.admin
    }

    /// The administrator's kubeconfig.
    pub(crate) fn admin_kubeconfig(&self) -> PathBuf {
        self.directory.path().join("admin.kubeconfig")
    }

    /// A replica of the product for this cluster, not started; numbers begin at 1.
    pub(crate) async fn operator(&self, number: u8) -> Result<Operator> {
        let kubeconfig = std::fs::read_to_string(self.admin_kubeconfig())?;
        let address = self.addresses.replica(number);
        Operator::new(&self.admin, &kubeconfig, self.directory.path(), address).await
    }

    /// A pod of a rendered DaemonSet, started; its number is another than those of the replicas.
    pub(crate) async fn pod_of(&self, daemon_set: &Value, number: u8) -> Result<Workload> {
        let kubeconfig = std::fs::read_to_string(self.admin_kubeconfig())?;
        let address = self.addresses.replica(number);
        Workload::start(
            &self.admin,
            &kubeconfig,
            self.directory.path(),
            address,
            daemon_set,
        )
        .await
    }

    /// An address for something that stands for a pod; replicas have the numbers from 1.
    pub(crate) fn address(&self, number: u8) -> Ipv4Addr {
        self.addresses.replica(number)
    }

    /// Where the API server is, and the addresses of Services.
    pub(crate) fn describe(&self) -> String {
        let (server, services) = (self.addresses.api_server(), self.addresses.services());
        format!("https://{server}, Services in {services}")
    }

    /// What the API server was asked by the ServiceAccounts of the operator's namespace.
    pub(crate) fn calls(&self) -> Result<Vec<Call>> {
        self.calls_from(&mut 0)
    }

    /// Those from `offset` of the log on, which moves behind them.
    #[allow(
        dead_code,
        reason = "only the bench has logs that are too long to be read again"
    )]
    pub(crate) fn calls_from(&self, offset: &mut u64) -> Result<Vec<Call>> {
        audit::read(&self.directory.path().join("audit.log"), offset)
    }
}

/// A client from a kubeconfig's text.
pub(crate) async fn client(kubeconfig: &str) -> Result<Client> {
    // A second call finds it installed.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let parsed = Kubeconfig::from_yaml(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

async fn ready(admin: &User) -> Result<()> {
    let path = "/readyz";
    let answer = admin.call(Method::GET, path, "text/plain", None).await?;
    anyhow::ensure!(answer.allowed(), "{path} answered {}", answer.code);
    // Without it nothing can be created in the default namespace.
    let namespace = "/api/v1/namespaces/default";
    let answer = admin
        .call(Method::GET, namespace, "application/json", None)
        .await?;
    anyhow::ensure!(answer.allowed(), "namespace default: {}", answer.message());
    Ok(())
}

fn start_etcd(addresses: &Loopback, directory: &Path) -> Result<Process> {
    let (client, peer) = (addresses.etcd(), addresses.etcd_peer());
    let arguments = vec![
        format!("--data-dir={}", directory.join("etcd").display()),
        format!("--listen-client-urls=http://{client}"),
        format!("--advertise-client-urls=http://{client}"),
        format!("--listen-peer-urls=http://{peer}"),
        format!("--initial-advertise-peer-urls=http://{peer}"),
        format!("--initial-cluster=default=http://{peer}"),
        "--unsafe-no-fsync".to_owned(),
        "--log-level=warn".to_owned(),
    ];
    Process::start(Launch {
        name: "etcd",
        program: &assets::binary("etcd")?,
        arguments,
        environment: Vec::new(),
        log: directory.join("etcd.log"),
    })
}

fn start_api_server(addresses: &Loopback, pki: &Pki, directory: &Path) -> Result<Process> {
    let address = addresses.api_server();
    let audit_policy = directory.join("audit-policy.json");
    std::fs::write(&audit_policy, audit::policy().to_string())?;
    let mut arguments = vec![
        format!("--etcd-servers=http://{}", addresses.etcd()),
        format!("--bind-address={}", address.ip()),
        format!("--advertise-address={}", address.ip()),
        format!("--secure-port={}", address.port()),
        format!("--service-cluster-ip-range={}", addresses.services()),
        format!("--cert-dir={}", directory.display()),
        format!("--tls-cert-file={}", pki.file("apiserver.crt")),
        format!("--tls-private-key-file={}", pki.file("apiserver.key")),
        format!("--client-ca-file={}", pki.file("ca.crt")),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!(
            "--service-account-key-file={}",
            pki.file("service-accounts.pub")
        ),
        format!(
            "--service-account-signing-key-file={}",
            pki.file("service-accounts.key")
        ),
        "--authorization-mode=RBAC".to_owned(),
        "--allow-privileged=true".to_owned(),
        // The two that are off add to pods what the recorded answers are without; the one that is on is OpenShift's.
        "--disable-admission-plugins=ServiceAccount,DefaultTolerationSeconds".to_owned(),
        "--enable-admission-plugins=OwnerReferencesPermissionEnforcement".to_owned(),
        format!("--audit-policy-file={}", audit_policy.display()),
        format!("--audit-log-path={}", directory.join("audit.log").display()),
        // In MiB: a log that is rotated loses calls for those who read it.
        "--audit-log-maxsize=10240".to_owned(),
    ];
    let admission = directory.join(ADMISSION_CONFIGURATION);
    if admission.is_file() {
        arguments.push(format!(
            "--admission-control-config-file={}",
            admission.display()
        ));
    }
    Process::start(Launch {
        name: "kube-apiserver",
        program: &assets::binary("kube-apiserver")?,
        arguments,
        environment: Vec::new(),
        log: directory.join("kube-apiserver.log"),
    })
}

const ADMISSION_CONFIGURATION: &str = "admission.json";

/// Lets the API server present a certificate to every webhook.
fn write_admission_configuration(pki: &Pki, directory: &Path) -> Result<()> {
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "users": [{ "name": "*", "user": {
            "client-certificate-data": base64(&pki.admin_certificate),
            "client-key-data": base64(&pki.admin_key),
        } }],
    });
    let path = directory.join("webhooks.kubeconfig");
    std::fs::write(&path, kubeconfig.to_string())?;
    let plugins: Vec<Value> = ["ValidatingAdmissionWebhook", "MutatingAdmissionWebhook"]
        .iter()
        .map(|plugin| {
            json!({ "name": plugin, "configuration": {
                "apiVersion": "apiserver.config.k8s.io/v1",
                "kind": "WebhookAdmissionConfiguration",
                "kubeConfigFile": path,
            } })
        })
        .collect();
    let configuration = json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": plugins,
    });
    std::fs::write(
        directory.join(ADMISSION_CONFIGURATION),
        configuration.to_string(),
    )?;
    Ok(())
}

fn admin_kubeconfig(addresses: &Loopback, pki: &Pki) -> String {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "test", "cluster": {
            "server": format!("https://{}", addresses.api_server()),
            "certificate-authority-data": base64(&pki.ca),
        } }],
        "users": [{ "name": "admin", "user": {
            "client-certificate-data": base64(&pki.admin_certificate),
            "client-key-data": base64(&pki.admin_key),
        } }],
        "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "admin" } }],
        "current-context": "test",
    })
    .to_string()
}

fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}
