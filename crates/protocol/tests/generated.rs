//! The generated code under `src/generated` is what the definitions in `proto/` give.
//!
//! It is committed so that a build needs no protobuf compiler. After a change of `proto/`:
//! `TRAINYARD_REGENERATE=1 cargo test -p trainyard-protocol --test generated`.

use std::path::{Path, PathBuf};

use prost::Message as _;

const SERVICES: [&str; 5] = [
    "parameter_service",
    "session_service",
    "collective_service",
    "write_ahead_log",
    "replica_service",
];

fn generate(folder: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto");
    let files = SERVICES.map(|service| format!("trainyard/v1/{service}.proto"));
    let mut descriptors = protox::compile(files, [root]).expect("proto/ compiles");
    let code = tonic_prost_build::configure().bytes(".").out_dir(folder);
    code.compile_fds(descriptors.clone())
        .expect("code is generated");
    // Reflection answers with names and types; comments are for readers of proto/.
    for file in &mut descriptors.file {
        file.source_code_info = None;
    }
    std::fs::write(folder.join("descriptors.bin"), descriptors.encode_to_vec())
        .expect("a file is written");
}

fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).expect("the folder is read");
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry is read").path())
        .collect();
    paths.sort();
    let named = |path: PathBuf| {
        let name = path
            .file_name()
            .expect("an entry has a name")
            .to_string_lossy()
            .into_owned();
        (name, std::fs::read(&path).expect("a file is read"))
    };
    paths.into_iter().map(named).collect()
}

#[test]
fn committed_code_is_what_the_definitions_give() {
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/generated");
    if std::env::var_os("TRAINYARD_REGENERATE").is_some() {
        generate(&committed);
    }
    let folder = tempfile::tempdir().expect("a folder");
    generate(folder.path());
    let (committed, generated) = (files(&committed), files(folder.path()));
    let names =
        |files: &[(String, Vec<u8>)]| files.iter().map(|file| file.0.clone()).collect::<Vec<_>>();
    assert_eq!(names(&committed), names(&generated));
    for ((name, committed), (_, generated)) in committed.iter().zip(&generated) {
        assert!(
            committed == generated,
            "{name} is not what proto/ gives: TRAINYARD_REGENERATE=1 cargo test -p trainyard-protocol --test generated"
        );
    }
}
