//! Snapshots for publication: a reader that applies them has the values of the store.

use proptest::prelude::*;
use trainyard_variable::{DynamicTable, InitialRows};

use super::*;

const WIDTH: usize = 64;
/// Enough rows for more stripes than a small slice has, so that a stripe lists its rows.
const ROWS: usize = 24_000;
const IDS: u64 = 120;
const IDS_HELD: usize = 40;
const SEED: u64 = 5;

fn variables() -> Vec<VariableSpec> {
    let initializer = Initializer::Uniform {
        low: -0.5,
        high: 1.0,
    };
    let table = DynamicTable {
        expire_after_steps: Some(6),
        ..DynamicTable::KEEP_ALL
    };
    let mut variables = vec![
        spec("bias", &[2], Access::Whole),
        spec("table", &[ROWS, WIDTH], Access::Rows),
        spec("user", &[IDS_HELD, 2], Access::Dynamic(table)),
    ];
    variables[1].initializer = initializer.clone();
    variables[2].initializer = initializer;
    variables
}

fn store() -> Store {
    let slice = |variable, rows, width| Slice {
        variable,
        part: 0,
        rows,
        width,
        ps: 0,
    };
    let store = open_prepared(Prepare {
        variables: variables(),
        slices: vec![
            (0, slice(0, 0..2, 1)),
            (1, slice(1, 0..ROWS, WIDTH)),
            (2, slice(2, 0..IDS_HELD, 2)),
        ],
        optimizers: BTreeMap::from([("sgd".to_owned(), OptimizerConfig::adagrad(0.5))]),
        seed: SEED,
        ..prepare(0)
    });
    store.open_session(&worker(0, 1), &opening(0)).unwrap();
    store
}

/// A reader: the rows that it was given, and no slots.
#[derive(Debug, Clone, Default, PartialEq)]
struct Reader {
    rows: BTreeMap<(u32, usize), Vec<u32>>,
    ids: BTreeMap<u64, Vec<u32>>,
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

impl Reader {
    /// Applies a snapshot: an increment, or one that replaces everything.
    fn apply(&mut self, snapshot: Snapshot) {
        let is_whole = snapshot.base.is_none();
        if is_whole {
            *self = Self::default();
        }
        for slice in snapshot.slices {
            assert!(slice.slot_names.is_empty(), "slots are not published");
            let mut held = slice.held().into_iter().flatten();
            let mut stripe = SliceValues::default();
            let number = slice.number;
            let width = slice.width;
            let mut stripes = slice.into_rows();
            while stripes.next(&mut stripe) {
                assert!(stripe.slots.is_empty(), "slots are not published");
                for values in stripe.values.chunks(width) {
                    let row = held.next().expect("a row for all values");
                    self.rows.insert((number, row), bits(values));
                }
            }
            assert_eq!(held.next(), None);
        }
        for table in snapshot.tables {
            assert_eq!(table.gone().is_none(), is_whole);
            for id in table.gone().into_iter().flatten() {
                self.ids.remove(&id);
            }
            let read = table.into_rows().read(&mut |lot: DynamicRows| {
                assert!(lot.slots.is_empty() && lot.candidates.is_empty());
                for (id, values) in lot.ids.iter().zip(lot.values.chunks(2)) {
                    self.ids.insert(*id, bits(values));
                }
                Ok::<(), ()>(())
            });
            read.unwrap();
        }
    }

    /// Checks that the reader has the values of `all`, which has every held row. Rows that it lacks have their initial
    /// values.
    fn check(&self, all: &Self, cut: &str) {
        let first = InitialRows::new(&variables()[1], SEED);
        let mut initial = vec![0.0; WIDTH];
        for ((slice, row), values) in &all.rows {
            match self.rows.get(&(*slice, *row)) {
                Some(own) => assert!(own == values, "{cut}: row {row} of slice {slice}"),
                None => {
                    first.fill(*row as u64, &mut initial);
                    assert!(bits(&initial) == *values, "{cut}: row {row} has changed");
                }
            }
        }
        let is_held = |row| all.rows.contains_key(row);
        assert!(self.rows.keys().all(is_held), "{cut}: rows of nobody");
        assert_eq!(self.ids, all.ids, "{cut}: ids");
    }
}

#[derive(Debug, Clone)]
enum Event {
    Push {
        rows: Vec<u32>,
        ids: Vec<u64>,
    },
    /// A cut that is committed, or lost. Meanwhile a push changes what has not been read yet.
    Cut {
        committed: bool,
        whole: bool,
    },
    /// A base that is read between two cuts.
    Base,
    Checkpoint,
    Log,
}

fn event() -> impl Strategy<Value = Event> {
    let rows = prop_oneof![
        prop::collection::btree_set(0..ROWS as u32, 1..6),
        // So many rows of one stripe that it comes to hold all of them.
        (0..ROWS as u32 - 1200).prop_map(|first| (first..first + 1200).collect()),
    ];
    let ids = prop::collection::btree_set(0..IDS, 0..9);
    let push = (rows, ids).prop_map(|(rows, ids)| Event::Push {
        rows: rows.into_iter().collect(),
        ids: ids.into_iter().collect(),
    });
    let cut = (any::<bool>(), prop::bool::weighted(0.2));
    prop_oneof![
        5 => push,
        4 => cut.prop_map(|(committed, whole)| Event::Cut { committed, whole }),
        1 => Just(Event::Base),
        1 => Just(Event::Checkpoint),
        1 => Just(Event::Log),
    ]
}

/// Pushes gradients of the dense variable, of rows and of ids.
fn push(store: &Store, seq: u64, rows: &[u32], ids: &[u64]) {
    let selection = Selection {
        whole: vec![0],
        rows: vec![(1, 0)],
        row_sets: vec![rows.to_vec()],
        ids: vec![(2, 0)],
        id_sets: vec![ids.to_vec()],
        ..Selection::default()
    };
    let count = 2 + rows.len() * WIDTH + ids.len() * 2;
    let gradients: Vec<f32> = (0..count)
        .map(|place| ((place as u64 * 7 + seq * 13) % 11) as f32 - 5.0)
        .collect();
    assert_eq!(reserve(store, &worker(0, 1), seq), Ticket::Granted);
    let push = push_of(seq, batch(0, seq - 1), selection, &gradients);
    store.push(&worker(0, 1), &push).unwrap();
}

fn now(store: &Store) -> Reader {
    let mut reader = Reader::default();
    reader.apply(store.snapshot(&chief(1), Basis::Values).unwrap());
    reader
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn a_reader_of_base_and_increments_has_the_values_of_the_store_at_each_cut(
        events in prop::collection::vec(event(), 1..30),
    ) {
        let store = store();
        let mut seq = 0;
        let mut cuts = 0;
        let mut published: Option<String> = None;
        let mut reader = Reader::default();
        for event in events {
            match event {
                Event::Push { rows, ids } => {
                    seq += 1;
                    push(&store, seq, &rows, &ids);
                }
                Event::Cut { committed, whole } => {
                    cuts += 1;
                    let name = format!("cut {cuts}");
                    let since = published.clone().filter(|_| !whole);
                    let expected = now(&store);
                    let basis = Basis::Publication { name: name.clone(), since };
                    let cut = store.snapshot(&chief(1), basis).unwrap();
                    // Training goes on while the cut is read.
                    seq += 1;
                    push(&store, seq, &[1, 2, 700], &[0, 1 + seq % (IDS - 1)]);
                    if !committed {
                        continue;
                    }
                    reader.apply(cut);
                    reader.check(&expected, &name);
                    published = Some(name);
                }
                Event::Base if published.is_some() => {
                    let mut base = Reader::default();
                    base.apply(store.snapshot(&chief(1), Basis::Values).unwrap());
                    seq += 1;
                    push(&store, seq, &[5, 7], &[seq % IDS]);
                    cuts += 1;
                    let name = format!("cut {cuts}");
                    let basis = Basis::Publication { name: name.clone(), since: published.clone() };
                    let expected = now(&store);
                    let cut = store.snapshot(&chief(1), basis).unwrap();
                    base.apply(cut);
                    base.check(&expected, "a base that was read before the cut");
                }
                Event::Base => {}
                Event::Checkpoint => {
                    let basis = Basis::Increments { name: format!("checkpoint {seq}"), base: Some("none".to_owned()) };
                    drop(store.snapshot(&chief(1), basis).unwrap());
                }
                Event::Log => drop(store.log_snapshot(LogCut::Increment).unwrap()),
            }
        }
    }
}

#[test]
fn a_server_that_does_not_know_the_published_cut_gives_all_rows() {
    let store = store();
    push(&store, 1, &[3], &[4]);
    let basis = |name: &str, since: Option<&str>| Basis::Publication {
        name: name.to_owned(),
        since: since.map(str::to_owned),
    };
    let base = |basis| store.snapshot(&chief(1), basis).unwrap().base;
    assert_eq!(base(basis("a", Some("of another life"))), None);
    assert_eq!(base(basis("b", Some("a"))), Some("a".to_owned()));
    // The cut `b` was lost, or its name comes later.
    assert_eq!(base(basis("c", Some("a"))), Some("a".to_owned()));
    assert_eq!(base(basis("d", Some("b"))), Some("b".to_owned()));
    assert_eq!(base(basis("e", Some("a"))), None);
}

#[test]
fn a_base_for_new_readers_does_not_break_the_chain_of_the_others() {
    let store = store();
    push(&store, 1, &[3], &[4]);
    let cut = |name: &str, since: Option<&str>| {
        let basis = Basis::Publication {
            name: name.to_owned(),
            since: since.map(str::to_owned),
        };
        store.snapshot(&chief(1), basis).unwrap()
    };
    let mut reader = Reader::default();
    reader.apply(cut("a", None));
    push(&store, 2, &[5], &[6]);
    reader.apply(cut("b", Some("a")));
    push(&store, 3, &[7], &[8]);
    let mut new = Reader::default();
    new.apply(cut("base", None));
    push(&store, 4, &[9], &[4, 10]);
    // A snapshot is read once, so each reader has its own.
    let next = |name: &str| {
        let next = cut(name, Some("b"));
        assert_eq!(next.base.as_deref(), Some("b"));
        next
    };
    reader.apply(next("c"));
    new.apply(next("d"));
    let expected = now(&store);
    reader.check(&expected, "c, after b");
    new.check(&expected, "c, after the base");
}

#[test]
fn an_increment_without_changes_has_no_rows() {
    let store = store();
    push(&store, 1, &[3], &[4]);
    let cut = |name: &str, since: Option<&str>| {
        let basis = Basis::Publication {
            name: name.to_owned(),
            since: since.map(str::to_owned),
        };
        store.snapshot(&chief(1), basis).unwrap()
    };
    drop(cut("a", None));
    let next = cut("b", Some("a"));
    assert!(next.slices.iter().all(|slice| slice.held().is_empty()));
    assert_eq!(next.tables[0].counts(), (0, 0));
}
