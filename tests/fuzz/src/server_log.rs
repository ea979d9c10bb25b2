//! A server's log whose records are whole and say anything: it comes back, or says why not.

use bytes::Bytes;
use prost::Message as _;
use trainyard_cluster_spec::{Role, Task};
use trainyard_parameter_server::LocalServer;
use trainyard_parameter_server::recovery::{Expected, recover};
use trainyard_protocol::{convert, v1};
use trainyard_variable::{Access, DynamicTable, Initializer, Slice, VariableSpec};
use trainyard_write_ahead_log::{EarlierSegments, Entry, Folder, Log, Origin};

use crate::numbers::Numbers;
use crate::scratch;

const OWNER: u128 = 7;
const SERVER: Task = Task {
    role: Role::Ps,
    index: 0,
};

/// What every log goes on from: a vector, a table, a dynamic table. What a log asks a server to hold is not the question.
fn prepare(update: i32) -> v1::PrepareRequest {
    let dynamic = DynamicTable {
        admit_after: 1,
        expire_after_steps: Some(9),
        expire_after_secs: None,
        shared_row: true,
    };
    let variables = [
        ("dense", 3, Access::Whole),
        ("table", 8, Access::Rows),
        ("users", 4, Access::Dynamic(dynamic)),
    ];
    let spec = |(name, rows, access): &(&str, usize, Access)| VariableSpec {
        name: (*name).to_owned(),
        shape: if *access == Access::Whole {
            vec![*rows]
        } else {
            vec![*rows, 2]
        },
        access: *access,
        initializer: Initializer::Zeros,
        optimizer_group: "sgd".to_owned(),
    };
    let specs: Vec<VariableSpec> = variables.iter().map(spec).collect();
    let slice = |(place, spec): (usize, &VariableSpec)| {
        let width = if spec.access == Access::Whole { 1 } else { 2 };
        convert::slice_to_wire(
            place,
            &Slice {
                variable: place,
                part: 0,
                rows: 0..spec.shape[0],
                width,
                ps: 0,
            },
        )
    };
    let rules = [(
        "sgd".to_owned(),
        trainyard_optimizer::OptimizerConfig::sgd(0.5),
    )]
    .into();
    v1::PrepareRequest {
        num_ps: 1,
        variables: specs.iter().map(convert::variable_to_wire).collect(),
        slices: specs.iter().enumerate().map(slice).collect(),
        optimizers: convert::optimizers_to_wire(&rules),
        layout_fingerprint: 9,
        counts_steps: true,
        update,
        staleness_max: 1,
        ..v1::PrepareRequest::default()
    }
}

/// Writes a log of the input's records and recovers a store from it.
pub fn run(data: &[u8]) {
    let mut input = Numbers(data);
    let folder = scratch::folder();
    let path = folder.path().join("log");
    let update = input.below(4) as i32;
    let length = input.below(256);
    // The head may say anything of sessions, data, tickets and clocks.
    let head = v1::LoggedHead::decode(input.bytes(length).as_slice()).unwrap_or_default();
    let head = v1::LoggedHead {
        prepare: Some(prepare(update)),
        prepared_only: true,
        open: true,
        ..head
    };
    let mut entries = vec![Entry::new(1, vec![head.encode_to_vec().into()])];
    while !input.is_empty() && entries.len() < 64 {
        let kind = input.below(7) as u16;
        let number = input.wide();
        let length = input.below(256);
        let mut body = input.bytes(length);
        if (3..=5).contains(&kind) {
            // A message behind its length, and values.
            let front = input.below(256).min(body.len());
            body.splice(0..0, (front as u32).to_le_bytes());
        }
        entries.push(Entry::new(kind, vec![Bytes::from(body)]).numbered(number));
    }
    let log = Log::open(Folder::open(&path).expect("a folder"), None).expect("a log");
    log.begin(
        Origin {
            owner: OWNER,
            member: 0,
            prepared_epoch: 1,
        },
        entries,
        EarlierSegments::Obsolete,
    );
    log.commit(log.end()).expect("it is written");
    drop(log);
    let expected = Expected {
        model_dir: folder.path(),
        owner: Some(OWNER),
        prepared_epoch: 1,
        task: SERVER,
    };
    let server = LocalServer::new(SERVER.index, 1, 1, 1);
    let written = Folder::open(&path).expect("a folder");
    if let Err(problem) = recover(&server, &written, expected) {
        assert!(!problem.to_string().is_empty());
    }
}
