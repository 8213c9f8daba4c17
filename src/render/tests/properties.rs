//! Any text in any place where users put text renders to exactly that text.

use std::collections::BTreeMap;

use proptest::{prelude::*, test_runner::TestRunner};
use serde_json::{Value, json};

use super::super::{
    Component, ComponentInput as _, ConfigDaemon, DevicePlugin, Injector, MachineConfig,
    MetricsExporter, OperatorWebhook, Owner, Owners, Renderer, Switches,
};
use super::World;
use crate::{
    api::SriovOperatorConfigSpec,
    features::Features,
    render::{Facts, Registration},
    settings::{Flags, Settings},
};

/// Texts that break templates: quotes, escapes, things that look like other types, template syntax, line separators.
fn text() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "true",
        "~",
        "null",
        "007",
        "1e3",
        ".inf",
        "0x1F",
        "a: b",
        "- a",
        "# a",
        "&a *b",
        "!!int 1",
        "{{ a }}",
        "{% if %}",
        "{# a #}",
        "\"",
        "'",
        "\\",
        "\\n",
        "\n",
        "\r\n",
        "\t",
        " ",
        "",
        "---",
        "...",
        "|",
        ">-",
        "<<",
        "=",
        "2001-01-01",
        "$(A)",
        "\u{85}",
        "\u{a0}",
        "\u{2028}",
        "\u{2029}",
        "\u{feff}",
        "\u{7f}",
        "\u{0}",
        "\u{fffe}",
        "\u{1f600}",
        "é",
        "@a",
        "`a`",
        "%a",
        "[a, b]",
        "{a: b}",
        "yes",
        "NO",
    ]);
    prop_oneof![
        any::<String>(),
        ".{0,300}",
        words.clone().prop_map(str::to_owned),
        prop::collection::vec(words, 1..6).prop_map(|words| words.concat()),
    ]
}

/// The inputs of all components, with everything switched on.
struct Inputs {
    operator_webhook: OperatorWebhook,
    injector: Injector,
    config_daemon: ConfigDaemon,
    device_plugin: DevicePlugin,
    metrics_exporter: MetricsExporter,
    machine_config: MachineConfig,
}

impl Inputs {
    fn new() -> Self {
        let world = World::new()
            .openshift()
            .gate("metricsExporter", true)
            .config("configurationMode", json!("systemd"))
            .config("useCDI", json!(true))
            .config("configDaemonEnvVars", json!({"A": "b"}))
            .with("OVS_CNI_IMAGE", "a")
            .with("RDMA_CNI_IMAGE", "a")
            .with("IMAGE_PULL_SECRETS", "a")
            .with("ADMISSION_SERVING", "dedicated")
            .with("METRICS_EXPORTER_PROMETHEUS_OPERATOR_ENABLED", "true")
            .with("METRICS_EXPORTER_PROMETHEUS_DEPLOY_RULES", "true");
        let spec: SriovOperatorConfigSpec = serde_json::from_value(world.config.clone()).unwrap();
        let settings = Settings::read(&Flags::default(), world.environment.clone()).unwrap();
        let registration = Registration::default();
        let facts = Facts {
            config: &spec,
            settings: &settings,
            features: &Features::new(spec.feature_gates.iter().flatten()),
            hypershift: false,
            cluster_tls: None,
            operator_registration: &registration,
            validating_registration: &registration,
            injector_registration: &registration,
            injector_condition: "true",
        };
        Self {
            operator_webhook: OperatorWebhook::from_facts(&facts).unwrap().unwrap(),
            injector: Injector::from_facts(&facts).unwrap().unwrap(),
            config_daemon: ConfigDaemon::from_facts(&facts).unwrap().unwrap(),
            device_plugin: DevicePlugin::from_facts(&facts).unwrap().unwrap(),
            metrics_exporter: MetricsExporter::from_facts(&facts).unwrap().unwrap(),
            machine_config: MachineConfig::from_facts(&facts).unwrap().unwrap(),
        }
    }

    /// The component's input as JSON, where a text can be put anywhere.
    fn json(&self, component: Component) -> Value {
        match component {
            Component::OperatorWebhook => serde_json::to_value(&self.operator_webhook),
            Component::Injector => serde_json::to_value(&self.injector),
            Component::ConfigDaemon => serde_json::to_value(&self.config_daemon),
            Component::DevicePlugin => serde_json::to_value(&self.device_plugin),
            Component::MetricsExporter => serde_json::to_value(&self.metrics_exporter),
            Component::MachineConfig => serde_json::to_value(&self.machine_config),
        }
        .unwrap()
    }
}

/// The paths of all texts in a value.
fn texts(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::String(_) => found.push(path.to_owned()),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                texts(item, &format!("{path}/{index}"), found);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                let name = name.replace('~', "~0").replace('/', "~1");
                texts(field, &format!("{path}/{name}"), found);
            }
        }
        _ => {}
    }
}

/// Replaces a text wherever it stands, alone or within another text.
fn replace(value: &mut Value, from: &str, to: &str) {
    match value {
        Value::String(text) if text.contains(from) => *text = text.replace(from, to),
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, from, to)),
        Value::Object(fields) => fields
            .values_mut()
            .for_each(|field| replace(field, from, to)),
        _ => {}
    }
}

const MARK: &str = "harmless-mark";

/// Every place of every input.
fn places(inputs: &Inputs) -> Vec<(Component, String)> {
    let mut all = Vec::new();
    for component in Component::ALL {
        let mut found = Vec::new();
        texts(&inputs.json(component), "", &mut found);
        all.extend(found.into_iter().map(|place| (component, place)));
    }
    all
}

fn render_with(
    renderer: &Renderer,
    component: Component,
    input: &Value,
    place: &str,
    text: &str,
) -> Vec<Value> {
    let mut input = input.clone();
    *input.pointer_mut(place).unwrap() = text.into();
    renderer.objects(component.name(), &input).unwrap()
}

/// What is rendered is what the harmless text renders to, with the one text in place of the other.
fn expected(harmless: &[Value], text: &str) -> Vec<Value> {
    let mut expected = Value::Array(harmless.to_vec());
    replace(&mut expected, MARK, text);
    expected.as_array().cloned().unwrap()
}

#[test]
fn awkward_texts_render_verbatim_everywhere() {
    let renderer = Renderer::embedded().unwrap();
    let inputs = Inputs::new();
    let texts = [
        "a: \"b\" \\ #\n'c' {{ namespace }}",
        "007",
        "\u{2028}\u{1f600}\u{0}",
    ];
    for (component, place) in places(&inputs) {
        let input = inputs.json(component);
        let harmless = render_with(&renderer, component, &input, &place, MARK);
        for text in texts {
            let with_text = render_with(&renderer, component, &input, &place, text);
            assert_eq!(with_text, expected(&harmless, text), "{component} {place}");
        }
    }
}

#[test]
fn any_text_renders_verbatim_anywhere() {
    let renderer = Renderer::embedded().unwrap();
    let inputs = Inputs::new();
    let places = places(&inputs);
    let not_empty = text().prop_filter("an empty text switches things off", |t| !t.is_empty());
    let mut runner = TestRunner::new(ProptestConfig::with_cases(200));
    let strategy = (
        not_empty,
        prop::sample::select((0..places.len()).collect::<Vec<_>>()),
    );
    runner
        .run(&strategy, |(text, index)| {
            let (component, place) = &places[index];
            let input = inputs.json(*component);
            let harmless = render_with(&renderer, *component, &input, place, MARK);
            let with_text = render_with(&renderer, *component, &input, place, &text);
            prop_assert_eq!(
                with_text,
                expected(&harmless, &text),
                "{} {}",
                component,
                place
            );
            Ok(())
        })
        .unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn any_environment_and_selector_arrive(
        variables in prop::collection::btree_map(text(), text(), 0..5),
        selector in prop::collection::btree_map(text(), text(), 0..5),
    ) {
        let world = World::new()
            .config("configDaemonEnvVars", json!(variables))
            .config("configDaemonNodeSelector", json!(selector));
        let daemon_set = world.object(Component::ConfigDaemon, "DaemonSet");
        let pod = super::pod(&daemon_set);
        if !selector.is_empty() {
            prop_assert_eq!(&pod["nodeSelector"], &json!(selector));
        }
        let env: BTreeMap<&str, &str> = pod["containers"][0]["env"]
            .as_array()
            .unwrap()
            .iter()
            .skip(4)
            .map(|variable| (variable["name"].as_str().unwrap(), variable["value"].as_str().unwrap()))
            .collect();
        let given: BTreeMap<&str, &str> = variables.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        prop_assert_eq!(env, given);
    }

    #[test]
    fn any_owner_and_namespace_arrive(name in text(), uid in text(), namespace in text()) {
        let renderer = Renderer::embedded().unwrap();
        let owners = Owners {
            config: Some(Owner { name: name.clone(), uid: uid.clone() }),
            namespace: None,
        };
        prop_assume!(!namespace.is_empty());
        let objects = renderer.switches(&Switches { namespace: namespace.clone() }, &owners).unwrap();
        let metadata = &objects[0]["metadata"];
        prop_assert_eq!(&metadata["namespace"], &json!(namespace));
        prop_assert_eq!(&metadata["ownerReferences"][0]["uid"], &json!(uid));
    }
}
