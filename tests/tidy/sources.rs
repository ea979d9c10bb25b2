//! What source files hold, and what they do not.

use std::collections::BTreeSet;
use std::path::Path;

use crate::tidy::imports::{code, paths};
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
        "utils", "common", "core", "types", "helpers", "helper", "mod", "data", "info", "manager",
        "misc", "shared", "util",
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
        "vocabulary",
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
    // A server's log holds requests as they came.
    let log = [
        "journal",
        "log_cut",
        "log_cut/file",
        "log_cut/transfer",
        "prepare_request",
        "random_work",
        "record",
        "recovery",
        "replay",
        "wire/guard",
        "wire/identity",
        "wire/selection",
        "wire/status",
        "wire/step",
    ];
    // A primary sends its log to its backup, and the chief tells both their roles.
    let replication = [
        "replication/log_sender",
        "replication/replica_telemetry",
        "replication/replica",
        "replication/replica_service",
        "replication/shard_service",
        "replication/shipping",
    ];
    // Tensors are taken from the wire and written to it without a copy, and a repeated request is recognised.
    let requests = ["answer", "preparation", "tensor_service"];
    let of_the_daemon = [&replication[..], &requests[..]].concat();
    let named = |name: &str, folder: &str, files: &[&str]| {
        name.strip_prefix(folder)
            .is_some_and(|file| files.contains(&file.trim_end_matches(".rs")))
    };
    let door = |name: &str| {
        let server = named(name, "crates/ps/src/", &of_the_daemon)
            || named(name, "crates/parameter-server/src/", &log);
        // A message of the chief is defined beside its conversion.
        in_crate(name, &["protocol"])
            || name.starts_with("crates/trainer/src/coordinator/")
            || name == "crates/cluster-client/src/remote_server.rs"
            || name == "crates/cluster-client/src/replica_routing.rs"
            || name.ends_with("/service.rs")
            || name == "crates/chief/src/failover_controller.rs"
            || server
    };
    let is_generated =
        |path: &String| path.starts_with("trainyard_protocol::v1") && !path.contains("_server::");
    let offenders: Vec<String> = sources()
        .into_iter()
        .filter(|(name, _)| name.starts_with("crates/") && name.contains("/src/") && !door(name))
        .filter(|(name, _)| !name.ends_with("/tests.rs"))
        .flat_map(|(name, text)| {
            let named = paths(&code(&text)).into_iter().filter(is_generated);
            named
                .map(|path| format!("{name}: {path}"))
                .collect::<Vec<_>>()
        })
        .collect();
    assert_none("generated types in the open", &offenders);
}

trial!(only_the_sender_of_its_log_makes_a_parameter_server_a_client);
fn only_the_sender_of_its_log_makes_a_parameter_server_a_client() {
    let users: Vec<String> = sources()
        .into_iter()
        .filter(|(name, _)| name.starts_with("crates/ps/"))
        .filter(|(_, text)| {
            let named = paths(&code(text));
            named
                .iter()
                .any(|path| path.starts_with("trainyard_cluster_client"))
        })
        .map(|(name, _)| name)
        .collect();
    assert_eq!(users, ["crates/ps/src/replication/log_sender.rs"]);
}

trial!(the_glossary_names_files_that_exist);
fn the_glossary_names_files_that_exist() {
    let root = root();
    let page = read(&root.join("docs/glossary.md"));
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| ")).collect();
    assert!(rows.len() > 80, "{} rows", rows.len());
    let mut offenders = Vec::new();
    for row in rows {
        let lives = row.rsplit('|').nth(1).unwrap_or_default();
        let mut folder = String::new();
        for place in lives.split('`').skip(1).step_by(2) {
            let (prefix, names, suffix) = match place.split_once('{') {
                Some((prefix, rest)) => {
                    let (names, suffix) = rest.split_once('}').unwrap_or((rest, ""));
                    (prefix, names, suffix)
                }
                None => ("", place, ""),
            };
            for name in names.split(',') {
                let path = format!("{prefix}{name}{suffix}");
                // A second path may be relative to the folder of the first.
                let is_there = [
                    root.join("crates").join(&path),
                    root.join("crates").join(&folder).join(&path),
                ]
                .iter()
                .any(|path| path.exists());
                if !is_there {
                    offenders.push(format!("{path}: {row}"));
                }
                if let Some((parent, _)) = path.rsplit_once('/') {
                    folder = parent.to_owned();
                }
            }
        }
    }
    assert_none("paths of the glossary that do not exist", &offenders);
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

/// Names that say nothing, of which each was a constant, a file or a crate once.
const EMPTY_NAMES: [&str; 17] = [
    "AGAIN", "BREATH", "FAREWELL", "HOLD", "LOOK", "PATIENCE", "PAUSE", "REST", "SILENCE", "TURN",
    "common", "core", "helper", "helpers", "misc", "util", "utils",
];

trial!(no_crate_file_or_constant_has_a_name_that_says_nothing);
fn no_crate_file_or_constant_has_a_name_that_says_nothing() {
    let mut offenders = Vec::new();
    for (name, text) in sources() {
        let parts = name.trim_end_matches(".rs").split('/');
        if parts.clone().any(|part| EMPTY_NAMES.contains(&part)) {
            offenders.push(name.clone());
        }
        let constants = text.lines().filter_map(|line| {
            let (_, rest) = line.split_once("const ")?;
            rest.split_once(':').map(|(constant, _)| constant)
        });
        let empty = constants.filter(|constant| EMPTY_NAMES.contains(constant));
        offenders.extend(empty.map(|constant| format!("{name}: {constant}")));
    }
    assert_none("names that say nothing", &offenders);
}

trial!(exported_functions_and_constants_are_used_outside_of_their_crate);
fn exported_functions_and_constants_are_used_outside_of_their_crate() {
    // What users link, and what tests draw from.
    let faces = ["trainyard", "testing", "autodiff-burn"];
    let sources = sources();
    let words: Vec<(&str, BTreeSet<&str>)> = sources
        .iter()
        .map(|(name, text)| (name.as_str(), words(text)))
        .collect();
    let mut offenders = Vec::new();
    for (file, text) in &sources {
        let folder = file
            .strip_prefix("crates/")
            .and_then(|path| path.strip_suffix("/src/lib.rs"));
        let Some(folder) = folder.filter(|folder| !faces.contains(folder)) else {
            continue;
        };
        let own = format!("crates/{folder}/src/");
        // Types may be exported because they stand in a signature.
        let exported = exports(text).filter(|name| {
            let is_constant = name.len() > 1 && !name.contains(char::is_lowercase);
            is_constant || name.starts_with(char::is_lowercase)
        });
        let is_used = |export: &str| {
            let mut others = words.iter().filter(|(name, _)| !name.starts_with(&own));
            others.any(|(_, words)| words.contains(export))
        };
        let unused = exported.filter(|export| !is_used(export));
        offenders.extend(unused.map(|name| format!("{file}: {name}")));
    }
    assert_none("exports that nobody uses", &offenders);
}

/// Returns the words of a text: letters, digits and underscores.
fn words(text: &str) -> BTreeSet<&str> {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.split(move |letter| !is_part(letter)).collect()
}

/// Returns the last names of the paths that a file exports by `pub use`.
fn exports(text: &str) -> impl Iterator<Item = &str> {
    let uses = text.split("\npub use ").skip(1);
    let bodies = uses.filter_map(|rest| rest.split_once(';').map(|(body, _)| body));
    let names = bodies.flat_map(|body| body.split([',', '{', '}']));
    let last = names.map(|name| name.trim().rsplit("::").next().unwrap_or_default());
    last.filter(|name| !name.is_empty())
}
