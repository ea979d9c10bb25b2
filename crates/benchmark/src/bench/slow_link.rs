//! A slow link to a server: a TCP proxy that delays all bytes, in both directions.

use std::net::{SocketAddr, TcpListener as StdListener};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// Most bytes of one read.
const CHUNK_BYTES: usize = 64 << 10;
/// Most chunks in flight in one direction of a connection: 64 MiB, so that the delay does not bound the bandwidth.
const CHUNKS_MAX: usize = 1024;

/// A running proxy. Dropping this value ends it.
#[derive(Debug)]
pub(super) struct SlowLink {
    address: SocketAddr,
    _runtime: Runtime,
}

impl SlowLink {
    /// Starts a proxy on a free port of this machine, in a thread of its own. The proxy delays each byte by `delay` in
    /// each direction; timers round `delay` up to whole milliseconds.
    ///
    /// # Errors
    /// The system has no free port or thread.
    pub(super) fn start(target: &str, delay: Duration) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let listener = StdListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let _entered = runtime.enter();
        let listener = TcpListener::from_std(listener)?;
        let target = target.to_owned();
        runtime.spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                // If the server does not answer, the caller's connection closes, as it would without the proxy.
                let Ok(far) = TcpStream::connect(&target).await else {
                    continue;
                };
                let _ = near.set_nodelay(true).and_then(|()| far.set_nodelay(true));
                let (near_in, near_out) = near.into_split();
                let (far_in, far_out) = far.into_split();
                tokio::spawn(carry(near_in, far_out, delay));
                tokio::spawn(carry(far_in, near_out, delay));
            }
        });
        Ok(Self {
            address,
            _runtime: runtime,
        })
    }

    /// Returns the address of the proxy.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Forwards one direction of a connection until it ends. Several chunks are in flight at once: the delay applies to
/// each chunk, not to their sum.
async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, delay: Duration) {
    let (sender, mut receiver) = mpsc::channel::<(Instant, Vec<u8>)>(CHUNKS_MAX);
    let read = async move {
        loop {
            let mut chunk = vec![0; CHUNK_BYTES];
            let Ok(length @ 1..) = from.read(&mut chunk).await else {
                return;
            };
            chunk.truncate(length);
            if sender.send((Instant::now() + delay, chunk)).await.is_err() {
                return;
            }
        }
    };
    let write = async move {
        while let Some((due, chunk)) = receiver.recv().await {
            sleep_until(due).await;
            if to.write_all(&chunk).await.is_err() {
                return;
            }
        }
        let _ = to.shutdown().await;
    };
    tokio::join!(read, write);
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    #[test]
    fn bytes_arrive_whole_and_late_both_ways() {
        let server = StdListener::bind("127.0.0.1:0").expect("a port");
        let target = server.local_addr().expect("an address").to_string();
        let echo = std::thread::spawn(move || {
            let (mut stream, _) = server.accept().expect("a caller");
            let mut all = Vec::new();
            stream.read_to_end(&mut all).expect("the caller's bytes");
            stream.write_all(&all).expect("the caller reads");
        });
        let delay = Duration::from_millis(30);
        let link = SlowLink::start(&target, delay).expect("a proxy");
        let sent: Vec<u8> = (0..300_000_u32).map(|place| (place % 251) as u8).collect();
        let began = std::time::Instant::now();
        let mut stream = std::net::TcpStream::connect(link.address()).expect("the proxy listens");
        stream.write_all(&sent).expect("the proxy reads");
        stream
            .shutdown(std::net::Shutdown::Write)
            .expect("half of it stays open");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("the answer");
        assert!(began.elapsed() >= 2 * delay, "{:?}", began.elapsed());
        assert!(
            answer == sent,
            "{} bytes came back of {}",
            answer.len(),
            sent.len()
        );
        echo.join().expect("the server ends well");
    }
}
