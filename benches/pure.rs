//! The pure paths: the time of one call, and the instructions of one call where valgrind is installed. Instructions
//! repeat from run to run, so they are what a later run is compared by.

use std::{
    collections::BTreeMap,
    hint::black_box,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::value::RawValue;
use sriov_operator::{
    api::SriovOperatorConfigSpec,
    features::Features,
    inject::{self, Nad, Nads, Outcome, PodReview, Switches, match_condition},
    policy::{self, Kind, Operation, Rules, Subject},
    render::{self, Facts, Owners, Registration, Renderer},
    settings::{Flags, Settings},
};

use crate::{
    load::count,
    plot::Plot,
    report::{Bar, Report},
    support::NAMESPACE,
    world,
};

/// The paths by name.
const PATHS: [&str; 8] = [
    "inject-without-networks",
    "inject-two-networks",
    "default-policy",
    "validate-among-100",
    "validate-among-1000",
    "validate-among-5000",
    "validate-among-10000",
    "render-everything",
];
/// Those whose instructions are counted: a cluster of ten thousand takes minutes to make under callgrind.
const COUNTED: [&str; 5] = [
    "inject-without-networks",
    "inject-two-networks",
    "default-policy",
    "validate-among-1000",
    "render-everything",
];
/// How long the time of one path is measured.
const TIME: Duration = Duration::from_millis(400);
/// Calls under callgrind, where each takes some fifty times as long.
const CALLS: usize = 10;

/// Calls a path so often, for callgrind.
pub(crate) fn run(name: &str, calls: usize) -> Result<()> {
    let call = path(name)?;
    for _ in 0..calls {
        call();
    }
    Ok(())
}

/// Measures all paths.
pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let mut times = BTreeMap::new();
    for name in PATHS {
        let micros = time(&*path(name)?);
        // Of a validation over TLS, 0.5 ms may be ours.
        let bar = match name {
            "validate-among-5000" => Bar::AtMost(500.0),
            _ => Bar::None,
        };
        report.figure(format!("{name}, one call"), micros, "us", bar);
        times.insert(name, micros);
    }
    let growth = times["validate-among-10000"] / times["validate-among-1000"];
    report.figure(
        "validation among 10000 nodes to that among 1000",
        growth,
        "times",
        Bar::AtMost(1.5),
    );
    report.plot(Plot {
        file: "validation",
        title: "One validation that selects 125 nodes",
        unit: "us",
        size: "nodes",
        points: [100_u32, 1_000, 5_000, 10_000]
            .map(|nodes| {
                (
                    nodes.into(),
                    times[format!("validate-among-{nodes}").as_str()],
                )
            })
            .into(),
        limit: Some(500.0),
    });
    match instructions(PATHS[0], 0) {
        Err(error) => println!("  no instruction counts: {error:#}"),
        Ok(_) => {
            for name in COUNTED {
                let none = instructions(name, 0)?;
                let some = instructions(name, CALLS)?;
                let each = (some - none) / count(CALLS);
                report.tell(format!("{name}, one call"), each, "instr");
            }
        }
    }
    Ok(())
}

/// What a call takes, in microseconds: that of the fastest tenth, since what else the machine does only adds to it.
fn time(call: &dyn Fn()) -> f64 {
    let start = Instant::now();
    let mut times = Vec::new();
    while start.elapsed() < TIME || times.len() < 20 {
        let begin = Instant::now();
        call();
        times.push(begin.elapsed());
    }
    times.sort_unstable();
    times[times.len() / 10].as_secs_f64() * 1e6
}

/// What callgrind counts of a process that calls a path so often.
fn instructions(name: &str, calls: usize) -> Result<f64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe()?)
        .args(["pure", name, &calls.to_string()])
        .output()
        .context("valgrind is not installed")?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "valgrind failed: {told}");
    let collected = told
        .lines()
        .find_map(|line| line.split_once("Collected :"))
        .context("valgrind told no count")?;
    Ok(collected.1.trim().parse()?)
}

/// A path, ready to be called.
fn path(name: &str) -> Result<Box<dyn Fn()>> {
    if let Some(nodes) = name.strip_prefix("validate-among-") {
        return Ok(validate(nodes.parse()?));
    }
    Ok(match name {
        "inject-without-networks" => inject(None)?,
        "inject-two-networks" => inject(Some(&format!(
            "{},{}",
            world::nad_name(0),
            world::nad_name(1)
        )))?,
        "default-policy" => default_policy(),
        "render-everything" => render_everything()?,
        _ => bail!("there is no path {name}; there are {}", PATHS.join(", ")),
    })
}

fn inject(networks: Option<&str>) -> Result<Box<dyn Fn()>> {
    let pod = RawValue::from_string(world::pod(networks).to_string())?;
    let mut nads = Nads::default();
    for number in 0..2 {
        let object = world::nad(number);
        let annotations = &object["metadata"]["annotations"];
        let keys = ["k8s.v1.cni.cncf.io/resourceName".to_owned()];
        let nad = Nad::new(&keys, |key| annotations[key].as_str());
        nads.insert("default", &world::nad_name(number), nad);
    }
    let switches = Switches {
        hugepages: true,
        ..Switches::default()
    };
    let patched = networks.is_some();
    Ok(Box::new(move || {
        let review = PodReview::new("default", &pod);
        let outcome =
            review.map(|pod| inject::decide(&pod, &nads, &switches, &inject::Options::default()));
        let expected = match outcome {
            Ok(Outcome::Patched { .. }) => patched,
            Ok(Outcome::Unchanged { .. }) => !patched,
            _ => false,
        };
        assert!(expected, "the pod is not what it should be");
    }))
}

fn rules() -> Rules {
    Rules {
        namespace: NAMESPACE.to_owned(),
        dev_mode: false,
        known_gates: Vec::new(),
    }
}

fn subject(object: &str) -> Subject<'_> {
    Subject {
        kind: Kind::NodePolicy,
        operation: Operation::Create,
        name: "asked",
        namespace: NAMESPACE,
        object: Some(object),
        old: None,
    }
}

fn validate(nodes: usize) -> Box<dyn Fn()> {
    let (cluster, rules) = (world::cluster(nodes), rules());
    let object = world::asked_policy().to_string();
    Box::new(move || {
        let verdict = policy::validate(&subject(&object), (&cluster).into(), &rules);
        assert!(verdict.allowed(), "{}", verdict.status_message());
    })
}

fn default_policy() -> Box<dyn Fn()> {
    let mut object = world::asked_policy();
    if let Some(spec) = object["spec"].as_object_mut() {
        spec.remove("isRdma");
    }
    let object = object.to_string();
    Box::new(move || {
        assert!(policy::default_node_policy(&subject(&object)).is_some());
    })
}

fn render_everything() -> Result<Box<dyn Fn()>> {
    let images = [
        "SRIOV_NETWORK_CONFIG_DAEMON_IMAGE",
        "SRIOV_CNI_IMAGE",
        "SRIOV_DEVICE_PLUGIN_IMAGE",
        "SRIOV_NETWORK_WEBHOOK_IMAGE",
        "NETWORK_RESOURCES_INJECTOR_IMAGE",
        "METRICS_EXPORTER_IMAGE",
    ];
    let environment = images.map(|name| (name, "example.com/image")).into_iter();
    let environment = environment.chain([
        ("NAMESPACE", NAMESPACE),
        ("CLUSTER_TYPE", "kubernetes"),
        ("RESOURCE_PREFIX", "openshift.io"),
    ]);
    let settings = Settings::read(&Flags::default(), environment)?;
    let spec: SriovOperatorConfigSpec = serde_json::from_value(serde_json::json!({
        "enableInjector": true, "enableOperatorWebhook": true, "featureGates": {"metricsExporter": true},
    }))?;
    let renderer = Renderer::embedded()?;
    Ok(Box::new(move || {
        let features = Features::new(spec.feature_gates.iter().flatten());
        let registration = Registration::default();
        let facts = Facts {
            config: &spec,
            settings: &settings,
            features: &features,
            hypershift: false,
            cluster_tls: None,
            operator_registration: &registration,
            validating_registration: &registration,
            injector_registration: &registration,
            injector_condition: &match_condition(&Switches::default()),
        };
        black_box(render::all(&renderer, &facts, &Owners::default()));
    }))
}
