//! The client for the API server: a kubeconfig that was named, or the pod's ServiceAccount.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, Result, bail};
use k8s_openapi::apimachinery::pkg::version::Info;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

use crate::{lines::said, settings::SecretNames};

/// How long a connection to the API server may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection may be silent while an answer or an event is awaited. A watch that has nothing to tell says so
/// each minute; whoever says nothing at all is dead, or half of the connection is.
const READ_TIMEOUT: Duration = Duration::from_secs(90);
/// The oldest Kubernetes that knows match conditions: without them a dead backend could block deletions.
const OLDEST: (u32, u32) = (1, 30);

/// A client for these kubeconfig files, merged as kubectl does; for the pod's ServiceAccount when there are none.
pub(super) async fn connect(kubeconfig: &[PathBuf]) -> Result<Client> {
    build(config(kubeconfig).await?)
}

/// The same, but it hands every refusal on instead of repeating the request: an eviction that a disruption budget
/// refuses is answered like an overload, and would be asked for again within milliseconds.
pub(super) async fn connect_once(kubeconfig: &[PathBuf]) -> Result<Client> {
    let mut config = config(kubeconfig).await?;
    config.default_retry = false;
    build(config)
}

fn build(config: Config) -> Result<Client> {
    Client::try_from(config).context("failed to set up the client for the API server")
}

async fn config(kubeconfig: &[PathBuf]) -> Result<Config> {
    let config = if kubeconfig.is_empty() {
        Config::incluster().context(
            "no kubeconfig is given (--kubeconfig, KUBECONFIG) and this is no pod with a ServiceAccount",
        )?
    } else {
        let mut merged = Kubeconfig::default();
        for path in kubeconfig {
            let next = Kubeconfig::read_from(path)
                .with_context(|| format!("failed to read the kubeconfig {}", path.display()))?;
            merged = merged
                .merge(next)
                .context("the kubeconfig files do not fit together")?;
        }
        Config::from_custom_kubeconfig(merged, &KubeConfigOptions::default())
            .await
            .context("the kubeconfig cannot be used")?
    };
    Ok(bounded(config))
}

/// The same, with limits on how long nothing may happen.
fn bounded(mut config: Config) -> Config {
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(READ_TIMEOUT);
    // It counts from the request, not from when a connection that is used again fell idle.
    config.reset_reader_on_write = true;
    config
}

/// Refuses an API server that is too old. One that does not answer is judged when it does.
pub(super) async fn check_version(client: &Client) -> Result<()> {
    let version = match version(client).await {
        Ok(version) => version,
        Err(why) => {
            tracing::warn!(why, "the API server does not tell its version; going on");
            return Ok(());
        }
    };
    let number = |text: &str| {
        text.trim_end_matches(|c: char| !c.is_ascii_digit())
            .parse::<u32>()
            .ok()
    };
    if let (Some(major), Some(minor)) = (number(&version.major), number(&version.minor))
        && (major, minor) < OLDEST
    {
        bail!(
            "the API server is Kubernetes {major}.{minor}, and {}.{} or newer is needed: older ones do not evaluate the \
             match conditions that keep deletions independent of the webhooks",
            OLDEST.0,
            OLDEST.1
        );
    }
    Ok(())
}

/// The server's version, or why it does not tell it.
async fn version(client: &Client) -> Result<Info, String> {
    match tokio::time::timeout(CONNECT_TIMEOUT, client.apiserver_version()).await {
        Ok(answer) => answer.map_err(|error| said(&error)),
        Err(_) => Err(format!("no answer within {} s", CONNECT_TIMEOUT.as_secs())),
    }
}

/// How a command of a person reaches the cluster.
#[derive(Debug, clap::Args)]
pub(super) struct Access {
    /// The operator's namespace.
    #[arg(
        short,
        long,
        env = "NAMESPACE",
        hide_env_values = true,
        default_value = "sriov-network-operator"
    )]
    pub(super) namespace: String,
    /// Paths of kubeconfig files, merged as kubectl does; ~/.kube/config, or the pod's ServiceAccount, without it.
    #[arg(long, env = "KUBECONFIG", hide_env_values = true, value_name = "PATHS")]
    kubeconfig: Option<std::ffi::OsString>,
}

impl Access {
    /// A client with that person's rights.
    pub(super) async fn connect(&self) -> Result<Client> {
        let given = self.kubeconfig.as_deref().unwrap_or_default();
        let mut paths: Vec<PathBuf> = std::env::split_paths(given)
            .filter(|path| !path.as_os_str().is_empty())
            .collect();
        if paths.is_empty()
            && let Some(home) = std::env::home_dir()
        {
            paths.extend(Some(home.join(".kube/config")).filter(|path| path.is_file()));
        }
        connect(&paths).await
    }
}

/// The names of the Secrets, where they are not the usual ones.
#[derive(Debug, clap::Args)]
pub(super) struct Secrets {
    /// The Secret with the serving pair of the operator webhook.
    #[arg(long, value_name = "NAME", default_value = "operator-webhook-cert")]
    #[arg(
        env = "ADMISSION_CONTROLLERS_CERTIFICATES_OPERATOR_SECRET_NAME",
        hide_env_values = true
    )]
    operator_secret: String,
    /// The Secret with the serving pair of the injector.
    #[arg(long, value_name = "NAME")]
    #[arg(default_value = "network-resources-injector-cert")]
    #[arg(
        env = "ADMISSION_CONTROLLERS_CERTIFICATES_INJECTOR_SECRET_NAME",
        hide_env_values = true
    )]
    injector_secret: String,
}

impl Secrets {
    /// The names.
    pub(super) fn names(&self) -> SecretNames {
        SecretNames {
            operator: self.operator_secret.clone(),
            injector: self.injector_secret.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::{net::TcpListener, time::Instant};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_server_that_takes_a_request_and_says_nothing_is_given_up() {
        // Fails only when another test was first.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let silent = tokio::spawn(async move {
            let mut held = Vec::new();
            while let Ok((stream, _)) = listener.accept().await {
                held.push(stream);
            }
        });
        let config = Config::new(format!("http://{address}").parse().unwrap());
        let client = Client::try_from(bounded(config)).unwrap();
        let asked = Instant::now();
        assert!(client.apiserver_version().await.is_err());
        assert!(asked.elapsed() >= READ_TIMEOUT);
        assert!(asked.elapsed() < READ_TIMEOUT * 2);
        silent.abort();
    }

    #[tokio::test]
    async fn a_server_of_another_authority_is_told_as_that() {
        // Fails only when another test was first.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let self_signed = || rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (served, trusted) = (self_signed(), self_signed());
        let key =
            rustls::pki_types::PrivateKeyDer::Pkcs8(served.signing_key.serialize_der().into());
        let speaker = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![served.cert.der().clone()], key)
            .unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(std::sync::Arc::new(speaker));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let _ = acceptor.accept(stream).await;
            }
        });
        let mut config = Config::new(format!("https://localhost:{port}").parse().unwrap());
        config.root_cert = Some(vec![trusted.cert.der().to_vec()]);
        config.default_retry = false;
        let client = Client::try_from(config).unwrap();
        let why = version(&client).await.unwrap_err();
        assert!(why.contains("invalid peer certificate"), "{why}");
        serving.abort();
    }
}
