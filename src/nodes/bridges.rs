//! Software bridges of a node: one for each NIC whose strongest policy asks for it.

use std::collections::BTreeMap;

use crate::{
    api::{
        node_policy::OvsConfig,
        node_state::{Bridges, OvsBridgeState, OvsUplinkState},
    },
    policy::{ParsedPolicy, nic::Nic, node_policy::bridge_fault},
};

/// The bridges of a node, by name. Policies come the weakest first: one that asks for no bridge takes away what a weaker
/// one asked for on its NICs; one whose bridge cannot be made has no say.
pub(super) fn of(nics: &[Nic], policies: &[&ParsedPolicy]) -> Bridges {
    let mut bridges = BTreeMap::new();
    for policy in policies {
        let spec = policy.spec();
        if bridge_fault(spec).is_some() {
            continue;
        }
        let asked = spec.bridge.as_ref().and_then(|bridge| bridge.ovs.as_ref());
        for nic in nics.iter().filter(|nic| policy.nics().selects(nic)) {
            let name = name(nic);
            match asked {
                Some(asked) => {
                    let bridge = bridge(&name, nic, asked, spec.mtu);
                    bridges.insert(name, bridge);
                }
                None => {
                    bridges.remove(&name);
                }
            }
        }
    }
    let ovs: Vec<OvsBridgeState> = bridges.into_values().collect();
    Bridges {
        ovs: (!ovs.is_empty()).then_some(ovs),
    }
}

/// The name of a NIC's bridge: `br-0000_86_00.2` for the NIC at `0000:86:00.2`.
fn name(nic: &Nic) -> String {
    format!("br-{}", nic.pci_address.replace(':', "_"))
}

fn bridge(name: &str, nic: &Nic, asked: &OvsConfig, mtu: Option<i64>) -> OvsBridgeState {
    let mut interface = asked
        .uplink
        .as_ref()
        .and_then(|uplink| uplink.interface.clone())
        .unwrap_or_default();
    if let Some(mtu) = mtu.filter(|mtu| *mtu > 0) {
        interface.mtu_request = Some(mtu);
    }
    OvsBridgeState {
        bridge: Some(asked.bridge.clone().unwrap_or_default()),
        name: name.to_owned(),
        uplinks: Some(vec![OvsUplinkState {
            interface: Some(interface),
            name: (!nic.name.is_empty()).then(|| nic.name.clone().into()),
            pci_address: nic.pci_address.clone().into(),
        }]),
    }
}
