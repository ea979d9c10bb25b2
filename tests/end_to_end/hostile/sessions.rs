//! Sessions of tasks that no job has, and a task that takes data and only shows that it lives.

use std::time::Duration;

use tokio::runtime::Runtime;
use tonic::Code;
use trainyard_cluster_spec::{Role, Servers, Task, WORKERS_MAX};
use trainyard_protocol::v1::session_service_client::SessionServiceClient;
use trainyard_protocol::{convert, v1};

use super::{CHIEF, Client, PS, STRANGER, Stage, WORKER};

/// Most lines of sessions while a peer opens hundreds: two periods of the rate limit.
const LINES_MAX: usize = 64;

trial!(sessions_of_tasks_that_no_job_has_are_refused_and_do_not_fill_the_log);
fn sessions_of_tasks_that_no_job_has_are_refused_and_do_not_fill_the_log() {
    let mut stage = Stage::start();
    let mut client = Client::new(&stage, STRANGER);
    stage.withstands("sessions of many tasks", |_| {
        let mut open = |role, index| {
            let task = Task { role, index };
            client.identity.task = Some(convert::task_to_wire(task));
            client.open_session().map_err(|status| status.code())
        };
        for index in 100..400 {
            assert_eq!(open(Role::Worker, index), Ok(()));
        }
        for index in (WORKERS_MAX..WORKERS_MAX + 300).chain([u32::MAX as usize]) {
            assert_eq!(open(Role::Worker, index), Err(Code::InvalidArgument));
        }
        assert_eq!(open(Role::Evaluator, 0), Err(Code::InvalidArgument));
    });
    let lines = stage.tasks.lines(PS, "session opened");
    assert!(lines.len() <= LINES_MAX, "{} lines", lines.len());
    assert!(lines[1].contains("peer=127.0.0.1:"), "{}", lines[1]);
    stage.end();
}

trial!(sessions_that_no_chief_grants_and_requests_of_the_chief_from_others_are_refused);
fn sessions_that_no_chief_grants_and_requests_of_the_chief_from_others_are_refused() {
    let mut stage = Stage::start();
    let mut client = Client::new(&stage, STRANGER);
    let term = client.identity.cluster_epoch << 32;
    stage.withstands("sessions that no chief grants", |_| {
        client.identity.task = Some(convert::task_to_wire(WORKER));
        for session in [0, 1, term, term + (1 << 32), term - 1, u64::MAX] {
            client.identity.session = session;
            let refused = client.open_session().expect_err("no chief grants it");
            assert_eq!(
                refused.code(),
                Code::InvalidArgument,
                "{session}: {refused}"
            );
            assert!(refused.message().contains("session must be"), "{refused}");
        }
    });
    stage.withstands("requests of the chief from others", |_| {
        let identity = Some(client.identity.clone());
        let mut server = client.server.clone();
        let refused = client.runtime.block_on(async {
            let of = |identity: &Option<v1::Identity>| identity.clone();
            [
                server
                    .finish(v1::FinishRequest {
                        identity: of(&identity),
                        ..Default::default()
                    })
                    .await
                    .err(),
                server
                    .open(v1::OpenRequest {
                        identity: of(&identity),
                    })
                    .await
                    .err(),
                server
                    .claim(v1::ClaimRequest {
                        identity: of(&identity),
                        release: trainyard_protocol::RELEASE.to_owned(),
                        ..Default::default()
                    })
                    .await
                    .err(),
                server
                    .prepare(v1::PrepareRequest {
                        identity: of(&identity),
                        ..Default::default()
                    })
                    .await
                    .err(),
                server
                    .close_session(v1::CloseSessionRequest {
                        identity: of(&identity),
                        ..Default::default()
                    })
                    .await
                    .err(),
                server
                    .save_shard(v1::SaveShardRequest {
                        identity: of(&identity),
                        ..Default::default()
                    })
                    .await
                    .err(),
            ]
        });
        for refused in refused {
            let refused = refused.expect("a worker is no chief");
            assert!(refused.message().contains("only the chief"), "{refused}");
        }
    });
    stage.end();
}

trial!(a_job_whose_data_is_applied_ends_without_a_task_that_only_shows_that_it_lives);
fn a_job_whose_data_is_applied_ends_without_a_task_that_only_shows_that_it_lives() {
    let mut stage = Stage::start_of_epochs(100);
    let client = Client::new(&stage, STRANGER);
    let cluster = stage.cluster();
    let runtime = Runtime::new().expect("a runtime");
    let mut chief = {
        let _inside = runtime.enter();
        SessionServiceClient::new(stage.channel(CHIEF, STRANGER))
    };
    let register = v1::RegisterRequest {
        task: Some(convert::task_to_wire(STRANGER)),
        incarnation: 1,
        release: trainyard_protocol::RELEASE.to_owned(),
        servers: Servers::of(&cluster).lines(),
        layout_fingerprint: client.status.layout_fingerprint,
        address: "127.0.0.1:1".to_owned(),
        job: stage.agreement().lines(),
        ..v1::RegisterRequest::default()
    };
    let joined = runtime.block_on(chief.register(register));
    let joined = joined.expect("one worker more").into_inner();
    let heartbeat = v1::HeartbeatRequest {
        task: Some(convert::task_to_wire(STRANGER)),
        incarnation: 1,
        cluster_epoch: joined.cluster_epoch,
        session: joined.session,
        ..v1::HeartbeatRequest::default()
    };
    let ask = v1::NextShardRequest {
        heartbeat: Some(heartbeat),
        ..v1::NextShardRequest::default()
    };
    let granted = runtime.block_on(chief.next_shard(ask));
    let granted = granted.expect("data").into_inner();
    assert_eq!(granted.outcome(), v1::ShardOutcome::Granted);
    let of_lane = v1::NextShardRequest {
        heartbeat: Some(heartbeat),
        lane: Some(3),
        ..v1::NextShardRequest::default()
    };
    let refused = runtime.block_on(chief.next_shard(of_lane));
    let refused = refused.expect_err("an asynchronous job has no lanes");
    assert!(refused.message().contains("names lane 3"), "{refused}");
    let join = v1::JoinGroupRequest {
        heartbeat: Some(heartbeat),
        ..v1::JoinGroupRequest::default()
    };
    let refused = runtime.block_on(chief.join_group(join));
    let refused = refused.expect_err("servers hold the parameters");
    assert!(refused.message().contains("no process group"), "{refused}");
    let beats = runtime.spawn(async move {
        while chief.heartbeat(heartbeat).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    });
    let account = stage.account();
    beats.abort();
    let lines = stage.tasks.lines(CHIEF, "have not left");
    assert!(
        lines.iter().any(|line| line.contains("worker:7")),
        "{lines:?}{}",
        stage.tasks.last_lines()
    );
    assert!(account.is_exact(), "{account}");
}
