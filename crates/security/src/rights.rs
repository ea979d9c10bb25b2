//! Which role may call what.

use trainyard_cluster_spec::Role::{self, Chief, Ps, Worker};

/// Who leads.
const LEADS: &[Role] = &[Chief];
/// Who trains.
const TRAINS: &[Role] = &[Chief, Worker];
/// Who keeps parameters.
const KEEPS: &[Role] = &[Ps];
/// Every task of the training cluster.
const ALL: &[Role] = &[Chief, Worker, Ps];

/// Returns the roles that may call a method, by its path (`/package.Service/Method`); nothing where there is no such
/// method. The evaluator calls none: it reads the model folder.
pub fn roles_of(path: &str) -> Option<&'static [Role]> {
    let (service, method) = path.strip_prefix('/')?.split_once('/')?;
    match (service, method) {
        ("trainyard.v1.ParameterService", "Claim" | "Prepare" | "Open" | "SaveShard" | "Finish") => {
            Some(LEADS)
        }
        ("trainyard.v1.ParameterService", "OpenSession" | "Step" | "CloseSession") => Some(TRAINS),
        ("trainyard.v1.ParameterService", "Status") => Some(ALL),
        ("trainyard.v1.ReplicaService", "Watch" | "Appoint" | "Dismiss") => Some(LEADS),
        ("trainyard.v1.ReplicaService", "Follow") => Some(KEEPS),
        ("trainyard.v1.SessionService", "StandBy") => Some(LEADS),
        (
            "trainyard.v1.SessionService",
            "Register" | "Heartbeat" | "Attend" | "NextShard" | "FormGroup" | "Leave",
        )
        | ("trainyard.v1.CollectiveService", "Greet" | "Exchange" | "Abort") => Some(TRAINS),
        ("grpc.health.v1.Health", "Check" | "Watch" | "List")
        | ("grpc.reflection.v1.ServerReflection", "ServerReflectionInfo") => Some(ALL),
        _ => None,
    }
}
