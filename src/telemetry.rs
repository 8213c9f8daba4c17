//! Logs: format, level, and changing the level at run time.
//!
//! Owns the global subscriber and the filter that `spec.logLevel` turns. What is logged is the caller's
//! affair, except for one rule that is kept here: bodies of requests and responses, and with them keys, never
//! reach the log.

use std::io;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};
use tracing_subscriber::{Layer, Registry, reload};

use crate::settings::LogFormat;

/// The target that all events of this crate carry.
const OUR_TARGET: &str = env!("CARGO_CRATE_NAME");

/// The module of the Kubernetes client whose warnings quote whole response bodies, those of Secrets included.
const QUOTES_BODIES: &str = "kube_client::client";

/// How much of our own code is logged. Dependencies stay at `warn`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verbosity {
    /// `spec.logLevel: 0`.
    #[default]
    Info,
    /// `spec.logLevel: 1`.
    Debug,
    /// `spec.logLevel: 2`.
    Trace,
}

impl Verbosity {
    /// The verbosity of a `spec.logLevel`. The schema bounds it to 0..=2; what lies outside (an object stored
    /// before the schema did) takes the nearest.
    #[must_use]
    pub fn from_log_level(level: i64) -> Self {
        match level {
            ..=0 => Self::Info,
            1 => Self::Debug,
            2.. => Self::Trace,
        }
    }

    fn filter(self) -> Targets {
        let ours = match self {
            Self::Info => LevelFilter::INFO,
            Self::Debug => LevelFilter::DEBUG,
            Self::Trace => LevelFilter::TRACE,
        };
        Targets::new()
            .with_default(LevelFilter::WARN)
            .with_target(QUOTES_BODIES, LevelFilter::ERROR)
            .with_target(OUR_TARGET, ours)
    }
}

/// Turns the level of our own log lines while the process runs. Clones turn the same level.
#[derive(Debug, Clone)]
pub struct LevelHandle(reload::Handle<Targets, Registry>);

impl LevelHandle {
    /// Logs our own code at `verbosity` from now on.
    pub fn set(&self, verbosity: Verbosity) {
        // Fails only when the subscriber is gone, and then there is no log to turn.
        if let Err(error) = self.0.reload(verbosity.filter()) {
            tracing::error!(%error, "failed to change the log level");
        }
    }
}

/// Why logs could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another subscriber is installed already.
    #[error("failed to set up logs: {0}")]
    Init(#[from] TryInitError),
}

/// Installs the subscriber of the process: lines on standard error, `Verbosity::Info` until the handle turns it.
/// Standard output stays free for what a subcommand prints.
pub fn init(format: LogFormat) -> Result<LevelHandle, Error> {
    let (subscriber, handle) = subscriber(format, io::stderr);
    subscriber.try_init()?;
    Ok(handle)
}

fn subscriber<W>(
    format: LogFormat,
    writer: W,
) -> (impl tracing::Subscriber + Send + Sync, LevelHandle)
where
    W: for<'w> tracing_subscriber::fmt::MakeWriter<'w> + Send + Sync + 'static,
{
    let (filter, handle) = reload::Layer::new(Verbosity::default().filter());
    let lines = tracing_subscriber::fmt::layer().with_writer(writer);
    let lines: Box<dyn Layer<_> + Send + Sync> = match format {
        LogFormat::Text => lines.with_ansi(false).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    (
        tracing_subscriber::registry().with(filter).with(lines),
        LevelHandle(handle),
    )
}

#[cfg(test)]
pub(crate) mod testing {
    use std::{io, sync::Arc};

    use parking_lot::Mutex;
    use tracing::{Dispatch, subscriber::NoSubscriber};

    /// What was logged.
    #[derive(Clone, Default)]
    pub(crate) struct Captured(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Captured {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Captured {
        pub(crate) fn text(&self) -> String {
            String::from_utf8(self.0.lock().clone()).unwrap()
        }
    }

    /// For as long as it is kept, the subscriber of one test hears what another test, on a thread without one, logged first:
    /// where there is only one, that switches a line off for all.
    pub(crate) fn heard_beside_others() -> Dispatch {
        Dispatch::new(NoSubscriber::new())
    }
}

#[cfg(test)]
mod tests {
    use super::{
        testing::{Captured, heard_beside_others},
        *,
    };

    fn logged(format: LogFormat, body: impl FnOnce(&LevelHandle)) -> String {
        let captured = Captured::default();
        let writer = captured.clone();
        let (subscriber, handle) = subscriber(format, move || writer.clone());
        let _heard = heard_beside_others();
        tracing::subscriber::with_default(subscriber, || body(&handle));
        captured.text()
    }

    #[test]
    fn our_level_follows_the_handle() {
        let text = logged(LogFormat::Text, |level| {
            tracing::debug!("before");
            level.set(Verbosity::Debug);
            tracing::debug!("during");
            tracing::trace!("finer");
            level.set(Verbosity::Trace);
            tracing::trace!("finest");
            level.set(Verbosity::Info);
            tracing::debug!("after");
        });
        for (message, expected) in [
            ("before", false),
            ("during", true),
            ("finer", false),
            ("finest", true),
            ("after", false),
        ] {
            assert_eq!(text.contains(message), expected, "{message} in {text}");
        }
    }

    #[test]
    fn dependencies_stay_at_warn_whatever_our_level_is() {
        let text = logged(LogFormat::Text, |level| {
            level.set(Verbosity::Trace);
            tracing::info!(target: "hyper::proto", "chatter");
            tracing::warn!(target: "hyper::proto", "trouble");
        });
        assert!(
            !text.contains("chatter") && text.contains("trouble"),
            "{text}"
        );
    }

    #[test]
    fn a_warning_that_quotes_a_body_is_not_logged() {
        let text = logged(LogFormat::Text, |level| {
            level.set(Verbosity::Trace);
            tracing::warn!(target: "kube_client::client", "tls.key: c2VjcmV0");
        });
        assert_eq!(text, "");
    }

    #[test]
    fn json_lines_are_json() {
        let text = logged(LogFormat::Json, |_| {
            tracing::info!(policy = "p", "admitted");
        });
        let line: serde_json::Value = serde_json::from_str(text.trim()).unwrap();
        assert_eq!(line["message"], "admitted");
        assert_eq!(line["policy"], "p");
        assert_eq!(line["level"], "INFO");
    }

    #[test]
    fn lines_carry_what_the_spans_around_them_say() {
        for (format, said) in [
            (LogFormat::Text, "review{uid=\"u-1\"}"),
            (LogFormat::Json, "\"uid\":\"u-1\""),
        ] {
            let text = logged(format, |_| {
                let _inside = tracing::info_span!("review", uid = "u-1").entered();
                tracing::warn!("a network is read live");
            });
            assert!(text.contains(said), "{said} in {text}");
        }
    }

    #[test]
    fn log_levels_outside_the_schema_take_the_nearest() {
        for (level, verbosity) in [
            (i64::MIN, Verbosity::Info),
            (0, Verbosity::Info),
            (1, Verbosity::Debug),
            (2, Verbosity::Trace),
            (i64::MAX, Verbosity::Trace),
        ] {
            assert_eq!(Verbosity::from_log_level(level), verbosity, "{level}");
        }
    }
}
