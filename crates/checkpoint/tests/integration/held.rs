//! Checkpoints that hold only the changed rows, and the rule of the other rows.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

use proptest::prelude::*;
use trainyard_checkpoint::*;
use trainyard_variable::{
    Access, FirstRows, InitialRows, Initializer, Layout, Partitioner, Placement, VariableSpec,
};

/// Rows of the table.
const ROWS: usize = 90;
/// Values in a row.
const WIDTH: usize = 3;
/// Seed of the initial values of the job that began the table.
const SEED: u64 = 11;
/// Initial value of the slot.
const SLOT: f32 = 0.125;

fn spec() -> VariableSpec {
    VariableSpec {
        name: "dnn/table".to_owned(),
        shape: vec![ROWS, WIDTH],
        access: Access::Rows,
        initializer: Initializer::TruncatedNormal { stddev: 0.3 },
        optimizer_group: "dnn".to_owned(),
    }
}

fn layout(num_ps: usize) -> Layout {
    Layout::new(
        &[spec()],
        Partitioner::Fixed { num_shards: num_ps },
        Placement::Greedy,
        num_ps,
    )
}

/// Returns the values, or slots, of a changed row.
fn changed(row: usize, slot: bool) -> [f32; WIDTH] {
    [0, 1, 2].map(|place| (row * 10 + place) as f32 + if slot { 0.5 } else { 0.25 })
}

/// Returns all values, or slots, of a table with some changed rows.
fn expected(rows: &BTreeSet<usize>, slot: bool) -> Vec<f32> {
    let mut out = vec![SLOT; ROWS * WIDTH];
    if !slot {
        InitialRows::new(&spec(), SEED).fill_rows(0..ROWS as u64, &mut out);
    }
    for row in rows {
        out[row * WIDTH..(row + 1) * WIDTH].copy_from_slice(&changed(*row, slot));
    }
    out
}

fn runs(rows: impl Iterator<Item = usize>) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for row in rows {
        match runs.last_mut() {
            Some(last) if last.end == row => last.end += 1,
            _ => runs.push(row..row + 1),
        }
    }
    runs
}

/// Saves the changed rows with `num_ps` servers. The manifest has another initializer and seed.
fn save(model_dir: &Path, rows: &BTreeSet<usize>, num_ps: usize) -> Checkpoint {
    let folder = begin(model_dir, 1, "test", 1000).expect("a checkpoint begins");
    let first = FirstRows::new(&spec(), SEED);
    let write = |ps: usize| {
        let mut shard = Vec::new();
        for (_, slice) in layout(num_ps).of_ps(ps) {
            let held = rows.range(slice.rows.clone()).copied();
            let of = |slot: bool| -> Vec<f32> {
                held.clone().flat_map(|row| changed(row, slot)).collect()
            };
            shard.push((slice.clone(), runs(held.clone()), of(false), of(true)));
        }
        let sources: Vec<InMemory<'_>> = shard
            .iter()
            .map(|(_, _, values, slot)| InMemory {
                values,
                slots: vec![slot.as_slice()],
            })
            .collect();
        let views: Vec<SliceView<'_>> = shard
            .iter()
            .zip(&sources)
            .map(|((slice, runs, ..), source)| SliceView {
                variable: "dnn/table",
                part: slice.part,
                rows: slice.rows.clone(),
                width: WIDTH,
                slot_names: vec!["accumulator"],
                held: Some(HeldView {
                    rows: runs.clone(),
                    others: OtherRows::Initial {
                        first: &first,
                        first_slots: &[SLOT],
                    },
                }),
                source,
            })
            .collect();
        let state = ShardState {
            ps,
            num_ps,
            version: 9,
            positions: Vec::new(),
            ..ShardState::default()
        };
        write_shard(&folder, &state, &views, &[]).expect("a shard is written")
    };
    let shards: Vec<ShardRecord> = (0..num_ps).map(write).collect();
    let now = VariableSpec {
        initializer: Initializer::Constant { value: 9.0 },
        ..spec()
    };
    let manifest = Manifest {
        num_ps,
        variables: vec![now],
        shards,
        seed: SEED + 1,
        ..Manifest::new("c1".into(), 1, 1, 1000)
    };
    commit(model_dir, &folder, &manifest).expect("a checkpoint is committed")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn any_number_of_servers_reads_every_row_whether_it_was_changed_or_not(
        rows in prop_oneof![
            prop::collection::btree_set(0..ROWS, 0..=6),
            prop::collection::btree_set(0..ROWS, 0..=ROWS),
            Just((0..ROWS).collect::<BTreeSet<usize>>()),
            Just((30..60).collect::<BTreeSet<usize>>()),
        ],
        written in 1_usize..=4,
        read in 1_usize..=5,
    ) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let checkpoint = save(folder.path(), &rows, written);
        checkpoint.verify().expect("it is whole");
        for slice in &layout(read).slices {
            let range = slice.rows.clone();
            let held = checkpoint.held("dnn/table", range.clone()).expect("rows are listed");
            let held: Vec<usize> = held.into_iter().flatten().collect();
            prop_assert_eq!(&held, &rows.range(range.clone()).copied().collect::<Vec<_>>());
            for slot in [None, Some("accumulator")] {
                let all = expected(&rows, slot.is_some());
                let mut out = vec![0.0; range.len() * WIDTH];
                checkpoint.read_rows("dnn/table", slot, range.clone(), &mut out).expect("rows are read");
                prop_assert_eq!(&out, &all[range.start * WIDTH..range.end * WIDTH]);
                let mut out = vec![0.0; held.len() * WIDTH];
                checkpoint.read_held("dnn/table", slot, range.clone(), &mut out).expect("rows are read");
                let of_held: Vec<f32> = held.iter().flat_map(|row| changed(*row, slot.is_some())).collect();
                prop_assert_eq!(out, of_held);
            }
        }
        if rows.len() < ROWS {
            prop_assert_eq!(checkpoint.first_rows("dnn/table"), Some(FirstRows::new(&spec(), SEED)));
        }
    }
}

#[test]
fn a_checkpoint_grows_with_the_rows_that_were_changed() {
    let bytes = |rows: BTreeSet<usize>| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let checkpoint = save(folder.path(), &rows, 1);
        let tensors = &checkpoint.manifest().shards[0].tensors;
        tensors
            .iter()
            .map(|tensor| tensor.rows_held() * tensor.width * tensor.dtype.bytes())
            .sum::<usize>()
    };
    assert_eq!(bytes(BTreeSet::new()), 0);
    // One run has two bounds, 3 values and 3 slots.
    assert_eq!(bytes([7].into()), 2 * 8 + 6 * 4);
    assert_eq!(
        bytes((0..ROWS).collect()),
        ROWS * 6 * 4,
        "where all are held none is listed"
    );
}

#[test]
fn lists_of_rows_that_do_not_fit_are_refused_by_name() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let checkpoint = save(folder.path(), &[3, 4, 50].into(), 1);
    let spoil = |change: &dyn Fn(&mut TensorRecord)| {
        let mut manifest = checkpoint.manifest().clone();
        manifest.shards[0].tensors.iter_mut().for_each(change);
        let other = tempfile::tempdir().expect("a temporary folder");
        let temporary = begin(other.path(), 1, "test", 0).expect("a checkpoint begins");
        let name = "shard-0-of-1.safetensors";
        std::fs::copy(checkpoint.path().join(name), temporary.join(name)).expect("a copy");
        let read = commit(other.path(), &temporary, &manifest).and_then(|checkpoint| {
            let mut out = vec![0.0; ROWS * WIDTH];
            checkpoint.read_rows("dnn/table", None, 0..ROWS, &mut out)
        });
        read.expect_err("it does not fit").to_string()
    };
    let floats = |tensor: &TensorRecord| tensor.dtype == Dtype::F32;
    let too_few = spoil(&|tensor| {
        if let Some(held) = &mut tensor.held {
            held.rows = 2;
        }
    });
    assert!(
        too_few.contains("3 rows") && too_few.contains("has 2"),
        "{too_few}"
    );
    let outside = spoil(&|tensor| {
        if floats(tensor) {
            tensor.row_end = 50;
        }
    });
    assert!(
        outside.contains("must ascend, given 50..51") || outside.contains("in no file"),
        "{outside}"
    );
    let nameless = spoil(&|tensor| {
        if let Some(held) = &mut tensor.held {
            held.listed_in = "elsewhere".to_owned();
        }
    });
    assert!(
        nameless.contains("elsewhere: it must list the rows of dnn/table"),
        "{nameless}"
    );
    let silent = spoil(&|tensor| tensor.others = None);
    assert!(
        silent.contains("does not say what the rows are"),
        "{silent}"
    );
    let later = spoil(&|tensor| {
        if let Some(Others::First { generator, .. }) = &mut tensor.others {
            *generator = 2;
        }
    });
    assert!(
        later.contains("generator 2 of first values") || later.contains("of generator 2"),
        "{later}"
    );
}
