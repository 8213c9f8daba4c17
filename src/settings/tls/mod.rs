//! TLS as an administrator or OpenShift asks for it, and what our server and the metrics proxy make of it.
//!
//! Names that nobody knows are errors where a person wrote them and warnings where the cluster did. Names
//! that are known but cannot be served are dropped with a warning: a stricter wish than we can fulfil must not
//! leave the cluster without admission. No rustls here: the server turns the enums into its types.

mod names;
mod profile;

use std::fmt;

pub use names::{CipherSuite, Curve, ServedGroup, ServedSuite, TlsVersion};
pub use profile::cluster_profile;

use super::parse;

/// What is asked for. Empty parts leave the choice to the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsOptions {
    /// The suites, in the order asked for.
    pub cipher_suites: Vec<CipherSuite>,
    /// The lowest version.
    pub min_version: Option<TlsVersion>,
    /// The groups, best first.
    pub curves: Vec<Curve>,
}

/// What our server offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// Whether TLS 1.2 is offered beside 1.3.
    pub tls12: bool,
    /// The suites, best first; empty for the server's defaults.
    pub cipher_suites: Vec<ServedSuite>,
    /// The groups, best first; empty for the server's defaults.
    pub groups: Vec<ServedGroup>,
}

/// A wish that was not followed to the letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsWarning {
    /// Names that nobody knows, from the cluster's TLS profile.
    Unknown(Vec<String>),
    /// Suites and groups that are known but not offered.
    Dropped(Vec<&'static str>),
    /// A minimum below TLS 1.2, raised to it.
    Raised(TlsVersion),
}

impl fmt::Display for TlsWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(names) => {
                write!(f, "TLS names that are not known are left out: {names:?}")
            }
            Self::Dropped(names) => write!(
                f,
                "TLS cipher suites or groups that are insecure or not built in are left out: {}",
                names.join(", ")
            ),
            Self::Raised(version) => write!(
                f,
                "the minimum TLS version {version} is raised to {}",
                TlsVersion::Tls12
            ),
        }
    }
}

/// The cipher suites of a comma separated list; `None` when a name is not known.
pub(super) fn cipher_suites(text: &str) -> Option<Vec<CipherSuite>> {
    parse::list_of(text, CipherSuite::from_name)
}

/// The groups of a comma separated list; `None` when a name is not known.
pub(super) fn curves(text: &str) -> Option<Vec<Curve>> {
    parse::list_of(text, Curve::from_name)
}

impl TlsOptions {
    /// What our server offers, and what it had to leave out.
    ///
    /// As in Go's TLS, the suites of TLS 1.3 stay on when none of them is listed; a list that has only them
    /// leaves TLS 1.2 without a suite and so turns it off. With nothing of a list left, the defaults.
    pub fn served(&self) -> (TlsSettings, Vec<TlsWarning>) {
        let mut dropped = Vec::new();
        let mut suites = Vec::new();
        for suite in &self.cipher_suites {
            match suite.served() {
                Some(served) => suites.push(served),
                None => dropped.push(suite.name()),
            }
        }
        let mut groups = Vec::new();
        for curve in &self.curves {
            match curve.served() {
                Some(served) => groups.push(served),
                None => dropped.push(curve.name()),
            }
        }
        let has_tls12 = suites.iter().any(|suite| !suite.is_tls13());
        let has_tls13 = suites.iter().any(|suite| suite.is_tls13());
        if has_tls12 && !has_tls13 {
            let tls13 = [
                ServedSuite::Tls13Aes256GcmSha384,
                ServedSuite::Tls13Aes128GcmSha256,
                ServedSuite::Tls13Chacha20Poly1305Sha256,
            ];
            suites.splice(0..0, tls13);
        }
        let tls12 = self.min_version != Some(TlsVersion::Tls13) && (has_tls12 || !has_tls13);
        if !tls12 {
            suites.retain(|suite| suite.is_tls13());
        }
        let settings = TlsSettings {
            tls12,
            cipher_suites: suites,
            groups,
        };
        (settings, self.warnings(dropped))
    }

    /// The arguments that hand these options on to `sriov-operator webhook`. Nothing is left out: that
    /// process makes the same of them as this one.
    pub fn webhook_arguments(&self) -> Vec<String> {
        let suites: Vec<&str> = self.cipher_suites.iter().map(|s| s.name()).collect();
        let curves: Vec<&str> = self.curves.iter().map(|c| c.name()).collect();
        let mut arguments = arguments(&suites, self.min_version);
        if !curves.is_empty() {
            arguments.push(format!("--tls-curve-preferences={}", curves.join(",")));
        }
        arguments
    }

    /// The arguments for kube-rbac-proxy, a Go program that knows no curve preferences, and what they leave out.
    pub fn proxy_arguments(&self) -> (Vec<String>, Vec<TlsWarning>) {
        let (secure, dropped): (Vec<CipherSuite>, Vec<CipherSuite>) = self
            .cipher_suites
            .iter()
            .partition(|suite| suite.is_go_secure());
        let suites: Vec<&str> = secure.iter().map(|s| s.name()).collect();
        let min_version = self.min_version.map(|v| v.max(TlsVersion::Tls12));
        let dropped = dropped.iter().map(|suite| suite.name()).collect();
        (arguments(&suites, min_version), self.warnings(dropped))
    }

    fn warnings(&self, dropped: Vec<&'static str>) -> Vec<TlsWarning> {
        let dropped = (!dropped.is_empty()).then_some(TlsWarning::Dropped(dropped));
        let raised = self
            .min_version
            .filter(|version| *version < TlsVersion::Tls12)
            .map(TlsWarning::Raised);
        dropped.into_iter().chain(raised).collect()
    }
}

fn arguments(suites: &[&str], min_version: Option<TlsVersion>) -> Vec<String> {
    let suites = (!suites.is_empty()).then(|| format!("--tls-cipher-suites={}", suites.join(",")));
    let version = min_version.map(|version| format!("--tls-min-version={version}"));
    suites.into_iter().chain(version).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(suites: &str, version: &str, curves_: &str) -> TlsOptions {
        TlsOptions {
            cipher_suites: cipher_suites(suites).unwrap(),
            min_version: (!version.is_empty()).then(|| TlsVersion::from_name(version).unwrap()),
            curves: curves(curves_).unwrap(),
        }
    }

    #[test]
    fn nothing_asked_for_is_the_default() {
        let (settings, warnings) = TlsOptions::default().served();
        assert!(settings.tls12 && settings.cipher_suites.is_empty() && settings.groups.is_empty());
        assert_eq!(warnings, []);
        assert!(TlsOptions::default().webhook_arguments().is_empty());
        assert_eq!(TlsOptions::default().proxy_arguments(), (vec![], vec![]));
    }

    #[test]
    fn openssl_names_are_iana_names() {
        let openssl = options("ECDHE-RSA-AES128-GCM-SHA256, ECDHE-RSA-AES128-SHA", "", "");
        let iana = options(
            "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
            "",
            "",
        );
        assert_eq!(openssl, iana);
    }

    #[test]
    fn unknown_names_are_no_options() {
        assert_eq!(cipher_suites("TLS_NULL_WITH_NULL_NULL"), None);
        assert_eq!(cipher_suites("tls_aes_128_gcm_sha256"), None);
        assert_eq!(curves("29"), None);
        assert_eq!(TlsVersion::from_name("VersionTLS14"), None);
    }

    #[test]
    fn what_cannot_be_served_is_dropped_with_a_warning() {
        let (settings, warnings) = options(
            "ECDHE-ECDSA-AES256-GCM-SHA384,AES128-SHA,TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
            "VersionTLS11",
            "secp521r1,secp384r1",
        )
        .served();
        assert!(settings.tls12);
        assert_eq!(
            settings.cipher_suites.last(),
            Some(&ServedSuite::EcdheEcdsaAes256GcmSha384)
        );
        assert_eq!(settings.cipher_suites.len(), 4, "those of TLS 1.3 stay on");
        assert_eq!(settings.groups, [ServedGroup::Secp384r1]);
        let told: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        assert_eq!(told.len(), 2);
        for name in ["TLS_RSA_WITH_AES_128_CBC_SHA", "secp521r1"] {
            assert!(told[0].contains(name), "{told:?}");
        }
        assert!(told[1].contains("VersionTLS11"));
    }

    #[test]
    fn with_nothing_left_the_defaults_are_served() {
        let (settings, warnings) = options("AES128-SHA", "", "secp521r1").served();
        assert!(settings.tls12 && settings.cipher_suites.is_empty() && settings.groups.is_empty());
        assert_eq!(warnings.len(), 1);
    }

    #[test]
    fn suites_of_one_version_only() {
        let (settings, _) = options("TLS_AES_128_GCM_SHA256", "VersionTLS12", "").served();
        assert!(!settings.tls12, "TLS 1.2 has no suite left");
        let (settings, _) = options("ECDHE-RSA-AES128-GCM-SHA256", "VersionTLS13", "").served();
        assert!(!settings.tls12 && settings.cipher_suites.iter().all(|s| s.is_tls13()));
    }

    #[test]
    fn arguments_for_others() {
        let asked = options(
            "ECDHE-RSA-AES128-SHA,AES128-SHA,DHE-RSA-AES128-GCM-SHA256",
            "VersionTLS10",
            "X25519,secp521r1",
        );
        let (proxy, warnings) = asked.proxy_arguments();
        assert_eq!(
            proxy,
            [
                "--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
                "--tls-min-version=VersionTLS12"
            ]
        );
        assert_eq!(warnings.len(), 2);
        let webhook = asked.webhook_arguments();
        assert_eq!(webhook[1], "--tls-min-version=VersionTLS10");
        assert_eq!(webhook[2], "--tls-curve-preferences=X25519,secp521r1");
    }
}
