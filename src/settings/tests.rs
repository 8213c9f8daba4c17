//! What a command line and an environment mean, told as a user meets it.

use clap::{Args as _, FromArgMatches as _};

use super::*;

const REQUIRED: &[(&str, &str)] = &[
    ("NAMESPACE", "sriov"),
    ("CLUSTER_TYPE", "kubernetes"),
    ("RESOURCE_PREFIX", "openshift.io"),
];

fn flags(arguments: &[&str]) -> Flags<Run> {
    let command = Flags::<Run>::augment_args(clap::Command::new("run").no_binary_name(true));
    let matches = command.try_get_matches_from(arguments).unwrap();
    Flags::from_arg_matches(&matches).unwrap()
}

fn read(arguments: &[&str], environment: &[(&str, &str)]) -> Result<Settings, SettingsError> {
    Settings::read(
        &flags(arguments),
        REQUIRED.iter().chain(environment).copied(),
    )
}

fn refusal(arguments: &[&str], environment: &[(&str, &str)]) -> String {
    read(arguments, environment).unwrap_err().to_string()
}

/// A certificate that never serves anything.
fn ca() -> String {
    let key = rcgen::KeyPair::generate().unwrap();
    rcgen::CertificateParams::new(vec!["ca.test".to_owned()])
        .unwrap()
        .self_signed(&key)
        .unwrap()
        .pem()
}

#[test]
fn defaults() {
    let settings = read(&[], &[]).unwrap();
    assert_eq!(settings.admission.bind_address.to_string(), ":6443");
    let process = &settings.process;
    assert_eq!(process.health_probe_bind_address.unwrap().port, 8081);
    assert_eq!(process.metrics_bind_address.unwrap().port, 8080);
    let lease = settings.leader_election.unwrap();
    assert_eq!(lease.lease_duration, Duration::from_secs(15));
    assert_eq!(lease.renew_deadline, Duration::from_secs(10));
    assert_eq!(lease.retry_period, Duration::from_secs(2));
    assert_eq!(settings.certificate_mode, CertificateMode::SelfSigned);
    assert_eq!(
        settings.admission.secret_names.operator,
        "operator-webhook-cert"
    );
    assert_eq!(settings.components.injector_webhook.timeout_seconds, 10);
    assert_eq!(settings.components.cni_bin_path, "/var/lib/cni/bin");
    assert_eq!(settings.components.serving, AdmissionServing::InProcess);
    assert!(settings.components.metrics_exporter.prometheus.is_none());
}

#[test]
fn a_resource_prefix_is_one_that_the_api_server_takes() {
    assert!(read(&[], &[("RESOURCE_PREFIX", "nics.example.com")]).is_ok());
    for prefix in ["a b", "a/b", "{{x}}", "a\"b", "-"] {
        let refusal = refusal(&[], &[("RESOURCE_PREFIX", prefix)]);
        assert!(refusal.contains("RESOURCE_PREFIX"), "{refusal}");
    }
}

#[test]
fn every_default_of_the_table_is_legal_when_it_is_written_out() {
    let environment: Vec<(&str, &str)> = SETTINGS
        .iter()
        .filter(|setting| !setting.default.is_empty())
        .map(|setting| (setting.variable, setting.default))
        .collect();
    let written = read(&[], &environment).unwrap();
    assert_eq!(
        format!("{written:?}"),
        format!("{:?}", read(&[], &[]).unwrap())
    );
}

#[test]
fn a_flag_wins_over_its_variable_and_a_variable_over_the_default() {
    let environment = [("LOG_FORMAT", "json"), ("SHUTDOWN_DELAY", "")];
    let settings = read(&[], &environment).unwrap();
    assert_eq!(settings.process.log_format, LogFormat::Json);
    assert_eq!(settings.process.shutdown_delay, Duration::from_secs(5));
    let settings = read(&["--log-format", "text"], &environment).unwrap();
    assert_eq!(settings.process.log_format, LogFormat::Text);
}

#[test]
fn switches_need_no_value() {
    let settings = read(&["--honor-resources", "--leader-elect=false"], &[]).unwrap();
    assert!(settings.admission.injector.honor_resources);
    assert!(settings.leader_election.is_none());
}

#[test]
fn a_listener_can_be_off_but_not_that_of_the_webhooks() {
    let settings = read(&["--metrics-bind-address=0"], &[]).unwrap();
    assert_eq!(settings.process.metrics_bind_address, None);
    for address in ["0", ":0"] {
        let refusal = refusal(&["--webhook-bind-address", address], &[]);
        assert!(refusal.starts_with("--webhook-bind-address (WEBHOOK_BIND_ADDRESS) is"));
    }
}

#[test]
fn what_is_required() {
    for (missing, _) in REQUIRED {
        let environment = REQUIRED.iter().copied().filter(|(name, _)| name != missing);
        let error = Settings::read(&Flags::default(), environment).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with(&format!("{missing} is not set")),
            "{error}"
        );
    }
}

#[test]
fn a_refusal_names_setting_value_and_what_is_legal() {
    assert_eq!(
        refusal(&[], &[("CLUSTER_TYPE", "k8s")]),
        "CLUSTER_TYPE is \"k8s\": it must be kubernetes or openshift"
    );
    for (variable, value) in [
        ("NAMESPACE", "My_NS"),
        ("ADMISSION_SERVING", "dedicate"),
        ("LOG_FORMAT", "xml"),
        ("LEADER_ELECT", "yes"),
        ("DEV_MODE", "1"),
        ("CA_LIFETIME", "10y"),
        ("TLS_CIPHER_SUITES", "TLS_MADE_UP"),
        ("TLS_MIN_VERSION", "1.2"),
        ("TLS_CURVE_PREFERENCES", "29"),
        ("INJECTOR_FAILURE_POLICY", "fail"),
        ("INJECTOR_TIMEOUT", "31s"),
        ("INJECTOR_TIMEOUT", "1500ms"),
        ("INJECTOR_EXEMPT_NAMESPACES", "a,B"),
        ("IMAGE_PULL_SECRETS", "my secret"),
        ("SRIOV_CNI_IMAGE", "a b"),
        ("SRIOV_CNI_BIN_PATH", "opt/cni"),
        ("STALE_NODE_STATE_CLEANUP_DELAY_MINUTES", "-1"),
        ("OPERATOR_WEBHOOK_NETWORK_POLICY_PORT", "0"),
        ("METRICS_EXPORTER_PORT", "65536"),
        ("ADMISSION_CONTROLLERS_CERTIFICATES_OPERATOR_CA_CRT", "bm8="),
        ("NETWORK_RESOURCE_NAME_KEYS", " , "),
    ] {
        let refusal = refusal(&[], &[(variable, value)]);
        assert!(refusal.contains(variable), "{variable}: {refusal}");
        assert!(refusal.contains(&format!("{value:?}")), "{refusal}");
    }
}

#[test]
fn a_long_value_is_not_repeated_in_full() {
    let long = "x".repeat(5_000);
    let refusal = refusal(
        &[],
        &[("ADMISSION_CONTROLLERS_CERTIFICATES_OPERATOR_CA_CRT", &long)],
    );
    assert!(refusal.len() < 300, "{refusal}");
}

#[test]
fn a_key_in_the_place_of_a_certificate_is_not_repeated() {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let key = rcgen::KeyPair::generate().unwrap().serialize_pem();
    let once = STANDARD.encode(&key);
    let twice = STANDARD.encode(&once);
    for value in [&key, &key.replace('\n', ""), &once, &twice] {
        let refusal = refusal(
            &[],
            &[("ADMISSION_CONTROLLERS_CERTIFICATES_OPERATOR_CA_CRT", value)],
        );
        assert!(!refusal.contains(&value[24..40]), "{refusal}");
    }
}

#[test]
fn durations_that_do_not_go_together() {
    for (arguments, named) in [
        (
            ["--leader-elect-renew-deadline=15s"],
            "--leader-elect-renew-deadline",
        ),
        (
            ["--leader-elect-retry-period=9s"],
            "--leader-elect-retry-period",
        ),
        (["--certificate-lifetime=4000d"], "--certificate-lifetime"),
        (["--rotation-settle-time=200d"], "--rotation-settle-time"),
    ] {
        assert!(refusal(&arguments, &[]).starts_with(named), "{named}");
    }
    let compressed = [
        "--ca-lifetime=60s",
        "--certificate-lifetime=20s",
        "--rotation-settle-time=2s",
    ];
    assert_eq!(
        read(&compressed, &[]).unwrap().lifetimes.ca,
        Duration::from_secs(60)
    );
}

#[test]
fn lists_are_trimmed_and_blanks_dropped() {
    let settings = read(&[], &[("IMAGE_PULL_SECRETS", " a, ,b,a,")]).unwrap();
    assert_eq!(settings.components.image_pull_secrets, ["a", "b"]);
}

#[test]
fn the_release_version_has_two_variables() {
    let version =
        |environment: &[(&str, &str)]| read(&[], environment).unwrap().components.release_version;
    assert_eq!(version(&[("RELEASE_VERSION", "4.20")]), "4.20");
    assert_eq!(
        version(&[("RELEASE_VERSION", "4.20"), ("RELEASEVERSION", "4.21")]),
        "4.21"
    );
    assert_eq!(version(&[]), "");
}

#[test]
fn dev_mode_reaches_other_programs_as_they_know_it() {
    let dev_mode = |text| read(&[], &[("DEV_MODE", text)]).unwrap().admission.dev_mode;
    assert_eq!(dev_mode("true").as_str(), "TRUE");
    assert!(dev_mode("TRUE").is_enabled());
    assert_eq!(dev_mode("FALSE").as_str(), "FALSE");
    assert!(!dev_mode("").is_enabled());
}

#[test]
fn the_certificate_mode_follows_from_the_variables() {
    let pem = ca();
    let (base64, twice) = {
        use base64::{Engine as _, engine::general_purpose::STANDARD};
        let once = STANDARD.encode(&pem);
        let twice = STANDARD.encode(&once);
        (once, twice)
    };
    let provided = [
        (
            "ADMISSION_CONTROLLERS_CERTIFICATES_OPERATOR_CA_CRT",
            base64.as_str(),
        ),
        (
            "ADMISSION_CONTROLLERS_CERTIFICATES_INJECTOR_CA_CRT",
            pem.as_str(),
        ),
    ];
    let mode = |more: &[(&str, &str)]| {
        let environment: Vec<_> = provided.iter().chain(more).copied().collect();
        read(&[], &environment).unwrap().certificate_mode
    };
    let bundles = ProvidedBundles {
        operator: pem.clone(),
        injector: pem.clone(),
    };
    assert_eq!(mode(&[]), CertificateMode::Provided(bundles.clone()));
    let doubly = (
        "ADMISSION_CONTROLLERS_CERTIFICATES_INJECTOR_CA_CRT",
        twice.as_str(),
    );
    let environment = [provided[0], doubly];
    assert_eq!(
        read(&[], &environment).unwrap().certificate_mode,
        CertificateMode::Provided(bundles)
    );
    let cert_manager = (
        "ADMISSION_CONTROLLERS_CERTIFICATES_CERT_MANAGER_ENABLED",
        "True",
    );
    assert_eq!(mode(&[cert_manager]), CertificateMode::CertManager);
    assert_eq!(
        mode(&[cert_manager, ("CLUSTER_TYPE", "openshift")]),
        CertificateMode::ServiceCa
    );
    let refusal = refusal(&[], &provided[..1]);
    assert!(refusal.contains("INJECTOR_CA_CRT is not set"), "{refusal}");
}

#[test]
fn a_ca_bundle_is_pem_or_base64_of_it_and_files_may_be_joined() {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let (first, second) = (ca(), ca());
    let both = format!("{first}{second}");
    let encoded = STANDARD.encode(&both);
    let wrapped = format!("{}\n{}\n", &encoded[..76], &encoded[76..]);
    let injector = (
        "ADMISSION_CONTROLLERS_CERTIFICATES_INJECTOR_CA_CRT",
        &*first,
    );
    for value in [
        both.clone(),
        encoded.clone(),
        wrapped,
        STANDARD.encode(&encoded),
        format!("{}{second}", first.trim_end()),
    ] {
        let variable = "ADMISSION_CONTROLLERS_CERTIFICATES_OPERATOR_CA_CRT";
        let settings = read(&[], &[(variable, &value), injector]).unwrap();
        let CertificateMode::Provided(bundles) = settings.certificate_mode else {
            panic!("the mode is {:?}", settings.certificate_mode);
        };
        assert_eq!(bundles.operator, both);
    }
}

#[test]
fn one_secret_cannot_hold_two_pairs_that_we_make() {
    let name = [(
        "ADMISSION_CONTROLLERS_CERTIFICATES_INJECTOR_SECRET_NAME",
        "operator-webhook-cert",
    )];
    assert!(refusal(&[], &name).contains("another Secret"));
}

#[test]
fn client_names_need_a_client_ca() {
    assert!(refusal(&["--client-allowed-names=a"], &[]).contains("CLIENT_CA_FILE"));
    let flags = ["--client-allowed-names=a,b", "--client-ca-file=/ca.crt"];
    let client_ca = read(&flags, &[]).unwrap().admission.client_ca.unwrap();
    assert_eq!(client_ca.allowed_names, ["a", "b"]);
}

#[test]
fn kubeconfig_files_are_a_list_of_paths() {
    let settings = read(&[], &[("KUBECONFIG", "/a:/b:")]).unwrap();
    assert_eq!(
        settings.process.kubeconfig,
        [PathBuf::from("/a"), PathBuf::from("/b")]
    );
    assert!(read(&[], &[]).unwrap().process.kubeconfig.is_empty());
}

#[test]
fn the_webhook_command_takes_what_concerns_serving() {
    let command = Flags::<Webhook>::augment_args(clap::Command::new("webhook"));
    let flags: Vec<&str> = command
        .get_arguments()
        .filter_map(clap::Arg::get_long)
        .collect();
    assert!(flags.contains(&"webhook-bind-address"));
    assert!(flags.contains(&"network-resource-name-keys"));
    assert!(!flags.contains(&"ca-lifetime"));
    let settings = WebhookSettings::read(&Flags::default(), [("NAMESPACE", "sriov")]).unwrap();
    assert_eq!(settings.process.namespace, "sriov");
}

#[cfg(unix)]
#[test]
fn a_value_that_is_no_text_is_an_error() {
    use std::os::unix::ffi::OsStringExt as _;
    let environment = [(OsString::from("NAMESPACE"), OsString::from_vec(vec![0xff]))];
    let error = Settings::read(&Flags::default(), environment).unwrap_err();
    assert!(error.to_string().contains("CLUSTER_TYPE") || error.to_string().contains("NAMESPACE"));
}
