//! A recovered store equals the store before the crash, whenever the process died.
//!
//! Random work is done on a store with a log, and again on a store without one, up to the point at which the log was
//! cut. Both stores must be equal: values and slots bit by bit, sessions, windows, data, tickets, clocks and
//! micro-batches.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use trainyard_cluster_spec::{Role, Task};
use trainyard_parameter_store::{Journal, LogCut, Update};
use trainyard_write_ahead_log::{Log, Next, SegmentFile};

use super::{Expected, Problem, Recovered, recover};
use crate::LocalServer;
use crate::journal::LogJournal;
use crate::log_cut::DueCut;
use crate::log_cut::folders::MEMORY_IS_FULL;
use crate::random_work::{
    Act, CLUSTER, Image, RandomPush, SERVER, Worker, acts, image, open_folder, open_log, updates,
    without_log,
};

/// Returns the files of the segments and their bytes in use.
fn extent(path: &Path) -> Vec<(PathBuf, u64)> {
    let segments = SegmentFile::all(path).expect("the log");
    let used = |segment: &SegmentFile| {
        let mut reader = segment.read().expect("a segment");
        while reader.read().expect("readable") != Next::End {}
        (segment.path().to_owned(), reader.place())
    };
    segments.iter().map(used).collect()
}

fn bring_back(model_dir: &Path, path: &Path) -> (LocalServer, Result<Option<Recovered>, Problem>) {
    let shard = LocalServer::new(0, 2, 2, 1);
    let folder = open_folder(path);
    let expected = Expected {
        model_dir,
        owner: Some(CLUSTER),
        prepared_epoch: 1,
        task: SERVER,
    };
    let recovered = recover(&shard, &folder, expected);
    (shard, recovered)
}

/// Returns a cut that is due. Some fit into shared memory.
fn due(rows: LogCut) -> DueCut {
    DueCut { rows, bytes: 6000 }
}

/// Cuts the log in the way that `kind` says.
fn cut_log(shard: &LocalServer, journal: &LogJournal, kind: u8, model_dir: &Path) {
    match kind {
        0..=2 => {
            let cut = shard.cut_log_now(journal, due(LogCut::Increment));
            assert!(cut.expect("there is room").is_some());
        }
        3 => {
            let cut = shard.cut_log_now(journal, due(LogCut::Whole));
            assert!(cut.expect("there is room").is_some());
        }
        4 => {
            // The disk is full. The next cut must be whole.
            journal.request_cut(LogCut::Increment);
            drop(shard.store().log_snapshot(LogCut::Increment));
            journal.lose_cut();
            let cut = shard.cut_log_now(journal, due(LogCut::Whole));
            assert!(cut.expect("there is room").is_some());
        }
        5 => drop(journal.retire(model_dir).expect("removed")),
        // Shared memory is full when the cut has been read: the cut is lost, or the disk has it. The next one is whole.
        6 | 7 => {
            let rows = if kind == 6 {
                LogCut::Increment
            } else {
                LogCut::Whole
            };
            MEMORY_IS_FULL.set(true);
            let cut = shard.cut_log_now(journal, due(rows));
            MEMORY_IS_FULL.set(false);
            if cut.is_err() {
                let cut = shard.cut_log_now(journal, due(LogCut::Whole));
                assert!(cut.expect("there is room").is_some());
            }
        }
        _ => {}
    }
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
        let commit = || journal.write().expect("it is written");
        commit();
        let mut lengths = vec![extent(&path)];
        for act in acts {
            worker.act(act);
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

    /// The log is cut again and again, and checkpoints are committed between; the process dies, recovers, works on and dies
    /// again.
    #[test]
    fn a_store_whose_log_was_cut_is_the_store_that_was(
        update in updates(), acts in acts(), first in any::<prop::sample::Index>(),
        cuts in prop::collection::vec(0_u8..12, 64),
    ) {
        let scratch = tempfile::tempdir().expect("a folder");
        let model_dir = scratch.path().join("model");
        let path = scratch.path().join("log");
        let journal = open_log(&path);
        let mut worker = Worker::new(&model_dir, update, Some(&journal));
        let work = |worker: &mut Worker<'_>, journal: &LogJournal, acts: &[Act], cuts: &[u8]| {
            journal.write().expect("it is written");
            for (act, kind) in acts.iter().zip(cuts.iter().cycle()) {
                worker.act(act);
                // After a cut the process may die before anything else is written.
                journal.write().expect("it is written");
                cut_log(&worker.shard, journal, *kind, &model_dir);
            }
        };
        let place = first.index(acts.len());
        let (before, behind) = acts.split_at(place);
        work(&mut worker, &journal, before, &cuts);
        let secs = worker.secs;
        let expected = image(&without_log(update, before));
        worker.shard = LocalServer::new(0, 2, 2, 1);
        drop(journal);
        let (shard, recovered) = bring_back(&model_dir, &path);
        let recovered = recovered.expect("it is sound").expect("there is a log");
        shard.store().set_clock(secs);
        prop_assert_eq!(image(&shard), expected);
        let folder = open_folder(&path);
        let log = Log::open(folder, Some(&recovered.last)).expect("it opens");
        let journal = LogJournal::new(log, CLUSTER, 0, recovered.log_state, Some(recovered.changes));
        let journal = Arc::new(journal.expect("it opens"));
        shard.store().keep_journal(Arc::clone(&journal) as Arc<dyn Journal>);
        worker.shard = shard;
        work(&mut worker, &journal, behind, &cuts[place % 7..]);
        let secs = worker.secs;
        worker.shard = LocalServer::new(0, 2, 2, 1);
        drop(journal);
        let (shard, recovered) = bring_back(&model_dir, &path);
        recovered.expect("it is sound").expect("there is a log");
        shard.store().set_clock(secs);
        prop_assert_eq!(image(&shard), image(&without_log(update, &acts)));
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
        before.iter().for_each(|act| worker.act(act));
        journal.write().expect("it is written");
        let secs = worker.secs;
        worker.shard = LocalServer::new(0, 2, 2, 1);
        drop(journal);
        let (shard, recovered) = bring_back(&model_dir, &path);
        let recovered = recovered.expect("it is sound").expect("there is a log");
        let folder = open_folder(&path);
        let log = Log::open(folder, Some(&recovered.last)).expect("it opens");
        let journal = LogJournal::new(log, CLUSTER, 0, recovered.log_state, Some(recovered.changes));
        let journal = Arc::new(journal.expect("it opens"));
        shard.store().keep_journal(Arc::clone(&journal) as Arc<dyn Journal>);
        shard.store().set_restarts(journal.restarted());
        shard.store().set_clock(secs);
        worker.shard = shard;
        behind.iter().for_each(|act| worker.act(act));
        journal.write().expect("it is written");
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
        let recovered = recover(&shard, &open_folder(&path), expected);
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
        push(&mut worker);
        worker.act(&Act::Checkpoint { committed });
        journal.write().expect("it is written");
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
            shard.store().status().version.count(),
            recovered.log_state.cuts.len()
        ),
        (4, 1)
    );
}

/// Opens a session and pushes once.
fn push(worker: &mut Worker<'_>) {
    worker.act(&Act::OpenSession { task: 0 });
    worker.act(&Act::Reserve {
        task: 0,
        half_applied: false,
    });
    worker.act(&Act::Push(RandomPush {
        task: 0,
        rows: 7,
        values: 1,
        repeated: false,
        finite: true,
    }));
}

/// A log that begins anew removes its segments first. If there is no room for its first file, the next process finds none.
#[test]
fn a_cut_of_a_log_whose_segments_are_gone_is_no_cut_of_the_log_after_it() {
    let scratch = tempfile::tempdir().expect("a folder");
    let model_dir = scratch.path().join("model");
    let path = scratch.path().join("log");
    let journal = open_log(&path);
    let mut worker = Worker::new(&model_dir, Update::Async, Some(&journal));
    push(&mut worker);
    journal.write().expect("it is written");
    let cut = worker.shard.cut_log_now(&journal, due(LogCut::Whole));
    assert!(cut.expect("there is room").is_some());
    drop((worker, journal));
    for (file, _) in extent(&path) {
        std::fs::remove_file(file).expect("removed");
    }
    let journal = open_log(&path);
    let mut worker = Worker::new(&model_dir, Update::Async, Some(&journal));
    for _ in 0..3 {
        push(&mut worker);
    }
    // The process dies while it writes the cut at its second segment.
    journal.request_cut(LogCut::Whole);
    drop(worker.shard.store().log_snapshot(LogCut::Whole));
    journal.write().expect("it is written");
    assert_eq!(extent(&path).len(), 2);
    drop(journal);
    let expected = image_of_worker(&mut worker);
    let (shard, recovered) = bring_back(&model_dir, &path);
    recovered.expect("it is sound").expect("there is a log");
    let found = image(&shard);
    assert_eq!(found.status.version, expected.status.version);
    assert_eq!(found.bits, expected.bits);
}

/// A server that drains ends without its chief if a checkpoint holds its version.
#[test]
fn a_store_that_was_recovered_from_a_cut_of_its_log_knows_what_a_checkpoint_holds_and_no_more() {
    let cases =
        [false, true].map(|committed| [(committed, LogCut::Increment), (committed, LogCut::Whole)]);
    for (committed, rows) in cases.into_iter().flatten() {
        let scratch = tempfile::tempdir().expect("a folder");
        let model_dir = scratch.path().join("model");
        let path = scratch.path().join("log");
        let journal = open_log(&path);
        let mut worker = Worker::new(&model_dir, Update::Async, Some(&journal));
        push(&mut worker);
        let saved = worker.shard.store().status().version.count();
        worker.act(&Act::Checkpoint { committed });
        push(&mut worker);
        journal.write().expect("it is written");
        let cut = worker.shard.cut_log_now(&journal, due(rows));
        assert!(cut.expect("there is room").is_some());
        drop((worker, journal));
        let (shard, recovered) = bring_back(&model_dir, &path);
        recovered.expect("it is sound").expect("there is a log");
        let status = shard.store().status();
        assert!(status.version.count() > saved);
        assert_ne!(
            status.saved_version,
            Some(status.version.count()),
            "{rows:?}"
        );
    }
}

#[test]
fn a_ticket_beyond_the_last_step_comes_back_from_the_log() {
    let scratch = tempfile::tempdir().expect("a folder");
    let model_dir = scratch.path().join("model");
    let path = scratch.path().join("log");
    let journal = open_log(&path);
    let mut worker = Worker::new(&model_dir, Update::Async, Some(&journal));
    let reserve = |task, half_applied| Act::Reserve { task, half_applied };
    worker.act(&Act::OpenSession { task: 0 });
    worker.act(&Act::OpenSession { task: 1 });
    // All steps but the last are applied, and the ticket for the last one is out.
    for _ in 0..19 {
        worker.act(&reserve(0, false));
        worker.act(&Act::Push(RandomPush {
            task: 0,
            rows: 7,
            values: 1,
            repeated: false,
            finite: true,
        }));
    }
    worker.act(&reserve(0, false));
    // Other servers have applied this batch, so that it gets a ticket all the same.
    worker.act(&reserve(1, true));
    journal.write().expect("it is written");
    let tickets = worker.shard.store().metadata().tickets;
    assert_eq!(tickets.len(), 2);
    drop((worker, journal));
    let (shard, recovered) = bring_back(&model_dir, &path);
    recovered.expect("it is sound").expect("there is a log");
    assert_eq!(shard.store().metadata().tickets, tickets);
}
