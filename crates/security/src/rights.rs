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

/// Returns whether a method, by its path, is for the clients of a server of predictions. No task calls them, and no client
/// calls a method of a task.
pub fn is_for_clients(path: &str) -> bool {
    let called = path.strip_prefix('/').and_then(|path| path.split_once('/'));
    match called {
        Some(("tensorflow.serving.PredictionService", method)) => matches!(
            method,
            "Predict" | "Classify" | "Regress" | "MultiInference" | "GetModelMetadata"
        ),
        Some(("tensorflow.serving.ModelService", method)) => method == "GetModelStatus",
        Some(("inference.GRPCInferenceService", method)) => matches!(
            method,
            "ServerLive"
                | "ServerReady"
                | "ModelReady"
                | "ServerMetadata"
                | "ModelMetadata"
                | "ModelInfer"
        ),
        Some(("grpc.health.v1.Health", method)) => matches!(method, "Check" | "Watch" | "List"),
        Some(("grpc.reflection.v1.ServerReflection", method)) => method == "ServerReflectionInfo",
        _ => false,
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

    /// The methods that the files of a folder of `proto` declare.
    fn declared(folder: &str, package: &str) -> BTreeSet<String> {
        let proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto");
        let folder = proto.join(folder);
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
                        found.insert(format!("/{package}.{service}/{name}"));
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
        let declared = declared("trainyard/v1", "trainyard.v1");
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
    fn clients_may_call_every_method_of_the_server_of_predictions_and_none_of_a_task() {
        let inference = declared("inference", "inference");
        let serving = declared("tensorflow_serving", "tensorflow.serving");
        assert_eq!((inference.len(), serving.len()), (6, 6));
        for path in inference.iter().chain(&serving) {
            assert!(is_for_clients(path), "{path}");
            assert_eq!(roles_of(path), None, "{path}");
        }
        let of_tasks = declared("trainyard/v1", "trainyard.v1");
        assert!(!of_tasks.iter().any(|path| is_for_clients(path)));
        assert!(!is_for_clients("/inference.GRPCInferenceService/Reset"));
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
