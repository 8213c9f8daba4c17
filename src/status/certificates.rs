//! The certificates of an installation, judged as the API server would. Nothing of a private key leaves here.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;

use super::{
    Gathered,
    assemble::{bundle, enabled, live},
    report::{CertificateStatus, Leaf, Part},
};
use crate::{
    certs::{
        bundle::Bundle,
        keeper::secrets::AUTHORITY_SECRET,
        names::{Endpoint, endpoints},
        pair::{PairContents, ServingPair},
        published::Configuration,
    },
    render::Component,
};

/// Who writes the pairs shows in what the configurations ask for, and in whose the CA Secret is.
pub(super) fn mode(gathered: &Gathered) -> &'static str {
    let annotated = |key: &str| {
        gathered
            .configurations
            .values()
            .filter_map(|part| part.read()?.as_ref())
            .any(|live| live["metadata"]["annotations"].get(key).is_some())
    };
    let authority = gathered.secrets.get(AUTHORITY_SECRET);
    if annotated("cert-manager.io/inject-ca-from") {
        "cert-manager"
    } else if annotated("service.beta.openshift.io/inject-cabundle") {
        "service-ca"
    } else {
        match authority.and_then(Part::read) {
            Some(Some(_)) => "self-signed",
            Some(None)
                if gathered
                    .secrets
                    .values()
                    .any(|part| part.read().is_some_and(Option::is_some)) =>
            {
                "provided"
            }
            _ => "unknown",
        }
    }
}

/// The serving pairs, and the CA that the operator keeps.
pub(super) fn all(gathered: &Gathered) -> Vec<CertificateStatus> {
    let names = &gathered.secret_names;
    let served = endpoints(&gathered.namespace, &names.operator, &names.injector);
    let called = [
        (
            Component::OperatorWebhook,
            Configuration::OperatorValidating,
        ),
        (Component::Injector, Configuration::Injector),
    ];
    let mut certificates = Vec::new();
    for (endpoint, (component, configuration)) in served.iter().zip(called) {
        let bundle = live(gathered, configuration)
            .read()
            .and_then(|live| live.as_ref().map(bundle));
        certificates.push(CertificateStatus {
            secret: endpoint.secret.clone(),
            certificate: secret(gathered, &endpoint.secret).map(|secret| {
                secret
                    .as_ref()
                    .map(|secret| leaf(secret, endpoint, bundle.as_ref(), gathered.now))
            }),
            needed: enabled(gathered, component),
        });
    }
    if let Part::Read(Some(authority)) = secret(gathered, AUTHORITY_SECRET) {
        let data = PairContents::from_data(authority.data.as_ref());
        let validity = Bundle::from_live(&data.ca_crt)
            .certificates()
            .first()
            .map(|certificate| (certificate.common_name().to_owned(), certificate.validity()));
        certificates.push(CertificateStatus {
            secret: AUTHORITY_SECRET.to_owned(),
            certificate: Part::Read(validity.map(|(name, validity)| {
                Leaf {
                    issuer: name,
                    expires: Some(validity.not_after),
                    renewal: Some(validity.renew_at()),
                    fault: (!validity.contains(gathered.now))
                        .then(|| "the CA certificate is out of date".to_owned()),
                }
            })),
            needed: None,
        });
    }
    certificates
}

fn secret<'a>(gathered: &'a Gathered, name: &str) -> Part<&'a Option<Secret>> {
    match gathered.secrets.get(name) {
        Some(part) => part.as_ref(),
        None => Part::Unreadable {
            unreadable: "it was not asked for".to_owned(),
        },
    }
}

/// The pair of a Secret, judged as the API server would.
fn leaf(secret: &Secret, endpoint: &Endpoint, bundle: Option<&Bundle>, now: Timestamp) -> Leaf {
    let contents = PairContents::from_data(secret.data.as_ref());
    let pair = match ServingPair::load(&contents.tls_crt, &contents.tls_key) {
        Ok(pair) => pair,
        Err(error) => {
            return Leaf {
                issuer: String::new(),
                expires: None,
                renewal: None,
                fault: Some(error.to_string()),
            };
        }
    };
    let judged = pair
        .covers(&endpoint.service.called_as())
        .and_then(|()| pair.in_date(now))
        .and_then(|()| bundle.map_or(Ok(()), |bundle| pair.trusted_by(bundle, now)));
    let certificate = pair.leaf();
    Leaf {
        issuer: certificate.issuer_common_name().to_owned(),
        expires: Some(certificate.validity().not_after),
        renewal: Some(certificate.validity().renew_at()),
        fault: judged.err().map(|error| error.to_string()),
    }
}
