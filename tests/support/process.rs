//! A child process that never outlives its owner: ended when dropped, and by the kernel when this process is killed
//! (where `setpriv` is installed). Its output goes to a file.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};

use super::wait;

/// A running (or ended) child.
pub(crate) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

/// What is started.
pub(crate) struct Launch<'a> {
    /// The name that messages use.
    pub(crate) name: &'a str,
    /// The executable.
    pub(crate) program: &'a Path,
    /// Its arguments.
    pub(crate) arguments: Vec<String>,
    /// Its whole environment.
    pub(crate) environment: Vec<(String, String)>,
    /// Where its output is appended.
    pub(crate) log: PathBuf,
}

impl Process {
    /// Starts it. The calling thread must live as long as the child may.
    pub(crate) fn start(launch: Launch<'_>) -> Result<Self> {
        let output = open_log(&launch.log)?;
        let mut command = if has_setpriv() {
            let mut command = Command::new("setpriv");
            command
                .args(["--pdeathsig", "KILL", "--"])
                .arg(launch.program);
            command
        } else {
            Command::new(launch.program)
        };
        let child = command
            .args(&launch.arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(launch.environment)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("failed to start {}", launch.program.display()))?;
        Ok(Self {
            name: launch.name.to_owned(),
            child,
            log: launch.log,
        })
    }

    /// Fails, showing the end of the log, when the process has ended.
    pub(crate) fn check_running(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => Err(anyhow!(
                "{} ended ({status}):\n{}",
                self.name,
                self.log_tail(40)
            )),
        }
    }

    /// The process id.
    #[allow(dead_code, reason = "only the bench asks for it")]
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by its short name, such as `TERM`.
    pub(crate) fn signal(&self, signal: &str) -> Result<()> {
        let status = Command::new("sh")
            .args(["-c", r#"kill -s "$0" "$1""#, signal])
            .arg(self.child.id().to_string())
            .status()?;
        anyhow::ensure!(status.success(), "failed to send {signal} to {}", self.name);
        Ok(())
    }

    /// Waits until it has ended by itself.
    pub(crate) async fn ended(&mut self, within: Duration) -> Result<ExitStatus> {
        let what = format!("{} to end", self.name);
        wait::eventually(within, &what, async || {
            self.child.try_wait()?.context("still running")
        })
        .await
    }

    /// Ends it at once.
    pub(crate) fn kill(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// The last lines of its output.
    pub(crate) fn log_tail(&self, lines: usize) -> String {
        tail(&self.log, lines)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The last lines of a file, or why there are none.
pub(crate) fn tail(path: &Path, lines: usize) -> String {
    match std::fs::read(path) {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            let all: Vec<&str> = text.lines().collect();
            let skipped = all.len().saturating_sub(lines);
            all.into_iter().skip(skipped).collect::<Vec<_>>().join("\n")
        }
        Err(error) => format!("({}: {error})", path.display()),
    }
}

fn open_log(path: &Path) -> Result<File> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .with_context(|| format!("failed to open {}", path.display()))
}

fn has_setpriv() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| {
        Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--", "true"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    })
}
