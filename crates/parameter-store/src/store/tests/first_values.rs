//! Unchanged rows have their initial values, and are not held.

use std::ops::Range;

use proptest::prelude::*;
use trainyard_optimizer::RowGradient;
use trainyard_variable::InitialRows;

use super::*;

/// Rows are wide, so that few of them make many stripes of 127 rows each.
const WIDTH: usize = 1024;
const STRIPE: usize = 127;
const ROWS: usize = 10 * STRIPE + 5;
const FIRST_ROW: usize = 77;
const LAST_ROW: usize = FIRST_ROW + ROWS;

fn table() -> VariableSpec {
    let initializer = Initializer::Uniform {
        low: -0.5,
        high: 1.0,
    };
    VariableSpec {
        initializer,
        ..spec("table", &[LAST_ROW + 40, WIDTH], Access::Rows)
    }
}

/// A slice of the table, with Adagrad.
fn request(seed: u64) -> Prepare<'static> {
    let mut request = prepare(0);
    request.variables = vec![spec("bias", &[2], Access::Whole), table()];
    request.slices = vec![
        (
            0,
            Slice {
                variable: 0,
                part: 0,
                rows: 0..2,
                width: 1,
                ps: 0,
            },
        ),
        (
            2,
            Slice {
                variable: 1,
                part: 1,
                rows: FIRST_ROW..LAST_ROW,
                width: WIDTH,
                ps: 0,
            },
        ),
    ];
    request.optimizers = BTreeMap::from([("sgd".to_owned(), OptimizerConfig::adagrad(0.5))]);
    Prepare { seed, ..request }
}

/// A model of the table that holds all rows.
#[derive(Clone, PartialEq)]
struct Whole {
    values: Vec<f32>,
    slot: Vec<f32>,
    steps: u64,
}

impl Whole {
    fn new(seed: u64) -> Self {
        let mut values = vec![0.0; ROWS * WIDTH];
        let table = table();
        table.initializer.fill(
            seed,
            "table",
            &table.shape,
            FIRST_ROW..LAST_ROW,
            &mut values,
        );
        Self {
            values,
            slot: vec![0.1; ROWS * WIDTH],
            steps: 0,
        }
    }

    fn apply(&mut self, rows: &[u32], gradient: &[f32]) {
        self.steps += 1;
        let places: Vec<u32> = rows.iter().map(|row| row - FIRST_ROW as u32).collect();
        let Self {
            values,
            slot,
            steps,
        } = self;
        let gradient = RowGradient {
            width: WIDTH,
            rows: &places,
            values: gradient,
        };
        OptimizerConfig::adagrad(0.5).apply_rows(*steps, values, &mut [slot], gradient);
    }

    fn is(&self, other: &SliceValues) -> bool {
        self.values == other.values && [&self.slot] == other.slots.iter().collect::<Vec<_>>()[..]
    }
}

fn gradient(rows: usize, step: u64) -> Vec<f32> {
    (0..rows * WIDTH)
        .map(|place| ((place as u64 * 7 + step * 13) % 11) as f32 - 5.0)
        .collect()
}

fn push_rows(store: &Store, seq: u64, rows: &[u32], gradient: &[f32]) {
    let selection = Selection {
        rows: vec![(2, 0)],
        row_sets: vec![rows.to_vec()],
        ..Selection::default()
    };
    assert_eq!(reserve(store, &worker(0, 1), seq), Ticket::Granted);
    store
        .push(
            &worker(0, 1),
            &push_of(seq, batch(0, seq - 1), selection, gradient),
        )
        .unwrap();
}

fn pull_rows(store: &Store, rows: &[u32]) -> Vec<f32> {
    let selection = Selection {
        rows: vec![(2, 0)],
        row_sets: vec![rows.to_vec()],
        ..Selection::default()
    };
    let pull = Pull {
        selection: Arc::new(selection),
        ..Pull::default()
    };
    read_all(store.pull(&worker(0, 1), &pull).unwrap().1)
}

fn open(seed: u64) -> Store {
    let store = open_prepared(request(seed));
    store.open_session(&worker(0, 1), &opening(0)).unwrap();
    store
}

/// A checkpoint that holds what a store held.
struct Kept {
    held: Vec<Range<usize>>,
    whole: Whole,
    first: FirstRows,
}

impl Kept {
    fn part(&self, slot: Option<&str>) -> &[f32] {
        if slot.is_some() {
            &self.whole.slot
        } else {
            &self.whole.values
        }
    }

    fn within(&self, rows: &Range<usize>) -> Vec<Range<usize>> {
        let cut = |held: &Range<usize>| held.start.max(rows.start)..held.end.min(rows.end);
        self.held
            .iter()
            .map(cut)
            .filter(|held| !held.is_empty())
            .collect()
    }
}

impl TensorSource for Kept {
    fn read(
        &self,
        variable: &str,
        slot: Option<&str>,
        rows: Range<usize>,
        out: &mut [f32],
    ) -> Result<(), String> {
        if variable == "bias" {
            out.fill(0.1);
            return Ok(());
        }
        let values = (rows.start - FIRST_ROW) * WIDTH..(rows.end - FIRST_ROW) * WIDTH;
        out.copy_from_slice(&self.part(slot)[values]);
        Ok(())
    }

    fn held(&self, _: &str, rows: Range<usize>) -> Result<Vec<Range<usize>>, String> {
        Ok(self.within(&rows))
    }

    fn read_held(
        &self,
        _: &str,
        slot: Option<&str>,
        rows: Range<usize>,
        out: &mut [f32],
    ) -> Result<(), String> {
        let held = self.within(&rows).into_iter().flatten();
        let values: Vec<f32> = held
            .flat_map(|row| &self.part(slot)[(row - FIRST_ROW) * WIDTH..][..WIDTH])
            .copied()
            .collect();
        out.copy_from_slice(&values);
        Ok(())
    }

    fn first_rows(&self, _: &str) -> Option<FirstRows> {
        Some(self.first.clone())
    }

    fn read_dynamic<'a>(
        &'a self,
        _: &'a str,
        _: &'a [&'a str],
        _: Range<u128>,
    ) -> Result<Lots<'a>, String> {
        Err("there is none".to_owned())
    }
}

/// Generates the rows of a push: a few anywhere, or so many of one stripe that it comes to hold all of them.
fn rows() -> impl Strategy<Value = Vec<u32>> {
    let few = prop::collection::btree_set(FIRST_ROW as u32..LAST_ROW as u32, 1..9);
    let many = (0..ROWS / STRIPE, 0..40_usize, 1..70_usize).prop_map(|(stripe, skip, count)| {
        let first = FIRST_ROW + stripe * STRIPE + skip;
        (first as u32..(first + count).min(LAST_ROW) as u32).collect()
    });
    prop_oneof![few, many].prop_map(|rows| rows.into_iter().collect())
}

#[derive(Debug, Clone)]
enum Event {
    Push(Vec<u32>),
    Pull(Vec<u32>),
    Cut,
    Read,
    Restore,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => rows().prop_map(Event::Push),
        2 => rows().prop_map(Event::Pull),
        1 => Just(Event::Cut),
        1 => Just(Event::Read),
        1 => Just(Event::Restore),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_table_is_bit_for_bit_what_it_would_be_if_all_of_its_rows_were_held(
        events in prop::collection::vec(event(), 1..24),
    ) {
        let mut store = open(3);
        let mut whole = Whole::new(3);
        let mut seq = 0;
        let mut cut: Option<(Snapshot, Whole)> = None;
        for event in events {
            match event {
                Event::Push(rows) => {
                    seq += 1;
                    let gradient = gradient(rows.len(), seq);
                    push_rows(&store, seq, &rows, &gradient);
                    whole.apply(&rows, &gradient);
                }
                Event::Pull(rows) => {
                    let begins = rows.iter().map(|row| (*row as usize - FIRST_ROW) * WIDTH);
                    let expected: Vec<f32> =
                        begins.flat_map(|begin| &whole.values[begin..begin + WIDTH]).copied().collect();
                    prop_assert!(pull_rows(&store, &rows) == expected, "a pull");
                }
                Event::Cut => {
                    // Only one snapshot exists at a time.
                    drop(cut.take());
                    cut = Some((store.snapshot(&chief(1), Basis::Whole).unwrap(), whole.clone()));
                }
                Event::Read => {
                    if let Some((mut snapshot, then)) = cut.take() {
                        let slice = snapshot.slices.pop().expect("two slices");
                        prop_assert!(then.is(&slice.read_all()), "a checkpoint of what there was at its instant");
                    }
                }
                Event::Restore => {
                    cut = None;
                    let snapshot = store.snapshot(&chief(1), Basis::Whole).unwrap();
                    let [_, slice] = &snapshot.slices[..] else { panic!("two slices") };
                    let kept =
                        Kept { held: slice.held(), whole: whole.clone(), first: slice.first_rows().clone() };
                    drop(snapshot);
                    let restore =
                        Restore { source: &kept, version: version_of(Update::Async, whole.steps), global_step: seq, positions: Vec::new() };
                    // The job has another seed by now.
                    let request = request(99);
                    store = open_prepared(Prepare { restore: Some(restore), ..request });
                    store.open_session(&worker(0, 1), &opening(1)).unwrap();
                    seq = 0;
                }
            }
        }
        drop(cut);
        let mut snapshot = store.snapshot(&chief(1), Basis::Whole).unwrap();
        prop_assert!(whole.is(&snapshot.slices.remove(1).read_all()), "in the end");
    }
}

#[test]
fn a_store_holds_the_rows_that_were_changed_and_no_others() {
    let store = open(3);
    let dense = 2 * 2 * 4;
    assert_eq!(store.held().slices, dense);
    // Reading a row does not change it.
    let first = pull_rows(&store, &[80, 500]);
    let mut expected = vec![0.0; 2 * WIDTH];
    InitialRows::new(&table(), 3).fill_rows([80, 500].into_iter(), &mut expected);
    assert_eq!(first, expected);
    assert_eq!(
        (store.held().slices, store.status().value_bytes),
        (dense, dense)
    );
    push_rows(&store, 1, &[80, 500, 501], &gradient(3, 1));
    let rows = 3 * 2 * WIDTH as u64 * 4;
    assert_eq!(store.status().value_bytes, dense + rows);
    let held = store.held().slices - dense;
    assert!((rows..rows + 400).contains(&held), "{held} of {rows}");
    let snapshot = store.snapshot(&chief(1), Basis::Whole).unwrap();
    assert_eq!(snapshot.slices[1].held(), [80..81, 500..502]);
    drop(snapshot);
    // Half of a stripe and one row: the stripe becomes an array.
    let many: Vec<u32> = (FIRST_ROW as u32..(FIRST_ROW + STRIPE / 2 + 1) as u32).collect();
    push_rows(&store, 2, &many, &gradient(many.len(), 2));
    let snapshot = store.snapshot(&chief(1), Basis::Whole).unwrap();
    assert_eq!(
        snapshot.slices[1].held(),
        [FIRST_ROW..FIRST_ROW + STRIPE, 500..502]
    );
}

#[test]
fn a_row_that_is_changed_by_zeros_is_held_as_every_other() {
    let store = open(3);
    push_rows(&store, 1, &[100], &[0.0; WIDTH]);
    let mut snapshot = store.snapshot(&chief(1), Basis::Whole).unwrap();
    let slice = snapshot.slices.remove(1);
    assert_eq!(slice.held(), vec![100..101]);
    assert!(Whole::new(3).is(&slice.read_all()));
}

#[test]
fn a_checkpoint_has_the_rows_of_its_instant_though_their_stripe_comes_to_hold_all_meanwhile() {
    let store = open(3);
    let mut whole = Whole::new(3);
    let few = [90, 91, 150];
    let many: Vec<u32> = (FIRST_ROW as u32..(FIRST_ROW + STRIPE - 10) as u32).collect();
    let mut push = |seq: u64, rows: &[u32]| {
        let gradient = gradient(rows.len(), seq);
        push_rows(&store, seq, rows, &gradient);
        whole.apply(rows, &gradient);
        whole.clone()
    };
    let then = push(1, &few);
    let mut snapshot = store.snapshot(&chief(1), Basis::Whole).unwrap();
    // The push names a listed row and a new one. The next push names most of the stripe.
    push(2, &[91, 92]);
    push(3, &many);
    assert_eq!(snapshot.slices[1].held(), [90..92, 150..151]);
    assert!(then.is(&snapshot.slices.remove(1).read_all()));
    assert_eq!(
        store.held().set_aside,
        0,
        "what has been read needs nothing"
    );
    drop(snapshot);
    let mut now = store.snapshot(&chief(1), Basis::Whole).unwrap();
    let slice = now.slices.remove(1);
    assert_eq!(slice.held()[0].len(), STRIPE);
    assert!(whole.is(&slice.read_all()));
}

#[test]
fn increments_end_when_together_they_have_the_bytes_of_a_whole_snapshot() {
    let store = open(3);
    let all: Vec<u32> = (FIRST_ROW as u32..LAST_ROW as u32).collect();
    push_rows(&store, 1, &all, &gradient(all.len(), 1));
    let cut = |name: &str, base: Option<&str>| {
        let basis = Basis::Increments {
            name: name.to_owned(),
            base: base.map(str::to_owned),
        };
        store.snapshot(&chief(1), basis).unwrap().base
    };
    assert_eq!(cut("first", None), None);
    // A fifth of the rows, always the same.
    let some = &all[..all.len() / 5];
    let mut increments = 0;
    for seq in 2.. {
        push_rows(&store, seq, some, &gradient(some.len(), seq));
        match cut("next", Some("first")) {
            Some(base) => assert_eq!(base, "first"),
            None => break,
        }
        increments += 1;
        assert!(increments < 10, "a whole snapshot comes");
    }
    assert_eq!(increments, 5);
    // The chief has committed that snapshot: it is the base now.
    push_rows(&store, 8, some, &gradient(some.len(), 8));
    assert_eq!(cut("after", Some("next")), Some("next".to_owned()));
}
