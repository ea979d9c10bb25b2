//! `[parameter_servers]`: durability, memory and guard of parameter servers.

use serde::Serialize;
use trainyard_diagnostic::{Bound, Section, Takes, section};

use crate::{Durability, Guard, Nonfinite};

/// Least and largest length of a log at which a checkpoint is requested, in bytes.
const LOG_BYTES_MIN: u64 = 1 << 20;
const LOG_BYTES_MAX: u64 = 1 << 50;
/// Least memory budget of a server, in bytes.
const MEMORY_BYTES_MIN: u64 = 1 << 20;
/// Latest pushes of a session whose rejections a server counts.
const LATEST_PUSHES: u64 = 64;
/// Rejected pushes among these after which a task is quarantined, by default.
const QUARANTINE_AFTER: u32 = 16;

section! {
    /// Durability, memory and guard of parameter servers.
    #[derive(Debug, Clone, Copy, PartialEq, Serialize)]
    pub struct ParameterServersConfig {
        /// what a server must do before it acknowledges a push: `none`, apply it; `shared_memory`, write it to a log in
        /// memory that outlives the process; `replica`, write it to that log and hand it to the next server, which takes
        /// over when this server dies, so two servers are needed
        /// ([operations.md](operations.md#a-parameter-server-that-dies)). Jobs without parameter servers keep no log
        durability: Durability = choice("durability", &Durability::NAMES).or(Durability::SharedMemory);
        /// maximum bytes of a server's log in shared memory, of which three eighths are for its cuts; what does not fit is
        /// written to files in the server's state folder; 0 = all of it. A log takes at most half of what the file system
        /// in memory has free
        shared_memory_bytes_max: Option<u64> = integer(0..=LOG_BYTES_MAX).optional(
            "1 GiB, and an eighth of the memory limit of the server's control group at most"
        );
        /// when a server's log reaches this many bytes, the server requests a checkpoint, after which the log starts again;
        /// at least 1 MiB
        log_bytes_max: u64 = integer(LOG_BYTES_MIN..=LOG_BYTES_MAX).or(4 << 30);
        /// maximum bytes that a server may hold of parameters and what grows with them
        /// ([operations.md](operations.md#memory-of-a-parameter-server)); at least 1 MiB
        memory_bytes_max: Option<u64> = integer(MEMORY_BYTES_MIN..=LOG_BYTES_MAX).optional("what the memory limit of its control group leaves");
        /// bounds on the gradients of a batch, [below](#parameter_serversguard)
        guard: GuardSection = custom(read_guard, guard_takes, "").or(GuardSection::default()).said("as below");
    }
}

section! {
    /// Keys of `[parameter_servers.guard]`.
    #[derive(Debug)]
    pub(crate) struct GuardKeys {
        /// action when the loss or a gradient is infinite or NaN. `reject`: the batch updates nothing and is not repeated.
        /// `zero`: such gradients become 0 and the others count. `halt`: the job fails, as in `tf.estimator`
        nonfinite: Nonfinite = choice("policy", &Nonfinite::NAMES).or(Nonfinite::Reject);
        /// maximum Euclidean norm of all gradients of a batch together, after clipping; a batch above it is rejected
        max_norm: Option<f32> = single(Bound::Positive).optional("any");
        /// maximum absolute value of a gradient; a batch above it is rejected
        max_abs: Option<f32> = single(Bound::Positive).optional(
            "any below 2^50, about 1.1e15: update rules add up squares of gradients in float32"
        );
        /// a task is quarantined when this many of its latest 64 pushes were rejected, 0 to 64; 0 = never
        quarantine_after: u32 = integer(0..=LATEST_PUSHES).or(QUARANTINE_AFTER);
    }
}

/// Bounds on the values of a push, and the bound on rejections.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct GuardSection {
    /// Bounds on the values of a push.
    #[serde(flatten)]
    pub bounds: Guard,
    /// Rejected pushes among the latest 64 of a task after which the task is excluded; 16 by default, 0 = never.
    pub quarantine_after: u32,
}

impl Default for GuardSection {
    fn default() -> Self {
        Self {
            bounds: Guard::default(),
            quarantine_after: QUARANTINE_AFTER,
        }
    }
}

fn guard_takes() -> Takes {
    Takes::Table(GuardKeys::keys())
}

fn read_guard(section: &Section<'_>, key: &'static str) -> Option<GuardSection> {
    let section = section.section(key)?;
    let keys = GuardKeys::read_keys(&section);
    section.finish();
    let keys = keys?;
    Some(GuardSection {
        bounds: Guard {
            nonfinite: keys.nonfinite,
            max_norm: keys.max_norm,
            max_abs: keys.max_abs,
        },
        quarantine_after: keys.quarantine_after,
    })
}

pub(crate) fn read(section: Section<'_>) -> Option<ParameterServersConfig> {
    let servers = ParameterServersConfig::read_keys(&section);
    section.finish();
    servers
}
