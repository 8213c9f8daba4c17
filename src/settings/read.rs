//! From texts to the typed settings, a function for each group, with the checks between settings.

use std::{path::PathBuf, time::Duration};

use super::{
    AdmissionServing, AdmissionSettings, BindAddress, ClientCa, ClusterType, ComponentSettings,
    DevMode, FailurePolicy, Images, InjectorSettings, InjectorWebhook, LeaderElection, Lifetimes,
    LogFormat, MetricsExporterSettings, ProcessSettings, Prometheus, SecretNames, Setting,
    SettingsCommand, SettingsError, format_duration, parse,
    reader::{Reader, illegal},
    table,
    tls::{self, TlsOptions, TlsVersion},
};

/// Any text, for what only another program can judge.
#[allow(clippy::unnecessary_wraps, reason = "it has the shape of a parser")]
fn any(text: &str) -> Option<String> {
    Some(text.to_owned())
}

/// A listener that `0` turns off.
fn optional_address<C: SettingsCommand>(
    reader: &Reader<'_, C>,
    setting: &Setting,
) -> Result<Option<BindAddress>, SettingsError> {
    if reader.text(setting)? == "0" {
        return Ok(None);
    }
    reader.read(setting, parse::bind_address).map(Some)
}

pub(super) fn process<C: SettingsCommand>(
    reader: &Reader<'_, C>,
) -> Result<ProcessSettings, SettingsError> {
    Ok(ProcessSettings {
        namespace: reader.required(&table::NAMESPACE, parse::dns_label)?,
        pod_name: reader.optional(&table::POD_NAME, any)?,
        kubeconfig: std::env::split_paths(reader.text(&table::KUBECONFIG)?)
            .filter(|path| !path.as_os_str().is_empty())
            .collect(),
        health_probe_bind_address: optional_address(reader, &table::HEALTH_PROBE_BIND_ADDRESS)?,
        metrics_bind_address: optional_address(reader, &table::METRICS_BIND_ADDRESS)?,
        shutdown_delay: reader.read(&table::SHUTDOWN_DELAY, parse::duration)?,
        log_format: reader.read(&table::LOG_FORMAT, |text| match text {
            "text" => Some(LogFormat::Text),
            "json" => Some(LogFormat::Json),
            _ => None,
        })?,
    })
}

pub(super) fn admission<C: SettingsCommand>(
    reader: &Reader<'_, C>,
) -> Result<AdmissionSettings, SettingsError> {
    let allowed_names = parse::list(reader.text(&table::CLIENT_ALLOWED_NAMES)?);
    let client_ca = reader
        .optional(&table::CLIENT_CA_FILE, |text| Some(PathBuf::from(text)))?
        .map(|file| ClientCa {
            file,
            allowed_names: allowed_names.clone(),
        });
    if client_ca.is_none() && !allowed_names.is_empty() {
        return Err(reader.conflict(&table::CLIENT_CA_FILE, "given with --client-allowed-names"));
    }
    Ok(AdmissionSettings {
        bind_address: reader.read(&table::WEBHOOK_BIND_ADDRESS, parse::fixed_bind_address)?,
        dev_mode: reader.read(&table::DEV_MODE, DevMode::parse)?,
        secret_names: SecretNames {
            operator: reader.read(
                &table::ADMISSION_CONTROLLERS_CERTIFICATES_OPERATOR_SECRET_NAME,
                parse::dns_subdomain,
            )?,
            injector: reader.read(
                &table::ADMISSION_CONTROLLERS_CERTIFICATES_INJECTOR_SECRET_NAME,
                parse::dns_subdomain,
            )?,
        },
        tls: TlsOptions {
            cipher_suites: reader.read(&table::TLS_CIPHER_SUITES, tls::cipher_suites)?,
            min_version: reader.optional(&table::TLS_MIN_VERSION, TlsVersion::from_name)?,
            curves: reader.read(&table::TLS_CURVE_PREFERENCES, tls::curves)?,
        },
        client_ca,
        injector: InjectorSettings {
            resource_name_keys: reader.read(&table::NETWORK_RESOURCE_NAME_KEYS, |text| {
                Some(parse::list(text)).filter(|keys| !keys.is_empty())
            })?,
            honor_resources: reader.read(&table::HONOR_RESOURCES, parse::boolean)?,
            inject_hugepage_down_api: reader
                .read(&table::INJECT_HUGEPAGE_DOWN_API, parse::boolean)?,
            multus_namespace: reader.read(&table::MULTUS_NAMESPACE, parse::dns_label)?,
        },
    })
}

pub(super) fn leader_election<C: SettingsCommand>(
    reader: &Reader<'_, C>,
) -> Result<Option<LeaderElection>, SettingsError> {
    let enabled = reader.read(&table::LEADER_ELECT, parse::boolean)?;
    let durations = LeaderElection {
        lease_duration: reader.read(
            &table::LEADER_ELECT_LEASE_DURATION,
            parse::positive_duration,
        )?,
        renew_deadline: reader.read(
            &table::LEADER_ELECT_RENEW_DEADLINE,
            parse::positive_duration,
        )?,
        retry_period: reader.read(&table::LEADER_ELECT_RETRY_PERIOD, parse::positive_duration)?,
    };
    // A Lease stores whole seconds.
    if durations.lease_duration < Duration::from_secs(1) {
        return Err(reader.conflict(&table::LEADER_ELECT_LEASE_DURATION, "1s or more"));
    }
    if durations.renew_deadline >= durations.lease_duration {
        return Err(reader.conflict(
            &table::LEADER_ELECT_RENEW_DEADLINE,
            format_args!(
                "below the lease duration of {}",
                format_duration(durations.lease_duration)
            ),
        ));
    }
    if durations.retry_period.mul_f64(1.2) >= durations.renew_deadline {
        return Err(reader.conflict(
            &table::LEADER_ELECT_RETRY_PERIOD,
            format_args!(
                "below the renew deadline of {} divided by 1.2",
                format_duration(durations.renew_deadline)
            ),
        ));
    }
    Ok(enabled.then_some(durations))
}

pub(super) fn lifetimes<C: SettingsCommand>(
    reader: &Reader<'_, C>,
) -> Result<Lifetimes, SettingsError> {
    let lifetimes = Lifetimes {
        ca: reader.read(&table::CA_LIFETIME, parse::positive_duration)?,
        certificate: reader.read(&table::CERTIFICATE_LIFETIME, parse::positive_duration)?,
        settle_time: reader.read(&table::ROTATION_SETTLE_TIME, parse::duration)?,
    };
    // Certificates hold whole seconds, and a lifetime is divided into thirds.
    if lifetimes.certificate < Duration::from_secs(3) {
        return Err(reader.conflict(&table::CERTIFICATE_LIFETIME, "3s or more"));
    }
    if lifetimes.certificate > lifetimes.ca {
        return Err(reader.conflict(
            &table::CERTIFICATE_LIFETIME,
            format_args!(
                "at most the CA's lifetime of {}",
                format_duration(lifetimes.ca)
            ),
        ));
    }
    if lifetimes.settle_time >= lifetimes.certificate / 3 {
        return Err(reader.conflict(
            &table::ROTATION_SETTLE_TIME,
            format_args!(
                "below a third of the certificate's lifetime of {}",
                format_duration(lifetimes.certificate)
            ),
        ));
    }
    Ok(lifetimes)
}

pub(super) fn components<C: SettingsCommand>(
    reader: &Reader<'_, C>,
) -> Result<ComponentSettings, SettingsError> {
    let release_version = match reader.text(&table::RELEASEVERSION)? {
        "" => reader.text(&table::RELEASE_VERSION)?,
        version => version,
    };
    Ok(ComponentSettings {
        cluster_type: reader.required(&table::CLUSTER_TYPE, |text| match text {
            "kubernetes" => Some(ClusterType::Kubernetes),
            "openshift" => Some(ClusterType::OpenShift),
            _ => None,
        })?,
        serving: reader.read(&table::ADMISSION_SERVING, |text| match text {
            "in-process" => Some(AdmissionServing::InProcess),
            "dedicated" => Some(AdmissionServing::Dedicated),
            _ => None,
        })?,
        resource_prefix: reader.required(&table::RESOURCE_PREFIX, parse::dns_subdomain)?,
        release_version: release_version.to_owned(),
        images: images(reader)?,
        image_pull_secrets: reader.read(&table::IMAGE_PULL_SECRETS, |text| {
            parse::list_of(text, parse::dns_subdomain)
        })?,
        cni_bin_path: reader.read(&table::SRIOV_CNI_BIN_PATH, parse::absolute_path)?,
        use_external_drainer: reader.read(&table::USE_EXTERNAL_DRAINER, parse::boolean)?,
        stale_node_state_cleanup_delay: reader.read(
            &table::STALE_NODE_STATE_CLEANUP_DELAY_MINUTES,
            parse::minutes,
        )?,
        operator_api_server_port: reader.read(
            &table::OPERATOR_WEBHOOK_NETWORK_POLICY_PORT,
            parse::policy_port,
        )?,
        injector_api_server_port: reader.read(
            &table::INJECTOR_WEBHOOK_NETWORK_POLICY_PORT,
            parse::policy_port,
        )?,
        injector_webhook: InjectorWebhook {
            failure_policy: reader.optional(
                &table::INJECTOR_FAILURE_POLICY,
                |text| match text {
                    "Ignore" => Some(FailurePolicy::Ignore),
                    "Fail" => Some(FailurePolicy::Fail),
                    _ => None,
                },
            )?,
            timeout_seconds: reader.read(&table::INJECTOR_TIMEOUT, |text| {
                let timeout = parse::duration(text)?;
                let seconds = u32::try_from(timeout.as_secs()).ok()?;
                (timeout.subsec_nanos() == 0 && (1..=30).contains(&seconds)).then_some(seconds)
            })?,
            exempt_namespaces: reader.read(&table::INJECTOR_EXEMPT_NAMESPACES, |text| {
                parse::list_of(text, parse::dns_label)
            })?,
        },
        metrics_exporter: metrics_exporter(reader)?,
    })
}

fn images<C: SettingsCommand>(reader: &Reader<'_, C>) -> Result<Images, SettingsError> {
    let image = |setting: &Setting| -> Result<String, SettingsError> {
        let text = reader.text(setting)?;
        // The API server takes any text without blanks at its ends; a pod with another never starts.
        if text.contains(char::is_whitespace) {
            return Err(illegal(setting, text, "an image reference without blanks"));
        }
        Ok(text.to_owned())
    };
    Ok(Images {
        config_daemon: image(&table::SRIOV_NETWORK_CONFIG_DAEMON_IMAGE)?,
        sriov_cni: image(&table::SRIOV_CNI_IMAGE)?,
        infiniband_cni: image(&table::SRIOV_INFINIBAND_CNI_IMAGE)?,
        ovs_cni: image(&table::OVS_CNI_IMAGE)?,
        rdma_cni: image(&table::RDMA_CNI_IMAGE)?,
        device_plugin: image(&table::SRIOV_DEVICE_PLUGIN_IMAGE)?,
        operator_webhook: image(&table::SRIOV_NETWORK_WEBHOOK_IMAGE)?,
        injector: image(&table::NETWORK_RESOURCES_INJECTOR_IMAGE)?,
        metrics_exporter: image(&table::METRICS_EXPORTER_IMAGE)?,
        kube_rbac_proxy: image(&table::METRICS_EXPORTER_KUBE_RBAC_PROXY_IMAGE)?,
    })
}

fn metrics_exporter<C: SettingsCommand>(
    reader: &Reader<'_, C>,
) -> Result<MetricsExporterSettings, SettingsError> {
    let prometheus = Prometheus {
        service_account: reader.read(
            &table::METRICS_EXPORTER_PROMETHEUS_OPERATOR_SERVICE_ACCOUNT,
            parse::dns_subdomain,
        )?,
        namespace: reader.read(
            &table::METRICS_EXPORTER_PROMETHEUS_OPERATOR_NAMESPACE,
            parse::dns_label,
        )?,
        deploy_rules: reader.read(
            &table::METRICS_EXPORTER_PROMETHEUS_DEPLOY_RULES,
            parse::boolean,
        )?,
    };
    let enabled = reader.read(
        &table::METRICS_EXPORTER_PROMETHEUS_OPERATOR_ENABLED,
        parse::boolean,
    )?;
    Ok(MetricsExporterSettings {
        port: reader.read(&table::METRICS_EXPORTER_PORT, parse::port)?,
        secret_name: reader.read(&table::METRICS_EXPORTER_SECRET_NAME, parse::dns_subdomain)?,
        prometheus: enabled.then_some(prometheus),
    })
}
