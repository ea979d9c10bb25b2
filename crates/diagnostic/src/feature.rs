//! Help for programs that were built without a feature.

/// Returns the help of a message about a program that was built without `feature`, a feature of the programs' crates.
pub fn not_built_help(feature: &str) -> String {
    let with_all = if feature == "hdfs" {
        ""
    } else {
        ", or `--features full` for all of them"
    };
    format!(
        "build it with `cargo build --release --features {feature}`{with_all}; packages and images have been built so"
    )
}
