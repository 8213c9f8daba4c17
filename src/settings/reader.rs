//! Finds the text of a setting (flag, then variable, then default) and names it when it is not legal.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fmt,
};

use super::{
    flags::{Flags, SettingsCommand},
    table::{SETTINGS, Setting},
};

/// A setting that cannot be used. The message names the setting, its value and what is legal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// A required setting has no value.
    #[error("{setting} is not set: it must be {legal}")]
    Missing {
        /// The setting's variable, with its flag if there is one.
        setting: String,
        /// What is legal.
        legal: String,
    },
    /// A value that is not legal.
    #[error("{setting} is {value}: it must be {legal}")]
    Illegal {
        /// The setting's variable, with its flag if there is one.
        setting: String,
        /// The value, quoted, its end cut off when it is long.
        value: String,
        /// What is legal.
        legal: String,
    },
}

/// Quotes a value for a message; a long one only in part, and of PEM (or base64 of it, once or twice) only how it
/// begins: somebody may have taken the key for the certificate.
fn quote(value: &str) -> String {
    const SHOWN: usize = 80;
    const SHOWN_OF_PEM: usize = 16;
    let is_pem = value.contains("-----BEGIN")
        || ["LS0tLS1", "TFMwdEx"]
            .iter()
            .any(|packed| value.starts_with(packed));
    let shown = if is_pem { SHOWN_OF_PEM } else { SHOWN };
    if value.chars().count() <= shown {
        format!("{value:?}")
    } else {
        let head: String = value.chars().take(shown).collect();
        format!("{head:?}…")
    }
}

/// Looks settings up.
pub(super) struct Reader<'a, C> {
    flags: &'a Flags<C>,
    environment: BTreeMap<&'static str, OsString>,
}

impl<'a, C: SettingsCommand> Reader<'a, C> {
    /// Keeps of the environment what is a setting.
    pub(super) fn new<K, V>(
        flags: &'a Flags<C>,
        environment: impl IntoIterator<Item = (K, V)>,
    ) -> Self
    where
        K: AsRef<OsStr>,
        V: Into<OsString>,
    {
        let mut known = BTreeMap::new();
        for (name, value) in environment {
            if let Some(setting) = SETTINGS.iter().find(|s| name.as_ref() == s.variable) {
                known.insert(setting.variable, value.into());
            }
        }
        Self {
            flags,
            environment: known,
        }
    }

    /// The text of a setting. An empty flag or variable counts as not given, as manifests set them so.
    pub(super) fn text(&self, setting: &Setting) -> Result<&str, SettingsError> {
        if let Some(text) = self.flags.get(setting).filter(|text| !text.is_empty()) {
            return Ok(text);
        }
        match self.environment.get(setting.variable) {
            Some(value) if !value.is_empty() => value
                .to_str()
                .ok_or_else(|| illegal(setting, &value.to_string_lossy(), "UTF-8 text")),
            _ => Ok(setting.default),
        }
    }

    /// The setting as a value, empty text included.
    pub(super) fn read<T>(
        &self,
        setting: &Setting,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, SettingsError> {
        let text = self.text(setting)?;
        parse(text).ok_or_else(|| illegal(setting, text, setting.legal))
    }

    /// The setting as a value, or an error when it is empty.
    pub(super) fn required<T>(
        &self,
        setting: &Setting,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, SettingsError> {
        if self.text(setting)?.is_empty() {
            return Err(SettingsError::Missing {
                setting: setting.name(),
                legal: setting.legal.to_owned(),
            });
        }
        self.read(setting, parse)
    }

    /// The setting as a value, or `None` when it is empty.
    pub(super) fn optional<T>(
        &self,
        setting: &Setting,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, SettingsError> {
        if self.text(setting)?.is_empty() {
            return Ok(None);
        }
        self.read(setting, parse).map(Some)
    }

    /// The setting is legal by itself but not beside the others.
    pub(super) fn conflict(&self, setting: &Setting, legal: impl fmt::Display) -> SettingsError {
        match self.text(setting) {
            Ok("") => SettingsError::Missing {
                setting: setting.name(),
                legal: legal.to_string(),
            },
            Ok(text) => illegal(setting, text, legal),
            Err(error) => error,
        }
    }
}

/// The error for a value of this setting.
pub(super) fn illegal(setting: &Setting, value: &str, legal: impl fmt::Display) -> SettingsError {
    SettingsError::Illegal {
        setting: setting.name(),
        value: quote(value),
        legal: legal.to_string(),
    }
}
