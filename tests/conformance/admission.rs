//! Cases of admission: each object is sent to the API server as a dry run, through the webhooks as registered.

use anyhow::{Context, Result, bail};
use futures::StreamExt as _;
use serde_json::Value;

use super::{Outcome, compare, data, judge};
use crate::support::cluster::Cluster;
use crate::support::kinds::{POD, text};
use crate::support::scene::{self, Scene};
use crate::support::user::{Answer, Refuser, User};
use crate::support::{manifests, world};

const FILES: [&str; 7] = [
    "config.json",
    "net-ib.json",
    "net-ovs.json",
    "net-sn.json",
    "pod.json",
    "policy.json",
    "pool.json",
];
/// Requests under way at a time.
const WIDTH: usize = 8;

#[tokio::test]
async fn every_recorded_admission_case_is_answered_as_recorded() -> Result<()> {
    let mut scene = Scene::bare(Cluster::boot().await?).await?;
    load_world(scene.admin()).await?;
    scene.operator.start()?;
    scene.is_ready().await?;
    scene
        .has_webhooks(&[scene::OPERATOR_WEBHOOKS, scene::INJECTOR_WEBHOOK].concat())
        .await?;

    let mut cases = Vec::new();
    for file in FILES {
        let read: Vec<Value> = serde_json::from_value(data(file)?)?;
        cases.extend(read);
    }
    let admin = scene.admin();
    let outcomes: Vec<Result<Outcome>> = futures::stream::iter(&cases)
        .map(async |case| outcome(admin, case).await)
        .buffered(WIDTH)
        .collect()
        .await;
    judge(&outcomes.into_iter().collect::<Result<Vec<_>>>()?)
}

async fn load_world(admin: &User) -> Result<()> {
    let world = data("world.json")?;
    let namespaces = world["namespaces"].as_array().context("no namespaces")?;
    for namespace in namespaces {
        manifests::namespace(admin, namespace.as_str().unwrap_or_default()).await?;
    }
    world::load(admin, world["objects"].as_array().context("no objects")?).await
}

async fn outcome(admin: &User, case: &Value) -> Result<Outcome> {
    let id = text(case, "/id").to_owned();
    let object = &case["object"];
    let answer = match text(case, "/operation") {
        "CREATE" => admin.ask_create(object).await,
        "UPDATE" => admin.ask_update(object).await,
        "DELETE" => admin.ask_delete(object).await,
        other => bail!("{id}: unknown operation {other}"),
    }
    .with_context(|| id.clone())?;
    let fault = fault(object, &case["expect"], &answer);
    Ok(Outcome { id, fault })
}

fn fault(object: &Value, expect: &Value, answer: &Answer) -> Option<String> {
    let wanted = if expect["allowed"] == true {
        None
    } else if expect["by"] == "webhook" {
        Some(Refuser::Webhook)
    } else {
        Some(Refuser::ApiServer)
    };
    if answer.refuser() != wanted {
        let said = if answer.allowed() {
            "it was allowed".to_owned()
        } else {
            format!("it was answered {}: {}", answer.code, answer.message())
        };
        let why = expect["why"]
            .as_str()
            .map_or_else(String::new, |why| format!(" ({why})"));
        return Some(match wanted {
            None => format!("should be allowed, but {said}{why}"),
            Some(refuser) => format!("should be refused by {refuser:?}, but {said}{why}"),
        });
    }
    if wanted == Some(Refuser::Webhook) && object["kind"] != POD.name && !names_a_field(answer) {
        return Some(format!("the refusal names no field: {}", answer.message()));
    }
    if expect["warns"] == true && answer.warnings.is_empty() {
        return Some("should come with a warning".to_owned());
    }
    let expected = expect.get("result")?;
    compare::difference(&compare::result(&answer.body), expected)
}

fn names_a_field(answer: &Answer) -> bool {
    answer
        .causes()
        .iter()
        .map(String::as_str)
        .chain([answer.message()])
        .any(|text| text.contains("spec.") || text.contains("metadata."))
}
