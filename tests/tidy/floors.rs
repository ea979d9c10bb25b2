//! Which crate may know which.

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::{assert_none, read, root};

const FLOORS: [(&str, u8); 40] = [
    ("diagnostic", 0),
    ("tensor", 0),
    ("cluster-spec", 0),
    ("onnx", 0),
    ("tensorflow-formats", 0),
    ("write-ahead-log", 1),
    ("runtime", 0),
    ("storage", 0),
    ("input-options", 0),
    ("vocabulary", 0),
    ("testing", 0),
    ("security", 1),
    ("variable", 1),
    ("optimizer", 1),
    ("input", 1),
    ("model-dir", 1),
    ("run-config", 2),
    ("feature-column", 3),
    ("protocol", 2),
    ("checkpoint", 2),
    ("parameter-store", 2),
    ("model", 4),
    ("parameter-server", 3),
    ("collective", 3),
    ("daemon", 3),
    ("cluster-client", 4),
    ("predictor", 5),
    ("trainer", 5),
    ("autodiff-burn", 5),
    ("coordinator", 6),
    ("dashboard", 7),
    ("ps", 8),
    ("worker", 8),
    ("chief", 8),
    ("evaluator", 8),
    ("serving", 8),
    ("command", 9),
    ("benchmark", 10),
    ("python", 10),
    ("trainyard", 11),
];

/// Crates of the lowest floor that others of it may use: messages, and the services of the system.
const BELOW_ALL: [&str; 2] = ["diagnostic", "runtime"];

/// Folder of each crate, and the folders of ours that it depends on.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let mut out = BTreeMap::new();
    for (name, _) in FLOORS {
        let manifest: toml::Table = read(&root().join("crates").join(name).join("Cargo.toml"))
            .parse()
            .expect("a manifest");
        let ours = manifest["dependencies"].as_table().expect("a table").keys();
        let ours = ours
            .filter_map(|key| key.strip_prefix("trainyard-"))
            .map(str::to_owned)
            .collect();
        out.insert(name.to_owned(), ours);
    }
    out
}

fn reached(from: &str, graph: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = vec![from.to_owned()];
    while let Some(name) = open.pop() {
        for next in &graph[&name] {
            if found.insert(next.clone()) {
                open.push(next.clone());
            }
        }
    }
    found
}

trial!(every_crate_stands_on_a_floor);
fn every_crate_stands_on_a_floor() {
    let folders = std::fs::read_dir(root().join("crates"))
        .expect("crates/")
        .filter_map(Result::ok);
    let strangers: Vec<String> = folders
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| !FLOORS.iter().any(|(known, _)| known == name))
        .collect();
    assert_none("crates without a floor", &strangers);
}

trial!(crates_depend_on_lower_floors_only);
fn crates_depend_on_lower_floors_only() {
    let floor = |name: &str| {
        FLOORS
            .iter()
            .find(|(known, _)| *known == name)
            .map_or(u8::MAX, |(_, floor)| *floor)
    };
    let mut offenders = Vec::new();
    for (name, needs) in dependencies() {
        for need in needs {
            if !BELOW_ALL.contains(&need.as_str()) && floor(&need) >= floor(&name) {
                offenders.push(format!(
                    "{name} (floor {}) needs {need} (floor {})",
                    floor(&name),
                    floor(&need)
                ));
            }
        }
    }
    assert_none("edges upward or level", &offenders);
}

trial!(what_serves_tests_alone_is_in_no_library_or_program);
fn what_serves_tests_alone_is_in_no_library_or_program() {
    let users = dependencies()
        .into_iter()
        .filter(|(_, needs)| needs.contains("testing"));
    assert_none(
        "crates that link testing",
        &users.map(|(name, _)| name).collect::<Vec<_>>(),
    );
}

trial!(the_parameter_server_knows_neither_models_nor_data);
fn the_parameter_server_knows_neither_models_nor_data() {
    let found = reached("ps", &dependencies());
    let offenders: Vec<String> = ["model", "feature-column", "input", "trainer"]
        .into_iter()
        .filter(|name| found.contains(*name))
        .map(str::to_owned)
        .collect();
    assert_none("ps reaches", &offenders);
}

trial!(the_evaluator_meets_training_only_in_the_model_folder);
fn the_evaluator_meets_training_only_in_the_model_folder() {
    let found = reached("evaluator", &dependencies());
    let offenders: Vec<String> = ["protocol", "parameter-server", "cluster-client", "trainer"]
        .into_iter()
        .filter(|name| found.contains(*name))
        .map(str::to_owned)
        .collect();
    assert_none("evaluator reaches", &offenders);
}

trial!(a_model_of_ones_own_links_no_benchmarks);
fn a_model_of_ones_own_links_no_benchmarks() {
    let manifest: toml::Table = read(&root().join("crates/trainyard/Cargo.toml"))
        .parse()
        .expect("a manifest");
    let benchmark = &manifest["dependencies"]["trainyard-benchmark"];
    assert_eq!(benchmark["optional"].as_bool(), Some(true));
    let library = read(&root().join("crates/trainyard/src/lib.rs"));
    assert!(!library.contains("trainyard_benchmark"));
    assert!(!reached("command", &dependencies()).contains("benchmark"));
}

trial!(crates_that_decide_have_no_runtime);
fn crates_that_decide_have_no_runtime() {
    let mut offenders = Vec::new();
    for name in [
        "tensor",
        "variable",
        "optimizer",
        "feature-column",
        "model",
        "parameter-store",
    ] {
        let manifest: toml::Table = read(&root().join("crates").join(name).join("Cargo.toml"))
            .parse()
            .expect("a manifest");
        if manifest["dependencies"]
            .as_table()
            .is_some_and(|table| table.contains_key("tokio"))
        {
            offenders.push(name.to_owned());
        }
    }
    assert_none("crates that need tokio", &offenders);
}

trial!(every_manifest_takes_the_lints_of_the_workspace);
fn every_manifest_takes_the_lints_of_the_workspace() {
    let manifests = FLOORS
        .iter()
        .map(|(name, _)| root().join("crates").join(name).join("Cargo.toml"));
    let offenders: Vec<String> = manifests
        .filter(|path| !read(path).contains("[lints]\nworkspace = true"))
        .map(|path| path.display().to_string())
        .collect();
    assert_none("manifests without the lints", &offenders);
}

trial!(every_dependency_has_its_reason);
fn every_dependency_has_its_reason() {
    let text = read(&root().join("Cargo.toml"));
    let block = text
        .split("[workspace.dependencies]")
        .nth(1)
        .and_then(|rest| rest.split("\n[").next())
        .expect("the block");
    let offenders: Vec<String> = block
        .lines()
        .filter(|line| {
            line.contains(" = ") && !line.starts_with("trainyard") && !line.contains('#')
        })
        .map(str::to_owned)
        .collect();
    assert_none("dependencies without a reason", &offenders);
}

trial!(the_lock_files_of_other_workspaces_name_the_dependencies_of_our_crates);
fn the_lock_files_of_other_workspaces_name_the_dependencies_of_our_crates() {
    for workspace in ["autodiff-burn", "python"] {
        assert_none(
            &format!(
                "the lock file is old: run `cargo metadata --manifest-path crates/{workspace}/Cargo.toml`"
            ),
            &outdated(workspace),
        );
    }
}

/// Returns the entries of a workspace's lock file that are not those of our manifests.
fn outdated(workspace: &str) -> Vec<String> {
    let crates = root().join("crates");
    let lock: toml::Table = read(&crates.join(workspace).join("Cargo.lock"))
        .parse()
        .expect("a lock file");
    let mut offenders = Vec::new();
    for package in lock["package"].as_array().expect("packages") {
        let name = package["name"].as_str().expect("a name");
        let folder = name.strip_prefix("trainyard-").unwrap_or(name);
        if package.get("source").is_some() || !crates.join(folder).is_dir() {
            continue;
        }
        let locked: BTreeSet<String> = package
            .get("dependencies")
            .and_then(toml::Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(toml::Value::as_str)
            // Where the file has several versions of a package: its name and its version.
            .filter_map(|entry| entry.split(' ').next())
            .map(str::to_owned)
            .collect();
        let manifest: toml::Table = read(&crates.join(folder).join("Cargo.toml"))
            .parse()
            .expect("a manifest");
        let required = manifest["dependencies"].as_table().expect("a table");
        let is_optional = |dependency: &toml::Value| {
            let optional = dependency.get("optional").and_then(toml::Value::as_bool);
            optional == Some(true)
        };
        for (dependency, entry) in required {
            if !locked.contains(dependency) && !is_optional(entry) {
                offenders.push(format!("{name} is locked without {dependency}"));
            }
        }
        let missing = locked
            .iter()
            .filter(|dependency| dependency.starts_with("trainyard-"))
            .filter(|dependency| !required.contains_key(dependency.as_str()))
            // Only those of the workspace's own members are locked.
            .filter(|dependency| {
                let of_tests = manifest.get("dev-dependencies");
                folder != workspace || of_tests.is_none_or(|of| of.get(dependency).is_none())
            });
        offenders.extend(missing.map(|dependency| format!("{name} is locked with {dependency}")));
    }
    offenders
}
