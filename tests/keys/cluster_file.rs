//! Rows of a cluster file.

use crate::keys::row::{Row, row};
use crate::keys::see::count;
use crate::keys::site::{Ran, UP_IN_FILE};

const CLUSTER: [(&str, &str); 3] = [
    ("cluster file.cluster.chief", "[\"127.0.0.1:{port0}\"]"),
    ("cluster file.cluster.worker", "[\"127.0.0.1:{port1}\"]"),
    ("cluster file.cluster.ps", "[\"127.0.0.1:{port2}\"]"),
];

/// Tasks that were started.
fn tasks(ran: &Ran) -> String {
    let names = ran
        .output
        .split(" started; the admin port listens task=")
        .skip(1);
    let mut names: Vec<&str> = names
        .filter_map(|rest| rest.split_whitespace().next())
        .collect();
    names.sort_unstable();
    names.join(" ")
}

pub(crate) fn rows() -> Vec<Row> {
    let of = |key: &str| {
        row(format!("cluster file.{key}"))
            .by(UP_IN_FILE)
            .over(&CLUSTER)
    };
    let all = "chief:0 ps:0 worker:0";
    let more = |role: &str, value: &str, after: &str| {
        of(&format!("cluster.{role}"))
            .to(value)
            .sees(tasks)
            .gives(all, after)
    };
    let mut rows = vec![
        // An address of no host (RFC 5737).
        of("cluster.chief")
            .to("[\"192.0.2.1:{port0}\"]")
            .fails("cannot listen on 192.0.2.1"),
        more(
            "worker",
            "[\"127.0.0.1:{port1}\", \"127.0.0.1:{port3}\"]",
            "chief:0 ps:0 worker:0 worker:1",
        ),
        more(
            "ps",
            "[\"127.0.0.1:{port2}\", \"127.0.0.1:{port3}\"]",
            "chief:0 ps:0 ps:1 worker:0",
        ),
        more(
            "evaluator",
            "[\"127.0.0.1:{port3}\"]",
            "chief:0 evaluator:0 ps:0 worker:0",
        ),
        // What is there for nobody is looked for, and found missing by its name.
        of("security.tls_dir")
            .to("\"{run}/nowhere/{role}-{index}\"")
            .fails("nowhere/"),
        of("security.token_file")
            .to("\"{run}/nothing/{role}.toml\"")
            .fails("nothing/"),
        of("security.insecure_no_auth")
            .sees(tasks)
            .over(&[("cluster file.cluster.chief", "[\"0.0.0.0:{port0}\"]")])
            .to("true")
            .fails_before("--insecure-no-auth"),
    ];
    for role in ["chief", "worker", "ps", "evaluator"] {
        let evaluator = [("cluster file.cluster.evaluator", "[\"127.0.0.1:{port4}\"]")];
        let listens = |ran: &Ran| count(ran, "address=127.0.0.1:{port5}");
        let row = of(&format!("admin.{role}"))
            .over(&evaluator)
            .to("[\"127.0.0.1:{port5}\"]");
        rows.push(row.sees(listens).gives("0", "1"));
    }
    rows
}
