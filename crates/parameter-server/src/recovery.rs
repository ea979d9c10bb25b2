//! Recovery of a store from its log.
//!
//! Recovery starts at the newest segment whose checkpoint was committed, and replays all later changes in order. A
//! log that cannot be trusted is set aside, and the server starts empty. The chief then restores all servers from a
//! checkpoint.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use tokio::time::Instant;
use tracing::debug;
use trainyard_checkpoint::Checkpoint;
use trainyard_cluster_spec::Task;
use trainyard_parameter_store::StoreMetadata;
use trainyard_protocol::v1;
use trainyard_write_ahead_log::{
    Bad, Folder, Next, Origin, Record, SegmentFile, SegmentHeader, SegmentReader, boot,
};

use crate::LocalServer;
use crate::log_cut::file::CutError;
use crate::log_cut::folders::CutFolders;
use crate::log_cut::{CutChain, Root, Start, find};
use crate::record::LogState;
use crate::record::{HEAD, head};
use crate::replay::{Replay, ReplayError, Source, StartError, base, complete};

/// Most chunks of records that are read ahead of the replay.
const READ_AHEAD: usize = 8;
/// Approximate size of a chunk in bytes of bodies, large enough that the threads seldom wait for each other.
const LOT_BYTES: usize = 512 << 10;

/// Reason why a log is not used.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The log is intact, but cannot be used: for example, it belongs to another cluster, server or prepared epoch.
    #[error("{0}")]
    Foreign(String),
    /// The log is intact, but the model directory has none of the checkpoints that it continues from.
    #[error(
        "it continues none of the checkpoints in model_dir: this is expected if model_dir is an older copy"
    )]
    NoCheckpoint,
    /// The log is damaged.
    #[error("{0}")]
    Damaged(String),
    /// The log is intact, and the checkpoint that it goes on from is damaged.
    #[error("the checkpoint that it goes on from is damaged: {0}")]
    BaseDamaged(String),
    /// The log is intact, and the values that it goes on from could not be read. A retry may succeed.
    #[error("the values that the log goes on from cannot be restored: {0}")]
    Base(String),
    /// The process may not take the memory of the values that the log leads to.
    #[error("{0}")]
    NoRoom(String),
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] trainyard_write_ahead_log::Error),
    /// The checkpoints cannot be read.
    #[error(transparent)]
    Checkpoint(#[from] trainyard_checkpoint::Error),
    /// The model directory cannot be read.
    #[error(transparent)]
    ModelDir(#[from] trainyard_model_dir::Error),
}

impl From<CutError> for Problem {
    fn from(error: CutError) -> Self {
        match error {
            CutError::Damaged(what) => Self::Damaged(what),
            CutError::Io(source) => Self::Log(trainyard_write_ahead_log::Error::Io {
                doing: "read a cut of",
                path: Default::default(),
                source: Arc::new(source),
            }),
        }
    }
}

/// The expected origin of a log.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    /// Folder of the checkpoints.
    pub model_dir: &'a Path,
    /// Cluster of the model directory, if it has one.
    pub owner: Option<u128>,
    /// Prepared epoch of the job.
    pub prepared_epoch: u64,
    /// The server.
    pub task: Task,
}

/// The result of a recovery.
#[derive(Debug)]
pub struct Recovered {
    /// Segment to which the log appends.
    pub last: SegmentFile,
    /// State of the log at its end.
    pub log_state: LogState,
    /// The cluster.
    pub owner: u128,
    /// Changes since the log was begun.
    pub changes: u64,
    /// Time in which the values that the log continues from were read or initialized.
    pub prepared: Duration,
    /// Replayed records.
    pub records: u64,
    /// Bytes of the replayed records.
    pub bytes: u64,
    /// Time of the replay.
    pub took: Duration,
    /// Bytes of a torn end that were truncated.
    pub torn: u64,
}

/// A segment, its head, and a reader of the records after the head.
pub struct Begun {
    /// The segment.
    pub file: SegmentFile,
    /// Its header.
    pub header: SegmentHeader,
    /// First record of the head.
    pub head: v1::LoggedHead,
    /// State of the store that the head describes, without its values.
    pub metadata: StoreMetadata,
    /// Records of the head.
    pub records: Vec<Record>,
    /// Reader of the records after the head.
    pub reader: SegmentReader,
}

/// Returns the cluster that a log belongs to, or `None` if no segment has a header.
///
/// # Errors
/// The log cannot be read.
pub fn owner(folder: &Folder) -> Result<Option<u128>, trainyard_write_ahead_log::Error> {
    for segment in folder.segments()?.iter().rev() {
        match segment.read() {
            Ok(reader) => return Ok(Some(reader.header().origin.owner)),
            Err(trainyard_write_ahead_log::Error::NoSegment { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Recovers the store of `shard`; `None` if there is no log.
///
/// # Errors
/// The log cannot be used. The store is then in an undefined state and must not be served.
pub fn recover(
    shard: &LocalServer,
    folder: &Folder,
    expected: Expected<'_>,
) -> Result<Option<Recovered>, Problem> {
    shard.store().set_replaying(true);
    let recovered = replay_log(shard, folder, expected);
    shard.store().set_replaying(false);
    recovered
}

fn replay_log(
    shard: &LocalServer,
    folder: &Folder,
    expected: Expected<'_>,
) -> Result<Option<Recovered>, Problem> {
    let started = Instant::now();
    let cut_folders = CutFolders::of_folder(folder)?;
    cut_folders.remove_unfinished().map_err(CutError::from)?;
    let mut segments = folder.segments()?;
    if let Some(lost) = folder.lost_memory().filter(|_| !segments.is_empty()) {
        return Err(Problem::Foreign(lost.to_owned()));
    }
    if let Some(last) = segments.last()
        && last.boot()?.is_some_and(|of_log| of_log != boot())
    {
        let lost = "the machine has restarted since, and the log lay in its memory";
        return Err(Problem::Foreign(lost.to_owned()));
    }
    let mut torn = 0;
    let mut begun = None;
    // Searches from the newest segment for one to start from.
    let mut place = segments.len();
    let mut cuts: Vec<(u64, u64)> = Vec::new();
    let mut checkpoints: Vec<v1::CutCheckpoint> = Vec::new();
    while place > 0 {
        place -= 1;
        let Some(found) = begin(
            &segments[place],
            Position::of(place, segments.len()),
            expected,
        )?
        else {
            // The head was never complete, so nothing in this segment was acknowledged.
            let segment = segments.remove(place);
            torn += segment.bytes();
            folder.remove(&segment)?;
            continue;
        };
        let start = if found.head.log_cut {
            cut_of(&cut_folders, &found, expected)?
        } else {
            let epoch = found.header.origin.prepared_epoch;
            let prepare = base(&found.head, epoch, expected.model_dir)?;
            let secs = found.head.seconds;
            prepare.map(|prepare| Start {
                prepare,
                secs,
                chain: CutChain::new(secs),
                ..Start::default()
            })
        };
        if let Some(start) = start {
            begun = Some((found, start));
            break;
        }
        if !found.head.log_cut {
            let segment = found.header.number;
            let version = found.head.version;
            cuts.insert(0, (segment, version));
            checkpoints.insert(
                0,
                v1::CutCheckpoint {
                    segment,
                    version,
                    seconds: found.head.seconds,
                },
            );
        }
    }
    let Some((found, start)) = begun else {
        if segments.is_empty() {
            return Ok(None);
        }
        return Err(Problem::NoCheckpoint);
    };
    for (segment, number) in segments[place..].iter().zip(found.header.number..) {
        if segment.number != number {
            let path = segment.path().display();
            return Err(Problem::Damaged(format!(
                "{path}: segment {number} is missing before it"
            )));
        }
    }
    let Origin {
        owner,
        prepared_epoch,
        ..
    } = found.header.origin;
    let source = Source {
        owner,
        shard: expected.task.index,
        prepared_epoch,
    };
    let Start {
        prepare,
        secs,
        cuts: over,
        mut chain,
    } = start;
    checkpoints
        .into_iter()
        .for_each(|checkpoint| chain.add_checkpoint(checkpoint));
    // The times of rows of dynamic tables count from those seconds.
    shard.store().set_clock(secs);
    let replay = Replay::prepare_with(shard, source, &found.head, &found.metadata, &prepare, over);
    let mut replay = replay.map_err(|error| match error {
        StartError::Base(what) => base_problem(&prepare, what),
        StartError::NoRoom(what) => Problem::NoRoom(what),
        StartError::Cut(error) => error.into(),
        StartError::Log(what) => damaged(&found.file, 0, what),
    })?;
    let files = segments[place..].to_vec();
    let mut last = files.last().cloned().unwrap_or_else(|| found.file.clone());
    replay.log_state.cuts = cuts;
    replay.log_state.chain = chain;
    let prepared = started.elapsed();
    let end = make_again(&mut replay, folder, found, files)?;
    last = last.ending_at(end.place);
    torn += end.torn;
    shard.go_on();
    let Replay {
        log_state,
        records,
        bytes,
        changes,
        ..
    } = replay;
    let took = started.elapsed().saturating_sub(prepared);
    Ok(Some(Recovered {
        last,
        log_state,
        owner,
        changes,
        prepared,
        records,
        bytes,
        took,
        torn,
    }))
}

/// Returns the problem of values that could not be restored. Only a check of every byte tells a damaged checkpoint from a
/// failed read.
fn base_problem(prepare: &v1::PrepareRequest, what: String) -> Problem {
    if prepare.checkpoint.is_empty() {
        return Problem::Base(what);
    }
    let verified =
        Checkpoint::open(Path::new(&prepare.checkpoint)).and_then(|checkpoint| checkpoint.verify());
    match verified {
        Err(error) if !error.is_unreadable() => Problem::BaseDamaged(error.to_string()),
        _ => Problem::Base(what),
    }
}

/// Returns what leads to the state at the begin of a segment that goes on from a cut of the log; `None` if the cut was not
/// written, or goes on from nothing that exists.
fn cut_of(
    folders: &CutFolders,
    found: &Begun,
    expected: Expected<'_>,
) -> Result<Option<Start>, Problem> {
    let (Some(prepare), true) = (&found.head.prepare, found.head.log_cut) else {
        return Ok(None);
    };
    let header = found.header;
    let epoch = header.origin.prepared_epoch;
    let committed = |root: Root<'_>| {
        let head = match root {
            Root::Checkpoint(version) => v1::LoggedHead {
                prepare: Some(prepare.clone()),
                prepared_only: false,
                version,
                ..v1::LoggedHead::default()
            },
            Root::Prepared(prepare) => v1::LoggedHead {
                prepare: Some(prepare.clone()),
                prepared_only: true,
                ..v1::LoggedHead::default()
            },
        };
        base(&head, epoch, expected.model_dir).map_err(Problem::from)
    };
    find(folders, header.origin, header.number, prepare, committed)
}

/// Returns the problem of a log that is damaged at a byte of a segment.
pub fn damaged(file: &SegmentFile, place: u64, what: impl std::fmt::Display) -> Problem {
    Problem::Damaged(format!(
        "{}: at byte {place}: {what}",
        file.path().display()
    ))
}

/// Returns the conversion of a failure to read a segment.
pub fn io(file: &SegmentFile) -> impl Fn(std::io::Error) -> Problem {
    let path = file.path().to_owned();
    move |error| {
        let source = Arc::new(error);
        Problem::Log(trainyard_write_ahead_log::Error::Io {
            doing: "read",
            path: path.clone(),
            source,
        })
    }
}

/// The position of a segment in its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// Other segments follow, so this one is whole.
    Earlier,
    /// The server may have died while it wrote this one.
    Last,
}

impl Position {
    /// Returns the position of the segment at `place` of `count`.
    pub fn of(place: usize, count: usize) -> Self {
        if place + 1 == count {
            Self::Last
        } else {
            Self::Earlier
        }
    }
}

/// Reads the head of a segment; `None` if it is torn, which only the last segment may be.
pub fn begin(
    file: &SegmentFile,
    position: Position,
    expected: Expected<'_>,
) -> Result<Option<Begun>, Problem> {
    let is_last = position == Position::Last;
    let mut reader = match file.read() {
        Ok(reader) => reader,
        Err(trainyard_write_ahead_log::Error::NoSegment { .. })
            if is_last && file.bytes() < trainyard_write_ahead_log::SEGMENT_HEADER_BYTES as u64 =>
        {
            return Ok(None);
        }
        Err(trainyard_write_ahead_log::Error::NoSegment { path, what }) => {
            return Err(Problem::Damaged(format!("{}: {what}", path.display())));
        }
        Err(error) => return Err(error.into()),
    };
    let header = reader.header();
    let Expected {
        owner,
        prepared_epoch,
        task,
        ..
    } = expected;
    let origin = header.origin;
    if Some(origin.owner) != owner {
        let this = owner.map_or_else(|| "none".to_owned(), |owner| format!("{owner:032x}"));
        let message = format!(
            "it is of cluster {:032x}, model_dir is of cluster {this}",
            origin.owner
        );
        return Err(Problem::Foreign(message));
    }
    if origin.member as usize != task.index {
        return Err(Problem::Foreign(format!(
            "it is of ps:{}, this is {task}",
            origin.member
        )));
    }
    if origin.prepared_epoch != prepared_epoch {
        let message = format!(
            "the job has gone on without it: its values were prepared in epoch {}, those of the job in epoch {prepared_epoch}",
            origin.prepared_epoch
        );
        return Err(Problem::Foreign(message));
    }
    let record = match reader.read().map_err(io(file))? {
        Next::Record(record) if record.kind == HEAD => record,
        Next::Record(record) => {
            return Err(damaged(
                file,
                record.place,
                "a segment must begin with its head",
            ));
        }
        Next::End if is_last => return Ok(None),
        Next::End => {
            return Err(damaged(
                file,
                reader.place(),
                "a segment without records is not the last",
            ));
        }
        Next::Bad(bad) => {
            if is_last && reader.proof_of_damage(&bad).map_err(io(file))?.is_none() {
                return Ok(None);
            }
            return Err(damaged(file, bad.place, bad.fault));
        }
    };
    let (head, mut metadata) =
        head(record.body.clone()).map_err(|what| damaged(file, record.place, what))?;
    let mut records = vec![record];
    for part in 0..head.parts + u32::from(head.replaced) {
        let record = match reader.read().map_err(io(file))? {
            Next::Record(record) => record,
            // The records of a head are written together, so this one may be torn like the first.
            Next::End | Next::Bad(_) if is_last => return Ok(None),
            Next::End => return Err(damaged(file, reader.place(), "it ends within its head")),
            Next::Bad(bad) => return Err(damaged(file, bad.place, bad.fault)),
        };
        let completed = complete(&mut metadata, &head, part, record.kind, &record.body);
        completed.map_err(|what| damaged(file, record.place, what))?;
        records.push(record);
    }
    Ok(Some(Begun {
        file: file.clone(),
        header,
        head,
        metadata,
        records,
        reader,
    }))
}

/// The end of a log.
#[derive(Debug, Clone, Copy)]
struct End {
    /// Length of the good part of the last file.
    place: u64,
    /// Bytes of a torn record behind it.
    torn: u64,
}

/// Message of the reading thread.
enum Read {
    /// Records of the segment at this index.
    Records(usize, Vec<Record>),
    /// The end of the log.
    End(End),
    Problem(Problem),
}

/// Replays all changes, while a thread reads ahead. Returns the end of the last segment.
fn make_again(
    replay: &mut Replay,
    folder: &Folder,
    first: Begun,
    files: Vec<SegmentFile>,
) -> Result<End, Problem> {
    std::thread::scope(|scope| {
        let (sender, receiver) = sync_channel(READ_AHEAD);
        let names = files.clone();
        scope.spawn(move || {
            let mut reader = Some(first.reader);
            for (place, file) in files.iter().enumerate() {
                let opened = match reader.take() {
                    Some(reader) => Ok(reader),
                    None => file.read().map_err(Problem::from),
                };
                let mut lot = Vec::new();
                let mut bytes = 0;
                let is_last = place + 1 == files.len();
                // Returns the end of the log behind its last segment.
                let read = opened.and_then(|mut reader| {
                    loop {
                        match reader.read().map_err(io(file))? {
                            Next::Record(record) => {
                                bytes += record.body.len();
                                lot.push(record);
                                if bytes >= LOT_BYTES {
                                    bytes = 0;
                                    let full = Read::Records(place, std::mem::take(&mut lot));
                                    if sender.send(full).is_err() {
                                        return Ok(None);
                                    }
                                }
                            }
                            Next::End if is_last => {
                                let place = reader.place();
                                return Ok(Some(End { place, torn: 0 }));
                            }
                            Next::End => {
                                // The process that began the next segment has not written to this one again.
                                if let Err(error) = folder.give_back(file, reader.place()) {
                                    debug!(%error, "a file of the log keeps more space than it needs");
                                }
                                return Ok(None);
                            }
                            Next::Bad(bad) if !is_last => {
                                return Err(damaged(file, bad.place, bad.fault));
                            }
                            Next::Bad(bad) => {
                                match reader.proof_of_damage(&bad).map_err(io(file))? {
                                    Some(later) => {
                                        let what = format!(
                                            "{}; it was whole when byte {later} was written",
                                            bad.fault
                                        );
                                        return Err(damaged(file, bad.place, what));
                                    }
                                    None => {
                                        let Bad { place, rest, .. } = bad;
                                        return Ok(Some(End { place, torn: rest }));
                                    }
                                }
                            }
                        }
                    }
                });
                drop(sender.send(Read::Records(place, lot)));
                match read {
                    Ok(None) => {}
                    Ok(Some(end)) => return drop(sender.send(Read::End(end))),
                    Err(problem) => return drop(sender.send(Read::Problem(problem))),
                }
            }
        });
        follow(replay, receiver, &names)
    })
}

fn follow(
    replay: &mut Replay,
    receiver: Receiver<Read>,
    files: &[SegmentFile],
) -> Result<End, Problem> {
    while let Ok(read) = receiver.recv() {
        match read {
            Read::Records(place, records) => {
                for record in records {
                    let made = replay.make(record.kind, record.number, record.body);
                    made.map_err(|error| match error {
                        ReplayError::NoRoom(what) => Problem::NoRoom(what),
                        ReplayError::Unfit(what) => damaged(&files[place], record.place, what),
                    })?;
                }
            }
            Read::End(end) => return Ok(end),
            Read::Problem(problem) => return Err(problem),
        }
    }
    Err(Problem::Damaged(
        "the log was not read to its end".to_owned(),
    ))
}

#[cfg(test)]
pub mod tests;
