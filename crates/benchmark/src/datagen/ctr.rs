//! Click records: a label, 13 numbers and 26 categories, between tabs, without a header; missing fields are empty.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::ops::Range;

use indicatif::ProgressBar;

use super::hidden::{hidden, mix, normal, record, uniform, zipf};

/// Distinct values of each category.
const CARDINALITIES: [u64; 26] = [
    1460, 583, 1_000_000, 400_000, 305, 24, 12_517, 633, 3, 93_145, 5_683, 1_000_000, 3_194, 27,
    14_992, 500_000, 10, 5_652, 2_173, 4, 700_000, 18, 15, 286_181, 105, 142_572,
];
/// Pairs of categories that influence the label.
const PAIRS: [(usize, usize); 6] = [(0, 1), (4, 13), (7, 17), (2, 19), (6, 8), (15, 24)];
/// Numbers and categories that may be missing, with their probabilities.
const MISSING_NUMBERS: [(usize, f64); 4] = [(0, 0.3), (2, 0.15), (9, 0.4), (11, 0.6)];
const MISSING_CATEGORIES: [(usize, f64); 3] = [(18, 0.05), (21, 0.3), (25, 0.1)];
/// Numbers that influence the label.
const TELLING: [usize; 6] = [0, 3, 4, 6, 9, 12];

/// Writes the given records of a data set.
pub(crate) fn write(
    file: File,
    rows: Range<u64>,
    seed: u64,
    bar: &ProgressBar,
) -> std::io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, file);
    let mut line = Vec::with_capacity(512);
    for row in rows {
        line.clear();
        write_record(&mut line, seed, row)?;
        out.write_all(&line)?;
        if row % 1000 == 0 {
            bar.inc(1000);
        }
    }
    out.flush()
}

fn write_record(line: &mut Vec<u8>, seed: u64, row: u64) -> std::io::Result<()> {
    let mut random = record(seed, row);
    let mut numbers = [0_u64; 13];
    for (place, number) in numbers.iter_mut().enumerate() {
        let deviation = 0.8 + 0.08 * place as f64;
        *number = (0.6 + 0.35 * (place % 5) as f64 + deviation * normal(&mut random))
            .exp()
            .min(1e9) as u64;
    }
    let ids = CARDINALITIES.map(|count| zipf(&mut random, count, 1.1));
    let mut logit = -1.55;
    for (place, id) in ids.iter().enumerate() {
        logit += 0.24 * hidden(*id, place as u64);
    }
    for (index, (a, b)) in PAIRS.into_iter().enumerate() {
        let salt = |base: u64, dimension: u64| base + 10 * index as u64 + dimension;
        logit += (0..4)
            .map(|at| 0.16 * hidden(ids[a], salt(100, at)) * hidden(ids[b], salt(500, at)))
            .sum::<f64>();
    }
    for place in TELLING {
        let weight = if place % 2 == 1 { 0.22 } else { -0.2 };
        logit += weight * ((numbers[place] as f64).ln_1p() - 1.2);
    }
    let positive = uniform(&mut random) < 1.0 / (1.0 + (-logit).exp());
    write!(line, "{}", u8::from(positive))?;
    let mut missing = |table: &[(usize, f64)], place: usize| {
        table
            .iter()
            .any(|(at, share)| *at == place && uniform(&mut random) < *share)
    };
    for (place, number) in numbers.iter().enumerate() {
        line.push(b'\t');
        if !missing(&MISSING_NUMBERS, place) {
            write!(line, "{number}")?;
        }
    }
    for (place, id) in ids.iter().enumerate() {
        line.push(b'\t');
        if !missing(&MISSING_CATEGORIES, place) {
            write!(line, "{:08x}", mix(id + ((place as u64) << 40)) as u32)?;
        }
    }
    line.push(b'\n');
    Ok(())
}
