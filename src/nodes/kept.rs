//! What a node keeps while its NICs are not known: of its stored spec, what belongs to policies that still select it.

use crate::{
    api::{
        SriovNetworkNodeStateSpec,
        node_state::{Bridges, Interface},
    },
    policy::ParsedPolicy,
};

/// The interfaces and bridges to keep. An interface of which no group is left goes; bridges go with the last interface.
pub(super) fn of(
    stored: Option<&SriovNetworkNodeStateSpec>,
    policies: &[&ParsedPolicy],
    bridges: bool,
) -> (Vec<Interface>, Bridges) {
    let selected = |name: &Option<String>| {
        let name = name.as_deref().unwrap_or_default();
        policies
            .iter()
            .any(|policy| policy.name() == name && policy.vf_count() > 0)
    };
    let interfaces: Vec<Interface> = stored
        .and_then(|spec| spec.interfaces.clone())
        .unwrap_or_default()
        .into_iter()
        .filter_map(|mut interface| {
            let groups = interface.vf_groups.as_mut()?;
            groups.retain(|group| selected(&group.policy_name));
            (!groups.is_empty()).then_some(interface)
        })
        .collect();
    let kept = stored
        .and_then(|spec| spec.bridges.clone())
        .filter(|_| bridges && !interfaces.is_empty())
        .unwrap_or_default();
    (interfaces, kept)
}
