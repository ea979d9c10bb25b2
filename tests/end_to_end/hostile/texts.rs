//! Texts of peers that forge lines, steer a terminal or fill a disk.

use std::convert::Infallible;
use std::task::{Context, Poll};

use tokio::runtime::Runtime;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::NamedService;
use tonic::{Request, Status};
use trainyard_cluster_spec::Servers;
use trainyard_protocol::v1::session_service_client::SessionServiceClient;
use trainyard_protocol::{convert, v1};
use trainyard_tests::TestCluster;

use super::{CHIEF, Client, STRANGER, Stage};
use crate::end_to_end::LIMIT;

/// Characters in a row that a log may show of a name that a peer gives itself, and of what it says of a call.
const SHOWN_MAX: usize = 256;
const MESSAGE_MAX: usize = 2 << 10;
/// Longest line of a log.
const LINE_MAX: usize = 16 << 10;

/// A line of its own, colours, the bell, a change of the direction of writing, and more than anybody reads.
fn evil(length: usize) -> String {
    format!(
        "x\r\nFORGED error: all is lost\n\u{1b}[31m\u{7}\u{202e}\u{2028}\u{85}{}",
        "A".repeat(length)
    )
}

/// What is wrong with a log that may show so many characters of a peer in a row.
fn wrong(log: &str, most: usize) -> Vec<String> {
    let mut found = Vec::new();
    if log.contains(&"A".repeat(most + 1)) {
        found.push(format!("more than {most} characters of a peer"));
    }
    for line in log.split('\n') {
        let begins = line
            .trim_start_matches(|c: char| !c.is_alphabetic())
            .starts_with("FORGED");
        let steers = line
            .chars()
            .any(|c| c.is_control() && c != '\t' || matches!(c, '\u{202e}' | '\u{2028}'));
        if begins || steers || line.len() > LINE_MAX {
            found.push(line.chars().take(300).collect());
        }
    }
    found
}

trial!(texts_of_peers_are_escaped_and_cut_in_every_log);
fn texts_of_peers_are_escaped_and_cut_in_every_log() {
    let mut stage = Stage::start();
    let cluster = stage.cluster();
    let mut client = Client::new(&stage, STRANGER);
    let agreement = stage.agreement();
    let long = evil(900_000);
    let task = || Some(convert::task_to_wire(STRANGER));
    stage.withstands("texts", |stage| {
        let runtime = Runtime::new().expect("a runtime");
        let _inside = runtime.enter();
        let mut chief = SessionServiceClient::new(stage.channel(CHIEF, STRANGER));
        let good = v1::RegisterRequest {
            task: task(),
            incarnation: 1,
            release: trainyard_protocol::RELEASE.to_owned(),
            servers: Servers::of(&cluster).lines(),
            layout_fingerprint: client.status.layout_fingerprint,
            address: long.clone(),
            job: agreement.lines(),
            ..v1::RegisterRequest::default()
        };
        let bad = [
            v1::RegisterRequest {
                release: long.clone(),
                ..good.clone()
            },
            v1::RegisterRequest {
                servers: vec![format!("ps:0={long}")],
                ..good.clone()
            },
            v1::RegisterRequest {
                servers: vec![long.clone()],
                ..good.clone()
            },
            v1::RegisterRequest {
                job: vec![format!("run.seed={long}")],
                ..good.clone()
            },
            v1::RegisterRequest {
                job: vec![long.clone()],
                ..good.clone()
            },
            v1::RegisterRequest {
                job: (0..9)
                    .map(|key| format!("{key}{}=1", evil(20_000)))
                    .collect(),
                ..good.clone()
            },
        ];
        for request in bad {
            let refused = runtime
                .block_on(chief.register(request))
                .expect_err("nobody is called so");
            assert!(
                refused.message().len() < 4096,
                "{} bytes of an answer",
                refused.message().len()
            );
        }
        let joined = runtime
            .block_on(chief.register(good))
            .expect("a worker more")
            .into_inner();
        let heartbeat = v1::HeartbeatRequest {
            task: task(),
            incarnation: 1,
            cluster_epoch: joined.cluster_epoch,
            session: joined.session,
            ..v1::HeartbeatRequest::default()
        };
        let leave = v1::LeaveRequest {
            heartbeat: Some(heartbeat),
            reason: v1::LeaveReason::Failed.into(),
            message: long.clone(),
        };
        runtime.block_on(chief.leave(leave)).expect("it may go");

        let identity = Some(client.identity.clone());
        let claim = v1::ClaimRequest {
            identity: identity.clone(),
            release: long.clone(),
            model_dir: long.clone(),
            ..v1::ClaimRequest::default()
        };
        client
            .runtime
            .block_on(client.server.claim(claim.clone()))
            .expect_err("another release");
        let claim = v1::ClaimRequest {
            release: trainyard_protocol::RELEASE.to_owned(),
            ..claim
        };
        client
            .runtime
            .block_on(client.server.claim(claim))
            .expect_err("another folder");
        let variable = v1::Variable {
            name: long.clone(),
            ..v1::Variable::default()
        };
        let prepare = v1::PrepareRequest {
            identity: identity.clone(),
            variables: vec![variable],
            ..v1::PrepareRequest::default()
        };
        client
            .runtime
            .block_on(client.server.prepare(prepare))
            .expect_err("a name too long");
        let save = v1::SaveShardRequest {
            identity,
            folder: long.clone(),
            at_version: None,
            base: Some(long.clone()),
            publication: false,
        };
        client
            .runtime
            .block_on(client.server.save_shard(save))
            .expect_err("no such folder");
        let mut request = Request::new(v1::StatusRequest::default());
        let value = evil(2000).replace(|c: char| !c.is_ascii_graphic(), "\t");
        request.metadata_mut().insert(
            "trainyard-shard",
            value.parse().expect("a header may hold it"),
        );
        let _ = client.runtime.block_on(client.server.status(request));
    });
    for task in stage.tasks.tasks() {
        let log = std::fs::read_to_string(stage.tasks.log(task)).expect("a log in UTF-8");
        assert_eq!(wrong(&log, SHOWN_MAX), Vec::<String>::new(), "{task}");
    }
    stage.end();
}

/// Answers every call with a text that does harm.
#[derive(Debug, Clone)]
struct Liar;

impl NamedService for Liar {
    const NAME: &'static str = "trainyard.v1.ParameterService";
}

impl Service<http::Request<Body>> for Liar {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<http::Response<Body>, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: http::Request<Body>) -> Self::Future {
        Box::pin(async { Ok(Status::failed_precondition(evil(3000)).into_http()) })
    }
}

trial!(a_server_that_answers_with_harmful_texts_is_told_of_in_harmless_ones);
fn a_server_that_answers_with_harmful_texts_is_told_of_in_harmless_ones() {
    let cluster = TestCluster::new(1, 0, 200, "[train]\nmax_steps = 5\n");
    let runtime = Runtime::new().expect("a runtime");
    let address = cluster.addresses[1].parse().expect("an address");
    let served = tonic::transport::Server::builder()
        .add_service(Liar)
        .serve(address);
    let served = runtime.spawn(served);
    let chief = cluster.start("chief", 0, &["--connect-deadline", "4"]);
    let ended = chief.wait(LIMIT);
    served.abort();
    println!("{}", ended.output);
    assert_ne!(ended.code, 0);
    assert!(
        ended.output.contains("all is lost"),
        "what it says is shown: {}",
        ended.output
    );
    assert_eq!(
        wrong(&ended.output, MESSAGE_MAX),
        Vec::<String>::new(),
        "{}",
        ended.output
    );
}
