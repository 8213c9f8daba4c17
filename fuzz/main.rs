//! Fuzzing on the stable compiler: each target is a plain function that takes an input and fails when the answer breaks a
//! promise; proptest makes the inputs from recorded ones and shrinks what fails. Bounded by default, so that every test
//! run compiles and runs it; `FUZZ_CASES` says how many inputs each target gets.
//!
//! What is found becomes a test beside the code that was wrong.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a target fails by a panic, as tests do"
)]

mod corpus;
mod targets;
mod world;

use proptest::prelude::*;

use corpus::{changes, mangled, mutated, texts};

/// Inputs of each target in an ordinary test run.
const FEW: u32 = 64;

fn bounded() -> ProptestConfig {
    let cases = std::env::var("FUZZ_CASES").ok();
    let cases = cases.and_then(|text| text.parse().ok()).unwrap_or(FEW);
    ProptestConfig {
        cases,
        // A recorded object that is mutated in many places takes long to shrink to its last byte.
        max_shrink_iters: 2_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(bounded())]

    #[test]
    fn reviews(case in any::<prop::sample::Index>(), changes in changes(), breakage in mangled(), path in 0_usize..3) {
        let review = corpus::review(case, &changes);
        targets::review(path, &breakage.apply(review.to_string().into_bytes()));
    }

    #[test]
    fn selections(text in texts()) {
        targets::selection(&text);
    }

    #[test]
    fn injections(case in any::<prop::sample::Index>(), changes in changes(), switched in any::<[bool; 2]>()) {
        targets::injection(&mutated(corpus::pods(), case, &changes), switched);
    }

    #[test]
    fn validations(
        case in any::<prop::sample::Index>(),
        old in any::<prop::sample::Index>(),
        changes in changes(),
        stored in any::<prop::sample::Index>(),
        stored_changes in changes(),
    ) {
        let cases = corpus::custom_resources();
        let object = mutated(cases, case, &changes);
        let old = mutated(cases, old, &stored_changes);
        let stored = mutated(corpus::stored(), stored, &stored_changes);
        targets::validation(&object, &old, &stored);
    }

    #[test]
    fn renderings(case in any::<prop::sample::Index>(), changes in changes(), openshift in any::<bool>()) {
        targets::rendering(&mutated(corpus::configs(), case, &changes), openshift);
    }
}
