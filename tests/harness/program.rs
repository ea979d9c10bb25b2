//! One program under test: started, signalled, waited for, its output kept.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

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

impl Program {
    /// Starts a program of this workspace by name.
    ///
    /// # Panics
    /// It was not built.
    pub fn start(name: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let folder = std::env::current_exe().expect("the test has a path");
        let folder = folder.parent().and_then(Path::parent).expect("tests lie in deps/ of the target folder");
        let mut command = Command::new(folder.join(name));
        command
            .args(arguments)
            .env_remove("TF_CONFIG")
            .env_remove("TRAINYARD_LOG")
            .envs(environment.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{name} cannot be started: {error}; build it first"));
        let (sender, lines) = channel();
        let mut readers = Vec::new();
        let (out, err) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
        for stream in [Box::new(out) as Box<dyn std::io::Read + Send>, Box::new(err)] {
            let sender = sender.clone();
            readers.push(std::thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        return;
                    }
                }
            }));
        }
        Self { name: name.to_owned(), child, lines, seen: Vec::new(), readers }
    }

    /// Waits until a line holds `text`, and returns the line.
    ///
    /// # Panics
    /// No such line came in time.
    pub fn wait_for(&mut self, text: &str, limit: Duration) -> String {
        let until = Instant::now() + limit;
        if let Some(line) = self.seen.iter().find(|line| line.contains(text)) {
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
                    panic!("{} did not say `{text}` within {limit:?}:\n{}", self.name, self.seen.join("\n"))
                }
            }
        }
    }

    /// Waits until a line that was not read before holds `text`, and returns the line.
    ///
    /// # Panics
    /// No such line came in time.
    pub fn wait_for_next(&mut self, text: &str, limit: Duration) -> String {
        let until = Instant::now() + limit;
        let mut old = std::mem::take(&mut self.seen);
        old.extend(self.lines.try_iter());
        let line = self.wait_for(text, until.saturating_duration_since(Instant::now()));
        self.seen.splice(..0, old);
        line
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
                panic!("{} did not end within {limit:?}:\n{}", self.name, self.seen.join("\n"));
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        for reader in std::mem::take(&mut self.readers) {
            reader.join().expect("a reader does not panic");
        }
        self.seen.extend(self.lines.try_iter());
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        Ended { code, output: self.seen.join("\n") }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
