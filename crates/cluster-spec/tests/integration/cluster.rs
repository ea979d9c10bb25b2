//! Cluster files, local clusters and their messages.

use std::path::Path;

use proptest::prelude::*;
use trainyard_cluster_spec::{ClusterSpec, LocalCounts, Role, Task, TfConfig};
use trainyard_diagnostic::render_all;

#[test]
fn every_shipped_cluster_loads_and_survives_a_round_trip() {
    for name in ["cluster-local.toml", "cluster-hosts.toml"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../configs")
            .join(name);
        let cluster =
            ClusterSpec::load(&path).unwrap_or_else(|problems| panic!("{}", render_all(&problems)));
        let again = ClusterSpec::from_toml(Path::new("again"), &cluster.to_toml()).unwrap();
        assert_eq!(
            (&again.tasks, &again.admin),
            (&cluster.tasks, &cluster.admin),
            "{name}"
        );
        assert_eq!(again.fingerprint(), cluster.fingerprint());
        let task = Task {
            role: Role::Worker,
            index: 1,
        };
        let config = TfConfig::parse(&cluster.to_tf_config(task).to_string()).unwrap();
        assert_eq!(
            (config.task, config.cluster.unwrap().tasks),
            (task, cluster.tasks)
        );
    }
}

#[test]
fn every_mistake_of_a_cluster_file_is_reported() {
    let text = "[cluster]\nchief = [\"a:1\"]\nworkr = [\"c:1\"]\nps = [\"a:1\", \"noport\"]\n[admn]\nps = [\"x:1\"]\n";
    let rendered = render_all(&ClusterSpec::from_toml(Path::new("c.toml"), text).unwrap_err());
    for part in [
        "unknown key `workr`",
        "did you mean `worker`?",
        "address of ps:0 must be its own, a:1 is chief:0's",
        "address of ps:1 must be host:port, given `noport`",
        "unknown key `admn`",
        "c.toml:4:6",
    ] {
        assert!(rendered.contains(part), "no `{part}` in\n{rendered}");
    }
}

#[test]
fn a_second_chief_stands_by_and_is_no_task_of_its_own() {
    let text = "[cluster]\nchief = [\"a:1\", \"b:1\"]\nworker = [\"c:1\"]\nps = [\"d:1\"]\n";
    let read = |text: &str| ClusterSpec::from_toml(Path::new("c.toml"), text);
    let cluster = read(text).expect("two chiefs");
    assert_eq!(cluster.chiefs(), ["a:1", "b:1"]);
    assert_eq!((cluster.tasks.len(), cluster.num_worker_replicas()), (3, 2));
    let second = cluster.task(Role::Chief, 1).expect("it can be started");
    assert_eq!(cluster.address(second), Some("b:1"));
    assert_eq!(read(&cluster.to_toml()).as_ref(), Ok(&cluster));
    let alone = read(&text.replace(", \"b:1\"", "")).expect("one chief");
    assert_ne!(
        alone.fingerprint(),
        cluster.fingerprint(),
        "all must know where the job may be led"
    );
    for (given, rule) in [
        (
            "[\"unix:/a\", \"b:1\"]",
            "must be host:port, given `unix:/a`",
        ),
        ("[]", "must have a chief, given none"),
    ] {
        let rendered = render_all(&read(&text.replace("[\"a:1\", \"b:1\"]", given)).unwrap_err());
        assert!(rendered.contains(rule), "{rendered}");
    }
}

#[test]
fn a_task_that_does_not_exist_is_answered_with_those_that_do() {
    let cluster = ClusterSpec::local(
        LocalCounts {
            ps: 2,
            workers: 0,
            evaluators: 1,
        },
        &[7001, 7002, 7003],
    );
    let text = cluster.task(Role::Ps, 3).unwrap_err().render();
    assert!(
        text.contains("task index 3 is out of range for role `ps`"),
        "{text}"
    );
    assert!(
        text.contains("the cluster has 2 ps: 0 = 127.0.0.1:7002, 1 = 127.0.0.1:7003"),
        "{text}"
    );
    assert!(text.contains("use index 0 or 1"), "{text}");
    assert!(
        cluster
            .task(Role::Worker, 0)
            .unwrap_err()
            .message
            .contains("the cluster has no worker")
    );
    assert!(cluster.task(Role::Evaluator, 0).is_ok());
}

#[test]
fn mistakes_in_tf_config_show_where() {
    let text = r#"{"cluster": {"chief": ["hôte:1"], "worker": ["b:1" "c:1"]}}"#;
    let expected = format!(
        "error[E1003]: TF_CONFIG is not valid JSON: expected `,` or `]` at line 1 column 52\n \
         --> environment variable TF_CONFIG:1:52\n  |\n1 | {text}\n  | {}^\n  \
         = help: unset TF_CONFIG, or set it to a JSON object with `cluster` and `task`\n",
        " ".repeat(51)
    );
    assert_eq!(TfConfig::parse(text).unwrap_err().render(), expected);
    let text = r#"{"cluster": {"chief": ["a:1"], "ps": ["b:1", "c:1"]}, "task": {"type": "ps", "index": 3}}"#;
    let expected = "error[E1004]: task index 3 is out of range for role `ps`\n  \
                    from: environment variable TF_CONFIG, at task.index\n \
                    = the cluster has 2 ps: 0 = b:1, 1 = c:1\n \
                    = help: use index 0 or 1, or add a ps address to the cluster\n";
    assert_eq!(TfConfig::parse(text).unwrap_err().render(), expected);
    let workers = r#"{"cluster": {"chief": ["a:1"], "workers": ["b:1"]}, "task": {"type": "chief", "index": 0}}"#;
    let rendered = TfConfig::parse(workers).unwrap_err().render();
    assert!(
        rendered.contains("unknown job `workers`") && rendered.contains("did you mean `worker`?"),
        "{rendered}"
    );
    let number = TfConfig::parse(r#"{"model_dir": 5}"#).unwrap_err();
    assert_eq!(
        (number.code.name, number.message.as_str()),
        ("E1007", "model_dir must be a string, given 5")
    );
}

#[test]
fn local_counts_are_read_and_checked() {
    let counts = LocalCounts::parse("local:ps=2,worker=3", 1)
        .unwrap()
        .unwrap();
    assert_eq!(
        (counts, counts.ports()),
        (
            LocalCounts {
                ps: 2,
                workers: 3,
                evaluators: 1
            },
            6
        )
    );
    assert!(LocalCounts::parse("cluster.toml", 1).is_none());
    for bad in [
        "local:ps=65",
        "local:ps=x",
        "local:wrkr=1",
        "local:evaluator=2",
    ] {
        assert!(LocalCounts::parse(bad, 1).unwrap().is_err(), "{bad}");
    }
}

proptest! {
    #[test]
    fn arbitrary_text_never_panics(text in "\\PC{0,200}", json in "[\\[\\]{}\":,0-9a-z]{0,80}") {
        let _ = TfConfig::parse(&text);
        let _ = TfConfig::parse(&json);
        let _ = ClusterSpec::from_toml(Path::new("x"), &text);
    }
}
