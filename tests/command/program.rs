//! Versions of the programs, and their answers to command lines.

use std::process::Command;

use trainyard_tests::program;

trial!(every_program_tells_its_version_and_refuses_unknown_flags);
fn every_program_tells_its_version_and_refuses_unknown_flags() {
    for name in [
        "trainyard",
        "trainyard-ps",
        "trainyard-worker",
        "trainyard-chief",
        "trainyard-evaluator",
    ] {
        let version = Command::new(program(name))
            .arg("--version")
            .output()
            .expect("the program starts");
        let said = String::from_utf8_lossy(&version.stdout);
        assert!(version.status.success(), "{name}: {said}");
        // A build without optimization, as this one, does not know its commit.
        let expected = format!("{name} {} (commit unknown)\n", env!("CARGO_PKG_VERSION"));
        assert_eq!(said, expected);
        let refused = Command::new(program(name))
            .arg("--no-such-flag")
            .output()
            .expect("the program starts");
        assert_eq!(
            refused.status.code(),
            Some(64),
            "{name}: {}",
            String::from_utf8_lossy(&refused.stderr)
        );
    }
}

trial!(what_is_converted_is_what_a_job_reads_of_it_without_the_spaces_around_fields);
fn what_is_converted_is_what_a_job_reads_of_it_without_the_spaces_around_fields() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let from = folder.path().join("a.csv");
    let to = folder.path().join("b.tsv");
    std::fs::write(&from, "age, city\n31, Ulm \n").expect("it is written");
    for (more, expected) in [
        (None, "age\tcity\n31\tUlm\n"),
        (Some("--keep-spaces"), "age\t city\n31\t Ulm \n"),
    ] {
        let mut command = Command::new(program("trainyard"));
        let ended = command
            .args(["convert", "--force"])
            .args(more)
            .args([&from, &to])
            .output()
            .expect("the program starts");
        assert!(
            ended.status.success(),
            "{}",
            String::from_utf8_lossy(&ended.stderr)
        );
        assert_eq!(
            std::fs::read_to_string(&to).expect("it is there"),
            expected,
            "{more:?}"
        );
    }
}
