//! Reading what a command is given, a file or the standard input, with a limit: a wrong name may be a device that never ends.

use std::{
    fs::File,
    io::{Read, stdin},
    path::Path,
};

use anyhow::{Context, Result, bail};

/// A mebibyte.
const MIB: u64 = 1 << 20;

/// The largest input that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// One config, 1 MiB.
    Config,
    /// Objects that somebody wrote, 64 MiB.
    Objects,
    /// A dump of a cluster, 1 GiB: one of 5,000 nodes has hundreds of megabytes.
    Dump,
}

impl Limit {
    const fn bytes(self) -> u64 {
        match self {
            Self::Config => MIB,
            Self::Objects => 64 * MIB,
            Self::Dump => 1024 * MIB,
        }
    }
}

/// The text of a file; that of the standard input for `-`.
pub(super) fn read(file: &Path, limit: Limit) -> Result<String> {
    if file.as_os_str() == "-" {
        return text(stdin().lock(), "the standard input", limit);
    }
    let name = file.display().to_string();
    let opened = File::open(file).with_context(|| format!("{name} cannot be read"))?;
    // What says its size is not read for nothing.
    if opened
        .metadata()
        .is_ok_and(|known| known.len() > limit.bytes())
    {
        return too_large(&name, limit);
    }
    text(opened, &name, limit)
}

fn text(from: impl Read, name: &str, limit: Limit) -> Result<String> {
    let mut text = String::new();
    let read = from
        .take(limit.bytes() + 1)
        .read_to_string(&mut text)
        .with_context(|| format!("{name} cannot be read"))?;
    if u64::try_from(read).is_ok_and(|read| read <= limit.bytes()) {
        Ok(text)
    } else {
        too_large(name, limit)
    }
}

fn too_large(name: &str, limit: Limit) -> Result<String> {
    bail!(
        "{name} is larger than {} MiB, the most that is read",
        limit.bytes() / MIB
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_large_is_named_with_the_limit() {
        for (limit, said) in [(Limit::Config, "1 MiB"), (Limit::Objects, "64 MiB")] {
            let error = read(Path::new("/dev/zero"), limit).unwrap_err().to_string();
            assert!(
                error.starts_with("/dev/zero is larger than") && error.contains(said),
                "{error}"
            );
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1024 * MIB + 1).unwrap();
        let error = read(file.path(), Limit::Dump).unwrap_err().to_string();
        assert!(error.contains("1024 MiB"), "{error}");
    }

    #[test]
    fn what_just_fits_is_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(MIB).unwrap();
        assert_eq!(read(file.path(), Limit::Config).unwrap().len(), 1 << 20);
        file.as_file().set_len(MIB + 1).unwrap();
        assert!(read(file.path(), Limit::Config).is_err());
        assert!(text(&vec![b' '; (1 << 20) + 1][..], "stdin", Limit::Config).is_err());
    }
}
