//! How objects are named, whatever config and settings say; those that no template of a component makes.
//!
//! From the names follow what is removed when it is no longer rendered, what is watched by name, and the rights that the
//! operator needs. A test compares them with what is rendered.

/// An object by kind and name. Namespaced ones are in the operator's namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName {
    /// `group/version`, or the version alone in the core group.
    pub api_version: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// The name.
    pub name: &'static str,
}

pub(super) const fn object(
    api_version: &'static str,
    kind: &'static str,
    name: &'static str,
) -> ObjectName {
    ObjectName {
        api_version,
        kind,
        name,
    }
}

pub(super) const CORE: &str = "v1";
pub(super) const APPS: &str = "apps/v1";
pub(super) const RBAC: &str = "rbac.authorization.k8s.io/v1";
pub(super) const NETWORKING: &str = "networking.k8s.io/v1";
pub(super) const ADMISSION: &str = "admissionregistration.k8s.io/v1";
pub(super) const MONITORING: &str = "monitoring.coreos.com/v1";
pub(super) const MACHINE_CONFIGURATION: &str = "machineconfiguration.openshift.io/v1";

/// The `ConfigMap` that is created once with the injector, kept when it is switched off, and removed with the config.
pub const SWITCHES: ObjectName = object(CORE, "ConfigMap", "nri-control-switches");

/// The `ConfigMap` of the nodes' device plugins: no template makes it, the controller of node policies writes it.
pub const DEVICE_PLUGIN_CONFIG: ObjectName = object(CORE, "ConfigMap", "device-plugin-config");
