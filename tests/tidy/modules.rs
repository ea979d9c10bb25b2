//! How the modules of a crate depend on each other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::tidy::imports::{code, imports, paths};
use crate::tidy::{assert_none, files, read, root};

type Graph = BTreeMap<String, BTreeSet<String>>;

/// Returns which top modules of a crate use which others. What the root of a crate exports counts for the module it is from.
fn uses(source: &Path) -> Graph {
    let library = read(&source.join("lib.rs"));
    let mut exported = BTreeMap::new();
    let mut graph = Graph::new();
    let mut texts = Vec::new();
    for path in files(source, ".rs") {
        let relative = path.strip_prefix(source).unwrap_or(&path);
        let top = relative.iter().next().unwrap_or_default().to_string_lossy();
        let top = top.trim_end_matches(".rs").to_owned();
        let is_test = path.file_stem().is_some_and(|stem| stem == "tests")
            || relative.iter().any(|folder| folder == "tests");
        if is_test || ["lib", "main", "generated"].contains(&top.as_str()) {
            continue;
        }
        graph.entry(top.clone()).or_default();
        texts.push((top, read(&path)));
    }
    for path in imports(&code(&library)) {
        if let Some((module, name)) = path.split_once("::")
            && graph.contains_key(module)
        {
            exported.insert(name.to_owned(), module.to_owned());
        }
    }
    for (module, text) in texts {
        for path in paths(&code(&text)) {
            let Some(name) = path.strip_prefix("crate::") else {
                continue;
            };
            let name = name.split("::").next().unwrap_or(name);
            let used = if graph.contains_key(name) {
                Some(name.to_owned())
            } else {
                exported.get(name).cloned()
            };
            if let Some(used) = used.filter(|used| *used != module) {
                graph.entry(module.clone()).or_default().insert(used);
            }
        }
    }
    graph
}

/// Returns the modules that are reached from one, itself only if it is in a circle.
fn reached(from: &str, graph: &Graph) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&String> = graph.get(from).into_iter().flatten().collect();
    while let Some(next) = open.pop() {
        if found.insert(next.clone()) {
            open.extend(graph.get(next).into_iter().flatten());
        }
    }
    found
}

trial!(modules_of_a_crate_use_each_other_in_one_direction);
fn modules_of_a_crate_use_each_other_in_one_direction() {
    let mut offenders = Vec::new();
    let crates = root().join("crates");
    let folders = std::fs::read_dir(&crates).expect("the crates can be listed");
    let mut names: Vec<String> = folders
        .filter_map(Result::ok)
        .filter(|entry| entry.path().join("src/lib.rs").is_file())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    for name in names {
        let graph = uses(&crates.join(&name).join("src"));
        let mut seen = BTreeSet::new();
        for module in graph.keys() {
            let forward = reached(module, &graph);
            if !forward.contains(module) || seen.contains(module) {
                continue;
            }
            let circle: BTreeSet<String> = forward
                .into_iter()
                .filter(|other| reached(other, &graph).contains(module))
                .collect();
            seen.extend(circle.iter().cloned());
            let circle = Vec::from_iter(circle).join(" <-> ");
            offenders.push(format!("{name}: {circle}"));
        }
    }
    assert_none("circles among the modules of a crate", &offenders);
}
