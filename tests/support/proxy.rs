//! What kube-proxy and kubelet do: connections to the `ClusterIP` of a Service reach one of the replicas that its
//! selector matches and that are ready, at its target port; with none, they are refused.

use std::collections::{BTreeMap, HashMap};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt as _};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::NAMESPACE;
use super::probe::Probe;

/// How often readiness is asked for, so that nobody waits for it.
pub(crate) const PROBED_OFTEN: Duration = Duration::from_millis(50);
/// About as rarely as by a kubelet: the probes of who measures are a part of every figure.
#[allow(dead_code, reason = "only the bench asks for it")]
pub(crate) const PROBED_RARELY: Duration = Duration::from_secs(2);
/// Between two attempts to watch the Services. What a proxy misses while it waits, nobody can call.
const RETRY_PERIOD: Duration = Duration::from_millis(200);

/// A replica as a Service sees it.
#[derive(Clone)]
pub(crate) struct Pod {
    /// Its address.
    pub(crate) ip: Ipv4Addr,
    /// Its labels.
    pub(crate) labels: BTreeMap<String, String>,
    /// Its readiness probe.
    pub(crate) probe: Probe,
}

/// The proxy; it ends when dropped.
pub(crate) struct ServiceProxy {
    pods: Arc<Mutex<Vec<Pod>>>,
    _tasks: JoinSet<()>,
}

/// Where one Service's connections go at the moment.
type Backends = watch::Receiver<Vec<SocketAddr>>;

/// The same pause, again and again.
struct Steady;

impl Iterator for Steady {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(RETRY_PERIOD)
    }
}

impl Backoff for Steady {
    fn reset(&mut self) {}
}

struct Forwarder {
    address: SocketAddr,
    selector: BTreeMap<String, String>,
    port: u16,
    backends: watch::Sender<Vec<SocketAddr>>,
    _tasks: JoinSet<()>,
}

impl ServiceProxy {
    /// Watches the Services of the operator's namespace and serves those that have a port 443. Asks replicas every so
    /// often whether they are ready.
    pub(crate) fn start(client: Client, every: Duration) -> Self {
        let pods = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = JoinSet::new();
        let (ready, receiver) = watch::channel(Vec::new());
        tasks.spawn(probe(Arc::clone(&pods), ready, every));
        tasks.spawn(run(client, receiver));
        Self {
            pods,
            _tasks: tasks,
        }
    }

    /// Adds a replica.
    pub(crate) fn add(&self, pod: Pod) {
        lock(&self.pods).push(pod);
    }

    /// Takes the replica at this address away. Connections that it has go on.
    pub(crate) fn remove(&self, ip: Ipv4Addr) {
        lock(&self.pods).retain(|pod| pod.ip != ip);
    }
}

async fn run(client: Client, mut ready: watch::Receiver<Vec<Pod>>) {
    let mut forwarders = HashMap::new();
    let services = Api::<Service>::namespaced(client, NAMESPACE);
    let mut events = std::pin::pin!(watcher(services, watcher::Config::default()).backoff(Steady));
    loop {
        tokio::select! {
            event = events.try_next() => match event {
                Ok(Some(Event::Apply(service) | Event::InitApply(service))) => {
                    update(&mut forwarders, &service);
                    lead(&forwarders, &ready.borrow());
                }
                Ok(Some(Event::Delete(service))) => { forwarders.remove(&service.name_any()); }
                Ok(Some(_)) | Err(_) => {}
                Ok(None) => return,
            },
            Ok(()) = ready.changed() => lead(&forwarders, &ready.borrow_and_update()),
        }
    }
}

/// Keeps the forwarder of a Service whose address stayed, so that its connections are not cut.
fn update(forwarders: &mut HashMap<String, Forwarder>, service: &Service) {
    let name = service.name_any();
    let Some((address, port, selector)) = described(service) else {
        forwarders.remove(&name);
        return;
    };
    match forwarders.get_mut(&name) {
        Some(known) if known.address == address => {
            known.port = port;
            known.selector = selector;
        }
        _ => {
            let (backends, receiver) = watch::channel(Vec::new());
            let mut tasks = JoinSet::new();
            tasks.spawn(forward(address, receiver));
            let forwarder = Forwarder {
                address,
                selector,
                port,
                backends,
                _tasks: tasks,
            };
            forwarders.insert(name, forwarder);
        }
    }
}

fn described(service: &Service) -> Option<(SocketAddr, u16, BTreeMap<String, String>)> {
    let spec = service.spec.as_ref()?;
    let address: Ipv4Addr = spec.cluster_ip.as_ref()?.parse().ok()?;
    if !address.is_loopback() {
        // A cluster with a proxy of its own.
        return None;
    }
    let port = spec.ports.as_ref()?.iter().find(|port| port.port == 443)?;
    let IntOrString::Int(target) = port.target_port.clone()? else {
        return None;
    };
    let listen = SocketAddrV4::new(address, 443).into();
    let target = u16::try_from(target).ok()?;
    Some((listen, target, spec.selector.clone().unwrap_or_default()))
}

/// Probes the pods again and again, and tells which of them are ready.
async fn probe(pods: Arc<Mutex<Vec<Pod>>>, told: watch::Sender<Vec<Pod>>, every: Duration) {
    let mut ticks = tokio::time::interval(every);
    while !told.is_closed() {
        ticks.tick().await;
        let pods = lock(&pods).clone();
        let probes = pods.iter().map(async |pod| pod.probe.ready().await.is_ok());
        let ready = futures::future::join_all(probes).await;
        let pods = pods.into_iter().zip(ready);
        told.send_replace(
            pods.filter_map(|(pod, ready)| ready.then_some(pod))
                .collect(),
        );
    }
}

/// Tells each forwarder which of the pods it may use.
fn lead(forwarders: &HashMap<String, Forwarder>, ready: &[Pod]) {
    for forwarder in forwarders.values() {
        let backends: Vec<SocketAddr> = ready
            .iter()
            .filter(|pod| selects(&forwarder.selector, &pod.labels))
            .map(|pod| SocketAddrV4::new(pod.ip, forwarder.port).into())
            .collect();
        forwarder.backends.send_if_modified(|known| {
            let changed = *known != backends;
            *known = backends;
            changed
        });
    }
}

fn selects(selector: &BTreeMap<String, String>, labels: &BTreeMap<String, String>) -> bool {
    !selector.is_empty()
        && selector
            .iter()
            .all(|(key, value)| labels.get(key) == Some(value))
}

/// Listens while there is a backend: with none, the kernel refuses connections.
async fn forward(address: SocketAddr, mut backends: Backends) {
    let mut next = 0_usize;
    while backends.wait_for(|ready| !ready.is_empty()).await.is_ok() {
        let listener = match TcpListener::bind(address).await {
            Ok(listener) => listener,
            Err(error) => {
                eprintln!("service proxy: failed to listen on {address}: {error}");
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            }
        };
        loop {
            tokio::select! {
                accepted = listener.accept() => {
                    let ready = backends.borrow().clone();
                    if let (Ok((client, _)), false) = (accepted, ready.is_empty()) {
                        next = next.wrapping_add(1);
                        tokio::spawn(relay(client, ready[next % ready.len()]));
                    }
                }
                changed = backends.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    if backends.borrow().is_empty() {
                        break;
                    }
                }
            }
        }
    }
}

/// Not ended with its Service: established connections outlive the rules that made them.
async fn relay(mut client: TcpStream, backend: SocketAddr) {
    if let Ok(mut server) = TcpStream::connect(backend).await {
        // Either side may end the connection; that is all there is to know.
        let _ = copy_bidirectional(&mut client, &mut server).await;
    }
}

fn lock(pods: &Mutex<Vec<Pod>>) -> std::sync::MutexGuard<'_, Vec<Pod>> {
    pods.lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
