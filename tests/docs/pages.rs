//! The pages, their code blocks, and the parts of them that are generated.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::support::manifests::root;

/// One page.
pub(super) struct Page {
    /// Its path, below the repository.
    pub(super) path: PathBuf,
    pub(super) text: String,
}

/// A fenced block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Block {
    /// What follows the fence, such as `sh`.
    pub(super) info: String,
    pub(super) text: String,
    /// Where its text begins and ends, in lines from 0.
    pub(super) lines: std::ops::Range<usize>,
}

/// All pages.
pub(super) fn all() -> Result<Vec<Page>> {
    let mut pages = Vec::new();
    for directory in ["", "docs", "certs", "deploy/chart"] {
        collect(&root().join(directory), directory == "certs", &mut pages)?;
    }
    ensure!(
        pages.iter().any(|page| page.path == Path::new("README.md")),
        "the first page is missing"
    );
    pages.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(pages)
}

fn collect(directory: &Path, deep: bool, pages: &mut Vec<Page>) -> Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if deep && path.is_dir() {
            collect(&path, deep, pages)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(Page {
                text: std::fs::read_to_string(&path)?,
                path: path.strip_prefix(root())?.to_owned(),
            });
        }
    }
    Ok(())
}

impl Page {
    /// The page at this path below the repository.
    pub(super) fn read(path: &str) -> Result<Self> {
        let text = std::fs::read_to_string(root().join(path)).with_context(|| path.to_owned())?;
        Ok(Self {
            path: path.into(),
            text,
        })
    }

    /// Its fenced blocks, also those inside of lists.
    pub(super) fn blocks(&self) -> Result<Vec<Block>> {
        let lines: Vec<&str> = self.text.lines().collect();
        let mut blocks = Vec::new();
        let mut open: Option<(usize, &str)> = None;
        for (number, line) in lines.iter().enumerate() {
            let Some(info) = line.trim_start().strip_prefix("```") else {
                continue;
            };
            match open.take() {
                None => open = Some((number + 1, info)),
                Some((start, info)) => {
                    let body = lines[start..number].iter();
                    blocks.push(Block {
                        info: info.trim().to_owned(),
                        text: body.flat_map(|line| [line, "\n"]).collect(),
                        lines: start..number,
                    });
                }
            }
        }
        ensure!(open.is_none(), "{}: a fence is open", self.path.display());
        Ok(blocks)
    }

    /// Compares the part between the markers of this name with what it should be, or writes it.
    pub(super) fn settle(&mut self, name: &str, wanted: &str) -> Result<()> {
        let begin = format!("<!-- generated: {name} -->\n");
        let end = format!("<!-- end: {name} -->\n");
        let path = self.path.display();
        let found = self.text.find(&begin).zip(self.text.find(&end));
        let Some((start, stop)) = found else {
            bail!("{path} has no generated part {name}");
        };
        let part = start + begin.len()..stop;
        if self.text.get(part.clone()) == Some(wanted) {
            return Ok(());
        }
        ensure!(
            updating(),
            "{path}: {name} is not as the code says; `make docs` writes it"
        );
        self.text.replace_range(part, wanted);
        self.save()
    }

    /// Compares some lines with what they should be, or replaces them.
    pub(super) fn settle_lines(
        &mut self,
        lines: std::ops::Range<usize>,
        wanted: &str,
    ) -> Result<()> {
        let all: Vec<&str> = self.text.lines().collect();
        let is: String = all[lines.clone()]
            .iter()
            .flat_map(|line| [line, "\n"])
            .collect();
        if is == wanted {
            return Ok(());
        }
        ensure!(
            updating(),
            "{}, line {}: it says\n{is}and should say\n{wanted}`make docs` writes it",
            self.path.display(),
            lines.start + 1
        );
        let text: String = all[..lines.start]
            .iter()
            .copied()
            .chain(wanted.lines())
            .chain(all[lines.end..].iter().copied())
            .flat_map(|line| [line, "\n"])
            .collect();
        self.text = text;
        self.save()
    }

    fn save(&self) -> Result<()> {
        Ok(std::fs::write(root().join(&self.path), &self.text)?)
    }
}

fn updating() -> bool {
    std::env::var_os("UPDATE_DOCS").is_some()
}

#[test]
fn links_lead_somewhere() -> Result<()> {
    for page in all()? {
        let own = root().join(&page.path);
        for link in page.text.split("](").skip(1) {
            let target = link.split(')').next().unwrap_or_default();
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = if file.is_empty() {
                own.clone()
            } else {
                own.with_file_name(file)
            };
            ensure!(path.exists(), "{}: {target}", page.path.display());
            if !anchor.is_empty() {
                let text = std::fs::read_to_string(&path)?;
                let found = text
                    .lines()
                    .filter(|line| line.starts_with('#'))
                    .any(|line| slug(line) == anchor);
                ensure!(found, "{}: {target}", page.path.display());
            }
        }
    }
    Ok(())
}

/// The anchor that a heading gets.
fn slug(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    text.chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}
