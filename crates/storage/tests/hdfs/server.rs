//! Test server: a NameNode and a DataNode of Hadoop, each in its own process.
#![expect(
    clippy::disallowed_methods,
    reason = "a test is told by the environment where Hadoop is"
)]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Timeout for a line of a server's log.
const LINE_MAX: Duration = Duration::from_secs(120);
/// Log line of a NameNode that accepts requests, up to its address.
const LISTENS: &str = "NameNode RPC up at: ";
/// Log line of a DataNode that is registered at the NameNode.
const KNOWN: &str = "Successfully sent block report";
/// Any free port of this machine.
const FREE: &str = "127.0.0.1:0";

/// A file system with one DataNode. Dropping it stops the servers.
pub(crate) struct Hdfs {
    folder: tempfile::TempDir,
    class_path: String,
    namenode: Child,
    datanode: Option<Child>,
    /// Address of the NameNode, `host:port`.
    pub(crate) address: String,
}

impl Hdfs {
    /// Starts both servers at free ports, as the user `hdfs`. Without Hadoop, prints a line and returns nothing.
    pub(crate) fn start() -> Option<Self> {
        let Ok(class_path) = std::env::var("TRAINYARD_HDFS") else {
            println!(
                "skipped: TRAINYARD_HDFS names no class path of Hadoop's NameNode and DataNode"
            );
            return None;
        };
        let folder = tempfile::tempdir().expect("a folder");
        // The servers need their web pages, which are not in the class path. Empty folders suffice.
        for name in ["namenode", "datanode"] {
            std::fs::create_dir_all(folder.path().join(name)).expect("a folder");
        }
        for page in ["hdfs", "datanode", "static"] {
            std::fs::create_dir_all(folder.path().join("web/webapps").join(page))
                .expect("a folder");
        }
        let java = |name: &str, words: &[&str]| java(folder.path(), &class_path, name, words);
        write(folder.path(), "namenode", FREE);
        let formatted = java("namenode", &["-format", "-nonInteractive"])
            .status()
            .expect("java starts");
        assert!(formatted.success(), "the name folder was not made");
        let (namenode, lines) = spawn(java("namenode", &[]));
        let said = wait_for(&lines, LISTENS);
        let address = said
            .rsplit('/')
            .next()
            .expect("a slash stands before the address")
            .to_owned();
        let mut hdfs = Self {
            folder,
            class_path,
            namenode,
            datanode: None,
            address,
        };
        hdfs.start_datanode();
        Some(hdfs)
    }

    /// Returns the URL of a path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("hdfs://{}/{path}", self.address)
    }

    /// Starts the DataNode with its stored data, and waits until it is registered at the NameNode.
    pub(crate) fn start_datanode(&mut self) {
        write(self.folder.path(), "datanode", &self.address);
        let (child, lines) = spawn(java(self.folder.path(), &self.class_path, "datanode", &[]));
        wait_for(&lines, KNOWN);
        self.datanode = Some(child);
    }

    pub(crate) fn kill_datanode(&mut self) {
        self.datanode.take().iter_mut().for_each(end);
    }

    pub(crate) fn kill_namenode(&mut self) {
        end(&mut self.namenode);
    }

    /// Starts the NameNode at its former address.
    pub(crate) fn start_namenode(&mut self) {
        write(self.folder.path(), "namenode", &self.address);
        let (child, lines) = spawn(java(self.folder.path(), &self.class_path, "namenode", &[]));
        wait_for(&lines, LISTENS);
        self.namenode = child;
    }
}

impl Drop for Hdfs {
    fn drop(&mut self) {
        self.kill_datanode();
        self.kill_namenode();
    }
}

fn end(child: &mut Child) {
    // The process may have ended already.
    let _ = child.kill();
    let _ = child.wait();
}

/// Writes the settings of a server.
fn write(folder: &Path, name: &str, namenode: &str) {
    let place = |name: &str| format!("file://{}", folder.join(name).display());
    let settings = [
        ("fs.defaultFS", format!("hdfs://{namenode}")),
        ("dfs.namenode.name.dir", place("names")),
        ("dfs.namenode.http-address", FREE.to_owned()),
        ("dfs.datanode.data.dir", place("blocks")),
        ("dfs.datanode.address", FREE.to_owned()),
        ("dfs.datanode.ipc.address", FREE.to_owned()),
        ("dfs.datanode.http.address", FREE.to_owned()),
        ("dfs.replication", "1".to_owned()),
        ("dfs.webhdfs.enabled", "false".to_owned()),
        // The NameNode notices a dead DataNode soon: after ten heartbeats and twice the recheck interval.
        ("dfs.heartbeat.interval", "1".to_owned()),
        ("dfs.namenode.heartbeat.recheck-interval", "1000".to_owned()),
        ("dfs.namenode.safemode.extension", "0".to_owned()),
    ];
    let properties = settings.map(|(name, value)| {
        format!("<property><name>{name}</name><value>{value}</value></property>\n")
    });
    let text = format!("<configuration>\n{}</configuration>\n", properties.concat());
    let log = "log4j.rootLogger=INFO,lines\nlog4j.appender.lines=org.apache.log4j.ConsoleAppender\n\
               log4j.appender.lines.target=System.err\n\
               log4j.appender.lines.layout=org.apache.log4j.PatternLayout\n\
               log4j.appender.lines.layout.ConversionPattern=%m%n\n";
    for (file, text) in [
        ("core-site.xml", &text),
        ("hdfs-site.xml", &text),
        ("log4j.properties", &log.to_owned()),
    ] {
        std::fs::write(folder.join(name).join(file), text).expect("the file is written");
    }
}

/// Returns the command that runs a server.
fn java(folder: &Path, class_path: &str, name: &str, words: &[&str]) -> Command {
    let class = match name {
        "namenode" => "org.apache.hadoop.hdfs.server.namenode.NameNode",
        _ => "org.apache.hadoop.hdfs.server.datanode.DataNode",
    };
    let own = folder.join(name);
    let web = folder.join("web");
    let class_path = format!("{}:{}:{class_path}", own.display(), web.display());
    let mut command = Command::new("java");
    command
        .args(["-Xmx256m", "-cp", &class_path, class])
        .args(words)
        .env("HADOOP_USER_NAME", "hdfs");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

fn spawn(mut command: Command) -> (Child, Receiver<String>) {
    let mut child = command.stderr(Stdio::piped()).spawn().expect("java starts");
    let lines = BufReader::new(child.stderr.take().expect("piped"))
        .lines()
        .map_while(Result::ok);
    let (sender, receiver) = channel();
    // The thread drains the log, also after the expected line.
    std::thread::spawn(move || lines.for_each(|line| drop(sender.send(line))));
    (child, receiver)
}

/// Waits for a line that contains `words`, and returns it.
fn wait_for(lines: &Receiver<String>, words: &str) -> String {
    let mut seen = Vec::new();
    loop {
        match lines.recv_timeout(LINE_MAX) {
            Ok(line) if line.contains(words) => return line,
            Ok(line) => seen.push(line),
            Err(_) => panic!("`{words}` is not said: {}", seen.join("\n")),
        }
    }
}
