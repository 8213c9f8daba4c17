//! Input that cannot be used, or that would steer a terminal.

use super::*;

#[test]
fn input_that_cannot_be_used_is_an_error() {
    assert!(run(&[], &[]).is_err(), "nothing in it");
    assert!(
        run(&[json!({"kind": "Deployment"})], &[]).is_err(),
        "nothing to judge"
    );
    assert!(run(&[policy("p", "ens1f0")], &["/nowhere.yaml"]).is_err());
    assert!(run(&[json!({"no": "kind"})], &[]).is_err());
    let state = data("seed.yaml").display().to_string();
    assert!(
        command(&["check", &state, "--cluster-state=/nowhere.yaml"])
            .report()
            .is_err()
    );
}

#[test]
fn a_report_for_people_steers_no_terminal() {
    let mut judge = judge();
    let document = Document {
        source: "a\rb.yaml".to_owned(),
        object: policy("p\u{1b}[31m\nq", "ens1f0"),
    };
    let judgements = judge.all(&[document]);
    let states = judge.node_states(&judgements);
    let aside = ["node \u{9b}2J".to_owned()];
    let report = Report::new(judgements, states, 1, &aside);
    let mut out = Vec::new();
    report.print(&mut out, Format::Table).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(
        text.starts_with(
            "a\\rb.yaml: SriovNetworkNodePolicy sriov-network-operator/p\\u{1b}[31m\\nq: "
        ),
        "{text}"
    );
    assert!(
        !text.contains(|c: char| c.is_control() && c != '\n'),
        "{text:?}"
    );
}

#[test]
fn input_that_never_ends_is_refused_and_a_dump_may_be_larger() {
    let zeros = ["/dev/zero".into()];
    let error = input::read(&zeros, Limit::Objects).unwrap_err();
    assert_eq!(
        error.to_string(),
        "/dev/zero is larger than 64 MiB, the most that is read"
    );
    let large = tempfile::NamedTempFile::new().unwrap();
    large.as_file().set_len((1 << 30) + 1).unwrap();
    let large = large.path().to_str().unwrap();
    let seed = data("seed.yaml").display().to_string();
    for (arguments, limit) in [
        (["check", large, "--cluster-state", &seed], "64 MiB"),
        (["check", &seed, "--cluster-state", large], "1024 MiB"),
    ] {
        let error = command(&arguments).report().unwrap_err().to_string();
        assert!(error.contains(large) && error.contains(limit), "{error}");
    }
}
