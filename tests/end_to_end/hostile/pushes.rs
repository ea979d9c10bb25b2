//! Pushes that come again, out of order, or under somebody else's name.

use tonic::Code;
use trainyard_protocol::{convert, v1};

use super::{Client, PS, STRANGER, Stage, WORKER};

const REPEATS: usize = 200;

/// A push that would spoil every counter if it were applied.
fn spoil(seq: u64) -> (v1::Push, Vec<u8>) {
    let selection = v1::Selection {
        whole: vec![0, 1],
        ..v1::Selection::default()
    };
    let batch = Some(v1::BatchId {
        pass: 0,
        shard: 7777,
        batch: 0,
    });
    let push = v1::Push {
        seq,
        batch,
        selection: Some(selection),
        ..v1::Push::default()
    };
    (push, 1.0_f32.to_le_bytes().repeat(5000 + 1024))
}

/// The number of the worker's session, as the server has told it.
fn session(stage: &Stage) -> u64 {
    let line = stage
        .tasks
        .lines(PS, "session opened task=worker:0")
        .pop()
        .expect("the worker has joined");
    let number = line
        .split("session=")
        .nth(1)
        .and_then(|rest| rest.split_whitespace().next());
    number
        .and_then(|number| number.parse().ok())
        .expect("its number")
}

trial!(pushes_that_come_again_or_in_disorder_or_of_no_session_change_nothing);
fn pushes_that_come_again_or_in_disorder_or_of_no_session_change_nothing() {
    let mut stage = Stage::start();
    let mut client = Client::new(&stage, STRANGER);
    let real = v1::Identity {
        task: Some(convert::task_to_wire(WORKER)),
        session: session(&stage),
        ..client.identity.clone()
    };
    stage.wait_until("its first pushes are long past", |stage| {
        stage.steps() > 500
    });
    let forged: [(&str, v1::Identity, u64, Result<(), Code>); 8] = [
        ("again", real.clone(), 1, Ok(())),
        (
            "far ahead",
            real.clone(),
            u64::MAX / 2,
            Err(Code::OutOfRange),
        ),
        ("of no number", real.clone(), 0, Err(Code::InvalidArgument)),
        (
            "of a session that was not given",
            v1::Identity {
                session: real.session + 1000,
                ..real.clone()
            },
            1,
            Err(Code::FailedPrecondition),
        ),
        (
            "of a session of before",
            v1::Identity {
                session: real.session - 1,
                ..real.clone()
            },
            1,
            Err(Code::FailedPrecondition),
        ),
        (
            "of a task without a session",
            client.identity.clone(),
            1,
            Err(Code::FailedPrecondition),
        ),
        (
            "of another cluster",
            v1::Identity {
                cluster_id: vec![7; 16].into(),
                ..real.clone()
            },
            1,
            Err(Code::FailedPrecondition),
        ),
        (
            "of an epoch of before",
            v1::Identity {
                cluster_epoch: real.cluster_epoch - 1,
                ..real
            },
            1,
            Err(Code::FailedPrecondition),
        ),
    ];
    stage.withstands("pushes again, in disorder and of no session", |_| {
        for round in 0..REPEATS {
            // Each round in another order.
            for place in 0..forged.len() {
                let (what, identity, seq, expected) = &forged[(place * 3 + round) % forged.len()];
                let (push, payload) = spoil(*seq);
                let given = client.push(identity, push, payload);
                match (given, expected) {
                    (Ok(pushed), Ok(())) => assert!(pushed.duplicate, "{what}: {pushed:?}"),
                    (Err(status), Err(code)) => {
                        assert_eq!(status.code(), *code, "{what}: {status}")
                    }
                    (given, _) => panic!("{what}: {given:?}"),
                }
            }
        }
    });
    stage.end();
}

trial!(a_worker_with_a_certificate_pushes_under_no_other_name);
fn a_worker_with_a_certificate_pushes_under_no_other_name() {
    let mut stage = Stage::start_with_tls();
    let mut client = Client::new(&stage, STRANGER);
    let own = client.identity.clone();
    let task = |task| Some(convert::task_to_wire(task));
    let real = v1::Identity {
        task: task(WORKER),
        session: session(&stage),
        ..own.clone()
    };
    let chief = v1::Identity {
        task: task(super::CHIEF),
        session: 0,
        ..own.clone()
    };
    stage.withstands("pushes under another name", |_| {
        for seq in [1, 100, 1_000, 10_000, 100_000] {
            for identity in [&real, &chief] {
                let (push, payload) = spoil(seq);
                let status = client
                    .push(identity, push, payload)
                    .expect_err("it is another's name");
                assert_eq!(status.code(), Code::PermissionDenied, "{status}");
            }
        }
        let (push, payload) = spoil(1);
        let status = client
            .push(&own, push, payload)
            .expect_err("it has no session");
        assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
        let request = v1::FinishRequest {
            identity: Some(chief),
            reason: "forged".to_owned(),
            failed: false,
        };
        let status = client
            .runtime
            .block_on(client.server.finish(request))
            .expect_err("it is no chief");
        assert_eq!(status.code(), Code::PermissionDenied, "{status}");
    });
    assert!(
        stage.count(PS, "trainyard_calls_refused_total") >= 11,
        "refusals are counted"
    );
    stage.end();
}
