//! Writes the matched tensors as a checkpoint, from which training resumes.

use std::time::SystemTime;

use trainyard_checkpoint::{
    InMemory, Manifest, ShardState, SliceView, TableView, abandon, begin, claim_epoch, commit,
    list, write_shard,
};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_model::AnyModel;
use trainyard_model_dir::cluster_id;
use trainyard_run_config::Job;
use trainyard_tensorflow_formats::tensor_bundle::Bundle;
use trainyard_variable::{DynamicRows, InitialRows, VariableSpec};

use super::order::InputOrder;
use super::{Found, Match, global_step, told};
use crate::output::print;

/// Values of a variable or of a slot.
struct Read<'a> {
    of: &'a Match,
    values: Vec<f32>,
}

/// Writes the checkpoint. Slots without a match start with their initial values.
pub(super) fn write(
    bundle: &Bundle,
    job: &Job,
    model: &AnyModel,
    matches: &[Match],
    order: &InputOrder<'_>,
) -> Result<(), Diagnostic> {
    let lacking: Vec<&Match> = matches
        .iter()
        .filter(|row| row.slot.is_none() && !matches!(row.found, Found::Tensor(_) | Found::Initial))
        .collect();
    if !lacking.is_empty() {
        let message = format!(
            "{} of the job's variables cannot be taken from {}",
            lacking.len(),
            bundle.prefix().display()
        );
        let problem = Diagnostic::error(Code::E3002, message);
        let problem = lacking.iter().fold(problem, |problem, row| {
            problem.note(match &row.found {
                Found::OtherShape(name, shape) => {
                    format!("{} is {:?}, `{name}` is {shape:?}", row.variable, row.shape)
                }
                _ => format!("{} {:?} is not there", row.variable, row.shape),
            })
        });
        return Err(problem.help(
            "name them with --rename OURS=THEIRS, or leave some of them out with train.warm_start in the job",
        ));
    }
    order.check()?;
    let folder = &job.model_dir;
    if let Some(found) = list(folder)?.last() {
        let message = format!(
            "{} holds a checkpoint of step {} already",
            folder.display(),
            found.step
        );
        return Err(
            Diagnostic::error(Code::E1006, message).help("give another folder with --model-dir")
        );
    }
    let step = global_step(bundle)?;
    let rules = model.optimizers();
    let mut reads = Vec::new();
    for (of, spec) in matches.iter().filter_map(|row| {
        model
            .variables()
            .iter()
            .find(|spec| spec.name == row.variable)
            .map(|spec| (row, spec))
    }) {
        let mut values = vec![0.0; spec.len()];
        match (&of.found, of.slot) {
            (Found::Tensor(name), _) => bundle.read_f32_rows(name, 0..spec.rows(), &mut values)?,
            (_, Some(slot)) => {
                let slots = rules
                    .get(&spec.optimizer_group)
                    .map(|rule| rule.slots())
                    .unwrap_or_default();
                let initial = slots
                    .iter()
                    .find(|known| known.name == slot)
                    .map_or(0.0, |known| known.initial);
                values.fill(initial);
            }
            (Found::Initial, None) => {
                let rows = 0..spec.rows() as u64;
                InitialRows::new(spec, job.run.seed).fill_rows(rows, &mut values);
            }
            (_, None) => {}
        }
        reads.push(Read { of, values });
    }
    let fixed = model
        .variables()
        .iter()
        .filter(|spec| spec.dynamic().is_none());
    let sources: Vec<(&VariableSpec, InMemory<'_>)> = fixed
        .map(|spec| {
            let own = || reads.iter().filter(|read| read.of.variable == spec.name);
            let values = own()
                .find(|read| read.of.slot.is_none())
                .map_or(&[][..], |read| read.values.as_slice());
            let slots = own()
                .filter(|read| read.of.slot.is_some())
                .map(|read| read.values.as_slice())
                .collect();
            (spec, InMemory { values, slots })
        })
        .collect();
    let slices: Vec<SliceView<'_>> = sources
        .iter()
        .map(|(spec, source)| {
            let own = reads.iter().filter(|read| read.of.variable == spec.name);
            SliceView {
                variable: &spec.name,
                part: 0,
                rows: 0..spec.rows(),
                width: spec.width(),
                slot_names: own.filter_map(|read| read.of.slot).collect(),
                held: None,
                source,
            }
        })
        .collect();
    let slot_names = |group: &str| -> Vec<&'static str> {
        rules
            .get(group)
            .map(|rule| rule.slots().iter().map(|slot| slot.name).collect())
            .unwrap_or_default()
    };
    let dynamic = model
        .variables()
        .iter()
        .filter(|spec| spec.dynamic().is_some());
    let empty: Vec<(&VariableSpec, DynamicRows)> = dynamic
        .map(|spec| {
            let slots = vec![Vec::new(); slot_names(&spec.optimizer_group).len()];
            (
                spec,
                DynamicRows {
                    slots,
                    ..DynamicRows::default()
                },
            )
        })
        .collect();
    let tables: Vec<TableView<'_>> = empty
        .iter()
        .map(|(spec, rows)| TableView {
            variable: &spec.name,
            part: 0,
            width: spec.width(),
            slot_names: slot_names(&spec.optimizer_group),
            first: None,
            source: rows,
            increment: None,
        })
        .collect();
    let bytes = reads.iter().map(|read| read.values.len() as u64 * 4).sum();
    let temporary = begin(folder, step, "import", bytes)?;
    let written = || -> Result<_, Diagnostic> {
        let id = cluster_id(folder, uuid::Uuid::new_v4().as_u128())?;
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        let mut manifest = Manifest::new(format!("{id:032x}"), claim_epoch(folder)?, step, now);
        let state = ShardState {
            ps: 0,
            num_ps: 1,
            version: step,
            positions: Vec::new(),
            ..ShardState::default()
        };
        manifest
            .shards
            .push(write_shard(&temporary, &state, &slices, &tables)?);
        manifest.num_ps = 1;
        manifest.variables = model.variables().to_vec();
        manifest.optimizers = rules.clone();
        manifest.seed = job.run.seed;
        Ok(commit(folder, &temporary, &manifest)?)
    };
    let checkpoint = written().inspect_err(|_| abandon(&temporary))?;
    let anew = matches
        .iter()
        .filter(|row| row.slot.is_some() && !matches!(row.found, Found::Tensor(_)))
        .count();
    print(&format!(
        "{}: {} variables at step {step}; {anew} optimizer slots start from their initial values\n{}",
        checkpoint.path().display(),
        model.variables().len(),
        told(order),
    ))
}
