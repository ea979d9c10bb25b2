//! A job as a value: trains, evaluates and predicts by calls instead of a command line.
//!
//! `cargo run -p trainyard --example train-and-evaluate`
//!
//! With `TF_CONFIG`, the process is the task that it names.

use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;

use trainyard::{Canned, Diagnostic, Estimator, Job, LogFormat, report, train_and_evaluate};

/// Prints the results, or the problems.
pub(crate) fn main() -> ExitCode {
    match run(Path::new("configs/iris.toml"), "runs/as-a-value") {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(problems) => {
            report(&problems, LogFormat::Text);
            ExitCode::FAILURE
        }
    }
}

/// Returns the step and the accuracy at the end, and the number of records predicted.
pub(crate) fn run(path: &Path, model_dir: &str) -> Result<String, Vec<Diagnostic>> {
    let settings = [
        "train.max_steps=300".to_owned(),
        format!("model_dir={model_dir}"),
    ];
    let estimator = Estimator::new(Job::load(path, &settings)?, Canned::from_job);
    let Some(trained) = train_and_evaluate(&estimator)? else {
        return Ok("this process was a task of a cluster".to_owned());
    };
    let scores = estimator.evaluate().map_err(|problem| vec![problem])?;
    let mut records = 0;
    let count = estimator.predict(|_| {
        records += 1;
        Ok(ControlFlow::Continue(()))
    });
    count.map_err(|problem| vec![problem])?;
    let step = trained.global_step;
    let accuracy = scores.get("accuracy").copied().unwrap_or_default();
    Ok(format!(
        "step {step}, accuracy {accuracy}, {records} records"
    ))
}
