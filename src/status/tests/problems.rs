//! What is wrong, and what to do about it.

use super::*;

#[test]
fn the_config() {
    one_problem(
        &["not installed", "sriov-operator crds | kubectl apply"],
        |world| {
            world.config = Part::Unreadable {
                unreadable: "the API server does not know the kind".to_owned(),
            };
        },
    );
    one_problem(&["there is no SriovOperatorConfig default"], |world| {
        world.config = Part::Read(None);
        for part in world.configurations.values_mut() {
            *part = Part::Read(None);
        }
    });
    let with = |conditions: &[Value]| Part::Read(Some(object(config(conditions))));
    one_problem(&["has not been looked at", "get pods"], |world| {
        world.config = with(&[]);
    });
    one_problem(&["latest change has not been rolled out"], |world| {
        let mut old = condition("Ready", "True", "");
        old["observedGeneration"] = json!(2);
        world.config = with(&[old]);
    });
    one_problem(
        &["not everything is as the config wants: injector: x"],
        |world| {
            world.config = with(&[condition("Ready", "False", "injector: x")]);
        },
    );
    one_problem(&["wants attention: gate y"], |world| {
        let conditions = [
            condition("Ready", "True", ""),
            condition("Degraded", "True", "gate y"),
        ];
        world.config = with(&conditions);
    });
}

#[test]
fn a_config_that_is_stuck_in_deletion() {
    let going = |world: &mut Gathered| {
        let mut going = config(&[condition("Ready", "True", "")]);
        going["metadata"]["deletionTimestamp"] = json!("2027-01-15T07:30:00Z");
        world.config = Part::Read(Some(object(going)));
    };
    one_problem(&["kept by f", "wait for the operator"], going);
    let without_operator = problems(|world| {
        going(world);
        world.lease = Part::Read(None);
    });
    assert!(
        without_operator[0].contains("sriov-operator cleanup --namespace sriov"),
        "{without_operator:?}"
    );
}

#[test]
fn the_lease() {
    one_problem(&["no operator leads: there is no Lease"], |world| {
        world.lease = Part::Read(None);
    });
    one_problem(&["was released"], |world| {
        world.lease = Part::Read(Some(Box::new(object(lease("", now())))));
    });
    one_problem(
        &["has not renewed the Lease since 2027-01-15T07:"],
        |world| {
            let then = crate::certs::lifetimes::before(now(), HOUR);
            world.lease = Part::Read(Some(Box::new(object(lease("a", then)))));
        },
    );
}

#[test]
fn the_webhooks() {
    one_problem(&["is switched on and not registered"], |world| {
        world
            .configurations
            .insert(Configuration::OperatorValidating, Part::Read(None));
    });
    let unanswered = problems(|world| world.pods = Part::Read(Vec::new()));
    assert_eq!(unanswered.len(), 1, "{unanswered:?}");
    assert!(
        unanswered[0].contains("the API server refuses"),
        "{unanswered:?}"
    );
    let without_bundle = problems(|world| {
        if let Some(Part::Read(Some(live))) = world
            .configurations
            .get_mut(&Configuration::OperatorMutating)
        {
            live["webhooks"][0]["clientConfig"]["caBundle"] = json!("");
        }
    });
    assert!(
        without_bundle[0].contains("no usable caBundle"),
        "{without_bundle:?}"
    );
}

#[test]
fn the_certificates() {
    one_problem(&["Secret operator-webhook-cert", "is missing"], |world| {
        world
            .secrets
            .insert("operator-webhook-cert".to_owned(), Part::Read(None));
    });
    one_problem(
        &["the CA bundle does not verify", "delete secret"],
        |world| {
            let other = STANDARD.encode(authority().certificate().to_pem());
            if let Some(Part::Read(Some(live))) = world
                .configurations
                .get_mut(&Configuration::OperatorValidating)
            {
                live["webhooks"][0]["clientConfig"]["caBundle"] = json!(other);
            }
        },
    );
    let late = problems(|world| {
        world.now = after(now(), HOUR * 26);
        world.lease = Part::Read(Some(Box::new(object(lease("a", world.now)))));
    });
    assert!(
        late[0].contains("expires at") && late[0].contains("has not been renewed"),
        "{late:?}"
    );
    let expired = problems(|world| {
        world.now = after(now(), Duration::from_secs(3600 * 31));
        world.lease = Part::Read(Some(Box::new(object(lease("a", world.now)))));
    });
    assert!(
        expired[0].contains("the certificate expired at"),
        "{expired:?}"
    );
}

#[test]
fn workloads_and_nodes() {
    one_problem(
        &[
            "DaemonSet sriov-device-plugin: 1 of 3",
            "describe daemonset sriov-device-plugin",
        ],
        |world| {
            if let Part::Read(daemon_sets) = &mut world.daemon_sets {
                daemon_sets[1].status.as_mut().unwrap().number_ready = 1;
            }
        },
    );
    one_problem(&["node bm-1", "no firmware"], |world| {
        if let Part::Read(states) = &mut world.node_states {
            states[1] = object(json!({
                "metadata": {"name": "bm-1"},
                "status": {"syncStatus": "Failed", "lastSyncError": "no firmware"},
            }));
        }
    });
}
