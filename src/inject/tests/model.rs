//! What becomes of a pod, told once more: not as a patch over parts of a text, but as changes of a typed pod, in as plain
//! words as can be. It is for the networks, labels and resources that the property makes pods of.

use k8s_openapi::{
    api::core::v1::{
        Container, DownwardAPIVolumeFile, DownwardAPIVolumeSource, EnvVar, ObjectFieldSelector,
        Pod, ResourceFieldSelector, Volume, VolumeMount,
    },
    apimachinery::pkg::api::resource::Quantity as Amount,
};

use super::*;

/// The pod as it is admitted, in the world of the properties.
pub(super) fn admitted(pod: &Pod, honor_existing: bool) -> Pod {
    let mut pod = pod.clone();
    inject_annotations(&mut pod);
    let networks = networks(&pod);
    let mut needed = BTreeMap::<&str, u64>::new();
    for resource in networks.iter().flat_map(|network| resources_of(network)) {
        *needed.entry(resource).or_default() += 1;
    }
    if networks.iter().any(|network| network == "sel") {
        let spec = pod.spec.as_mut().unwrap();
        let labels = spec.node_selector.get_or_insert_default();
        labels.insert("rack".to_owned(), "a".to_owned());
    }
    if needed.is_empty() {
        return pod;
    }
    // Of the pod as it was sent: nobody asks for pages of a network.
    let files = pages_of_all(&pod);
    ask_for(&mut pod, &needed, honor_existing);
    show(&mut pod, files);
    pod
}

fn inject_annotations(pod: &mut Pod) {
    let labels = pod.metadata.labels.clone().unwrap_or_default();
    for (label, key, value) in [
        ("inject-nets", NETWORKS, "bar,foo"),
        ("inject-team", "team", "net"),
    ] {
        if labels
            .get(label)
            .is_some_and(|value| value.to_lowercase() == "true")
        {
            let annotations = pod.metadata.annotations.get_or_insert_default();
            annotations.insert(key.to_owned(), value.to_owned());
        }
    }
}

/// The names of all attachments.
fn networks(pod: &Pod) -> Vec<String> {
    let annotations = pod.metadata.annotations.clone().unwrap_or_default();
    let lists = [NETWORKS, DEFAULT_NETWORK].map(|key| annotations.get(key).cloned());
    lists
        .into_iter()
        .flatten()
        .flat_map(|list| {
            let names = list.split(',').map(str::trim).map(str::to_owned);
            names.collect::<Vec<_>>()
        })
        .filter(|name| !name.is_empty())
        .collect()
}

fn resources_of(network: &str) -> Vec<&'static str> {
    match network {
        "foo" | "foo2" | "foo@net1.100" => vec!["example.com/foo"],
        "bar" => vec!["example.com/bar"],
        "odd" => vec!["a~b/c", "d"],
        "tenant/foo" => vec!["example.com/tenant"],
        "cluster-wide" => vec!["example.com/wide"],
        "plain" | "sel" => vec![],
        other => panic!("{other} is in no world"),
    }
}

/// The containers that run as long as the pod.
fn running(pod: &mut Pod) -> impl Iterator<Item = &mut Container> {
    let spec = pod.spec.as_mut().unwrap();
    let sidecars = spec
        .init_containers
        .iter_mut()
        .flatten()
        .filter(|container| container.restart_policy.as_deref() == Some("Always"));
    spec.containers.iter_mut().chain(sidecars)
}

/// Request and limit of a container.
fn asked(container: &Container, resource: &str) -> [Option<Quantity>; 2] {
    let resources = container.resources.clone().unwrap_or_default();
    [resources.requests, resources.limits].map(|amounts| {
        let amount = amounts?.get(resource)?.0.parse();
        Some(amount.unwrap())
    })
}

fn ask_for(pod: &mut Pod, needed: &BTreeMap<&str, u64>, honor_existing: bool) {
    if pod.spec.as_ref().unwrap().containers.is_empty() {
        return;
    }
    for (resource, count) in needed {
        let wanted = Quantity::from(*count);
        let total = running(pod)
            .filter_map(|container| {
                let [request, limit] = asked(container, resource);
                request.or(limit)
            })
            .fold(Quantity::ZERO, |sum, amount| sum.plus(amount).unwrap());
        let missing = match (honor_existing, total < wanted) {
            (true, _) => wanted,
            (false, true) => total.short_of(wanted).unwrap(),
            (false, false) => continue,
        };
        let first = running(pod).next().unwrap();
        let [request, limit] = asked(first, resource);
        let resources = first.resources.get_or_insert_default();
        for (amounts, own, other) in [
            (&mut resources.requests, request, limit),
            (&mut resources.limits, limit, request),
        ] {
            let before = own.or(other).unwrap_or(Quantity::ZERO);
            let amount = Amount(before.plus(missing).unwrap().to_string());
            let amounts = amounts.get_or_insert_default();
            amounts.insert((*resource).to_owned(), amount);
        }
    }
    if honor_existing {
        let annotations = pod.metadata.annotations.get_or_insert_default();
        annotations.insert(INJECTED_RESOURCES.to_owned(), json!(needed).to_string());
    }
}

/// What is mounted where the files belong, if anything: whether it is ours.
fn mounted(container: &Container) -> Option<bool> {
    let mounts = || container.volume_mounts.iter().flatten();
    if mounts().any(|mount| mount.name == "podnetinfo") {
        return Some(true);
    }
    let taken = mounts().any(|mount| mount.mount_path.trim_end_matches('/') == "/etc/podnetinfo");
    taken.then_some(false)
}

fn pages_of_all(pod: &Pod) -> Vec<DownwardAPIVolumeFile> {
    let mut pod = pod.clone();
    running(&mut pod)
        .filter(|container| mounted(container) != Some(false))
        .flat_map(|container| pages(container))
        .collect()
}

/// The files about a container's huge pages.
fn pages(container: &Container) -> Vec<DownwardAPIVolumeFile> {
    let resources = container.resources.clone().unwrap_or_default();
    let mut files = Vec::new();
    for (field, word, amounts) in [
        ("requests", "request", resources.requests),
        ("limits", "limit", resources.limits),
    ] {
        for (resource, amount) in amounts.unwrap_or_default() {
            let short = match resource.as_str() {
                "hugepages-1Gi" => "1G",
                "hugepages-64Ki" => "64K",
                _ => continue,
            };
            if amount.0 == "0" {
                continue;
            }
            let unit = if short == "1G" { "1Mi" } else { "1Ki" };
            files.push(DownwardAPIVolumeFile {
                path: format!("hugepages_{short}_{word}_{}", container.name),
                resource_field_ref: Some(ResourceFieldSelector {
                    container_name: Some(container.name.clone()),
                    divisor: Some(Amount(unit.to_owned())),
                    resource: format!("{field}.{resource}"),
                }),
                ..DownwardAPIVolumeFile::default()
            });
        }
    }
    files
}

/// Volume, mounts and variables.
fn show(pod: &mut Pod, pages_of_all: Vec<DownwardAPIVolumeFile>) {
    for container in running(pod) {
        let mounted = mounted(container);
        if mounted == Some(false) {
            continue;
        }
        let named = |variables: &Vec<EnvVar>| {
            variables
                .iter()
                .any(|variable| variable.name == "CONTAINER_NAME")
        };
        if !pages(container).is_empty() && !container.env.as_ref().is_some_and(named) {
            container.env.get_or_insert_default().push(EnvVar {
                name: "CONTAINER_NAME".to_owned(),
                value: Some(container.name.clone()),
                value_from: None,
            });
        }
        if mounted.is_none() {
            let mounts = container.volume_mounts.get_or_insert_default();
            mounts.push(VolumeMount {
                name: "podnetinfo".to_owned(),
                mount_path: "/etc/podnetinfo".to_owned(),
                read_only: Some(true),
                ..VolumeMount::default()
            });
        }
    }
    let metadata = &pod.metadata;
    let own = [
        ("labels", &metadata.labels),
        ("annotations", &metadata.annotations),
    ];
    let shown = own
        .into_iter()
        .filter(|(_, map)| map.as_ref().is_some_and(|map| !map.is_empty()))
        .map(|(name, _)| DownwardAPIVolumeFile {
            path: name.to_owned(),
            field_ref: Some(ObjectFieldSelector {
                api_version: None,
                field_path: format!("metadata.{name}"),
            }),
            ..DownwardAPIVolumeFile::default()
        });
    let items: Vec<_> = shown.chain(pages_of_all).collect();
    let volumes = pod.spec.as_mut().unwrap().volumes.get_or_insert_default();
    if !volumes.iter().any(|volume| volume.name == "podnetinfo") {
        volumes.push(Volume {
            name: "podnetinfo".to_owned(),
            downward_api: Some(DownwardAPIVolumeSource {
                default_mode: None,
                items: Some(items),
            }),
            ..Volume::default()
        });
    }
}
