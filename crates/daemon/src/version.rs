//! The version and the commit of the running build.

/// The commit of the build, as `build.rs` found it; "unknown" without git and `TRAINYARD_COMMIT`.
pub const COMMIT: &str = env!("TRAINYARD_COMMIT");

/// Text of `--version` after the program's name: the version and the commit.
pub const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (commit ",
    env!("TRAINYARD_COMMIT"),
    ")"
);
