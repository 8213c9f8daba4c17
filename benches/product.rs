//! The product from outside: its endpoints, and what the kernel says of its process.

use std::{net::SocketAddrV4, path::PathBuf, time::Duration};

use anyhow::{Context, Result};
use base64::{Engine, prelude::BASE64_STANDARD};

use crate::{
    load::Target,
    support::{
        NAMESPACE,
        kinds::{Kind, MUTATING, VALIDATING, text},
        operator::WEBHOOK_PORT,
        scene::Scene,
    },
};

/// What stores take to hold what was written, and the allocator to come to rest.
pub(crate) const SETTLES: Duration = Duration::from_secs(3);

/// A webhook of the product.
#[derive(Clone, Copy)]
pub(crate) enum Webhook {
    Pods,
    Validating,
    Mutating,
}

impl Webhook {
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Pods => "/mutate",
            Self::Validating => "/validating-custom-resource",
            Self::Mutating => "/mutating-custom-resource",
        }
    }

    fn configuration(self) -> (Kind, &'static str) {
        match self {
            Self::Pods => (MUTATING, "network-resources-injector-config"),
            Self::Validating => (VALIDATING, "sriov-operator-webhook-config"),
            Self::Mutating => (MUTATING, "sriov-operator-webhook-config"),
        }
    }
}

/// The webhook as the API server calls it.
pub(crate) async fn target(scene: &Scene, webhook: Webhook) -> Result<Target> {
    let (kind, name) = webhook.configuration();
    let registered = scene.admin().must_get(kind, name).await?;
    let client = &registered["webhooks"][0]["clientConfig"];
    let bundle = BASE64_STANDARD.decode(text(client, "/caBundle"))?;
    let name = format!("{}.{NAMESPACE}.svc", text(client, "/service/name"));
    let address = SocketAddrV4::new(scene.operator.pod().ip, WEBHOOK_PORT);
    Target::new(address.into(), &name, &bundle)
}

/// Processor time of a process so far, in microseconds.
pub(crate) fn cpu(process: u32) -> Result<f64> {
    let mut nanoseconds = 0_u64;
    for task in std::fs::read_dir(format!("/proc/{process}/task"))? {
        let text = std::fs::read_to_string(task?.path().join("schedstat"))?;
        let first = text.split(' ').next().unwrap_or_default();
        nanoseconds += first.parse::<u64>()?;
    }
    Ok(Duration::from_nanos(nanoseconds).as_secs_f64() * 1e6)
}

/// Memory of a process in MiB: what it holds now, and the most that it held.
pub(crate) fn memory(process: u32) -> Result<(f64, f64)> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let field = |name: &str| -> Result<f64> {
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .with_context(|| format!("/proc tells no {name}"))?;
        let kibibytes: u32 = line
            .trim()
            .trim_end_matches(" kB")
            .parse()
            .with_context(|| line.to_owned())?;
        Ok(f64::from(kibibytes) / 1024.0)
    };
    Ok((field("VmRSS:")?, field("VmHWM:")?))
}

/// From here on, the most that a process held is counted anew.
pub(crate) fn forget_peak(process: u32) -> Result<()> {
    Ok(std::fs::write(format!("/proc/{process}/clear_refs"), "5")?)
}

/// The size of the binary in MiB.
pub(crate) fn binary_size() -> Result<f64> {
    let path = PathBuf::from(env!("CARGO_BIN_EXE_sriov-operator"));
    let kibibytes = u32::try_from(std::fs::metadata(path)?.len() / 1024)?;
    Ok(f64::from(kibibytes) / 1024.0)
}
