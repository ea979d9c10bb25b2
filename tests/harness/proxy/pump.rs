//! One connection through the proxy.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::{Armed, Blow, Direction, Link, Weather, holds};
use crate::Draw;

/// Bytes that are moved at once.
const CHUNK_BYTES: usize = 16 << 10;
/// Chunks of a direction that are under way.
const CHUNKS_MAX: usize = 64;

/// Why a connection ends before both of its ends have closed it.
enum End {
    Reset,
    Failed,
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> Self {
        Self::Failed
    }
}

/// What a connection has of the proxy.
pub(super) struct Connection {
    pub(super) number: u64,
    pub(super) socket: Option<String>,
    pub(super) weather: watch::Receiver<Weather>,
    pub(super) armed: Arc<parking_lot::Mutex<Option<Armed>>>,
}

/// Closes a connection so that its peer is told that it was reset.
pub(super) fn reset(stream: &TcpStream) {
    let _ = rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO));
}

impl Connection {
    /// How this link is now.
    pub(super) fn link(&self) -> Link {
        let weather = self.weather.borrow();
        let own = |(process, _): &(&u32, &Link)| {
            self.socket
                .as_deref()
                .is_some_and(|socket| holds(**process, socket))
        };
        weather
            .of_process
            .iter()
            .find(own)
            .map_or(weather.all, |(_, link)| *link)
    }

    /// Takes what comes and never answers, until the peer gives up or all connections are reset.
    pub(super) async fn swallow(mut self, mut client: TcpStream) {
        let mut buffer = vec![0; CHUNK_BYTES];
        loop {
            tokio::select! {
                read = client.read(&mut buffer) => if !matches!(read, Ok(1..)) { return },
                changed = self.weather.changed() => {
                    if changed.is_err() || self.is_reset() {
                        return reset(&client);
                    }
                }
            }
        }
    }

    fn is_reset(&self) -> bool {
        self.number < self.weather.borrow().reset_before
    }

    /// Moves bytes both ways until both ends have closed, or something breaks the connection.
    pub(super) async fn join(self, mut client: TcpStream, mut server: TcpStream) {
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let ended = {
            let (from_client, to_client) = client.split();
            let (from_server, to_server) = server.split();
            tokio::select! {
                ended = async {
                    tokio::try_join!(
                        self.pump(from_client, to_server, Direction::Requests),
                        self.pump(from_server, to_client, Direction::Replies)
                    )
                } => ended.map(|_| ()),
                () = self.until_reset() => Err(End::Reset),
            }
        };
        if matches!(ended, Err(End::Reset)) {
            reset(&client);
            reset(&server);
        }
    }

    async fn until_reset(&self) {
        let mut weather = self.weather.clone();
        while !self.is_reset() {
            if weather.changed().await.is_err() {
                return;
            }
        }
    }

    async fn pump(
        &self,
        from: ReadHalf<'_>,
        to: WriteHalf<'_>,
        direction: Direction,
    ) -> Result<(), End> {
        let (sender, receiver) = mpsc::channel(CHUNKS_MAX);
        tokio::try_join!(self.take(from, sender), self.give(to, receiver, direction))?;
        Ok(())
    }

    /// Reads, and says of each piece when it may arrive.
    async fn take(
        &self,
        mut from: ReadHalf<'_>,
        to: mpsc::Sender<(Instant, Vec<u8>)>,
    ) -> Result<(), End> {
        let mut draw = Draw::new(self.number);
        let mut last = Instant::now();
        loop {
            let mut bytes = vec![0; CHUNK_BYTES];
            let count = from.read(&mut bytes).await?;
            if count == 0 {
                return Ok(());
            }
            bytes.truncate(count);
            let link = self.link();
            last = last.max(Instant::now() + link.delay + link.jitter.mul_f64(draw.fraction()));
            if to.send((last, bytes)).await.is_err() {
                return Err(End::Failed);
            }
        }
    }

    /// Writes each piece when it is time and the link lets it.
    async fn give(
        &self,
        mut to: WriteHalf<'_>,
        mut from: mpsc::Receiver<(Instant, Vec<u8>)>,
        direction: Direction,
    ) -> Result<(), End> {
        let mut weather = self.weather.clone();
        while let Some((due, bytes)) = from.recv().await {
            sleep_until(due).await;
            loop {
                weather.mark_unchanged();
                // Looked at here too: what was held must not slip through as the link heals.
                if self.is_reset() {
                    return Err(End::Reset);
                }
                let link = self.link();
                let held = match direction {
                    Direction::Requests => link.holds_requests,
                    Direction::Replies => link.holds_replies,
                };
                if !held {
                    break;
                }
                if weather.changed().await.is_err() {
                    return Err(End::Failed);
                }
            }
            let struck = self.struck(direction, bytes.len());
            let passed = struck.map_or(bytes.len(), |(passed, _)| passed);
            to.write_all(&bytes[..passed]).await?;
            match struck {
                Some((_, Blow::Reset)) => return Err(End::Reset),
                Some((_, Blow::HalfClose)) => {
                    to.shutdown().await?;
                    // What follows is thrown away: its sender does not know yet.
                    while from.recv().await.is_some() {}
                    return Ok(());
                }
                None => {}
            }
            if let Some(rate) = self.link().bytes_per_second {
                sleep(Duration::from_secs_f64(
                    bytes.len() as f64 / rate.max(1) as f64,
                ))
                .await;
            }
        }
        Ok(to.shutdown().await?)
    }

    /// Counts bytes towards a blow; returns how many still pass, if it falls now.
    fn struck(&self, direction: Direction, bytes: usize) -> Option<(usize, Blow)> {
        let mut armed = self.armed.lock();
        let waiting = armed
            .as_mut()
            .filter(|waiting| waiting.direction == direction)?;
        if waiting.bytes_left >= bytes as u64 {
            waiting.bytes_left -= bytes as u64;
            return None;
        }
        let fallen = (waiting.bytes_left as usize, waiting.blow);
        *armed = None;
        Some(fallen)
    }
}
