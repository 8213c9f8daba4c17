//! `/readyz`: whether the API server's next call would be answered, and believed.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::serving::{Called, Serving};
use crate::{
    api::SriovOperatorConfigSpec,
    certs::{
        bundle::Bundle,
        names::{OPERATOR_SERVICE, ServiceName},
        published::{Configuration, Published},
        serving::ServingStore,
    },
    server::{health, self_check},
};

/// The checks, by name: `shutdown`, `config-store`, `webhook-configurations`, `serving`, and `cluster-stores` and
/// `pod-stores` where there are some.
pub(super) fn checks(
    serving: &Serving,
    called: Vec<Called>,
    address: SocketAddr,
    leaving: CancellationToken,
) -> health::Checks {
    let mut checks = health::Checks::new().with("shutdown", move || {
        let leaving = leaving.is_cancelled();
        async move {
            if leaving {
                Err("the process is stopping".to_owned())
            } else {
                Ok(())
            }
        }
    });
    checks = stores(serving, checks);
    let published = serving.published.clone();
    checks = checks.with("webhook-configurations", move || {
        let complete = published.borrow().is_complete();
        async move {
            if complete {
                Ok(())
            } else {
                Err("not looked at yet".to_owned())
            }
        }
    });
    let (config, pairs, published) = (
        Arc::clone(&serving.stores.config),
        Arc::clone(&serving.pairs),
        serving.published.clone(),
    );
    checks.with("serving", move || {
        let config = config.spec().borrow().clone();
        let enabled: Vec<Called> = called
            .iter()
            .filter(|called| {
                config
                    .as_deref()
                    .is_some_and(|spec| is_enabled(spec, called.configurations))
            })
            .cloned()
            .collect();
        let first = called
            .first()
            .map(|called| called.endpoint.service.called_as())
            .unwrap_or_default();
        let (pairs, published) = (Arc::clone(&pairs), published.borrow().clone());
        async move {
            if enabled.is_empty() {
                return listens(address, &first).await;
            }
            for called in enabled {
                let service = &called.endpoint.service;
                let name = service.called_as();
                let pair = pairs.pair(service).ok_or_else(|| {
                    format!(
                        "there is no usable pair in Secret {}",
                        called.endpoint.secret
                    )
                })?;
                let now = Timestamp::now();
                pair.in_date(now)
                    .and_then(|()| pair.covers(&name))
                    .map_err(|error| format!("{name}: {error}"))?;
                if let Some(bundle) = common_bundle(&published, called.configurations) {
                    pair.trusted_by(&bundle, now)
                        .map_err(|error| format!("{name}: {error}"))?;
                }
                shows(address, &pairs, service).await?;
            }
            Ok(())
        }
    })
}

/// What has to hold before a configuration is registered, beside a pair that its bundle verifies: `config-store`,
/// `cluster-stores`, `pod-stores`, `listener`.
pub(super) fn own_checks(
    serving: &Serving,
    called: &[Called],
    address: SocketAddr,
) -> health::Checks {
    let pairs = Arc::clone(&serving.pairs);
    let services: Vec<ServiceName> = called
        .iter()
        .map(|called| called.endpoint.service.clone())
        .collect();
    stores(serving, health::Checks::new()).with("listener", move || {
        let (pairs, services) = (Arc::clone(&pairs), services.clone());
        async move {
            for service in services.iter().filter(|one| pairs.pair(one).is_some()) {
                shows(address, &pairs, service).await?;
            }
            Ok(())
        }
    })
}

/// The stores that this process judges by: listed, and fresh.
fn stores(serving: &Serving, mut checks: health::Checks) -> health::Checks {
    let config = Arc::clone(&serving.stores.config);
    checks = checks.with("config-store", move || {
        let ready = config.ready().map_err(|error| error.to_string());
        async move { ready }
    });
    if let Some(cluster) = serving.stores.cluster.clone() {
        checks = checks.with("cluster-stores", move || {
            let ready = cluster.ready().map_err(|error| error.to_string());
            async move { ready }
        });
    }
    if let Some(pods) = serving.stores.pods.clone() {
        checks = checks.with("pod-stores", move || {
            let ready = pods.ready().map_err(|error| error.to_string());
            async move { ready }
        });
    }
    checks
}

/// The listener shows the pair in use for that Service. Asked twice, since the pair may be swapped between two looks.
async fn shows(
    address: SocketAddr,
    pairs: &ServingStore,
    service: &ServiceName,
) -> health::Finding {
    let name = service.called_as();
    for _ in 0..2 {
        let shown = self_check::served(address, &name)
            .await
            .map_err(|error| error.to_string())?;
        if pairs
            .pair(service)
            .is_some_and(|pair| *pair.leaf().der() == shown)
        {
            return Ok(());
        }
    }
    Err(format!(
        "{name}: the listener serves another certificate than that of the Secret"
    ))
}

/// Without an enabled webhook there may be no certificate: the listener has to accept, whatever the handshake comes to.
async fn listens(address: SocketAddr, name: &str) -> health::Finding {
    match self_check::served(address, name).await {
        Ok(_) | Err(self_check::Error::Handshake { .. }) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

fn is_enabled(spec: &SriovOperatorConfigSpec, configurations: &[Configuration]) -> bool {
    let enabled = |configuration: &Configuration| match configuration {
        Configuration::OperatorMutating | Configuration::OperatorValidating => {
            spec.enable_operator_webhook
        }
        Configuration::Injector => spec.enable_injector,
    };
    configurations
        .iter()
        .any(|configuration| enabled(configuration) == Some(true))
}

/// The certificates that all existing ones of these configurations carry; `None` when none exists or one has no bundle.
pub(super) fn common_bundle(
    published: &Published,
    configurations: &[Configuration],
) -> Option<Bundle> {
    let mut existing = configurations
        .iter()
        .filter_map(|configuration| published.get(*configuration));
    let first = Bundle::from_live(existing.next()?.ca_bundle.as_deref()?);
    existing.try_fold(first, |common, registered| {
        let other = Bundle::from_live(registered.ca_bundle.as_deref()?);
        let mut both = Bundle::default();
        for certificate in common
            .certificates()
            .iter()
            .filter(|certificate| other.contains(certificate))
        {
            both.insert(certificate.clone());
        }
        Some(both)
    })
}

/// Lets the metrics show, at each scrape, what is a state and not an event.
pub(super) fn gauge(serving: &Serving) {
    let (stores, pairs) = (serving.stores.clone(), Arc::clone(&serving.pairs));
    serving.metrics.before_scrape(move |metrics| {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let cluster = stores.cluster.iter().flat_map(|stores| stores.status());
        let pods = stores.pods.iter().flat_map(|stores| stores.status());
        for status in cluster.chain(pods).chain([stores.config.status()]) {
            metrics.stores.holds(status.what, status.objects);
            metrics.stores.set_aside(status.what, status.malformed);
            if let Some(silence) = status.silence {
                metrics
                    .stores
                    .fresh_at(status.what, now.as_secs_f64() - silence.as_secs_f64());
            }
        }
        for status in pairs.status() {
            let name = if status.endpoint.service.name == OPERATOR_SERVICE {
                "operator-webhook"
            } else {
                "injector"
            };
            let reloads = status.reloads;
            metrics
                .certificates
                .reloaded(name, reloads.taken, reloads.refused);
            if let Some(until) = status.serves_until {
                metrics.certificates.expires(
                    name,
                    until.duration_since(Timestamp::UNIX_EPOCH).as_secs_f64(),
                );
            }
        }
    });
}
