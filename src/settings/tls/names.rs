//! The names of TLS versions, cipher suites and key exchange groups, and what rustls and Go have of them.

use std::fmt;

/// A TLS version, by the name that Go programs and OpenShift give it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// `VersionTLS10`
    Tls10,
    /// `VersionTLS11`
    Tls11,
    /// `VersionTLS12`
    Tls12,
    /// `VersionTLS13`
    Tls13,
}

impl TlsVersion {
    const ALL: [Self; 4] = [Self::Tls10, Self::Tls11, Self::Tls12, Self::Tls13];

    /// The name as it is written in flags and profiles.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tls10 => "VersionTLS10",
            Self::Tls11 => "VersionTLS11",
            Self::Tls12 => "VersionTLS12",
            Self::Tls13 => "VersionTLS13",
        }
    }

    /// The version of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.name() == name)
    }
}

impl fmt::Display for TlsVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A cipher suite that our server can offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the IANA names")]
pub enum ServedSuite {
    Tls13Aes128GcmSha256,
    Tls13Aes256GcmSha384,
    Tls13Chacha20Poly1305Sha256,
    EcdheEcdsaAes128GcmSha256,
    EcdheEcdsaAes256GcmSha384,
    EcdheEcdsaChacha20Poly1305Sha256,
    EcdheRsaAes128GcmSha256,
    EcdheRsaAes256GcmSha384,
    EcdheRsaChacha20Poly1305Sha256,
}

impl ServedSuite {
    /// Whether it is a suite of TLS 1.3.
    pub const fn is_tls13(self) -> bool {
        matches!(
            self,
            Self::Tls13Aes128GcmSha256
                | Self::Tls13Aes256GcmSha384
                | Self::Tls13Chacha20Poly1305Sha256
        )
    }
}

/// What is known of a suite.
#[derive(Debug, PartialEq, Eq)]
struct SuiteFacts {
    /// The IANA name first, then other names: OpenSSL's, older ones.
    names: &'static [&'static str],
    /// The suite in our server, if it has it.
    served: Option<ServedSuite>,
    /// Whether Go programs take the name and count the suite as secure.
    go_secure: bool,
}

/// A cipher suite whose name is known, whether or not our server has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CipherSuite(&'static SuiteFacts);

impl CipherSuite {
    /// The suite of this IANA or OpenSSL name.
    pub fn from_name(name: &str) -> Option<Self> {
        SUITES
            .iter()
            .find(|facts| facts.names.contains(&name))
            .map(CipherSuite)
    }

    /// The IANA name.
    pub fn name(self) -> &'static str {
        self.0.names.first().copied().unwrap_or_default()
    }

    /// The suite in our server, if it has it.
    pub const fn served(self) -> Option<ServedSuite> {
        self.0.served
    }

    /// Whether Go programs take it and count it as secure.
    pub const fn is_go_secure(self) -> bool {
        self.0.go_secure
    }
}

const fn served(names: &'static [&'static str], suite: ServedSuite) -> SuiteFacts {
    SuiteFacts {
        names,
        served: Some(suite),
        go_secure: true,
    }
}

const fn go_only(names: &'static [&'static str]) -> SuiteFacts {
    SuiteFacts {
        names,
        served: None,
        go_secure: true,
    }
}

const fn unusable(names: &'static [&'static str]) -> SuiteFacts {
    SuiteFacts {
        names,
        served: None,
        go_secure: false,
    }
}

/// Suites by what can be done with them: served by us, taken by Go programs only, or by nobody
/// (insecure, or without an implementation in Go).
const SUITES: &[SuiteFacts] = &[
    served(
        &["TLS_AES_128_GCM_SHA256"],
        ServedSuite::Tls13Aes128GcmSha256,
    ),
    served(
        &["TLS_AES_256_GCM_SHA384"],
        ServedSuite::Tls13Aes256GcmSha384,
    ),
    served(
        &["TLS_CHACHA20_POLY1305_SHA256"],
        ServedSuite::Tls13Chacha20Poly1305Sha256,
    ),
    served(
        &[
            "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
            "ECDHE-ECDSA-AES128-GCM-SHA256",
        ],
        ServedSuite::EcdheEcdsaAes128GcmSha256,
    ),
    served(
        &[
            "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
            "ECDHE-ECDSA-AES256-GCM-SHA384",
        ],
        ServedSuite::EcdheEcdsaAes256GcmSha384,
    ),
    served(
        &[
            "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
            "ECDHE-ECDSA-CHACHA20-POLY1305",
            "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
        ],
        ServedSuite::EcdheEcdsaChacha20Poly1305Sha256,
    ),
    served(
        &[
            "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            "ECDHE-RSA-AES128-GCM-SHA256",
        ],
        ServedSuite::EcdheRsaAes128GcmSha256,
    ),
    served(
        &[
            "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
            "ECDHE-RSA-AES256-GCM-SHA384",
        ],
        ServedSuite::EcdheRsaAes256GcmSha384,
    ),
    served(
        &[
            "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
            "ECDHE-RSA-CHACHA20-POLY1305",
            "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
        ],
        ServedSuite::EcdheRsaChacha20Poly1305Sha256,
    ),
    go_only(&[
        "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
        "ECDHE-ECDSA-AES128-SHA",
    ]),
    go_only(&[
        "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
        "ECDHE-ECDSA-AES256-SHA",
    ]),
    go_only(&["TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "ECDHE-RSA-AES128-SHA"]),
    go_only(&["TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", "ECDHE-RSA-AES256-SHA"]),
    unusable(&[
        "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
        "ECDHE-ECDSA-AES128-SHA256",
    ]),
    unusable(&[
        "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
        "ECDHE-RSA-AES128-SHA256",
    ]),
    unusable(&[
        "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384",
        "ECDHE-ECDSA-AES256-SHA384",
    ]),
    unusable(&[
        "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384",
        "ECDHE-RSA-AES256-SHA384",
    ]),
    unusable(&["TLS_ECDHE_ECDSA_WITH_RC4_128_SHA"]),
    unusable(&["TLS_ECDHE_RSA_WITH_RC4_128_SHA"]),
    unusable(&[
        "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
        "ECDHE-RSA-DES-CBC3-SHA",
    ]),
    unusable(&["TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256"]),
    unusable(&["TLS_RSA_WITH_AES_256_GCM_SHA384", "AES256-GCM-SHA384"]),
    unusable(&["TLS_RSA_WITH_AES_128_CBC_SHA256", "AES128-SHA256"]),
    unusable(&["TLS_RSA_WITH_AES_256_CBC_SHA256", "AES256-SHA256"]),
    unusable(&["TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"]),
    unusable(&["TLS_RSA_WITH_AES_256_CBC_SHA", "AES256-SHA"]),
    unusable(&["TLS_RSA_WITH_3DES_EDE_CBC_SHA", "DES-CBC3-SHA"]),
    unusable(&["TLS_RSA_WITH_RC4_128_SHA"]),
    unusable(&[
        "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256",
        "DHE-RSA-AES128-GCM-SHA256",
    ]),
    unusable(&[
        "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384",
        "DHE-RSA-AES256-GCM-SHA384",
    ]),
    unusable(&[
        "TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        "DHE-RSA-CHACHA20-POLY1305",
    ]),
    unusable(&[
        "TLS_DHE_RSA_WITH_AES_128_CBC_SHA256",
        "DHE-RSA-AES128-SHA256",
    ]),
    unusable(&[
        "TLS_DHE_RSA_WITH_AES_256_CBC_SHA256",
        "DHE-RSA-AES256-SHA256",
    ]),
];

/// A key exchange group that our server can offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServedGroup {
    /// X25519
    X25519,
    /// NIST P-256
    Secp256r1,
    /// NIST P-384
    Secp384r1,
    /// The hybrid of X25519 and ML-KEM-768
    X25519MlKem768,
    /// The hybrid of P-256 and ML-KEM-768
    Secp256r1MlKem768,
}

/// A key exchange group whose name is known, whether or not our server has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Curve {
    /// One that our server has.
    Served(ServedGroup),
    /// NIST P-521
    Secp521r1,
    /// The hybrid of P-384 and ML-KEM-1024
    Secp384r1MlKem1024,
}

impl Curve {
    const ALL: [Self; 7] = [
        Self::Served(ServedGroup::X25519),
        Self::Served(ServedGroup::Secp256r1),
        Self::Served(ServedGroup::Secp384r1),
        Self::Served(ServedGroup::X25519MlKem768),
        Self::Served(ServedGroup::Secp256r1MlKem768),
        Self::Secp521r1,
        Self::Secp384r1MlKem1024,
    ];

    /// The name as it is written in flags and profiles.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Served(ServedGroup::X25519) => "X25519",
            Self::Served(ServedGroup::Secp256r1) => "secp256r1",
            Self::Served(ServedGroup::Secp384r1) => "secp384r1",
            Self::Served(ServedGroup::X25519MlKem768) => "X25519MLKEM768",
            Self::Served(ServedGroup::Secp256r1MlKem768) => "SecP256r1MLKEM768",
            Self::Secp521r1 => "secp521r1",
            Self::Secp384r1MlKem1024 => "SecP384r1MLKEM1024",
        }
    }

    /// The group of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|curve| curve.name() == name)
    }

    /// The group in our server, if it has it.
    pub const fn served(self) -> Option<ServedGroup> {
        match self {
            Self::Served(group) => Some(group),
            Self::Secp521r1 | Self::Secp384r1MlKem1024 => None,
        }
    }
}
