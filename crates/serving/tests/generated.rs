//! The generated code under `src/generated` is what the definitions in `proto/inference` and
//! `proto/tensorflow_serving` give.
//!
//! It is committed so that a build needs no protobuf compiler. After a change of `proto/`:
//! `TRAINYARD_REGENERATE=1 cargo test -p trainyard-serving --test generated`.

use std::path::Path;

use prost::Message as _;
use trainyard_testing::generated;

const FILES: [&str; 3] = [
    "inference/inference_service.proto",
    "tensorflow_serving/model_service.proto",
    "tensorflow_serving/prediction_service.proto",
];

/// Messages of TensorFlow whose code another crate has.
const TENSORFLOW: [&str; 3] = ["Example", "SignatureDef", "TensorProto"];

fn generate(folder: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto");
    let mut descriptors = protox::compile(FILES, [root]).expect("the definitions compile");
    let mut code = tonic_prost_build::configure()
        .build_client(false)
        .out_dir(folder);
    for message in TENSORFLOW {
        let path = format!("::trainyard_tensorflow_formats::generated::{message}");
        code = code.extern_path(format!(".tensorflow.{message}"), path);
    }
    code.compile_fds(descriptors.clone())
        .expect("code is generated");
    std::fs::remove_file(folder.join("tensorflow.rs")).expect("another crate has this package");
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
