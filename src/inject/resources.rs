//! How much of each network resource a pod asks for, and what its first container asks for in addition.

use std::collections::BTreeMap;

use serde_json::{Value, value::RawValue};

use super::{
    message::quote,
    patch::{Part, Patch},
    quantity::{Quantity, QuantityError},
    spec::{self, Amounts, Container, Place, Spec},
};

/// The annotation that records what was added to a pod when existing resources are honored: a JSON object of counts.
pub const INJECTED_RESOURCES: &str = "sriovnetwork.openshift.io/injected-resources";

/// How much is to be added of each resource. Only what is more than nothing.
pub(super) type Additions<'v> = BTreeMap<&'v str, Quantity>;

/// What the containers of a pod lack together, so that there is a device for each of the `attachments`. Sidecars count
/// like containers, since they hold their devices as long.
pub(super) fn shortfall<'v>(
    spec: &Spec<'_>,
    attachments: &BTreeMap<&'v str, u64>,
) -> Result<Additions<'v>, String> {
    let mut additions = Additions::new();
    for (&resource, &count) in attachments {
        let mut total = Quantity::ZERO;
        for (place, container) in spec.running() {
            let asked = Asked::of(place, container, resource)?.amount();
            total = total
                .plus(asked)
                .map_err(|error| at(place, resource, error))?;
        }
        let missing = total
            .short_of(Quantity::from(count))
            .map_err(|error| format!("{resource}: {error}"))?;
        if !missing.is_zero() {
            additions.insert(resource, missing);
        }
    }
    Ok(additions)
}

/// What the `attachments` need beyond what the pod's `record` says was added to it before, whatever it asks for by
/// itself; with the record as it is afterwards, where that differs.
pub(super) fn unrecorded<'v>(
    record: Option<&str>,
    attachments: &BTreeMap<&'v str, u64>,
) -> Result<(Additions<'v>, Option<String>), String> {
    let mut recorded: BTreeMap<String, u64> = match record {
        None | Some("") => BTreeMap::new(),
        Some(record) => serde_json::from_str(record).map_err(|_| {
            format!(
                "annotation {INJECTED_RESOURCES}: {} is not a JSON object of counts such as {{\"example.com/nic\":1}}",
                quote(record)
            )
        })?,
    };
    let mut additions = Additions::new();
    for (&resource, &count) in attachments {
        let before = recorded.get(resource).copied().unwrap_or_default();
        if count > before {
            additions.insert(resource, Quantity::from(count - before));
            recorded.insert(resource.to_owned(), count);
        }
    }
    let record = (!additions.is_empty()).then(|| {
        let counts = recorded
            .into_iter()
            .map(|(resource, count)| (resource, Value::from(count)));
        counts.collect::<Value>().to_string()
    });
    Ok((additions, record))
}

/// Adds to requests and limits of a container, which must agree for such resources. One that is not given is what the
/// other says, as the API server has it for requests.
pub(super) fn add(
    additions: &Additions<'_>,
    place: Place,
    container: &Container<'_>,
    patch: &mut Patch,
) -> Result<(), String> {
    if additions.is_empty() {
        return Ok(());
    }
    let mut limits = BTreeMap::new();
    let mut requests = BTreeMap::new();
    for (&resource, &addition) in additions {
        let asked = Asked::of(place, container, resource)?;
        let sum = |amount: Option<Quantity>| {
            let sum = amount.unwrap_or(asked.amount()).plus(addition);
            sum.map_err(|error| at(place, resource, error))
        };
        limits.insert(resource, sum(asked.limit)?.to_string());
        requests.insert(resource, sum(asked.request)?.to_string());
    }
    let Some(existing) = &container.resources else {
        let resources = BTreeMap::from([("limits", limits), ("requests", requests)]);
        patch.make(Part::Resources(place), &resources);
        return Ok(());
    };
    for (part, existing, amounts) in [
        (Part::Limits(place), &existing.limits, limits),
        (Part::Requests(place), &existing.requests, requests),
    ] {
        if existing.is_none() {
            patch.make(part, &amounts);
        } else {
            for (resource, amount) in amounts {
                patch.add_member(part, resource, &amount);
            }
        }
    }
    Ok(())
}

/// What one container asks for of one resource.
struct Asked {
    request: Option<Quantity>,
    limit: Option<Quantity>,
}

impl Asked {
    fn of(place: Place, container: &Container<'_>, resource: &str) -> Result<Self, String> {
        let resources = container.resources.as_ref();
        let read = |amounts: Option<&Amounts<'_>>, field| {
            let raw = amounts.and_then(|amounts| amounts.get(resource));
            raw.map(|raw| amount(place, field, resource, raw))
                .transpose()
        };
        Ok(Self {
            request: read(
                resources.and_then(|resources| resources.requests.as_ref()),
                "requests",
            )?,
            limit: read(
                resources.and_then(|resources| resources.limits.as_ref()),
                "limits",
            )?,
        })
    }

    fn amount(&self) -> Quantity {
        self.request.or(self.limit).unwrap_or_default()
    }
}

/// Reads one amount of a container; a fault names its place.
pub(super) fn amount(
    place: Place,
    field: &str,
    resource: &str,
    raw: &RawValue,
) -> Result<Quantity, String> {
    spec::amount(raw).map_err(|error| {
        format!(
            "{place}.resources.{field}[{}]: {} {error}",
            quote(resource),
            quote(raw.get().trim_matches('"'))
        )
    })
}

fn at(place: Place, resource: &str, error: QuantityError) -> String {
    format!("{place}.resources: the sum of {} {error}", quote(resource))
}
