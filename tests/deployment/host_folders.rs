//! `trainyard deploy render`: the folder of each host, as its files come out.

use std::fs;
use std::path::Path;

use trainyard_tests::{Program, write_job};

use crate::deployment::{LIMIT, deploy};

const CLUSTER: &str = "[cluster]\nchief = [\"lead.example:2222\", \"spare.example:2222\"]\nworker = [\"w.example:2222\"]\n\
                       ps = [\"p.example:2222\", \"p.example:2223\"]\nevaluator = [\"spare.example:2224\"]\n";

fn render(folder: &Path, more: &[&str]) -> (i32, String) {
    let cluster = folder.join("cluster.toml");
    fs::write(&cluster, CLUSTER).expect("the cluster is written");
    let cluster = cluster.to_string_lossy().into_owned();
    let out = folder.join("hosts").to_string_lossy().into_owned();
    let mut arguments = vec!["deploy", "render", "--cluster", &cluster, "--out", &out];
    arguments.extend(more);
    let ended = Program::start("trainyard", &arguments, &[]).wait(LIMIT);
    (ended.code, ended.output)
}

/// The names in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut names: Vec<String> = entries
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort();
    names
}

trial!(each_host_gets_the_same_files_and_starts_its_own_tasks);
fn each_host_gets_the_same_files_and_starts_its_own_tasks() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = write_job(folder.path(), 40, "");
    let text = fs::read_to_string(&job).expect("the job");
    let own = format!("model_dir = \"{}\"", folder.path().join("model").display());
    let (code, output) = render(folder.path(), &["--job", &job.to_string_lossy()]);
    assert!(
        code == 78 && output.contains("which the units cannot see"),
        "{code}: {output}"
    );
    let shared = text.replace(&own, "model_dir = \"/srv/trainyard/census\"");
    fs::write(&job, shared).expect("the job");
    let (code, output) = render(folder.path(), &["--job", &job.to_string_lossy()]);
    assert_eq!(code, 0, "{output}");
    assert!(
        output.contains("p.example: trainyard-ps@0.service trainyard-ps@1.service"),
        "{output}"
    );
    let hosts = folder.path().join("hosts");
    assert_eq!(
        names(&hosts),
        ["lead.example", "p.example", "spare.example", "w.example"]
    );
    let units = |host: &str| hosts.join(host).join("etc/systemd/system");
    let starts = |host: &str| names(&units(host).join("trainyard.target.wants"));
    assert_eq!(starts("lead.example"), ["trainyard-chief.service"]);
    assert_eq!(
        starts("p.example"),
        ["trainyard-ps@0.service", "trainyard-ps@1.service"]
    );
    assert_eq!(
        starts("spare.example"),
        ["trainyard-chief.service", "trainyard-evaluator.service"]
    );
    for host in names(&hosts) {
        let same = |name: &str| {
            fs::read_to_string(hosts.join(&host).join("etc/trainyard").join(name)).expect("a file")
        };
        assert_eq!(same("cluster.toml"), CLUSTER);
        assert_eq!(same("job.toml"), fs::read_to_string(&job).expect("the job"));
        for unit in starts(&host) {
            let target = fs::read_link(units(&host).join("trainyard.target.wants").join(&unit))
                .expect("a link");
            let name = target.file_name().expect("a name");
            let file = deploy().join("systemd").join(name);
            assert!(file.is_file(), "{unit} is a unit of ours: {target:?}");
            // Units on which it depends come with the packages, too.
            let text = fs::read_to_string(file).expect("a unit");
            let needed = text
                .lines()
                .filter_map(|line| line.strip_prefix("RequiresMountsFor=/"));
            for mount in needed {
                let mount = format!("{}.mount", mount.replace('/', "-"));
                assert!(deploy().join("systemd").join(mount).is_file(), "{unit}");
            }
            let memory = fs::read_to_string(units(&host).join(format!("{unit}.d/50-memory.conf")));
            let percent = match host.as_str() {
                "lead.example" | "w.example" => 80,
                _ => 40,
            };
            assert_eq!(
                memory.expect("a file"),
                format!("[Service]\nMemoryMax={percent}%\n"),
                "{unit} on {host}"
            );
        }
    }
    let standby = units("spare.example").join("trainyard-chief.service.d/50-standby.conf");
    assert_eq!(
        fs::read_to_string(standby).expect("a file"),
        "[Service]\nEnvironment=TRAINYARD_INDEX=1\n"
    );
    assert!(
        !units("lead.example")
            .join("trainyard-chief.service.d/50-standby.conf")
            .exists()
    );
}

trial!(what_an_earlier_cluster_asked_for_does_not_stay);
fn what_an_earlier_cluster_asked_for_does_not_stay() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    assert_eq!(render(folder.path(), &["--host", "w.example"]).0, 0);
    assert_eq!(names(&folder.path().join("hosts")), ["w.example"]);
    let (code, output) = render(folder.path(), &[]);
    assert!(
        code == 74 && output.contains("it is not empty"),
        "{code}: {output}"
    );
    assert_eq!(
        names(&folder.path().join("hosts")),
        ["w.example"],
        "nothing was written"
    );
    let (code, output) = render(folder.path(), &["--host", "w.exampel"]);
    assert!(
        code == 78 && output.contains("did you mean `w.example`?"),
        "{code}: {output}"
    );
}
