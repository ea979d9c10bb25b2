//! The tests of the suite: registered by `trial!`, each run in a process of its own, skipped by name where what they need is
//! not installed.
//!
//! libtest cannot skip a test at run time: it would count a test that returned early as passed. libtest-mimic can.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Conclusion, Failed};
use rustix::process::{Pid, Signal, kill_current_process_group, kill_process_group};

use crate::made_once::FOLDER;
use crate::need::Need;

/// Names the one test that a process of the suite runs.
const ONE: &str = "TRAINYARD_TRIAL";
/// Names what must not be missing: needs by name, or `all`.
const REQUIRE: &str = "TRAINYARD_REQUIRE";
/// Longest run of a test. A test that hangs fails by name, with what it has said.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(900);
/// Most expensive tests that are named at the end.
const MOST_TOLD: usize = 20;
/// Begins the last line of a test that has passed: its time of cores in milliseconds.
const CPU: &str = "milliseconds of cores: ";
/// Time between looks whether a test has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A test of the suite.
#[derive(Debug)]
pub struct Trial {
    /// Where it is.
    pub module: &'static str,
    /// Its claim.
    pub claim: &'static str,
    /// Panics where the claim does not hold.
    pub run: fn(),
    /// Programs and rights that it cannot do without.
    pub needs: &'static [Need],
    /// Whether it measures time, and so runs while nothing else does.
    pub alone: bool,
}

inventory::collect!(Trial);

/// Registers a function as a test: `trial!(claim)`, `trial!(claim, needs S3)`, `trial!(claim, alone)`,
/// `trial!(claim, needs Ip, alone)`.
#[macro_export]
macro_rules! trial {
    ($claim:ident) => { $crate::trial!(@ $claim, &[], false); };
    ($claim:ident, alone) => { $crate::trial!(@ $claim, &[], true); };
    ($claim:ident, needs $($need:ident)+) => { $crate::trial!(@ $claim, &[$($crate::Need::$need),+], false); };
    ($claim:ident, needs $($need:ident)+, alone) => { $crate::trial!(@ $claim, &[$($crate::Need::$need),+], true); };
    (@ $claim:ident, $needs:expr, $alone:expr) => {
        $crate::inventory::submit! {
            $crate::Trial {
                module: module_path!(),
                claim: stringify!($claim),
                run: $claim,
                needs: $needs,
                alone: $alone,
            }
        }
    };
}

impl Trial {
    /// Returns its name: the modules below the program's root, and the claim.
    fn name(&self) -> String {
        let module = self.module.split_once("::").map_or("", |(_, below)| below);
        if module.is_empty() {
            self.claim.to_owned()
        } else {
            format!("{module}::{}", self.claim)
        }
    }
}

/// What a test cost.
#[derive(Debug, Clone)]
struct Cost {
    took: Duration,
    /// Of all its processes that it has waited for. 0 where its output is not captured.
    cpu: Duration,
    name: String,
}

/// What each test cost.
#[derive(Debug, Clone, Default)]
struct Costs(Arc<Mutex<Vec<Cost>>>);

impl Costs {
    fn add(&self, cost: Cost) {
        let mut costs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        costs.push(cost);
    }

    /// Names the slowest tests, and those that keep the cores busy longest.
    fn tell(&self) {
        let mut costs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all: Duration = costs.iter().map(|cost| cost.cpu).sum();
        for (what, of) in [
            ("slowest tests", (|cost| cost.took) as fn(&Cost) -> Duration),
            ("tests with the most time of cores", |cost| cost.cpu),
        ] {
            costs.sort_by_key(|cost| std::cmp::Reverse(of(cost)));
            println!("the {what}, in seconds:");
            for cost in costs.iter().take(MOST_TOLD) {
                println!("{:7.1} {}", of(cost).as_secs_f64(), cost.name);
            }
        }
        println!("time of cores of all tests: {:.0} s", all.as_secs_f64());
    }
}

/// Returns the names of all tests of the suite.
pub fn names() -> Vec<String> {
    inventory::iter::<Trial>
        .into_iter()
        .map(Trial::name)
        .collect()
}

/// Runs the suite as libtest would, and says at the end what was skipped and why, and which tests cost most.
pub fn run_suite() -> ExitCode {
    let mut trials: Vec<&'static Trial> = inventory::iter::<Trial>.into_iter().collect();
    // From the end of the alphabet: the longest ones are of `storage`, `serving`, `saved_model` and `onnx`, and one that begins last
    // leaves cores idle.
    trials.sort_by_key(|trial| std::cmp::Reverse(trial.name()));
    if let Ok(name) = std::env::var(ONE) {
        return run_here(&trials, &name);
    }
    let arguments = Arguments::from_args();
    let missing = if arguments.list {
        BTreeMap::new()
    } else {
        missing(&trials, &arguments)
    };
    let required = std::env::var(REQUIRE).unwrap_or_default();
    let (alone, beside): (Vec<_>, Vec<_>) = trials.iter().copied().partition(|trial| trial.alone);
    // Most of what tests of clusters do is to wait.
    let threads = arguments.test_threads.unwrap_or_else(|| 2 * cores());
    let mut failed = false;
    let costs = Costs::default();
    let folder = match tempfile::tempdir() {
        Ok(folder) => folder,
        Err(error) => {
            println!("no folder for what tests share: {error}");
            return ExitCode::FAILURE;
        }
    };
    for (trials, threads) in [(beside, threads), (alone, 1)] {
        if trials.iter().any(|trial| is_chosen(trial, &arguments)) {
            let arguments = Arguments {
                test_threads: Some(threads),
                ..arguments.clone()
            };
            failed |= run_all(
                &trials,
                &arguments,
                &missing,
                &required,
                folder.path(),
                &costs,
            )
            .has_failed();
        }
    }
    if !arguments.list {
        costs.tell();
        tell_skipped(&trials, &arguments, &missing, &required);
    }
    if failed {
        ExitCode::from(101)
    } else {
        ExitCode::SUCCESS
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn run_all(
    trials: &[&'static Trial],
    arguments: &Arguments,
    missing: &BTreeMap<Need, String>,
    required: &str,
    folder: &Path,
    costs: &Costs,
) -> Conclusion {
    let nocapture = arguments.nocapture;
    let trials = trials.iter().map(|trial| {
        let name = trial.name();
        let verdict = Verdict::of(trial, missing, required);
        let skipped = matches!(verdict, Verdict::Skipped(_));
        let costs = costs.clone();
        let folder = folder.to_owned();
        libtest_mimic::Trial::test(name.clone(), move || match verdict {
            Verdict::Refused(problem) => Err(problem.into()),
            Verdict::Runs | Verdict::Skipped(_) => {
                let begun = Instant::now();
                let outcome = run_apart(&name, &folder, nocapture);
                costs.add(Cost {
                    took: begun.elapsed(),
                    cpu: outcome.as_ref().copied().unwrap_or_default(),
                    name: name.clone(),
                });
                outcome.map(drop)
            }
        })
        .with_ignored_flag(skipped)
    });
    libtest_mimic::run(arguments, trials.collect())
}

/// Returns what is missing of all that the chosen tests need, and why. Each is looked for once.
fn missing(trials: &[&'static Trial], arguments: &Arguments) -> BTreeMap<Need, String> {
    let chosen = trials.iter().filter(|trial| is_chosen(trial, arguments));
    let mut needs: Vec<Need> = chosen.flat_map(|trial| trial.needs).copied().collect();
    needs.sort_unstable();
    needs.dedup();
    std::thread::scope(|scope| {
        let looks: Vec<_> = needs
            .iter()
            .map(|need| (*need, scope.spawn(|| need.missing())))
            .collect();
        let found = looks
            .into_iter()
            .filter_map(|(need, look)| Some((need, look.join().ok()??)));
        found.collect()
    })
}

/// What becomes of a test on this machine.
enum Verdict {
    Runs,
    /// Something that it needs is missing.
    Skipped(Need),
    /// Something is missing that must not be: what is told.
    Refused(String),
}

impl Verdict {
    fn of(trial: &Trial, missing: &BTreeMap<Need, String>, required: &str) -> Self {
        let absent = trial
            .needs
            .iter()
            .find_map(|need| Some((*need, missing.get(need)?)));
        match absent {
            None => Self::Runs,
            Some((need, reason)) if need.is_in(required) => Self::Refused(format!(
                "{} is required here, and is missing: {reason}",
                need.name()
            )),
            Some((need, _)) => Self::Skipped(need),
        }
    }
}

/// Returns whether a test is among those that the arguments name, as libtest chooses them.
fn is_chosen(trial: &Trial, arguments: &Arguments) -> bool {
    let name = trial.name();
    let matches = |text: &String| {
        if arguments.exact {
            name == *text
        } else {
            name.contains(text.as_str())
        }
    };
    arguments.filter.as_ref().is_none_or(matches) && !arguments.skip.iter().any(matches)
}

/// Says what was skipped: `skipped NEED COUNT: REASON`, and below it the tests.
fn tell_skipped(
    trials: &[&'static Trial],
    arguments: &Arguments,
    missing: &BTreeMap<Need, String>,
    required: &str,
) {
    let mut skipped = BTreeMap::<Need, Vec<String>>::new();
    for trial in trials.iter().filter(|trial| is_chosen(trial, arguments)) {
        if let Verdict::Skipped(need) = Verdict::of(trial, missing, required) {
            skipped.entry(need).or_default().push(trial.name());
        }
    }
    for (need, names) in skipped {
        println!(
            "skipped {} {}: {}",
            need.name(),
            names.len(),
            missing[&need]
        );
        names.iter().for_each(|name| println!("    {name}"));
    }
}

/// Runs a test in this process.
fn run_here(trials: &[&'static Trial], name: &str) -> ExitCode {
    match trials.iter().find(|trial| trial.name() == name) {
        Some(trial) => {
            // Where the suite is killed, its end of this pipe closes, and all that the test has started goes too.
            std::thread::spawn(|| {
                let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
                let _ = kill_current_process_group(Signal::KILL);
            });
            (trial.run)();
            println!("\n{CPU}{}", time_of_cores().as_millis());
            ExitCode::SUCCESS
        }
        None => {
            println!("{ONE} names no test: {name}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the time that cores have worked for this process and for those that it has waited for.
fn time_of_cores() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the name, which may have blanks, come the fields from the third. Those from the 14th are ticks of the
    // process and of its children.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 = fields
        .split_ascii_whitespace()
        .skip(11)
        .take(4)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
}

/// Runs a test in a process of its own, whose output is shown only where it fails. Returns its time of cores.
fn run_apart(name: &str, folder: &Path, nocapture: bool) -> Result<Duration, Failed> {
    let text = |error: std::io::Error| Failed::from(error.to_string());
    let mut command = Command::new(std::env::current_exe().map_err(text)?);
    // Whatever it starts is in its process group, and ends with it.
    command
        .env(ONE, name)
        .env(FOLDER, folder)
        .stdin(Stdio::piped())
        .process_group(0);
    let mut output = tempfile::tempfile().map_err(text)?;
    if !nocapture {
        let to = |output: &File| output.try_clone().map(Stdio::from);
        command
            .stdout(to(&output).map_err(text)?)
            .stderr(to(&output).map_err(text)?);
    }
    let mut child = command.spawn().map_err(text)?;
    let begun = Instant::now();
    let ended = loop {
        match child.try_wait().map_err(text)? {
            Some(status) if status.success() => break Ok(()),
            Some(status) => break Err(format!("{status}")),
            None if begun.elapsed() > TRIAL_TIMEOUT => {
                break Err(format!(
                    "it did not end within {} s",
                    TRIAL_TIMEOUT.as_secs()
                ));
            }
            None => std::thread::sleep(POLL_INTERVAL),
        }
    };
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
    let mut said = String::new();
    let _ = output.seek(SeekFrom::Start(0));
    let _ = output.read_to_string(&mut said);
    match ended {
        Ok(()) => {
            let last = said.lines().last().and_then(|line| line.strip_prefix(CPU));
            let milliseconds = last.and_then(|number| number.parse().ok());
            Ok(Duration::from_millis(milliseconds.unwrap_or_default()))
        }
        Err(problem) => Err(format!("{problem}\n{said}").into()),
    }
}
