//! Which pairs the API server would accept, told by the certificates that people really make.

use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair,
};
use time::OffsetDateTime;

use super::*;
use crate::certs::lifetimes::{after, before};
use crate::certs::testing::{
    HOUR, LATER, authority, injector_service, leaf, now, operator_service,
};

/// A certificate as somebody else's tool makes it.
fn params(name: &str) -> CertificateParams {
    let moment = |at: Timestamp| OffsetDateTime::from_unix_timestamp(at.as_second()).unwrap();
    let mut params = CertificateParams::new(vec![operator_service().called_as()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = moment(before(now(), HOUR));
    params.not_after = moment(after(now(), HOUR));
    params
}

fn ca_params(name: &str) -> CertificateParams {
    let mut params = params(name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
}

fn self_signed(params: &CertificateParams) -> (String, PrivateKey, Bundle) {
    let key = KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    let bundle = Bundle::from_pem(pem.as_bytes()).unwrap();
    (pem, PrivateKey::new(key.serialize_pem()), bundle)
}

fn check(pem: &str, key: &PrivateKey, bundle: &Bundle) -> Result<(), PairError> {
    ServingPair::check(pem.as_bytes(), key, bundle, &operator_service(), now()).map(drop)
}

fn bundle_of(certificate: &Certificate) -> Bundle {
    std::iter::once(certificate.clone()).collect()
}

#[test]
fn a_pair_of_our_own_authority_is_accepted() {
    let ca = authority();
    let issued = leaf(&ca);
    let pair = ServingPair::check(
        issued.certificate().to_pem().as_bytes(),
        issued.key(),
        &bundle_of(ca.certificate()),
        &operator_service(),
        now(),
    )
    .unwrap();
    for name in operator_service().dns_names() {
        assert_eq!(pair.covers(&name), Ok(()));
    }
    assert_eq!(pair.covers("Operator-Webhook-Service.SRIOV.svc"), Ok(()));
    assert_eq!(pair.leaf(), issued.certificate());
}

#[test]
fn dates_names_and_bundles_are_each_checked() {
    let (ca, stranger) = (authority(), authority());
    let issued = leaf(&ca);
    let pair = ServingPair::load(issued.certificate().to_pem().as_bytes(), issued.key()).unwrap();
    let trusted = bundle_of(ca.certificate());
    let verify = |service, at| pair.verify(&trusted, service, at).unwrap_err();
    let service = operator_service();
    assert!(matches!(verify(&service, *LATER), PairError::Expired(_)));
    let early = before(now(), 10 * HOUR);
    assert!(matches!(verify(&service, early), PairError::NotYetValid(_)));
    assert_eq!(
        verify(&injector_service(), now()),
        PairError::NotFor("network-resources-injector-service.sriov.svc".into())
    );
    assert_eq!(
        pair.trusted_by(&Bundle::default(), now()),
        Err(PairError::NoBundle)
    );
    let error = pair.trusted_by(&bundle_of(stranger.certificate()), now());
    assert!(matches!(error, Err(PairError::NotTrusted { .. })));
    let both = [stranger.certificate().clone(), ca.certificate().clone()];
    assert_eq!(pair.trusted_by(&both.into_iter().collect(), now()), Ok(()));
}

#[test]
fn a_certificate_that_is_itself_in_the_bundle_is_accepted_ca_bit_or_not() {
    for params in [params("plain"), ca_params("with the CA bit")] {
        let (pem, key, bundle) = self_signed(&params);
        assert_eq!(check(&pem, &key, &bundle), Ok(()));
    }
    let (_, _, other) = self_signed(&params("other"));
    let (pem, key, _) = self_signed(&params("plain"));
    assert!(matches!(
        check(&pem, &key, &other),
        Err(PairError::NotTrusted { .. })
    ));
}

#[test]
fn a_path_may_lead_over_intermediates_even_for_a_leaf_with_the_ca_bit() {
    let root =
        CertifiedIssuer::self_signed(ca_params("root"), KeyPair::generate().unwrap()).unwrap();
    let middle =
        CertifiedIssuer::signed_by(ca_params("middle"), KeyPair::generate().unwrap(), &root)
            .unwrap();
    let bundle = Bundle::from_pem(root.pem().as_bytes()).unwrap();
    for params in [params("leaf"), ca_params("leaf with the CA bit")] {
        let key = KeyPair::generate().unwrap();
        let leaf = params.signed_by(&key, &middle).unwrap().pem();
        let key = PrivateKey::new(key.serialize_pem());
        assert_eq!(
            check(&(leaf.clone() + &middle.pem()), &key, &bundle),
            Ok(())
        );
        let alone = check(&leaf, &key, &bundle);
        assert!(matches!(alone, Err(PairError::NotTrusted { .. })));
    }
}

#[test]
fn an_anchor_must_be_in_date_and_be_allowed_to_sign() {
    let mut old = ca_params("old");
    old.not_after = OffsetDateTime::from_unix_timestamp(now().as_second() - 1).unwrap();
    let mut plain = params("no CA bit");
    plain.is_ca = IsCa::NoCa;
    for anchor in [old, plain] {
        let anchor = CertifiedIssuer::self_signed(anchor, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let leaf = params("leaf").signed_by(&key, &anchor).unwrap().pem();
        let bundle = Bundle::from_pem(anchor.pem().as_bytes()).unwrap();
        let key = PrivateKey::new(key.serialize_pem());
        let error = check(&leaf, &key, &bundle).unwrap_err();
        assert!(
            error.to_string().contains("in date and may sign"),
            "{error}"
        );
    }
}

#[test]
fn a_client_certificate_does_not_serve() {
    let mut client = params("client");
    client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let (pem, key, bundle) = self_signed(&client);
    assert_eq!(check(&pem, &key, &bundle), Err(PairError::NotForServing));
}

#[test]
fn keys_of_the_common_kinds_are_taken() {
    for algorithm in [
        &rcgen::PKCS_ECDSA_P256_SHA256,
        &rcgen::PKCS_ECDSA_P384_SHA384,
        &rcgen::PKCS_ED25519,
        &rcgen::PKCS_RSA_SHA256,
    ] {
        let key = KeyPair::generate_for(algorithm).unwrap();
        let pem = params("leaf").self_signed(&key).unwrap().pem();
        let bundle = Bundle::from_pem(pem.as_bytes()).unwrap();
        let key = PrivateKey::new(key.serialize_pem());
        assert_eq!(check(&pem, &key, &bundle), Ok(()));
    }
}

#[test]
fn half_written_secrets_are_refused_and_nothing_of_a_key_is_repeated() {
    let ca = authority();
    let (issued, other) = (leaf(&ca), leaf(&ca));
    let pem = issued.certificate().to_pem();
    let secret = String::from_utf8(issued.key().expose().to_vec()).unwrap();
    let one_line = secret.replace('\n', "");
    for (crt, key, wanted) in [
        ("", secret.as_str(), "tls.crt is missing"),
        (" \n", &secret, "tls.crt is missing"),
        (&pem, "", "tls.key is missing"),
        (&pem[..pem.len() / 2], &secret, "tls.crt cannot be read"),
        (&secret, &secret, "tls.crt cannot be read"),
        (&one_line, &secret, "tls.crt cannot be read"),
        (&pem, &secret[..secret.len() / 2], "tls.key is not"),
        (&pem, &one_line, "tls.key is not"),
        (&pem, &pem, "tls.key is not"),
        (
            &pem,
            str::from_utf8(other.key().expose()).unwrap(),
            "tls.key does not match",
        ),
    ] {
        let error = ServingPair::load(crt.as_bytes(), &PrivateKey::new(key)).unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(text.starts_with(wanted), "{text}");
        for line in secret.lines().filter(|line| !line.starts_with('-')) {
            assert!(!text.contains(line), "a key leaks: {text}");
        }
    }
}

#[test]
fn no_debug_output_holds_a_key() {
    let ca = authority();
    let issued = leaf(&ca);
    let contents = PairContents {
        tls_crt: issued.certificate().to_pem().into_bytes(),
        tls_key: issued.key().clone(),
        ca_crt: Vec::new(),
    };
    let pair = ServingPair::load(&contents.tls_crt, &contents.tls_key).unwrap();
    let text = format!("{ca:?} {issued:?} {contents:?} {pair:?}");
    assert!(!text.contains("PRIVATE KEY"), "{text}");
    assert!(text.contains("[redacted]"), "{text}");
}

#[test]
fn sub_second_moments_count() {
    let ca = authority();
    let issued = leaf(&ca);
    let pair = ServingPair::load(issued.certificate().to_pem().as_bytes(), issued.key()).unwrap();
    let end = issued.certificate().validity().not_after;
    assert_eq!(pair.in_date(end), Ok(()));
    let past = after(end, Duration::from_millis(1));
    assert_eq!(pair.in_date(past), Err(PairError::Expired(end)));
}
