//! Benchmark of a forward and backward pass of the click-through model, with one thread and with two: `cargo bench -p
//! trainyard-model`.
//!
//! The fastest of several rounds counts, because slower rounds also measure other load of the machine.
#![expect(
    clippy::disallowed_types,
    reason = "a benchmark measures the time of the machine"
)]

use std::path::Path;
use std::time::Instant;

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use trainyard_input::{Batch, Bytes, Column, FieldKind, Position};
use trainyard_model::{Canned, Model};
use trainyard_run_config::Job;
use trainyard_variable::Read;

/// Number of rounds, and steps per round.
const ROUNDS: u32 = 800;
const STEPS: u32 = 2;

fn main() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs/ctr-tensorflow.toml");
    let job = Job::load(&path, &[]).expect("the shipped job loads");
    let model = Canned::from_job(&job).expect("the shipped model builds");
    let mut random = ChaCha8Rng::seed_from_u64(1);
    for rows in [128, 512] {
        let columns = model.schema().fields.iter().map(|field| match field.kind {
            FieldKind::Float { .. } | FieldKind::Floats { .. } => Column::floats(
                (0..rows)
                    .map(|_| f32::from(u8::from(random.random_bool(0.3))))
                    .collect(),
            ),
            FieldKind::Int { .. } => Column::ints(vec![0; rows]),
            FieldKind::Bytes { .. } => {
                let mut texts = Bytes::default();
                (0..rows).for_each(|_| {
                    texts.push(format!("{:08x}", random.random_range(0..50_000_u32)).as_bytes())
                });
                Column::bytes(texts)
            }
        });
        let batch = Batch {
            rows,
            columns: columns.collect(),
            position: Position::default(),
        };
        let features = model.features(&batch).expect("the batch is good");
        let sizes = model
            .reads(&features)
            .into_iter()
            .zip(model.variables())
            .map(|(read, spec)| match read {
                Read::Whole => spec.len(),
                Read::Rows(rows) => rows.len() * spec.width(),
                Read::Ids(ids) => ids.len() * spec.width(),
                Read::Nothing => 0,
            });
        let values: Vec<Vec<f32>> = sizes
            .map(|size| (0..size).map(|_| random.random_range(-0.1..0.1)).collect())
            .collect();
        let mut gradients = Vec::new();
        let mut scratch = Default::default();
        let time = |work: &mut (dyn FnMut() + Send)| {
            let round = |work: &mut (dyn FnMut() + Send)| {
                let start = Instant::now();
                (0..STEPS).for_each(|_| work());
                start.elapsed().as_secs_f64() * 1e3 / f64::from(STEPS)
            };
            (0..ROUNDS)
                .map(|_| round(work))
                .fold(f64::INFINITY, f64::min)
        };
        let prepare = time(&mut || drop(model.features(&batch)));
        println!("batch {rows}: features {prepare:.3} ms");
        let flops = 6.0 * rows as f64 * (429.0 * 256.0 + 256.0 * 128.0 + 128.0);
        for threads in [1, 2] {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .expect("threads start");
            // Each step enters the thread pool, as in training.
            let step = time(&mut || {
                let done =
                    pool.install(|| model.train(&features, &values, &mut gradients, &mut scratch));
                done.expect("the batch has labels");
            });
            println!(
                "batch {rows}, {threads} threads: train {step:.3} ms ({:.0} GFLOP/s)",
                flops / step / 1e6
            );
        }
    }
}
