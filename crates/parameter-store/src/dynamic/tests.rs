//! The rules of a dynamic table, compared with a model that searches lists.

use proptest::prelude::*;
use trainyard_optimizer::OptimizerConfig;
use trainyard_variable::{
    Access, DynamicRows, DynamicTable, InitialRows, Initializer, Layout, Partitioner, Placement,
    VariableSpec,
};

use super::reading::{Reader, Step};
use super::*;
use crate::extent::Extent;

const WIDTH: usize = 2;
const SEED: u64 = 5;

fn spec(table: DynamicTable, rows_max: usize) -> VariableSpec {
    VariableSpec {
        name: "table".into(),
        shape: vec![rows_max, WIDTH],
        access: Access::Dynamic(table),
        initializer: Initializer::TruncatedNormal { stddev: 1.0 },
        optimizer_group: "g".into(),
    }
}

fn adagrad() -> OptimizerConfig {
    OptimizerConfig::adagrad(0.5)
}

/// The slices of a table on `num_ps` servers.
fn slices(
    spec: &VariableSpec,
    num_ps: usize,
    now: Timestamp,
    rows: Option<&DynamicRows>,
) -> Vec<DynamicSlice> {
    let specs = std::slice::from_ref(spec);
    let layout = Layout::new(
        specs,
        Partitioner::Fixed { num_shards: 1 },
        Placement::Greedy,
        num_ps,
    );
    let build = |slice| {
        let rows =
            rows.map(|rows| cut(rows, |id| slice_ids(slice, spec).contains(&u128::from(id))));
        let built = DynamicSlice::new(spec, slice, adagrad(), InitialRows::new(spec, SEED), now);
        let built = built.expect("the slice fits");
        if let Some(rows) = rows {
            // Lots may arrive in any order, so the second half comes first.
            let ids = &rows.ids;
            let middle = ids.get(ids.len() / 2).copied().unwrap_or_default();
            for lot in [cut(&rows, |id| id >= middle), cut(&rows, |id| id < middle)] {
                built.load(&lot).expect("the rows fit");
            }
            built.has_loaded();
        }
        built
    };
    layout.slices.iter().map(build).collect()
}

fn slice_ids(slice: &trainyard_variable::Slice, spec: &VariableSpec) -> Range<u128> {
    slice.ids(spec.rows())
}

fn cut(rows: &DynamicRows, keep: impl Fn(u64) -> bool) -> DynamicRows {
    let places: Vec<usize> = (0..rows.ids.len())
        .filter(|place| keep(rows.ids[*place]))
        .collect();
    let values = |all: &Vec<f32>| {
        places
            .iter()
            .flat_map(|place| all[place * WIDTH..][..WIDTH].iter().copied())
            .collect()
    };
    DynamicRows {
        ids: places.iter().map(|place| rows.ids[*place]).collect(),
        idle: places.iter().map(|place| rows.idle[*place]).collect(),
        values: values(&rows.values),
        slots: rows.slots.iter().map(values).collect(),
        candidates: rows
            .candidates
            .iter()
            .copied()
            .filter(|candidate| keep(candidate.id))
            .collect(),
    }
}

/// Returns what a checkpoint holds at this moment.
fn snapshot(slice: &DynamicSlice, now: Timestamp) -> DynamicRows {
    slice.cut(now, Extent::Whole);
    let counts = slice.counts_at_cut();
    let mut all = DynamicRows {
        slots: vec![Vec::new()],
        ..DynamicRows::default()
    };
    let read: Result<(), ()> = slice.read_cut(&mut |part| {
        append(&mut all, part);
        Ok(())
    });
    read.expect("it is all taken");
    assert_eq!((all.ids.len(), all.candidates.len()), counts);
    all
}

fn append(all: &mut DynamicRows, part: DynamicRows) {
    all.ids.extend(part.ids);
    all.idle.extend(part.idle);
    all.values.extend(part.values);
    all.slots
        .iter_mut()
        .zip(part.slots)
        .for_each(|(all, slot)| all.extend(slot));
    all.candidates.extend(part.candidates);
}

fn joined(slices: &[DynamicSlice], now: Timestamp) -> DynamicRows {
    let mut all = DynamicRows {
        slots: vec![Vec::new()],
        ..DynamicRows::default()
    };
    for slice in slices {
        append(&mut all, snapshot(slice, now));
    }
    all
}

/// Ids spread over all 64 bits.
fn id(number: u64) -> u64 {
    number * (u64::MAX / 13) + 3
}

fn sorted(numbers: &[u64]) -> Vec<u64> {
    let mut ids: Vec<u64> = numbers.iter().map(|number| id(*number)).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

fn gradient(id: u64, pushes: u64) -> [f32; WIDTH] {
    [(id % 7) as f32 - 3.0 + pushes as f32 * 0.25, 1.0]
}

/// Whether a push only counts an id. A reader has learned that it has no row, which may be wrong by now.
fn is_counted(table: DynamicTable, id: u64, now: Timestamp) -> bool {
    table.shared_row && (id + now.pushes).is_multiple_of(3)
}

fn push(slices: &[DynamicSlice], now: Timestamp, ids: &[u64]) {
    for slice in slices {
        let own: Vec<u64> = ids
            .iter()
            .copied()
            .filter(|id| slice.ids.contains(&u128::from(*id)))
            .collect();
        if own.is_empty() {
            slice.pass(now);
            continue;
        }
        slice.check_ids(0, &own).expect("the ids are good");
        let (counted, own): (Vec<u64>, Vec<u64>) = own
            .into_iter()
            .partition(|id| is_counted(slice.table, *id, now));
        let gradients: Vec<f32> = own
            .iter()
            .flat_map(|id| gradient(*id, now.pushes))
            .collect();
        slice.apply(
            UpdatePoint {
                now,
                optimizer_step: None,
            },
            Occurrences {
                ids: &own,
                gradient: &gradients,
                counted: &counted,
            },
            &mut Vec::new(),
        );
    }
}

fn read(slices: &[DynamicSlice], ids: &[u64]) -> Vec<f32> {
    let mut out = Vec::new();
    for id in ids {
        let slice = slices
            .iter()
            .find(|slice| slice.ids.contains(&u128::from(*id)));
        out.resize(out.len() + WIDTH, 0.0);
        let begin = out.len() - WIDTH;
        slice
            .expect("a slice holds it")
            .read(&[*id], &mut out[begin..]);
    }
    out
}

#[derive(Debug, Clone)]
struct Row {
    id: u64,
    used: Timestamp,
    values: [f32; WIDTH],
    slot: [f32; WIDTH],
}

/// A simple model of the same rules.
#[derive(Debug)]
struct Twin {
    table: DynamicTable,
    capacity: usize,
    first: InitialRows,
    rows: Vec<Row>,
    candidates: Vec<(u64, Timestamp, u32)>,
    dropped: u64,
}

impl Twin {
    fn push(&mut self, now: Timestamp, ids: &[u64]) {
        for row in self
            .rows
            .extract_if(.., |row| ids.contains(&row.id))
            .collect::<Vec<_>>()
        {
            self.rows.push(Row { used: now, ..row });
        }
        for &id in ids {
            if self.rows.iter().any(|row| row.id == id) {
                continue;
            }
            let before = self.candidates.iter().position(|(other, ..)| *other == id);
            let seen = before.map_or(0, |place| self.candidates.remove(place).2) + 1;
            if self.table.admit_after > 1 {
                if before.is_none() && self.candidates.len() == self.capacity {
                    self.candidates.remove(0);
                }
                self.candidates.push((id, now, seen));
            }
            if seen < self.table.admit_after
                || self.rows.len() == self.capacity && ids.contains(&self.rows[0].id)
            {
                continue;
            }
            if self.rows.len() == self.capacity {
                self.rows.remove(0);
            }
            let mut values = [0.0; WIDTH];
            self.first.fill(id, &mut values);
            self.rows.push(Row {
                id,
                used: now,
                values,
                slot: [0.1; WIDTH],
            });
            self.candidates.retain(|(other, ..)| *other != id);
        }
        self.rows.sort_by_key(|row| (row.used, row.id));
        for &id in ids {
            if is_counted(self.table, id, now) {
                continue;
            }
            match self.rows.iter_mut().find(|row| row.id == id) {
                Some(row) => {
                    let values = &mut row.values;
                    let slot = &mut row.slot;
                    adagrad().apply_dense(
                        now.pushes,
                        values,
                        &mut [slot],
                        &gradient(id, now.pushes),
                    );
                }
                None => self.dropped += 1,
            }
        }
        let DynamicTable {
            expire_after_steps: steps,
            expire_after_secs: secs,
            ..
        } = self.table;
        let stale = |used: Timestamp| {
            steps.is_some_and(|steps| now.pushes - used.pushes >= steps)
                || secs.is_some_and(|secs| now.secs - used.secs >= secs as i64)
        };
        self.rows.retain(|row| !stale(row.used));
        self.candidates.retain(|(_, used, _)| !stale(*used));
    }

    fn read(&self, ids: &[u64]) -> Vec<f32> {
        let row = |id: &u64| match self.rows.iter().find(|row| row.id == *id) {
            Some(row) => row.values,
            None => {
                let mut values = [0.0; WIDTH];
                self.first.fill(*id, &mut values);
                values
            }
        };
        ids.iter().flat_map(row).collect()
    }
}

fn tables() -> impl Strategy<Value = DynamicTable> {
    let never_or = |most: u64| prop::option::of(1..most);
    (1_u32..4, never_or(8), never_or(6), any::<bool>()).prop_map(
        |(admit_after, expire_after_steps, expire_after_secs, shared_row)| DynamicTable {
            admit_after,
            expire_after_steps,
            expire_after_secs,
            shared_row,
        },
    )
}

/// Generates pushes: their ids, and the seconds since the push before.
fn pushes() -> impl Strategy<Value = Vec<(Vec<u64>, i64)>> {
    prop::collection::vec((prop::collection::vec(0_u64..12, 0..6), 0_i64..3), 1..60)
}

fn later(now: Timestamp, secs: i64) -> Timestamp {
    Timestamp {
        pushes: now.pushes + 1,
        secs: now.secs + secs,
    }
}

proptest! {
    #[test]
    fn a_table_does_what_its_rules_say(table in tables(), capacity in 1_usize..9, pushes in pushes()) {
        let spec = spec(table, capacity);
        let slices = slices(&spec, 1, Timestamp::default(), None);
        let first = InitialRows::new(&spec, SEED);
        let mut twin = Twin { table, capacity, first, rows: Vec::new(), candidates: Vec::new(), dropped: 0 };
        let mut now = Timestamp::default();
        let all = sorted(&(0..12).collect::<Vec<_>>());
        for (numbers, secs) in pushes {
            now = later(now, secs);
            let ids = sorted(&numbers);
            push(&slices, now, &ids);
            twin.push(now, &ids);
            prop_assert_eq!(read(&slices, &all), twin.read(&all));
            let mut values = vec![0.0; all.len() * WIDTH];
            let without_row = slices[0].read_with_row(&all, &mut values);
            let expected = (0..).zip(&all).filter(|(_, id)| twin.rows.iter().all(|row| row.id != **id));
            prop_assert_eq!(without_row, expected.map(|(place, _)| place).collect::<Vec<u32>>());
            let status = slices[0].status();
            prop_assert_eq!((status.rows, status.gradients_dropped), (twin.rows.len() as u64, twin.dropped));
            let state = slices[0].state.read();
            prop_assert!(state.rows.places() <= capacity && state.candidates.places() <= capacity);
            prop_assert!(state.values.values.capacity() <= capacity * WIDTH);
            let mut counted: Vec<_> = twin.candidates.iter().map(|(id, _, seen)| (*id, u64::from(*seen))).collect();
            counted.sort_unstable();
            drop(state);
            let rest = snapshot(&slices[0], now);
            prop_assert_eq!(rest.candidates.iter().map(|known| (known.id, known.occurrences)).collect::<Vec<_>>(), counted);
        }
    }

    #[test]
    fn a_checkpoint_is_of_its_instant_whatever_changes_while_it_is_read(
        table in tables(), capacity in 1_usize..9, before in pushes(), meanwhile in pushes(), places in 1_usize..4, parts in 1_u64..6,
    ) {
        let slices = slices(&spec(table, capacity), 1, Timestamp::default(), None);
        let mut now = Timestamp::default();
        for (numbers, secs) in before {
            now = later(now, secs);
            push(&slices, now, &sorted(&numbers));
        }
        let expected = snapshot(&slices[0], now);
        slices[0].cut(now, Extent::Whole);
        let mut reader = Reader::new(&slices[0], parts);
        let mut taken = DynamicRows { slots: vec![Vec::new()], ..DynamicRows::default() };
        let mut step = || match reader.step(places) {
            Step::More => true,
            Step::Part(part) => {
                append(&mut taken, part);
                true
            }
            Step::End => false,
        };
        for (numbers, secs) in meanwhile {
            now = later(now, secs);
            push(&slices, now, &sorted(&numbers));
            step();
        }
        while step() {}
        prop_assert_eq!(taken, expected);
        prop_assert_eq!(slices[0].state.read().aside.as_ref().map(|aside| aside.row_bytes()), Some(0));
    }

    #[test]
    fn a_table_that_forgets_nothing_is_one_without_bounds(pushes in pushes(), num_ps in 1_usize..4) {
        // Each server has room for every id.
        let small = spec(DynamicTable::KEEP_ALL, 12 * num_ps);
        let large = spec(DynamicTable::KEEP_ALL, 10_000);
        let bounded = slices(&small, num_ps, Timestamp::default(), None);
        let twin = slices(&large, 1, Timestamp::default(), None);
        let mut now = Timestamp::default();
        let all = sorted(&(0..12).collect::<Vec<_>>());
        for (numbers, secs) in pushes {
            now = later(now, secs);
            push(&bounded, now, &sorted(&numbers));
            push(&twin, now, &sorted(&numbers));
        }
        prop_assert_eq!(read(&bounded, &all), read(&twin, &all));
    }

    #[test]
    fn any_number_of_servers_goes_on_where_another_stopped(
        table in tables(), before in pushes(), after in pushes(), from in 1_usize..4, to in 1_usize..4,
    ) {
        let spec = spec(table, 12 * 4);
        let original = slices(&spec, from, Timestamp::default(), None);
        let mut now = Timestamp::default();
        for (numbers, secs) in before {
            now = later(now, secs);
            push(&original, now, &sorted(&numbers));
        }
        let rest = joined(&original, now);
        // A restarted server counts seconds from the start again.
        let mut restored_now = Timestamp { secs: 1, ..now };
        let restored = slices(&spec, to, restored_now, Some(&rest));
        prop_assert_eq!(&joined(&restored, restored_now), &rest);
        for (numbers, secs) in after {
            (now, restored_now) = (later(now, secs), later(restored_now, secs));
            push(&original, now, &sorted(&numbers));
            push(&restored, restored_now, &sorted(&numbers));
        }
        prop_assert_eq!(joined(&restored, restored_now), joined(&original, now));
    }

    #[test]
    fn a_full_table_goes_on_as_if_it_had_not_stopped(
        table in tables(), capacity in 1_usize..9, before in pushes(), after in pushes(),
    ) {
        let spec = spec(table, capacity);
        let original = slices(&spec, 1, Timestamp::default(), None);
        let mut now = Timestamp::default();
        for (numbers, secs) in before {
            now = later(now, secs);
            push(&original, now, &sorted(&numbers));
        }
        let restored = slices(&spec, 1, now, Some(&joined(&original, now)));
        for (numbers, secs) in after {
            now = later(now, secs);
            push(&original, now, &sorted(&numbers));
            push(&restored, now, &sorted(&numbers));
            prop_assert_eq!(joined(&restored, now), joined(&original, now));
        }
    }
}

#[test]
fn the_third_sighting_admits_and_its_gradient_counts() {
    let table = DynamicTable {
        admit_after: 3,
        ..DynamicTable::KEEP_ALL
    };
    let slices = slices(&spec(table, 4), 1, Timestamp::default(), None);
    let ids = sorted(&[1]);
    let first = read(&slices, &ids);
    for pushes in 1..=3 {
        assert_eq!(read(&slices, &ids), first, "before push {pushes}");
        push(&slices, Timestamp { pushes, secs: 0 }, &ids);
    }
    assert_ne!(read(&slices, &ids), first);
    let status = slices[0].status();
    assert_eq!((status.rows, status.gradients_dropped), (1, 2));
}

#[test]
fn a_row_goes_at_the_push_that_makes_it_too_old() {
    let table = DynamicTable {
        expire_after_steps: Some(3),
        ..DynamicTable::KEEP_ALL
    };
    let slices = slices(&spec(table, 4), 1, Timestamp::default(), None);
    push(&slices, Timestamp { pushes: 1, secs: 0 }, &sorted(&[1]));
    for (pushes, rows) in [(2, 1), (3, 1), (4, 0)] {
        push(&slices, Timestamp { pushes, secs: 0 }, &[]);
        assert_eq!(slices[0].status().rows, rows, "after push {pushes}");
    }
    assert_eq!(slices[0].status().expired, 1);
}

#[test]
fn a_smaller_table_keeps_what_was_used_last() {
    let table = DynamicTable::KEEP_ALL;
    let large = slices(&spec(table, 12), 1, Timestamp::default(), None);
    for number in 0..6 {
        push(
            &large,
            Timestamp {
                pushes: number + 1,
                secs: 0,
            },
            &sorted(&[5 - number]),
        );
    }
    let now = Timestamp { pushes: 6, secs: 0 };
    let small = slices(&spec(table, 2), 1, now, Some(&joined(&large, now)));
    assert_eq!(joined(&small, now).ids, sorted(&[0, 1]));
    assert_eq!((small[0].status().rows, small[0].status().evicted), (2, 4));
}

#[test]
fn a_rule_that_moves_all_rows_is_refused() {
    let spec = spec(DynamicTable::KEEP_ALL, 4);
    let adam = serde_json::json!({"kind": "adam", "lazy": false});
    let slice = trainyard_variable::Slice {
        variable: 0,
        part: 0,
        rows: 0..4,
        width: WIDTH,
        ps: 0,
    };
    let adam = serde_json::from_value(adam).expect("an optimizer");
    let refused = DynamicSlice::new(
        &spec,
        &slice,
        adam,
        InitialRows::new(&spec, SEED),
        Timestamp::default(),
    );
    assert!(
        matches!(&refused, Err(Error::BadRequest(message)) if message.contains("lazy = true")),
        "{refused:?}"
    );
}

#[test]
fn rows_that_do_not_fit_or_come_twice_are_an_error() {
    let slices = slices(
        &spec(DynamicTable::KEEP_ALL, 12),
        1,
        Timestamp::default(),
        None,
    );
    let row = |id| DynamicRows {
        ids: vec![id],
        idle: vec![trainyard_variable::Idle::default()],
        values: vec![1.0; WIDTH],
        slots: vec![vec![2.0; WIDTH]],
        candidates: Vec::new(),
    };
    slices[0].load(&row(7)).expect("it fits");
    for bad in [
        row(7),
        DynamicRows {
            values: vec![1.0],
            ..row(8)
        },
        DynamicRows {
            slots: Vec::new(),
            ..row(8)
        },
    ] {
        let refused = slices[0].load(&bad);
        assert!(
            matches!(&refused, Err(Error::Restore(why)) if why.contains("`table`")),
            "{refused:?}"
        );
    }
}
