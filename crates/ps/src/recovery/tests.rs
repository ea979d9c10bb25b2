//! A recovered store equals the store before the crash, whenever the process died.
//!
//! Random work is done on a store with a log, and again on a store without one, up to the point at which the log was
//! cut. Both stores must be equal: values and slots bit by bit, sessions, windows, data, tickets, clocks and
//! micro-batches.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use trainyard_checkpoint::{Manifest, ShardRecord, begin, commit};
use trainyard_cluster_client::LocalServer;
use trainyard_cluster_spec::{Role, Task};
use trainyard_optimizer::OptimizerConfig;
use trainyard_parameter_store::{
    BatchId, Claim, Identity, Journal, MicroBatch, Pull, Push, Selection, SnapshotTable, Status,
    StoreMetadata, Update,
};
use trainyard_protocol::{convert, v1};
use trainyard_variable::{Access, DynamicTable, Initializer, Slice, VariableSpec};
use trainyard_write_ahead_log::{Durability, Folder, Log};

use super::{Expected, Problem, Recovered, recover};
use crate::journal::{LogJournal, LogState};
use crate::service::plan_of;

pub(crate) const CLUSTER: u128 = 77;
const TASKS: usize = 3;
const CHIEF: Task = Task {
    role: Role::Chief,
    index: 0,
};
pub(crate) const SERVER: Task = Task {
    role: Role::Ps,
    index: 0,
};

/// A request to the store. Many are refused, which changes nothing.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    OpenSession {
        task: usize,
    },
    CloseSession {
        task: usize,
    },
    Reserve {
        task: usize,
        half_applied: bool,
    },
    Push {
        task: usize,
        rows: u8,
        values: u8,
        repeated: bool,
        finite: bool,
    },
    Rest {
        task: usize,
    },
    Claim,
    Tick,
    Checkpoint {
        committed: bool,
    },
}

pub(crate) fn acts() -> impl Strategy<Value = Vec<Act>> {
    let task = 0..TASKS;
    let act = prop_oneof![
        2 => task.clone().prop_map(|task| Act::OpenSession { task }),
        1 => task.clone().prop_map(|task| Act::CloseSession { task }),
        8 => (task.clone(), prop::bool::weighted(0.2))
            .prop_map(|(task, half_applied)| Act::Reserve { task, half_applied }),
        16 => (task.clone(), any::<u8>(), any::<u8>(), prop::bool::weighted(0.1), prop::bool::weighted(0.95))
            .prop_map(|(task, rows, values, repeated, finite)| Act::Push { task, rows, values, repeated, finite }),
        1 => task.prop_map(|task| Act::Rest { task }),
        1 => Just(Act::Claim),
        1 => Just(Act::Tick),
        2 => any::<bool>().prop_map(|committed| Act::Checkpoint { committed }),
    ];
    let opened: Vec<Act> = (0..TASKS).map(|task| Act::OpenSession { task }).collect();
    prop::collection::vec(act, 1..60)
        .prop_map(move |acts: Vec<Act>| [opened.clone(), acts].concat())
}

pub(crate) fn updates() -> impl Strategy<Value = Update> {
    prop_oneof![
        Just(Update::Async),
        Just(Update::StaleSynchronous { staleness_max: 1 }),
        Just(Update::Sync),
    ]
}

/// Returns a plan with a dense vector, a table whose rule changes all rows, and a dynamic table with room for four
/// rows.
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
    };
    let variables = [
        variable("dense", &[3], Access::Whole, "adagrad"),
        variable("table", &[8, 2], Access::Rows, "adam"),
        variable("users", &[4, 2], Access::Dynamic(dynamic), "adagrad"),
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
        Update::StaleSynchronous { staleness_max } => (v1::Update::StaleSynchronous, staleness_max),
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
pub(crate) struct Worker<'a> {
    pub(crate) shard: LocalServer,
    model_dir: &'a Path,
    synchronous: bool,
    epoch: u64,
    sessions: [u64; TASKS],
    seqs: [u64; TASKS],
    batches: u64,
    pub(crate) secs: u64,
    saves: u64,
    saved_version: Option<u64>,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(
        model_dir: &'a Path,
        update: Update,
        journal: Option<&Arc<LogJournal>>,
    ) -> Self {
        let shard = LocalServer::new(0, 2, 1, 1);
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
            .prepare_now(&this.identity(CHIEF, 0, 0), plan, place, slices)
            .expect("it can be held");
        this.shard
            .store()
            .open(&this.identity(CHIEF, 0, 0))
            .expect("it is prepared");
        this
    }

    fn identity(&self, task: Task, session: u64, seq: u64) -> Identity {
        Identity {
            cluster_id: CLUSTER,
            epoch: self.epoch,
            task,
            incarnation: 1,
            session,
            seq,
        }
    }

    fn of(&self, task: usize) -> Identity {
        let name = Task {
            role: Role::Worker,
            index: task,
        };
        self.identity(name, self.sessions[task], self.seqs[task] + 1)
    }

    pub(crate) fn act(&mut self, act: &Act, saves: bool) {
        let store = self.shard.store();
        match *act {
            Act::OpenSession { task } => {
                self.sessions[task] += 1;
                self.seqs[task] = 0;
                drop(store.open_session(
                    &Identity {
                        seq: 0,
                        ..self.of(task)
                    },
                    9,
                    0,
                ));
            }
            Act::CloseSession { task } => {
                let Identity { task, session, .. } = self.of(task);
                drop(store.close_session(&self.identity(CHIEF, 0, 0), task, session));
            }
            Act::Reserve { task, half_applied } => {
                let pull = Pull {
                    reserve_step: true,
                    half_applied,
                    ..Pull::default()
                };
                drop(store.pull(&self.of(task), &pull));
            }
            Act::Push {
                task,
                rows,
                values,
                repeated,
                finite,
            } => {
                self.push(task, rows, values, repeated, finite);
            }
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
            Act::Checkpoint { committed } if saves => self.save(committed),
            Act::Checkpoint { .. } => {}
        }
    }

    fn push(&mut self, task: usize, rows: u8, values: u8, repeated: bool, finite: bool) {
        let all: Vec<u32> = (0..8).filter(|row| rows >> row & 1 == 1).collect();
        let ids: Vec<u64> = all
            .iter()
            .map(|row| u64::from(row * 7 + u32::from(values % 3)))
            .collect();
        let selection = Selection {
            whole: vec![0],
            rows: vec![(1, 0)],
            row_sets: vec![all.clone()],
            ids: vec![(2, 0)],
            id_sets: vec![ids],
        };
        let count = 3 + all.len() * 2 + all.len() * 2;
        let mut gradients: Vec<f32> = (0..count)
            .map(|place| (place as f32 + f32::from(values)).sin())
            .collect();
        if !finite {
            gradients[1] = f32::NAN;
        }
        let identity = self.of(task);
        let version = self.shard.store().status().version;
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
            batch,
            batches: 1,
            pulled_version: version,
            micro_batch,
            selection: Some(Arc::new(selection)),
            gradients: &gradients[..],
            rejected: None,
        };
        if self.shard.store().push(&identity, &push).is_ok() {
            self.seqs[task] += 1;
            self.batches = self.batches.max(batch.batch + 1);
        }
    }

    /// Writes a checkpoint, and commits or abandons it.
    fn save(&mut self, committed: bool) {
        // Like the chief, skips a version that already has a checkpoint.
        let version = Some(self.shard.store().status().version);
        if std::mem::replace(&mut self.saved_version, version) == version {
            return;
        }
        self.saves += 1;
        let folder = begin(self.model_dir, self.saves, "test", 0).expect("there is room");
        let saved = block(self.shard.save(self.identity(CHIEF, 0, 0), &folder, None))
            .expect("it is written");
        if !committed {
            return;
        }
        let record: ShardRecord = serde_json::from_str(&saved.record).expect("a record");
        let mut manifest = Manifest::new(format!("{CLUSTER:032x}"), self.epoch, self.saves, 0);
        (manifest.num_ps, manifest.seed) = (2, 5);
        manifest.shards.push(record);
        let (plan, ..) = plan_of(&request(Update::Async), 0).expect("a plan");
        (manifest.variables, manifest.optimizers) = (plan.variables, plan.optimizers);
        commit(self.model_dir, &folder, &manifest).expect("it is committed");
    }
}

fn block<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(work)
}

/// The state that must be equal in both stores.
#[derive(Debug, PartialEq)]
pub(crate) struct Image {
    pub(crate) status: Status,
    pub(crate) metadata: StoreMetadata,
    pub(crate) bits: Vec<Vec<u32>>,
    pub(crate) tables: Vec<String>,
}

pub(crate) fn image(shard: &LocalServer) -> Image {
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
        seq: 0,
    };
    let snapshot = store.snapshot(&identity).expect("nobody else saves");
    for slice in &snapshot.slices {
        let values = slice.read_all();
        all.push(bits(&values.values));
        all.extend(values.slots.iter().map(|slot| bits(slot)));
    }
    let table = |table: &SnapshotTable| {
        let mut parts = Vec::new();
        let read: Result<(), ()> = table.read(&mut |part| {
            parts.push(format!("{part:?}"));
            Ok(())
        });
        read.expect("it is all taken");
        parts.concat()
    };
    let tables = snapshot.tables.iter().map(table).collect();
    Image {
        status,
        metadata,
        bits: all,
        tables,
    }
}

pub(crate) fn open_log(path: &Path) -> Arc<LogJournal> {
    let log = Log::open(
        Folder::open(path).expect("it is free"),
        Durability::Wal,
        None,
    )
    .expect("it opens");
    Arc::new(LogJournal::new(log, CLUSTER, 0, LogState::default(), None))
}

/// Returns the segments and their sizes.
fn extent(path: &Path) -> Vec<(PathBuf, u64)> {
    let entries = path.read_dir().expect("the log").filter_map(Result::ok);
    let mut found: Vec<_> = entries
        .map(|entry| (entry.path(), entry.metadata().expect("a file").len()))
        .collect();
    found.sort();
    found
}

fn bring_back(model_dir: &Path, path: &Path) -> (LocalServer, Result<Option<Recovered>, Problem>) {
    let shard = LocalServer::new(0, 2, 2, 1);
    let folder = Folder::open(path).expect("it is free");
    let expected = Expected {
        model_dir,
        owner: Some(CLUSTER),
        prepared_epoch: 1,
        task: SERVER,
    };
    let recovered = recover(&shard, &folder, expected);
    (shard, recovered)
}

/// Finished work, its log, and the sizes of the log after each act.
struct Done {
    scratch: tempfile::TempDir,
    lengths: Vec<Vec<(PathBuf, u64)>>,
}

impl Done {
    fn new(update: Update, acts: &[Act]) -> Self {
        let scratch = tempfile::tempdir().expect("a folder");
        let model_dir = scratch.path().join("model");
        let path = scratch.path().join("log");
        let journal = open_log(&path);
        let mut worker = Worker::new(&model_dir, update, Some(&journal));
        let commit = || block(journal.commit()).expect("it is written");
        commit();
        let mut lengths = vec![extent(&path)];
        for act in acts {
            worker.act(act, true);
            commit();
            lengths.push(extent(&path));
        }
        Self { scratch, lengths }
    }

    fn model_dir(&self) -> PathBuf {
        self.scratch.path().join("model")
    }

    /// Returns a copy of the log at a length of `bytes`, and the number of acts that it then held.
    fn cut(&self, bytes: u64) -> (PathBuf, usize) {
        let copy = self.scratch.path().join("cut");
        std::fs::create_dir(&copy).expect("made");
        let mut left = bytes;
        for (path, length) in self.lengths.last().expect("the end") {
            let content = std::fs::read(path).expect("a segment");
            let here = left.min(*length);
            let name = path.file_name().expect("a name");
            std::fs::write(copy.join(name), &content[..here as usize]).expect("written");
            left -= here;
            if left == 0 {
                break;
            }
        }
        let total =
            |lengths: &Vec<(PathBuf, u64)>| lengths.iter().map(|(_, length)| length).sum::<u64>();
        let held = self
            .lengths
            .iter()
            .rposition(|lengths| total(lengths) <= bytes);
        (copy, held.expect("more than the first head"))
    }

    fn bytes(&self) -> (u64, u64) {
        let total = |lengths: &Vec<(PathBuf, u64)>| lengths.iter().map(|(_, length)| length).sum();
        (
            total(&self.lengths[0]),
            total(self.lengths.last().expect("the end")),
        )
    }
}

pub(crate) fn without_log(update: Update, acts: &[Act]) -> LocalServer {
    let scratch = tempfile::tempdir().expect("a folder");
    let mut worker = Worker::new(scratch.path(), update, None);
    acts.iter().for_each(|act| worker.act(act, false));
    worker.shard
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_store_whose_process_died_anywhere_is_the_store_that_was(
        update in updates(), acts in acts(), cut in any::<prop::sample::Index>(),
    ) {
        let done = Done::new(update, &acts);
        let (least, most) = done.bytes();
        let bytes = least + cut.index((most - least + 1) as usize) as u64;
        let (path, held) = done.cut(bytes);
        let (shard, recovered) = bring_back(&done.model_dir(), &path);
        let recovered = recovered.expect("it is sound").expect("there is a log");
        prop_assert!(recovered.torn <= most);
        // The passage of time is not logged: a recovered store learns it from the next push.
        let reference = without_log(update, &acts[..held]);
        let secs = shard.store().clock();
        let mut expected = image(&reference);
        let mut found = image(&shard);
        prop_assert!(secs <= expected.metadata.secs);
        (expected.metadata.secs, found.metadata.secs) = (0, 0);
        if secs == reference.store().clock() {
            prop_assert_eq!(&found.tables, &expected.tables);
        }
        (expected.tables, found.tables) = (Vec::new(), Vec::new());
        prop_assert_eq!(found, expected);
    }

    /// The process dies, recovers, works on and dies again.
    #[test]
    fn a_store_goes_on_from_its_log_as_if_nothing_had_been(
        update in updates(), acts in acts(), first in any::<prop::sample::Index>(),
    ) {
        let scratch = tempfile::tempdir().expect("a folder");
        let model_dir = scratch.path().join("model");
        let path = scratch.path().join("log");
        let journal = open_log(&path);
        let mut worker = Worker::new(&model_dir, update, Some(&journal));
        let (before, behind) = acts.split_at(first.index(acts.len()));
        before.iter().for_each(|act| worker.act(act, true));
        block(journal.commit()).expect("it is written");
        let secs = worker.secs;
        worker.shard = LocalServer::new(0, 2, 2, 1);
        drop(journal);
        let (shard, recovered) = bring_back(&model_dir, &path);
        let recovered = recovered.expect("it is sound").expect("there is a log");
        let folder = Folder::open(&path).expect("it is free");
        let log = Log::open(folder, Durability::Wal, Some(&recovered.last)).expect("it opens");
        let journal = Arc::new(LogJournal::new(log, CLUSTER, 0, recovered.log_state, Some(recovered.changes)));
        shard.store().keep_journal(Arc::clone(&journal) as Arc<dyn Journal>);
        shard.store().set_restarts(journal.restarted());
        shard.store().set_clock(secs);
        worker.shard = shard;
        behind.iter().for_each(|act| worker.act(act, true));
        block(journal.commit()).expect("it is written");
        let expected = image(&without_log(update, &acts));
        drop(journal);
        prop_assert_eq!(&image_of_worker(&mut worker), &expected);
        let (shard, recovered) = bring_back(&model_dir, &path);
        let recovered = recovered.expect("it is sound").expect("there is a log");
        prop_assert_eq!(recovered.log_state.restarts, 1);
        shard.store().set_clock(worker.secs);
        let found = image(&shard);
        prop_assert_eq!((found.status, found.bits), (expected.status, expected.bits));
    }
}

/// Drops the store, and with it its journal, so that the folder of the log is free. Returns the store's image.
fn image_of_worker(worker: &mut Worker<'_>) -> Image {
    let shard = std::mem::replace(&mut worker.shard, LocalServer::new(0, 2, 3, 1));
    image(&shard)
}

#[test]
fn a_log_of_something_else_is_told_apart() {
    let done = Done::new(Update::Async, &[Act::OpenSession { task: 0 }]);
    let path = done.scratch.path().join("log");
    let model_dir = done.model_dir();
    let told = |expected: Expected<'_>| {
        let shard = LocalServer::new(0, 2, 2, 1);
        let recovered = recover(&shard, &Folder::open(&path).expect("it is free"), expected);
        recovered.expect_err("it is another's").to_string()
    };
    let right = Expected {
        model_dir: &model_dir,
        owner: Some(CLUSTER),
        prepared_epoch: 1,
        task: SERVER,
    };
    let cases = [
        (
            Expected {
                owner: Some(5),
                ..right
            },
            "model_dir is of cluster 00000000000000000000000000000005",
        ),
        (
            Expected {
                owner: None,
                ..right
            },
            "model_dir is of cluster none",
        ),
        (
            Expected {
                prepared_epoch: 2,
                ..right
            },
            "those of the job in epoch 2",
        ),
        (
            Expected {
                task: Task {
                    role: Role::Ps,
                    index: 1,
                },
                ..right
            },
            "it is of ps:0, this is ps:1",
        ),
    ];
    for (expected, words) in cases {
        let message = told(expected);
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn segments_go_when_their_checkpoint_is_committed_and_not_before() {
    let scratch = tempfile::tempdir().expect("a folder");
    let model_dir = scratch.path().join("model");
    let path = scratch.path().join("log");
    let journal = open_log(&path);
    let mut worker = Worker::new(&model_dir, Update::Async, Some(&journal));
    let mut step = |committed| {
        worker.act(&Act::OpenSession { task: 0 }, true);
        worker.act(
            &Act::Reserve {
                task: 0,
                half_applied: false,
            },
            true,
        );
        worker.act(
            &Act::Push {
                task: 0,
                rows: 7,
                values: 1,
                repeated: false,
                finite: true,
            },
            true,
        );
        worker.act(&Act::Checkpoint { committed }, true);
        block(journal.commit()).expect("it is written");
        journal.retire(&model_dir).expect("removed");
        extent(&path).len()
    };
    assert_eq!(step(false), 2, "nothing may go");
    assert_eq!(step(false), 3);
    assert_eq!(step(true), 1, "the checkpoint has what came before");
    assert!(!journal.waits_for_checkpoint());
    assert_eq!(step(false), 2);
    drop((worker, journal));
    let (shard, recovered) = bring_back(&model_dir, &path);
    let recovered = recovered.expect("it is sound").expect("there is a log");
    assert_eq!(
        (
            shard.store().status().version,
            recovered.log_state.cuts.len()
        ),
        (4, 1)
    );
}

#[test]
fn a_ticket_beyond_the_last_step_comes_back_from_the_log() {
    let scratch = tempfile::tempdir().expect("a folder");
    let model_dir = scratch.path().join("model");
    let path = scratch.path().join("log");
    let journal = open_log(&path);
    let mut worker = Worker::new(&model_dir, Update::Async, Some(&journal));
    let reserve = |task, half_applied| Act::Reserve { task, half_applied };
    worker.act(&Act::OpenSession { task: 0 }, true);
    worker.act(&Act::OpenSession { task: 1 }, true);
    // All steps but the last are applied, and the ticket for the last one is out.
    for _ in 0..19 {
        worker.act(&reserve(0, false), true);
        worker.act(
            &Act::Push {
                task: 0,
                rows: 7,
                values: 1,
                repeated: false,
                finite: true,
            },
            true,
        );
    }
    worker.act(&reserve(0, false), true);
    // Other servers have applied this batch, so that it gets a ticket all the same.
    worker.act(&reserve(1, true), true);
    block(journal.commit()).expect("it is written");
    let tickets = worker.shard.store().metadata().tickets;
    assert_eq!(tickets.len(), 2);
    drop((worker, journal));
    let (shard, recovered) = bring_back(&model_dir, &path);
    recovered.expect("it is sound").expect("there is a log");
    assert_eq!(shard.store().metadata().tickets, tickets);
}
