//! Many values, under both versions of Helm: the chart lints, renders the same, and sets an environment that the operator takes;
//! and what cannot work is refused in words.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sriov_operator::settings::{Flags, SETTINGS, Settings};

use super::helm::{Helm, Objects, chart, everything, path, values_file};

/// Each: what it is about, the values, and the certificate mode that follows.
fn cases() -> Result<Vec<(&'static str, Value, &'static str)>> {
    let ca = rcgen::generate_simple_self_signed(["ca".to_owned()])?
        .cert
        .pem();
    let certificates = |certificates: Value| json!({ "operator": { "admissionControllers": { "certificates": certificates } } });
    Ok(vec![
        ("the defaults", json!({}), "self-signed"),
        ("whatever can be on", everything(), "cert-manager"),
        (
            "dedicated serving",
            json!({ "operator": { "admissionControllers": { "serving": "dedicated" } } }),
            "self-signed",
        ),
        (
            "OpenShift",
            json!({ "operator": { "clusterType": "openshift" } }),
            "service-ca",
        ),
        (
            "OpenShift, the nodes' network",
            json!({ "operator": { "clusterType": "openshift", "hostNetwork": true } }),
            "service-ca",
        ),
        (
            "the nodes' network",
            json!({ "operator": { "hostNetwork": true } }),
            "self-signed",
        ),
        (
            "other ports",
            json!({ "operator": { "metricsBindAddress": "127.0.0.1:7000", "admissionControllers": { "port": 7443 } } }),
            "self-signed",
        ),
        (
            "one replica without metrics",
            json!({ "operator": { "replicas": 1, "metricsBindAddress": "0" } }),
            "self-signed",
        ),
        (
            "your Certificates of cert-manager",
            certificates(json!({ "certManager": { "enabled": true } })),
            "cert-manager",
        ),
        (
            "pairs in the values",
            certificates(json!({ "custom": {
                "enabled": true,
                "operator": { "caCrt": ca, "tlsCrt": ca, "tlsKey": "key" },
                "injector": { "caCrt": ca, "tlsCrt": ca, "tlsKey": "key" },
            } })),
            "provided",
        ),
        (
            "pairs in Secrets that are there",
            certificates(
                json!({ "custom": { "enabled": true, "operator": { "caCrt": ca }, "injector": { "caCrt": ca } } }),
            ),
            "provided",
        ),
        (
            "TLS and texts that YAML would take for something else",
            json!({ "operator": {
                "resourcePrefix": "007",
                "staleNodeStateCleanupDelayMinutes": 0,
                "metricsExporter": { "port": 9111 },
                "externalDrainer": { "enabled": true },
                "tls": { "minVersion": "VersionTLS13", "curvePreferences": "X25519,secp256r1" },
                "extraEnv": { "RELEASEVERSION": "1.0", "DEV_MODE": "true", "MULTUS_NAMESPACE": "multus" },
            } }),
            "self-signed",
        ),
    ])
}

#[test]
fn both_versions_of_helm_take_the_chart_and_render_the_same() -> Result<()> {
    for (name, values, _) in cases()? {
        let file = values_file(&values)?;
        for helm in Helm::BOTH {
            helm.run(&["lint", "--strict", &chart(), "--values", &path(file.path())])
                .context(name)?;
        }
        let [three, four] = Helm::BOTH.map(|helm| helm.render(&values));
        ensure!(sorted(three?) == sorted(four?), "{name}: they differ");
    }
    Ok(())
}

fn sorted(mut objects: Objects) -> Objects {
    objects.0.sort_by_key(ToString::to_string);
    objects
}

#[test]
fn the_operator_takes_the_environment_that_the_chart_sets() -> Result<()> {
    let known: BTreeSet<&str> = SETTINGS.iter().map(|setting| setting.variable).collect();
    for (name, values, mode) in cases()? {
        let mut environment = Helm::Four.render(&values)?.environment()?;
        for variable in environment.keys() {
            ensure!(
                known.contains(variable.as_str()),
                "{name}: {variable} is no setting"
            );
        }
        environment.insert("NAMESPACE".to_owned(), "sriov".to_owned());
        environment.insert("POD_NAME".to_owned(), "pod".to_owned());
        let settings = Settings::read(&Flags::default(), environment).context(name)?;
        ensure!(
            settings.certificate_mode.name() == mode,
            "{name}: it is {:?}",
            settings.certificate_mode
        );
    }
    Ok(())
}

#[test]
fn what_cannot_work_is_refused_in_words() -> Result<()> {
    let certificates = |certificates: Value| json!({ "operator": { "admissionControllers": { "certificates": certificates } } });
    for (values, words) in [
        (
            certificates(
                json!({ "certManager": { "enabled": true }, "custom": { "enabled": true } }),
            ),
            "certManager.enabled and custom.enabled are both true",
        ),
        (
            certificates(json!({ "certManager": { "generateSelfSigned": true } })),
            "generateSelfSigned is true, but certManager.enabled is not",
        ),
        (
            certificates(json!({ "secretNames": { "operator": "one", "injector": "one" } })),
            "each webhook has a Secret of its own",
        ),
        (
            certificates(json!({ "custom": { "enabled": true, "operator": { "tlsCrt": "x" } } })),
            "custom.operator: tlsCrt and tlsKey go together",
        ),
        (
            certificates(
                json!({ "custom": { "enabled": true, "injector": { "tlsCrt": "x", "tlsKey": "x" } } }),
            ),
            "custom.injector.caCrt is empty",
        ),
        (
            json!({ "operator": { "metricsBindAddress": "0" }, "monitoring": { "serviceMonitor": { "enabled": true } } }),
            "operator.metricsBindAddress switches metrics off",
        ),
        (json!({ "operator": { "replica": 3 } }), "replica"),
        (json!({ "operator": { "replicas": "two" } }), "replicas"),
        (
            json!({ "operator": { "clusterType": "nomad" } }),
            "clusterType",
        ),
        (
            json!({ "sriovOperatorConfig": { "logLevel": 3 } }),
            "logLevel",
        ),
        (
            json!({ "supportedExtraNICs": ["Acme: 0x1234 5678 9abc"] }),
            "supportedExtraNICs",
        ),
    ] {
        for helm in Helm::BOTH {
            let refusal = helm.refusal(&values)?;
            ensure!(
                refusal.contains(words),
                "{helm:?} says of {values}: {refusal}"
            );
        }
    }
    Ok(())
}
