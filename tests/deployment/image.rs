//! The pods of the shipped manifests as processes: in the root folder of the image, each on a host of its own, with the
//! command, environment, mounts, user and memory limit of its container. A container runtime would do no more.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use rustix::process::Signal;
use trainyard_security::Authority;
use trainyard_tests::{Ended, MemoryGroup, Network, Program, is_ready, program};

use crate::deployment::pods::{Container, Manifests, Mount, Pod, Volume};
use crate::deployment::{LIMIT, deploy, said};
use crate::storage::server::Server;

/// Group of the files of volumes (`fsGroup`).
const GROUP: u32 = 64100;
/// `/dev/shm` of a container that mounts nothing there, as container runtimes make it.
const DEFAULT_SHARED_MEMORY: &str = "64m";
/// Port at which a task says whether it is ready.
const ADMIN_PORT: u16 = 9222;
/// Time between looks whether a process is ready or has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Validity of a certificate.
const VALIDITY: Duration = Duration::from_secs(90 * 24 * 3600);
/// Records of the job.
const ROWS: u32 = 3000;
/// What a server logs whose log is not in memory.
const SPILLS: [&str; 2] = [
    "cannot lie in shared memory",
    "the rest of the log is written to the disk",
];

/// Where the state of a job lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Folder,
    Bucket,
}

impl State {
    fn model_dir(self) -> &'static str {
        match self {
            Self::Folder => "/srv/trainyard/census/model",
            Self::Bucket => "s3://data/census/model",
        }
    }
}

/// File systems, unmounted with this value.
#[derive(Debug, Default)]
struct Mounts(Vec<PathBuf>);

impl Mounts {
    fn add(&mut self, arguments: &[&str], at: &Path) {
        let (fine, text) = said(Command::new("mount").args(arguments).arg(at));
        assert!(fine, "{}: {text}", at.display());
        self.0.push(at.to_owned());
    }

    fn bind(&mut self, folder: &Path, at: &Path, is_read_only: bool) {
        self.add(&["--bind", &folder.to_string_lossy()], at);
        if is_read_only {
            let mut command = Command::new("mount");
            let (fine, text) = said(command.args(["-o", "remount,ro,bind"]).arg(at));
            assert!(fine, "{}: {text}", at.display());
        }
    }

    fn memory(&mut self, size: &str, at: &Path) {
        let options = format!("size={size},mode=2777,gid={GROUP}");
        self.add(&["-t", "tmpfs", "-o", &options, "tmpfs"], at);
    }
}

impl Drop for Mounts {
    fn drop(&mut self) {
        for at in self.0.drain(..).rev() {
            drop(said(Command::new("umount").arg("--lazy").arg(at)));
        }
    }
}

/// The pods of manifests, where they run. What is dropped first is declared first: processes end before their mounts and
/// groups.
struct Site {
    running: Vec<Program>,
    mounts: Mounts,
    groups: Vec<MemoryGroup>,
    network: Network,
    server: Server,
    folder: tempfile::TempDir,
    authority: Authority,
    pods: Vec<Pod>,
    /// Content of the image before the pods have run.
    image: BTreeMap<PathBuf, (u64, SystemTime)>,
}

impl Site {
    /// Builds the image, and a host for each pod.
    fn of(pods: Vec<Pod>) -> Self {
        assert!(!pods.is_empty(), "the manifests have pods");
        let folder = tempfile::tempdir().expect("a temporary folder");
        // Other users look for their folders in it.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("changed");
        let root = folder.path().join("image");
        let mut command = Command::new("sh");
        let command = command.arg(deploy().join("container/root.sh"));
        let (fine, text) = said(command.arg(program("trainyard")).arg(&root));
        assert!(fine, "{text}");
        assert!(
            root.join("etc/ssl/certs/ca-certificates.crt").exists(),
            "this machine has certificates: {text}"
        );
        let network = Network::of(pods.len()).unwrap_or_else(|problem| panic!("{problem}"));
        let mut site = Self {
            running: Vec::new(),
            mounts: Mounts::default(),
            groups: Vec::new(),
            server: Server::start_at(network.own()),
            network,
            folder,
            authority: Authority::new().expect("an authority"),
            pods,
            image: BTreeMap::new(),
        };
        site.prepare_image();
        site.image = content_of(&root, &root);
        site
    }

    fn image(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    /// Makes what a container runtime makes in the root folder of a container.
    fn prepare_image(&self) {
        let image = self.image();
        let made = ["proc", "sys/fs/cgroup", "dev/shm"].map(str::to_owned);
        let mounts = self.pods.iter().flat_map(|pod| pod.container().mounts);
        for path in mounts.map(|mount| mount.path).chain(made) {
            let path = image.join(path.trim_start_matches('/'));
            fs::create_dir_all(path).expect("a mount point");
        }
        fs::write(image.join("dev/null"), "").expect("a mount point");
        let mut hosts = "127.0.0.1 localhost\n".to_owned();
        for (host, pod) in self.pods.iter().enumerate() {
            hosts.push_str(&format!("{} {}\n", self.network.address(host), pod.host));
        }
        fs::write(image.join("etc/hosts"), hosts).expect("the names of the hosts");
    }

    /// Returns the folder of a volume that all pods share.
    fn shared(&self, claim: &str) -> PathBuf {
        self.folder_for(&format!("shared/{claim}"), 0o2775)
    }

    /// Returns a folder that the pods' group may write to.
    fn folder_for(&self, name: &str, mode: u32) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::create_dir_all(&path).expect("a folder");
        chown(&path, None, Some(GROUP)).expect("it is the group's");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("changed");
        path
    }

    /// Writes the secret of a pod: its certificate for its role, as cert-manager makes it for all names of the job.
    fn secret(&self, pod: &Pod, name: &str) -> PathBuf {
        let folder = self.folder_for(&format!("secrets/{name}"), 0o755);
        // Pods of one role have one, and one of them may read it already.
        if folder.join("tls.key").exists() {
            return folder;
        }
        let (_, domain) = pod.host.split_once('.').expect("a name in a domain");
        let names = [pod.host.clone(), format!("*.{domain}")];
        let name = format!("spiffe://trainyard/role/{}", pod.role);
        let until = SystemTime::now() + VALIDITY;
        let issued = self.authority.issue(&name, &names, until);
        let issued = issued.expect("a certificate");
        let files = [
            ("ca.crt", self.authority.certificate()),
            ("tls.crt", &issued.certificate),
            ("tls.key", &issued.key),
        ];
        for (file, text) in files {
            let path = folder.join(file);
            fs::write(&path, text).expect("the secret is written");
            chown(&path, None, Some(GROUP)).expect("it is the group's");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o440)).expect("changed");
        }
        folder
    }

    /// Mounts the root folder of a pod's container, and what its manifest mounts there. Returns the root folder.
    fn mount(&mut self, host: usize, files: &dyn Fn(&str) -> PathBuf) -> PathBuf {
        let pod = self.pods[host].clone();
        let mut container = pod.container();
        let name = format!("{}-{}", pod.role, pod.index);
        let root = self.folder.path().join("roots").join(&name);
        fs::create_dir_all(&root).expect("a mount point");
        let is_read_only = container.is_root_read_only;
        let image = self.image();
        self.mounts.bind(&image, &root, is_read_only);
        self.mounts.add(&["-t", "proc", "proc"], &root.join("proc"));
        let null = root.join("dev/null");
        self.mounts.bind(Path::new("/dev/null"), &null, false);
        for groups in ["/sys/fs/cgroup", "/sys/fs/cgroup/memory"].map(Path::new) {
            let at = root.join(groups.strip_prefix("/").expect("a path from the root"));
            if groups.exists() && at.exists() {
                self.mounts.bind(groups, &at, true);
            }
        }
        if !has_shared_memory(&container) {
            let at = root.join("dev/shm");
            self.mounts.memory(DEFAULT_SHARED_MEMORY, &at);
        }
        container.mounts.sort_by_key(|mount| mount.path.len());
        for mount in &container.mounts {
            let at = root.join(mount.path.trim_start_matches('/'));
            let source = match &mount.volume {
                Volume::Files(name) => files(name),
                Volume::Secret(name) => self.secret(&pod, name),
                Volume::Shared(claim) => self.shared(claim),
                Volume::Folder => {
                    let path = mount.path.replace('/', "+");
                    self.folder_for(&format!("volumes/{name}{path}"), 0o2777)
                }
                Volume::Memory { bytes_max } => {
                    let size = bytes_max.map_or_else(|| "50%".to_owned(), |max| max.to_string());
                    self.mounts.memory(&size, &at);
                    continue;
                }
            };
            self.mounts.bind(&source, &at, mount.is_read_only);
        }
        root
    }

    /// Starts the container of every pod. `files` returns the folder with the files of a `ConfigMap`.
    fn start(&mut self, files: &dyn Fn(&str) -> PathBuf) {
        for host in 0..self.pods.len() {
            let root = self.mount(host, files);
            let container = self.pods[host].container();
            let bytes_max = container.memory_bytes_max;
            let group = MemoryGroup::of(bytes_max.expect("a container has a memory limit"));
            let user = format!(
                "{}:{}",
                container.user.expect("a container has a user"),
                container.group.expect("a container has a group")
            );
            let mut variables = container.environment;
            variables.extend([
                (
                    "AWS_ENDPOINT_URL".to_owned(),
                    format!("http://{}", self.server.address),
                ),
                ("AWS_ACCESS_KEY_ID".to_owned(), "test".to_owned()),
                ("AWS_SECRET_ACCESS_KEY".to_owned(), "test".to_owned()),
                ("AWS_ALLOW_HTTP".to_owned(), "true".to_owned()),
                (
                    "PATH".to_owned(),
                    "/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
                ),
            ]);
            let mut line = self.network.home(host);
            line.extend(["env", "-i"].map(str::to_owned));
            line.extend(
                variables
                    .iter()
                    .map(|(name, value)| format!("{name}={value}")),
            );
            line.push("chroot".to_owned());
            line.push(format!("--userspec={user}"));
            line.push(format!("--groups={GROUP}"));
            line.push(root.to_string_lossy().into_owned());
            line.extend(container.command.unwrap_or_else(entrypoint));
            line.extend(container.args);
            let line: Vec<&str> = line.iter().map(String::as_str).collect();
            let program = group.start_program(line[0], &line[1..], &[]);
            self.running.push(program);
            self.groups.push(group);
        }
    }

    /// Waits for the end of all processes, and returns them in this order. Ends the others when one has failed.
    fn ended(&mut self) -> Vec<(Ended, usize)> {
        let mut running: Vec<_> = self.running.drain(..).zip(0..).collect();
        let mut all = Vec::new();
        let until = Instant::now() + LIMIT;
        while !running.is_empty() {
            let is_late = Instant::now() >= until;
            let is_over = |program: &mut Program| is_late || !program.runs();
            let Some(place) = running.iter_mut().position(|(program, _)| is_over(program)) else {
                std::thread::sleep(POLL_INTERVAL);
                continue;
            };
            let (program, host) = running.remove(place);
            if is_late {
                program.signal(Signal::KILL);
            }
            let ended = program.wait(LIMIT);
            if ended.code != 0 {
                for (other, _) in &running {
                    other.signal(Signal::KILL);
                }
            }
            all.push((ended, host));
        }
        all
    }

    /// Waits for the end of all processes. Returns what is wrong with how they ran.
    fn end(&mut self) -> Vec<String> {
        let mut problems = Vec::new();
        for (ended, host) in self.ended() {
            let pod = &self.pods[host];
            let name = format!("{}:{}", pod.role, pod.index);
            let output = ended.output;
            if ended.code != 0 {
                problems.push(format!("{name} ended with {}: {output}", ended.code));
            }
            if SPILLS.iter().any(|spill| output.contains(spill)) {
                problems.push(format!("{name} lacks memory for its log: {output}"));
            }
            let root = self.folder.path().join("roots");
            let root = root.join(format!("{}-{}", pod.role, pod.index));
            let container = pod.container();
            let entries = |path: &str| {
                let folder = root.join(path.trim_start_matches('/'));
                fs::read_dir(folder).expect("readable").count()
            };
            if !has_shared_memory(&container) && entries("/dev/shm") > 0 {
                problems.push(format!(
                    "{name} has written to /dev/shm, where it has no mount"
                ));
            }
            let is_memory = |mount: &&Mount| matches!(mount.volume, Volume::Memory { .. });
            let memory = container.mounts.iter().find(is_memory);
            if pod.role == "ps" && memory.is_none_or(|memory| entries(&memory.path) == 0) {
                problems.push(format!("{name} has had no log in a volume in memory"));
            }
        }
        for (group, pod) in self.groups.iter().zip(&self.pods) {
            if group.kills() > 0 {
                problems.push(format!(
                    "{}:{} was killed for its memory",
                    pod.role, pod.index
                ));
            }
        }
        let image = self.image();
        if content_of(&image, &image) != self.image {
            problems.push("the root folder of the image has changed".to_owned());
        }
        problems
    }

    /// Returns whether the model has a checkpoint of this step.
    fn has_checkpoint(&self, state: State, step: u64) -> bool {
        let checkpoint = format!("census/model/model.ckpt-{step}");
        match state {
            State::Folder => {
                let shared = self.shared("trainyard").join(checkpoint);
                shared.join("manifest.json").is_file()
            }
            State::Bucket => {
                let keys = self.server.keys(&checkpoint);
                keys.iter().any(|key| key.ends_with("/manifest.json"))
            }
        }
    }
}

/// Returns whether a container mounts its own `/dev/shm`.
fn has_shared_memory(container: &Container) -> bool {
    let mut mounts = container.mounts.iter();
    mounts.any(|mount| mount.path == "/dev/shm")
}

/// Returns the command of the image.
fn entrypoint() -> Vec<String> {
    let text = fs::read_to_string(deploy().join("container/Dockerfile")).expect("the image");
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("ENTRYPOINT "));
    serde_json::from_str(line.expect("the image has an entry point")).expect("a list")
}

/// Returns the size and the time of change of each file and folder below `folder`, by its path in `root`.
fn content_of(folder: &Path, root: &Path) -> BTreeMap<PathBuf, (u64, SystemTime)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("readable") {
        let path = entry.expect("readable").path();
        let metadata = fs::symlink_metadata(&path).expect("readable");
        if metadata.is_dir() {
            found.extend(content_of(&path, root));
        }
        let name = path.strip_prefix(root).expect("below the root").to_owned();
        let changed = metadata.modified().expect("a time");
        found.insert(name, (metadata.size(), changed));
    }
    found
}

/// Writes the input of the job of the manifests.
fn write_rows(folder: &Path) {
    for name in ["train.csv", "eval.csv"] {
        let mut text = "age,hours_per_week,salary\n".to_owned();
        for row in 0..ROWS {
            let (age, hours) = (17 + row * 7 % 60, 10 + row * 13 % 60);
            let salary = if age + hours > 80 { ">50K" } else { "<=50K" };
            text.push_str(&format!("{age},{hours},{salary}\n"));
        }
        fs::write(folder.join(name), text).expect("the rows are written");
    }
}

/// Returns the job of the manifests, shortened to 100 steps, with its model elsewhere.
fn short(job: &str, state: State) -> String {
    let folder = State::Folder.model_dir();
    let (steps, model_dir) = ("max_steps = 100_000", format!("model_dir = \"{folder}\""));
    assert!(job.contains(steps) && job.contains(&model_dir), "{job}");
    let here = format!("model_dir = \"{}\"", state.model_dir());
    job.replace(steps, "max_steps = 100")
        .replace(&model_dir, &here)
}

/// Runs the pods of a job to its end. Returns what is wrong with how they ran.
fn train(manifests: &Manifests, state: State) -> Vec<String> {
    let mut site = Site::of(manifests.pods());
    site.shared("trainyard");
    write_rows(&site.folder_for("shared/trainyard/census", 0o2775));
    let folder = site.folder.path().to_owned();
    let files = |name: &str| {
        let mut files = manifests.files(name);
        if let Some(job) = files.get_mut("job.toml") {
            *job = short(job, state);
        }
        written(files, &folder.join("files").join(name))
    };
    site.start(&files);
    let mut problems = site.end();
    if !site.has_checkpoint(state, 100) {
        problems.push("there is no checkpoint of the last step".to_owned());
    }
    problems
}

/// Writes files into a folder, unless they are there. Returns the folder.
fn written(files: BTreeMap<String, String>, folder: &Path) -> PathBuf {
    fs::create_dir_all(folder).expect("a folder");
    for (file, text) in files {
        let path = folder.join(file);
        if !path.exists() {
            fs::write(path, text).expect("the file is written");
        }
    }
    folder.to_owned()
}

fn manifest(name: &str) -> PathBuf {
    deploy().join("kubernetes").join(name)
}

fn check(manifests: &Manifests) {
    let roles: Vec<String> = manifests.pods().into_iter().map(|pod| pod.role).collect();
    for role in ["chief", "ps", "worker", "evaluator"] {
        assert!(roles.iter().any(|one| one == role), "{role}: {roles:?}");
    }
    for state in [State::Folder, State::Bucket] {
        let problems = train(manifests, state);
        assert!(problems.is_empty(), "{state:?}: {}", problems.join("\n"));
    }
}

trial!(the_pods_of_the_jobset_train_with_a_folder_and_with_a_bucket, needs Mounts MemoryGroups Networks S3 KubernetesSchemas);
fn the_pods_of_the_jobset_train_with_a_folder_and_with_a_bucket() {
    check(&Manifests::read(&[&manifest("jobset.yaml")]));
}

trial!(the_pods_of_the_trainjob_train_with_a_folder_and_with_a_bucket, needs Mounts MemoryGroups Networks S3 KubernetesSchemas);
fn the_pods_of_the_trainjob_train_with_a_folder_and_with_a_bucket() {
    check(&Manifests::read(&[&manifest("trainjob.yaml")]));
}

trial!(the_pods_of_the_tfjob_train_with_a_folder_and_with_a_bucket, needs Mounts MemoryGroups Networks S3 KubernetesSchemas);
fn the_pods_of_the_tfjob_train_with_a_folder_and_with_a_bucket() {
    check(&Manifests::read(&[&manifest("tfjob.yaml")]));
}

trial!(the_pods_of_the_chart_train_with_a_folder_and_with_a_bucket, needs Mounts MemoryGroups Networks S3 KubernetesSchemas Helm);
fn the_pods_of_the_chart_train_with_a_folder_and_with_a_bucket() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = Manifests::read(&[&manifest("jobset.yaml")]).files("census")["job.toml"].clone();
    let path = folder.path().join("job.toml");
    fs::write(&path, job).expect("the job is written");
    let job = format!("job={}", path.display());
    let arguments = ["--set", "tls.secret=census-tls", "--set-file", &job];
    check(&Manifests::render(
        folder.path(),
        &manifest("chart"),
        &arguments,
    ));
}

trial!(pods_without_memory_for_a_log_are_found, needs Mounts MemoryGroups Networks S3 KubernetesSchemas);
fn pods_without_memory_for_a_log_are_found() {
    let manifests = Manifests::read(&[&manifest("jobset.yaml")]).without_mounts("/dev/shm");
    let mut problems = train(&manifests, State::Folder);
    // The servers run side by side.
    problems.sort();
    let expected = ["ps:0", "ps:1"].map(|server| {
        [
            format!("{server} has written to /dev/shm, where it has no mount"),
            format!("{server} has had no log in a volume in memory"),
        ]
    });
    let mut expected = expected.concat();
    expected.sort();
    assert_eq!(problems, expected);
}

trial!(the_pods_of_the_serving_chart_answer_with_a_model_in_a_folder_and_in_a_bucket, needs Mounts MemoryGroups Networks S3 KubernetesSchemas Helm);
fn the_pods_of_the_serving_chart_answer_with_a_model_in_a_folder_and_in_a_bucket() {
    let job = Manifests::read(&[&manifest("jobset.yaml")]).files("census")["job.toml"].clone();
    for state in [State::Folder, State::Bucket] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let model_dir = state.model_dir();
        let config = folder.path().join("serving.toml");
        let text = format!("[[model]]\nname = \"census\"\npath = \"{model_dir}\"\n");
        fs::write(&config, text).expect("the configuration is written");
        let config = format!("config={}", config.display());
        let mut arguments = vec!["--set", "tls.secret=census", "--set-file", &config];
        if state == State::Bucket {
            arguments.extend(["--set", "sharedClaim="]);
        }
        let manifests = Manifests::render(folder.path(), &manifest("serving"), &arguments);
        let mut site = Site::of(manifests.pods());
        // The model is trained on this machine.
        let shared = site.shared("trainyard").display().to_string();
        write_rows(&site.folder_for("shared/trainyard/census", 0o2775));
        let path = folder.path().join("job.toml");
        let here = short(&job, state).replace("/srv/trainyard", &shared);
        fs::write(&path, here).expect("the job is written");
        let endpoint = format!("http://{}", site.server.address);
        let environment = [
            ("AWS_ENDPOINT_URL", &*endpoint),
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "test"),
            ("AWS_ALLOW_HTTP", "true"),
        ];
        let job = path.to_string_lossy();
        let trained = Program::start("trainyard", &["train", &job], &environment).wait(LIMIT);
        assert_eq!(trained.code, 0, "{}", trained.output);
        let files = |name: &str| {
            let to = folder.path().join(name);
            written(manifests.files(name), &to)
        };
        site.start(&files);
        let until = Instant::now() + LIMIT;
        for (host, program) in site.running.iter_mut().enumerate() {
            let admin = format!("{}:{ADMIN_PORT}", site.network.address(host));
            while !is_ready(&admin) && program.runs() && Instant::now() < until {
                std::thread::sleep(POLL_INTERVAL);
            }
            assert!(is_ready(&admin) || !program.runs(), "{admin} is not ready");
            program.signal(Signal::TERM);
        }
        let problems = site.end();
        assert!(problems.is_empty(), "{state:?}: {}", problems.join("\n"));
    }
}

trial!(every_manifest_has_a_test_that_runs_its_pods);
fn every_manifest_has_a_test_that_runs_its_pods() {
    let entries = fs::read_dir(manifest("")).expect("the manifests");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("a manifest").file_name())
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    names.sort();
    let run = [
        "chart",
        "jobset.yaml",
        "serving",
        "tfjob.yaml",
        "trainjob.yaml",
    ];
    assert_eq!(names, run);
}
