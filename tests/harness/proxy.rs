//! A network that misbehaves: a proxy in front of a task, which delays, holds, cuts and breaks what goes through it.

mod pump;

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use pump::{Connection, reset};

/// A way through the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// To the task.
    Requests,
    /// From the task.
    Replies,
}

/// How a link behaves, in both directions where nothing else is said. The default is a good one.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Link {
    /// Time that all bytes are under way.
    pub delay: Duration,
    /// Up to this much more, by chance; bytes of a connection never overtake each other.
    pub jitter: Duration,
    /// Bytes a second of a direction of a connection; nothing = no bound.
    pub bytes_per_second: Option<u64>,
    /// Nothing arrives at the task, silently, until this is over: then it does, as TCP sends again what was lost.
    pub holds_requests: bool,
    /// The same for what the task sends.
    pub holds_replies: bool,
    /// New connections are accepted, and what they send is thrown away; nobody ever answers.
    pub blackhole: bool,
}

impl Link {
    /// A link through which nothing passes, in either direction.
    pub const CUT: Self = Self {
        delay: Duration::ZERO,
        jitter: Duration::ZERO,
        bytes_per_second: None,
        holds_requests: true,
        holds_replies: true,
        blackhole: false,
    };
}

/// What happens to the connection whose byte was the last that passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blow {
    /// Both ends are told that it was reset (RST).
    Reset,
    /// The receiver is told that no more will come (FIN); the other direction stays open.
    HalfClose,
}

/// How all links are, and what is about to happen to one.
#[derive(Debug, Clone, Default)]
struct Weather {
    all: Link,
    of_process: BTreeMap<u32, Link>,
    /// Connections with a lower number are reset.
    reset_before: u64,
}

/// A blow that waits for its byte.
#[derive(Debug, Clone, Copy)]
struct Armed {
    direction: Direction,
    bytes_left: u64,
    blow: Blow,
}

/// A proxy in front of one task. It ends, and its connections with it, when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: String,
    weather: watch::Sender<Weather>,
    armed: Arc<parking_lot::Mutex<Option<Armed>>>,
    accepted: Arc<AtomicU64>,
    /// Dropping it ends everything.
    _runtime: Runtime,
}

impl Proxy {
    /// Listens at a port of its own for those who want to reach the task that listens at `target`, `host:port`.
    ///
    /// # Panics
    /// The target is no address.
    pub fn new(target: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build();
        let runtime = runtime.expect("a runtime");
        let target: SocketAddr = target.parse().expect("an address");
        let listener = StdListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address").to_string();
        listener.set_nonblocking(true).expect("a socket");
        let weather = watch::Sender::new(Weather::default());
        let armed = Arc::default();
        let accepted = Arc::new(AtomicU64::new(0));
        let accept = accept(
            listener,
            target,
            weather.clone(),
            Arc::clone(&armed),
            Arc::clone(&accepted),
        );
        runtime.spawn(accept);
        Self {
            address,
            weather,
            armed,
            accepted,
            _runtime: runtime,
        }
    }

    /// Returns the address at which it listens.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Sets how all links are that have no rule of their own, those that are there too.
    pub fn set(&self, link: Link) {
        self.weather.send_modify(|weather| weather.all = link);
    }

    /// Sets how the links of a process are; nothing = like all others.
    pub fn set_for(&self, process: u32, link: Option<Link>) {
        self.weather.send_modify(|weather| {
            match link {
                Some(link) => weather.of_process.insert(process, link),
                None => weather.of_process.remove(&process),
            };
        });
    }

    /// Makes every link good again.
    pub fn heal(&self) {
        self.weather.send_modify(|weather| {
            (weather.all, weather.of_process) = (Link::default(), BTreeMap::new());
        });
    }

    /// Resets all connections. What they hold is lost.
    pub fn reset(&self) {
        let before = self.accepted.load(Ordering::SeqCst) + 1;
        self.weather
            .send_modify(|weather| weather.reset_before = before);
    }

    /// Strikes once, when so many more bytes have passed in a direction, whichever connection they take.
    pub fn strike_after(&self, direction: Direction, bytes: u64, blow: Blow) {
        *self.armed.lock() = Some(Armed {
            direction,
            bytes_left: bytes,
            blow,
        });
    }

    /// Whether the last blow has fallen.
    pub fn has_struck(&self) -> bool {
        self.armed.lock().is_none()
    }

    /// Connections that were accepted.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::SeqCst)
    }
}

async fn accept(
    listener: StdListener,
    target: SocketAddr,
    weather: watch::Sender<Weather>,
    armed: Arc<parking_lot::Mutex<Option<Armed>>>,
    accepted: Arc<AtomicU64>,
) {
    let Ok(listener) = TcpListener::from_std(listener) else {
        return;
    };
    loop {
        let Ok((client, peer)) = listener.accept().await else {
            continue;
        };
        let number = accepted.fetch_add(1, Ordering::SeqCst) + 1;
        let weather = weather.subscribe();
        let armed = Arc::clone(&armed);
        tokio::spawn(async move {
            let connection = Connection {
                number,
                socket: socket_of(peer.port()),
                weather,
                armed,
            };
            if connection.link().blackhole {
                connection.swallow(client).await;
                return;
            }
            match TcpStream::connect(target).await {
                Ok(server) => connection.join(client, server).await,
                // Nobody listens: the peer is told as the system would.
                Err(_) => reset(&client),
            }
        });
    }
}

/// Returns the number of the socket at the other end of a connection from this machine.
fn socket_of(port: u16) -> Option<String> {
    let table = std::fs::read_to_string("/proc/net/tcp").ok()?;
    let suffix = format!(":{port:04X}");
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let local = fields.get(1)?.ends_with(&suffix);
        (local && fields.get(9) != Some(&"0")).then(|| format!("socket:[{}]", fields[9]))
    })
}

/// Whether a process holds a socket.
fn holds(process: u32, socket: &str) -> bool {
    let files = std::fs::read_dir(format!("/proc/{process}/fd"))
        .into_iter()
        .flatten()
        .filter_map(Result::ok);
    let mut targets = files.filter_map(|file| std::fs::read_link(file.path()).ok());
    targets.any(|target| target.as_os_str() == socket)
}

#[cfg(test)]
mod tests;
