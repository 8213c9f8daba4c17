//! What holds for any body.

use proptest::prelude::*;

use super::*;

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map("[a-zA-Z]{1,8}", inner, 0..4).prop_map(Value::from_iter),
        ]
    })
}

fn answered(body: Vec<u8>) -> Answer {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap()
        .block_on(usual().post("/mutate", body))
}

proptest! {
    #[test]
    fn any_bytes_are_answered_in_json(body in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert_eq!(answered(body).refusal(400).is_empty(), false);
    }

    #[test]
    fn whatever_an_envelope_holds_its_uid_is_kept(
        uid in "[ -~]{1,40}",
        fields in prop::collection::hash_map(
            prop_oneof![
                Just("kind".to_owned()), Just("resource".to_owned()), Just("name".to_owned()),
                Just("operation".to_owned()), Just("dryRun".to_owned()), Just("object".to_owned()),
                Just("oldObject".to_owned()), "[a-z]{1,6}".prop_filter("not the uid", |key| key != "uid"),
            ],
            any_json(), 0..6,
        ),
        outer in any_json(),
    ) {
        let mut request = Value::from_iter(fields);
        request["uid"] = uid.clone().into();
        let mut envelope = review(&request);
        envelope["extra"] = outer;
        let answer = answered(envelope.to_string().into_bytes());
        prop_assert_eq!(&answer.response()["uid"], &Value::from(uid));
    }

    #[test]
    fn a_review_cut_anywhere_never_breaks_anything(cut in 0usize..300) {
        let whole = about("x").to_string();
        let piece = whole.as_bytes()[..cut.min(whole.len())].to_vec();
        let code = answered(piece).code;
        prop_assert!(code == 200 || code == 400);
    }
}
