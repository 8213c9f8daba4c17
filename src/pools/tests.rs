//! Pools with hardware offload, told as what is there and what is done about it.

use super::*;

const NAMED: PoolView<'static> = PoolView {
    name: "pool",
    offload: Some("workers"),
    is_deleted: false,
    has_finalizer: true,
};

fn view<'a>(pools: &[PoolView<'a>], machine_pools: &[&'a str], configs: &[&'a str]) -> View<'a> {
    View {
        pools: pools.to_vec(),
        machine_pools: Some(machine_pools.iter().copied().collect()),
        machine_configs: configs.iter().map(|name| (*name, true)).collect(),
    }
}

fn done(plan: &Plan) -> String {
    let mut words = Vec::new();
    for (verb, names) in [
        ("+finalizer", &plan.add_finalizer),
        ("apply", &plan.apply),
        ("delete", &plan.delete),
        ("-finalizer", &plan.remove_finalizer),
    ] {
        words.extend(names.iter().map(|name| format!("{verb} {name}")));
    }
    words.extend(
        plan.missing
            .iter()
            .map(|(pool, machine_pool)| format!("{pool} lacks {machine_pool}")),
    );
    words.join(", ")
}

const CONFIG: &str = "00-workers-ovs-hw-offload";
const OTHER_CONFIG: &str = "00-others-ovs-hw-offload";

#[test]
fn what_exists_decides() {
    let new = PoolView {
        has_finalizer: false,
        ..NAMED
    };
    let cleared = PoolView {
        offload: None,
        ..NAMED
    };
    let deleted = PoolView {
        is_deleted: true,
        ..NAMED
    };
    let changed = PoolView {
        offload: Some("others"),
        ..NAMED
    };
    let second = PoolView {
        name: "second",
        ..NAMED
    };
    let control_plane = PoolView {
        offload: Some("master"),
        ..new
    };
    let plain = PoolView {
        offload: None,
        ..new
    };
    let both: &[&str] = &["workers", "others"];
    for (what, view, expected) in [
        (
            "new",
            view(&[new], both, &[]),
            "+finalizer pool, apply workers",
        ),
        ("as wanted", view(&[NAMED], both, &[CONFIG]), ""),
        ("gone", view(&[NAMED], both, &[]), "apply workers"),
        ("without offload", view(&[plain], both, &[]), ""),
        (
            "the control plane's",
            view(&[control_plane], &["master"], &[]),
            "+finalizer pool",
        ),
        (
            "no such pool",
            view(&[new], &[], &[]),
            "+finalizer pool, pool lacks workers",
        ),
        (
            "its pool went",
            view(&[NAMED], &[], &[CONFIG]),
            "pool lacks workers",
        ),
        (
            "deleted",
            view(&[deleted], both, &[CONFIG]),
            format!("delete {CONFIG}, -finalizer pool").as_str(),
        ),
        (
            "deleted after its pool",
            view(&[deleted], &[], &[CONFIG]),
            &format!("delete {CONFIG}, -finalizer pool"),
        ),
        (
            "deleted with nothing left",
            view(&[deleted], &[], &[]),
            "-finalizer pool",
        ),
        (
            "name cleared",
            view(&[cleared], both, &[CONFIG]),
            &format!("delete {CONFIG}, -finalizer pool"),
        ),
        (
            "name changed",
            view(&[changed], both, &[CONFIG]),
            &format!("apply others, delete {CONFIG}"),
        ),
        (
            "one of two deleted",
            view(&[deleted, second], both, &[CONFIG]),
            "-finalizer pool",
        ),
        (
            "all gone while nobody looked",
            view(&[], both, &[CONFIG, OTHER_CONFIG]),
            &format!("delete {OTHER_CONFIG}, delete {CONFIG}"),
        ),
    ] {
        assert_eq!(done(&plan(&view)), expected, "{what}");
    }
}

#[test]
fn where_machine_configs_are_not_ours_only_finalizers_are_kept() {
    for (pool, expected) in [
        (
            PoolView {
                has_finalizer: false,
                ..NAMED
            },
            "+finalizer pool",
        ),
        (NAMED, ""),
        (
            PoolView {
                is_deleted: true,
                ..NAMED
            },
            "-finalizer pool",
        ),
        (
            PoolView {
                offload: None,
                ..NAMED
            },
            "-finalizer pool",
        ),
    ] {
        let view = View {
            machine_pools: None,
            ..view(&[pool], &[], &[])
        };
        assert_eq!(done(&plan(&view)), expected, "{pool:?}");
    }
}

#[test]
fn what_differs_is_applied_again() {
    let mut view = view(&[NAMED], &["workers"], &[]);
    view.machine_configs.insert(CONFIG, false);
    assert_eq!(done(&plan(&view)), "apply workers");
}

#[test]
fn what_we_make_and_what_the_reference_made_is_current() {
    let mut made = machine_config("workers");
    assert_eq!(made["metadata"]["name"], CONFIG);
    assert!(is_current(&made, "workers"));
    assert!(!is_current(&made, "others"));
    // The reference's has no label of ours, and fields beside.
    made["metadata"]["labels"] = json!({ ROLE: "workers" });
    made["spec"]["fips"] = json!(false);
    made["spec"]["kernelArguments"] = Value::Null;
    assert!(is_current(&made, "workers"));
    made["spec"]["config"]["systemd"]["units"][0]["dropins"] = json!([]);
    assert!(!is_current(&made, "workers"));
}

#[test]
fn names_lead_there_and_back() {
    assert_eq!(machine_pool_of(CONFIG), Some("workers"));
    for other in [
        "00-ovs-hw-offload",
        "00--ovs-hw-offload",
        "01-workers-ovs-hw-offload",
        "00-workers",
        "rendered-workers",
    ] {
        assert_eq!(machine_pool_of(other), None, "{other}");
    }
}
