//! Crash points: a checkpoint is saved again and again, killed at each of its system calls in turn.

mod daemons;
mod trace;

use std::path::{Path, PathBuf};
use std::process::Stdio;

use trainyard::{Access, Initializer, VariableSpec};
use trainyard_checkpoint::{
    Bases, Checkpoint, HeldView, InMemory, Keep, Manifest, OtherRows, PositionRecord, ShardState,
    SliceView, begin, claim_epoch, commit, latest_good, retain, sweep, write_shard,
};
use trainyard_model_dir::{JobPhase, JobState};

use crate::Draw;
use trace::{Call, calls, strace};

/// Servers of the checkpoints, and values of each.
const SERVERS: usize = 2;
const VALUES: usize = 3000;
/// The server whose part is an increment in all checkpoints but the first, and the values that change after that one.
const WITH_INCREMENTS: usize = 1;
const CHANGED: usize = 100;
/// Step of the first checkpoint, on which the increments are based.
const FIRST: u64 = 10;
/// Checkpoints that stay.
const KEEP: usize = 2;

/// What became of the crash points.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Survived {
    /// Crash points: system calls of a save.
    pub points: usize,
    /// Those that were tried: a process came to them, and was killed.
    pub tried: usize,
    /// What went wrong, and where.
    pub failures: Vec<String>,
}

/// The enumeration.
#[derive(Debug, Clone)]
pub struct CrashPoints {
    /// A program that saves a checkpoint where its arguments are `save FOLDER STEP`, by [`save`], and otherwise is a task: one
    /// that calls [`crate::as_task`].
    pub program: PathBuf,
    /// How many points of each process are tried at most, drawn at random; nothing = all.
    pub sample: Option<usize>,
    /// Of that choice.
    pub seed: u64,
    /// Tries only the points whose names hold this: `ps:1 at rename 1`.
    pub only: Option<String>,
}

fn value(step: u64, server: usize, place: usize) -> f32 {
    let is_unchanged = server == WITH_INCREMENTS && place >= CHANGED;
    let step = if is_unchanged { FIRST } else { step };
    (step * 10_000 + (server * VALUES + place) as u64) as f32
}

fn name(server: usize) -> String {
    format!("part/{server}")
}

/// Saves a checkpoint of a step as the daemons do: every server's file, the manifest, the marker; then removes old ones.
///
/// # Errors
/// Any file operation that failed.
pub fn save(model_dir: &Path, step: u64) -> Result<(), trainyard_checkpoint::Error> {
    sweep(model_dir)?;
    std::fs::create_dir_all(model_dir).ok();
    let epoch = claim_epoch(model_dir)?;
    let folder = begin(
        model_dir,
        step,
        &format!("{epoch}-1"),
        (SERVERS * VALUES * 4) as u64,
    )?;
    let mut manifest = Manifest::new("1".to_owned(), epoch, step, step);
    let bases = match latest_good(model_dir, &mut |_| {})? {
        Some(latest) => Bases::none_yet().after(latest.manifest(), latest.path()),
        None => Bases::none_yet(),
    };
    for server in 0..SERVERS {
        let base = bases.name_for(server);
        let base = base.filter(|base| server == WITH_INCREMENTS && !base.is_empty());
        let written = if base.is_some() {
            0..CHANGED
        } else {
            0..VALUES
        };
        let values: Vec<f32> = written
            .clone()
            .map(|place| value(step, server, place))
            .collect();
        let source = InMemory {
            values: &values,
            slots: Vec::new(),
        };
        let name = name(server);
        let slices = [SliceView {
            variable: &name,
            part: 0,
            rows: 0..VALUES,
            width: 1,
            slot_names: Vec::new(),
            held: base.as_ref().map(|_| HeldView {
                rows: vec![written],
                others: OtherRows::Base,
            }),
            source: &source,
        }];
        let position = PositionRecord {
            shard: 0,
            pass: 0,
            batch: step,
            ahead: Vec::new(),
        };
        let state = ShardState {
            ps: server,
            num_ps: SERVERS,
            version: step,
            positions: vec![position],
            cut: Some(format!("{step}-{server}")),
            base,
            secs: 0,
            ..ShardState::default()
        };
        manifest
            .shards
            .push(write_shard(&folder, &state, &slices, &[])?);
        manifest.variables.push(VariableSpec {
            name: name.clone(),
            shape: vec![VALUES],
            access: Access::Whole,
            initializer: Initializer::Zeros,
            optimizer_group: "sgd".to_owned(),
        });
    }
    manifest.num_ps = SERVERS;
    bases.link(&mut manifest, &folder)?;
    commit(model_dir, &folder, &manifest)?;
    retain(model_dir, Keep::newest(KEEP))?;
    let phase = JobPhase::Running;
    let reason = "training".to_owned();
    let state = JobState {
        phase,
        global_step: step,
        reason,
        cluster_epoch: epoch,
        epochs: None,
        early_stopping: None,
        finished_before: false,
    };
    Ok(state.write(model_dir)?)
}

/// Whether a checkpoint holds what [`save`] has written.
fn holds(checkpoint: &Checkpoint) -> Result<(), String> {
    let step = checkpoint.manifest().global_step;
    for server in 0..SERVERS {
        let found = checkpoint
            .read(&name(server))
            .map_err(|error| error.to_string())?;
        let expected = (0..VALUES).map(|place| value(step, server, place));
        if !found.iter().copied().eq(expected) {
            return Err(format!(
                "step {step} holds other values of {}",
                name(server)
            ));
        }
    }
    Ok(())
}

impl CrashPoints {
    /// The points in the order in which they are tried.
    fn points(&self, all: Vec<Call>) -> Vec<Call> {
        let mut draw = Draw::new(self.seed);
        let mut all = all;
        if self.sample.is_some() {
            for place in 0..all.len() {
                let other = place + draw.below((all.len() - place) as u64) as usize;
                all.swap(place, other);
            }
        }
        all
    }

    /// How many of so many points are tried.
    fn wanted(&self, all: usize) -> usize {
        self.sample.map_or(all, |sample| sample.min(all))
    }

    /// Kills a process that saves, at each system call that touches files: of a new step with an old one to remove, and of a
    /// step that was saved before.
    ///
    /// # Errors
    /// The save cannot be run or traced.
    pub fn of_a_save(&self) -> Result<Survived, String> {
        let mut survived = Survived::default();
        for step in [30, 20] {
            let all = calls(|output, folder| {
                prepare(folder)?;
                let mut command = strace(output, None);
                Ok((
                    command
                        .arg(&self.program)
                        .args(self.saving(folder, step))
                        .status(),
                    folder.to_owned(),
                ))
            })?;
            survived.points += all.len();
            let wanted = self.wanted(all.len());
            for call in self.points(all).into_iter().take(wanted) {
                survived.tried += 1;
                if let Err(problem) = self.kill_at(&call, step) {
                    survived
                        .failures
                        .push(format!("step {step}, killed at {call}: {problem}"));
                }
            }
        }
        Ok(survived)
    }

    fn saving(&self, folder: &Path, step: u64) -> [String; 3] {
        [
            "save".to_owned(),
            folder.display().to_string(),
            step.to_string(),
        ]
    }

    fn kill_at(&self, call: &Call, step: u64) -> Result<(), String> {
        let scratch = tempfile::tempdir().expect("a temporary folder");
        let folder = scratch.path().join("model");
        prepare(&folder)?;
        let mut command = strace(Path::new("/dev/null"), Some(call));
        let status = command
            .arg(&self.program)
            .args(self.saving(&folder, step))
            .stderr(Stdio::null())
            .status();
        let status = status.map_err(|error| error.to_string())?;
        if status.success() {
            return Err("it was not killed".to_owned());
        }
        // A chief that starts again does this first.
        sweep(&folder).map_err(|error| error.to_string())?;
        let mut warnings = Vec::new();
        let found = latest_good(&folder, &mut |warning| warnings.push(warning.render()));
        let found = found
            .map_err(|error| error.to_string())?
            .ok_or("no checkpoint is left")?;
        if !warnings.is_empty() {
            return Err(format!("a checkpoint was damaged: {}", warnings.join("\n")));
        }
        let last = found.manifest().global_step;
        if ![20, step].contains(&last) {
            return Err(format!("step {last} is the last good one"));
        }
        holds(&found)?;
        save(&folder, 40).map_err(|error| format!("the next save fails: {error}"))?;
        let found = latest_good(&folder, &mut |_| {}).map_err(|error| error.to_string())?;
        match found {
            Some(found) if found.manifest().global_step == 40 => holds(&found),
            other => Err(format!(
                "after the next save the last one is {:?}",
                other.map(|it| it.path().to_owned())
            )),
        }
    }
}

/// A model folder with the checkpoints 10 and 20.
fn prepare(folder: &Path) -> Result<(), String> {
    let _ = std::fs::remove_dir_all(folder);
    std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    [FIRST, 20]
        .into_iter()
        .try_for_each(|step| save(folder, step).map_err(|error| error.to_string()))
}
