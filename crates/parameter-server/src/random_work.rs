//! Random work on a store, and an image of the store to compare. It is built only for tests: two servers that did the
//! same work must be equal.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use trainyard_checkpoint::{Manifest, ShardRecord, begin, commit};
use trainyard_cluster_spec::{Role, Task};
use trainyard_optimizer::OptimizerConfig;
use trainyard_parameter_store::{
    Basis, BatchId, Claim, Identity, Journal, MicroBatch, OpenSession, Pull, Push, PushHeader,
    Selection, SnapshotTable, Status, StoreMetadata, Update,
};
use trainyard_protocol::{convert, v1};
use trainyard_variable::{Access, DynamicTable, Initializer, Slice, VariableSpec};
use trainyard_write_ahead_log::{Folder, Log, SharedMemory};

use crate::journal::LogJournal;
use crate::record::LogState;
use crate::{LocalServer, SnapshotRequest, plan_of};

/// The cluster.
pub const CLUSTER: u128 = 77;
const TASKS: usize = 3;
const CHIEF: Task = Task {
    role: Role::Chief,
    index: 0,
};
/// The server.
pub const SERVER: Task = Task {
    role: Role::Ps,
    index: 0,
};

/// A request to the store. Many are refused, which changes nothing.
#[derive(Debug, Clone)]
pub enum Act {
    /// Opens a new session of a worker.
    OpenSession {
        /// Number of the worker.
        task: usize,
    },
    /// Closes the session of a worker.
    CloseSession {
        /// Number of the worker.
        task: usize,
    },
    /// Requests a ticket.
    Reserve {
        /// Number of the worker.
        task: usize,
        /// Other servers have applied the batch.
        half_applied: bool,
    },
    /// Pushes gradients.
    Push(RandomPush),
    /// Excludes a worker from the staleness bound until its next request.
    Rest {
        /// Number of the worker.
        task: usize,
    },
    /// Claims the server for the next term.
    Claim,
    /// Lets three seconds pass.
    Tick,
    /// Writes a checkpoint.
    Checkpoint {
        /// The checkpoint is committed.
        committed: bool,
    },
}

/// A push of random gradients.
#[derive(Debug, Clone, Copy)]
pub struct RandomPush {
    /// Number of the worker.
    pub task: usize,
    /// Rows to update, one bit each.
    pub rows: u8,
    /// Seed of the gradients.
    pub values: u8,
    /// The batch is that of the push before.
    pub repeated: bool,
    /// All gradients are finite.
    pub finite: bool,
}

/// Returns random requests that begin with a session of each worker.
pub fn acts() -> impl Strategy<Value = Vec<Act>> {
    let task = 0..TASKS;
    let act = prop_oneof![
        2 => task.clone().prop_map(|task| Act::OpenSession { task }),
        1 => task.clone().prop_map(|task| Act::CloseSession { task }),
        8 => (task.clone(), prop::bool::weighted(0.2))
            .prop_map(|(task, half_applied)| Act::Reserve { task, half_applied }),
        16 => (task.clone(), any::<u8>(), any::<u8>(), prop::bool::weighted(0.1), prop::bool::weighted(0.95))
            .prop_map(|(task, rows, values, repeated, finite)| Act::Push(RandomPush { task, rows, values, repeated, finite })),
        1 => task.prop_map(|task| Act::Rest { task }),
        1 => Just(Act::Claim),
        1 => Just(Act::Tick),
        2 => any::<bool>().prop_map(|committed| Act::Checkpoint { committed }),
    ];
    let opened: Vec<Act> = (0..TASKS).map(|task| Act::OpenSession { task }).collect();
    prop::collection::vec(act, 1..60)
        .prop_map(move |acts: Vec<Act>| [opened.clone(), acts].concat())
}

/// Returns each way in which pushes take effect.
pub fn updates() -> impl Strategy<Value = Update> {
    prop_oneof![
        Just(Update::Async),
        Just(Update::StaleSynchronous {
            staleness_steps_max: 1
        }),
        Just(Update::Sync),
    ]
}

/// Returns a plan with a dense vector, a table whose rule changes all rows, and two dynamic tables with room for four
/// rows, of which the second has a shared row.
fn request(update: Update) -> v1::PrepareRequest {
    let variable = |name: &str, shape: &[usize], access, group: &str| VariableSpec {
        name: name.into(),
        shape: shape.into(),
        access,
        initializer: Initializer::Uniform {
            low: -1.0,
            high: 1.0,
        },
        optimizer_group: group.into(),
    };
    let dynamic = DynamicTable {
        admit_after: 2,
        expire_after_steps: Some(9),
        expire_after_secs: Some(5),
        shared_row: false,
    };
    let shared = DynamicTable {
        shared_row: true,
        ..dynamic
    };
    let variables = [
        variable("dense", &[3], Access::Whole, "adagrad"),
        variable("table", &[8, 2], Access::Rows, "adam"),
        variable("users", &[4, 2], Access::Dynamic(dynamic), "adagrad"),
        variable("guests", &[4, 2], Access::Dynamic(shared), "adagrad"),
    ];
    let slice = |variable, rows, width| Slice {
        variable,
        part: 0,
        rows: 0..rows,
        width,
        ps: 0,
    };
    let adam = r#"{"kind": "adam", "learning_rate": 0.1}"#;
    let optimizers = BTreeMap::from([
        ("adagrad".to_owned(), OptimizerConfig::adagrad(0.5)),
        (
            "adam".to_owned(),
            serde_json::from_str(adam).expect("a rule"),
        ),
    ]);
    let (update, staleness_max) = match update {
        Update::Async => (v1::Update::Async, 0),
        Update::StaleSynchronous {
            staleness_steps_max,
        } => (v1::Update::StaleSynchronous, staleness_steps_max),
        Update::Sync => (v1::Update::Sync, 0),
    };
    v1::PrepareRequest {
        seed: 5,
        num_ps: 2,
        variables: variables.iter().map(convert::variable_to_wire).collect(),
        slices: vec![
            convert::slice_to_wire(0, &slice(0, 3, 1)),
            convert::slice_to_wire(1, &slice(1, 8, 2)),
            convert::slice_to_wire(2, &slice(2, 4, 2)),
            convert::slice_to_wire(3, &slice(3, 4, 2)),
        ],
        optimizers: convert::optimizers_to_wire(&optimizers),
        layout_fingerprint: 9,
        counts_steps: true,
        global_step_max: 20,
        update: update.into(),
        staleness_max,
        settings: 3,
        ..v1::PrepareRequest::default()
    }
}

/// Does the work on a store, with or without a journal.
pub struct Worker<'a> {
    /// The server.
    pub shard: LocalServer,
    model_dir: &'a Path,
    /// Checkpoints are written. Without a log nothing continues from them.
    writes_checkpoints: bool,
    synchronous: bool,
    epoch: u64,
    sessions: [u64; TASKS],
    seqs: [u64; TASKS],
    batches: u64,
    /// Seconds on the clock of the store.
    pub secs: u64,
    saves: u64,
    saved_version: Option<u64>,
}

impl<'a> Worker<'a> {
    /// Returns the worker of a new store, prepared and open.
    pub fn new(model_dir: &'a Path, update: Update, journal: Option<&Arc<LogJournal>>) -> Self {
        let shard = LocalServer::new(0, 2, 1, 1).stop_clock();
        let request = request(update);
        if let Some(journal) = journal {
            journal.stage(CLUSTER, request.clone());
            shard
                .store()
                .keep_journal(Arc::clone(journal) as Arc<dyn Journal>);
        }
        shard
            .store()
            .claim(&Claim {
                cluster_id: CLUSTER,
                epoch: 1,
            })
            .expect("it is free");
        let synchronous = update == Update::Sync;
        let this = Self {
            shard,
            model_dir,
            writes_checkpoints: journal.is_some(),
            synchronous,
            epoch: 1,
            sessions: [0; TASKS],
            seqs: [0; TASKS],
            batches: 0,
            secs: 0,
            saves: 0,
            saved_version: None,
        };
        let (plan, place, slices) = plan_of(&request, 0).expect("a plan");
        this.shard
            .prepare_now(&this.identity(CHIEF, 0), plan, place, slices)
            .expect("it can be held");
        this.shard
            .store()
            .open(&this.identity(CHIEF, 0))
            .expect("it is prepared");
        this
    }

    fn identity(&self, task: Task, session: u64) -> Identity {
        Identity {
            cluster_id: CLUSTER,
            epoch: self.epoch,
            task,
            incarnation: 1,
            session,
        }
    }

    fn of(&self, task: usize) -> Identity {
        let name = Task {
            role: Role::Worker,
            index: task,
        };
        self.identity(name, self.sessions[task])
    }

    /// Does one piece of work. A request that the store refuses changes nothing.
    pub fn act(&mut self, act: &Act) {
        let store = self.shard.store();
        match *act {
            Act::OpenSession { task } => {
                self.sessions[task] += 1;
                self.seqs[task] = 0;
                let opening = OpenSession {
                    seq: 0,
                    layout_fingerprint: 9,
                    data_shard: 0,
                };
                drop(store.open_session(&self.of(task), &opening));
            }
            Act::CloseSession { task } => {
                let Identity { task, session, .. } = self.of(task);
                drop(store.close_session(&self.identity(CHIEF, 0), task, session));
            }
            Act::Reserve { task, half_applied } => {
                let pull = Pull {
                    seq: self.seqs[task] + 1,
                    reserve_step: true,
                    half_applied,
                    ..Pull::default()
                };
                drop(store.pull(&self.of(task), &pull));
            }
            Act::Push(push) => self.push(push),
            Act::Rest { task } => drop(store.rest(&self.of(task))),
            Act::Claim => {
                self.epoch += 1;
                store
                    .claim(&Claim {
                        cluster_id: CLUSTER,
                        epoch: self.epoch,
                    })
                    .expect("a higher epoch");
            }
            Act::Tick => {
                self.secs += 3;
                store.set_clock(self.secs);
            }
            Act::Checkpoint { committed } => {
                let written = self.writes_checkpoints.then(|| self.save()).flatten();
                if let Some((folder, record)) = written.filter(|_| committed) {
                    self.commit(&folder, record);
                }
            }
        }
    }

    fn push(&mut self, push: RandomPush) {
        let RandomPush {
            task,
            rows,
            values,
            repeated,
            finite,
        } = push;
        let all: Vec<u32> = (0..8).filter(|row| rows >> row & 1 == 1).collect();
        let ids: Vec<u64> = all
            .iter()
            .map(|row| u64::from(row * 7 + u32::from(values % 3)))
            .collect();
        let (counted, others): (Vec<u64>, Vec<u64>) = ids
            .iter()
            .partition(|id| (**id + u64::from(values)).is_multiple_of(3));
        let count = 3 + all.len() * 2 + all.len() * 2 + others.len() * 2;
        let selection = Selection {
            whole: vec![0],
            rows: vec![(1, 0)],
            row_sets: vec![all.clone()],
            ids: vec![(2, 0), (3, 1)],
            id_sets: vec![ids, others, counted],
            counted: vec![(3, 2)],
        };
        let mut gradients: Vec<f32> = (0..count)
            .map(|place| (place as f32 + f32::from(values)).sin())
            .collect();
        if !finite {
            gradients[1] = f32::NAN;
        }
        let identity = self.of(task);
        let version = self.shard.store().status().version.count();
        let batch = BatchId {
            pass: 0,
            shard: 0,
            batch: self.batches.saturating_sub(u64::from(repeated)),
        };
        let micro_batch = self.synchronous.then_some(MicroBatch {
            lane: task as u32,
            lanes: TASKS as u32,
        });
        let push = Push {
            header: PushHeader {
                seq: self.seqs[task] + 1,
                batch,
                batches: 1,
                pulled_version: version,
                micro_batch,
                optimizer_step: None,
                rejected: None,
            },
            selection: Some(Arc::new(selection)),
            gradients: &gradients[..],
        };
        if self.shard.store().push(&identity, &push).is_ok() {
            self.seqs[task] += 1;
            self.batches = self.batches.max(batch.batch + 1);
        }
    }

    /// Writes a checkpoint that is not committed. Returns its folder and the record of the server.
    fn save(&mut self) -> Option<(PathBuf, ShardRecord)> {
        // Like the chief, skips a version that already has a checkpoint.
        let version = Some(self.shard.store().status().version.count());
        if std::mem::replace(&mut self.saved_version, version) == version {
            return None;
        }
        self.saves += 1;
        let folder = begin(self.model_dir, self.saves, "test", 0).expect("there is room");
        let saved = block_on(self.shard.save(
            self.identity(CHIEF, 0),
            &folder,
            SnapshotRequest::default(),
        ))
        .expect("it is written");
        let record = serde_json::from_str(&saved.record).expect("a record");
        Some((folder, record))
    }

    /// Commits a checkpoint.
    fn commit(&self, folder: &Path, record: ShardRecord) {
        let mut manifest = Manifest::new(format!("{CLUSTER:032x}"), self.epoch, self.saves, 0);
        (manifest.num_ps, manifest.seed) = (2, 5);
        manifest.shards.push(record);
        let (plan, ..) = plan_of(&request(Update::Async), 0).expect("a plan");
        (manifest.variables, manifest.optimizers) = (plan.variables, plan.optimizers);
        commit(self.model_dir, folder, &manifest).expect("it is committed");
    }
}

/// The state that must be equal in both stores.
#[derive(Debug, PartialEq)]
pub struct Image {
    /// Status, without what may differ.
    pub status: Status,
    /// Sessions, positions, tickets and clocks.
    pub metadata: StoreMetadata,
    /// Values and slots of the slices, bit by bit.
    pub bits: Vec<Vec<u32>>,
    /// Contents of the dynamic tables.
    pub tables: Vec<String>,
}

/// Returns the image of a server.
pub fn image(shard: &LocalServer) -> Image {
    let store = shard.store();
    let mut status = store.status();
    let mut metadata = store.metadata();
    // The latest save, the slowest lane and the counts of dropped rows do not matter. The memory of replaced values
    // is compared bit by bit.
    (status.saved_version, status.slowest_lane) = (None, None);
    // The memory of a table depends on how the table grew.
    status.held.tables = 0;
    status.dynamic.iter_mut().for_each(|table| {
        (table.evicted, table.expired, table.gradients_dropped) = (0, 0, 0);
    });
    let bits = |values: &[f32]| {
        values
            .iter()
            .map(|value| value.to_bits())
            .collect::<Vec<_>>()
    };
    let mut all: Vec<Vec<u32>> = Vec::new();
    if let Some(replaced) = &mut metadata.replaced {
        all.push(bits(&std::mem::take(&mut replaced.values)));
    }
    for part in &mut metadata.parts {
        all.push(bits(&std::mem::take(&mut part.values)));
    }
    let identity = Identity {
        cluster_id: CLUSTER,
        epoch: status.epoch,
        task: CHIEF,
        incarnation: 1,
        session: 0,
    };
    let snapshot = store
        .snapshot(&identity, Basis::Whole)
        .expect("nobody else saves");
    for slice in snapshot.slices {
        let values = slice.read_all();
        all.push(bits(&values.values));
        all.extend(values.slots.iter().map(|slot| bits(slot)));
    }
    let table = |table: SnapshotTable| {
        let mut parts = Vec::new();
        let read: Result<(), ()> = table.into_rows().read(&mut |part| {
            parts.push(format!("{part:?}"));
            Ok(())
        });
        read.expect("it is all taken");
        parts.concat()
    };
    let tables = snapshot.tables.into_iter().map(table).collect();
    Image {
        status,
        metadata,
        bits: all,
        tables,
    }
}

/// Opens the folder of a log. There is shared memory for some of its cuts, and for none of its segments.
pub fn open_folder(path: &Path) -> Folder {
    let mut folder = Folder::open(path).expect("it is free");
    let memory = SharedMemory {
        folder: path.with_extension("memory"),
        bytes_max: 64 << 10,
    };
    folder.use_memory(&memory).expect("it has memory");
    folder
}

/// Opens a new log in a folder, and returns its journal.
pub fn open_log(path: &Path) -> Arc<LogJournal> {
    let log = Log::open(open_folder(path), None).expect("it opens");
    let journal = LogJournal::new(log, CLUSTER, 0, LogState::default(), None);
    Arc::new(journal.expect("it opens"))
}

/// Does the work on a store without a log or checkpoints.
pub fn without_log(update: Update, acts: &[Act]) -> LocalServer {
    let scratch = tempfile::tempdir().expect("a folder");
    let mut worker = Worker::new(scratch.path(), update, None);
    acts.iter().for_each(|act| worker.act(act));
    worker.shard
}

/// Runs a future on this thread.
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(work)
}
