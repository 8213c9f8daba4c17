//! What is wrong, and what to do about it. Most important first; what could not be read is no problem of the installation.

use jiff::Timestamp;

use super::report::{CertificateStatus, Config, Part, Problem, Report, UNKNOWN_KIND, Webhook};

/// The problems that a report shows.
pub(super) fn of(report: &Report) -> Vec<Problem> {
    let mut found = Found::default();
    config(report, &mut found);
    leader(report, &mut found);
    for webhook in &report.webhooks {
        self::webhook(report, webhook, &mut found);
    }
    for certificate in &report.certificates {
        self::certificate(report, certificate, &mut found);
    }
    components(report, &mut found);
    for network in report.networks.read().into_iter().flatten() {
        if network.ready == "False" {
            let (kind, namespace, name) = (network.kind, &network.namespace, &network.name);
            found.add(
                format!(
                    "{kind} {namespace}/{name} is not ready: {}",
                    network.message
                ),
                "put right what the message names; it is taken up at once".to_owned(),
            );
        }
    }
    if let Some(nodes) = report.nodes.read() {
        for (node, error) in &nodes.errors {
            found.add(
                format!("node {node} is not configured as its policies say: {error}"),
                format!(
                    "{} logs of the sriov-network-config-daemon pod on {node}",
                    kubectl(report)
                ),
            );
        }
    }
    found.0
}

#[derive(Default)]
struct Found(Vec<Problem>);

impl Found {
    fn add(&mut self, what: String, remedy: String) {
        let problem = Problem { what, remedy };
        if !self.0.contains(&problem) {
            self.0.push(problem);
        }
    }
}

fn kubectl(report: &Report) -> String {
    format!("kubectl -n {}", report.namespace)
}

fn config(report: &Report, found: &mut Found) {
    match &report.config {
        Part::Unreadable { unreadable } if unreadable == UNKNOWN_KIND => found.add(
            "the definitions of the custom resources are not installed".to_owned(),
            "sriov-operator crds | kubectl apply --server-side -f -".to_owned(),
        ),
        Part::Unreadable { .. } => {}
        Part::Read(None) => found.add(
            format!(
                "there is no SriovOperatorConfig default in namespace {}: nothing is rolled out",
                report.namespace
            ),
            "create it, or name the operator's namespace with --namespace".to_owned(),
        ),
        Part::Read(Some(config)) => present(report, config, found),
    }
}

fn present(report: &Report, config: &Config, found: &mut Found) {
    if let Some(since) = config.deleting_since {
        let leads = report
            .leader
            .read()
            .is_some_and(|leader| leader.as_ref().is_some_and(|leader| leader.in_force));
        found.add(
            format!(
                "the config is being deleted since {since}, kept by {}",
                config.finalizers.join(", ")
            ),
            if leads {
                "wait for the operator, or see its log".to_owned()
            } else {
                format!("sriov-operator cleanup --namespace {}", report.namespace)
            },
        );
        return;
    }
    let Some(ready) = config.conditions.iter().find(|one| one.type_ == "Ready") else {
        found.add(
            "the config has not been looked at by an operator".to_owned(),
            format!(
                "{} get pods -l app.kubernetes.io/name=sriov-operator",
                kubectl(report)
            ),
        );
        return;
    };
    if !ready.current {
        found.add(
            "the config's latest change has not been rolled out yet".to_owned(),
            format!(
                "wait a moment; then {} logs -l app.kubernetes.io/name=sriov-operator",
                kubectl(report)
            ),
        );
    }
    if ready.status != "True" {
        found.add(
            format!("not everything is as the config wants: {}", ready.message),
            format!(
                "put right what the message names; Events tell more: {} events --for sriovoperatorconfig/default",
                kubectl(report)
            ),
        );
    }
    let blocked = config
        .conditions
        .iter()
        .find(|one| one.type_ == "Draining" && one.reason == "DrainBlocked");
    if let Some(blocked) = blocked {
        found.add(
            format!("nodes are not drained: {}", blocked.message),
            "put right what the message names; it is tried again meanwhile".to_owned(),
        );
    }
    let degraded = config
        .conditions
        .iter()
        .find(|one| one.type_ == "Degraded" && one.status == "True");
    if let Some(degraded) = degraded {
        found.add(
            format!("something wants attention: {}", degraded.message),
            "it works meanwhile; put right what the message names".to_owned(),
        );
    }
}

fn leader(report: &Report, found: &mut Found) {
    let what = match &report.leader {
        Part::Unreadable { .. } => return,
        Part::Read(Some(leader)) if leader.in_force => return,
        Part::Read(Some(leader)) if leader.holder.is_empty() => {
            "no operator leads: the Lease was released".to_owned()
        }
        Part::Read(Some(leader)) => format!(
            "no operator leads: {} has not renewed the Lease since {}",
            leader.holder,
            leader.renewed.unwrap_or_default()
        ),
        Part::Read(None) => "no operator leads: there is no Lease".to_owned(),
    };
    found.add(
        format!("{what}; nothing is reconciled"),
        format!(
            "{} get pods -l app.kubernetes.io/name=sriov-operator (without --leader-elect this is as it should be)",
            kubectl(report)
        ),
    );
}

fn webhook(report: &Report, webhook: &Webhook, found: &mut Found) {
    let registered = match (&webhook.registered, webhook.wanted) {
        (Part::Read(Some(registered)), _) => registered,
        (Part::Read(None), Some(true)) => {
            found.add(
                format!(
                    "{} is switched on and not registered",
                    webhook.configuration
                ),
                "the Ready condition says what is waited for".to_owned(),
            );
            return;
        }
        _ => return,
    };
    if registered.ca_bundle.is_empty() {
        found.add(
            format!(
                "{} has no usable caBundle: it cannot be called",
                webhook.configuration
            ),
            match report.certificate_mode {
                "cert-manager" => "see whether cert-manager's CA injector runs".to_owned(),
                "service-ca" => "see whether OpenShift's service CA operator runs".to_owned(),
                _ => "it is repaired at once while an operator leads".to_owned(),
            },
        );
    }
    if let Part::Read(backend) = &webhook.served_by
        && backend.ready == 0
    {
        let consequence = if registered.failure_policy == "Fail" {
            "the API server refuses what it is to be asked about"
        } else {
            "the API server lets through unasked what it is to be asked about"
        };
        found.add(
            format!(
                "no ready pod answers Service {}: {consequence}",
                webhook.service
            ),
            format!(
                "{} get pods; their log says why they are not ready",
                kubectl(report)
            ),
        );
    }
}

fn certificate(report: &Report, certificate: &CertificateStatus, found: &mut Found) {
    let secret = &certificate.secret;
    let leaf = match &certificate.certificate {
        Part::Read(Some(leaf)) => leaf,
        Part::Read(None) if certificate.needed == Some(true) => {
            found.add(
                format!("Secret {secret} with a serving certificate is missing"),
                match report.certificate_mode {
                    "cert-manager" => format!(
                        "{} get certificates: there has to be one of the Secret's name",
                        kubectl(report)
                    ),
                    _ => "the Ready condition says what is waited for".to_owned(),
                },
            );
            return;
        }
        _ => return,
    };
    if let Some(fault) = &leaf.fault {
        found.add(
            format!("Secret {secret}: {fault}"),
            match report.certificate_mode {
                "provided" => "put a pair there that the CA of the environment verifies".to_owned(),
                "self-signed" => format!(
                    "{} delete secret {secret}: a new one is made at once while an operator leads",
                    kubectl(report)
                ),
                _ => {
                    "see who issues it; what is served stays until the new pair is whole".to_owned()
                }
            },
        );
    } else if let Some(expires) = leaf
        .expires
        .filter(|_| is_overdue(leaf.renewal, leaf.expires, report.observed_at))
    {
        found.add(
            format!(
                "the certificate in Secret {secret} expires at {expires} and has not been renewed"
            ),
            match report.certificate_mode {
                "provided" => "renew it: nobody else does".to_owned(),
                _ => "see the operator's log: it is renewed in the last third of its lifetime"
                    .to_owned(),
            },
        );
    }
}

/// Half of the time for renewal is over.
fn is_overdue(renewal: Option<Timestamp>, expires: Option<Timestamp>, now: Timestamp) -> bool {
    let (Some(renewal), Some(expires)) = (renewal, expires) else {
        return false;
    };
    now.duration_since(renewal) > expires.duration_since(now)
}

fn components(report: &Report, found: &mut Found) {
    for component in &report.components {
        let Part::Read(Some(workload)) = &component.workload else {
            continue;
        };
        if component.enabled != Some(false) && workload.ready < workload.desired {
            let (name, ready, desired) = (&workload.name, workload.ready, workload.desired);
            found.add(
                format!("{name}: {ready} of {desired} pods are ready"),
                format!("{} describe {}", kubectl(report), name.to_lowercase()),
            );
        }
    }
}
