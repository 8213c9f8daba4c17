//! The files by which a container learns about its networks: a downward API volume with the pod's labels and
//! annotations and the containers' hugepages, a mount of it, and the container's name in its environment.

use std::borrow::Cow;

use serde::Serialize;

use super::{
    borrowed::Entries,
    patch::{Part, Patch},
    quantity::Quantity,
    resources,
    spec::{Container, Place, Spec},
};

/// The name of the volume and of its mounts.
const VOLUME: &str = "podnetinfo";
/// Where it is mounted.
const MOUNT_PATH: &str = "/etc/podnetinfo";
/// The variable with the container's name, by which it finds its own files among those of the pod.
const CONTAINER_NAME: &str = "CONTAINER_NAME";

/// The volume.
#[derive(Serialize)]
struct Volume<'a> {
    name: &'static str,
    #[serde(rename = "downwardAPI")]
    downward_api: DownwardApi<'a>,
}

#[derive(Serialize)]
struct DownwardApi<'a> {
    items: Vec<Item<'a>>,
}

/// A file of the volume, which shows one of both.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Item<'a> {
    path: Cow<'static, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    field_ref: Option<FieldRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_field_ref: Option<ResourceFieldRef<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FieldRef {
    field_path: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceFieldRef<'a> {
    container_name: &'a str,
    resource: String,
    divisor: &'static str,
}

/// The mount of a container.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Mounted {
    name: &'static str,
    read_only: bool,
    mount_path: &'static str,
}

/// A variable of an environment.
#[derive(Serialize)]
struct Variable<'a> {
    name: &'static str,
    value: &'a str,
}

/// What of the pod, as it ends up, the volume shows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shown {
    pub(super) labels: bool,
    pub(super) annotations: bool,
    pub(super) hugepages: bool,
}

/// Adds what the pod lacks. What is there stays: a volume or mount of the name, a variable of the name; and a container
/// with something else mounted at the path is left alone, since it could not see the files.
pub(super) fn inject(spec: &Spec<'_>, shown: Shown, patch: &mut Patch) -> Result<(), String> {
    let mut items = Vec::new();
    for (path, field_path, is_shown) in [
        ("labels", "metadata.labels", shown.labels),
        ("annotations", "metadata.annotations", shown.annotations),
    ] {
        if is_shown {
            items.push(Item {
                path: path.into(),
                field_ref: Some(FieldRef { field_path }),
                resource_field_ref: None,
            });
        }
    }
    for (place, container) in spec.running() {
        let mount = mount(container);
        if mount == Mount::Other {
            continue;
        }
        if shown.hugepages {
            let pages = hugepages(place, container)?;
            if !pages.is_empty() {
                name_container(place, container, patch)?;
            }
            items.extend(pages);
        }
        if mount == Mount::None {
            patch.push(
                Part::VolumeMounts(place),
                container.volume_mounts.is_some(),
                &Mounted {
                    name: VOLUME,
                    read_only: true,
                    mount_path: MOUNT_PATH,
                },
            );
        }
    }
    let volumes = spec.volumes.as_deref();
    if !volumes
        .unwrap_or_default()
        .iter()
        .any(|volume| *volume.name == *VOLUME)
    {
        let volume = Volume {
            name: VOLUME,
            downward_api: DownwardApi { items },
        };
        patch.push(Part::Volumes, volumes.is_some(), &volume);
    }
    Ok(())
}

/// Whether a container has the mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mount {
    /// It needs one.
    None,
    /// It has it.
    Ours,
    /// Name or path are taken by something else.
    Other,
}

/// Mounts and block devices share their paths and names.
fn mount(container: &Container<'_>) -> Mount {
    let mounts = container.volume_mounts.as_deref().unwrap_or_default();
    let devices = container.volume_devices.as_deref().unwrap_or_default();
    if mounts.iter().any(|mount| *mount.name == *VOLUME) {
        Mount::Ours
    } else if devices.iter().any(|device| *device.name == *VOLUME)
        || mounts
            .iter()
            .chain(devices)
            .any(|mount| is_mount_path(&mount.mount_path))
    {
        Mount::Other
    } else {
        Mount::None
    }
}

/// Whether a path means [`MOUNT_PATH`], however it is written; relative ones begin at the root.
fn is_mount_path(path: &str) -> bool {
    // Nearly none does, and that shows at once.
    if !path.contains(VOLUME) {
        return false;
    }
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.iter().eq(&["etc", VOLUME])
}

/// The files about a container's hugepages: for each size that it asks for, what it requests and its limit.
fn hugepages<'s>(place: Place, container: &'s Container<'_>) -> Result<Vec<Item<'s>>, String> {
    let mut items = Vec::new();
    let Some(asked) = &container.resources else {
        return Ok(items);
    };
    for (field, file, amounts) in [
        ("requests", "request", &asked.requests),
        ("limits", "limit", &asked.limits),
    ] {
        for (resource, raw) in amounts.iter().flat_map(Entries::iter) {
            let size = resource
                .strip_prefix("hugepages-")
                .filter(|size| !size.is_empty());
            let Some(size) = size else { continue };
            if resources::amount(place, field, resource, raw)?.is_zero() {
                continue;
            }
            let container = &*container.name;
            let pages = size.replace('i', "");
            items.push(Item {
                path: format!("hugepages_{pages}_{file}_{container}").into(),
                field_ref: None,
                resource_field_ref: Some(ResourceFieldRef {
                    container_name: container,
                    resource: format!("{field}.{resource}"),
                    divisor: divisor(size),
                }),
            });
        }
    }
    Ok(items)
}

/// The unit of the file: one that a page of this size is a whole number of.
fn divisor(page: &str) -> &'static str {
    let mebibyte = Quantity::from(1 << 20);
    match page.parse::<Quantity>() {
        Ok(size) if size < mebibyte => "1Ki",
        _ => "1Mi",
    }
}

fn name_container(
    place: Place,
    container: &Container<'_>,
    patch: &mut Patch,
) -> Result<(), String> {
    let variables = container.variables().map_err(|error| error.to_string())?;
    if !variables
        .iter()
        .any(|variable| *variable.name == *CONTAINER_NAME)
    {
        let variable = Variable {
            name: CONTAINER_NAME,
            value: &container.name,
        };
        patch.push(Part::Env(place), container.env.is_some(), &variable);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_path_however_it_is_written() {
        for path in [
            "/etc/podnetinfo",
            "/etc/podnetinfo/",
            "//etc/./podnetinfo",
            "/etc/x/../podnetinfo",
            "etc/podnetinfo",
            "/../etc/podnetinfo",
        ] {
            assert!(is_mount_path(path), "{path}");
        }
        for path in [
            "",
            "/",
            "/etc",
            "/etc/podnetinfo/x",
            "/etc/podnetinfo2",
            "/podnetinfo",
            "/x/etc/podnetinfo",
        ] {
            assert!(!is_mount_path(path), "{path}");
        }
    }

    #[test]
    fn the_divisor_divides_a_page() {
        for (page, unit) in [
            ("1Gi", "1Mi"),
            ("2Mi", "1Mi"),
            ("1Mi", "1Mi"),
            ("512Ki", "1Ki"),
            ("64Ki", "1Ki"),
            ("odd", "1Mi"),
        ] {
            assert_eq!(divisor(page), unit, "{page}");
        }
    }
}
