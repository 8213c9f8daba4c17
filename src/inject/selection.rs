//! Network selections: the annotations that say which networks a pod attaches to, in both forms that Multus takes.
//!
//! A text with `[`, `{` or `"` in it is JSON, an array of objects; any other is a list of `[namespace/]name[@interface]`.
//! Nothing is looked up here. What comes out has names that are safe in a URL.

use std::{borrow::Cow, net::IpAddr};

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use super::{
    borrowed::Entries,
    label::is_dns_label,
    message::{json_fault, quote},
};

/// The annotation with the networks of a pod.
pub const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";
/// The annotation with the network that takes the place of the cluster's default one.
pub const DEFAULT_NETWORK: &str = "v1.multus-cni.io/default-network";

/// One attachment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selected {
    /// The namespace of the NAD, where one is given.
    pub namespace: Option<String>,
    /// The name of the NAD.
    pub name: String,
}

/// What an annotation selects.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Selections {
    /// The attachments, in order. One network may be there several times.
    pub networks: Vec<Selected>,
    /// How many blank elements stand between commas. They are skipped here; Multus refuses them.
    pub blanks: usize,
}

/// What is wrong with an annotation, or with one element of it.
#[derive(Debug, thiserror::Error)]
pub enum SelectionFault {
    /// The annotation is JSON, but no array: its text, quoted, and where reading it ended.
    #[error("{0} is not a JSON array of network selections: {1}")]
    NoArray(String, String),
    /// An element is malformed.
    #[error("element {number} {text}: {reason}")]
    Element {
        /// Counted from 1.
        number: usize,
        /// As it stands there, quoted.
        text: String,
        /// What is wrong.
        reason: ElementFault,
    },
}

/// What is wrong with an element. User texts in it are quoted.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ElementFault {
    /// `a/b/c`.
    #[error("more than one '{0}'; the form is [namespace/]name[@interface]")]
    Repeated(char),
    /// `[5]`.
    #[error("not a JSON object")]
    NoObject,
    /// `ns/`, `{}`.
    #[error("has no name")]
    NoName,
    /// A name that cannot be one of Kubernetes'.
    #[error(
        "{field} {value} is not a DNS-1123 label: at most 63 of a-z, 0-9 and '-', a letter or digit at both ends"
    )]
    NoLabel {
        /// `name` or `namespace`.
        field: &'static str,
        /// Its value.
        value: String,
    },
    /// A name that Linux does not take.
    #[error(
        "interface {0} is not 1 to 15 bytes without '/', ':' or white space, other than . and .."
    )]
    Interface(String),
    /// A field of a wrong type, or with an illegal value.
    #[error("{field}: {value} is not {legal}")]
    Field {
        /// The field's name, as Multus spells it.
        field: &'static str,
        /// Its value.
        value: String,
        /// What is legal.
        legal: &'static str,
    },
}

/// Reads the value of one of the two annotations.
///
/// # Errors
///
/// All elements that are malformed, each with its reason.
pub fn parse(text: &str) -> Result<Selections, Vec<SelectionFault>> {
    let mut selections = Selections::default();
    let mut faults = Vec::new();
    if text.contains(['[', '{', '"']) {
        let elements: Vec<&RawValue> = serde_json::from_str(text)
            .map_err(|error| vec![SelectionFault::NoArray(quote(text), json_fault(&error))])?;
        for (index, element) in elements.into_iter().enumerate() {
            let selected = json_element(element);
            collect(index, element.get(), selected, &mut selections, &mut faults);
        }
    } else if !text.is_empty() {
        for (index, element) in text.split(',').map(str::trim).enumerate() {
            if element.is_empty() {
                selections.blanks += 1;
            } else {
                let selected = text_element(element);
                collect(index, element, selected, &mut selections, &mut faults);
            }
        }
    }
    if faults.is_empty() {
        Ok(selections)
    } else {
        Err(faults)
    }
}

fn collect(
    index: usize,
    text: &str,
    selected: Result<Selected, ElementFault>,
    selections: &mut Selections,
    faults: &mut Vec<SelectionFault>,
) {
    match selected {
        Ok(selected) => selections.networks.push(selected),
        Err(reason) => faults.push(SelectionFault::Element {
            number: index + 1,
            text: quote(text),
            reason,
        }),
    }
}

/// `[namespace/]name[@interface]`.
fn text_element(element: &str) -> Result<Selected, ElementFault> {
    let (namespace, rest) = element.split_once('/').unwrap_or(("", element));
    let (name, interface) = rest.split_once('@').unwrap_or((rest, ""));
    for repeated in ['/', '@'] {
        if element.matches(repeated).nth(1).is_some() {
            return Err(ElementFault::Repeated(repeated));
        }
    }
    check_interface(interface)?;
    selected(namespace, name)
}

/// An object of the JSON form. Field names count in any letter case and `null` is absent, as in Go; of a field that is
/// given twice the last one counts. Fields that Multus knows must have their types, others are not looked at.
fn json_element(element: &RawValue) -> Result<Selected, ElementFault> {
    let fields: Entries<&RawValue> =
        serde_json::from_str(element.get()).map_err(|_| ElementFault::NoObject)?;
    let mut name = Cow::Borrowed("");
    let mut namespace = Cow::Borrowed("");
    for (key, &value) in fields.iter().filter(|(_, value)| value.get() != "null") {
        match key.to_ascii_lowercase().as_str() {
            "name" => name = string("name", value)?,
            "namespace" => namespace = string("namespace", value)?,
            "interface" => check_interface(&string("interface", value)?)?,
            "interfacerequest" => check_interface(&string("interfaceRequest", value)?)?,
            "mac" => check("mac", value, "a MAC address", is_mac)?,
            "infiniband-guid" => check("infiniband-guid", value, "a GUID of 8 octets", is_guid)?,
            "ips" => check_list(
                "ips",
                value,
                "a list of IP addresses, with or without prefix length",
                is_address,
            )?,
            "default-route" => check_list("default-route", value, "a list of IP addresses", is_ip)?,
            "deviceid" => check_type::<String>("deviceID", value, "a string")?,
            "portmappings" => check_ports(value)?,
            "bandwidth" => check_bandwidth(value)?,
            "cni-args" if !value.get().starts_with('{') => {
                return Err(field("cni-args", value, "an object"));
            }
            _ => {}
        }
    }
    selected(&namespace, &name)
}

fn selected(namespace: &str, name: &str) -> Result<Selected, ElementFault> {
    if name.is_empty() {
        return Err(ElementFault::NoName);
    }
    for (field, value) in [("namespace", namespace), ("name", name)] {
        if !value.is_empty() && !is_dns_label(value) {
            let value = quote(value);
            return Err(ElementFault::NoLabel { field, value });
        }
    }
    Ok(Selected {
        namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
        name: name.to_owned(),
    })
}

/// What the kernel takes as the name of a network device; empty means that none is asked for.
fn check_interface(name: &str) -> Result<(), ElementFault> {
    let illegal = |character: char| matches!(character, '/' | ':') || character.is_whitespace();
    if name.len() > 15 || name == "." || name == ".." || name.contains(illegal) {
        return Err(ElementFault::Interface(quote(name)));
    }
    Ok(())
}

fn field(field: &'static str, value: &RawValue, legal: &'static str) -> ElementFault {
    let value = quote(value.get());
    ElementFault::Field {
        field,
        value,
        legal,
    }
}

fn typed<'a, T: Deserialize<'a>>(
    name: &'static str,
    value: &'a RawValue,
    legal: &'static str,
) -> Result<T, ElementFault> {
    serde_json::from_str(value.get()).map_err(|_| field(name, value, legal))
}

/// A string; borrowed where it has no escapes.
fn string<'a>(name: &'static str, value: &'a RawValue) -> Result<Cow<'a, str>, ElementFault> {
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    typed(name, value, "a string").map(|Text(text)| text)
}

/// A string that is empty or legal.
fn check(
    name: &'static str,
    value: &RawValue,
    legal: &'static str,
    is_legal: fn(&str) -> bool,
) -> Result<(), ElementFault> {
    let text = string(name, value)?;
    if text.is_empty() || is_legal(&text) {
        Ok(())
    } else {
        Err(field(name, value, legal))
    }
}

fn check_list(
    name: &'static str,
    value: &RawValue,
    legal: &'static str,
    is_legal: fn(&str) -> bool,
) -> Result<(), ElementFault> {
    let texts: Vec<String> = typed(name, value, legal)?;
    if texts.iter().all(|text| is_legal(text)) {
        Ok(())
    } else {
        Err(field(name, value, legal))
    }
}

fn check_ports(value: &RawValue) -> Result<(), ElementFault> {
    const LEGAL: &str = "a list of {hostPort, containerPort, protocol, hostIP}";
    let ports: Vec<Option<Entries<&RawValue>>> = typed("portMappings", value, LEGAL)?;
    for (key, &port) in ports.iter().flatten().flat_map(Entries::iter) {
        match key.to_ascii_lowercase().as_str() {
            "hostport" | "containerport" => check_type::<i64>("portMappings", port, LEGAL)?,
            "protocol" | "hostip" => check_type::<String>("portMappings", port, LEGAL)?,
            _ => {}
        }
    }
    Ok(())
}

fn check_bandwidth(value: &RawValue) -> Result<(), ElementFault> {
    const LEGAL: &str =
        "an object of whole numbers {ingressRate, ingressBurst, egressRate, egressBurst}";
    let rates: Entries<&RawValue> = typed("bandwidth", value, LEGAL)?;
    for (key, &rate) in rates.iter() {
        if matches!(
            key.to_ascii_lowercase().as_str(),
            "ingressrate" | "ingressburst" | "egressrate" | "egressburst"
        ) {
            check_type::<i64>("bandwidth", rate, LEGAL)?;
        }
    }
    Ok(())
}

/// Whether it is a `T`, or null.
fn check_type<T: DeserializeOwned>(
    name: &'static str,
    value: &RawValue,
    legal: &'static str,
) -> Result<(), ElementFault> {
    typed::<Option<T>>(name, value, legal).map(|_| ())
}

/// 48, 64 or 160 bits (Ethernet, EUI-64, IP over InfiniBand), which is what Multus takes.
fn is_mac(text: &str) -> bool {
    matches!(octets(text), Some(6 | 8 | 20))
}

fn is_guid(text: &str) -> bool {
    octets(text) == Some(8)
}

/// How many octets `02:00:…`, `02-00-…` or `0200.…` has.
fn octets(text: &str) -> Option<usize> {
    let (separator, digits) = match text
        .bytes()
        .find(|byte| matches!(byte, b':' | b'-' | b'.'))?
    {
        b'.' => ('.', 4),
        separator => (char::from(separator), 2),
    };
    let mut octets = 0;
    for group in text.split(separator) {
        if group.len() != digits || !group.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        octets += digits / 2;
    }
    Some(octets)
}

fn is_ip(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
}

/// An address with or without the length of its prefix.
fn is_address(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else {
        return is_ip(text);
    };
    let most = match address.parse() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    length.bytes().all(|byte| byte.is_ascii_digit())
        && length.parse::<u8>().is_ok_and(|length| length <= most)
}

#[cfg(test)]
#[path = "selection_tests.rs"]
mod tests;
