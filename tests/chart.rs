//! The chart and what is generated from it: what Helm 3 and 4 render for values, that the rights are those that the operator
//! uses, that the documents are up to date, and installations into a real API server.

mod documents;
mod helm;
mod installation;
mod matrix;
mod objects;
mod rights;

use anyhow::Result;
use serde_json::{Value, json};

use crate::support::user::User;

/// Gives the operator's account the roles that the chart makes for this serving, `in-process` or `dedicated`.
pub(crate) async fn grant(admin: &User, serving: &str) -> Result<()> {
    let values = json!({ "operator": { "admissionControllers": { "serving": serving } } });
    grant_for(admin, &values).await
}

/// Gives the operator's account the roles that the chart makes for these values.
pub(crate) async fn grant_for(admin: &User, values: &Value) -> Result<()> {
    let objects = helm::render(values)?;
    for kind in ["Role", "ClusterRole"] {
        admin.apply(objects.get(kind, helm::RELEASE)?).await?;
    }
    Ok(())
}
