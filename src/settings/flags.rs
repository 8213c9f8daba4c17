//! The command line's share of the settings, made from the table.
//!
//! It collects what flags say as text. It reads no environment, so that a test needs none; [`super::Settings`]
//! does the parsing.

use std::{collections::BTreeMap, marker::PhantomData};

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use super::table::{SETTINGS, Scope, Setting};

/// A command that takes settings.
pub trait SettingsCommand: Clone + Send + Sync + 'static {
    /// Whether it takes the settings of this scope.
    fn takes(scope: Scope) -> bool;
}

/// `run`: takes all settings.
#[derive(Clone, Copy, Debug)]
pub enum Run {}

/// `webhook`: takes what concerns serving.
#[derive(Clone, Copy, Debug)]
pub enum Webhook {}

impl SettingsCommand for Run {
    fn takes(_: Scope) -> bool {
        true
    }
}

impl SettingsCommand for Webhook {
    fn takes(scope: Scope) -> bool {
        scope == Scope::Serving
    }
}

/// The flags given to the command `C`. Use it with `#[command(flatten)]`.
#[derive(Clone, Debug)]
pub struct Flags<C> {
    given: BTreeMap<&'static str, String>,
    command: PhantomData<C>,
}

impl<C> Default for Flags<C> {
    fn default() -> Self {
        Self {
            given: BTreeMap::new(),
            command: PhantomData,
        }
    }
}

impl<C: SettingsCommand> Flags<C> {
    fn settings() -> impl Iterator<Item = (&'static Setting, &'static str)> {
        SETTINGS
            .iter()
            .filter(|setting| C::takes(setting.scope))
            .filter_map(|setting| Some((setting, setting.flag?)))
    }

    /// What the flag of this setting says, if it was given.
    pub(super) fn get(&self, setting: &Setting) -> Option<&str> {
        self.given.get(setting.variable).map(String::as_str)
    }
}

impl<C: SettingsCommand> Args for Flags<C> {
    fn augment_args(command: Command) -> Command {
        Self::settings().fold(command, |command, (setting, flag)| {
            let default = if setting.default.is_empty() {
                String::new()
            } else {
                format!(", default: {}", setting.default)
            };
            let help = format!(
                "{} Must be {}. [env: {}{default}]",
                setting.meaning, setting.legal, setting.variable,
            );
            let mut arg = Arg::new(setting.variable)
                .long(flag)
                .value_name("VALUE")
                .help(help)
                .help_heading(setting.group.heading());
            if setting.is_switch {
                arg = arg
                    .num_args(0..=1)
                    .require_equals(true)
                    .default_missing_value("true");
            }
            command.arg(arg)
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<C: SettingsCommand> FromArgMatches for Flags<C> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Self::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for (setting, _) in Self::settings() {
            if let Some(value) = matches.get_one::<String>(setting.variable) {
                self.given.insert(setting.variable, value.clone());
            }
        }
        Ok(())
    }
}
