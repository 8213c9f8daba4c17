//! Feature gates of `spec.featureGates`: the known ones, their defaults, and what a config says of them.

use std::collections::BTreeMap;

/// A feature gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// The config daemon configures network cards in parallel.
    ParallelNicConfig,
    /// The API server asks the injector only about pods that need it, and refuses them when it does not answer.
    ResourceInjectorMatchCondition,
    /// The metrics exporter is rolled out.
    MetricsExporter,
    /// The config daemon manages software bridges.
    ManageSoftwareBridges,
    /// A device plugin starts only when its node is configured.
    BlockDevicePluginUntilConfigured,
    /// The config daemon may reset Mellanox firmware; it reads the config itself.
    MellanoxFirmwareReset,
}

impl Feature {
    /// All gates, in the order in which messages list them.
    pub const KNOWN: &[Self] = &[
        Self::ParallelNicConfig,
        Self::ResourceInjectorMatchCondition,
        Self::MetricsExporter,
        Self::ManageSoftwareBridges,
        Self::BlockDevicePluginUntilConfigured,
        Self::MellanoxFirmwareReset,
    ];

    /// The key in `spec.featureGates`; its letter case counts.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ParallelNicConfig => "parallelNicConfig",
            Self::ResourceInjectorMatchCondition => "resourceInjectorMatchCondition",
            Self::MetricsExporter => "metricsExporter",
            Self::ManageSoftwareBridges => "manageSoftwareBridges",
            Self::BlockDevicePluginUntilConfigured => "blockDevicePluginUntilConfigured",
            Self::MellanoxFirmwareReset => "mellanoxFirmwareReset",
        }
    }

    /// Whether it is on when a config does not mention it.
    pub const fn default_enabled(self) -> bool {
        matches!(
            self,
            Self::BlockDevicePluginUntilConfigured | Self::MellanoxFirmwareReset
        )
    }

    /// The gate of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::KNOWN
            .iter()
            .copied()
            .find(|feature| feature.name() == name)
    }
}

/// The gates of one config.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    gates: BTreeMap<String, bool>,
}

impl Features {
    /// From `spec.featureGates`.
    pub fn new<'a>(gates: impl IntoIterator<Item = (&'a String, &'a bool)>) -> Self {
        Self {
            gates: gates
                .into_iter()
                .map(|(name, enabled)| (name.clone(), *enabled))
                .collect(),
        }
    }

    /// Whether a gate is on, by the config or by default.
    pub fn is_enabled(&self, feature: Feature) -> bool {
        self.gates
            .get(feature.name())
            .copied()
            .unwrap_or(feature.default_enabled())
    }

    /// Names in the config that are no gates, sorted. They have no effect.
    pub fn unknown(&self) -> impl Iterator<Item = &str> {
        self.gates
            .keys()
            .map(String::as_str)
            .filter(|name| Feature::from_name(name).is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn features(gates: &[(&str, bool)]) -> Features {
        let gates: BTreeMap<String, bool> = gates
            .iter()
            .map(|(name, enabled)| ((*name).to_owned(), *enabled))
            .collect();
        Features::new(&gates)
    }

    #[test]
    fn defaults_count_where_a_config_says_nothing() {
        let features = features(&[("metricsExporter", true)]);
        assert!(features.is_enabled(Feature::MetricsExporter));
        assert!(features.is_enabled(Feature::BlockDevicePluginUntilConfigured));
        assert!(features.is_enabled(Feature::MellanoxFirmwareReset));
        assert!(!features.is_enabled(Feature::ParallelNicConfig));
    }

    #[test]
    fn a_config_can_turn_a_default_off() {
        let features = features(&[("blockDevicePluginUntilConfigured", false)]);
        assert!(!features.is_enabled(Feature::BlockDevicePluginUntilConfigured));
    }

    #[test]
    fn unknown_names_are_listed_and_do_nothing() {
        let features = features(&[("metricsexporter", true), ("a", false)]);
        assert_eq!(
            features.unknown().collect::<Vec<_>>(),
            ["a", "metricsexporter"]
        );
        assert!(!features.is_enabled(Feature::MetricsExporter));
    }

    #[test]
    fn every_known_gate_is_found_by_its_name() {
        for feature in Feature::KNOWN {
            assert_eq!(Feature::from_name(feature.name()), Some(*feature));
        }
    }
}
