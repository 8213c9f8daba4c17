//! The RDMA mode of a node: that of the one pool that selects it.

use crate::{
    api::SriovNetworkPoolConfigSpec,
    policy::label_selector::{Selector, SelectorError},
};

/// A pool, cut down to what decides the RDMA mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Its name.
    pub name: Box<str>,
    mode: Option<Box<str>>,
    selector: Result<Selector, SelectorError>,
}

/// What a node's RDMA mode is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode<'a> {
    /// This one; none when no pool sets one.
    Decided(Option<&'a str>),
    /// The one that it has, since the pools do not say: changing it reboots the node.
    Kept(String),
}

impl Pool {
    /// Reads a pool; nothing when it is one for OVS hardware offload, which chooses no nodes.
    pub fn new(name: &str, spec: &SriovNetworkPoolConfigSpec) -> Option<Self> {
        spec.offload_pool().is_none().then(|| Self {
            name: name.into(),
            mode: spec
                .rdma_mode
                .as_deref()
                .filter(|mode| !mode.is_empty())
                .map(Box::from),
            selector: Selector::parse(spec.node_selector.as_ref()),
        })
    }

    /// Why it selects no node at all.
    pub fn fault(&self) -> Option<String> {
        let error = self.selector.as_ref().err()?;
        Some(format!("spec.nodeSelector.{error}: it selects no node"))
    }
}

/// The mode of a node with these labels. A pool that is not understood selects no node; but a node without another pool
/// keeps its mode, since that pool may have meant it.
pub fn mode<'a, 'l>(
    pools: impl IntoIterator<Item = &'a Pool>,
    value_of: impl Fn(&str) -> Option<&'l str>,
) -> Mode<'a> {
    let mut chosen: Option<&Pool> = None;
    let mut unclear = None;
    for pool in pools {
        match &pool.selector {
            Err(_) => unclear = Some(pool),
            Ok(selector) if selector.matches(&value_of) => {
                if let Some(other) = chosen {
                    return Mode::Kept(format!(
                        "pools {} and {} both select it",
                        other.name, pool.name
                    ));
                }
                chosen = Some(pool);
            }
            Ok(_) => {}
        }
    }
    match (chosen, unclear) {
        (Some(pool), _) => Mode::Decided(pool.mode.as_deref()),
        (None, None) => Mode::Decided(None),
        (None, Some(pool)) => Mode::Kept(format!("pool {} is malformed", pool.name)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pool(name: &str, spec: Value) -> Option<Pool> {
        Pool::new(name, &serde_json::from_value(spec).unwrap())
    }

    fn asked(pools: &[Option<Pool>]) -> Mode<'_> {
        mode(pools.iter().flatten(), |key| {
            (key == "role").then_some("bm")
        })
    }

    #[test]
    fn the_one_pool_that_selects_a_node_decides() {
        let bm = || json!({"matchLabels": {"role": "bm"}});
        let vm = || json!({"matchLabels": {"role": "vm"}});
        let of = |selector: Value, mode: &str| json!({"nodeSelector": selector, "rdmaMode": mode});
        for (pools, expected) in [
            (vec![], Mode::Decided(None)),
            (
                vec![pool("a", of(bm(), "exclusive"))],
                Mode::Decided(Some("exclusive")),
            ),
            (vec![pool("a", of(vm(), "exclusive"))], Mode::Decided(None)),
            (
                vec![pool("a", json!({"rdmaMode": "shared"}))],
                Mode::Decided(Some("shared")),
            ),
            (
                vec![pool("a", json!({"nodeSelector": bm()}))],
                Mode::Decided(None),
            ),
            (
                vec![
                    pool("a", of(vm(), "shared")),
                    pool("b", of(bm(), "exclusive")),
                ],
                Mode::Decided(Some("exclusive")),
            ),
            (
                vec![pool(
                    "a",
                    json!({"ovsHardwareOffloadConfig": {"name": "w"}, "rdmaMode": "shared"}),
                )],
                Mode::Decided(None),
            ),
        ] {
            assert_eq!(asked(&pools), expected, "{pools:?}");
        }
    }

    #[test]
    fn a_node_keeps_its_mode_while_the_pools_are_unclear() {
        let any = || pool("any", json!({"rdmaMode": "shared"}));
        let other = || pool("other", json!({"rdmaMode": "exclusive"}));
        let broken = || {
            pool(
                "broken",
                json!({"nodeSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}),
            )
        };
        assert_eq!(
            asked(&[any(), other()]),
            Mode::Kept("pools any and other both select it".into())
        );
        assert_eq!(
            asked(&[broken()]),
            Mode::Kept("pool broken is malformed".into())
        );
        assert_eq!(asked(&[broken(), any()]), Mode::Decided(Some("shared")));
        assert!(broken().unwrap().fault().unwrap().contains("Like"));
    }
}
