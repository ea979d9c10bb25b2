//! A network of real links: a network namespace for each task, joined by a bridge. Needs root and `ip` (iproute2).
//!
//! What a proxy cannot show happens here: packets that are lost in silence while a connection stays open on both ends, in
//! one direction alone, cables that are pulled, hosts that know no way any more.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use trainyard_cluster_spec::Task;

use crate::Supervisor;

/// Address of nobody, to which lost packets are sent.
const NOBODY: &str = "02:00:00:00:00:99";
/// Networks of one process; more at a time are not wanted.
const NETWORKS: u32 = 8;

/// A host of the network.
#[derive(Debug)]
struct Host {
    namespace: String,
    /// The bridge's end of its cable.
    cable: String,
    address: String,
}

/// Hosts joined by a bridge. Their namespaces are removed when it is dropped.
#[derive(Debug)]
pub struct Network {
    bridge: String,
    /// Address of this machine.
    own: String,
    hosts: Vec<Host>,
}

/// A network with a host for each task of a cluster.
#[derive(Debug)]
pub struct Lan {
    network: Network,
    places: BTreeMap<Task, usize>,
}

fn ip(arguments: &str) -> Result<(), String> {
    run("ip", arguments)
}

fn run(program: &str, arguments: &str) -> Result<(), String> {
    let output = Command::new(program)
        .args(arguments.split_whitespace())
        .output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!(
        "{program} {arguments}: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    ))
}

impl Network {
    /// Makes a network of so many hosts.
    ///
    /// # Errors
    /// This machine does not let it: what was tried, and the answer.
    pub fn of(hosts: usize) -> Result<Self, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number =
            std::process::id() * NETWORKS + NEXT.fetch_add(1, Ordering::Relaxed) % NETWORKS;
        let net = format!("10.{}.{}", 64 + number / 256 % 64, number % 256);
        let mut network = Self {
            bridge: format!("ty{number}"),
            own: format!("{net}.1"),
            hosts: Vec::new(),
        };
        let bridge = network.bridge.clone();
        ip(&format!("link add {bridge} type bridge"))?;
        ip(&format!("address add {net}.1/24 dev {bridge}"))?;
        ip(&format!("link set {bridge} up"))?;
        for place in 0..hosts {
            let host = Host {
                namespace: format!("{bridge}-{place}"),
                cable: format!("{bridge}v{place}"),
                address: format!("{net}.{}", place + 2),
            };
            let Host {
                namespace,
                cable,
                address,
            } = &host;
            ip(&format!("netns add {namespace}"))?;
            ip(&format!(
                "link add {cable} type veth peer name eth0 netns {namespace}"
            ))?;
            ip(&format!("link set {cable} master {bridge} up"))?;
            ip(&format!("-n {namespace} address add {address}/24 dev eth0"))?;
            ip(&format!("-n {namespace} link set eth0 up"))?;
            ip(&format!("-n {namespace} link set lo up"))?;
            network.hosts.push(host);
        }
        Ok(network)
    }

    /// Returns the address of this machine in the network.
    pub fn own(&self) -> &str {
        &self.own
    }

    /// Returns the address of a host.
    ///
    /// # Panics
    /// There is no such host. So in what follows.
    pub fn address(&self, host: usize) -> &str {
        &self.hosts[host].address
    }

    /// Returns the command, with its arguments, that starts another command on a host.
    pub fn home(&self, host: usize) -> Vec<String> {
        ["ip", "netns", "exec", &self.hosts[host].namespace]
            .map(str::to_owned)
            .to_vec()
    }
}

impl Lan {
    /// Gives each task of a cluster a host of its own. To be said before anything is started.
    ///
    /// # Errors
    /// This machine does not let it: what was tried, and the answer.
    pub fn around(tasks: &mut Supervisor) -> Result<Self, String> {
        let all = tasks.tasks();
        let network = Network::of(all.len())?;
        for (place, task) in all.iter().enumerate() {
            tasks.live_at(*task, network.address(place), network.home(place));
        }
        let places = all.into_iter().zip(0..).collect();
        Ok(Self { network, places })
    }

    fn host(&self, task: Task) -> &Host {
        &self.network.hosts[self.places[&task]]
    }

    fn must(&self, what: Result<(), String>) {
        what.unwrap_or_else(|problem| panic!("{problem} ({})", self.network.bridge));
    }

    /// Loses, in silence, whatever `from` sends to `to`.
    ///
    /// # Panics
    /// There is no such task, or the machine does not let it. So in all that follows.
    pub fn lose(&self, from: Task, to: Task) {
        let from = self.host(from);
        let to = self.host(to);
        let entry = format!(
            "neigh replace {} lladdr {NOBODY} dev eth0 nud permanent",
            to.address
        );
        self.must(ip(&format!("-n {} {entry}", from.namespace)));
    }

    /// Loses nothing any more of what `from` sends to `to`.
    pub fn find(&self, from: Task, to: Task) {
        let from = self.host(from);
        let to = self.host(to);
        // There may be none to delete.
        let _ = ip(&format!(
            "-n {} neigh del {} dev eth0",
            from.namespace, to.address
        ));
    }

    /// Pulls the cable of a host, or puts it back.
    pub fn plug(&self, task: Task, plugged: bool) {
        let state = if plugged { "up" } else { "down" };
        self.must(ip(&format!("link set {} {state}", self.host(task).cable)));
    }

    /// Has a host know no way to the others, and say so to who asks, or know it again.
    pub fn route(&self, task: Task, routed: bool) {
        let host = self.host(task);
        let change = if routed { "del" } else { "add" };
        let (net, _) = host.address.rsplit_once('.').expect("an address");
        for half in ["0/25", "128/25"] {
            self.must(ip(&format!(
                "-n {} route {change} unreachable {net}.{half}",
                host.namespace
            )));
        }
    }

    /// Bounds what a host sends.
    pub fn bound(&self, task: Task, megabits_per_second: Option<u32>) {
        let namespace = &self.host(task).namespace;
        self.must(match megabits_per_second {
            Some(rate) => {
                let discipline = format!("tbf rate {rate}mbit burst 64kb latency 400ms");
                run(
                    "tc",
                    &format!("-n {namespace} qdisc replace dev eth0 root {discipline}"),
                )
            }
            None => run("tc", &format!("-n {namespace} qdisc del dev eth0 root")),
        });
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for host in &self.hosts {
            let _ = ip(&format!("netns del {}", host.namespace));
        }
        let _ = ip(&format!("link del {}", self.bridge));
    }
}
