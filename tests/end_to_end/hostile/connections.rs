//! Connections that say nothing, or say it slowly.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use trainyard_cluster_spec::Task;
use trainyard_tests::is_ready;

use super::frames::PREFACE;
use super::{PS, STRANGER, Stage, open_files};
use crate::end_to_end::LIMIT;
use crate::end_to_end::hostile::renewal::handshake;

/// Connections that are attempted, where this process may have as many.
const MANY: usize = 3000;
/// Files that this process needs for other things.
const OTHERS: usize = 200;
/// What a server may have open: as many connections as it serves and as many again as agree on how, of which it has bounds of its own,
/// and some files.
const SERVED_MAX: usize = 1024;
const AGREEING_MAX: usize = 256;
const FILES: usize = 64;
/// The beginning of a TLS handshake (RFC 8446, section 5.1): a record of 512 bytes that never comes to its end.
const HELLO: [u8; 9] = [0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc];
const ATTACK: Duration = Duration::from_secs(8);

/// Connections that are kept open, and made anew when the server closes them; each says a byte of its text now and then.
struct Crowd {
    address: SocketAddr,
    members: Vec<(TcpStream, &'static [u8], usize)>,
    made: usize,
}

impl Crowd {
    fn new(address: &str) -> Self {
        Self {
            address: address.parse().expect("an address"),
            members: Vec::new(),
            made: 0,
        }
    }

    /// Fills up to `count`, with texts in turn.
    fn fill(&mut self, count: usize, texts: &[&'static [u8]]) {
        while self.members.len() < count {
            let Ok(stream) = TcpStream::connect_timeout(&self.address, Duration::from_millis(500))
            else {
                return;
            };
            stream.set_nonblocking(true).expect("a socket");
            self.members
                .push((stream, texts[self.made % texts.len()], 0));
            self.made += 1;
        }
    }

    /// Says the next byte of each text, and drops those that the server has closed.
    fn speak(&mut self) {
        self.members.retain_mut(|(stream, text, said)| {
            if let Some(byte) = text.get(*said) {
                *said += 1;
                if stream.write_all(&[*byte]).is_err() {
                    return false;
                }
            }
            matches!(stream.read(&mut [0; 64]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
        });
    }
}

/// Lets this process open as many files as it may, and returns how many connections it can afford.
fn affordable() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            ..limit
        },
    );
    let most = getrlimit(Resource::Nofile)
        .current
        .map_or(usize::MAX, |most| most as usize);
    MANY.min(most.saturating_sub(OTHERS))
}

/// Attempts of a newcomer that may fail: its connection is among those that go because they are the oldest.
const MISSES_MAX: usize = 2;

/// Whether a newcomer that says what HTTP/2 begins with is answered, within a few attempts, as tasks make them.
fn lets_in(address: &str) -> bool {
    (0..=MISSES_MAX).any(|_| {
        let tried = || -> std::io::Result<()> {
            let mut stream = TcpStream::connect(address)?;
            stream.set_read_timeout(Some(Duration::from_secs(1)))?;
            stream.write_all(PREFACE)?;
            stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0])?;
            // The head of the server's own settings.
            stream.read_exact(&mut [0; 9])
        };
        let met = tried().is_ok();
        if !met {
            std::thread::sleep(Duration::from_millis(100));
        }
        met
    })
}

/// Keeps a crowd at a task, and returns the most files that it had open, once `meanwhile` has held several times.
fn crowd(
    stage: &Stage,
    (task, address): (Task, &str),
    texts: &[&'static [u8]],
    meanwhile: impl Fn() -> bool,
) -> usize {
    let count = affordable();
    let process = stage.tasks.id(task).expect("it runs");
    let before = open_files(process);
    let mut crowd = Crowd::new(address);
    let begun = Instant::now();
    let mut most = 0;
    let mut rounds = 0;
    // On a busy machine the first round alone may take all that time: it goes on until connections were dropped and made anew.
    while begun.elapsed() < ATTACK || crowd.made <= count {
        assert!(
            begun.elapsed() < LIMIT,
            "none of {count} connections was dropped in {rounds} rounds"
        );
        crowd.fill(count, texts);
        most = most.max(open_files(process));
        assert!(meanwhile(), "{task} answers nobody else in round {rounds}");
        crowd.speak();
        rounds += 1;
        std::thread::sleep(Duration::from_millis(200));
    }
    println!(
        "{} connections made, {before} files open before, {most} at most, {rounds} rounds",
        crowd.made
    );
    // Those that are there go on, a byte at a time, and are dropped all the same.
    let begun = Instant::now();
    while open_files(process) > before + 8 {
        crowd.speak();
        assert!(
            begun.elapsed() < LIMIT,
            "{} files stay open, {before} before",
            open_files(process)
        );
        std::thread::sleep(Duration::from_millis(500));
    }
    println!(
        "all were dropped {:?} after the last was made",
        begun.elapsed()
    );
    most
}

trial!(thousands_of_silent_and_slow_connections_are_bounded_and_keep_nobody_out);
fn thousands_of_silent_and_slow_connections_are_bounded_and_keep_nobody_out() {
    let mut stage = Stage::start();
    let address = stage.tasks.address(PS).to_owned();
    let texts: [&[u8]; 4] = [b"", PREFACE, b"GET / HTTP/1.1\r\n", &HELLO];
    let most = stage.withstands("silence and slow words", |stage| {
        crowd(stage, (PS, &address), &texts, || lets_in(&address))
    });
    assert!(
        most < SERVED_MAX + AGREEING_MAX + FILES,
        "{most} files open"
    );
    stage.end();
}

trial!(slow_tls_handshakes_are_bounded_and_keep_nobody_out);
fn slow_tls_handshakes_are_bounded_and_keep_nobody_out() {
    let mut stage = Stage::start_with_tls();
    let address = stage.tasks.address(PS).to_owned();
    let most = stage.withstands("slow TLS", |stage| {
        crowd(stage, (PS, &address), &[b"", &HELLO], || {
            (0..20).any(|_| handshake(stage, STRANGER, &address).is_ok())
        })
    });
    assert!(
        most < SERVED_MAX + AGREEING_MAX + FILES,
        "{most} files open"
    );
    stage.end();
}

trial!(thousands_of_connections_to_an_admin_port_are_bounded_and_the_port_answers);
fn thousands_of_connections_to_an_admin_port_are_bounded_and_the_port_answers() {
    let mut stage = Stage::start();
    let admin = stage.tasks.admin(PS).to_owned();
    let most = stage.withstands("a crowd at the admin port", |stage| {
        let texts: [&[u8]; 2] = [b"", b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n"];
        crowd(stage, (PS, &admin), &texts, || {
            (0..20).any(|_| is_ready(&admin))
        })
    });
    assert!(most < AGREEING_MAX + FILES, "{most} files open");
    stage.end();
}
