//! `trainyard bench input` and `bench model`: one process that reads the records of a job.

use std::time::{Duration, Instant};

use serde_json::json;
use trainyard_command::{Format, print};
use trainyard_diagnostic::Diagnostic;
use trainyard_input::{Batch, Dataset};
use trainyard_model::{Build, Part, Shard, input_options};
use trainyard_trainer::Threads;
use trainyard_variable::{Access, Read};

use super::arguments::BenchJob;
use super::conditions::Conditions;

/// Number of batches on which the model is timed, in turn.
const BATCHES: usize = 16;

/// Times the reading of a job's training input, with and without the feature columns.
pub(super) fn input(arguments: &BenchJob, build: Build) -> Result<(), Vec<Diagnostic>> {
    let job = arguments.job.load()?;
    let work = || {
        let model = build(&job)?;
        let read = |ready: bool| -> Result<(f64, u64), Diagnostic> {
            let options = input_options(&job, Part::Train, Shard::WHOLE, None)?;
            let mut dataset = Dataset::open(options, model.schema().clone())?;
            let began = Instant::now();
            let mut records = 0;
            let mut batch = Batch::default();
            while dataset.read(&mut batch)? {
                records += batch.rows as u64;
                if ready {
                    drop(model.features(&batch)?);
                }
                if began.elapsed().as_secs_f64() > arguments.seconds {
                    break;
                }
            }
            Ok((began.elapsed().as_secs_f64(), records))
        };
        let (seconds, records) = read(false)?;
        let (ready_seconds, ready_records) = read(true)?;
        let rate = records as f64 / seconds;
        let ready = ready_records as f64 / ready_seconds;
        let conditions = Conditions::of_one_process();
        print(&match arguments.format {
            Format::Json => {
                format!(
                    "{}\n",
                    json!({
                        "conditions": conditions,
                        "records_per_second": rate,
                        "ready_records_per_second": ready,
                    })
                )
            }
            Format::Text => {
                conditions.text()
                    + &format!(
                        "records/s         {rate:.0} read and parsed, {ready:.0} made ready for the model, one thread\n"
                    )
            }
        })
    };
    work().map_err(|problem: Diagnostic| vec![problem])
}

/// Times the forward and backward pass of a job's model on its first batches.
pub(super) fn model(arguments: &BenchJob, build: Build) -> Result<(), Vec<Diagnostic>> {
    let job = arguments.job.load()?;
    let work = || {
        let model = build(&job)?;
        let options = input_options(&job, Part::Train, Shard::WHOLE, None)?;
        let mut ready = Vec::new();
        for batch in Dataset::open(options, model.schema().clone())?.take(BATCHES) {
            let features = model.features(&batch?)?;
            let reads = model.reads(&features);
            let values: Vec<Vec<f32>> = reads
                .iter()
                .zip(model.variables())
                .map(|(read, spec)| {
                    let length = match read {
                        Read::Whole => spec.len(),
                        Read::Rows(rows) => rows.len() * spec.width(),
                        _ => 0,
                    };
                    // Small values of both signs, as weights have.
                    (0..length)
                        .map(|place| (place % 13) as f32 * 0.01 - 0.06)
                        .collect()
                })
                .collect();
            ready.push((features, values));
        }
        let threads = Threads::start(job.run.intra_op_parallelism_threads)?;
        let mut gradients = Vec::new();
        let mut scratch = None;
        let mut steps = 0_u64;
        let mut examples = 0_u64;
        let mut spent = Duration::ZERO;
        'timed: loop {
            for (features, values) in &mut ready {
                let began = Instant::now();
                let outcome = threads.run(|| {
                    // The closure captures the mutable borrow whole, because features are `Send` but need not be
                    // `Sync`.
                    let features: &mut _ = features;
                    model.train(features, values, &mut gradients, &mut scratch)
                })?;
                spent += began.elapsed();
                steps += 1;
                examples += outcome.examples as u64;
                if spent.as_secs_f64() > arguments.seconds {
                    break 'timed;
                }
            }
            if ready.is_empty() {
                break;
            }
        }
        // Three products per kernel: forward, gradient of the kernel, gradient of its input. A model may skip the last
        // product for input columns of the first layer that learn nothing. These products are counted nevertheless.
        let dense = model
            .variables()
            .iter()
            .filter(|spec| spec.access == Access::Whole && spec.shape.len() == 2);
        let flop = 6.0 * examples as f64 * dense.map(|spec| spec.len() as f64).sum::<f64>();
        let seconds = spent.as_secs_f64().max(1e-9);
        let step = seconds * 1e3 / steps.max(1) as f64;
        let rate = examples as f64 / seconds;
        let gflop = flop / seconds / 1e9;
        let conditions = Conditions::of_one_process();
        print(&match arguments.format {
            Format::Json => format!(
                "{}\n",
                json!({
                    "conditions": conditions,
                    "threads": threads.count(),
                    "ms_per_step": step,
                    "examples_per_second": rate,
                    "gflop_per_second": gflop,
                })
            ),
            Format::Text => {
                conditions.text()
                    + &format!(
                        "step              {step:.3} ms forward and backward, {}\nexamples/s        {rate:.0}\nGFLOP/s           {gflop:.1} in dense layers: forward, gradients of kernels and of inputs\n",
                        match threads.count() {
                            1 => "one thread".to_owned(),
                            count => format!("{count} threads"),
                        }
                    )
            }
        })
    };
    work().map_err(|problem: Diagnostic| vec![problem])
}
