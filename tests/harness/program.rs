//! One program under test: started, signalled, waited for, its output kept.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest time between two acts of [`Program::act_until`].
const ACT_INTERVAL: Duration = Duration::from_millis(100);

/// A running program. Killed when it is dropped.
#[derive(Debug)]
pub struct Program {
    name: String,
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
    readers: Vec<JoinHandle<()>>,
}

/// A program that has ended.
#[derive(Debug)]
pub struct Ended {
    /// Exit code; 128 + n where signal n ended it.
    pub code: i32,
    /// Everything it wrote.
    pub output: String,
}

/// Returns the path of a program of ours, as it was built with the tests; any other path is returned as it is.
///
/// # Panics
/// The test does not lie where cargo puts tests.
pub fn program(name: &str) -> PathBuf {
    if !name.starts_with("trainyard") {
        return PathBuf::from(name);
    }
    // Cargo builds the programs of a package before its tests. They are named apart, as those of the daemons' own packages lie
    // in the same folder and may be older.
    let test = std::env::current_exe().expect("the test has a path");
    let folder = test
        .ancestors()
        .find(|folder| folder.join(format!("tested-{name}")).is_file());
    folder
        .unwrap_or_else(|| panic!("tested-{name} does not lie above {}", test.display()))
        .join(format!("tested-{name}"))
}

impl Program {
    /// Starts a program of ours by name, or any program by its path.
    ///
    /// # Panics
    /// It cannot be started.
    pub fn start(name: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        Self::start_in(Path::new("."), name, arguments, environment)
    }

    /// Starts a program in a working folder.
    ///
    /// # Panics
    /// It cannot be started.
    pub fn start_in(
        folder: &Path,
        name: &str,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Self {
        let mut command = Command::new(program(name));
        command
            .current_dir(folder)
            .args(arguments)
            .env_remove("TF_CONFIG")
            .env_remove("TRAINYARD_LOG")
            .envs(environment.iter().copied());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{name} cannot be started: {error}"));
        let (sender, lines) = channel();
        let mut readers = Vec::new();
        let out = child.stdout.take().expect("piped");
        let err = child.stderr.take().expect("piped");
        for stream in [
            Box::new(out) as Box<dyn std::io::Read + Send>,
            Box::new(err),
        ] {
            let sender = sender.clone();
            readers.push(std::thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        return;
                    }
                }
            }));
        }
        Self {
            name: name.to_owned(),
            child,
            lines,
            seen: Vec::new(),
            readers,
        }
    }

    /// Waits until a line holds `text`, and returns the line.
    ///
    /// # Panics
    /// No such line came in time.
    pub fn wait_for(&mut self, text: &str, limit: Duration) -> String {
        self.wait_for_after(0, text, limit)
    }

    /// Waits until a line holds one of `texts`.
    ///
    /// # Panics
    /// No such line came in time.
    pub fn wait_for_any(&mut self, texts: &[&str], limit: Duration) {
        let until = Instant::now() + limit;
        let holds = |line: &String| texts.iter().any(|text| line.contains(text));
        while !self.seen.iter().any(holds) {
            let left = until.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left).unwrap_or_else(|_| {
                let seen = self.seen.join("\n");
                panic!(
                    "{} said none of {texts:?} within {limit:?}:\n{seen}",
                    self.name
                )
            });
            self.seen.push(line);
        }
    }

    /// Waits until a line holds `text` that is not among the first `lines`, and returns the line. What happens once is waited
    /// for so: the lines are counted before that is done which brings it about.
    ///
    /// # Panics
    /// No such line came in time.
    pub fn wait_for_after(&mut self, lines: usize, text: &str, limit: Duration) -> String {
        let until = Instant::now() + limit;
        if let Some(line) = self
            .seen
            .iter()
            .skip(lines)
            .find(|line| line.contains(text))
        {
            return line.clone();
        }
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    self.seen.push(line.clone());
                    if line.contains(text) {
                        return line;
                    }
                }
                Err(_) => {
                    panic!(
                        "{} did not say `{text}` within {limit:?}:\n{}",
                        self.name,
                        self.seen.join("\n")
                    )
                }
            }
        }
    }

    /// Waits until it says a line from now on that holds `text`, and returns the line. For what is said again and again: what
    /// is said once may have been said already.
    ///
    /// # Panics
    /// No such line came in time.
    pub fn wait_for_next(&mut self, text: &str, limit: Duration) -> String {
        let said = self.said();
        self.wait_for_after(said, text, limit)
    }

    /// Does `act` again and again until a line holds `text`: for what a program undoes between two lines, as one does that
    /// frees room on a disk which is kept full.
    ///
    /// # Panics
    /// No such line came in time.
    pub fn act_until(&mut self, text: &str, limit: Duration, mut act: impl FnMut()) {
        let until = Instant::now() + limit;
        while !self.has_said(text) {
            let seen = &self.seen;
            assert!(
                Instant::now() < until,
                "{} did not say `{text}` within {limit:?}:\n{}",
                self.name,
                seen.join("\n")
            );
            act();
            self.seen.extend(self.lines.recv_timeout(ACT_INTERVAL));
        }
    }

    /// Waits until it says where its admin port listens, and returns `host:port`.
    ///
    /// # Panics
    /// It did not say so in time.
    pub fn admin_address(&mut self, limit: Duration) -> String {
        let line = self.wait_for("the admin port listens", limit);
        let address = line
            .split_once("address=")
            .and_then(|(_, rest)| rest.split_whitespace().next());
        address
            .unwrap_or_else(|| panic!("no address in {line}"))
            .to_owned()
    }

    /// Returns whether it has said a line that holds `text`.
    pub fn has_said(&mut self, text: &str) -> bool {
        self.said();
        self.seen.iter().any(|line| line.contains(text))
    }

    /// Returns how many lines it has said.
    pub fn said(&mut self) -> usize {
        self.seen.extend(self.lines.try_iter());
        self.seen.len()
    }

    /// Returns whether it still runs.
    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Returns its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: rustix::process::Signal) {
        if let Some(pid) = rustix::process::Pid::from_raw(self.child.id().cast_signed()) {
            let _ = rustix::process::kill_process(pid, signal);
        }
    }

    /// Waits for the end.
    ///
    /// # Panics
    /// It did not end in time.
    pub fn wait(mut self, limit: Duration) -> Ended {
        use std::os::unix::process::ExitStatusExt as _;
        let until = Instant::now() + limit;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("the child can be waited for") {
                break status;
            }
            if Instant::now() >= until {
                self.seen.extend(self.lines.try_iter());
                panic!(
                    "{} did not end within {limit:?}:\n{}",
                    self.name,
                    self.seen.join("\n")
                );
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        for reader in std::mem::take(&mut self.readers) {
            reader.join().expect("a reader does not panic");
        }
        self.seen.extend(self.lines.try_iter());
        let code = status
            .code()
            .unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        Ended {
            code,
            output: self.seen.join("\n"),
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
