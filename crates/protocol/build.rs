//! Compiles `proto/` with protox, so that no protoc is needed.

use std::path::PathBuf;

use prost::Message as _;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=../../proto");
    let services =
        ["parameter_service", "session_service", "collective_service", "write_ahead_log", "replica_service"];
    let files = services.map(|service| format!("trainyard/v1/{service}.proto"));
    let descriptors = protox::compile(files, ["../../proto"])?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure().bytes(".").compile_fds(descriptors)?;
    Ok(())
}
