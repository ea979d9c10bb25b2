//! The batch script, run by a Slurm of its own on this machine.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use trainyard_tests::{free_ports, program, write_job};

use crate::deployment::{LIMIT, deploy, said};

/// A Slurm of one node, which ends with this value.
struct Slurm {
    folder: PathBuf,
    configuration: PathBuf,
}

impl Slurm {
    /// Starts one.
    ///
    /// # Errors
    /// It does not start: why.
    fn start(folder: &Path) -> Result<Self, String> {
        let [of_controller, of_node] = free_ports(2)[..] else {
            return Err("no ports".to_owned());
        };
        for part in ["state", "spool"] {
            fs::create_dir_all(folder.join(part)).map_err(|error| error.to_string())?;
        }
        // Its jobs find the program under the name that it has on hosts.
        fs::create_dir_all(folder.join("bin")).map_err(|error| error.to_string())?;
        symlink(program("trainyard"), folder.join("bin/trainyard"))
            .map_err(|error| error.to_string())?;
        let configuration = folder.join("slurm.conf");
        let here = folder.display();
        let text = format!(
            "ClusterName=trial\nSlurmctldHost=localhost\nSlurmUser=root\nAuthType=auth/munge\nCredType=cred/munge\n\
             AuthInfo=socket={here}/munge.sock\nSlurmctldPort={of_controller}\nSlurmdPort={of_node}\n\
             StateSaveLocation={here}/state\nSlurmdSpoolDir={here}/spool\nSlurmctldPidFile={here}/slurmctld.pid\n\
             SlurmdPidFile={here}/slurmd.pid\nSlurmctldLogFile={here}/slurmctld.log\nSlurmdLogFile={here}/slurmd.log\n\
             ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSwitchType=switch/none\nMpiDefault=none\n\
             JobAcctGatherType=jobacct_gather/none\nReturnToService=2\nSchedulerType=sched/builtin\n\
             SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nSlurmdParameters=config_overrides\n\
             NodeName=localhost NodeAddr=127.0.0.1 CPUs=8 RealMemory=500\nPartitionName=all Nodes=ALL Default=YES\n"
        );
        fs::write(&configuration, text).map_err(|error| error.to_string())?;
        let key: Vec<u8> = (0..1024u32)
            .map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        fs::write(folder.join("munge.key"), key).map_err(|error| error.to_string())?;
        let slurm = Self {
            folder: folder.to_owned(),
            configuration,
        };
        let only_ours = said(Command::new("chmod").args(["-R", "go-w"]).arg(folder));
        let private = said(
            Command::new("chmod")
                .arg("600")
                .arg(folder.join("munge.key")),
        );
        let munge = [
            "key-file=munge.key",
            "socket=munge.sock",
            "pid-file=munged.pid",
            "log-file=munged.log",
            "seed-file=seed",
        ];
        let munge = munge
            .map(|option| option.replace('=', &format!("={here}/")))
            .map(|option| format!("--{option}"));
        let starts = [
            said(Command::new("munged").arg("--force").args(munge)),
            said(&mut slurm.command("slurmctld")),
            said(slurm.command("slurmd").args(["-N", "localhost"])),
        ];
        if let Some((_, text)) = [only_ours, private]
            .into_iter()
            .chain(starts)
            .find(|(fine, _)| !fine)
        {
            return Err(format!("Slurm does not start: {}", text.trim()));
        }
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            let (_, text) = said(
                slurm
                    .command("scontrol")
                    .args(["show", "node", "localhost"]),
            );
            if text.contains("State=IDLE ") {
                return Ok(slurm);
            }
            if Instant::now() > until {
                return Err(format!("Slurm's node does not come up: {text}"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .current_dir(&self.folder)
            .env("SLURM_CONF", &self.configuration)
            .env(
                "PATH",
                format!("{}:{path}", self.folder.join("bin").display()),
            )
            .env_remove("TF_CONFIG");
        command
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        for daemon in ["slurmd", "slurmctld", "munged"] {
            let id = fs::read_to_string(self.folder.join(format!("{daemon}.pid"))).ok();
            let id = id
                .and_then(|text| text.trim().parse().ok())
                .and_then(rustix::process::Pid::from_raw);
            if let Some(id) = id {
                let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
            }
        }
    }
}

trial!(a_batch_job_trains_to_its_end_and_a_wrong_one_ends_at_once, needs Slurm);
fn a_batch_job_trains_to_its_end_and_a_wrong_one_ends_at_once() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let slurm = Slurm::start(folder.path()).unwrap_or_else(|reason| panic!("{reason}"));
    let job = write_job(folder.path(), 400, "[train]\nmax_steps = 200\n");
    let script = deploy().join("slurm/trainyard.sbatch");
    let submit = |more: &[&str]| {
        let mut command = slurm.command("timeout");
        command.arg((2 * LIMIT).as_secs().to_string()).args([
            "sbatch",
            "--wait",
            "--output=log",
            "--ntasks=5",
        ]);
        let (fine, text) = said(command.arg(&script).arg(&job).args(more));
        (
            fine,
            text,
            fs::read_to_string(folder.path().join("log")).unwrap_or_default(),
        )
    };
    let (fine, text, log) = submit(&["--set", "train.max_step=200"]);
    assert!(
        !fine && log.contains("did you mean `max_steps`?"),
        "{text}{log}"
    );
    let (fine, text, log) = submit(&[]);
    assert!(fine, "{text}{log}");
    let state = fs::read_to_string(folder.path().join("model/job_state.json"))
        .expect("the marker is there");
    let state: serde_json::Value = serde_json::from_str(&state).expect("the marker is JSON");
    assert_eq!(
        (&state["phase"], &state["global_step"]),
        (&"done".into(), &200.into()),
        "{log}"
    );
    for task in ["ps:0", "chief:0", "worker:0", "worker:1", "evaluator:0"] {
        assert!(
            log.contains(&format!("ended task={task}")),
            "{task} has ended by itself: {log}"
        );
    }
}
