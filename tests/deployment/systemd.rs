//! The units: what systemd says of them, and that they know our exit codes.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::deployment::{deploy, said};

/// Instances of the units, one of each daemon.
const UNITS: [&str; 5] = [
    "trainyard-ps@0.service",
    "trainyard-worker@0.service",
    "trainyard-chief.service",
    "trainyard-evaluator.service",
    "trainyard-serving.service",
];
/// The file system with the logs of servers.
const MEMORY: &str = "run-trainyard-memory.mount";
/// Most exposure that a unit may have, in tenths: 0 is nothing, 100 a process of root's.
const EXPOSURE_MAX: u32 = 15;

/// The lines of a unit's file that set a key.
fn values(unit: &str, key: &str) -> Vec<String> {
    let name = unit.replace("@0.", "@.");
    let text = fs::read_to_string(deploy().join("systemd").join(&name)).expect("the unit is there");
    text.lines()
        .filter_map(|line| line.strip_prefix(key)?.strip_prefix('='))
        .map(str::to_owned)
        .collect()
}

/// A root folder with the units, and with what they name in the place of the system's.
fn root(folder: &Path) -> PathBuf {
    let units = folder.join("units");
    fs::create_dir_all(&units).expect("a folder");
    for file in fs::read_dir(deploy().join("systemd")).expect("the units") {
        let file = file.expect("a unit").path();
        let name = file
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let text = fs::read_to_string(&file).expect("a unit");
        // The programs need not be installed where the units are tested.
        let text = text.replace(
            "/usr/bin/trainyard-",
            &format!("{}/trainyard-", folder.display()),
        );
        fs::write(units.join(&name), text).expect("the unit is copied");
    }
    for role in ["ps", "worker", "chief", "evaluator", "serving"] {
        let program = folder.join(format!("trainyard-{role}"));
        fs::write(&program, "#!/bin/sh\n").expect("a program");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("it may be run");
    }
    for role in ["ps", "worker"] {
        let template = format!("trainyard-{role}@.service");
        symlink(&template, units.join(template.replace("@.", "@0."))).expect("an instance");
    }
    units
}

trial!(systemd_finds_nothing_wrong_with_the_units_and_little_that_is_exposed, needs SystemdAnalyze);
fn systemd_finds_nothing_wrong_with_the_units_and_little_that_is_exposed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let units = root(folder.path());
    for unit in UNITS.into_iter().chain(["trainyard.target", MEMORY]) {
        let mut command = Command::new("systemd-analyze");
        let (fine, text) = said(
            command
                .args(["--no-pager", "--man=no", "verify"])
                .arg(units.join(unit)),
        );
        let ours: Vec<&str> = text
            .lines()
            .filter(|line| line.contains("trainyard"))
            .collect();
        assert!(fine && ours.is_empty(), "{unit}: {text}");
    }
    for unit in UNITS {
        let mut command = Command::new("systemd-analyze");
        command.args([
            "--no-pager",
            "security",
            "--offline=true",
            &format!("--threshold={EXPOSURE_MAX}"),
        ]);
        let (fine, text) = said(command.arg(units.join(unit)));
        assert!(
            fine,
            "{unit} is exposed more than {EXPOSURE_MAX} tenths:\n{text}"
        );
        assert!(text.contains("Overall exposure level"), "{text}");
        println!("{}", text.lines().last().unwrap_or_default());
    }
}

trial!(units_start_a_task_again_unless_its_exit_code_says_that_it_is_no_use);
/// A code that stays the same however often a task is started must not start it again, and all others must.
fn units_start_a_task_again_unless_its_exit_code_says_that_it_is_no_use() {
    let lasting: Vec<u8> = vec![64, 65, 66, 73, 76, 77, 78];
    for unit in UNITS {
        assert_eq!(values(unit, "Restart"), ["on-failure"], "{unit}");
        let codes = values(unit, "RestartPreventExitStatus").join(" ");
        let ours: Vec<u8> = codes
            .split(' ')
            .map(|code| code.parse().expect("a number"))
            .filter(|code| *code < 200)
            .collect();
        assert_eq!(ours, lasting, "{unit}");
        for code in [69, 70, 74, 75] {
            assert!(!ours.contains(&code), "{unit}: {code} may pass");
        }
    }
    let text =
        fs::read_to_string(deploy().join("slurm/trainyard.sbatch")).expect("the script is there");
    assert!(
        text.contains("0 | 64 | 65 | 66 | 73 | 76 | 77 | 78)"),
        "Slurm's tasks end for the same codes"
    );
}

trial!(tasks_that_upload_write_their_temporary_files_to_a_disk);
/// `/tmp` may be in memory. `/var/tmp` survives a restart of the host (Filesystem Hierarchy Standard 3.0, 5.15).
fn tasks_that_upload_write_their_temporary_files_to_a_disk() {
    for unit in [
        "trainyard-ps@0.service",
        "trainyard-chief.service",
        "trainyard-evaluator.service",
    ] {
        let environment = values(unit, "Environment");
        assert!(
            environment.contains(&"TMPDIR=/var/tmp".to_owned()),
            "{unit}: {environment:?}"
        );
    }
}

trial!(a_parameter_server_has_its_log_in_a_file_system_that_its_user_owns_and_the_package_brings);
fn a_parameter_server_has_its_log_in_a_file_system_that_its_user_owns_and_the_package_brings() {
    let folder = values(MEMORY, "Where").concat();
    let server = "trainyard-ps@0.service";
    assert_eq!(values(server, "RequiresMountsFor").concat(), folder);
    let expected = format!(
        "TRAINYARD_SHARED_MEMORY_DIR={}",
        folder.replace("/run", "%t")
    );
    assert!(values(server, "Environment").contains(&expected));
    // The name of a mount unit is its path.
    let name = folder.trim_start_matches('/').replace('/', "-");
    assert_eq!(MEMORY, format!("{name}.mount"));
    let users = fs::read_to_string(deploy().join("debian/sysusers.conf")).expect("the user");
    let number = users
        .lines()
        .find_map(|line| line.strip_prefix("u trainyard ")?.split(' ').next())
        .expect("a number");
    let options = values(MEMORY, "Options").concat();
    for option in ["size=20%", "mode=0700", &format!("uid={number}")] {
        assert!(options.split(',').any(|one| one == option), "{options}");
    }
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/ps/Cargo.toml");
    let manifest = fs::read_to_string(manifest).expect("the package of the server");
    assert!(manifest.contains(&format!("deploy/systemd/{MEMORY}\"")));
}

trial!(a_task_has_longer_to_stop_than_it_takes_for_itself);
/// A task that is told to stop is killed by systemd only after its own deadline.
fn a_task_has_longer_to_stop_than_it_takes_for_itself() {
    for unit in UNITS {
        let command = values(unit, "ExecStart").concat();
        let drain: u32 = command
            .rsplit("--drain-deadline ")
            .next()
            .and_then(|text| text.parse().ok())
            .expect("a deadline");
        let stop: u32 = values(unit, "TimeoutStopSec")
            .concat()
            .parse()
            .expect("seconds");
        assert!(stop > drain, "{unit}: {stop} s to stop, {drain} s to drain");
    }
}
