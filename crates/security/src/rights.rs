//! The methods that each role may call.

use trainyard_cluster_spec::Role::{self, Chief, Ps, Worker};

/// The role that leads the job.
const LEADS: &[Role] = &[Chief];
/// The roles that train.
const TRAINS: &[Role] = &[Chief, Worker];
/// The role that holds parameters.
const KEEPS: &[Role] = &[Ps];
/// Every task of the training cluster.
const ALL: &[Role] = &[Chief, Worker, Ps];

/// Returns the roles that may call a method, by its path (`/package.Service/Method`), or `None` if the method does
/// not exist. The evaluator calls no method: it reads the model directory.
pub fn roles_of(path: &str) -> Option<&'static [Role]> {
    let (service, method) = path.strip_prefix('/')?.split_once('/')?;
    match (service, method) {
        (
            "trainyard.v1.ParameterService",
            "Claim" | "Prepare" | "Open" | "SaveShard" | "Finish",
        ) => Some(LEADS),
        ("trainyard.v1.ParameterService", "OpenSession" | "Step" | "CloseSession") => Some(TRAINS),
        ("trainyard.v1.ParameterService", "Status") => Some(ALL),
        ("trainyard.v1.ReplicaService", "Watch" | "SetRole" | "Dismiss") => Some(LEADS),
        ("trainyard.v1.ReplicaService", "Follow") => Some(KEEPS),
        ("trainyard.v1.SessionService", "StandBy") => Some(LEADS),
        (
            "trainyard.v1.SessionService",
            "Register" | "Heartbeat" | "KeepAlive" | "NextShard" | "JoinGroup" | "Leave",
        )
        | ("trainyard.v1.CollectiveService", "Handshake" | "Exchange" | "Abort") => Some(TRAINS),
        ("grpc.health.v1.Health", "Check" | "Watch" | "List")
        | ("grpc.reflection.v1.ServerReflection", "ServerReflectionInfo") => Some(ALL),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use trainyard_cluster_spec::Role::Evaluator;

    use super::*;

    /// The table of docs/security.md, "Who may do what", method by method. It repeats the code on purpose, as an
    /// independent check.
    const ROWS: &[(&str, &[Role])] = &[
        ("/trainyard.v1.ParameterService/Claim", &[Chief]),
        ("/trainyard.v1.ParameterService/Prepare", &[Chief]),
        ("/trainyard.v1.ParameterService/Open", &[Chief]),
        ("/trainyard.v1.ParameterService/SaveShard", &[Chief]),
        ("/trainyard.v1.ParameterService/Finish", &[Chief]),
        ("/trainyard.v1.ReplicaService/Watch", &[Chief]),
        ("/trainyard.v1.ReplicaService/SetRole", &[Chief]),
        ("/trainyard.v1.ReplicaService/Dismiss", &[Chief]),
        ("/trainyard.v1.SessionService/StandBy", &[Chief]),
        (
            "/trainyard.v1.ParameterService/OpenSession",
            &[Chief, Worker],
        ),
        ("/trainyard.v1.ParameterService/Step", &[Chief, Worker]),
        (
            "/trainyard.v1.ParameterService/CloseSession",
            &[Chief, Worker],
        ),
        ("/trainyard.v1.SessionService/Register", &[Chief, Worker]),
        ("/trainyard.v1.SessionService/Heartbeat", &[Chief, Worker]),
        ("/trainyard.v1.SessionService/KeepAlive", &[Chief, Worker]),
        ("/trainyard.v1.SessionService/NextShard", &[Chief, Worker]),
        ("/trainyard.v1.SessionService/JoinGroup", &[Chief, Worker]),
        ("/trainyard.v1.SessionService/Leave", &[Chief, Worker]),
        (
            "/trainyard.v1.CollectiveService/Handshake",
            &[Chief, Worker],
        ),
        ("/trainyard.v1.CollectiveService/Exchange", &[Chief, Worker]),
        ("/trainyard.v1.CollectiveService/Abort", &[Chief, Worker]),
        ("/trainyard.v1.ReplicaService/Follow", &[Ps]),
        (
            "/trainyard.v1.ParameterService/Status",
            &[Chief, Worker, Ps],
        ),
        ("/grpc.health.v1.Health/Check", &[Chief, Worker, Ps]),
        ("/grpc.health.v1.Health/Watch", &[Chief, Worker, Ps]),
        ("/grpc.health.v1.Health/List", &[Chief, Worker, Ps]),
        (
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
            &[Chief, Worker, Ps],
        ),
    ];

    /// The methods that the files of `proto` declare.
    fn declared() -> BTreeSet<String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto/trainyard/v1");
        let mut found = BTreeSet::new();
        for entry in std::fs::read_dir(folder).expect("the folder of the interfaces") {
            let text =
                std::fs::read_to_string(entry.expect("a file").path()).expect("an interface");
            let mut service = String::new();
            for line in text.lines() {
                let mut words = line
                    .split(|letter: char| !letter.is_alphanumeric())
                    .filter(|word| !word.is_empty());
                match (words.next(), words.next()) {
                    (Some("service"), Some(name)) => service = name.to_owned(),
                    (Some("rpc"), Some(name)) => {
                        found.insert(format!("/trainyard.v1.{service}/{name}"));
                    }
                    _ => {}
                }
            }
        }
        found
    }

    #[test]
    fn each_role_may_call_what_the_table_gives_it_and_nothing_else() {
        for (path, callers) in ROWS {
            let may = roles_of(path).unwrap_or_default();
            for role in [Chief, Worker, Ps, Evaluator] {
                assert_eq!(
                    may.contains(&role),
                    callers.contains(&role),
                    "{role} calls {path}"
                );
            }
        }
    }

    #[test]
    fn every_method_has_a_row_and_every_row_is_a_method() {
        let declared = declared();
        assert!(
            declared.contains("/trainyard.v1.ParameterService/Claim"),
            "{declared:?}"
        );
        let rows: BTreeSet<String> = ROWS.iter().map(|(path, _)| (*path).to_owned()).collect();
        let ours = rows
            .iter()
            .filter(|path| path.starts_with("/trainyard."))
            .cloned()
            .collect();
        assert_eq!(declared, ours);
        assert_eq!(rows.len(), ROWS.len(), "a row is there twice");
    }

    #[test]
    fn nobody_may_call_what_has_no_row() {
        for path in [
            "/trainyard.v1.ParameterService/Reset",
            "/trainyard.v2.ParameterService/Status",
            "/ParameterService/Status",
            "trainyard.v1.ParameterService/Status",
            "/trainyard.v1.ParameterService/status",
            "",
        ] {
            assert_eq!(roles_of(path), None, "{path}");
        }
    }
}
