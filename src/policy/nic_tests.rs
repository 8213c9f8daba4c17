//! Which NICs a selector means, and what it names on them.

use serde_json::json;

use super::*;

fn nic() -> Nic {
    serde_json::from_value(json!({
        "name": "ens1f0", "altNames": ["lan-a", "enp24s0f0"], "pciAddress": "0000:18:00.0", "vendor": "8086", "deviceID": "158b",
        "totalvfs": 64, "netFilter": "openstack/NetworkID:1",
    }))
    .unwrap()
}

fn query(selector: serde_json::Value) -> NicQuery {
    NicQuery::new(&serde_json::from_value(selector).unwrap(), 8).0
}

#[test]
fn all_that_is_set_must_hold() {
    for (selector, refusal) in [
        (json!({"vendor": "8086"}), None),
        (json!({"vendor": "15b3"}), Some(Refusal::Vendor)),
        (json!({"deviceID": "158b"}), None),
        (json!({"deviceID": "158B"}), Some(Refusal::Device)),
        (
            json!({"rootDevices": ["0000:18:00.1", "0000:18:00.0"]}),
            None,
        ),
        (
            json!({"rootDevices": ["18:00.0"]}),
            Some(Refusal::RootDevices),
        ),
        (json!({"pfNames": ["x", "ens1f0#0-1"]}), None),
        (json!({"pfNames": ["lan-a"]}), None),
        (json!({"pfNames": ["ENS1F0"]}), Some(Refusal::PfNames)),
        (json!({"netFilter": " openstack/NetworkID : 1"}), None),
        (
            json!({"netFilter": "aws/NetworkID:1"}),
            Some(Refusal::NetFilter),
        ),
        (
            json!({"vendor": "8086", "deviceID": "158b", "rootDevices": ["0000:18:00.0"], "pfNames": ["lan-a"]}),
            None,
        ),
        (
            json!({"vendor": "8086", "rootDevices": ["0000:18:00.1"], "pfNames": ["lan-a"]}),
            Some(Refusal::RootDevices),
        ),
    ] {
        let query = query(selector.clone());
        assert_eq!(query.refusal(&nic()), refusal, "{selector}");
        assert_eq!(query.selects(&nic()), refusal.is_none(), "{selector}");
    }
}

#[test]
fn a_selector_that_means_nothing_selects_nothing() {
    for selector in [
        json!({}),
        json!({"vendor": ""}),
        json!({"pfNames": ["#0-1"]}),
        json!({"vendor": "8086", "pfNames": ["ens1f0#x"]}),
        json!({"vendor": "8086", "netFilter": "nonsense"}),
    ] {
        assert!(!query(selector.clone()).selects(&nic()), "{selector}");
    }
}

#[test]
fn entries_name_virtual_functions() {
    let named = |selector: serde_json::Value| -> Option<Vec<String>> {
        let query = query(selector);
        let claims = query.named(&nic())?;
        Some(claims.iter().map(|claim| claim.range.to_string()).collect())
    };
    let some = |ranges: &[&str]| Some(ranges.iter().map(|r| (*r).to_owned()).collect());
    assert_eq!(named(json!({"pfNames": ["ens1f0"]})), some(&["0-7"]));
    assert_eq!(
        named(json!({"pfNames": ["ens1f0#4-5", "lan-a#0-1", "other#2-3"]})),
        some(&["0-1", "4-5"])
    );
    assert_eq!(
        named(json!({"rootDevices": ["0000:18:00.0"]})),
        some(&["0-7"])
    );
    assert_eq!(
        named(json!({"rootDevices": ["0000:18:00.0"], "pfNames": ["ens1f0#1-1"]})),
        some(&["1-1"])
    );
    assert_eq!(named(json!({"vendor": "8086"})), None);
    assert_eq!(named(json!({"netFilter": "openstack/NetworkID:1"})), None);
}

#[test]
fn a_name_that_a_nic_carries_twice_counts_once() {
    let mut twice = nic();
    twice.alt_names = ["ens1f0".into(), "lan-a".into()].into();
    let query = query(json!({"pfNames": ["ens1f0#0-1"]}));
    let claims = query.named(&twice).unwrap();
    assert_eq!(claims.iter().count(), 1);
    assert_eq!(claims.clashes().count(), 0);
}

#[test]
fn supported_are_listed_pfs_and_virtual_functions_of_the_right_network() {
    let data = [("a".to_owned(), "8086 158b 154c".to_owned())].into();
    let ids = NicIds::parse(&data).0;
    let by_vendor = query(json!({"vendor": "8086"}));
    let by_network = query(json!({"netFilter": "openstack/NetworkID:1"}));
    let other_network = query(json!({"netFilter": "openstack/NetworkID:2"}));
    assert!(by_vendor.supports(&nic(), "", &ids));
    assert!(
        by_network.supports(&nic(), "", &ids),
        "a PF is supported on any platform"
    );
    let mut vf = nic();
    vf.device_id = "154c".into();
    assert!(!by_vendor.supports(&vf, "openstack://1", &ids));
    assert!(by_network.supports(&vf, "OpenStack://1", &ids));
    assert!(!by_network.supports(&vf, "aws://1", &ids));
    assert!(!by_network.supports(&vf, "", &ids));
    assert!(!other_network.supports(&vf, "openstack://1", &ids));
}

#[test]
fn mellanox_takes_more_than_it_shows() {
    let mut nic = nic();
    assert_eq!(nic.max_vfs(), 64);
    nic.vendor = MELLANOX.into();
    assert_eq!(nic.max_vfs(), 128);
}
