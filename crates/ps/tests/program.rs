//! The program from outside: its version, and its answer to a wrong command line.

use std::process::Command;

#[test]
fn the_program_tells_its_version_and_refuses_unknown_flags() {
    let program = env!("CARGO_BIN_EXE_trainyard-ps");
    let version = Command::new(program).arg("--version").output().expect("the program starts");
    assert!(
        version.status.success()
            && version.stdout.ends_with(concat!(env!("CARGO_PKG_VERSION"), "\n").as_bytes())
    );
    let refused = Command::new(program).arg("--no-such-flag").output().expect("the program starts");
    assert_eq!(refused.status.code(), Some(64), "{}", String::from_utf8_lossy(&refused.stderr));
}
