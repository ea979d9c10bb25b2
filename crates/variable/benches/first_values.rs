//! Initial values of rows that have not changed: 4096 rows of 16 values of a large table, as the pull of a step reads
//! them.

use divan::Bencher;
use divan::counter::ItemsCount;
use trainyard_variable::{FirstRows, InitialRows, Initializer};

const ROWS: u64 = 4096;
const WIDTH: usize = 16;

fn main() {
    divan::main();
}

fn rows(bencher: Bencher<'_, '_>, initializer: Initializer) {
    let rule = FirstRows {
        seed: 1,
        name: "table".to_owned(),
        shape: vec![60_000_000, WIDTH],
        initializer,
    };
    let first = InitialRows::of(rule);
    let mut values = vec![0.0; ROWS as usize * WIDTH];
    bencher
        .counter(ItemsCount::new(values.len()))
        .bench_local(|| {
            first.fill_rows(
                (0..ROWS).map(|row| row * 14_647),
                divan::black_box(&mut values),
            )
        });
}

#[divan::bench]
fn truncated_normal(bencher: Bencher<'_, '_>) {
    rows(bencher, Initializer::TruncatedNormal { stddev: 0.25 });
}

#[divan::bench]
fn glorot_uniform(bencher: Bencher<'_, '_>) {
    rows(bencher, Initializer::GlorotUniform);
}

#[divan::bench]
fn one_row(bencher: Bencher<'_, '_>) {
    let initializer = Initializer::TruncatedNormal { stddev: 0.25 };
    let rule = FirstRows {
        seed: 1,
        name: "table".to_owned(),
        shape: vec![60_000_000, WIDTH],
        initializer,
    };
    let first = InitialRows::of(rule);
    let mut values = [0.0; WIDTH];
    bencher.bench_local(|| first.fill(divan::black_box(77), divan::black_box(&mut values)));
}
