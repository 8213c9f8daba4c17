//! The image where no container engine runs: a folder with exactly the files of the Dockerfile's final stage and the libraries of
//! its base, entered by chroot as its user.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use crate::support::{dockerfile::FinalStage, manifests::root};

/// What the base image has for programs in Rust: glibc and the unwinder.
const BASE: [&str; 8] = [
    "ld-linux-aarch64.so.1",
    "ld-linux-x86-64.so.2",
    "libc.so.6",
    "libdl.so.2",
    "libgcc_s.so.1",
    "libm.so.6",
    "libpthread.so.0",
    "librt.so.1",
];

#[test]
fn the_binary_runs_with_nothing_but_the_images_files_as_its_user() -> Result<()> {
    let image = Image::assemble()?;
    let version = image.run(&["--version"])?;
    ensure!(version.status.success(), "{version:?}");
    ensure!(String::from_utf8(version.stdout)?.contains(env!("CARGO_PKG_VERSION")));

    let crds = image.run(&["crds"])?;
    ensure!(
        crds.status.success() && String::from_utf8(crds.stdout)?.contains("sriovoperatorconfigs")
    );

    let unset = image.run(&["run"])?;
    ensure!(!unset.status.success());
    let words = String::from_utf8(unset.stderr)?;
    ensure!(
        words.contains("NAMESPACE") || words.contains("CLUSTER_TYPE"),
        "without an environment it says {words}"
    );
    Ok(())
}

#[test]
fn the_user_is_a_number_so_that_a_kubelet_sees_that_it_is_not_root() -> Result<()> {
    let stage = FinalStage::read()?;
    let (user, group) = stage.user.split_once(':').context("USER names no group")?;
    ensure!(
        user.parse::<u32>()? > 0 && group.parse::<u32>()? > 0,
        "USER is {}",
        stage.user
    );
    ensure!(stage.entrypoint == "/usr/bin/sriov-operator");
    Ok(())
}

#[test]
fn the_allocator_is_told_to_keep_little() -> Result<()> {
    let stage = FinalStage::read()?;
    let is_set = |name: &str| stage.environment.iter().any(|(known, _)| known == name);
    ensure!(is_set("MALLOC_ARENA_MAX") && is_set("MALLOC_TRIM_THRESHOLD_"));
    Ok(())
}

/// The assembled folder.
struct Image {
    folder: TempDir,
    stage: FinalStage,
}

impl Image {
    fn assemble() -> Result<Self> {
        let stage = FinalStage::read()?;
        let folder = tempfile::tempdir()?;
        // The image's user enters it.
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755))?;
        let binary = Path::new(env!("CARGO_BIN_EXE_sriov-operator"));
        for (from, to) in &stage.copies {
            let from = match from.as_str() {
                "/out/sriov-operator" => binary.to_owned(),
                path => root().join(path),
            };
            place(&from, folder.path(), Path::new(to))?;
        }
        for library in libraries(binary)? {
            let name = library.file_name().unwrap_or_default().to_string_lossy();
            ensure!(
                BASE.contains(&name.as_ref()),
                "the binary needs {name}, which the base image lacks"
            );
            place(&library, folder.path(), &library)?;
        }
        Ok(Self { folder, stage })
    }

    fn run(&self, arguments: &[&str]) -> Result<Output> {
        let folder = self.folder.path().as_os_str();
        let mut command = if maps_all_users()? {
            let mut command = Command::new("chroot");
            command
                .arg(format!("--userspec={}", self.stage.user))
                .arg(folder);
            command
        } else {
            // A namespace in which this user is the image's.
            let (user, group) = self
                .stage
                .user
                .split_once(':')
                .context("USER names no group")?;
            let mut command = Command::new("unshare");
            command
                .args([
                    &format!("--map-user={user}"),
                    &format!("--map-group={group}"),
                    "--keep-caps",
                    "chroot",
                ])
                .arg(folder);
            command
        };
        let output = command
            .arg(&self.stage.entrypoint)
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(self.stage.environment.iter().cloned())
            .stdin(Stdio::null())
            .output()?;
        Ok(output)
    }
}

/// Whether this process is root, and may become the image's user.
fn maps_all_users() -> Result<bool> {
    let status = fs::read_to_string("/proc/self/status")?;
    let root = status.lines().any(|line| line.starts_with("Uid:\t0\t"));
    let map = fs::read_to_string("/proc/self/uid_map")?;
    let all = map
        .split_whitespace()
        .nth(2)
        .is_some_and(|count| count.parse::<u64>().is_ok_and(|count| count > 65_532));
    Ok(root && all)
}

fn place(from: &Path, folder: &Path, to: &Path) -> Result<()> {
    let to = folder.join(to.strip_prefix("/")?);
    fs::create_dir_all(to.parent().context("it is the root")?)?;
    fs::copy(from, &to).with_context(|| format!("failed to copy {}", from.display()))?;
    Ok(())
}

/// The shared libraries that a program is linked with, and its loader.
fn libraries(binary: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("ldd")
        .arg(binary)
        .stdin(Stdio::null())
        .output()
        .context("failed to run ldd")?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mut found = Vec::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [name, "=>", path, _] if path.starts_with('/') => {
                ensure!(!name.is_empty());
                found.push(PathBuf::from(path));
            }
            [loader, _] if loader.starts_with('/') => found.push(PathBuf::from(loader)),
            [vdso, _] if vdso.starts_with("linux-vdso") => {}
            _ => bail!("ldd says {line}"),
        }
    }
    Ok(found)
}
