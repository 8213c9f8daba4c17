//! The keeper on a stand-in for the API server: what it writes, what it leaves alone, and two of it at once.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use proptest::prelude::*;

use super::fake::FakeSecrets;
use super::handover::NewIssuer;
use super::*;
use crate::certs::bundle::Bundle;
use crate::certs::pair::ServingPair;
use crate::certs::rotation::Phase;
use crate::certs::testing::{at, authority, endpoints, now, operator_service};
use crate::settings::{INJECTOR_CA_CRT, OPERATOR_CA_CRT};

const OPERATOR: &str = "operator-webhook-cert";
const INJECTOR: &str = "network-resources-injector-cert";
const CA: &str = AUTHORITY_SECRET;

fn lifetimes() -> Lifetimes {
    let seconds = Duration::from_secs;
    Lifetimes::new(seconds(60), seconds(20), seconds(2)).unwrap()
}

fn owner() -> OwnerReference {
    OwnerReference {
        api_version: "sriovnetwork.openshift.io/v1".into(),
        kind: "SriovOperatorConfig".into(),
        name: "default".into(),
        uid: "config-uid".into(),
        controller: Some(true),
        block_owner_deletion: None,
    }
}

fn keeper(store: &FakeSecrets) -> Keeper<FakeSecrets> {
    Keeper::with_store(store.clone(), lifetimes())
}

async fn look(
    keeper: &Keeper<FakeSecrets>,
    now: Timestamp,
    observed: &[Bundle],
) -> Result<KeeperOutcome, KeeperError> {
    let (owner, endpoints) = (owner(), endpoints());
    let request = Request {
        now,
        owner: &owner,
        endpoints: &endpoints,
        observed,
    };
    keeper.reconcile(request).await
}

async fn hand_over(keeper: &Keeper<FakeSecrets>, issuer: NewIssuer, observed: &[Bundle]) -> bool {
    let (owner, endpoints) = (owner(), endpoints());
    let request = Request {
        now: now(),
        owner: &owner,
        endpoints: &endpoints,
        observed,
    };
    keeper.hand_over(request, issuer).await.unwrap()
}

fn assert_all_verified(store: &FakeSecrets, bundle: &Bundle, now: Timestamp) {
    for endpoint in endpoints() {
        let secret = store.get(&endpoint.secret).unwrap();
        let contents = PairContents::from_data(secret.data.as_ref());
        let (crt, key) = (&contents.tls_crt, &contents.tls_key);
        ServingPair::check(crt, key, bundle, &endpoint.service, now).unwrap();
        assert_eq!(contents.ca_crt, bundle.to_pem().as_bytes());
    }
}

fn issue_by(issuer: &Authority) -> PairContents {
    let pair = issuer
        .issue(&operator_service(), now(), Duration::from_secs(3600))
        .unwrap();
    PairContents {
        tls_crt: pair.certificate().to_pem().into_bytes(),
        tls_key: pair.key().clone(),
        ca_crt: issuer.certificate().to_pem().into_bytes(),
    }
}

#[tokio::test]
async fn a_fresh_installation_gets_one_ca_and_two_pairs_and_then_rests() {
    let store = FakeSecrets::new();
    let keeper = keeper(&store);
    let outcome = look(&keeper, now(), &[]).await.unwrap();
    assert_eq!(store.names(), [INJECTOR, OPERATOR, CA]);
    assert_eq!(outcome.phase, Phase::Stable);
    assert_eq!(outcome.bundle.certificates().len(), 1);
    assert_all_verified(&store, &outcome.bundle, now());
    let issued = outcome
        .news
        .iter()
        .filter(|one| matches!(one, News::Issued { .. }));
    assert_eq!(issued.count(), 2);
    for name in [INJECTOR, OPERATOR, CA] {
        let secret = store.get(name).unwrap();
        assert_eq!(secret.metadata.owner_references, Some(vec![owner()]));
        let label = &secret.metadata.labels.unwrap()["app.kubernetes.io/managed-by"];
        assert_eq!(label, "sriov-operator");
        let wanted = if name == CA {
            "Opaque"
        } else {
            "kubernetes.io/tls"
        };
        assert_eq!(secret.type_.as_deref(), Some(wanted));
    }
    let writes = store.writes();
    let again = look(&keeper, at(1.0), std::slice::from_ref(&outcome.bundle))
        .await
        .unwrap();
    assert_eq!(store.writes(), writes, "nothing to do, nothing written");
    assert_eq!(again.bundle, outcome.bundle);
    assert_eq!(again.news, []);
    assert!(again.check_again_in <= Duration::from_secs(20 * 2 / 3));
}

#[tokio::test]
async fn a_serving_secret_of_somebody_else_is_left_alone_and_both_ways_out_are_named() {
    let store = FakeSecrets::new();
    store.by_hand(OPERATOR, |secret| {
        secret.type_ = Some("kubernetes.io/tls".into());
    });
    let foreign = store.get(OPERATOR);
    let outcome = look(&keeper(&store), now(), &[]).await.unwrap();
    assert_eq!(store.get(OPERATOR), foreign);
    assert!(
        store.get(INJECTOR).is_some(),
        "the other one is issued all the same"
    );
    let [fault] = &outcome.faults[..] else {
        panic!("one fault is expected: {:?}", outcome.faults);
    };
    assert!(!fault.is_transient());
    let text = fault.to_string();
    for part in [
        "sriov/operator-webhook-cert",
        "delete it",
        OPERATOR_CA_CRT,
        INJECTOR_CA_CRT,
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[tokio::test]
async fn a_ca_secret_of_somebody_else_is_left_alone() {
    let store = FakeSecrets::new();
    store.by_hand(CA, |secret| secret.type_ = Some("Opaque".into()));
    let writes = store.writes();
    let error = look(&keeper(&store), now(), &[]).await.unwrap_err();
    assert!(matches!(error, KeeperError::ForeignAuthority { .. }));
    assert_eq!(store.writes(), writes);
}

type Edit = fn(&mut Secret);

#[tokio::test]
async fn secrets_that_were_changed_by_hand_are_repaired_and_the_ca_stays() {
    let store = FakeSecrets::new();
    let keeper = keeper(&store);
    let first = look(&keeper, now(), &[]).await.unwrap();
    let live = [first.bundle.clone()];
    let edits: [(&str, Edit); 8] = [
        (OPERATOR, |secret| secret.data = None),
        (OPERATOR, |secret| secret.metadata.labels = None),
        (OPERATOR, |secret| secret.metadata.owner_references = None),
        (OPERATOR, |secret| secret.type_ = Some("Opaque".into())),
        (OPERATOR, |secret| secret.immutable = Some(true)),
        (INJECTOR, |secret| {
            let garbage = ByteString(b"garbage".to_vec());
            secret
                .data
                .get_or_insert_default()
                .insert("tls.key".into(), garbage);
        }),
        (CA, |secret| secret.metadata.labels = None),
        (CA, |secret| secret.immutable = Some(true)),
    ];
    for (name, edit) in edits {
        store.by_hand(name, edit);
        let outcome = look(&keeper, at(1.0), &live).await.unwrap();
        assert_eq!(outcome.bundle, first.bundle, "after a change of {name}");
        assert_all_verified(&store, &outcome.bundle, at(1.0));
        let writes = store.writes();
        look(&keeper, at(1.0), &live).await.unwrap();
        assert_eq!(store.writes(), writes, "after a change of {name}");
    }
    store.delete_by_hand(INJECTOR);
    look(&keeper, at(1.0), &live).await.unwrap();
    assert_all_verified(&store, &first.bundle, at(1.0));
}

#[tokio::test]
async fn keys_that_somebody_added_are_not_written_about() {
    let store = FakeSecrets::new();
    let keeper = keeper(&store);
    let live = [look(&keeper, now(), &[]).await.unwrap().bundle];
    for name in [OPERATOR, CA] {
        store.by_hand(name, |secret| {
            let note = ByteString(b"note".to_vec());
            secret
                .data
                .get_or_insert_default()
                .insert("note".into(), note);
        });
    }
    let writes = store.writes();
    look(&keeper, at(1.0), &live).await.unwrap();
    assert_eq!(store.writes(), writes);
}

#[tokio::test]
async fn a_ca_secret_that_is_emptied_or_deleted_gives_way_to_one_new_ca_beside_the_old() {
    for delete in [true, false] {
        let store = FakeSecrets::new();
        let keeper = keeper(&store);
        let first = look(&keeper, now(), &[]).await.unwrap().bundle;
        if delete {
            store.delete_by_hand(CA);
        } else {
            store.by_hand(CA, |secret| secret.data = None);
        }
        let repaired = look(&keeper, at(1.0), std::slice::from_ref(&first))
            .await
            .unwrap();
        assert_eq!(repaired.phase, Phase::Publishing);
        assert_eq!(repaired.bundle.certificates().len(), 2);
        assert!(repaired.bundle.contains(&first.certificates()[0]));
        assert_all_verified(&store, &repaired.bundle, at(1.0));
        let live = [repaired.bundle.clone()];
        look(&keeper, at(1.5), &live).await.unwrap();
        let settled = look(&keeper, at(3.5), &live).await.unwrap();
        assert_eq!(settled.phase, Phase::Retiring);
        assert_all_verified(&store, &settled.bundle, at(3.5));
        let kept: Bundle = [repaired.bundle.certificates()[0].clone()]
            .into_iter()
            .collect();
        let last = look(&keeper, at(24.0), &live).await.unwrap();
        assert_eq!(last.bundle, kept, "one CA in the end");
    }
}

#[tokio::test]
async fn a_process_that_dies_after_any_write_is_followed_by_one_that_goes_on() {
    for writes in 0..=3 {
        let store = FakeSecrets::new();
        let mortal = store.process(&[0]);
        mortal.dies_after(writes);
        let _ = look(&keeper(&mortal), now(), &[]).await;
        let survivor = keeper(&store);
        let outcome = look(&survivor, at(0.1), &[]).await.unwrap();
        assert_eq!(outcome.bundle.certificates().len(), 1);
        assert_all_verified(&store, &outcome.bundle, at(0.1));
    }
}

#[tokio::test]
async fn another_mode_takes_over_in_place_and_nothing_of_ours_is_left() {
    let store = FakeSecrets::new();
    let keeper = keeper(&store);
    let ours = look(&keeper, now(), &[]).await.unwrap().bundle;
    let waiting = hand_over(&keeper, NewIssuer::TakesOver, std::slice::from_ref(&ours)).await;
    assert!(!waiting);
    let contents = foreign_pair();
    for name in [OPERATOR, INJECTOR] {
        let contents = contents.clone();
        store.by_hand(name, |secret| {
            let wanted = secrets::serving_secret(name, "sriov", &owner(), &contents);
            secret.data = wanted.data;
        });
    }
    hand_over(&keeper, NewIssuer::TakesOver, &[ours]).await;
    let secret = store.get(OPERATOR).unwrap();
    assert_eq!(secret.metadata.labels, None);
    assert_eq!(secret.metadata.owner_references, None);
    assert_eq!(secret.data.unwrap()["tls.crt"].0, contents.tls_crt);
    assert!(store.get(CA).is_some(), "its bundle is still live");
    let theirs = Bundle::from_live(&contents.ca_crt);
    assert!(hand_over(&keeper, NewIssuer::TakesOver, &[theirs]).await);
    assert_eq!(store.names(), [INJECTOR, OPERATOR]);
    let writes = store.writes();
    hand_over(&keeper, NewIssuer::TakesOver, &[]).await;
    assert_eq!(store.writes(), writes);
}

/// A pair that no CA of ours issued.
fn foreign_pair() -> PairContents {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec![operator_service().called_as()]).unwrap();
    let pem = params.self_signed(&key).unwrap().pem().into_bytes();
    PairContents {
        ca_crt: pem.clone(),
        tls_crt: pem,
        tls_key: crate::certs::key::PrivateKey::new(key.serialize_pem()),
    }
}

#[tokio::test]
async fn an_issuer_that_only_starts_afresh_finds_our_secrets_gone() {
    let store = FakeSecrets::new();
    let keeper = keeper(&store);
    look(&keeper, now(), &[]).await.unwrap();
    assert!(hand_over(&keeper, NewIssuer::StartsAfresh, &[]).await);
    assert_eq!(store.names(), Vec::<String>::new());
}

#[tokio::test]
async fn the_service_ca_has_no_room_where_others_have_a_secret() {
    let store = FakeSecrets::new();
    let keeper = keeper(&store);
    let (owner, endpoints) = (owner(), endpoints());
    let request = Request {
        now: now(),
        owner: &owner,
        endpoints: &endpoints,
        observed: &[],
    };
    let room = async || keeper.has_room_for_service_ca(&endpoints[0], request).await;
    assert!(room().await.is_ok(), "there is none");
    let annotate = |key: &str| {
        store.by_hand(OPERATOR, |secret| {
            let annotations = secret.metadata.annotations.get_or_insert_default();
            annotations.insert(key.into(), "any".into());
        });
    };
    annotate("note");
    let error = room().await.unwrap_err();
    assert!(!error.is_transient());
    let text = error.to_string();
    assert!(
        text.contains(OPERATOR) && text.contains("delete it"),
        "{text}"
    );
    annotate("service.beta.openshift.io/originating-service-name");
    assert!(room().await.is_ok(), "it is the service CA's own");
    annotate("cert-manager.io/certificate-name");
    assert!(room().await.is_err(), "cert-manager has filled it since");
}

#[tokio::test]
async fn removal_takes_what_is_ours_and_leaves_the_rest() {
    let store = FakeSecrets::new();
    store.by_hand(OPERATOR, |secret| secret.type_ = Some("Opaque".into()));
    let keeper = keeper(&store);
    look(&keeper, now(), &[]).await.unwrap();
    let (owner, endpoints) = (owner(), endpoints());
    let request = Request {
        now: now(),
        owner: &owner,
        endpoints: &endpoints,
        observed: &[],
    };
    keeper.remove(request).await.unwrap();
    assert_eq!(store.names(), [OPERATOR]);
}

#[tokio::test]
async fn no_error_and_no_news_repeats_a_key() {
    let store = FakeSecrets::new();
    let keeper = keeper(&store);
    look(&keeper, now(), &[]).await.unwrap();
    let contents = issue_by(&authority());
    store.by_hand(CA, |secret| {
        let key = ByteString(contents.tls_key.expose().to_vec());
        secret
            .data
            .get_or_insert_default()
            .insert("ca.crt".into(), key);
    });
    let outcome = look(&keeper, at(1.0), &[]).await.unwrap();
    let text = format!("{outcome:?}");
    let key = String::from_utf8(contents.tls_key.expose().to_vec()).unwrap();
    for line in key.lines() {
        assert!(!text.contains(line), "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever the interleaving, and also when one of them dies in between.
    #[test]
    fn two_replicas_that_start_at_once_agree_on_one_ca(
        one in proptest::collection::vec(0u8..4, 1..12),
        other in proptest::collection::vec(0u8..4, 1..12),
        dies_after in proptest::option::of(0usize..4),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let store = FakeSecrets::new();
            let (first, second) = (store.process(&one), store.process(&other));
            if let Some(writes) = dies_after {
                second.dies_after(writes);
            }
            let (first, second) = (keeper(&first), keeper(&second));
            let (first, second) = tokio::join!(look(&first, now(), &[]), look(&second, now(), &[]));
            let outcome = first.unwrap();
            if let Ok(second) = second {
                assert_eq!(outcome.bundle, second.bundle);
            }
            assert_eq!(outcome.bundle.certificates().len(), 1);
            let last = look(&keeper(&store), now(), &[]).await.unwrap();
            assert_eq!(last.bundle, outcome.bundle);
            assert_all_verified(&store, &last.bundle, now());
        });
    }
}
