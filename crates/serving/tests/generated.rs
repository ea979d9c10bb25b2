//! The generated code under `src/generated` is what the definitions in `proto/inference` give.
//!
//! It is committed so that a build needs no protobuf compiler. After a change of `proto/`:
//! `TRAINYARD_REGENERATE=1 cargo test -p trainyard-serving --test generated`.

use std::path::Path;

use prost::Message as _;
use trainyard_testing::generated;

fn generate(folder: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto");
    let mut descriptors = protox::compile(["inference/inference_service.proto"], [root])
        .expect("the definitions compile");
    let code = tonic_prost_build::configure()
        .build_client(false)
        .out_dir(folder);
    code.compile_fds(descriptors.clone())
        .expect("code is generated");
    // Reflection answers with names and types; comments are for readers of proto/.
    for file in &mut descriptors.file {
        file.source_code_info = None;
    }
    std::fs::write(folder.join("descriptors.bin"), descriptors.encode_to_vec())
        .expect("a file is written");
}

#[test]
fn committed_code_is_what_the_definitions_give() {
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/generated");
    generated::check(&committed, generate);
}
