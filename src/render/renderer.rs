//! The template engine: from a component's input to its objects, in the order of the file names.
//!
//! Undefined names are errors, and every expression is escaped as JSON, so that any text of a user is one YAML scalar that
//! reads back as that text. Templates therefore never put quotes around an expression; they join text with `~`.

use std::{collections::BTreeMap, fs, path::Path};

use minijinja::{
    Environment, Output, State, UndefinedBehavior, Value as Variable, syntax::SyntaxConfig,
    value::Serde,
};
use serde::Serialize;
use serde_json::Value;

use super::{Component, RenderError, objects};

/// Renders the templates of all components.
pub struct Renderer {
    environment: Environment<'static>,
    /// The templates by directory, sorted by file name.
    files: BTreeMap<String, Vec<String>>,
}

impl Renderer {
    /// With the templates that are built in.
    pub fn embedded() -> Result<Self, RenderError> {
        let mut environment = environment()?;
        embedded(&mut environment);
        let names: Vec<String> = environment
            .templates()
            .map(|(name, _)| name.to_owned())
            .collect();
        Ok(Self {
            environment,
            files: by_directory(names),
        })
    }

    /// With the templates of a directory, `<component>/NNN-name.yaml`, in place of those built in.
    ///
    /// Other files are left alone. A component without a template is an error: an empty or mistyped directory must
    /// not look like a wish to remove everything.
    pub fn from_dir(directory: &Path) -> Result<Self, RenderError> {
        let mut environment = environment()?;
        let mut names = Vec::new();
        for component in Component::directories() {
            let path = directory.join(component);
            let fault = |path: &Path, error: &dyn std::fmt::Display| RenderError::Directory {
                path: path.to_owned(),
                problem: error.to_string(),
            };
            let before = names.len();
            for entry in fs::read_dir(&path).map_err(|error| fault(&path, &error))? {
                let file = entry.map_err(|error| fault(&path, &error))?.path();
                let Some(file_name) = file.file_name().and_then(|name| name.to_str()) else {
                    continue;
                };
                let is_template = file
                    .extension()
                    .is_some_and(|extension| extension == "yaml");
                if file_name.starts_with('.') || !is_template {
                    continue;
                }
                let name = format!("{component}/{file_name}");
                let text = fs::read_to_string(&file).map_err(|error| fault(&file, &error))?;
                environment
                    .add_template_owned(name.clone(), text)
                    .map_err(|error| template_error(&name, &error))?;
                names.push(name);
            }
            if names.len() == before {
                return Err(fault(&path, &"no file named NNN-name.yaml"));
            }
        }
        Ok(Self {
            environment,
            files: by_directory(names),
        })
    }

    /// The objects that the templates of a directory make of this input, without labels and owners of ours.
    pub(super) fn objects(
        &self,
        directory: &str,
        input: &impl Serialize,
    ) -> Result<Vec<Value>, RenderError> {
        let mut rendered = Vec::new();
        for file in self.files.get(directory).into_iter().flatten() {
            let template = self
                .environment
                .get_template(file)
                .map_err(|error| template_error(file, &error))?;
            let text = template
                .render(Variable::from(Serde(input)))
                .map_err(|error| template_error(file, &error))?;
            rendered.extend(objects::parse(file, &text)?);
        }
        Ok(rendered)
    }
}

/// Generated at build time, where a template that does not parse stops the build.
#[allow(
    clippy::expect_used,
    reason = "the generated code has it, and the build has checked it"
)]
fn embedded(environment: &mut Environment<'static>) {
    minijinja_embed::load_templates!(*environment);
}

fn environment() -> Result<Environment<'static>, RenderError> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .build()
        .map_err(|error| template_error("", &error))?;
    environment.set_syntax(syntax);
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_formatter(write_scalar);
    // Without it errors name no variable.
    environment.set_debug(true);
    Ok(environment)
}

fn by_directory(mut names: Vec<String>) -> BTreeMap<String, Vec<String>> {
    names.sort();
    let mut files: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in names {
        if let Some((directory, _)) = name.split_once('/') {
            files.entry(directory.to_owned()).or_default().push(name);
        }
    }
    files
}

/// Names the line and what is wrong there; for something undefined, its name.
fn template_error(file: &str, error: &minijinja::Error) -> RenderError {
    let detail = error
        .detail()
        .map(|detail| format!(": {detail}"))
        .unwrap_or_default();
    RenderError::Template {
        file: file.to_owned(),
        line: error.line().unwrap_or_default(),
        problem: format!("{}{detail}", error.kind()),
    }
}

/// Writes a value as JSON in ASCII, which is YAML whatever the text holds.
///
/// Plain JSON is not enough: YAML folds some line separators outside ASCII, refuses others, and knows no
/// surrogate pairs.
fn write_scalar(out: &mut Output, _: &mut State, value: &Variable) -> Result<(), minijinja::Error> {
    let json = serde_json::to_string(value).map_err(|error| {
        minijinja::Error::new(minijinja::ErrorKind::BadSerialization, error.to_string())
    })?;
    for character in json.chars() {
        match u32::from(character) {
            0x20..0x7f => write!(out, "{character}")?,
            code @ 0..=0xffff => write!(out, "\\u{code:04x}")?,
            code => write!(out, "\\U{code:08x}")?,
        }
    }
    Ok(())
}
