//! What the daemons tell the service manager, on a socket in place of systemd's.

use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use trainyard_tests::{Program, TestCluster};

use crate::deployment::LIMIT;

/// Time after which the watchdog takes a daemon for dead.
const WATCHDOG: Duration = Duration::from_secs(1);

/// The end of systemd, which hears one daemon.
struct Manager {
    path: PathBuf,
    socket: UnixDatagram,
    heard: Vec<(Instant, String)>,
}

impl Manager {
    fn new(cluster: &TestCluster, name: &str) -> Self {
        let path = cluster.folder.path().join(name);
        let socket = UnixDatagram::bind(&path).expect("a socket");
        Self {
            path,
            socket,
            heard: Vec::new(),
        }
    }

    /// Starts a task as systemd does.
    fn start(&self, cluster: &TestCluster, role: &str, more: &[(&str, &str)]) -> Program {
        let job = cluster.job.to_string_lossy();
        let spec = cluster.cluster.to_string_lossy();
        let socket = self.path.to_string_lossy();
        let limit = WATCHDOG.as_micros().to_string();
        let mut environment = vec![("NOTIFY_SOCKET", &*socket), ("WATCHDOG_USEC", &*limit)];
        environment.extend(more);
        let arguments = ["--job", &job, "--cluster", &spec, "--index", "0"];
        Program::start(&format!("trainyard-{role}"), &arguments, &environment)
    }

    /// Waits until a line is heard that was not heard before.
    fn hear(&mut self, line: &str) -> Instant {
        let until = Instant::now() + LIMIT;
        let mut bytes = [0; 4096];
        loop {
            let left = until.saturating_duration_since(Instant::now());
            assert!(
                !left.is_zero(),
                "`{line}` was not heard: {:?}",
                self.lines()
            );
            self.socket.set_read_timeout(Some(left)).expect("a limit");
            let Ok(length) = self.socket.recv(&mut bytes) else {
                continue;
            };
            let now = Instant::now();
            let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
            let lines: Vec<String> = text.lines().map(str::to_owned).collect();
            let found = lines.iter().any(|heard| heard == line);
            self.heard.extend(lines.into_iter().map(|line| (now, line)));
            if found {
                return now;
            }
        }
    }

    fn lines(&self) -> Vec<&str> {
        self.heard.iter().map(|(_, line)| line.as_str()).collect()
    }

    fn has_heard(&self, line: &str) -> bool {
        self.lines().contains(&line)
    }
}

trial!(a_server_is_ready_when_it_serves_and_a_worker_when_it_trains);
fn a_server_is_ready_when_it_serves_and_a_worker_when_it_trains() {
    let cluster = TestCluster::new(1, 1, 400, "[train]\nmax_steps = 1000000\n");
    let mut of_ps = Manager::new(&cluster, "ps.sock");
    let mut of_worker = Manager::new(&cluster, "worker.sock");
    let ps = of_ps.start(&cluster, "ps", &[]);
    of_ps.hear("READY=1");
    of_ps.hear("WATCHDOG=1");
    let waits = |line: &&str| line.starts_with("STATUS=waiting for chief:0");
    assert!(of_ps.lines().iter().any(waits), "{:?}", of_ps.lines());
    let worker = of_worker.start(&cluster, "worker", &[]);
    of_worker.hear(&format!(
        "STATUS=waiting for chief:0 at {}",
        cluster.addresses[0]
    ));
    of_worker.hear("WATCHDOG=1");
    assert!(
        !of_worker.has_heard("READY=1"),
        "nobody is there to train with: {:?}",
        of_worker.lines()
    );
    let chief = cluster.start("chief", 0, &[]);
    of_worker.hear("READY=1");
    of_ps.hear("STATUS=training");
    for (manager, program) in [(&mut of_worker, worker), (&mut of_ps, ps)] {
        assert!(!manager.has_heard("STOPPING=1"));
        program.signal(Signal::TERM);
        manager.hear("STOPPING=1");
        drop(program);
        let times = manager
            .lines()
            .iter()
            .filter(|line| **line == "READY=1")
            .count();
        assert_eq!(times, 1, "{:?}", manager.lines());
    }
    drop(chief);
}

trial!(a_worker_that_is_stuck_in_a_step_is_not_answered_for);
/// The thread that trains is held up in a step; connections and heartbeats go on meanwhile, on others.
fn a_worker_that_is_stuck_in_a_step_is_not_answered_for() {
    let cluster = TestCluster::new(1, 1, 400, "[train]\nmax_steps = 1000000\n");
    let mut manager = Manager::new(&cluster, "worker.sock");
    let stuck = format!(
        "worker.after_pull=20*off->1*sleep({})",
        4 * WATCHDOG.as_millis()
    );
    let mut worker = manager.start(&cluster, "worker", &[("FAILPOINTS", &stuck)]);
    let _ps = cluster.start("ps", 0, &[]);
    let _chief = cluster.start("chief", 0, &[]);
    manager.hear("READY=1");
    worker.wait_for("a loop of this daemon does not make progress", LIMIT);
    let back = manager.hear("WATCHDOG=1");
    let answers = |at: &[(Instant, String)]| -> Vec<Instant> {
        at.iter()
            .filter(|(_, line)| line == "WATCHDOG=1")
            .map(|(at, _)| *at)
            .collect()
    };
    // What was sent before the stall may still be in the socket: the answers behind it are waited for.
    let mut last = back;
    let silent = loop {
        let times = answers(&manager.heard);
        let silence = times
            .windows(2)
            .map(|pair| pair[1] - pair[0])
            .max()
            .unwrap_or_default();
        if silence > WATCHDOG || last - back > 10 * WATCHDOG {
            break silence;
        }
        last = manager.hear("WATCHDOG=1");
    };
    assert!(
        silent > WATCHDOG,
        "systemd would not have noticed: {silent:?}"
    );
}
