//! Limits of memory, disks and open files: what a task has from its start, and what becomes short for a while. All of it is
//! drawn; nothing is done here.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::Draw;

const MIB: u64 = 1 << 20;

/// Least memory of a server, in bytes: it refuses to start with less.
pub(super) const SERVER_MEMORY_BYTES_MIN: u64 = 64 * MIB;

/// What becomes short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// Memory of a server's control group, whose limit comes down.
    Memory,
    /// The file system in memory of a server's log, which another program fills.
    LogMemory,
    /// The disk of a server's log, which another program fills.
    LogDisk,
    /// The disk of the model directory, which another program fills.
    ModelDisk,
}

impl Resource {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Memory,
        Self::LogMemory,
        Self::LogDisk,
        Self::ModelDisk,
    ];
}

impl fmt::Display for Resource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Memory => "memory",
            Self::LogMemory => "log memory",
            Self::LogDisk => "log disk",
            Self::ModelDisk => "model disk",
        })
    }
}

/// What a parameter server has, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ServerLimits {
    /// Limit of its control group.
    pub(super) memory_bytes: u64,
    /// Size of the file system in memory of its log.
    pub(super) log_memory_bytes: u64,
    /// Free space of the disk of its log.
    pub(super) log_disk_bytes: u64,
}

impl ServerLimits {
    /// Draws limits from what hardly starts a server to what leaves room.
    pub(super) fn drawn(draw: &mut Draw) -> Self {
        Self {
            memory_bytes: size(draw, 48 * MIB, 192 * MIB),
            log_memory_bytes: size(draw, 2 * MIB, 64 * MIB),
            log_disk_bytes: size(draw, 16 * MIB, 128 * MIB),
        }
    }
}

/// Draws the free space of the disk of the model directory, in bytes.
pub(super) fn model_disk_bytes(draw: &mut Draw) -> u64 {
    size(draw, 3 * MIB, 64 * MIB)
}

/// The limits of open files of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OpenFiles {
    pub(super) soft: u64,
    pub(super) hard: u64,
}

impl OpenFiles {
    /// Draws a hard limit from what a task cannot live with to a usual soft one, and a soft limit below it.
    pub(super) fn drawn(draw: &mut Draw) -> Self {
        let hard = size(draw, 16, 1024);
        let soft = size(draw, 12, hard);
        Self { soft, hard }
    }
}

/// Draws a whole number from `least` to `most`, small ones as often as large ones.
fn size(draw: &mut Draw, least: u64, most: u64) -> u64 {
    let ratio = most as f64 / least as f64;
    (least as f64 * ratio.powf(draw.fraction())) as u64
}

/// What becomes of calls on files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// They fail with EIO.
    Error,
    /// Each takes so long.
    Delay(Duration),
}

/// System calls that fail together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Calls {
    names: &'static str,
    /// Whether only those on files of the job are meant. The others have no other files.
    is_on_files: bool,
}

const CALLS: [Calls; 8] = [
    of_files("openat,read,pread64,write,pwrite64,statx,getdents64,fsync"),
    of_files("openat"),
    of_files("read,pread64"),
    of_files("write,pwrite64"),
    of_all("fsync,fdatasync"),
    of_all("fallocate,ftruncate"),
    of_all("rename,renameat,renameat2,link,linkat"),
    of_all("mkdir,mkdirat,unlink,unlinkat,rmdir"),
];

const fn of_files(names: &'static str) -> Calls {
    Calls {
        names,
        is_on_files: true,
    }
}

const fn of_all(names: &'static str) -> Calls {
    Calls {
        names,
        is_on_files: false,
    }
}

/// Calls on files that do not work for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileFault {
    calls: Calls,
    effect: Effect,
    /// One in so many calls does not work.
    distance: u64,
}

/// Longest time of a call on slow files.
const DELAY_MAX: Duration = Duration::from_secs(2);

impl FileFault {
    /// Draws calls that fail.
    pub(super) fn errors(draw: &mut Draw) -> Self {
        Self::drawn(draw, Effect::Error)
    }

    /// Draws calls that are slow.
    pub(super) fn delays(draw: &mut Draw) -> Self {
        let delay = DELAY_MAX.mul_f64(draw.fraction());
        Self::drawn(draw, Effect::Delay(delay))
    }

    fn drawn(draw: &mut Draw, effect: Effect) -> Self {
        Self {
            calls: CALLS[draw.below(CALLS.len() as u64) as usize],
            effect,
            distance: 1 + draw.below(3),
        }
    }

    /// Whether it needs to know the files of the job.
    pub(super) fn is_on_files(&self) -> bool {
        self.calls.is_on_files
    }

    /// Returns the arguments of strace that make calls on `files` behave so.
    pub(super) fn arguments(&self, files: &[PathBuf]) -> Vec<String> {
        let names = self.calls.names;
        let effect = match self.effect {
            Effect::Error => "error=EIO".to_owned(),
            Effect::Delay(delay) => format!("delay_enter={}", delay.as_micros()),
        };
        let distance = self.distance;
        let mut arguments = vec![
            format!("--trace={names}"),
            format!("--inject={names}:{effect}:when=1+{distance}"),
        ];
        let files = files.iter().map(|path| path.to_string_lossy().into_owned());
        arguments.extend(files.flat_map(|path| ["-P".to_owned(), path]));
        arguments
    }
}

impl fmt::Display for FileFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.calls.names;
        match self.effect {
            Effect::Error => write!(formatter, "EIO of {names}"),
            Effect::Delay(delay) => write!(formatter, "{delay:.1?} more of {names}"),
        }?;
        match self.distance {
            1 => Ok(()),
            distance => write!(formatter, ", one in {distance}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_of_their_seed_and_within_their_bounds() {
        for seed in 0..200 {
            let limits = ServerLimits::drawn(&mut Draw::new(seed));
            assert_eq!(limits, ServerLimits::drawn(&mut Draw::new(seed)));
            assert!((48 * MIB..=192 * MIB).contains(&limits.memory_bytes));
            let files = OpenFiles::drawn(&mut Draw::new(seed));
            assert!(
                12 <= files.soft && files.soft <= files.hard && files.hard <= 1024,
                "{files:?}"
            );
        }
    }

    #[test]
    fn a_fault_of_files_names_the_files_of_the_job_to_the_tracer() {
        let fault = FileFault {
            calls: CALLS[1],
            effect: Effect::Delay(Duration::from_millis(3)),
            distance: 2,
        };
        assert_eq!(
            fault.arguments(&["a".into()]),
            [
                "--trace=openat",
                "--inject=openat:delay_enter=3000:when=1+2",
                "-P",
                "a"
            ]
        );
        assert_eq!(fault.to_string(), "3.0ms more of openat, one in 2");
    }
}
