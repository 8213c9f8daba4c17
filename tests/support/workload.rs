//! A pod of a rendered DaemonSet whose container is the product: the real binary with the container's own arguments
//! and environment, under the pod's own ServiceAccount. What a kubelet would do, as far as it matters here.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::NAMESPACE;
use super::kinds::text;
use super::operator::{account_kubeconfig, binary};
use super::probe::Probe;
use super::process::{Launch, Process, tail};
use super::proxy::Pod;
use super::user::User;
use super::wait::eventually;

/// A running pod.
pub(crate) struct Workload {
    process: Process,
    log: PathBuf,
    pod: Pod,
}

impl Workload {
    /// Starts the first container of the DaemonSet's template at this address. Its files go to `directory`.
    pub(crate) async fn start(
        admin: &User,
        admin_kubeconfig: &str,
        directory: &Path,
        address: Ipv4Addr,
        daemon_set: &Value,
    ) -> Result<Self> {
        let template = &daemon_set["spec"]["template"];
        let container = &template["spec"]["containers"][0];
        let name = text(daemon_set, "/metadata/name");
        ensure!(
            container["command"] == serde_json::json!(["sriov-operator"]),
            "{name} runs {}",
            container["command"]
        );
        let account = text(template, "/spec/serviceAccountName");
        let own = account_kubeconfig(admin, admin_kubeconfig, account).await?;
        let kubeconfig = directory.join(format!("{name}.kubeconfig"));
        std::fs::write(&kubeconfig, own)?;
        // A pod has all addresses of its own; here one of this machine's stands for them.
        let mut arguments: Vec<String> = strings(&container["args"])?
            .map(|argument| {
                argument.replace("-bind-address=:", &format!("-bind-address={address}:"))
            })
            .collect();
        arguments.push(format!("--kubeconfig={}", kubeconfig.display()));
        let environment = container["env"].as_array().into_iter().flatten();
        let log = directory.join(format!("{name}.log"));
        let process = Process::start(Launch {
            name,
            program: &binary()?,
            arguments,
            environment: environment.map(|variable| value(variable, name)).collect(),
            log: log.clone(),
        })?;
        let labels: BTreeMap<String, String> =
            serde_json::from_value(template["metadata"]["labels"].clone())?;
        let port = container["readinessProbe"]["httpGet"]["port"]
            .as_u64()
            .context("the container has no readiness probe")?;
        let pod = Pod {
            ip: address,
            labels,
            probe: Probe::new(address, u16::try_from(port)?),
        };
        Ok(Self { process, log, pod })
    }

    /// How Services see it.
    pub(crate) fn pod(&self) -> Pod {
        self.pod.clone()
    }

    /// Waits until its readiness probe says yes, failing at once when the process ends.
    pub(crate) async fn ready(&mut self) -> Result<()> {
        let (process, probe) = (&mut self.process, self.pod.probe);
        eventually(Duration::from_secs(30), "the pod to be ready", async || {
            if process.check_running().is_err() {
                return Ok(());
            }
            probe.ready().await
        })
        .await
        .with_context(|| tail(&self.log, 30))?;
        self.process.check_running()
    }

    /// Stops it politely and waits until it has ended.
    pub(crate) async fn stop(mut self) -> Result<()> {
        self.process.signal("TERM")?;
        self.process.ended(Duration::from_secs(40)).await.map(drop)
    }
}

impl Drop for Workload {
    fn drop(&mut self) {
        println!("the end of a pod's log:\n{}", tail(&self.log, 30));
    }
}

fn strings(list: &Value) -> Result<impl Iterator<Item = &str>> {
    let items = list.as_array().context("the container has no arguments")?;
    Ok(items.iter().filter_map(Value::as_str))
}

/// A variable as the kubelet sets it.
fn value(variable: &Value, pod: &str) -> (String, String) {
    let value = match text(variable, "/valueFrom/fieldRef/fieldPath") {
        "metadata.namespace" => NAMESPACE,
        "metadata.name" => pod,
        _ => text(variable, "/value"),
    };
    (text(variable, "/name").to_owned(), value.to_owned())
}
