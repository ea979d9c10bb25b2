//! The program from outside: its version, and its answer to a wrong command line.

use std::process::Command;

#[test]
fn the_program_tells_its_version_and_refuses_unknown_flags() {
    let program = env!("CARGO_BIN_EXE_trainyard");
    let version = Command::new(program).arg("--version").output().expect("the program starts");
    assert!(
        version.status.success()
            && version.stdout.ends_with(concat!(env!("CARGO_PKG_VERSION"), "\n").as_bytes())
    );
    let refused = Command::new(program).arg("--no-such-flag").output().expect("the program starts");
    assert_eq!(refused.status.code(), Some(64), "{}", String::from_utf8_lossy(&refused.stderr));
}

#[test]
fn what_is_converted_is_what_a_job_reads_of_it_without_the_spaces_around_fields() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (from, to) = (folder.path().join("a.csv"), folder.path().join("b.tsv"));
    std::fs::write(&from, "age, city\n31, Ulm \n").expect("it is written");
    for (more, expected) in
        [(None, "age\tcity\n31\tUlm\n"), (Some("--keep-spaces"), "age\t city\n31\t Ulm \n")]
    {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trainyard"));
        let ended =
            command.arg("convert").args(more).args([&from, &to]).output().expect("the program starts");
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        assert_eq!(std::fs::read_to_string(&to).expect("it is there"), expected, "{more:?}");
    }
}
