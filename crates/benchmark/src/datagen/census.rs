//! Records shaped like the adult census: CSV with a header and a space after each comma.

use std::fs::File;
use std::io::{BufWriter, Write as _};

use indicatif::ProgressBar;

use super::hidden::{hidden, normal, record, uniform, zipf};

const HEADER: &str = "age, workclass, fnlwgt, education, education-num, marital-status, occupation, relationship, race, \
                      sex, capital-gain, capital-loss, hours-per-week, native-country, Salary\n";
/// Category columns: stem of the values, and number of values.
const CATEGORIES: [(&str, u64); 8] = [
    ("workclass", 9),
    ("education", 16),
    ("marital", 7),
    ("occupation", 15),
    ("relationship", 6),
    ("race", 5),
    ("sex", 2),
    ("country", 42),
];

/// Writes `rows` records.
pub(crate) fn write(file: File, rows: u64, seed: u64, bar: &ProgressBar) -> std::io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, file);
    out.write_all(HEADER.as_bytes())?;
    for row in 0..rows {
        let mut random = record(seed, row);
        let age = (17.0 + 22.0 * (0.6 * normal(&mut random)).exp() - 4.0)
            .clamp(17.0, 90.0)
            .floor();
        let ids = CATEGORIES.map(|(_, count)| zipf(&mut random, count, 0.9));
        let education_number = (ids[1] * 7 + 3) % 16 + 1;
        let heavy = |share: f64, mean: f64, spread: f64, random: &mut _| {
            let drawn = (mean + spread * normal(random)).exp().min(99_999.0).floor();
            if uniform(random) < share { drawn } else { 0.0 }
        };
        let gain = heavy(0.08, 8.5, 1.0, &mut random);
        let loss = heavy(0.05, 7.5, 0.3, &mut random);
        let hours = (40.0 + 12.0 * normal(&mut random)).clamp(1.0, 99.0).floor();
        let weight = 20_000 + (uniform(&mut random) * 300_000.0) as u64;
        let mut logit = -2.75 + 0.055 * (age - 38.0) - 0.0012 * (age - 45.0) * (age - 45.0);
        logit += 0.28 * (education_number as f64 - 9.0) + 0.035 * (hours - 40.0);
        logit += if gain > 5000.0 {
            0.35 * gain.ln_1p()
        } else {
            0.0
        } + 0.1 * loss.ln_1p();
        logit += ids
            .iter()
            .enumerate()
            .map(|(place, id)| 0.75 * hidden(*id, 900 + place as u64))
            .sum::<f64>();
        logit += 0.5 * hidden(ids[1] * 64 + ids[3], 950);
        let label = if uniform(&mut random) < 1.0 / (1.0 + (-logit).exp()) {
            ">50K"
        } else {
            "<=50K"
        };
        let text = |place: usize| format!("{}-{}", CATEGORIES[place].0, ids[place]);
        writeln!(
            out,
            "{age}, {}, {weight}, {}, {education_number}, {}, {}, {}, {}, {}, {gain}, {loss}, {hours}, {}, {label}",
            text(0),
            text(1),
            text(2),
            text(3),
            text(4),
            text(5),
            text(6),
            text(7)
        )?;
        if row % 1000 == 0 {
            bar.inc(1000);
        }
    }
    out.flush()
}
