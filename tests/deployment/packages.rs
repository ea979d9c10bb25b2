//! What the packages hold, from the crates' own files.

use std::fs;
use std::path::Path;

use toml::{Table, Value};

const CRATES: [&str; 6] = ["trainyard", "ps", "worker", "chief", "evaluator", "serving"];

fn read(path: &Path) -> Table {
    let text =
        fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.parse()
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A key of a table, by its path.
fn at<'a>(table: &'a Table, path: &[&str]) -> &'a Value {
    let (last, before) = path.split_last().expect("a path");
    let inner = before
        .iter()
        .fold(table, |table, key| table[*key].as_table().expect("a table"));
    &inner[*last]
}

trial!(packages_hold_files_that_are_there_and_go_with_one_release);
fn packages_hold_files_that_are_there_and_go_with_one_release() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let workspace = read(&root.join("Cargo.toml"));
    let version = at(&workspace, &["workspace", "package", "version"])
        .as_str()
        .expect("a version");
    let changes =
        fs::read_to_string(root.join("deploy/debian/changelog")).expect("the packages' changes");
    assert!(
        changes.starts_with(&format!("trainyard ({version}-1)")),
        "the packages' changes are of {version}"
    );
    for name in CRATES {
        let folder = root.join("crates").join(name);
        let manifest = read(&folder.join("Cargo.toml"));
        let package = |key: &str| at(&manifest, &["package", "metadata", "deb", key]);
        for asset in package("assets").as_array().expect("files") {
            let path = asset[0].as_str().expect("a path");
            match path.strip_prefix("target/release/") {
                Some(program) => {
                    assert_eq!(
                        Some(program),
                        package("name").as_str(),
                        "{name}: its own program"
                    )
                }
                None if path.contains('*') => {
                    let folder = folder.join(path).parent().expect("a folder").to_owned();
                    assert!(folder.is_dir(), "{name}: {path} is in no folder");
                }
                None => assert!(folder.join(path).is_file(), "{name}: {path} is no file"),
            }
        }
        let scripts = folder.join(package("maintainer-scripts").as_str().expect("a folder"));
        for script in fs::read_dir(&scripts).expect("scripts") {
            let text = fs::read_to_string(script.expect("a script").path()).expect("a script");
            assert!(text.starts_with("#!/bin/sh\nset -e\n"), "{name}: {text}");
        }
        if name != "trainyard" {
            let needed = package("depends").as_str().expect("packages");
            assert!(
                needed.contains(&format!("trainyard (= {version}-1)")),
                "{name} needs the same release: {needed}"
            );
        }
    }
}
