//! The power is cut at any moment of a job: what was said to be saved is there, and the next start counts every update once.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use trainyard_checkpoint::latest_good;
use trainyard_tests::{
    Account, Act, Draw, LIMIT, Ledger, Left, Program, Recording, Tree, is_thorough, program, seed,
    write_job,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_nemesis");
/// Moments that are tried, of all: of a process, and of a cluster.
const MOMENTS: u64 = 40;
const CLUSTERS: u64 = 12;
/// First cuts, after which the power is cut again.
const FIRST_CUTS: u64 = 4;
/// What may be left.
const WAYS: usize = 4;
/// Starts at once.
const AT_ONCE: usize = 4;

/// A recorded job, and how to start it again.
#[derive(Clone)]
struct Recorded {
    ledger: Ledger,
    /// The same file of data for each start: another one would be another data set.
    job: PathBuf,
    recording: Recording,
    /// What is started, before the job and the model folder.
    words: &'static [&'static str],
    /// And behind them.
    more: &'static [&'static str],
    /// What was said before the recording.
    said: String,
    _scratch: Arc<tempfile::TempDir>,
}

impl Recorded {
    fn of(ledger: Ledger, words: &'static [&'static str], more: &'static [&'static str]) -> Self {
        let scratch = Arc::new(tempfile::tempdir().expect("a folder"));
        let saving = "save_checkpoints_steps = 40\nkeep_checkpoint_max = 2";
        let job = ledger.write_saving(scratch.path(), saving);
        let start = Self {
            ledger,
            job,
            recording: Recording::default(),
            words,
            more,
            said: String::new(),
            _scratch: scratch,
        };
        start.record(Tree::default())
    }

    /// The next start after a cut, recorded.
    fn after(&self, acts: usize, left: &mut Left<'_>) -> Self {
        let disk = self
            .recording
            .after_cut(acts, left)
            .expect("it fits together");
        let mut next = self.record(disk);
        next.said = self.recording.said(acts);
        next
    }

    fn record(&self, disk: Tree) -> Self {
        // Below it lies the model folder alone: whatever is recorded there is of the program.
        let scratch = tempfile::tempdir().expect("a folder");
        let folder = scratch.path().join("disk");
        std::fs::create_dir(&folder).expect("a folder");
        disk.write(&folder).expect("there is room");
        let recording = self.arguments(&folder.join("model"), |arguments| {
            Recording::of(Path::new(PROGRAM), arguments, &folder, disk).expect("it is recorded")
        });
        Self {
            recording,
            ..self.clone()
        }
    }

    /// Hands over what starts the job.
    fn arguments<T>(&self, model: &Path, start: impl FnOnce(&[&str]) -> T) -> T {
        let job = self.job.to_string_lossy();
        let model_dir = model.to_string_lossy();
        let own = [&*job, "--model-dir", &*model_dir];
        start(&[self.words, &own, self.more].concat())
    }

    /// Cuts the power after so many acts, and starts again.
    fn cut(&self, acts: usize, left: &mut Left<'_>) -> Result<(), String> {
        let said = self.said.clone() + &self.recording.said(acts);
        let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
        let disk = self.recording.after_cut(acts, left)?;
        let folder = scratch.path().join("disk");
        std::fs::create_dir(&folder)
            .and_then(|()| disk.write(&folder))
            .map_err(|error| error.to_string())?;
        let model = folder.join("model");
        let saved = last(&said, "checkpoint saved step=");
        let mut damaged = Vec::new();
        let found = if model.exists() {
            latest_good(&model, &mut |warning| damaged.push(warning.render()))
                .map_err(|error| error.to_string())?
        } else {
            None
        };
        let step = found.map(|checkpoint| checkpoint.manifest().global_step);
        if step < saved {
            return Err(format!(
                "a checkpoint of step {saved:?} was told, and step {step:?} is there"
            ));
        }
        if !damaged.is_empty() {
            return Err(damaged.join("\n"));
        }
        let ended = self.arguments(&model, |arguments| {
            Program::start(PROGRAM, arguments, &[]).wait(LIMIT)
        });
        if ended.code != 0 {
            return Err(format!(
                "the next start ends with {}:\n{}",
                ended.code, ended.output
            ));
        }
        let (led, leads) = (
            last(&said, "cluster_epoch="),
            last(&ended.output, "cluster_epoch="),
        );
        if leads.is_some() && leads <= led {
            return Err(format!(
                "epoch {led:?} was told, and the next start leads in {leads:?}"
            ));
        }
        let account = Account::of_model_dir(&model, &self.ledger)?;
        if account.is_exact() {
            Ok(())
        } else {
            Err(account.to_string())
        }
    }

    /// Cuts the power at some moments, each in one of three ways, and returns what went wrong.
    fn cut_at(&self, moments: &[usize], seed: u64) -> Vec<String> {
        let problems = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for first in 0..AT_ONCE {
                let problems = &problems;
                scope.spawn(move || {
                    for (nth, acts) in moments
                        .iter()
                        .copied()
                        .enumerate()
                        .skip(first)
                        .step_by(AT_ONCE)
                    {
                        let mut draw = Draw::new(seed.wrapping_add(nth as u64));
                        let (way, mut left) = match nth % WAYS {
                            0 => ("nothing that was not flushed is kept", Left::Nothing),
                            1 => ("names are kept without bytes", Left::Names),
                            2 => ("all is kept", Left::Everything),
                            _ => ("some is kept", Left::Some(&mut draw)),
                        };
                        if let Err(problem) = self.cut(acts, &mut left) {
                            let last = self.recording.acts()[..acts].last().map(short);
                            let problem = format!("after {acts} acts, {last:?}, {way}: {problem}");
                            problems.lock().expect("no panic").push(problem);
                        }
                    }
                });
            }
        });
        problems.into_inner().expect("no panic")
    }
}

/// The number behind the last of some words.
fn last(said: &str, words: &str) -> Option<u64> {
    let (_, behind) = said.rsplit_once(words)?;
    behind
        .split(|letter: char| !letter.is_ascii_digit())
        .next()?
        .parse()
        .ok()
}

fn short(act: &Act) -> String {
    format!("{act:?}").chars().take(200).collect()
}

/// Moments drawn from all, or all of them.
fn moments(all: usize, sample: u64, draw: &mut Draw) -> Vec<usize> {
    if is_thorough() {
        return (0..=all).collect();
    }
    let drawn: BTreeSet<u64> = (0..sample).map(|_| draw.below(all as u64 + 1)).collect();
    drawn.into_iter().map(|moment| moment as usize).collect()
}

fn ledger(servers: usize) -> Ledger {
    Ledger {
        rows: 3000,
        epochs: 1,
        batch_size: 16,
        lanes: 1,
        servers,
    }
}

fn survives(recorded: &Recorded, sample: u64, seed: u64) {
    let all = recorded.recording.acts().len();
    let moments = moments(all, sample, &mut Draw::new(seed));
    println!("{} moments of {all}", moments.len());
    let problems = recorded.cut_at(&moments, seed);
    assert!(
        problems.is_empty(),
        "{} of {}:\n{}",
        problems.len(),
        moments.len(),
        problems.join("\n\n")
    );
}

trial!(what_was_told_is_there_after_a_power_cut_and_every_update_counts_once, needs Strace);
fn what_was_told_is_there_after_a_power_cut_and_every_update_counts_once() {
    let seed = seed("power cuts");
    let recorded = Recorded::of(ledger(1), &["train"], &[]);
    // What is written of a checkpoint is what has changed: the rest is a link to the file of an earlier one.
    let is_link = |act: &Act| matches!(act, Act::Link { .. });
    assert!(recorded.recording.acts().iter().any(is_link));
    survives(&recorded, MOMENTS, seed);
    // The power is cut again while the next start is under way.
    let mut draw = Draw::new(seed);
    let all = recorded.recording.acts().len() as u64;
    for _ in 0..FIRST_CUTS {
        let first = draw.below(all) as usize;
        println!("first cut after {first} acts");
        let next = recorded.after(first, &mut Left::Some(&mut draw));
        survives(&next, MOMENTS / FIRST_CUTS, seed);
    }
}

trial!(a_host_of_a_whole_cluster_may_lose_its_power, needs Strace);
fn a_host_of_a_whole_cluster_may_lose_its_power() {
    let seed = seed("power cuts of a cluster");
    let recorded = Recorded::of(ledger(2), &["up"], &["--cluster", "local:ps=2,worker=1"]);
    survives(&recorded, CLUSTERS, seed);
}

trial!(a_flush_that_is_left_out_is_noticed, needs Strace);
fn a_flush_that_is_left_out_is_noticed() {
    let seed = seed("flushes left out");
    let recorded = Recorded::of(ledger(1), &["train"], &[]);
    type IsLeftOut = fn(&Path) -> bool;
    let flushed: [(&str, IsLeftOut); 4] = [
        ("the values of a checkpoint", |path| {
            path.extension().is_some_and(|kind| kind == "safetensors")
        }),
        ("the manifest of a checkpoint", |path| {
            path.ends_with("manifest.json")
        }),
        ("the folder of a checkpoint", |path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("tmp.")
        }),
        ("the names in the model folder", |path| {
            path.ends_with("model")
        }),
    ];
    for (what, is_left_out) in flushed {
        let left_out = |act: &Act| matches!(act, Act::EndFlush { path, .. } if is_left_out(path));
        let recorded = Recorded {
            recording: recorded.recording.without(left_out),
            ..recorded.clone()
        };
        let acts = recorded.recording.acts();
        let told = |nth: &usize| matches!(&acts[nth - 1], Act::Say(text) if text.contains("checkpoint saved"));
        // The last of them in each way.
        let moments: Vec<usize> = (1..=acts.len())
            .rev()
            .filter(told)
            .take(3)
            .flat_map(|nth| [nth; WAYS])
            .collect();
        assert!(moments.len() > 2 * WAYS, "{moments:?}");
        let problems = recorded.cut_at(&moments, seed);
        assert!(!problems.is_empty(), "{what}: nothing was noticed");
        println!("{what}: {} of {}", problems.len(), moments.len());
    }
}

/// Checks that the power may be cut once a program has said something: all that it then has at some places is there.
fn is_kept(recording: &Recording, said: &str, is_at: impl Fn(&Path) -> bool) {
    let acts = recording.acts();
    let says = |act: &Act| matches!(act, Act::Say(text) if text.contains(said));
    let moment = acts.iter().position(says).expect(said) + 1;
    let kept = |left: &mut Left<'_>| {
        let mut tree = recording.after_cut(moment, left).expect("it fits together");
        tree.files.retain(|path, _| is_at(path));
        tree.files
    };
    let (all, kept) = (kept(&mut Left::Everything), kept(&mut Left::Nothing));
    assert!(!all.is_empty(), "nothing is there after `{said}`");
    let lost: Vec<_> = all
        .iter()
        .filter(|(path, bytes)| kept.get(*path) != Some(*bytes))
        .collect();
    let names: Vec<_> = lost.iter().map(|(path, _)| path).collect();
    assert!(lost.is_empty(), "after `{said}`: {names:?}");
}

/// Records the command in an empty folder.
fn recorded(folder: &Path, arguments: &[&str]) -> Recording {
    Recording::of(&program("trainyard"), arguments, folder, Tree::default())
        .expect("it is recorded")
}

trial!(exports_and_results_of_commands_outlast_a_power_cut_once_they_are_told, needs Strace);
fn exports_and_results_of_commands_outlast_a_power_cut_once_they_are_told() {
    let scratch = tempfile::tempdir().expect("a folder");
    let job = write_job(
        scratch.path(),
        60,
        "[train]\nmax_steps = 40\n[[exporter]]\nkind = \"latest\"\n",
    );
    let job = job.to_string_lossy();
    let disk = scratch.path().join("disk");
    std::fs::create_dir(&disk).expect("a folder");
    let model = disk.join("model").to_string_lossy().into_owned();
    let of_training = recorded(&disk, &["train", &job, "--model-dir", &model]);
    is_kept(&of_training, "exported", |path| {
        path.starts_with("model/export")
    });
    for (command, name) in [
        ("predict", "p.jsonl"),
        ("evaluate", "e.json"),
        ("export", "e"),
    ] {
        let disk = scratch.path().join(command);
        std::fs::create_dir(&disk).expect("a folder");
        let output = disk.join(name).to_string_lossy().into_owned();
        let recorded = recorded(
            &disk,
            &[command, &job, "--model-dir", &model, "--output", &output],
        );
        let acts = recorded.acts().len();
        let all = recorded
            .after_cut(acts, &mut Left::Everything)
            .expect("it fits");
        assert!(!all.files.is_empty(), "{command}");
        let kept = recorded
            .after_cut(acts, &mut Left::Nothing)
            .expect("it fits");
        let lost: Vec<_> = all
            .files
            .keys()
            .filter(|path| kept.files.get(*path) != all.files.get(*path))
            .collect();
        assert!(lost.is_empty(), "{command}: {lost:?}");
    }
}
