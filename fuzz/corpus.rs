//! The inputs: recorded objects, and ways to break them. It knows nothing of what is done with them.

use std::sync::LazyLock;

use proptest::{prelude::*, sample::Index, sample::select};
use serde_json::{Value, json};

fn recorded(file: &str) -> Value {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/conformance")
        .join(file);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn objects(files: &[&str]) -> Vec<Value> {
    let cases = files.iter().map(|file| recorded(file));
    cases
        .flat_map(|cases| cases.as_array().unwrap().clone())
        .map(|case| case["object"].clone())
        .collect()
}

/// Pods.
pub(crate) fn pods() -> &'static [Value] {
    static PODS: LazyLock<Vec<Value>> = LazyLock::new(|| objects(&["pod.json"]));
    &PODS
}

/// Custom resources that admission is asked about.
pub(crate) fn custom_resources() -> &'static [Value] {
    static ALL: LazyLock<Vec<Value>> = LazyLock::new(|| {
        objects(&[
            "policy.json",
            "config.json",
            "pool.json",
            "net-sn.json",
            "net-ib.json",
            "net-ovs.json",
        ])
    });
    &ALL
}

/// Configs.
pub(crate) fn configs() -> &'static [Value] {
    static CONFIGS: LazyLock<Vec<Value>> = LazyLock::new(|| objects(&["config.json"]));
    &CONFIGS
}

/// What the recorded cluster holds.
pub(crate) fn stored() -> &'static [Value] {
    static STORED: LazyLock<Vec<Value>> = LazyLock::new(|| {
        recorded("world.json")["objects"]
            .as_array()
            .unwrap()
            .clone()
    });
    &STORED
}

/// A review of a recorded object.
pub(crate) fn review(case: Index, changes: &[Change]) -> Value {
    let (pods, others) = (pods(), custom_resources());
    let index = case.index(pods.len() + others.len());
    let object = pods
        .get(index)
        .unwrap_or_else(|| &others[index - pods.len()]);
    let (group, version) = object["apiVersion"]
        .as_str()
        .and_then(|version| version.split_once('/'))
        .unwrap_or(("", "v1"));
    let metadata = &object["metadata"];
    let mut review = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": {"group": group, "version": version, "kind": object["kind"]},
            "resource": {"group": group, "version": version, "resource": "any"},
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "operation": if index.is_multiple_of(3) { "UPDATE" } else { "CREATE" },
            "userInfo": {"username": "admin", "groups": ["system:masters"]},
            "object": object,
            "oldObject": null,
            "dryRun": false,
            "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
        },
    });
    change(&mut review, changes);
    review
}

/// One of these values, changed.
pub(crate) fn mutated(values: &[Value], case: Index, changes: &[Change]) -> Value {
    let mut value = case.get(values).clone();
    change(&mut value, changes);
    value
}

/// A change to one node of a JSON value.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Replace(Index, Value),
    Remove(Index),
    Repeat(Index),
    Rename(Index, String),
}

/// A few changes; often none, so that what is right is seen, too.
pub(crate) fn changes() -> impl Strategy<Value = Vec<Change>> {
    let change = prop_oneof![
        4 => (any::<Index>(), values()).prop_map(|(at, value)| Change::Replace(at, value)),
        1 => any::<Index>().prop_map(Change::Remove),
        1 => any::<Index>().prop_map(Change::Repeat),
        1 => (any::<Index>(), texts()).prop_map(|(at, key)| Change::Rename(at, key)),
    ];
    prop::collection::vec(change, 0..6)
}

/// Texts that mean something somewhere, and any others.
pub(crate) fn texts() -> impl Strategy<Value = String> {
    let known = select(vec![
        "",
        " ",
        ",",
        "foo",
        "foo,",
        ",foo",
        "foo, foo",
        "a/b/c",
        "../../x",
        "foo@net1",
        "foo@",
        "@",
        "foo@net1.100",
        "[]",
        "[{}]",
        r#"[{"name":"foo"}]"#,
        r#"[{"name":"foo","namespace":"a/b"}]"#,
        r#"{"name":"foo"}"#,
        "[",
        "null",
        r#"[{"name":"foo","ips":["10.0.0.1/24"],"mac":"02:00:00:00:00:01","interface":"net1"}]"#,
        "ens1f0",
        "ens1f0#0-3",
        "ens1#3",
        "ens1#3-0",
        "ens1##",
        "#",
        "ens1f0#0-99999999999",
        "15B3",
        "8086",
        "158b",
        "openstack/NetworkID:x",
        "aws/NetworkID : y",
        "/",
        "default",
        "kube-system",
        "sriov-network-operator",
        "1",
        "0",
        "-1",
        "1e3",
        "0.5",
        "1Ki",
        "9223372036854775807",
        "1e999999999",
        "true",
        "TRUE",
        "False",
        "example.com/foo",
        "a=b",
        "a=b,c=d",
        "a==b",
        "=",
        "k8s.v1.cni.cncf.io/networks",
        "\u{0}",
        "\u{7f}\u{2028}",
        "é",
        "InProgress",
        "10%",
        "101%",
        "vfio-pci",
        "switchdev",
        "IB",
        "{}",
        "{{ x }}",
        "{% raw %}",
        "\"",
        "\\",
        "\n- a: b",
    ]);
    let known = known.prop_map(str::to_owned);
    prop_oneof![
        6 => known.clone(),
        2 => prop::collection::vec(known, 2..4).prop_map(|parts| parts.concat()),
        1 => ".{0,20}",
        1 => (1_usize..400).prop_map(|length| "a".repeat(length)),
    ]
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        6 => texts().prop_map(Value::from),
        2 => select(vec![0_i64, 1, -1, 2, 64, 128, 129, i64::MAX, i64::MIN]).prop_map(Value::from),
        1 => any::<f64>().prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
    ];
    leaf.prop_recursive(2, 8, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((texts(), inner), 0..4)
                .prop_map(|fields| fields.into_iter().collect::<serde_json::Map<_, _>>().into()),
        ]
    })
}

fn change(value: &mut Value, changes: &[Change]) {
    for change in changes {
        let nodes = size(value);
        match change {
            Change::Replace(at, by) => {
                at_node(value, at.index(nodes), &mut |node| *node = by.clone());
            }
            Change::Remove(at) => at_node(value, at.index(nodes), &mut |node| match node {
                Value::Array(items) => drop(items.pop()),
                Value::Object(fields) => {
                    if let Some(first) = fields.keys().next().cloned() {
                        fields.remove(&first);
                    }
                }
                other => *other = Value::Null,
            }),
            Change::Repeat(at) => at_node(value, at.index(nodes), &mut |node| match node {
                Value::Array(items) => items.extend(items.clone()),
                Value::String(text) => *text = text.repeat(2),
                other => *other = json!([other.clone(), other.clone()]),
            }),
            Change::Rename(at, key) => at_node(value, at.index(nodes), &mut |node| {
                if let Value::Object(fields) = node
                    && let Some(first) = fields.keys().next().cloned()
                    && let Some(moved) = fields.remove(&first)
                {
                    fields.insert(key.clone(), moved);
                }
            }),
        }
    }
}

fn children(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Array(items) => Box::new(items.iter()),
        Value::Object(fields) => Box::new(fields.values()),
        _ => Box::new(std::iter::empty()),
    }
}

fn size(value: &Value) -> usize {
    1 + children(value).map(size).sum::<usize>()
}

/// Does something to the node of this number, parents before children.
fn at_node(value: &mut Value, number: usize, act: &mut dyn FnMut(&mut Value)) {
    if number == 0 {
        return act(value);
    }
    let children: Box<dyn Iterator<Item = &mut Value> + '_> = match value {
        Value::Array(items) => Box::new(items.iter_mut()),
        Value::Object(fields) => Box::new(fields.values_mut()),
        _ => return,
    };
    let mut left = number - 1;
    for child in children {
        let nodes = size(child);
        if left < nodes {
            return at_node(child, left, act);
        }
        left -= nodes;
    }
}

/// A breakage of the bytes on the wire.
#[derive(Clone, Debug)]
pub(crate) enum Mangled {
    Whole,
    Cut(Index),
    Byte(Index, u8),
    Twice,
}

pub(crate) fn mangled() -> impl Strategy<Value = Mangled> {
    prop_oneof![
        6 => Just(Mangled::Whole),
        1 => any::<Index>().prop_map(Mangled::Cut),
        2 => any::<(Index, u8)>().prop_map(|(at, byte)| Mangled::Byte(at, byte)),
        1 => Just(Mangled::Twice),
    ]
}

impl Mangled {
    pub(crate) fn apply(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        match self {
            Self::Whole => {}
            Self::Cut(at) => bytes.truncate(at.index(bytes.len())),
            Self::Byte(at, byte) => {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            Self::Twice => bytes.extend(bytes.clone()),
        }
        bytes
    }
}
