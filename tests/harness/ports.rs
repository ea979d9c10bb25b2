//! Ports for daemons that must know each other's before they start.
//!
//! A port that is looked for, let go and bound by a daemon a moment later can be taken in between, and that of a daemon which
//! was killed until it is started again. So each process of tests has a block of ports to itself, and goes round in it.

use std::net::TcpListener;
use std::sync::Mutex;

/// Ports below those of which `trainyard up` takes any that are free, also in another test, and there finds a chief where this
/// test has no server.
const PORTS: std::ops::Range<u16> = 10_000..trainyard_command::LOCAL_PORTS.start;

/// Ports of one process, the first of which it holds for its life. All that run at one time use a fifth of them.
const BLOCK: u16 = 400;

/// What this process has taken.
static TAKEN: Mutex<Option<Block>> = Mutex::new(None);

struct Block {
    /// Bound for as long as this process lives: the block is its own.
    _held: TcpListener,
    first: u16,
    /// Ports given so far, over and over again.
    given: u16,
}

impl Block {
    /// Takes a block that no other process has. Processes begin at different ones.
    fn take() -> Option<Self> {
        let blocks = (PORTS.end - PORTS.start) / BLOCK;
        let start = (std::process::id() % u32::from(blocks)) as u16;
        let firsts = (0..blocks).map(|number| PORTS.start + (start + number) % blocks * BLOCK);
        let take = |first| Some((TcpListener::bind(("127.0.0.1", first)).ok()?, first));
        let (held, first) = firsts.into_iter().find_map(take)?;
        Some(Self {
            _held: held,
            first,
            given: 0,
        })
    }

    /// Returns the next port that nobody listens at, the oldest of those given before.
    fn next(&mut self) -> Option<u16> {
        for _ in 1..BLOCK {
            let port = self.first + 1 + self.given;
            self.given = (self.given + 1) % (BLOCK - 1);
            if TcpListener::bind(("127.0.0.1", port)).is_ok() {
                return Some(port);
            }
        }
        None
    }
}

/// Returns ports that nobody listens at and that no test gets again soon.
///
/// # Panics
/// There are too few.
pub fn free_ports(count: usize) -> Vec<u16> {
    let mut taken = TAKEN.lock().expect("nobody panics with it");
    if taken.is_none() {
        *taken = Block::take();
    }
    let found: Option<Vec<u16>> = taken
        .as_mut()
        .and_then(|block| (0..count).map(|_| block.next()).collect());
    drop(taken);
    found.expect("this machine has a block of free ports")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_ask_at_one_time_get_different_ports() {
        let asked: Vec<_> = (0..8)
            .map(|_| std::thread::spawn(|| free_ports(20)))
            .collect();
        let mut given: Vec<u16> = asked
            .into_iter()
            .flat_map(|thread| thread.join().expect("it gets its ports"))
            .collect();
        given.sort_unstable();
        given.dedup();
        assert_eq!(given.len(), 160);
    }
}
