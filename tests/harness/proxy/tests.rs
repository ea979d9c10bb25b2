//! The proxy does what it says, seen from both ends of it.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::*;

/// Longest wait in these tests.
const LIMIT: Duration = Duration::from_secs(10);

/// A server that sends back what it is sent, one connection after the other; and the proxy in front of it.
fn echo() -> (Proxy, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let target = listener.local_addr().expect("an address").to_string();
    let served = std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            std::thread::spawn(move || {
                let mut buffer = [0; 1000];
                while let Ok(count @ 1..) = stream.read(&mut buffer) {
                    if stream.write_all(&buffer[..count]).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (Proxy::new(&target), served)
}

fn connect(proxy: &Proxy) -> TcpStream {
    let stream = TcpStream::connect(proxy.address()).expect("the proxy listens");
    stream.set_read_timeout(Some(LIMIT)).expect("a socket");
    stream
}

fn ask(stream: &mut TcpStream, text: &[u8]) -> std::io::Result<Vec<u8>> {
    stream.write_all(text)?;
    let mut answer = vec![0; text.len()];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}

#[test]
fn a_good_link_passes_bytes_and_a_slow_one_delays_them() {
    let (proxy, _served) = echo();
    let mut stream = connect(&proxy);
    assert_eq!(ask(&mut stream, b"first").expect("an answer"), b"first");
    proxy.set(Link {
        delay: Duration::from_millis(60),
        jitter: Duration::from_millis(20),
        ..Link::default()
    });
    let begun = Instant::now();
    assert_eq!(ask(&mut stream, b"second").expect("an answer"), b"second");
    assert!(
        begun.elapsed() >= Duration::from_millis(120),
        "{:?}",
        begun.elapsed()
    );
    proxy.set(Link {
        bytes_per_second: Some(100_000),
        ..Link::default()
    });
    let begun = Instant::now();
    let many = vec![7; 60_000];
    let mut writing = stream.try_clone().expect("a handle");
    let sent = many.clone();
    let writer = std::thread::spawn(move || writing.write_all(&sent));
    let mut answer = vec![0; many.len()];
    stream.read_exact(&mut answer).expect("an answer");
    writer.join().expect("no panic").expect("sent");
    assert!(
        answer == many && begun.elapsed() >= Duration::from_millis(300),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn a_cut_link_holds_what_is_sent_until_it_heals_and_only_for_the_process_it_is_for() {
    let (proxy, _served) = echo();
    let mut stream = connect(&proxy);
    let this = std::process::id();
    // The first process of the system has nothing to do with it.
    proxy.set_for(1, Some(Link::CUT));
    assert_eq!(
        ask(&mut stream, b"not for me").expect("an answer"),
        b"not for me"
    );
    proxy.set_for(
        this,
        Some(Link {
            holds_replies: true,
            ..Link::default()
        }),
    );
    stream
        .set_read_timeout(Some(Duration::from_millis(100)))
        .expect("a socket");
    let error = ask(&mut stream, b"held").expect_err("nothing comes back");
    assert!(
        matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        "{error}"
    );
    proxy.heal();
    stream.set_read_timeout(Some(LIMIT)).expect("a socket");
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).expect("it comes now");
    assert_eq!(&answer, b"held");
}

#[test]
fn a_blow_falls_behind_its_byte_and_once() {
    let (proxy, _served) = echo();
    let mut stream = connect(&proxy);
    proxy.strike_after(Direction::Replies, 3, Blow::Reset);
    stream.write_all(b"abcdef").expect("sent");
    let mut answer = Vec::new();
    let error = stream.read_to_end(&mut answer).expect_err("a reset");
    assert_eq!(
        (error.kind(), &answer[..]),
        (ErrorKind::ConnectionReset, &b"abc"[..])
    );
    assert!(proxy.has_struck());
    let mut stream = connect(&proxy);
    proxy.strike_after(Direction::Replies, 2, Blow::HalfClose);
    stream.write_all(b"abcdef").expect("sent");
    answer.clear();
    stream.read_to_end(&mut answer).expect("an end");
    assert_eq!(answer, b"ab");
    let mut stream = connect(&proxy);
    assert_eq!(ask(&mut stream, b"again").expect("an answer"), b"again");
    assert_eq!(proxy.accepted(), 3);
}

#[test]
fn a_blackhole_takes_connections_and_answers_none_and_resets_reach_all() {
    let (proxy, _served) = echo();
    let mut good = connect(&proxy);
    assert_eq!(ask(&mut good, b"good").expect("an answer"), b"good");
    proxy.set(Link {
        blackhole: true,
        ..Link::default()
    });
    let mut swallowed = connect(&proxy);
    swallowed
        .set_read_timeout(Some(Duration::from_millis(100)))
        .expect("a socket");
    let error = ask(&mut swallowed, b"hello").expect_err("nobody answers");
    assert!(
        matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        "{error}"
    );
    proxy.reset();
    for mut stream in [good, swallowed] {
        stream.set_read_timeout(Some(LIMIT)).expect("a socket");
        let error = stream.read(&mut [0]).expect_err("a reset");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
}
