//! Embeds the templates, and refuses to build when one of them is no template.

use std::{error::Error, fs, path::Path};

const TEMPLATES: &str = "templates";

fn main() -> Result<(), Box<dyn Error>> {
    check(Path::new(TEMPLATES))?;
    minijinja_embed::embed_templates!(TEMPLATES, &[".yaml"]);
    println!("cargo:rerun-if-changed=build.rs");
    Ok(())
}

/// Parses every template, so that a mistake is a build error.
fn check(directory: &Path) -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={}", directory.display());
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            check(&path)?;
            continue;
        }
        let name = path.display().to_string();
        minijinja::Environment::new()
            .add_template_owned(name.clone(), fs::read_to_string(&path)?)
            .map_err(|error| format!("{name} is no template: {error:#}"))?;
    }
    Ok(())
}
