//! What the Dockerfile makes of the image.

use anyhow::{Context, Result, ensure};

use super::manifests::root;

/// The instructions of the Dockerfile's last stage that matter.
#[derive(Default)]
pub(crate) struct FinalStage {
    /// What is copied, from where to where.
    pub(crate) copies: Vec<(String, String)>,
    /// What every process in it finds.
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) user: String,
    pub(crate) entrypoint: String,
}

impl FinalStage {
    pub(crate) fn read() -> Result<Self> {
        let dockerfile = std::fs::read_to_string(root().join("Dockerfile"))?.replace("\\\n", " ");
        let mut stage = Self::default();
        for line in dockerfile.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["FROM", ..] => stage = Self::default(),
                ["COPY", flag, from, to] if flag.starts_with("--from=") => {
                    stage.copies.push((from.to_string(), to.to_string()));
                }
                ["COPY", from, to] => stage.copies.push((from.to_string(), to.to_string())),
                ["ENV", variables @ ..] => {
                    for text in variables {
                        let (name, value) = text.split_once('=').context("ENV is name=value")?;
                        ensure!(
                            !value.contains('"'),
                            "ENV with quotes is not understood: {line}"
                        );
                        stage.environment.push((name.to_owned(), value.to_owned()));
                    }
                }
                ["USER", user] => stage.user = user.to_string(),
                ["ENTRYPOINT", argument] => {
                    argument
                        .trim_matches(['[', ']', '"'])
                        .clone_into(&mut stage.entrypoint);
                }
                _ => {}
            }
        }
        Ok(stage)
    }
}
