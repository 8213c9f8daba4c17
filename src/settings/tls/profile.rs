//! OpenShift's TLS profile: `spec.tlsSecurityProfile` of the `APIServer` object named `cluster`.

use serde_json::Value;

use super::{CipherSuite, Curve, TlsOptions, TlsVersion, TlsWarning};

const GROUPS: &[&str] = &["X25519MLKEM768", "X25519", "secp256r1", "secp384r1"];

const MODERN: &[&str] = &[
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
];

const INTERMEDIATE: &[&str] = &[
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-RSA-CHACHA20-POLY1305",
];

const OLD: &[&str] = &[
    "ECDHE-ECDSA-AES128-SHA256",
    "ECDHE-RSA-AES128-SHA256",
    "ECDHE-ECDSA-AES128-SHA",
    "ECDHE-RSA-AES128-SHA",
    "ECDHE-ECDSA-AES256-SHA384",
    "ECDHE-RSA-AES256-SHA384",
    "ECDHE-ECDSA-AES256-SHA",
    "ECDHE-RSA-AES256-SHA",
    "AES128-GCM-SHA256",
    "AES256-GCM-SHA384",
    "AES128-SHA256",
    "AES256-SHA256",
    "AES128-SHA",
    "AES256-SHA",
    "DES-CBC3-SHA",
];

/// What the cluster's `APIServer` object asks of components that follow it strictly.
///
/// `None` when it asks nothing of us: `spec.tlsAdherence` is empty or `LegacyAdheringComponentsOnly`, or there
/// is no profile, or one of a type that is not known. Otherwise the options replace those of the
/// environment as a whole. It never fails: names that are not known are left out with a warning.
pub fn cluster_profile(api_server: &Value) -> Option<(TlsOptions, Vec<TlsWarning>)> {
    let spec = api_server.get("spec")?;
    let adherence = spec.get("tlsAdherence").and_then(Value::as_str);
    if matches!(adherence, None | Some("" | "LegacyAdheringComponentsOnly")) {
        return None;
    }
    let profile = spec.get("tlsSecurityProfile")?;
    match profile.get("type").and_then(Value::as_str)? {
        "Modern" => Some(built_in(&[MODERN], "VersionTLS13")),
        "Intermediate" => Some(built_in(&[MODERN, INTERMEDIATE], "VersionTLS12")),
        "Old" => Some(built_in(&[MODERN, INTERMEDIATE, OLD], "VersionTLS10")),
        "Custom" => {
            let custom = profile.get("custom").filter(|body| body.is_object())?;
            Some(options(
                &strings(custom, "ciphers"),
                custom
                    .get("minTLSVersion")
                    .and_then(Value::as_str)
                    .unwrap_or_default(),
                &strings(custom, "groups"),
            ))
        }
        _ => None,
    }
}

fn built_in(suites: &[&[&str]], min_version: &str) -> (TlsOptions, Vec<TlsWarning>) {
    options(&suites.concat(), min_version, GROUPS)
}

fn strings<'a>(object: &'a Value, field: &str) -> Vec<&'a str> {
    object
        .get(field)
        .and_then(Value::as_array)
        .map(|items| items.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default()
}

fn options(suites: &[&str], min_version: &str, groups: &[&str]) -> (TlsOptions, Vec<TlsWarning>) {
    let mut unknown = Vec::new();
    let mut known = TlsOptions::default();
    for name in suites {
        match CipherSuite::from_name(name) {
            Some(suite) => known.cipher_suites.push(suite),
            None => unknown.push((*name).to_owned()),
        }
    }
    if !min_version.is_empty() {
        known.min_version = TlsVersion::from_name(min_version);
        if known.min_version.is_none() {
            unknown.push(min_version.to_owned());
        }
    }
    for name in groups {
        match Curve::from_name(name) {
            Some(curve) => known.curves.push(curve),
            None => unknown.push((*name).to_owned()),
        }
    }
    let warnings = if unknown.is_empty() {
        Vec::new()
    } else {
        vec![TlsWarning::Unknown(unknown)]
    };
    (known, warnings)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::ServedGroup, *};

    fn profile(profile: &Value) -> Option<(TlsOptions, Vec<TlsWarning>)> {
        cluster_profile(&json!({"spec": {
            "tlsAdherence": "StrictAllComponents",
            "tlsSecurityProfile": profile,
        }}))
    }

    #[test]
    fn a_cluster_that_asks_nothing() {
        for object in [
            json!({}),
            json!({"spec": {"tlsSecurityProfile": {"type": "Old", "old": {}}}}),
            json!({"spec": {"tlsAdherence": "", "tlsSecurityProfile": {"type": "Old"}}}),
            json!({"spec": {"tlsAdherence": "LegacyAdheringComponentsOnly",
                "tlsSecurityProfile": {"type": "Modern"}}}),
            json!({"spec": {"tlsAdherence": "StrictAllComponents"}}),
            json!({"spec": {"tlsAdherence": "StrictAllComponents", "tlsSecurityProfile": null}}),
        ] {
            assert_eq!(cluster_profile(&object), None, "{object}");
        }
        assert_eq!(profile(&json!({"type": "Custom"})), None);
        assert_eq!(profile(&json!({"type": "Custom", "custom": null})), None);
        assert_eq!(profile(&json!({"type": "Future"})), None);
    }

    #[test]
    fn built_in_profiles() {
        let (modern, warnings) = profile(&json!({"type": "Modern", "modern": {}})).unwrap();
        assert_eq!(warnings, []);
        assert_eq!(modern.cipher_suites.len(), 3);
        assert!(!modern.served().0.tls12);
        let (intermediate, _) = profile(&json!({"type": "Intermediate"})).unwrap();
        assert_eq!(intermediate.cipher_suites.len(), 9);
        assert_eq!(intermediate.served().1, []);
    }

    #[test]
    fn the_old_profile_is_raised_and_does_not_stop_anything() {
        let (old, warnings) = profile(&json!({"type": "Old"})).unwrap();
        assert_eq!(warnings, [], "every name of it is known");
        let (settings, warnings) = old.served();
        assert!(settings.tls12);
        assert_eq!(settings.cipher_suites.len(), 9);
        assert_eq!(warnings.len(), 2);
        let (arguments, _) = old.proxy_arguments();
        assert!(arguments[0].ends_with("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA"));
        assert_eq!(arguments[1], "--tls-min-version=VersionTLS12");
    }

    #[test]
    fn a_custom_profile_keeps_what_is_known() {
        let (custom, warnings) = profile(&json!({"type": "Custom", "custom": {
            "ciphers": ["ECDHE-RSA-AES128-GCM-SHA256", "MADE-UP"],
            "minTLSVersion": "VersionTLS99",
            "groups": ["SecP384r1MLKEM1024", "secp256r1", "brainpool"],
        }}))
        .unwrap();
        assert_eq!(custom.cipher_suites.len(), 1);
        assert_eq!(custom.min_version, None);
        assert_eq!(custom.curves.len(), 2);
        assert_eq!(
            warnings,
            [TlsWarning::Unknown(vec![
                "MADE-UP".into(),
                "VersionTLS99".into(),
                "brainpool".into()
            ])]
        );
        assert_eq!(custom.served().0.groups, [ServedGroup::Secp256r1]);
    }
}
