//! Dynamic tables in checkpoints: read by id, for any number of servers that wrote them.

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;
use trainyard_checkpoint::*;
use trainyard_optimizer::OptimizerConfig;
use trainyard_variable::{
    Access, Candidate, DynamicRows, DynamicTable, Idle, Initializer, Layout, Partitioner,
    Placement, VariableSpec,
};

fn table(rows_max: usize, width: usize) -> VariableSpec {
    VariableSpec {
        name: "dnn/user".into(),
        shape: vec![rows_max, width],
        access: Access::Dynamic(DynamicTable::KEEP_ALL),
        initializer: Initializer::Zeros,
        optimizer_group: "dnn".into(),
    }
}

fn optimizers() -> BTreeMap<String, OptimizerConfig> {
    BTreeMap::from([("dnn".to_owned(), OptimizerConfig::adagrad(0.1))])
}

/// Returns rows whose numbers follow from their ids.
fn rows(ids: &[u64]) -> DynamicRows {
    let values = |add: f32| {
        ids.iter()
            .flat_map(|id| [(id % 97) as f32 + add; 3])
            .collect()
    };
    DynamicRows {
        ids: ids.to_vec(),
        idle: ids
            .iter()
            .map(|id| Idle {
                pushes: id % 11,
                secs: id % 7,
            })
            .collect(),
        values: values(0.25),
        slots: vec![values(0.5)],
        candidates: ids
            .iter()
            .map(|id| Candidate {
                id: id ^ 1,
                idle: Idle {
                    pushes: 1,
                    secs: id % 5,
                },
                occurrences: id % 3,
            })
            .collect(),
    }
}

fn save(folder: &Path, ids: &[u64], num_ps: usize) -> Checkpoint {
    let spec = table(100, 3);
    let specs = std::slice::from_ref(&spec);
    let layout = Layout::new(
        specs,
        Partitioner::Fixed { num_shards: 1 },
        Placement::Greedy,
        num_ps,
    );
    let temporary = begin(folder, 7, "test", 1000).expect("a checkpoint begins");
    let write = |slice: &trainyard_variable::Slice| {
        let range = slice.ids(spec.rows());
        let own: Vec<u64> = ids
            .iter()
            .copied()
            .filter(|id| range.contains(&u128::from(*id)))
            .collect();
        let rows = rows(&own);
        let state = ShardState {
            ps: slice.ps,
            num_ps,
            version: 1,
            positions: Vec::new(),
            ..ShardState::default()
        };
        let view = TableView {
            variable: &spec.name,
            part: slice.part,
            width: 3,
            slot_names: vec!["accumulator"],
            first: None,
            source: &rows,
            increment: None,
        };
        write_shard(&temporary, &state, &[], &[view]).expect("a shard is written")
    };
    let shards: Vec<ShardRecord> = layout.slices.iter().map(write).collect();
    let manifest = Manifest {
        num_ps,
        variables: vec![spec.clone()],
        optimizers: optimizers(),
        shards,
        ..Manifest::new("c1".into(), 1, 7, 1000)
    };
    commit(folder, &temporary, &manifest).expect("a checkpoint is committed")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn any_range_of_ids_is_read_from_any_number_of_files(
        ids in prop::collection::btree_set(any::<u64>(), 0..40), num_ps in 1_usize..5, bounds in any::<(u64, u64)>(),
    ) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let ids: Vec<u64> = ids.into_iter().filter(|id| id % 2 == 0).collect();
        let checkpoint = save(folder.path(), &ids, num_ps);
        checkpoint.verify().expect("it is whole");
        prop_assert_eq!(checkpoint.rows_used("dnn/user"), ids.len());
        let all = checkpoint.read_dynamic("dnn/user", &["accumulator"], 0..1 << 64).expect("rows are read");
        prop_assert_eq!(all, rows(&ids));
        let range = u128::from(bounds.0.min(bounds.1))..u128::from(bounds.0.max(bounds.1));
        let part = checkpoint.read_dynamic("dnn/user", &["accumulator"], range.clone()).expect("rows are read");
        let inside: Vec<u64> = ids.iter().copied().filter(|id| range.contains(&u128::from(*id))).collect();
        prop_assert_eq!((part.ids, part.values), (rows(&inside).ids, rows(&inside).values));
        prop_assert!(part.candidates.iter().all(|candidate| range.contains(&u128::from(candidate.id))));
    }

    #[test]
    fn rows_of_single_ids_are_read_from_any_number_of_files(
        ids in prop::collection::btree_set(any::<u64>(), 0..40), chosen in any::<u64>(), others in prop::collection::vec(any::<u64>(), 0..5),
        num_ps in 1_usize..5,
    ) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let ids: Vec<u64> = ids.into_iter().filter(|id| id % 2 == 0).collect();
        let checkpoint = save(folder.path(), &ids, num_ps);
        let wanted: Vec<u64> = ids.iter().enumerate().filter(|(place, _)| chosen >> (place % 64) & 1 == 1).map(|(_, id)| *id).collect();
        // Odd ids have no row.
        let mut asked: Vec<u64> = wanted.iter().copied().chain(others.iter().map(|id| id | 1)).collect();
        asked.sort_unstable();
        let found = checkpoint.read_ids("dnn/user", &asked).expect("rows are read");
        prop_assert_eq!((found.ids, found.values), (rows(&wanted).ids, rows(&wanted).values));
    }
}

/// Publishes the values of some ids of a table and those that are gone, divided among servers, and returns the folder.
fn publish(folder: &Path, ids: &[u64], gone: &[u64], num_ps: usize) -> std::path::PathBuf {
    let spec = table(100, 3);
    let layout = Layout::new(
        std::slice::from_ref(&spec),
        Partitioner::Fixed { num_shards: 1 },
        Placement::Greedy,
        num_ps,
    );
    let mut publication = Publication::open(folder, 0).expect("the cuts");
    let temporary = publication.begin(CutKind::Increment).expect("a folder");
    let write = |slice: &trainyard_variable::Slice| {
        let range = slice.ids(spec.rows());
        let own = |ids: &[u64]| -> Vec<u64> {
            let own = ids.iter().filter(|id| range.contains(&u128::from(**id)));
            own.copied().collect()
        };
        let state = ShardState {
            ps: slice.ps,
            num_ps,
            cut: Some("b".to_owned()),
            base: Some("a".to_owned()),
            purpose: FilePurpose::Publication,
            ..ShardState::default()
        };
        let source = DynamicRows {
            slots: Vec::new(),
            candidates: Vec::new(),
            ..rows(&own(ids))
        };
        let increment = TableIncrement {
            gone: own(gone),
            rows_in_use: source.ids.len(),
        };
        let view = TableView {
            variable: &spec.name,
            part: slice.part,
            width: 3,
            slot_names: Vec::new(),
            first: None,
            source: &source,
            increment: Some(increment),
        };
        write_shard(&temporary, &state, &[], &[view]).expect("a shard is written")
    };
    let manifest = Manifest {
        num_ps,
        shards: layout.slices.iter().map(write).collect(),
        variables: vec![spec.clone()],
        optimizers: optimizers(),
        ..Manifest::new("c1".into(), 1, 7, 1000)
    };
    let path = publication.commit(&temporary, &manifest);
    path.expect("it is committed")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn a_published_table_has_the_values_and_the_lost_ids_of_all_servers_and_no_idle_times(
        ids in prop::collection::btree_set(any::<u64>(), 0..40),
        gone in prop::collection::btree_set(any::<u64>(), 0..20),
        num_ps in 1_usize..5,
    ) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let ids: Vec<u64> = ids.into_iter().collect();
        // Some lost ids have a row again.
        let gone: Vec<u64> = gone.into_iter().chain(ids.iter().copied().step_by(3)).collect();
        let gone: std::collections::BTreeSet<u64> = gone.into_iter().collect();
        let gone: Vec<u64> = gone.into_iter().collect();
        let path = publish(folder.path(), &ids, &gone, num_ps);
        let cut = Checkpoint::open_cut(&path).expect("it opens");
        cut.verify().expect("it is whole");
        let changes = cut.changes("dnn/user").expect("changes");
        prop_assert_eq!(changes, Changes { values: rows(&ids).values, rows: ids.clone(), gone });
        let idle = cut.manifest().shards.iter().flat_map(|shard| &shard.tensors);
        let mut idle = idle.filter(|tensor| tensor.slot.as_deref() == Some("idle"));
        prop_assert!(idle.all(|tensor| tensor.rows_held() == 0));
    }
}

#[test]
fn tables_are_readable_by_the_safetensors_library() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let checkpoint = save(folder.path(), &[2, 40, u64::MAX - 1], 1);
    let bytes =
        std::fs::read(checkpoint.path().join("shard-0-of-1.safetensors")).expect("the shard");
    let tensors = safetensors::SafeTensors::deserialize(&bytes).expect("it is a safetensors file");
    let ids = tensors
        .tensor("dnn/user/ids/part_0")
        .expect("the ids are in it");
    assert_eq!(
        (ids.dtype(), ids.shape()),
        (safetensors::Dtype::U64, [3, 1].as_slice())
    );
    assert_eq!(ids.data()[8..16], 40_u64.to_le_bytes());
    assert_eq!(
        tensors.tensor("dnn/user/part_0").expect("values").shape(),
        [3, 3]
    );
}

/// A source that passes `at_once` rows at a time. Its counts exceed its rows by `missing`.
struct InParts {
    rows: DynamicRows,
    at_once: usize,
    missing: usize,
}

impl TableSource for InParts {
    fn counts(&self) -> (usize, usize) {
        (
            self.rows.ids.len() + self.missing,
            self.rows.candidates.len(),
        )
    }

    fn read(&self, each: &mut OnLot<'_>) -> Result<(), trainyard_checkpoint::Error> {
        for ids in self.rows.ids.chunks(self.at_once) {
            let part = DynamicRows {
                candidates: Vec::new(),
                ..rows(ids)
            };
            each(&part)?;
        }
        let candidates = self.rows.candidates.clone();
        each(&DynamicRows {
            candidates,
            slots: vec![Vec::new()],
            ..DynamicRows::default()
        })
    }
}

fn save_in_parts(
    folder: &Path,
    source: &InParts,
) -> Result<ShardRecord, trainyard_checkpoint::Error> {
    let state = ShardState {
        ps: 0,
        num_ps: 1,
        version: 1,
        positions: Vec::new(),
        ..ShardState::default()
    };
    let slot_names = vec!["accumulator"];
    let view = TableView {
        variable: "dnn/user",
        part: 0,
        width: 3,
        slot_names,
        first: None,
        source,
        increment: None,
    };
    write_shard(folder, &state, &[], &[view])
}

#[test]
fn a_large_table_is_written_in_parts_and_read_in_lots() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ids: Vec<u64> = (0..1_000_000).map(|number| number * 1000).collect();
    let source = InParts {
        rows: rows(&ids),
        at_once: 70_001,
        missing: 0,
    };
    let temporary = begin(folder.path(), 7, "test", 1000).expect("a checkpoint begins");
    let shard = save_in_parts(&temporary, &source).expect("it is written");
    read_back(&temporary, &shard, || ()).expect("it is as it was written");
    let manifest = Manifest {
        num_ps: 1,
        variables: vec![table(1_000_000, 3)],
        optimizers: optimizers(),
        shards: vec![shard],
        ..Manifest::new("c1".into(), 1, 7, 1000)
    };
    let checkpoint =
        commit(folder.path(), &temporary, &manifest).expect("a checkpoint is committed");
    let all = checkpoint
        .read_dynamic("dnn/user", &["accumulator"], 0..1 << 64)
        .expect("rows are read");
    assert!(all == source.rows, "some rows are not as they were");
    let range = 100_000_000..900_000_000;
    let lots = checkpoint
        .lots("dnn/user", &["accumulator"], range)
        .expect("there is such a table");
    let lots: Vec<DynamicRows> = lots.map(|lot| lot.expect("it is read")).collect();
    assert!(lots.len() > 2, "{} lots", lots.len());
    let read: Vec<u64> = lots.into_iter().flat_map(|lot| lot.ids).collect();
    assert!(read == ids[100_000..900_000], "{} ids", read.len());
    let asked: Vec<u64> = [0, 1, 1000, 3000, 524_287_000, 999_999_000, 999_999_001].into();
    let found = checkpoint
        .read_ids("dnn/user", &asked)
        .expect("rows are read");
    let known = rows(&[0, 1000, 3000, 524_287_000, 999_999_000]);
    assert_eq!((found.ids, found.values), (known.ids, known.values));
}

#[test]
fn a_table_of_which_less_comes_than_it_said_is_not_written() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = InParts {
        rows: rows(&[2, 4]),
        at_once: 1,
        missing: 1,
    };
    let told = save_in_parts(folder.path(), &source)
        .expect_err("a row is missing")
        .to_string();
    assert!(
        told.contains("dnn/user/ids/part_0: 16 bytes were written, expected 24"),
        "{told}"
    );
}

#[test]
fn what_a_checkpoint_lacks_is_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let checkpoint = save(folder.path(), &[2], 2);
    let lacking = |variable, slots: &[&str]| {
        checkpoint
            .read_dynamic(variable, slots, 0..1 << 64)
            .expect_err("it is not there")
            .to_string()
    };
    assert!(lacking("dnn/item", &[]).ends_with("holds no dynamic table `dnn/item`"));
    assert!(lacking("dnn/user", &["m"]).ends_with("holds no dynamic table `dnn/user/m`"));
}

#[test]
fn a_table_may_change_its_room_but_not_its_width() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let checkpoint = save(folder.path(), &[2], 1);
    let misfits = |spec| {
        misfit(checkpoint.manifest(), &[spec], &optimizers()).map(|problem| problem.render())
    };
    assert_eq!(misfits(table(5, 3)), None);
    let other = misfits(table(100, 4)).expect("another width");
    assert!(
        other.contains("checkpoint f32[dynamic, 3]   model f32[dynamic, 4]   shape"),
        "{other}"
    );
    let plain = VariableSpec {
        access: Access::Rows,
        ..table(100, 3)
    };
    assert!(
        misfits(plain)
            .expect("another kind")
            .contains("checkpoint f32[dynamic, 3]   model f32[100, 3]")
    );
}
