//! The golden files: what each variant renders to, in full. `UPDATE_GOLDEN=1 cargo test golden` writes them anew.

use std::{env, fmt::Write as _, fs, path::Path};

use serde_json::Value;

use super::{ComponentError, Desired, World, variants};

/// The objects of a variant as YAML documents, in the order in which they are applied.
fn documents(world: &World) -> String {
    let mut text = String::new();
    for (component, outcome) in world.all() {
        match outcome {
            Ok(Desired::Off) => writeln!(text, "# {component}: off").unwrap(),
            Err(ComponentError::Render(error)) => panic!("{error}"),
            Err(error) => writeln!(text, "# {component}: {error}").unwrap(),
            Ok(Desired::On(rendered)) => {
                for warning in &rendered.warnings {
                    writeln!(text, "# {component}: warning: {warning}").unwrap();
                }
                for object in &rendered.objects {
                    text.push_str(&document(&component.to_string(), object));
                }
                for object in &rendered.created_once {
                    text.push_str(&document(&format!("{component}, created once"), object));
                }
            }
        }
    }
    text
}

fn document(title: &str, object: &Value) -> String {
    format!(
        "---\n# {title}\n{}",
        serde_saphyr::to_string(object).unwrap()
    )
}

#[test]
fn golden() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/golden");
    let update = env::var_os("UPDATE_GOLDEN").is_some();
    for (name, world) in variants::all() {
        let path = directory.join(format!("{name}.yaml"));
        let rendered = documents(&world);
        if update {
            fs::write(&path, &rendered).unwrap();
        }
        let golden = fs::read_to_string(&path).unwrap_or_default();
        if let Some((number, (is, was))) = rendered
            .lines()
            .zip(golden.lines().chain(std::iter::repeat("<end>")))
            .enumerate()
            .find(|(_, (is, was))| is != was)
        {
            panic!(
                "{name}.yaml, line {}: is {is:?}, was {was:?}; UPDATE_GOLDEN=1 accepts it",
                number + 1
            );
        }
        assert_eq!(
            rendered.len(),
            golden.len(),
            "{name}.yaml ends early; UPDATE_GOLDEN=1 accepts it"
        );
    }
}

#[test]
fn no_golden_file_is_left_over() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/golden");
    for entry in fs::read_dir(directory).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        let known = variants::all()
            .iter()
            .any(|(name, _)| file == format!("{name}.yaml"));
        assert!(known, "{file} belongs to no variant");
    }
}

#[test]
fn every_golden_document_reads_back() {
    for (name, world) in variants::all() {
        let objects: Vec<Value> = serde_saphyr::from_multiple(&documents(&world)).unwrap();
        let rendered: usize = world
            .all()
            .iter()
            .map(|(_, outcome)| match outcome {
                Ok(Desired::On(rendered)) => rendered.objects.len() + rendered.created_once.len(),
                _ => 0,
            })
            .sum();
        assert_eq!(objects.len(), rendered, "{name}");
    }
}
