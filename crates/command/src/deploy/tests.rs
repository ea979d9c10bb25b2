//! Rendered units, by host.

use super::*;

fn cluster(text: &str) -> ClusterSpec {
    ClusterSpec::from_toml(Path::new("cluster.toml"), text).expect("a cluster")
}

fn names(hosts: &Hosts) -> Vec<String> {
    hosts
        .iter()
        .map(|(host, tasks)| {
            format!(
                "{host} {}",
                tasks
                    .iter()
                    .map(|task| unit(*task))
                    .collect::<Vec<_>>()
                    .join(" ")
            )
        })
        .collect()
}

#[test]
fn each_host_starts_the_tasks_whose_addresses_are_its_own() {
    let cluster = cluster(
        "[cluster]\nchief = [\"a:2222\", \"b:2222\"]\nworker = [\"b:2223\", \"[::1]:2223\", \"b:2224\"]\n\
         ps = [\"a:2225\"]\nevaluator = [\"c:2226\"]\n",
    );
    let hosts = hosts(&cluster).unwrap();
    let expected = [
        "[::1] trainyard-worker@1.service",
        "a trainyard-chief.service trainyard-ps@0.service",
        "b trainyard-worker@0.service trainyard-worker@2.service trainyard-chief.service",
        "c trainyard-evaluator.service",
    ];
    assert_eq!(names(&hosts), expected);
    let of_b = entries(&hosts["b"], Some(Path::new("/srv/m"))).unwrap();
    let link = |name: &str| of_b.get(Path::new(&format!("{WANTS}/{name}"))).cloned();
    let target = Some(Entry::Link(
        "/usr/lib/systemd/system/trainyard-worker@.service".to_owned(),
    ));
    assert_eq!(link("trainyard-worker@2.service"), target);
    let standby = &of_b[Path::new("etc/systemd/system/trainyard-chief.service.d/50-standby.conf")];
    assert_eq!(
        *standby,
        Entry::Text("[Service]\nEnvironment=TRAINYARD_INDEX=1\n".to_owned())
    );
    let model = &of_b[Path::new("etc/systemd/system/trainyard-worker@.service.d/50-model.conf")];
    let expected =
        "[Unit]\nAfter=local-fs.target remote-fs.target\n\n[Service]\nReadWritePaths=\"/srv/m\"\n";
    assert_eq!(*model, Entry::Text(expected.to_owned()));
    let of_a = entries(&hosts["a"], None).unwrap();
    assert_eq!(
        of_a.len(),
        4,
        "neither a standby nor a model folder: {of_a:?}"
    );
}

#[test]
fn the_tasks_of_a_host_share_its_memory_and_a_server_gets_twice_the_part_of_others() {
    let cluster = cluster(
        "[cluster]\nchief = [\"a:1\"]\nworker = [\"a:2\", \"b:1\"]\nps = [\"a:3\", \"a:4\", \"c:1\", \"c:2\"]\n",
    );
    let hosts = hosts(&cluster).unwrap();
    let limit = |host: &str, unit: &str| {
        let path = format!("etc/systemd/system/{unit}.service.d/50-memory.conf");
        entries(&hosts[host], None).unwrap()[Path::new(&path)].clone()
    };
    let percent = |number: u32| Entry::Text(format!("[Service]\nMemoryMax={number}%\n"));
    assert_eq!(limit("a", "trainyard-chief"), percent(13));
    assert_eq!(limit("a", "trainyard-worker@0"), percent(13));
    assert_eq!(limit("a", "trainyard-ps@1"), percent(26));
    assert_eq!(limit("b", "trainyard-worker@1"), percent(80));
    assert_eq!(limit("c", "trainyard-ps@2"), percent(40));
}

#[test]
fn a_cluster_whose_hosts_cannot_be_known_is_refused() {
    let cases = [
        (
            "chief = [\"a:1\"]\nps = [\"unix:/run/ps.sock\"]",
            "address of ps:0 names no host, given the socket file `/run/ps.sock`",
        ),
        (
            "chief = [\"a:1\", \"a:2\"]",
            "chief:0 and chief:1 cannot both run on a: there is one trainyard-chief.service a host",
        ),
        (
            "chief = [\"..:1\"]",
            "host of chief:0 must be a name or an address, given `..:1`",
        ),
    ];
    for (text, expected) in cases {
        let problem = hosts(&cluster(&format!("[cluster]\n{text}\n"))).unwrap_err();
        assert!(problem.message.contains(expected), "{}", problem.message);
    }
}

#[test]
fn a_host_that_is_not_there_is_told_with_those_that_are() {
    let hosts = hosts(&cluster(
        "[cluster]\nchief = [\"node-1:1\"]\nps = [\"node-2:1\"]\n",
    ))
    .unwrap();
    let text = only("nod-2", hosts.clone()).unwrap_err().render();
    assert!(
        text.contains("node-1, node-2") && text.contains("did you mean `node-2`?"),
        "{text}"
    );
    assert_eq!(
        names(&only("node-2", hosts).unwrap()),
        ["node-2 trainyard-ps@0.service"]
    );
}

#[test]
fn a_model_folder_that_hosts_cannot_share_is_refused() {
    let paths = [
        "runs/census",
        "/srv/%h",
        "/srv/a\nb",
        "/srv/\"quoted\"",
        "/home/anna/census",
        "/tmp/census",
    ];
    for path in paths {
        let problem = model(Path::new(path)).unwrap_err();
        assert!(
            problem.message.contains("model_dir must be"),
            "{}",
            problem.message
        );
    }
}
