//! Commands of documents that run tests: each has to run one.

use std::path::{Path, PathBuf};

use crate::tidy::{assert_none, files, read, root};

/// What a documented command chooses.
#[derive(Debug, Default, PartialEq, Eq)]
struct Chosen {
    packages: Vec<String>,
    target: Option<String>,
    filters: Vec<String>,
}

impl Chosen {
    /// Reads what follows `cargo test`. Nothing for a workspace of its own, and for words that stand for others.
    fn of(arguments: &str) -> Option<Self> {
        let mut chosen = Self::default();
        let mut words = arguments.split_whitespace();
        while let Some(word) = words.next() {
            match word {
                "--manifest-path" => return None,
                "-p" | "--package" => chosen.packages.push(words.next()?.to_owned()),
                "--test" => chosen.target = Some(words.next()?.to_owned()),
                "--features" => drop(words.next()),
                word if word.starts_with('-') => {}
                word => chosen.filters.push(word.to_owned()),
            }
        }
        let stands_for_another = |name: &String| name.chars().all(|letter| letter.is_uppercase());
        (!chosen.packages.iter().any(stands_for_another)).then_some(chosen)
    }

    /// Returns how many tests the command runs, of the names of all.
    fn count(&self, tests: &[Test]) -> usize {
        let is_chosen = |test: &&Test| {
            (self.packages.is_empty() || self.packages.contains(&test.package))
                && self
                    .target
                    .as_ref()
                    .is_none_or(|name| test.target.as_ref() == Some(name))
                && self.filters.iter().all(|filter| test.name.contains(filter))
        };
        tests.iter().filter(is_chosen).count()
    }
}

/// A test of the workspace.
struct Test {
    package: String,
    /// The name of its executable, where it is none of a library or a program.
    target: Option<String>,
    /// Modules and function.
    name: String,
}

/// The manifests of the workspace's members.
fn manifests() -> Vec<PathBuf> {
    let crates = std::fs::read_dir(root().join("crates")).expect("the folder of the crates");
    let crates = crates.map(|entry| entry.expect("a crate").path());
    let folders = crates.chain([root().join("tests"), root().join("tests/fuzz")]);
    let manifests = folders.map(|folder| folder.join("Cargo.toml"));
    manifests.filter(|manifest| manifest.exists()).collect()
}

/// Adds the tests of the modules in a folder. Of modules within a file the name is that of all their tests.
fn add(
    package: &str,
    target: Option<&str>,
    folder: &Path,
    sources: &[PathBuf],
    tests: &mut Vec<Test>,
) {
    for source in sources {
        let below = source.strip_prefix(folder).expect("a file of the folder");
        let module = below
            .with_extension("")
            .to_string_lossy()
            .replace('/', "::");
        let text = read(source);
        let mut is_test = false;
        for line in text.lines().map(str::trim_start) {
            if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
                is_test = true;
            } else if let Some((_, rest)) = line.split_once("fn ").filter(|_| is_test) {
                let function = rest.split(['(', '<']).next().unwrap_or(rest);
                tests.push(Test {
                    package: package.to_owned(),
                    target: target.map(str::to_owned),
                    name: format!("{module}::tests::{function}"),
                });
                is_test = false;
            }
        }
    }
}

/// Every test of the workspace.
fn tests() -> Vec<Test> {
    let mut tests: Vec<Test> = trainyard_tests::names()
        .into_iter()
        .map(|name| Test {
            package: "trainyard-tests".to_owned(),
            target: Some("suite".to_owned()),
            name,
        })
        .collect();
    for manifest in manifests() {
        let value: toml::Table = toml::from_str(&read(&manifest)).expect("a manifest");
        let package = value["package"]["name"]
            .as_str()
            .expect("a name")
            .to_owned();
        let folder = manifest.parent().expect("the folder of the crate");
        let sources = folder.join("src");
        add(
            &package,
            None,
            &sources,
            &files(&sources, ".rs"),
            &mut tests,
        );
        let named = value.get("test").and_then(toml::Value::as_array);
        for test in named.into_iter().flatten() {
            let name = test["name"].as_str().expect("a name");
            let Some(path) = test.get("path").and_then(toml::Value::as_str) else {
                continue;
            };
            let path = folder.join(path);
            let within = path.parent().expect("a folder");
            if path.ends_with("main.rs") {
                add(
                    &package,
                    Some(name),
                    within,
                    &files(within, ".rs"),
                    &mut tests,
                );
            }
        }
        let Ok(entries) = std::fs::read_dir(folder.join("tests")) else {
            continue;
        };
        for path in entries.map(|entry| entry.expect("an entry").path()) {
            let name = path
                .file_stem()
                .expect("a name")
                .to_string_lossy()
                .into_owned();
            let (within, sources) = if path.is_dir() {
                (path.clone(), files(&path, ".rs"))
            } else {
                (folder.join("tests"), vec![path])
            };
            add(&package, Some(&name), &within, &sources, &mut tests);
        }
    }
    tests
}

trial!(every_documented_command_that_tests_runs_a_test);
fn every_documented_command_that_tests_runs_a_test() {
    let tests = tests();
    let mut documents = files(&root().join("docs"), ".md");
    documents.push(root().join("README.md"));
    let mut offenders = Vec::new();
    let mut seen = 0;
    for document in documents {
        let text = read(&document);
        for (at, _) in text.match_indices("cargo test") {
            let rest = &text[at + "cargo test".len()..];
            let arguments = rest.split(['`', '#', '\n']).next().unwrap_or(rest);
            let Some(chosen) = Chosen::of(arguments) else {
                continue;
            };
            seen += 1;
            let count = chosen.count(&tests);
            let all_have_one = chosen.packages.iter().all(|package| {
                let alone = Chosen {
                    packages: vec![package.clone()],
                    target: chosen.target.clone(),
                    filters: chosen.filters.clone(),
                };
                alone.count(&tests) > 0
            });
            if count == 0 || !all_have_one {
                let line = text[..at].lines().count();
                offenders.push(format!(
                    "{}:{line}: cargo test{arguments}",
                    document.display()
                ));
            }
        }
    }
    assert!(seen > 25, "only {seen} commands were found");
    let stale = Chosen::of(" --workspace --test keys").expect("a command");
    assert_eq!(stale.count(&tests), 0, "a target that nobody has");
    assert_none("commands that run no test", &offenders);
}
