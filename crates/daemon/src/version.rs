//! The version and the commit of the running build.

/// The commit of the build, as `build.rs` found it; "unknown" where neither git nor `TRAINYARD_COMMIT` told it.
pub const COMMIT: &str = env!("TRAINYARD_COMMIT");

/// What `--version` prints behind the program's name: the version and the commit.
pub const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (commit ",
    env!("TRAINYARD_COMMIT"),
    ")"
);
