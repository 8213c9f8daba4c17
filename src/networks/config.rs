//! The CNI configuration of a network: from the spec to the text of `spec.config`.
//!
//! Key order and layout are those of the reference's operator, so that a definition that it wrote and that says the same
//! is the same text. The texts of users go in as JSON that was parsed or as strings that are encoded: none of them can
//! add a key.

use serde::Serialize;
use serde_json::value::RawValue;

use super::json;
use crate::{
    api::{OVSNetworkSpec, SriovIBNetworkSpec, SriovNetworkSpec, ovs_network::Trunk},
    policy::Fault,
};

const CNI_VERSION: &str = "1.0.0";

/// A kind of network, as far as its configuration goes.
pub trait NetworkSpec {
    /// What all kinds have.
    fn common(&self) -> Common<'_>;

    /// The configuration for a network of that name.
    ///
    /// # Errors
    /// Every fault of the spec's fields.
    fn config(&self, name: &str) -> Result<String, Vec<Fault>>;
}

/// The fields that all kinds of networks have. No text but `resource_name` is empty.
#[derive(Clone, Copy, Debug)]
pub struct Common<'a> {
    /// The resource whose virtual functions are used, without prefix.
    pub resource_name: &'a str,
    /// The namespace that the network is for, when it is not its own.
    pub network_namespace: Option<&'a str>,
    ipam: Option<&'a str>,
    capabilities: Option<&'a str>,
    meta_plugins: Option<&'a str>,
}

/// The fields of the same name.
macro_rules! common {
    () => {
        fn common(&self) -> Common<'_> {
            Common {
                resource_name: &self.resource_name,
                network_namespace: given(self.network_namespace.as_ref()),
                ipam: given(self.ipam.as_ref()),
                capabilities: given(self.capabilities.as_ref()),
                meta_plugins: given(self.meta_plugins.as_ref()),
            }
        }
    };
}

#[derive(Serialize)]
struct Sriov<'a> {
    #[serde(rename = "type")]
    plugin: &'static str,
    vlan: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    spoofchk: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trust: Option<&'a str>,
    #[serde(rename = "vlanQoS")]
    vlan_qos: i64,
    #[serde(rename = "vlanProto", skip_serializing_if = "Option::is_none")]
    vlan_proto: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_tx_rate: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tx_rate: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    capabilities: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    link_state: Option<&'a str>,
    #[serde(rename = "logLevel", skip_serializing_if = "Option::is_none")]
    log_level: Option<&'a str>,
    #[serde(rename = "logFile", skip_serializing_if = "Option::is_none")]
    log_file: Option<&'a str>,
    ipam: &'a RawValue,
}

#[derive(Serialize)]
struct IbSriov<'a> {
    #[serde(rename = "type")]
    plugin: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    capabilities: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    link_state: Option<&'a str>,
    ipam: &'a RawValue,
}

#[derive(Serialize)]
struct Ovs<'a> {
    #[serde(rename = "type")]
    plugin: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    capabilities: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bridge: Option<&'a str>,
    #[serde(skip_serializing_if = "is_zero")]
    vlan: i64,
    #[serde(skip_serializing_if = "is_zero")]
    mtu: i64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    trunk: Vec<TrunkVlans>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interface_type: Option<&'a str>,
    ipam: &'a RawValue,
}

#[derive(Serialize)]
struct TrunkVlans {
    #[serde(rename = "minID", skip_serializing_if = "Option::is_none")]
    min_id: Option<i64>,
    #[serde(rename = "maxID", skip_serializing_if = "Option::is_none")]
    max_id: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<i64>,
}

#[derive(Serialize)]
struct Single<'a, P> {
    #[serde(rename = "cniVersion")]
    cni_version: &'static str,
    name: &'a str,
    #[serde(flatten)]
    plugin: P,
}

#[derive(Serialize)]
struct Chain<'a> {
    #[serde(rename = "cniVersion")]
    cni_version: &'static str,
    name: &'a str,
    plugins: Vec<&'a RawValue>,
}

impl NetworkSpec for SriovNetworkSpec {
    common!();

    fn config(&self, name: &str) -> Result<String, Vec<Fault>> {
        let texts = Texts::parse(&self.common())?;
        let plugin = Sriov {
            plugin: "sriov",
            vlan: self.vlan.unwrap_or_default(),
            spoofchk: given(self.spoof_chk.as_ref()),
            trust: given(self.trust.as_ref()),
            vlan_qos: self.vlan_qos.unwrap_or_default(),
            vlan_proto: given(self.vlan_proto.as_ref()),
            min_tx_rate: self.min_tx_rate,
            max_tx_rate: self.max_tx_rate,
            capabilities: texts.capabilities,
            link_state: given(self.link_state.as_ref()),
            log_level: given(self.log_level.as_ref()),
            log_file: given(self.log_file.as_ref()),
            ipam: texts.ipam,
        };
        texts.chained(name, plugin)
    }
}

impl NetworkSpec for SriovIBNetworkSpec {
    common!();

    fn config(&self, name: &str) -> Result<String, Vec<Fault>> {
        let texts = Texts::parse(&self.common())?;
        let plugin = IbSriov {
            plugin: "ib-sriov",
            capabilities: texts.capabilities,
            link_state: given(self.link_state.as_ref()),
            ipam: texts.ipam,
        };
        texts.chained(name, plugin)
    }
}

impl NetworkSpec for OVSNetworkSpec {
    common!();

    fn config(&self, name: &str) -> Result<String, Vec<Fault>> {
        let texts = Texts::parse(&self.common());
        // The schema has no minimum.
        let mtu = self.mtu.unwrap_or_default();
        let negative = (mtu < 0).then(|| Fault::invalid("spec.mtu", mtu, "must not be negative"));
        let texts = match (texts, negative) {
            (Ok(texts), None) => texts,
            (texts, negative) => {
                return Err(texts.err().into_iter().flatten().chain(negative).collect());
            }
        };
        let trunk = self.trunk.as_deref().unwrap_or_default();
        let plugin = Ovs {
            plugin: "ovs",
            capabilities: texts.capabilities,
            bridge: given(self.bridge.as_ref()),
            vlan: self.vlan.unwrap_or_default(),
            mtu,
            trunk: trunk.iter().map(TrunkVlans::from).collect(),
            interface_type: given(self.interface_type.as_ref()),
            ipam: texts.ipam,
        };
        texts.chained(name, plugin)
    }
}

impl From<&Trunk> for TrunkVlans {
    fn from(trunk: &Trunk) -> Self {
        Self {
            min_id: trunk.min_id,
            max_id: trunk.max_id,
            id: trunk.id,
        }
    }
}

/// The fields that hold JSON, parsed.
struct Texts<'a> {
    ipam: &'a RawValue,
    capabilities: Option<&'a RawValue>,
    meta_plugins: Vec<&'a RawValue>,
}

impl<'a> Texts<'a> {
    fn parse(fields: &Common<'a>) -> Result<Self, Vec<Fault>> {
        let ipam = written(fields.ipam).unwrap_or("{}");
        let ipam = json::object(ipam).map_err(fault("spec.ipam", ipam));
        let capabilities = written(fields.capabilities)
            .map(|text| json::object(text).map_err(fault("spec.capabilities", text)))
            .transpose();
        let meta_plugins = written(fields.meta_plugins)
            .map(|text| plugins(text).map_err(fault("spec.metaPlugins", text)))
            .transpose();
        match (ipam, capabilities, meta_plugins) {
            (Ok(ipam), Ok(capabilities), Ok(meta_plugins)) => Ok(Self {
                ipam,
                capabilities,
                meta_plugins: meta_plugins.unwrap_or_default(),
            }),
            (ipam, capabilities, meta_plugins) => {
                Err([ipam.err(), capabilities.err(), meta_plugins.err()]
                    .into_iter()
                    .flatten()
                    .collect())
            }
        }
    }

    /// The whole configuration: the plugin alone, or followed by those that are chained behind it.
    fn chained(&self, name: &str, plugin: impl Serialize) -> Result<String, Vec<Fault>> {
        let config = if self.meta_plugins.is_empty() {
            serde_json::to_string(&Single {
                cni_version: CNI_VERSION,
                name,
                plugin,
            })
        } else {
            serde_json::value::to_raw_value(&plugin).and_then(|first| {
                let rest = self.meta_plugins.iter().copied();
                serde_json::to_string(&Chain {
                    cni_version: CNI_VERSION,
                    name,
                    plugins: std::iter::once(&*first).chain(rest).collect(),
                })
            })
        };
        let config =
            config.map_err(|error| vec![Fault::invalid("spec", None::<()>, error.to_string())])?;
        json::indented(&config).ok_or_else(|| {
            let most = json::LONGEST / 1024;
            let detail = format!(
                "the configuration of the network attachment definition is longer than {most} KiB with its line breaks: ipam, capabilities and metaPlugins have to be shorter"
            );
            vec![Fault::invalid("spec", None::<()>, detail)]
        })
    }
}

/// The plugins of `metaPlugins`: objects, separated by commas, each with a `type`.
fn plugins(text: &str) -> Result<Vec<&RawValue>, json::Error> {
    json::objects(text)?
        .into_iter()
        .map(|(at, object)| json::check_type(text, at, object).map(|()| object))
        .collect()
}

fn fault<'a>(field: &'static str, text: &'a str) -> impl FnOnce(json::Error) -> Fault + use<'a> {
    move |error| Fault::invalid(field, text, error.to_string())
}

/// The text of a field that holds JSON, unless it is blank.
fn written(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !json::is_blank(text))
}

/// A text, unless it is empty.
fn given(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.is_empty())
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde's signature for skip_serializing_if"
)]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests;
