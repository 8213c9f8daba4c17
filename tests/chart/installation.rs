//! The chart and the install manifest on a real API server, with the operator under the account and the environment that they
//! give it.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::helm::{Helm, Objects, RELEASE, chart, environment, path, values_file};
use crate::support::cluster::Cluster;
use crate::support::kinds::{
    ACCOUNT, CLUSTER_ROLE, CLUSTER_ROLE_BINDING, CONFIG, CRD, DEPLOYMENT, NAMESPACES, ROLE,
    ROLE_BINDING, text,
};
use crate::support::manifests::{self, root};
use crate::support::operator::account_kubeconfig;
use crate::support::scene::{INJECTOR_WEBHOOK, OPERATOR_WEBHOOKS, Scene};
use crate::support::{NAMESPACE, assets, cli, world};

#[tokio::test]
async fn helm_installs_an_operator_that_does_its_work_refuses_a_second_one_and_uninstalls()
-> Result<()> {
    let cluster = Cluster::boot().await?;
    let kubeconfig = path(&cluster.admin_kubeconfig());
    let values = values_file(&json!({
        "operator": { "admissionControllers": { "enabled": true } },
        "sriovOperatorConfig": { "deploy": true, "logLevel": 1 },
    }))?;
    let values = path(values.path());
    let chart = chart();
    let in_cluster = [
        "--kubeconfig",
        kubeconfig.as_str(),
        "--values",
        values.as_str(),
    ];
    let install = [
        "install",
        RELEASE,
        &chart,
        "--namespace",
        NAMESPACE,
        "--create-namespace",
    ];
    Helm::Four.run(&[&install[..], &in_cluster].concat())?;

    let mut scene = Scene::beside(cluster).await?;
    let mut seeds = world::seeds()?;
    seeds.retain(|object| object["metadata"]["name"] != "supported-nic-ids");
    world::load(scene.admin(), &seeds).await?;
    let deployment = scene.admin().must_get(DEPLOYMENT, RELEASE).await?;
    let pod = &deployment["spec"]["template"];
    for (name, value) in environment(&pod["spec"])? {
        if !["NAMESPACE", "POD_NAME"].contains(&name.as_str()) {
            scene.operator.set(&name, &value);
        }
    }
    let cleanup = Cleanup::prepare(&scene, &kubeconfig).await?;
    let mut before = scene.objects().await?;
    scene.operator.start()?;
    scene.is_ready().await?;
    scene
        .has_webhooks(&[OPERATOR_WEBHOOKS, INJECTOR_WEBHOOK].concat())
        .await?;
    scene.was_allowed_everything()?;

    fits_the_restricted_level(&scene, pod).await?;

    let upgrade = ["upgrade", RELEASE, &chart, "--namespace", NAMESPACE];
    Helm::Four.run(&[&upgrade[..], &in_cluster].concat())?;
    refuses_a_second_one(&in_cluster)?;

    // Uninstalling takes back what was rolled out, then the operator; the definitions stay.
    let mut releases = scene.objects().await?;
    releases.retain(|name, _| name.starts_with("Secret sh.helm.release."));
    before.extend(releases);
    let told = cleanup.run().await?;
    ensure!(told.contains("everything is gone"), "{told}");
    scene.is_as_before(&before).await?;
    scene.was_allowed_everything()?;
    scene.operator.stop().await?;
    let uninstall = [
        "uninstall",
        RELEASE,
        "--no-hooks",
        "--namespace",
        NAMESPACE,
        "--kubeconfig",
        &kubeconfig,
    ];
    Helm::Four.run(&uninstall)?;
    for kind in [
        DEPLOYMENT,
        ROLE,
        ROLE_BINDING,
        CLUSTER_ROLE,
        CLUSTER_ROLE_BINDING,
        ACCOUNT,
    ] {
        ensure!(
            scene.admin().get(kind, RELEASE).await?.is_none(),
            "{} is left",
            kind.name
        );
    }
    ensure!(!scene.admin().list(CRD).await?.is_empty());
    Ok(())
}

/// The operator's pod is let into a namespace of the strictest level of Pod Security.
async fn fits_the_restricted_level(scene: &Scene, pod: &Value) -> Result<()> {
    let restricted = json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": { "name": "strict", "labels": { "pod-security.kubernetes.io/enforce": "restricted" } },
    });
    scene.admin().create(&restricted).await?;
    let mut object = pod.clone();
    object["apiVersion"] = "v1".into();
    object["kind"] = "Pod".into();
    object["metadata"]["name"] = "operator".into();
    object["metadata"]["namespace"] = "strict".into();
    let answer = scene.admin().ask_create(&object).await?;
    ensure!(answer.allowed(), "{}", answer.message());
    Ok(())
}

/// Neither version of Helm installs another release, here or elsewhere.
fn refuses_a_second_one(in_cluster: &[&str]) -> Result<()> {
    for helm in Helm::BOTH {
        for (release, namespace) in [("another", "elsewhere"), ("another", NAMESPACE)] {
            let install = [
                "install",
                release,
                &chart(),
                "--namespace",
                namespace,
                "--create-namespace",
            ];
            let output = helm.attempt(&[&install[..], in_cluster].concat())?;
            let words = String::from_utf8_lossy(&output.stderr);
            ensure!(
                !output.status.success(),
                "{helm:?} installs {release} in {namespace}"
            );
            ensure!(
                words.contains(&format!("in namespace {NAMESPACE} already")),
                "{helm:?}: {words}"
            );
        }
    }
    Ok(())
}

/// The hook that runs before a release is deleted. There is no Job controller here, so its command is run as the Job says.
struct Cleanup {
    kubeconfig: PathBuf,
    arguments: Vec<String>,
}

impl Cleanup {
    /// Applies all of the hook but the Job.
    async fn prepare(scene: &Scene, kubeconfig: &str) -> Result<Self> {
        let hooks = [
            "get",
            "hooks",
            RELEASE,
            "--namespace",
            NAMESPACE,
            "--kubeconfig",
            kubeconfig,
        ];
        let hooks = Objects::parse(&Helm::Four.run(&hooks)?)?;
        let (jobs, rest): (Vec<&Value>, Vec<&Value>) =
            hooks.0.iter().partition(|hook| hook["kind"] == "Job");
        for object in rest {
            scene.admin().apply(object).await?;
        }
        let pod = &jobs.first().context("there is no Job")?["spec"]["template"]["spec"];
        let arguments = pod["containers"][0]["args"]
            .as_array()
            .into_iter()
            .flatten();
        let account = text(pod, "/serviceAccountName");
        let admin = std::fs::read_to_string(scene.cluster.admin_kubeconfig())?;
        let own = account_kubeconfig(scene.admin(), &admin, account).await?;
        let file = scene
            .cluster
            .admin_kubeconfig()
            .with_file_name("cleanup.kubeconfig");
        std::fs::write(&file, own)?;
        Ok(Self {
            kubeconfig: file,
            arguments: arguments
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
        })
    }

    async fn run(&self) -> Result<String> {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        cli::run(&self.kubeconfig, &arguments).await?.succeeded()
    }
}

#[tokio::test]
async fn kubectl_applies_the_install_manifest() -> Result<()> {
    let cluster = Cluster::boot().await?;
    let kubeconfig = path(&cluster.admin_kubeconfig());
    let apply = || -> Result<String> {
        let output = Command::new(assets::binary("kubectl")?)
            .args(["apply", "--kubeconfig", &kubeconfig, "-f"])
            .arg(root().join("deploy/install.yaml"))
            .stdin(Stdio::null())
            .output()?;
        ensure!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8(output.stdout)?)
    };
    apply()?;
    // kubectl sends the selector of a PodDisruptionBudget each time.
    let again = apply()?;
    let mut changed = again
        .lines()
        .filter(|line| !line.ends_with(" unchanged") && !line.starts_with("poddisruptionbudget"));
    ensure!(changed.next().is_none(), "the second time it says {again}");

    let admin = cluster.admin();
    let namespace = admin.must_get(NAMESPACES, NAMESPACE).await?;
    ensure!(
        text(
            &namespace,
            "/metadata/labels/pod-security.kubernetes.io~1enforce"
        ) == "privileged"
    );
    for kind in [DEPLOYMENT, ROLE, ROLE_BINDING] {
        admin.must_get(kind, RELEASE).await?;
    }
    for definition in admin.list(CRD).await? {
        manifests::established(admin, text(&definition, "/metadata/name")).await?;
    }
    admin
        .create(&world::config(&json!({ "logLevel": 0 })))
        .await?;
    admin.must_get(CONFIG, "default").await?;

    // Helm sees it.
    let output = Helm::Four.attempt(&[
        "install",
        RELEASE,
        &chart(),
        "--namespace",
        "elsewhere",
        "--create-namespace",
        "--kubeconfig",
        &kubeconfig,
    ])?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(
        !output.status.success() && words.contains(&format!("in namespace {NAMESPACE} already")),
        "{words}"
    );
    Ok(())
}
