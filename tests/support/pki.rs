//! The cluster's own CA and what it signs: the API server's certificate and an administrator's. Not the product's
//! certificates.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
};
use time::{Duration, OffsetDateTime};

/// PEM files of one cluster, in its directory.
pub(crate) struct Pki {
    directory: PathBuf,
    /// The CA's certificate.
    pub(crate) ca: String,
    /// The administrator's certificate.
    pub(crate) admin_certificate: String,
    /// The administrator's key.
    pub(crate) admin_key: String,
}

impl Pki {
    /// Makes everything anew.
    pub(crate) fn create(directory: &Path, api_server: Ipv4Addr) -> Result<Self> {
        let mut params = params("test-cluster-ca", None, Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;

        let names = vec![
            api_server.to_string(),
            "127.0.0.1".to_owned(),
            "localhost".to_owned(),
            "kubernetes.default.svc".to_owned(),
        ];
        let serving = sign(
            &ca,
            self::params("kube-apiserver", None, names)?,
            ExtendedKeyUsagePurpose::ServerAuth,
        )?;
        let admin = sign(
            &ca,
            self::params("admin", Some("system:masters"), Vec::new())?,
            ExtendedKeyUsagePurpose::ClientAuth,
        )?;
        let accounts = KeyPair::generate()?;

        let pki = Self {
            directory: directory.to_owned(),
            ca: ca.pem(),
            admin_certificate: admin.0,
            admin_key: admin.1,
        };
        pki.write("ca.crt", &pki.ca)?;
        pki.write("apiserver.crt", &serving.0)?;
        pki.write("apiserver.key", &serving.1)?;
        pki.write("service-accounts.key", &accounts.serialize_pem())?;
        pki.write("service-accounts.pub", &accounts.public_key_pem())?;
        Ok(pki)
    }

    /// The path of one of the files, as text for a command line.
    pub(crate) fn file(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }

    fn write(&self, name: &str, content: &str) -> Result<()> {
        std::fs::write(self.directory.join(name), content)
            .with_context(|| format!("failed to write {name}"))
    }
}

fn params(
    common_name: &str,
    organization: Option<&str>,
    names: Vec<String>,
) -> Result<CertificateParams> {
    let mut params = CertificateParams::new(names)?;
    let now = OffsetDateTime::now_utc();
    params.not_before = now - Duration::hours(1);
    params.not_after = now + Duration::days(7);
    params.distinguished_name = DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, common_name);
    if let Some(organization) = organization {
        params
            .distinguished_name
            .push(DnType::OrganizationName, organization);
    }
    Ok(params)
}

fn sign(
    ca: &CertifiedIssuer<'_, KeyPair>,
    mut params: CertificateParams,
    usage: ExtendedKeyUsagePurpose,
) -> Result<(String, String)> {
    params.extended_key_usages = vec![usage];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, ca)?;
    Ok((certificate.pem(), key.serialize_pem()))
}
