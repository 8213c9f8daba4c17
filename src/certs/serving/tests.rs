//! Which pair is served when Secrets and bundles change.

use super::*;
use crate::certs::authority::{Authority, IssuedPair};
use crate::certs::testing::{
    HOUR, LATER, at, authority, endpoints, injector_service, leaf, now, operator_service,
};

fn contents(pair: &IssuedPair, bundle: &Bundle) -> PairContents {
    PairContents {
        tls_crt: pair.certificate().to_pem().into_bytes(),
        tls_key: pair.key().clone(),
        ca_crt: bundle.to_pem().into_bytes(),
    }
}

fn bundle_of<'a>(authorities: impl IntoIterator<Item = &'a Authority>) -> Bundle {
    authorities
        .into_iter()
        .map(|ca| ca.certificate().clone())
        .collect()
}

fn store(trust: &Trust) -> ServingStore {
    ServingStore::new(endpoints().into_iter().map(|one| (one, trust.clone())))
}

const OPERATOR: &str = "operator-webhook-cert";
const INJECTOR: &str = "network-resources-injector-cert";

fn serves(store: &ServingStore, pair: &IssuedPair) -> bool {
    store
        .pair(&operator_service())
        .is_some_and(|served| served.leaf() == pair.certificate())
}

#[test]
fn a_certificate_is_picked_by_any_form_of_the_service_name() {
    let ca = authority();
    let bundle = bundle_of([&ca]);
    let operator = leaf(&ca);
    let injector = ca.issue(&injector_service(), now(), HOUR).unwrap();
    let store = store(&Trust::Beside);
    assert!(store.pick(None).is_none());
    store.update_secret(INJECTOR, Some(&contents(&injector, &bundle)), now());
    let end_entity = |name: Option<&str>| store.pick(name).map(|key| key.cert[0].clone());
    assert_eq!(
        end_entity(None).as_ref(),
        Some(injector.certificate().der())
    );
    assert_eq!(end_entity(Some(&operator_service().called_as())), None);
    store.update_secret(OPERATOR, Some(&contents(&operator, &bundle)), now());
    for name in injector_service().dns_names() {
        for name in [name.clone(), name.to_uppercase()] {
            assert_eq!(
                end_entity(Some(&name)).as_ref(),
                Some(injector.certificate().der())
            );
        }
    }
    for name in [
        None,
        Some("localhost"),
        Some("operator-webhook-service.sriov.svc"),
    ] {
        assert_eq!(
            end_entity(name).as_ref(),
            Some(operator.certificate().der())
        );
    }
}

#[test]
fn a_bad_pair_leaves_the_old_one_in_use_and_says_why_and_for_how_long() {
    let ca = authority();
    let bundle = bundle_of([&ca]);
    let (old, new) = (leaf(&ca), leaf(&ca));
    let good = contents(&old, &bundle);
    let mut torn = contents(&new, &bundle);
    torn.tls_key = old.key().clone();
    let mut empty = contents(&new, &bundle);
    empty.tls_crt.clear();
    let mut untrusted = contents(&new, &bundle_of([&authority()]));
    let mut elsewhere = contents(
        &ca.issue(&injector_service(), now(), HOUR).unwrap(),
        &bundle,
    );
    elsewhere.ca_crt.clone_from(&good.ca_crt);
    untrusted.tls_crt.clone_from(&torn.tls_crt);

    let store = store(&Trust::Beside);
    store.update_secret(OPERATOR, Some(&good), now());
    for bad in [
        Some(&torn),
        Some(&empty),
        Some(&untrusted),
        Some(&elsewhere),
        None,
    ] {
        store.update_secret(OPERATOR, bad, now());
        assert!(serves(&store, &old));
        let status = store.status().remove(0);
        assert!(status.refused.is_some());
        assert_eq!(
            status.serves_until,
            Some(old.certificate().validity().not_after)
        );
    }
    assert_eq!(
        store.status()[0].reloads,
        Reloads {
            taken: 1,
            refused: 5
        }
    );
    store.update_secret(OPERATOR, Some(&good), now());
    assert_eq!(store.status()[0].refused, None);
    store.update_secret(OPERATOR, Some(&contents(&new, &bundle)), now());
    assert!(serves(&store, &new));
    assert_eq!(store.status()[0].reloads.taken, 2);
}

#[test]
fn a_pair_that_the_live_bundle_does_not_verify_yet_waits_for_it() {
    let (first, second) = (authority(), authority());
    let (old, new) = (leaf(&first), leaf(&second));
    let store = store(&Trust::Beside);
    let live = |authorities: &[&Authority]| {
        let bundle = bundle_of(authorities.iter().copied());
        store.update_live_bundle(&operator_service(), Some(&bundle), now());
    };
    store.update_secret(OPERATOR, Some(&contents(&old, &bundle_of([&first]))), now());
    live(&[&first]);
    store.update_secret(
        OPERATOR,
        Some(&contents(&new, &bundle_of([&second]))),
        now(),
    );
    assert!(serves(&store, &old));
    live(&[&first, &second]);
    assert!(serves(&store, &new));
}

#[test]
fn with_nothing_better_to_serve_a_pair_does_not_wait_for_the_live_bundle() {
    let (first, second) = (authority(), authority());
    let new = leaf(&second);
    let store = store(&Trust::Given(bundle_of([&second])));
    store.update_live_bundle(&operator_service(), Some(&bundle_of([&first])), now());
    store.update_secret(OPERATOR, Some(&contents(&new, &Bundle::default())), now());
    assert!(serves(&store, &new));
}

#[test]
fn after_a_change_of_mode_what_the_live_bundle_verifies_is_served_until_the_new_pair_is_there() {
    let (first, second) = (authority(), authority());
    let (old, new) = (leaf(&first), leaf(&second));
    let store = store(&Trust::Given(bundle_of([&second])));
    let live = |authorities: &[&Authority]| {
        let bundle = bundle_of(authorities.iter().copied());
        store.update_live_bundle(&operator_service(), Some(&bundle), now());
    };
    store.update_secret(OPERATOR, Some(&contents(&old, &Bundle::default())), now());
    assert!(!serves(&store, &old));
    live(&[&first]);
    assert!(serves(&store, &old));
    store.update_secret(OPERATOR, Some(&contents(&new, &Bundle::default())), now());
    assert!(serves(&store, &old), "nobody would believe the new one yet");
    live(&[&second, &first]);
    assert!(serves(&store, &new));
}

#[test]
fn where_somebody_else_fills_the_bundle_a_pair_is_served_without_and_then_only_with_it() {
    let (first, second) = (authority(), authority());
    let (old, new) = (leaf(&first), leaf(&second));
    let nothing = Bundle::default();
    let store = store(&Trust::Live);
    store.update_secret(OPERATOR, Some(&contents(&old, &nothing)), now());
    assert!(serves(&store, &old));
    store.update_live_bundle(&operator_service(), Some(&bundle_of([&first])), now());
    assert_eq!(store.status()[0].refused, None);
    store.update_secret(OPERATOR, Some(&contents(&new, &nothing)), now());
    assert!(serves(&store, &old));
    assert!(store.status()[0].refused.is_some());
    store.update_live_bundle(&operator_service(), Some(&bundle_of([&second])), now());
    assert!(serves(&store, &new));
    assert_eq!(store.status()[0].refused, None);
}

#[test]
fn dates_are_looked_at_again_without_an_event() {
    let ca = authority();
    let bundle = bundle_of([&ca]);
    let early = ca.issue(&operator_service(), at(3600.0), HOUR).unwrap();
    let store = store(&Trust::Beside);
    store.update_secret(OPERATOR, Some(&contents(&early, &bundle)), now());
    assert!(matches!(
        store.status()[0].refused,
        Some(PairError::NotYetValid(_))
    ));
    store.reconsider(at(3600.0));
    assert!(serves(&store, &early));
    store.reconsider(*LATER);
    assert!(matches!(
        store.status()[0].refused,
        Some(PairError::Expired(_))
    ));
    assert!(serves(&store, &early));
}

#[test]
fn whoever_listens_is_woken_by_changes_and_by_nothing_else() {
    let ca = authority();
    let good = contents(&leaf(&ca), &bundle_of([&ca]));
    let store = store(&Trust::Beside);
    let changes = store.changes();
    assert!(!store.is_filled());
    store.update_secret(OPERATOR, Some(&good), now());
    assert_eq!(*changes.borrow(), 1);
    store.update_secret(OPERATOR, Some(&good), now());
    store.reconsider(now());
    assert_eq!(*changes.borrow(), 1);
    store.update_secret(INJECTOR, None, now());
    assert_eq!(*changes.borrow(), 2);
    assert!(store.is_filled());
}

/// A client as the API server is one, in memory: trusts `bundle`, asks for `name`.
fn handshake(
    store: &Arc<ServingStore>,
    bundle: &Bundle,
    name: String,
) -> Result<(), Box<dyn std::error::Error>> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(bundle.certificates().iter().map(|one| one.der().clone()));
    let client = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let resolver: Arc<dyn ResolvesServerCert> = Arc::<ServingStore>::clone(store);
    let server = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(resolver);
    let mut client = rustls::ClientConnection::new(Arc::new(client), name.try_into()?)?;
    let mut server = rustls::ServerConnection::new(Arc::new(server))?;
    while client.is_handshaking() || server.is_handshaking() {
        let mut wire = Vec::new();
        client.write_tls(&mut wire)?;
        server.read_tls(&mut wire.as_slice())?;
        server.process_new_packets()?;
        let mut wire = Vec::new();
        server.write_tls(&mut wire)?;
        client.read_tls(&mut wire.as_slice())?;
        client.process_new_packets()?;
    }
    Ok(())
}

#[test]
fn a_tls_client_gets_the_pair_of_the_service_that_it_calls() {
    // The handshake is judged by the real clock.
    let now = Timestamp::now();
    let ca = Authority::make(now, HOUR).unwrap();
    let bundle = bundle_of([&ca]);
    let store = Arc::new(store(&Trust::Beside));
    let call = |service: &ServiceName, bundle| handshake(&store, bundle, service.called_as());
    assert!(
        call(&operator_service(), &bundle).is_err(),
        "nothing to serve yet"
    );
    for (secret, service) in [
        (OPERATOR, operator_service()),
        (INJECTOR, injector_service()),
    ] {
        let pair = ca.issue(&service, now, HOUR).unwrap();
        store.update_secret(secret, Some(&contents(&pair, &bundle)), now);
        call(&service, &bundle).unwrap();
    }
    call(&operator_service(), &bundle).unwrap();
    let stranger = bundle_of([&Authority::make(now, HOUR).unwrap()]);
    assert!(call(&operator_service(), &stranger).is_err());
}
