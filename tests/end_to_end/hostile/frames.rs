//! HTTP/2 frames, written by hand, that no honest client sends (RFC 9113, RFC 7541).

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{PS, Stage};
use crate::end_to_end::LIMIT;

pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// Largest frame that any server takes.
const FRAME_MAX: usize = 16 << 10;
/// Least time of each attack. It goes on until others were served meanwhile.
const ATTACK: Duration = Duration::from_secs(2);
const ATTACKERS: usize = 4;
/// Honest callers that are answered during an attack.
const ANSWERS: usize = 3;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let mut out = vec![length[1], length[2], length[3], kind, flags];
    out.extend(stream.to_be_bytes());
    out.extend(payload);
    out
}

/// A field that no table holds; name and value of less than 127 bytes.
fn field(name: &str, value: &str) -> Vec<u8> {
    let mut out = vec![0, name.len() as u8];
    out.extend(name.bytes());
    out.push(value.len() as u8);
    out.extend(value.bytes());
    out
}

/// The fields of a call of a method that anyone may call.
fn call() -> Vec<u8> {
    // POST and http are of the static table.
    let mut out = vec![0x83, 0x86];
    for (name, value) in [
        (":path", "/trainyard.v1.ParameterService/Status"),
        (":authority", "localhost"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ] {
        out.extend(field(name, value));
    }
    out
}

/// A connection that has begun as HTTP/2 does. What the server says is read and thrown away, where it is read at all.
struct Peer {
    stream: TcpStream,
    next: u32,
}

impl Peer {
    fn connect(address: &str, reads: bool) -> io::Result<Self> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_write_timeout(Some(Duration::from_millis(500)))?;
        stream.write_all(PREFACE)?;
        stream.write_all(&frame(SETTINGS, 0, 0, &[]))?;
        if reads {
            let mut back = stream.try_clone()?;
            std::thread::spawn(move || while matches!(back.read(&mut [0; 4096]), Ok(1..)) {});
        }
        Ok(Self { stream, next: 1 })
    }

    /// Returns the number of a new stream.
    fn open(&mut self) -> u32 {
        self.next += 2;
        self.next - 2
    }
}

/// What an attacker sends, again and again, on one connection: what one call returns is written at once.
type Attack = fn(&mut Peer) -> Vec<u8>;

fn rapid_reset(peer: &mut Peer) -> Vec<u8> {
    let resets = (0..64).map(|_| {
        let stream = peer.open();
        [
            frame(HEADERS, END_HEADERS | END_STREAM, stream, &call()),
            frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()),
        ]
        .concat()
    });
    resets.collect::<Vec<_>>().concat()
}

/// The head of a request that never comes to its end (CVE-2024-27316 and its kin).
fn continuations(peer: &mut Peer) -> Vec<u8> {
    let mut out = Vec::new();
    if peer.next == 1 {
        out = frame(HEADERS, 0, peer.open(), &call());
    }
    let fields: Vec<u8> = (0..64)
        .flat_map(|_| field("x-filler", &"a".repeat(100)))
        .collect();
    out.extend((0..8).flat_map(|_| frame(CONTINUATION, 0, 1, &fields)));
    out
}

fn pings(_: &mut Peer) -> Vec<u8> {
    (0..512).flat_map(|_| frame(PING, 0, 0, &[7; 8])).collect()
}

/// Sizes of the header table, in turn: 0 and 4096.
fn settings(_: &mut Peer) -> Vec<u8> {
    let one = |size: u32| frame(SETTINGS, 0, 0, &[&[0, 1][..], &size.to_be_bytes()].concat());
    (0..256).flat_map(|place| one((place % 2) * 4096)).collect()
}

/// An entry of the table of 4 KB, named as often as a frame has bytes.
fn header_bomb(peer: &mut Peer) -> Vec<u8> {
    let mut block = call();
    // A literal that is kept: 0x40, the name, the value of 3900 = 127 + 3773 bytes.
    block.extend([0x40, 1, b'x', 0x7f]);
    block.extend([(3773 % 128) as u8 | 0x80, (3773 / 128) as u8]);
    block.extend([b'a'; 3900]);
    // Place 62 is that of the newest entry.
    block.resize(FRAME_MAX, 0xbe);
    frame(HEADERS, END_HEADERS | END_STREAM, peer.open(), &block)
}

/// Calls that never say their message.
fn streams(peer: &mut Peer) -> Vec<u8> {
    (0..64)
        .flat_map(|_| frame(HEADERS, END_HEADERS, peer.open(), &call()))
        .collect()
}

/// A message of frames without a byte (CVE-2019-9518).
fn empty_frames(peer: &mut Peer) -> Vec<u8> {
    let mut out = Vec::new();
    if peer.next == 1 {
        out = frame(HEADERS, END_HEADERS, peer.open(), &call());
    }
    out.extend((0..512).flat_map(|_| frame(DATA, 0, 1, &[])));
    out
}

fn priorities(peer: &mut Peer) -> Vec<u8> {
    (0..512)
        .flat_map(|_| frame(PRIORITY, 0, peer.open(), &[0, 0, 0, 0, 16]))
        .collect()
}

fn windows(_: &mut Peer) -> Vec<u8> {
    (0..512)
        .flat_map(|_| frame(WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes()))
        .collect()
}

/// Sends until it is over, on another connection whenever one is closed. Returns the bytes sent and the connections closed.
fn run(address: &str, attack: Attack, reads: bool, over: &AtomicBool) -> (u64, u64) {
    let mut sent = 0;
    let mut closed = 0;
    while !over.load(Ordering::Relaxed) {
        let Ok(mut peer) = Peer::connect(address, reads) else {
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        while !over.load(Ordering::Relaxed) {
            let bytes = attack(&mut peer);
            if peer.stream.write_all(&bytes).is_err() {
                closed += 1;
                break;
            }
            sent += bytes.len() as u64;
        }
        let _ = peer.stream.shutdown(std::net::Shutdown::Both);
    }
    (sent, closed)
}

/// Waits until the server has served others while it is attacked: some callers, and a step of the worker. Says what it did
/// not do.
fn serve_others(stage: &Stage) -> Result<(), String> {
    let begun = Instant::now();
    let steps = stage.steps();
    for answered in 0..ANSWERS {
        if !stage.answers_others() {
            return Err(format!(
                "{answered} of {ANSWERS} callers are answered meanwhile"
            ));
        }
    }
    while begun.elapsed() < ATTACK || stage.steps() <= steps {
        if begun.elapsed() > LIMIT {
            return Err(format!("no step within {LIMIT:?}"));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

trial!(floods_of_frames_are_cut_or_bounded_and_training_goes_on);
fn floods_of_frames_are_cut_or_bounded_and_training_goes_on() {
    let mut stage = Stage::start();
    let address = stage.tasks.address(PS).to_owned();
    let attacks: [(&str, Attack, bool, bool); 10] = [
        ("rapid reset", rapid_reset, true, true),
        ("continuations", continuations, true, true),
        ("pings", pings, true, false),
        ("pings, answers unread", pings, false, false),
        ("settings", settings, true, false),
        ("header bomb", header_bomb, true, false),
        ("streams", streams, true, false),
        ("frames without a byte", empty_frames, true, false),
        ("priorities", priorities, true, false),
        ("window updates", windows, true, false),
    ];
    for (name, attack, reads, is_cut) in attacks {
        let over = AtomicBool::new(false);
        let (sent, closed) = stage.withstands(name, |stage| {
            std::thread::scope(|scope| {
                let attackers: Vec<_> = (0..ATTACKERS)
                    .map(|_| scope.spawn(|| run(&address, attack, reads, &over)))
                    .collect();
                let served = serve_others(stage);
                over.store(true, Ordering::Relaxed);
                assert_eq!(served, Ok(()), "{name}");
                let ended = attackers
                    .into_iter()
                    .map(|attacker| attacker.join().expect("no panic"));
                ended.fold((0, 0), |(sent, closed), (more, again)| {
                    (sent + more, closed + again)
                })
            })
        });
        println!(
            "{name}: {} KiB sent, {closed} connections closed",
            sent >> 10
        );
        assert!(
            sent > 0 && (closed > 0 || !is_cut),
            "{name}: the connection stays"
        );
    }
    stage.end();
}
