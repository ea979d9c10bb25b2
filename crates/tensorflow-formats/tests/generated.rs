//! The generated code under `src/generated` is what the definitions in `proto/tensorflow` give.
//!
//! It is committed so that a build needs no protobuf compiler. After a change of `proto/`:
//! `TRAINYARD_REGENERATE=1 cargo test -p trainyard-tensorflow-formats --test generated`.

use std::path::Path;

use trainyard_testing::generated;

const FILES: [&str; 5] = [
    "event",
    "example",
    "saved_model",
    "tensor_bundle",
    "variable",
];

#[test]
fn committed_code_is_what_the_definitions_give() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    generated::check(&root.join("src/generated"), |folder| {
        let files = FILES.map(|file| format!("tensorflow/{file}.proto"));
        let descriptors = protox::compile(files, [root.join("../../proto")]);
        let descriptors = descriptors.expect("proto/ compiles");
        let mut config = prost_build::Config::new();
        // Maps in the order of their keys: the same model gives the same bytes.
        config.btree_map(["."]);
        config.out_dir(folder);
        config.compile_fds(descriptors).expect("code is generated");
    });
}
