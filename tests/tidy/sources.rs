//! What source files hold, and what they do not.

use std::path::Path;

use crate::tidy::{assert_none, files, read, root};

fn sources() -> Vec<(String, String)> {
    let root = root();
    let all = files(&root.join("crates"), ".rs")
        .into_iter()
        .chain(files(&root.join("tests"), ".rs"));
    let named = all.map(|path| {
        (
            path.strip_prefix(&root)
                .unwrap_or(&path)
                .display()
                .to_string(),
            read(&path),
        )
    });
    named
        .filter(|(name, _)| !name.contains("/generated/"))
        .collect()
}

/// Lines that hold one of the words, outside tests.
fn holding(name: &str, text: &str, words: &[&str]) -> Vec<String> {
    let code = text.split("#[cfg(test)]").next().unwrap_or(text);
    let lines = code
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim_start().starts_with("//"));
    let hits = lines.filter(|(_, line)| words.iter().any(|word| line.contains(word)));
    hits.map(|(number, line)| format!("{name}:{}: {}", number + 1, line.trim()))
        .collect()
}

fn in_crate(name: &str, crates: &[&str]) -> bool {
    crates
        .iter()
        .any(|folder| name.starts_with(&format!("crates/{folder}/src/")))
}

trial!(every_module_has_a_caption);
fn every_module_has_a_caption() {
    let offenders: Vec<String> = sources()
        .into_iter()
        .filter(|(_, text)| !text.starts_with("//!"))
        .map(|(name, _)| name)
        .collect();
    assert_none("files that do not open with //!", &offenders);
}

trial!(programs_begin_in_twenty_lines);
fn programs_begin_in_twenty_lines() {
    let offenders: Vec<String> = sources()
        .into_iter()
        .filter(|(name, text)| name.ends_with("src/main.rs") && text.lines().count() > 22)
        .map(|(name, _)| name)
        .collect();
    assert_none("main.rs over 22 lines", &offenders);
}

trial!(nothing_is_left_open_or_switched_off);
fn nothing_is_left_open_or_switched_off() {
    let words = [
        "todo!(",
        "unimplemented!(",
        "#[ignore",
        "dead_code",
        "dbg!(",
    ];
    let offenders: Vec<String> = sources()
        .into_iter()
        .filter(|(name, _)| !name.starts_with("tests/tidy"))
        .flat_map(|(name, text)| holding(&name, &text, &words))
        .collect();
    assert_none("left open", &offenders);
}

trial!(modules_are_named_files);
fn modules_are_named_files() {
    let bags = [
        "utils", "common", "core", "types", "helpers", "helper", "mod",
    ];
    let offenders: Vec<String> = sources()
        .into_iter()
        .map(|(name, _)| name)
        .filter(|name| {
            Path::new(name)
                .file_stem()
                .is_some_and(|stem| bags.iter().any(|bag| stem == *bag))
        })
        .collect();
    assert_none("files named as bags", &offenders);
}

trial!(crates_that_decide_have_no_clock_environment_or_chance_of_their_own);
fn crates_that_decide_have_no_clock_environment_or_chance_of_their_own() {
    let pure = [
        "tensor",
        "variable",
        "optimizer",
        "feature-column",
        "model",
        "parameter-store",
    ];
    let words = [
        "std::time::",
        "std::env::",
        "SystemTime",
        "Instant::now",
        "thread_rng",
        "rand::rng(",
    ];
    let offenders: Vec<String> = sources()
        .into_iter()
        .filter(|(name, _)| in_crate(name, &pure))
        .flat_map(|(name, text)| holding(&name, &text, &words))
        .collect();
    assert_none("impure lines", &offenders);
}

trial!(only_the_launcher_and_the_command_read_environment_and_signals);
fn only_the_launcher_and_the_command_read_environment_and_signals() {
    let words = [
        "std::env::var",
        "std::env::args",
        "signal::unix",
        "signal::ctrl_c",
    ];
    let offenders: Vec<String> = sources()
        .into_iter()
        .filter(|(name, _)| {
            name.starts_with("crates/")
                && name.contains("/src/")
                && !in_crate(
                    name,
                    &["daemon", "trainyard", "example-custom-models", "testing"],
                )
        })
        .flat_map(|(name, text)| holding(&name, &text, &words))
        .collect();
    assert_none("lines that read the environment", &offenders);
}

trial!(nothing_is_global);
fn nothing_is_global() {
    let words = [
        "static mut",
        "OnceLock",
        "LazyLock",
        "OnceCell",
        "thread_local!",
        "lazy_static",
    ];
    let offenders: Vec<String> = sources()
        .into_iter()
        .filter(|(name, _)| name.starts_with("crates/"))
        .flat_map(|(name, text)| holding(&name, &text, &words))
        .collect();
    assert_none("globals", &offenders);
}

trial!(generated_types_stay_behind_their_doors);
fn generated_types_stay_behind_their_doors() {
    // The log of a server holds what it was asked, as it was asked.
    let log = [
        "crates/ps/src/journal.rs",
        "crates/ps/src/record.rs",
        "crates/ps/src/recovery.rs",
    ];
    // Servers in pairs pass it on so, and the chief asks them how they stand.
    let pairs = [
        "crates/ps/src/link.rs",
        "crates/ps/src/pair_telemetry.rs",
        "crates/ps/src/replica.rs",
        "crates/ps/src/replica/tests.rs",
        "crates/chief/src/keeper.rs",
    ];
    let door = |name: &str| {
        in_crate(name, &["protocol", "cluster-client"])
            || name.ends_with("/service.rs")
            || log.contains(&name)
            || pairs.contains(&name)
    };
    let served = |line: &String| line.contains("_server::");
    let offenders: Vec<String> = sources()
        .into_iter()
        .filter(|(name, _)| name.starts_with("crates/") && !door(name))
        .flat_map(|(name, text)| holding(&name, &text, &["trainyard_protocol::v1"]))
        .filter(|line| !served(line))
        .collect();
    assert_none("generated types in the open", &offenders);
}

trial!(tests_of_the_suite_are_registered);
fn tests_of_the_suite_are_registered() {
    // The suite has a harness of its own: what carries libtest's attribute there is compiled by nobody.
    let elsewhere = ["tests/harness/", "tests/simulation/", "tests/fuzz/"];
    let offenders: Vec<String> = sources()
        .into_iter()
        .filter(|(name, _)| {
            name.starts_with("tests/") && !elsewhere.iter().any(|folder| name.starts_with(folder))
        })
        .flat_map(|(name, text)| holding(&name, &text, &["#[test]", "#[tokio::test"]))
        .filter(|line| !line.starts_with("tests/tidy/"))
        .collect();
    assert_none("tests that never run", &offenders);
}
