//! `sriov-operator render`: what a config would roll out, printed without a cluster.
//!
//! It prints what the reconciler applies, but for what only the cluster knows: the uids of owners, and a `caBundle`
//! that is not in the environment.

mod config;

use std::{ffi::OsString, path::PathBuf};

use anyhow::{Result, bail};
use serde_json::Value;

use config::Config;

use super::{
    output::{self, Format},
    process::start_up_switches,
};
use crate::{
    api::DEFAULT_CONFIG_NAME,
    certs::bundle::Bundle,
    features::Features,
    inject,
    render::{self, Component, Desired, Facts, Owners, Registration, Renderer},
    settings::{CertificateMode, Flags, Run as RunFlags, Settings},
};

/// Print what a config rolls out, without a cluster.
///
/// Flags and environment are those of `run`, so that the same settings give the same objects. Printed are neither the
/// uids of owners nor a caBundle that is not in the environment: only the cluster knows them. What is set aside is
/// told on standard error; with a component that cannot be rendered the command fails, after printing the others.
#[derive(Debug, clap::Args)]
pub(super) struct Render {
    /// A file with the SriovOperatorConfig, YAML or JSON, 1 MiB at most; - for standard input.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// The platform, in place of `CLUSTER_TYPE`.
    #[arg(long, value_enum)]
    platform: Option<Platform>,
    /// Print this component only; may be repeated.
    #[arg(long, value_name = "NAME", value_parser = component_names())]
    component: Vec<String>,
    /// How to print the objects.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    flags: Flags<RunFlags>,
}

/// What can be rendered for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Platform {
    /// Any Kubernetes.
    Kubernetes,
    /// OpenShift.
    Openshift,
    /// OpenShift with a hosted control plane.
    Hypershift,
}

impl Platform {
    const fn cluster_type(self) -> &'static str {
        match self {
            Self::Kubernetes => "kubernetes",
            Self::Openshift | Self::Hypershift => "openshift",
        }
    }
}

fn component_names() -> clap::builder::PossibleValuesParser {
    Component::ALL.map(Component::name).into()
}

impl Render {
    /// Runs the command.
    pub(super) fn run(&self) -> Result<()> {
        let (objects, notes) = self.rendered(std::env::vars_os())?;
        output::objects(&mut std::io::stdout().lock(), self.output, &objects)?;
        for note in &notes.warnings {
            eprintln!("warning: {note}");
        }
        if !notes.errors.is_empty() {
            bail!("{}", notes.errors.join("; "));
        }
        Ok(())
    }

    /// The objects in the order in which they are applied, and what there is to say about them.
    fn rendered(
        &self,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<(Vec<Value>, Notes)> {
        let config = Config::read(&self.config)?;
        let mut environment: Vec<(OsString, OsString)> = environment.into_iter().collect();
        if let Some(platform) = self.platform {
            environment.push(("CLUSTER_TYPE".into(), platform.cluster_type().into()));
        }
        let is_set = |name: &str| {
            environment
                .iter()
                .any(|(known, value)| known == name && !value.is_empty())
        };
        if let (false, Some(namespace)) = (is_set("NAMESPACE"), &config.namespace) {
            environment.push(("NAMESPACE".into(), namespace.into()));
        }
        let settings = Settings::read(&self.flags, environment)?;
        let renderer = match &settings.templates_dir {
            Some(directory) => Renderer::from_dir(directory)?,
            None => Renderer::embedded()?,
        };
        let features = Features::new(config.spec.feature_gates.iter().flatten());
        let [operator, injector] = registrations(&settings.certificate_mode);
        let condition = inject::match_condition(&start_up_switches(&settings.admission.injector));
        let facts = Facts {
            config: &config.spec,
            settings: &settings,
            features: &features,
            hypershift: self.platform == Some(Platform::Hypershift),
            cluster_tls: None,
            operator_registration: &operator,
            validating_registration: &operator,
            injector_registration: &injector,
            injector_condition: &condition,
        };
        let mut notes = Notes::default();
        if let Some(namespace) = &config.namespace
            && *namespace != settings.process.namespace
        {
            notes.warnings.push(format!(
                "metadata.namespace {namespace:?}: only the SriovOperatorConfig {DEFAULT_CONFIG_NAME:?} in namespace {:?} \
                 counts, and admission refuses this one",
                settings.process.namespace
            ));
        }
        for gate in features.unknown() {
            notes
                .warnings
                .push(format!("spec.featureGates[{gate}] is not known"));
        }
        let mut objects = Vec::new();
        for (component, desired) in render::all(&renderer, &facts, &Owners::default()) {
            if !self.component.is_empty()
                && !self.component.iter().any(|name| name == component.name())
            {
                continue;
            }
            match desired {
                Ok(Desired::Off) => {}
                Ok(Desired::On(made)) => {
                    objects.extend(made.created_once);
                    objects.extend(made.objects);
                    let warnings = made.warnings.iter();
                    notes.warnings.extend(warnings.map(ToString::to_string));
                }
                Err(error) => notes.errors.push(format!("{component}: {error}")),
            }
        }
        Ok((objects, notes))
    }
}

/// What there is to say beside the objects.
#[derive(Debug, Default, PartialEq, Eq)]
struct Notes {
    warnings: Vec<String>,
    errors: Vec<String>,
}

/// Bundles are printed when the administrator gave them.
fn registrations(mode: &CertificateMode) -> [Registration; 2] {
    let given = |pem: Option<&str>| Registration {
        ca_bundle: pem
            .and_then(|pem| Bundle::from_pem(pem.as_bytes()).ok())
            .map(|bundle| bundle.to_pem()),
        failure_policy: None,
    };
    match mode {
        CertificateMode::Provided(bundles) => [
            given(Some(&bundles.operator)),
            given(Some(&bundles.injector)),
        ],
        CertificateMode::SelfSigned | CertificateMode::CertManager | CertificateMode::ServiceCa => {
            [given(None), given(None)]
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        render: Render,
    }

    const CONFIG: &str = "apiVersion: sriovnetwork.openshift.io/v1
kind: SriovOperatorConfig
metadata: {name: default, namespace: sriov}
spec: {enableInjector: true, enableOperatorWebhook: true}
";

    fn render(
        config: &str,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Result<(Vec<Value>, Notes)> {
        let mut file = tempfile::NamedTempFile::new()?;
        file.write_all(config.as_bytes())?;
        let path = file.path().to_str().unwrap_or_default();
        let line = ["render", "--config", path].into_iter();
        let line = Line::try_parse_from(line.chain(arguments.iter().copied()))?;
        let environment = [
            ("RESOURCE_PREFIX", "openshift.io"),
            ("SRIOV_NETWORK_CONFIG_DAEMON_IMAGE", "example.com/daemon"),
            ("SRIOV_CNI_IMAGE", "example.com/cni"),
            ("SRIOV_INFINIBAND_CNI_IMAGE", "example.com/ib-cni"),
            ("SRIOV_DEVICE_PLUGIN_IMAGE", "example.com/plugin"),
        ]
        .iter()
        .chain(environment)
        .map(|(name, value)| ((*name).into(), (*value).into()));
        line.render.rendered(environment.collect::<Vec<_>>())
    }

    fn kinds(objects: &[Value]) -> Vec<&str> {
        objects
            .iter()
            .map(|object| object["kind"].as_str().unwrap())
            .collect()
    }

    #[test]
    fn a_config_is_printed_without_what_only_the_cluster_knows() {
        let (objects, notes) = render(CONFIG, &["--platform", "kubernetes"], &[]).unwrap();
        assert_eq!(notes, Notes::default());
        assert!(kinds(&objects).contains(&"DaemonSet"));
        for object in &objects {
            let metadata = &object["metadata"];
            assert_eq!(metadata.get("ownerReferences"), None, "{object}");
            if let Some(namespace) = metadata.get("namespace") {
                assert_eq!(namespace, "sriov", "the config's own namespace");
            }
            for webhook in object["webhooks"].as_array().into_iter().flatten() {
                assert_eq!(webhook["clientConfig"].get("caBundle"), None);
                assert_eq!(webhook["clientConfig"]["service"]["namespace"], "sriov");
            }
        }
    }

    #[test]
    fn one_component_is_printed_alone() {
        let arguments = ["--platform=kubernetes", "--component=operator-webhook"];
        let (objects, _) = render(CONFIG, &arguments, &[]).unwrap();
        assert_eq!(
            kinds(&objects),
            [
                "Service",
                "MutatingWebhookConfiguration",
                "ValidatingWebhookConfiguration"
            ]
        );
    }

    #[test]
    fn flags_and_environment_are_those_of_run() {
        let arguments = ["--platform=kubernetes", "--injector-timeout=7s"];
        let environment = [("NAMESPACE", "elsewhere"), ("CLUSTER_TYPE", "openshift")];
        let (objects, notes) = render(CONFIG, &arguments, &environment).unwrap();
        let injector = objects
            .iter()
            .find(|object| object["metadata"]["name"] == "network-resources-injector-config")
            .unwrap();
        let webhook = &injector["webhooks"][0];
        assert_eq!(webhook["timeoutSeconds"], 7);
        assert_eq!(
            webhook["clientConfig"]["service"]["namespace"], "elsewhere",
            "the environment wins over the file"
        );
        assert_eq!(
            notes.warnings,
            [
                "metadata.namespace \"sriov\": only the SriovOperatorConfig \"default\" in namespace \"elsewhere\" counts, \
                 and admission refuses this one"
            ]
        );
    }

    #[test]
    fn what_cannot_be_rendered_is_told_and_keeps_nothing_back() {
        let config = CONFIG.replace("spec: {", "spec: {configurationMode: systemd, ");
        let (objects, notes) = render(&config, &["--platform=hypershift"], &[]).unwrap();
        assert!(kinds(&objects).contains(&"MutatingWebhookConfiguration"));
        assert_eq!(notes.errors.len(), 1, "{notes:?}");
        assert!(notes.errors[0].starts_with("machine-config: "), "{notes:?}");

        let config = CONFIG.replace("spec: {", "spec: {featureGates: {paralel: true}, ");
        let (_, notes) = render(&config, &["--platform=kubernetes"], &[]).unwrap();
        assert_eq!(notes.warnings, ["spec.featureGates[paralel] is not known"]);
    }

    #[test]
    fn a_file_that_cannot_be_used_says_why() {
        for (config, said) in [
            ("{", "neither YAML nor JSON"),
            ("kind: ConfigMap", "holds no object"),
            (&CONFIG.replace("default", "mine"), "\"mine\""),
            (&CONFIG.replace("true,", "maybe,"), "spec.enableInjector"),
            (&format!("{CONFIG}---\n{CONFIG}"), "more than one"),
        ] {
            let error = render(config, &["--platform=kubernetes"], &[]).unwrap_err();
            let error = format!("{error:#}");
            assert!(error.contains(said), "{error}");
        }
        let error = render(CONFIG, &[], &[]).unwrap_err().to_string();
        assert!(error.starts_with("CLUSTER_TYPE is not set"), "{error}");
        let error = render(CONFIG, &["--component=injecter"], &[]).unwrap_err();
        assert!(error.to_string().contains("injector"), "{error}");
    }
}
