//! Where the demo plays: a cluster booted for it or the one that `KUBECONFIG_DEMO` names, and one operator. Remembers
//! what it made in a cluster that goes on existing, and takes it away.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tempfile::TempDir;

use crate::endpoints::Endpoints;
use crate::support::cluster::{self, Cluster};
use crate::support::kinds::{CONFIG, Kind, NAMESPACES, text};
use crate::support::operator::Operator;
use crate::support::proxy::{PROBED_OFTEN, ServiceProxy};
use crate::support::user::User;
use crate::support::wait::eventually;
use crate::support::{NAMESPACE, assets, manifests, world};

/// Cluster and operator.
pub(crate) struct Stage {
    // The order is that of ending.
    pub(crate) operator: Operator,
    _proxy: ServiceProxy,
    _endpoints: Option<Endpoints>,
    pub(crate) admin: User,
    /// What was there before the operator ran.
    pub(crate) found: BTreeMap<String, String>,
    /// Objects to delete at the end, in the order of their creation; a booted cluster needs none.
    made: Vec<Value>,
    kubeconfig: PathBuf,
    pub(crate) cluster: Option<Cluster>,
    _directory: TempDir,
}

impl Stage {
    /// A running control plane and an operator that is not started.
    pub(crate) async fn prepare() -> Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("sriov-operator-demo-")
            .tempdir()?;
        match std::env::var_os("KUBECONFIG_DEMO").filter(|path| !path.is_empty()) {
            Some(kubeconfig) => Self::given(directory, kubeconfig.into()).await,
            None => Self::booted(directory).await,
        }
    }

    async fn booted(directory: TempDir) -> Result<Self> {
        let cluster = Cluster::boot()
            .await
            .context("failed to boot a control plane")?;
        let admin = cluster.admin().clone();
        manifests::install(&admin).await?;
        let found = world::inventory(&admin).await?;
        let operator = cluster.operator(1).await?;
        Ok(Self {
            _proxy: proxy(&admin, &operator),
            _endpoints: None,
            operator,
            admin,
            found,
            made: Vec::new(),
            kubeconfig: cluster.admin_kubeconfig(),
            cluster: Some(cluster),
            _directory: directory,
        })
    }

    async fn given(directory: TempDir, kubeconfig: PathBuf) -> Result<Self> {
        let text = std::fs::read_to_string(&kubeconfig)
            .with_context(|| format!("KUBECONFIG_DEMO={}", kubeconfig.display()))?;
        let admin = User::new(cluster::client(&text).await?);
        if admin.get(NAMESPACES, NAMESPACE).await?.is_some() {
            bail!(
                "KUBECONFIG_DEMO={}: this cluster has a namespace {NAMESPACE} already, and the demo would delete it",
                kubeconfig.display()
            );
        }
        let mut objects = manifests::shipped()?;
        let mut made = Vec::new();
        for object in objects.iter().chain(&world::seeds()?) {
            if !exists(&admin, object).await? {
                made.push(object.clone());
            }
        }
        objects.retain(|object| made.contains(object));
        let prepared = async {
            manifests::apply(&admin, &objects).await?;
            let address = Ipv4Addr::LOCALHOST;
            let operator = Operator::new(&admin, &text, directory.path(), address).await?;
            Ok((operator, world::inventory(&admin).await?))
        };
        let (operator, found) = match prepared.await {
            Ok(ready) => ready,
            Err(error) => {
                clear(&admin, &made).await?;
                return Err(error);
            }
        };
        let endpoints = Endpoints::publish(admin.clone());
        Ok(Self {
            _proxy: proxy(&admin, &operator),
            _endpoints: Some(endpoints),
            operator,
            admin,
            found,
            made,
            kubeconfig,
            cluster: None,
            _directory: directory,
        })
    }

    /// Where it plays, in one line.
    pub(crate) fn describe(&self) -> String {
        self.cluster.as_ref().map_or_else(
            || format!("the cluster of {}", self.kubeconfig.display()),
            Cluster::describe,
        )
    }

    /// Creates what the demo needs beside the product, unless it is there.
    pub(crate) async fn seed(&mut self) -> Result<()> {
        let mut missing = Vec::new();
        for object in world::seeds()? {
            if !exists(&self.admin, &object).await? {
                missing.push(object);
            }
        }
        world::load(&self.admin, &missing).await?;
        self.found = world::inventory(&self.admin).await?;
        Ok(())
    }

    /// What to try by hand.
    pub(crate) fn hints(&self) -> String {
        let kubectl = assets::binary("kubectl")
            .map_or_else(|_| "kubectl".to_owned(), |path| path.display().to_string());
        let kubeconfig = self.kubeconfig.display();
        format!(
            "export KUBECONFIG={kubeconfig}\nalias kubectl={kubectl}\n\
             kubectl config set-context --current --namespace={NAMESPACE}\n\
             kubectl get sriovoperatorconfigs,sriovnetworknodestates,daemonsets,services\n\
             kubectl get sriovoperatorconfig default -o yaml\n\
             kubectl create --dry-run=server -f tests/demo/impossible-policy.yaml\n\
             kubectl create --dry-run=server -o yaml -f tests/demo/pod.yaml\n\
             kubectl delete mutatingwebhookconfiguration network-resources-injector-config"
        )
    }

    /// Ends the operator and deletes what the demo made in a cluster that it did not boot.
    pub(crate) async fn clear(mut self) -> Result<()> {
        if self.cluster.is_none() {
            // The configuration first, while somebody is there who heeds its finalizer.
            let admin = self.admin.clone();
            admin.delete(CONFIG, "default").await?;
            let gone = eventually(
                crate::story::PATIENCE,
                "the configuration to go",
                async || match admin.get(CONFIG, "default").await? {
                    Some(_) => bail!("it is there"),
                    None => Ok(()),
                },
            )
            .await;
            self.operator.kill();
            clear(&admin, &self.made).await?;
            gone?;
        }
        Ok(())
    }
}

fn proxy(admin: &User, operator: &Operator) -> ServiceProxy {
    let proxy = ServiceProxy::start(admin.client(), PROBED_OFTEN);
    proxy.add(operator.pod());
    proxy
}

/// Deletes objects, the last made first.
async fn clear(admin: &User, made: &[Value]) -> Result<()> {
    for object in made.iter().rev() {
        admin.delete(Kind::of(object)?, &name_of(object)).await?;
    }
    Ok(())
}

async fn exists(admin: &User, object: &Value) -> Result<bool> {
    let found = admin.get(Kind::of(object)?, &name_of(object)).await?;
    Ok(found.is_some())
}

fn name_of(object: &Value) -> String {
    let name = text(object, "/metadata/name");
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}
