//! Bringing a store back from its log.
//!
//! It begins with the newest segment whose checkpoint was committed, and makes all changes behind it again, in their
//! order. Whatever cannot be trusted is put aside, and the server comes up with nothing: then the chief restores all of
//! them from a checkpoint.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use prost::Message as _;
use tokio::time::Instant;
use trainyard_cluster_client::LocalShard;
use trainyard_cluster_spec::Task;
use trainyard_parameter_store::{
    Claim, Identity, PartStanding, Push, Replaced, Standing, State, Store, Update,
};
use trainyard_protocol::{convert, v1};
use trainyard_write_ahead_log::{Folder, Next, Reader, Record, SegmentFile, SegmentHeader, boot};

use crate::journal::{Course, committed};
use crate::record::{CHANGE, HEAD, LoggedPush, PART, PUSH, REPLACED, head, push};
use crate::service::plan_of;

/// Lots of records that are read before they are made again.
const READ_AHEAD: usize = 8;
/// Bytes of the bodies of a lot, about: one thread seldom waits for the other.
const LOT_BYTES: usize = 512 << 10;

/// Why a log is not used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    /// It is sound, and of something else.
    #[error("{0}")]
    Foreign(String),
    /// It is damaged.
    #[error("{0}")]
    Damaged(String),
    /// It cannot be read.
    #[error(transparent)]
    Log(#[from] trainyard_write_ahead_log::Error),
}

/// What a log must belong to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected<'a> {
    pub(crate) model_dir: &'a Path,
    pub(crate) owner: Option<u128>,
    pub(crate) memory: u64,
    pub(crate) task: Task,
}

/// A store that was brought back.
#[derive(Debug)]
pub(crate) struct Recovered {
    /// The segment that the log goes on in.
    pub(crate) last: SegmentFile,
    pub(crate) course: Course,
    pub(crate) owner: u128,
    /// Time in which the values were read that the log goes on from, or drawn.
    pub(crate) prepared: Duration,
    /// Records made again, their bytes, and the time that took.
    pub(crate) records: u64,
    pub(crate) bytes: u64,
    pub(crate) took: Duration,
    /// Bytes of a torn end that were cut off.
    pub(crate) torn: u64,
    /// Whether the machine was started anew since the log was begun.
    pub(crate) other_boot: bool,
}

type SegmentReader = Reader<BufReader<File>>;

/// A segment, its head and how to go on behind it.
struct Begun {
    file: SegmentFile,
    header: SegmentHeader,
    head: v1::LoggedHead,
    standing: Standing,
    reader: SegmentReader,
}

/// Brings the store of `shard` back. Nothing, where there is no log.
///
/// # Errors
/// The log cannot be used. The store may hold anything then: it must not be served.
pub(crate) fn recover(
    shard: &LocalShard,
    folder: &Folder,
    expected: Expected<'_>,
) -> Result<Option<Recovered>, Problem> {
    let started = Instant::now();
    let (mut segments, mut torn) = (folder.segments()?, 0);
    let mut begun = None;
    // From the newest on, until there is one that can be begun with.
    let mut place = segments.len();
    let mut cuts = Vec::new();
    while place > 0 {
        place -= 1;
        let Some(found) = begin(folder, &segments[place], place + 1 == segments.len(), expected)? else {
            // Its head never came to be whole: nothing that it might have held was acknowledged.
            let segment = segments.remove(place);
            torn += segment.bytes;
            folder.remove(&segment)?;
            continue;
        };
        if let Some(prepare) = base(&found, expected) {
            begun = Some((found, prepare));
            break;
        }
        cuts.insert(0, (found.header.number, found.head.version));
    }
    let Some((mut found, prepare)) = begun else {
        if segments.is_empty() {
            return Ok(None);
        }
        let first = segments[0].path.display();
        return Err(Problem::Damaged(format!("{first}: no checkpoint is left of which it goes on")));
    };
    for (segment, number) in segments[place..].iter().zip(found.header.number..) {
        if segment.number != number {
            let path = segment.path.display();
            return Err(Problem::Damaged(format!("{path}: segment {number} is missing before it")));
        }
    }
    let mut replay = Replay::prepare(shard, &mut found, &prepare, expected)?;
    let files = segments[place..].to_vec();
    let mut last = files.last().cloned().unwrap_or_else(|| found.file.clone());
    let other_boot = found.header.boot != boot();
    let owner = found.header.origin.owner;
    replay.course.cuts = cuts;
    let prepared = started.elapsed();
    let end = replay.make_again(folder, found, files)?;
    if let Some((place, rest)) = end {
        folder.cut(&last, place)?;
        (last.bytes, torn) = (place, torn + rest);
    }
    shard.go_on();
    let Replay { course, records, bytes, .. } = replay;
    let took = started.elapsed().saturating_sub(prepared);
    Ok(Some(Recovered { last, course, owner, prepared, records, bytes, took, torn, other_boot }))
}

fn damaged(file: &SegmentFile, place: u64, what: impl std::fmt::Display) -> Problem {
    Problem::Damaged(format!("{}: at byte {place}: {what}", file.path.display()))
}

fn io(file: &SegmentFile) -> impl Fn(std::io::Error) -> Problem {
    let path = file.path.clone();
    move |error| {
        let source = Arc::new(error);
        Problem::Log(trainyard_write_ahead_log::Error::Io { doing: "read", path: path.clone(), source })
    }
}

/// Reads the head of a segment. Nothing, where it is torn: of the last one only.
fn begin(
    folder: &Folder,
    file: &SegmentFile,
    is_last: bool,
    expected: Expected<'_>,
) -> Result<Option<Begun>, Problem> {
    let mut reader = match folder.read(file) {
        Ok(reader) => reader,
        Err(trainyard_write_ahead_log::Error::NoSegment { .. })
            if is_last && file.bytes < trainyard_write_ahead_log::SEGMENT_HEADER_BYTES as u64 =>
        {
            return Ok(None);
        }
        Err(trainyard_write_ahead_log::Error::NoSegment { path, what }) => {
            return Err(Problem::Damaged(format!("{}: {what}", path.display())));
        }
        Err(error) => return Err(error.into()),
    };
    let header = reader.header();
    let Expected { owner, memory, task, .. } = expected;
    let origin = header.origin;
    if Some(origin.owner) != owner {
        let this = owner.map_or_else(|| "none".to_owned(), |owner| format!("{owner:032x}"));
        let message = format!("it is of cluster {:032x}, model_dir is of cluster {this}", origin.owner);
        return Err(Problem::Foreign(message));
    }
    if origin.member as usize != task.index {
        return Err(Problem::Foreign(format!("it is of ps:{}, this is {task}", origin.member)));
    }
    if origin.memory != memory {
        let message = format!(
            "the job has gone on without it: its values were prepared in epoch {}, those of the job in epoch {memory}",
            origin.memory
        );
        return Err(Problem::Foreign(message));
    }
    let record = match reader.read().map_err(io(file))? {
        Next::Record(record) if record.kind == HEAD => record,
        Next::Record(record) => {
            return Err(damaged(file, record.place, "a segment must begin with its head"));
        }
        Next::End if is_last => return Ok(None),
        Next::End => return Err(damaged(file, reader.place(), "a segment without records is not the last")),
        Next::Bad(bad) => {
            if is_last && reader.proof_of_damage(&bad).map_err(io(file))?.is_none() {
                return Ok(None);
            }
            return Err(damaged(file, bad.place, bad.fault));
        }
    };
    let (head, mut standing) = head(record.body).map_err(|what| damaged(file, record.place, what))?;
    for part in 0..head.parts + u32::from(head.replaced) {
        let record = match reader.read().map_err(io(file))? {
            Next::Record(record) => record,
            // As the head: what follows it was written with it.
            Next::End | Next::Bad(_) if is_last => return Ok(None),
            Next::End => return Err(damaged(file, reader.place(), "it ends within its head")),
            Next::Bad(bad) => return Err(damaged(file, bad.place, bad.fault)),
        };
        let wrong = |what: String| damaged(file, record.place, what);
        let given = push(&record.body).map_err(wrong)?;
        let values = trainyard_parameter_store::Gradients::copy(&given.gradients);
        let LoggedPush { batch, batches, pulled_version, contribution, selection, .. } = given;
        match (record.kind, contribution) {
            (PART, Some(place)) if part < head.parts => {
                standing.parts.push(PartStanding { place, batch, batches, selection, values });
            }
            (REPLACED, _) if part == head.parts => {
                standing.replaced = Some(Replaced { version: pulled_version, selection, values });
            }
            (kind, _) => return Err(wrong(format!("a record of kind {kind} within the head"))),
        }
    }
    Ok(Some(Begun { file: file.clone(), header, head, standing, reader }))
}

/// Returns what a segment's store is prepared with, if that is still there.
fn base(found: &Begun, expected: Expected<'_>) -> Option<v1::PrepareRequest> {
    let prepare = found.head.prepare.clone()?;
    if found.head.prepared_only {
        let there = prepare.checkpoint.is_empty() || Path::new(&prepare.checkpoint).is_dir();
        return there.then_some(prepare);
    }
    let (place, num_ps) = (prepare.place as usize, prepare.num_ps as usize);
    let path = committed(expected.model_dir, place, num_ps, found.header.origin.memory, found.head.version)?;
    let path = std::path::absolute(&path).unwrap_or(path);
    let checkpoint = path.to_string_lossy().into_owned();
    Some(v1::PrepareRequest { checkpoint, warm_start: String::new(), ..prepare })
}

/// A store whose changes are being made again.
struct Replay<'a> {
    store: &'a Store,
    owner: u128,
    course: Course,
    synchronous: bool,
    records: u64,
    bytes: u64,
}

/// What the thread that reads passes on.
enum Read {
    /// Of the segment at this place.
    Records(usize, Vec<Record>),
    /// The end of all, or where the last segment is torn: its good bytes, and those behind them.
    End(Option<(u64, u64)>),
    Problem(Problem),
}

impl<'a> Replay<'a> {
    /// Prepares the store as it was when the segment was begun.
    fn prepare(
        shard: &'a LocalShard,
        found: &mut Begun,
        prepare: &v1::PrepareRequest,
        expected: Expected<'_>,
    ) -> Result<Self, Problem> {
        let Begun { file, header, head, standing, .. } = found;
        let (store, owner) = (shard.store(), header.origin.owner);
        let wrong = |error: String| damaged(file, 0, error);
        let (plan, place, slices) =
            plan_of(prepare, expected.task.index).map_err(|status| wrong(status.message().to_owned()))?;
        let synchronous = plan.update == Update::Sync;
        store.set_clock(standing.secs);
        let claim = Claim { cluster_id: owner, epoch: head.cluster_epoch };
        store.claim(&claim).map_err(|error| wrong(error.to_string()))?;
        let course = Course {
            prepare: v1::PrepareRequest { checkpoint: prepare.checkpoint.clone(), ..prepare.clone() },
            epoch: head.cluster_epoch,
            open: head.open,
            restarts: head.restarts,
            memory: header.origin.memory,
            cuts: Vec::new(),
        };
        let replay = Self { store, owner, course, synchronous, records: 0, bytes: 0 };
        let identity = replay.identity(expected.task, 0, 0);
        shard.prepare_now(&identity, plan, place, slices).map_err(|error| wrong(error.to_string()))?;
        let state = if head.open { State::Open } else { State::Prepared };
        let resumed = store.resume(header.origin.memory, state, standing);
        resumed.map_err(|error| wrong(error.to_string()))?;
        Ok(replay)
    }

    fn identity(&self, task: Task, session: u64, seq: u64) -> Identity {
        Identity { cluster_id: self.owner, epoch: self.course.epoch, task, incarnation: 0, session, seq }
    }

    /// Makes all changes again, while a thread reads ahead. Returns where the last segment is torn.
    fn make_again(
        &mut self,
        folder: &Folder,
        first: Begun,
        files: Vec<SegmentFile>,
    ) -> Result<Option<(u64, u64)>, Problem> {
        std::thread::scope(|scope| {
            let (sender, receiver) = sync_channel(READ_AHEAD);
            let names = files.clone();
            scope.spawn(move || {
                let mut reader = Some(first.reader);
                for (place, file) in files.iter().enumerate() {
                    let opened = match reader.take() {
                        Some(reader) => Ok(reader),
                        None => folder.read(file).map_err(Problem::from),
                    };
                    let (mut lot, mut bytes) = (Vec::new(), 0);
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
                                            return Ok(Some(None));
                                        }
                                    }
                                }
                                Next::End => return Ok(None),
                                Next::Bad(bad) if place + 1 < files.len() => {
                                    return Err(damaged(file, bad.place, bad.fault));
                                }
                                Next::Bad(bad) => match reader.proof_of_damage(&bad).map_err(io(file))? {
                                    Some(later) => {
                                        let what = format!(
                                            "{}; it was whole when byte {later} was written",
                                            bad.fault
                                        );
                                        return Err(damaged(file, bad.place, what));
                                    }
                                    None => return Ok(Some(Some((bad.place, bad.rest)))),
                                },
                            }
                        }
                    });
                    drop(sender.send(Read::Records(place, lot)));
                    match read {
                        Ok(None) => {}
                        Ok(Some(torn)) => return drop(sender.send(Read::End(torn))),
                        Err(problem) => return drop(sender.send(Read::Problem(problem))),
                    }
                }
                drop(sender.send(Read::End(None)));
            });
            self.follow(receiver, &names)
        })
    }

    fn follow(
        &mut self,
        receiver: Receiver<Read>,
        files: &[SegmentFile],
    ) -> Result<Option<(u64, u64)>, Problem> {
        while let Ok(read) = receiver.recv() {
            match read {
                Read::Records(place, records) => {
                    for record in records {
                        let (at, bytes) = (record.place, record.body.len() as u64);
                        self.make(record).map_err(|what| damaged(&files[place], at, what))?;
                        (self.records, self.bytes) = (self.records + 1, self.bytes + bytes);
                    }
                }
                Read::End(torn) => return Ok(torn),
                Read::Problem(problem) => return Err(problem),
            }
        }
        Err(Problem::Damaged("the log was not read to its end".to_owned()))
    }

    /// Makes one change again.
    fn make(&mut self, record: Record) -> Result<(), String> {
        match record.kind {
            // What a later segment begins with is where the store has come to.
            HEAD | PART | REPLACED => Ok(()),
            PUSH => self.push(&record),
            CHANGE => self.change(record),
            kind => Err(format!("a record of kind {kind}, which is not known")),
        }
    }

    fn push(&mut self, record: &Record) -> Result<(), String> {
        let logged = push(&record.body)?;
        let task = convert::task_from_wire(logged.task).map_err(|error| error.to_string())?;
        let identity = self.identity(task, logged.session, logged.seq);
        self.store.set_clock(logged.secs);
        let push = Push {
            batch: logged.batch,
            batches: logged.batches,
            pulled_version: logged.pulled_version,
            contribution: logged.contribution,
            selection: Some(logged.selection),
            gradients: &logged.gradients,
            rejected: logged.rejected,
        };
        let pushed = self.store.push(&identity, &push).map_err(|error| cannot(&error))?;
        let same = self.synchronous || pushed.version == record.number;
        if pushed.duplicate || !same {
            let (given, expected) = (pushed.version, record.number);
            return Err(format!("a push led to version {given}, where it had led to {expected}"));
        }
        Ok(())
    }

    fn change(&mut self, record: Record) -> Result<(), String> {
        use v1::logged_change::Change;
        let change = v1::LoggedChange::decode(record.body).map_err(|error| error.to_string())?;
        let named = |ticket: v1::LoggedTicket| {
            let task = convert::task_from_wire(ticket.task).map_err(|error| error.to_string())?;
            Ok::<_, String>(self.identity(task, ticket.session, ticket.seq))
        };
        let chief = self.identity(Task { role: trainyard_cluster_spec::Role::Chief, index: 0 }, 0, 0);
        let made = match change.change.ok_or("a change that says nothing")? {
            Change::Claim(epoch) => {
                self.course.epoch = epoch;
                self.store.claim(&Claim { cluster_id: self.owner, epoch })
            }
            Change::Open(_) => {
                self.course.open = true;
                self.store.open(&chief)
            }
            Change::Finish(_) => self.store.finish(&chief),
            Change::OpenSession(ticket) => {
                let identity = named(ticket)?;
                let fingerprint = self.store.status().layout_fingerprint;
                self.store.open_session(&identity, fingerprint, 0).map(drop)
            }
            Change::CloseSession(ticket) => {
                let Identity { task, session, .. } = named(ticket)?;
                self.store.close_session(&chief, task, session)
            }
            Change::Reserve(ticket) => self.store.reserve_again(&named(ticket)?),
            Change::Use(ticket) => self.store.use_again(&named(ticket)?),
            Change::Rest(task) => {
                let task = convert::task_from_wire(Some(task)).map_err(|error| error.to_string())?;
                self.store.rest_again(task);
                Ok(())
            }
            Change::Restart(restarts) => {
                self.course.restarts = restarts;
                Ok(())
            }
        };
        made.map_err(|error| cannot(&error))
    }
}

fn cannot(error: &trainyard_parameter_store::Error) -> String {
    format!("a change that cannot be made again: {error}")
}

#[cfg(test)]
mod tests;
