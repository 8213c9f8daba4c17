//! Certificates of others, and stand-ins for cert-manager and OpenShift's service CA. They write what the real ones
//! write, under field managers of their own, and only where the real ones would.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use serde_json::{Value, json};
use time::OffsetDateTime;
use tokio::task::JoinSet;

use super::NAMESPACE;
use super::kinds::{Kind, MUTATING, SECRET, SERVICE, VALIDATING, text};
use super::user::User;

/// The Services of the webhooks with the Secrets of their pairs.
pub(crate) const ENDPOINTS: [(&str, &str); 2] = [
    ("operator-webhook-service", "operator-webhook-cert"),
    (
        "network-resources-injector-service",
        "network-resources-injector-cert",
    ),
];
/// The webhook configurations.
pub(crate) const CONFIGURATIONS: [(Kind, &str); 3] = [
    (MUTATING, "sriov-operator-webhook-config"),
    (VALIDATING, "sriov-operator-webhook-config"),
    (MUTATING, "network-resources-injector-config"),
];

/// A CA that is not the operator's.
pub(crate) struct Issuer {
    ca: CertifiedIssuer<'static, KeyPair>,
}

/// A serving certificate with its key, both PEM.
#[derive(Clone)]
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Issuer {
    /// A new one.
    pub(crate) fn new(name: &str) -> Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        in_date(&mut params);
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        Ok(Self { ca })
    }

    /// Its certificate, PEM.
    pub(crate) fn bundle(&self) -> String {
        self.ca.pem()
    }

    /// A pair for a Service of the operator's namespace.
    pub(crate) fn issue(&self, service: &str) -> Result<Pair> {
        self.issue_for(&format!("{service}.{NAMESPACE}.svc"))
    }

    /// A pair for any name.
    pub(crate) fn issue_for(&self, name: &str) -> Result<Pair> {
        let mut params = CertificateParams::new(vec![name.to_owned()])?;
        params
            .distinguished_name
            .push(DnType::CommonName, "webhook");
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        in_date(&mut params);
        let key = KeyPair::generate()?;
        Ok(Pair {
            certificate: params.signed_by(&key, &self.ca)?.pem(),
            key: key.serialize_pem(),
        })
    }
}

fn in_date(params: &mut CertificateParams) {
    let now = OffsetDateTime::now_utc();
    params.not_before = now - time::Duration::hours(1);
    params.not_after = now + time::Duration::days(1);
}

/// A Secret with a pair.
pub(crate) fn secret(name: &str, kind: &str, pair: &Pair, bundle: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "type": kind,
        "data": {
            "tls.crt": STANDARD.encode(&pair.certificate),
            "tls.key": STANDARD.encode(&pair.key),
            "ca.crt": STANDARD.encode(bundle),
        },
    })
}

/// The bundle that a live configuration carries, PEM, empty when it has none.
pub(crate) async fn live_bundle(admin: &User, kind: Kind, name: &str) -> Result<String> {
    let live = admin.must_get(kind, name).await?;
    let encoded = text(&live, "/webhooks/0/clientConfig/caBundle");
    Ok(String::from_utf8(STANDARD.decode(encoded)?)?)
}

/// Which of the two a stand-in plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Certificates of the two Secrets' names exist; the CA injector follows the configurations' annotation.
    CertManager,
    /// Follows the annotations of Services and configurations.
    ServiceCa,
}

/// A stand-in at work; it ends when dropped.
pub(crate) struct StandIn {
    _tasks: JoinSet<()>,
}

impl StandIn {
    /// Starts to work, looking at everything ten times a second.
    pub(crate) fn start(admin: &User, role: Role, issuer: Issuer) -> Self {
        let admin = admin.clone();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            loop {
                if let Err(error) = work(&admin, role, &issuer).await {
                    println!("{role:?}: {error:#}");
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
        Self { _tasks: tasks }
    }
}

async fn work(admin: &User, role: Role, issuer: &Issuer) -> Result<()> {
    for (service, secret_name) in ENDPOINTS {
        issue_into(admin, role, issuer, service, secret_name).await?;
    }
    for (kind, name) in CONFIGURATIONS {
        inject(admin, role, issuer, kind, name).await?;
    }
    Ok(())
}

async fn issue_into(
    admin: &User,
    role: Role,
    issuer: &Issuer,
    service: &str,
    secret_name: &str,
) -> Result<()> {
    let live = admin.get(SECRET, secret_name).await?;
    let is_mine = live.as_ref().is_some_and(|live| {
        text(live, "/data/ca.crt") == STANDARD.encode(issuer.bundle())
            && !text(live, "/data/tls.key").is_empty()
    });
    let wanted = match role {
        Role::CertManager => !is_mine,
        // It only fills in Secrets that it made.
        Role::ServiceCa => {
            let annotation = "service.alpha.openshift.io/serving-cert-secret-name";
            let service = admin.get(SERVICE, service).await?.unwrap_or_default();
            live.is_none() && service["metadata"]["annotations"][annotation] == secret_name
        }
    };
    if !wanted {
        return Ok(());
    }
    let manager = match role {
        Role::CertManager => "cert-manager-certificates-issuing",
        Role::ServiceCa => "service-ca-operator",
    };
    let mut content = secret(
        secret_name,
        "kubernetes.io/tls",
        &issuer.issue(service)?,
        &issuer.bundle(),
    );
    let (mark, of) = match role {
        Role::CertManager => ("cert-manager.io/certificate-name", secret_name),
        Role::ServiceCa => (
            "service.beta.openshift.io/originating-service-name",
            service,
        ),
    };
    content["metadata"]["annotations"] = json!({ mark: of });
    let path = format!(
        "{}/{secret_name}?fieldManager={manager}&force=true",
        SECRET.collection(None)
    );
    let kind = "application/apply-patch+yaml";
    let answer = admin
        .call(Method::PATCH, &path, kind, Some(&content))
        .await?;
    answer.object().context("failed to write the Secret")?;
    Ok(())
}

async fn inject(admin: &User, role: Role, issuer: &Issuer, kind: Kind, name: &str) -> Result<()> {
    let Some(mut live) = admin.get(kind, name).await? else {
        return Ok(());
    };
    let annotations = &live["metadata"]["annotations"];
    let (wanted, manager) = match role {
        Role::CertManager => {
            let from = text(annotations, "/cert-manager.io~1inject-ca-from");
            let known = ENDPOINTS
                .iter()
                .any(|(_, secret)| from == format!("{NAMESPACE}/{secret}"));
            (known, "cert-manager-cainjector")
        }
        Role::ServiceCa => (
            annotations["service.beta.openshift.io/inject-cabundle"] == "true",
            "service-ca-operator",
        ),
    };
    let bundle = STANDARD.encode(issuer.bundle());
    if !wanted || text(&live, "/webhooks/0/clientConfig/caBundle") == bundle {
        return Ok(());
    }
    for webhook in live["webhooks"].as_array_mut().into_iter().flatten() {
        webhook["clientConfig"]["caBundle"] = bundle.clone().into();
    }
    let path = format!("{}/{name}?fieldManager={manager}", kind.collection(None));
    let answer = admin
        .call(Method::PUT, &path, "application/json", Some(&live))
        .await?;
    // Somebody else was faster: the next look sees what it is now.
    ensure!(
        answer.allowed() || answer.code == 409,
        "failed to inject: {answer:?}"
    );
    Ok(())
}
