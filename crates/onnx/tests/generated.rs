//! The generated code under `src/generated` is what the definitions in `proto/onnx` give.
//!
//! It is committed so that a build needs no protobuf compiler. After a change of `proto/`:
//! `TRAINYARD_REGENERATE=1 cargo test -p trainyard-onnx --test generated`.

use std::path::Path;

use trainyard_testing::generated;

#[test]
fn committed_code_is_what_the_definitions_give() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    generated::check(&root.join("src/generated"), |folder| {
        let descriptors = protox::compile(["onnx/onnx.proto"], [root.join("../../proto")]);
        let descriptors = descriptors.expect("proto/ compiles");
        let mut config = prost_build::Config::new();
        config.out_dir(folder);
        config.compile_fds(descriptors).expect("code is generated");
    });
}
