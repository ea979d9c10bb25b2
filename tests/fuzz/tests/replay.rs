//! The corpora, run as tests: a seed that fails is a finding, and a target that nothing runs is none.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use trainyard_fuzz::TARGETS;

/// One test at a time: the panic hook belongs to the whole process.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the entries of a folder, in the order of their names; none where there is no folder.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    paths
}

fn name(path: &Path) -> String {
    path.file_stem()
        .expect("a name")
        .to_string_lossy()
        .into_owned()
}

fn targets() -> BTreeSet<String> {
    TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect()
}

// Under libFuzzer a panic of any thread ends the process, even where the code catches it. The hook sees the same panics.
#[test]
fn no_seed_makes_its_target_panic() {
    let _turn = turn();
    let panics = Arc::new(Mutex::new(Vec::new()));
    let seen = panics.clone();
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        seen.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(panic.to_string());
    }));
    let mut findings = Vec::new();
    for (target, run) in TARGETS {
        for seed in entries(&root().join("corpus").join(target)) {
            let _ = catch_unwind(AssertUnwindSafe(|| {
                run(&std::fs::read(&seed).expect("a seed"))
            }));
            let panics =
                std::mem::take(&mut *panics.lock().unwrap_or_else(PoisonError::into_inner));
            let file = seed.file_name().expect("a name").to_string_lossy();
            findings.extend(
                panics
                    .into_iter()
                    .map(|panic| format!("{target}: {file}: {panic}")),
            );
        }
    }
    std::panic::set_hook(before);
    assert!(
        findings.is_empty(),
        "{} findings:\n{}",
        findings.len(),
        findings.join("\n")
    );
}

#[test]
fn every_target_has_seeds_and_every_corpus_a_target() {
    let _turn = turn();
    let corpora = entries(&root().join("corpus"));
    let filled = corpora.iter().filter(|corpus| !entries(corpus).is_empty());
    let filled: BTreeSet<String> = filled.map(|corpus| name(corpus)).collect();
    assert_eq!(filled, targets(), "folders with seeds, and targets");
    assert_eq!(corpora.len(), filled.len(), "folders without seeds");
}

#[test]
fn every_target_has_a_program_of_its_own() {
    let _turn = turn();
    let folder = root().join("libfuzzer");
    let programs = entries(&folder.join("targets"));
    assert_eq!(
        programs
            .iter()
            .map(|program| name(program))
            .collect::<BTreeSet<_>>(),
        targets()
    );
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest");
    for program in programs {
        let name = name(&program);
        let text = std::fs::read_to_string(&program).expect("a program");
        assert!(
            text.contains(&format!("trainyard_fuzz::{name}::run(data)")),
            "{name} runs another target"
        );
        assert!(
            manifest.contains(&format!("name = \"{name}\"\npath = \"targets/{name}.rs\"")),
            "{name} is not built"
        );
    }
}
