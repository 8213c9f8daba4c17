//! Why something could not be rendered.

use std::path::PathBuf;

/// A fault in a template or in what it was given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// The directory of templates cannot be used.
    #[error("templates directory {path}: {problem}", path = path.display())]
    Directory {
        /// The directory or a file in it.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The template itself is wrong, or names something that it is not given.
    #[error("template {file}, line {line}: {problem}")]
    Template {
        /// The template, relative to the directory of templates.
        file: String,
        /// The line in the template.
        line: usize,
        /// What is wrong, with the expression concerned.
        problem: String,
    },
    /// What the template renders to is no YAML.
    #[error("template {file} renders to what is no YAML: {problem}")]
    Yaml {
        /// The template, relative to the directory of templates.
        file: String,
        /// What is wrong and where in the rendered text.
        problem: String,
    },
    /// A rendered document is no object that can be applied.
    #[error("template {file}, document {document}: {problem}")]
    Object {
        /// The template, relative to the directory of templates.
        file: String,
        /// The document's number in the file, from 1.
        document: usize,
        /// What is wrong, with the path of the field.
        problem: String,
    },
}

/// Why a component that is switched on has no objects.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ComponentError {
    /// An image that it needs is not set. The other components go on.
    #[error("{variable} is not set: it must name the image of the component that is switched on")]
    ImageNotSet {
        /// The environment variable.
        variable: &'static str,
    },
    /// The config asks for what this platform cannot do. Trying again is of no use before the config changes.
    #[error("{0}")]
    Unsupported(&'static str),
    /// Its templates cannot be rendered.
    #[error(transparent)]
    Render(#[from] RenderError),
}
