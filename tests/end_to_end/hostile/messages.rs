//! Messages that announce more than they may, or more than they send, and compressed ones.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http_body::Frame;
use tokio::runtime::Runtime;
use tonic::body::Body;
use tonic::codegen::Bytes;
use tonic::{Code, Status};
use trainyard_protocol::unary_call;

use super::{PS, STRANGER, Stage};

const STEP: &str = "/trainyard.v1.ParameterService/Step";
const OTHERS: [&str; 2] = [
    "/trainyard.v1.ParameterService/Status",
    "/trainyard.v1.ParameterService/SaveShard",
];
/// Longest time for a refusal that needs no more of the message than its head.
const EARLY: Duration = Duration::from_secs(2);
/// Longest time in which a message whose sender says nothing more is given up, and some for a busy machine.
const GIVEN_UP: Duration = Duration::from_secs(10);

/// A body that begins and never goes on.
struct Unfinished(Option<Bytes>);

impl http_body::Body for Unfinished {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.0.take().map_or(Poll::Pending, |bytes| {
            Poll::Ready(Some(Ok(Frame::data(bytes))))
        })
    }
}

/// The head of a message, and some bytes of it.
fn begun(flag: u8, announced: u32) -> Body {
    let mut bytes = vec![flag];
    bytes.extend(announced.to_be_bytes());
    bytes.extend([8; 64]);
    Body::new(Unfinished(Some(bytes.into())))
}

/// Calls a method with a body that never ends, and returns its status and the time that it took.
fn call(stage: &Stage, runtime: &Runtime, path: &str, body: Body) -> (Code, Duration) {
    let _inside = runtime.enter();
    let channel = stage.channel(PS, STRANGER);
    let begun = Instant::now();
    let answer = runtime.block_on(async {
        tokio::time::timeout(
            3 * GIVEN_UP,
            unary_call::call::<()>(&channel, path, None, body, 1 << 20),
        )
        .await
    });
    let answer =
        answer.unwrap_or_else(|_| panic!("{path} has no answer within {:?}", 3 * GIVEN_UP));
    (
        answer.map_or_else(|status| status.code(), |_| Code::Ok),
        begun.elapsed(),
    )
}

trial!(
    messages_that_announce_too_much_or_are_compressed_are_refused_at_once,
    alone
);
fn messages_that_announce_too_much_or_are_compressed_are_refused_at_once() {
    let mut stage = Stage::start();
    let runtime = Runtime::new().expect("a runtime");
    stage.withstands("4 GiB announced, and compressed messages", |stage| {
        for _ in 0..16 {
            for path in OTHERS.into_iter().chain([STEP]) {
                let (code, time) = call(stage, &runtime, path, begun(0, u32::MAX));
                assert!(
                    matches!(code, Code::OutOfRange | Code::ResourceExhausted),
                    "{path}: {code:?}"
                );
                assert!(time < EARLY, "{path}: {time:?}");
                // What 1 MiB would become is never looked at: nobody has agreed on compression.
                let (code, time) = call(stage, &runtime, path, begun(1, 1 << 20));
                assert!(
                    matches!(code, Code::Unimplemented | Code::Internal),
                    "{path}: {code:?}"
                );
                assert!(time < EARLY, "{path}: {time:?}");
            }
        }
    });
    stage.end();
}

trial!(
    messages_that_never_come_do_not_keep_the_room_of_others,
    alone
);
fn messages_that_never_come_do_not_keep_the_room_of_others() {
    let mut stage = Stage::start();
    let runtime = Runtime::new().expect("a runtime");
    // Each asks for a quarter of all that steps may take together.
    let times = stage.withstands("large messages that do not come", |stage| {
        std::thread::scope(|scope| {
            let call = || scope.spawn(|| call(stage, &runtime, STEP, begun(0, 256 << 20)));
            let calls: Vec<_> = (0..4).map(|_| call()).collect();
            calls
                .into_iter()
                .map(|call| call.join().expect("an answer"))
                .collect::<Vec<_>>()
        })
    });
    println!("{times:?}");
    assert!(
        times
            .iter()
            .all(|(code, time)| *code == Code::DeadlineExceeded && *time < GIVEN_UP),
        "{times:?}"
    );
    stage.end();
}
