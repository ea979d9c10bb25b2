//! Tensors and descriptions that are not what they say.

use rustix::process::Signal;
use tonic::Code;
use trainyard_protocol::v1;

use super::{Client, STRANGER, Stage, WORKER};

/// The counting job's table of counters and its dense counter: one column each.
const ROWS: usize = 5000;
const CELLS: usize = 1024;
const VALUES: usize = ROWS + CELLS;
const SLICES: [u32; 2] = [0, 1];

fn floats(count: usize) -> Vec<u8> {
    1.0_f32.to_le_bytes().repeat(count)
}

fn whole(slices: &[u32]) -> v1::Selection {
    v1::Selection {
        whole: slices.to_vec(),
        ..v1::Selection::default()
    }
}

/// Rows of slice 0.
fn rows(rows: &[u32], row_set: u32) -> v1::Selection {
    let bytes: Vec<u8> = rows.iter().flat_map(|row| row.to_le_bytes()).collect();
    v1::Selection {
        row_sets: vec![v1::RowSet { rows: bytes.into() }],
        rows: vec![v1::SliceRows { slice: 0, row_set }],
        ..v1::Selection::default()
    }
}

fn push(selection: v1::Selection, encoding: i32) -> v1::Push {
    let batch = Some(v1::BatchId {
        pass: 0,
        shard: 7777,
        batch: 0,
    });
    v1::Push {
        seq: 1,
        batch,
        selection: Some(selection),
        encoding,
        ..v1::Push::default()
    }
}

/// What is wrong, the push and its payload.
fn malformed() -> Vec<(&'static str, v1::Push, Vec<u8>)> {
    let ragged = v1::Selection {
        row_sets: vec![v1::RowSet {
            rows: vec![0; 7].into(),
        }],
        rows: vec![v1::SliceRows {
            slice: 0,
            row_set: 0,
        }],
        ..v1::Selection::default()
    };
    vec![
        (
            "a value too few",
            push(whole(&SLICES), 1),
            floats(VALUES - 1),
        ),
        (
            "a value too many",
            push(whole(&SLICES), 1),
            floats(VALUES + 1),
        ),
        ("no value", push(whole(&SLICES), 1), Vec::new()),
        (
            "half a value",
            push(whole(&SLICES), 1),
            floats(VALUES)[1..].to_vec(),
        ),
        (
            "another type than it says",
            push(whole(&SLICES), 2),
            floats(VALUES),
        ),
        (
            "a type of no name",
            push(whole(&SLICES), 99),
            floats(VALUES),
        ),
        ("a slice that is not there", push(whole(&[9]), 1), floats(1)),
        (
            "a slice of the largest number",
            push(whole(&[u32::MAX]), 1),
            floats(1),
        ),
        (
            "a row that is not there",
            push(rows(&[ROWS as u32], 0), 1),
            floats(1),
        ),
        ("the largest row", push(rows(&[u32::MAX], 0), 1), floats(1)),
        ("rows that go down", push(rows(&[5, 4], 0), 1), floats(2)),
        ("a row twice", push(rows(&[5, 5], 0), 1), floats(2)),
        (
            "a row set that is not there",
            push(rows(&[5], 3), 1),
            floats(1),
        ),
        ("rows of seven bytes", push(ragged, 1), floats(1)),
        (
            "a million names",
            push(whole(&vec![0; 1_000_000]), 1),
            floats(VALUES),
        ),
        (
            "a million names of nothing",
            push(whole(&(0..1_000_000).collect::<Vec<_>>()), 1),
            floats(VALUES),
        ),
        (
            "no batch",
            v1::Push {
                batch: None,
                ..push(whole(&SLICES), 1)
            },
            floats(VALUES),
        ),
    ]
}

fn variable(name: &str, shape: Vec<u64>) -> v1::Variable {
    let zeros = v1::Configuration {
        kind: "zeros".to_owned(),
        ..v1::Configuration::default()
    };
    v1::Variable {
        name: name.to_owned(),
        shape,
        access: v1::Access::Whole.into(),
        initializer: Some(zeros),
        ..v1::Variable::default()
    }
}

/// What is wrong, and the variables that a server is to hold.
fn undescribed() -> Vec<(&'static str, Vec<v1::Variable>)> {
    let variable = |shape: Vec<u64>| vec![variable("x", shape)];
    vec![
        ("a product of 2^66", variable(vec![1 << 33, 1 << 33])),
        (
            "a product that is 0 once it has run over",
            variable(vec![1 << 32, 1 << 32, 4]),
        ),
        ("what would be -1", variable(vec![u64::MAX, 1])),
        ("a million dimensions", variable(vec![2; 1_000_000])),
        ("a million dimensions of one", variable(vec![1; 1_000_000])),
        ("no name", vec![self::variable("", vec![1])]),
        (
            "a name of 1 MiB",
            vec![self::variable(&"x".repeat(1 << 20), vec![1])],
        ),
        (
            "200,000 variables",
            vec![self::variable("x", vec![1]); 200_000],
        ),
    ]
}

trial!(tensors_that_are_not_what_they_say_are_refused_and_change_nothing);
fn tensors_that_are_not_what_they_say_are_refused_and_change_nothing() {
    let mut stage = Stage::start();
    let mut client = Client::new(&stage, STRANGER);
    client
        .open_session()
        .expect("a server takes whoever comes with the cluster's id");
    // Nobody else changes anything meanwhile: what is read before and after must be the same.
    let worker = stage.tasks.id(WORKER).expect("it runs");
    stage.tasks.signal(WORKER, Signal::STOP);
    let mut version = client.status().version;
    stage.wait_until("what was under way has come", |_| {
        std::fs::read_to_string(format!("/proc/{worker}/stat"))
            .is_ok_and(|stat| stat.contains(") T "))
    });
    loop {
        std::thread::sleep(std::time::Duration::from_millis(100));
        let now = client.status().version;
        if now == version {
            break;
        }
        version = now;
    }
    let values = client.read(&SLICES);
    assert_eq!(values.len(), 4 * VALUES);
    let identity = client.identity.clone();
    for (what, push, payload) in malformed() {
        let status = client.push(&identity, push, payload).expect_err(what);
        assert_eq!(status.code(), Code::InvalidArgument, "{what}: {status}");
        assert!(
            status.message().len() < 1024,
            "{what}: a message of {} bytes",
            status.message().len()
        );
    }
    for (what, variables) in undescribed() {
        let request = v1::PrepareRequest {
            identity: Some(identity.clone()),
            variables,
            ..v1::PrepareRequest::default()
        };
        let status = client
            .runtime
            .block_on(client.server.prepare(request))
            .expect_err(what);
        assert_eq!(status.code(), Code::InvalidArgument, "{what}: {status}");
        assert!(
            status.message().len() < 1024,
            "{what}: a message of {} bytes",
            status.message().len()
        );
    }
    assert_eq!(client.status().version, version);
    for poison in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut payload = floats(VALUES);
        payload[4 * 77..4 * 78].copy_from_slice(&poison.to_le_bytes());
        let pushed = client
            .push(&identity, push(whole(&SLICES), 1), payload)
            .expect("it is answered");
        // The first is done with as its batch is; those behind it are the same batch again.
        assert!(
            pushed.rejected.is_some() || pushed.duplicate,
            "{poison}: {pushed:?}"
        );
    }
    // That a batch is done with is a version of its own; its values are not.
    assert_eq!(client.status().version, version + 1);
    assert!(
        client.read(&SLICES) == values,
        "the parameters have changed"
    );
    stage.tasks.signal(WORKER, Signal::CONT);
    let account = stage.account();
    let wrong = (
        account.lost.len(),
        account.duplicated.len(),
        account.half_steps.len(),
    );
    assert_eq!(wrong, (0, 0, 0), "{account}");
    // The batch that was refused is of a data shard that the job does not have, and is remembered, as a version too.
    assert!(
        account.counters > 0
            && account
                .other
                .iter()
                .all(|what| what.contains("shard: 7777") || what.contains("has version")),
        "{account}"
    );
}
