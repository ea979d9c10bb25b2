//! Replay of the changes of a log, one by one, from its files or from a primary.

use std::io::ErrorKind;
use std::path::Path;

use bytes::Bytes;
use prost::Message as _;
use trainyard_checkpoint::{Error, committed_folder, folder_name, is_committed};
use trainyard_cluster_spec::{Role, Task};
use trainyard_model_dir::absolute;
use trainyard_parameter_store::{
    Claim, Gradients as _, Identity, MicroBatchRecord, OpenSession, Replaced, State, StoreMetadata,
    Update,
};
use trainyard_protocol::{convert, v1};

use crate::LocalServer;
use crate::journal::committed;
use crate::log_cut::file::{CutError, CutFile};
use crate::log_cut::{CutChain, of_whole_cut};
use crate::plan_of;
use crate::record::LogState;
use crate::record::{self, CHANGE, HEAD, PART, PUSH, REPLACED, step_of};
use crate::restore::InitialSource;

/// The origin of a log.
#[derive(Debug, Clone, Copy)]
pub struct Source {
    /// The cluster.
    pub owner: u128,
    /// Index of the shard.
    pub shard: usize,
    /// Prepared epoch of the store.
    pub prepared_epoch: u64,
}

/// Reason why the state at the begin of a segment cannot be restored, by its origin.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The values that the log goes on from cannot be read, or the store cannot hold them. It says nothing about the log.
    #[error("{0}")]
    Base(String),
    /// The process may not take the memory of the values.
    #[error("{0}")]
    NoRoom(String),
    /// A cut of the log.
    #[error(transparent)]
    Cut(#[from] CutError),
    /// The records of the log do not fit the values.
    #[error("{0}")]
    Log(String),
}

/// Reason why a change cannot be made again.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The process may not take the memory. It says nothing about the log.
    #[error("{0}")]
    NoRoom(String),
    /// The change does not fit the store, so one of them is damaged.
    #[error("{0}")]
    Unfit(String),
}

impl From<String> for ReplayError {
    fn from(what: String) -> Self {
        Self::Unfit(what)
    }
}

impl From<&str> for ReplayError {
    fn from(what: &str) -> Self {
        Self::Unfit(what.to_owned())
    }
}

impl From<ReplayError> for String {
    fn from(error: ReplayError) -> Self {
        error.to_string()
    }
}

impl From<StartError> for String {
    fn from(error: StartError) -> Self {
        error.to_string()
    }
}

/// A store whose changes are being replayed.
#[derive(Debug)]
pub struct Replay {
    shard: LocalServer,
    owner: u128,
    /// State of the log after the latest record.
    pub log_state: LogState,
    synchronous: bool,
    /// Records so far.
    pub records: u64,
    /// Bytes of the records so far.
    pub bytes: u64,
    /// Changes since the log was begun.
    pub changes: u64,
}

/// Adds to the metadata a record that follows a head: a micro-batch of a synchronous step, or replaced values.
/// `place` counts from 0.
///
/// # Errors
/// The record is neither, or is out of order.
pub fn complete(
    metadata: &mut StoreMetadata,
    head: &v1::LoggedHead,
    place: u32,
    kind: u16,
    body: &Bytes,
) -> Result<(), String> {
    let (_, given) = record::values(body)?;
    let header = given.header;
    let selection = given.selection.unwrap_or_default();
    let values = given.gradients.copy();
    match (kind, header.micro_batch) {
        (PART, Some(of)) if place < head.parts => {
            metadata.parts.push(MicroBatchRecord {
                place: of,
                batch: header.batch,
                batches: header.batches,
                selection,
                values,
            });
        }
        (REPLACED, _) if place == head.parts => {
            metadata.replaced = Some(Replaced {
                version: header.pulled_version,
                selection,
                values,
            });
        }
        (kind, _) => return Err(format!("a record of kind {kind} within the head")),
    }
    Ok(())
}

/// Returns the request that prepares a store for a segment: the request in the head, or a request that restores the
/// committed checkpoint of the head's version. `None` if the checkpoint no longer exists.
///
/// # Errors
/// The model directory cannot be read.
pub fn base(
    head: &v1::LoggedHead,
    prepared_epoch: u64,
    model_dir: &Path,
) -> Result<Option<v1::PrepareRequest>, Error> {
    let Some(prepare) = head.prepare.clone() else {
        return Ok(None);
    };
    if head.prepared_only {
        if prepare.checkpoint.is_empty() {
            return Ok(Some(prepare));
        }
        // The path is of the host and the time of the log.
        let name = folder_name(Path::new(&prepare.checkpoint));
        let Ok(from) = committed_folder(model_dir, &name) else {
            return Ok(None);
        };
        let from = absolute(&from);
        let there = is_folder(&from)? || is_committed(&from)?;
        let checkpoint = from.to_string_lossy().into_owned();
        let prepare = v1::PrepareRequest {
            checkpoint,
            ..prepare
        };
        return Ok(there.then_some(prepare));
    }
    let place = prepare.place as usize;
    let num_ps = prepare.num_ps as usize;
    let Some(path) = committed(model_dir, place, num_ps, prepared_epoch, head.version)? else {
        return Ok(None);
    };
    let path = absolute(&path);
    let checkpoint = path.to_string_lossy().into_owned();
    Ok(Some(v1::PrepareRequest {
        checkpoint,
        warm_start: String::new(),
        ..prepare
    }))
}

/// Returns the state of a log at the head of a segment. `prepare` is the request that prepares the store for it.
pub fn log_state_of(
    head: &v1::LoggedHead,
    prepared_epoch: u64,
    prepare: v1::PrepareRequest,
) -> LogState {
    LogState {
        prepare,
        epoch: head.cluster_epoch,
        open: head.open,
        restarts: head.restarts,
        prepared_epoch,
        cuts: Vec::new(),
        chain: CutChain::default(),
    }
}

/// Returns whether a path on this machine is a folder. A path that cannot be checked is an error, because it may be
/// one.
fn is_folder(path: &Path) -> Result<bool, Error> {
    match std::fs::metadata(path) {
        Ok(metadata) => Ok(metadata.is_dir()),
        Err(source)
            if matches!(
                source.kind(),
                ErrorKind::NotFound | ErrorKind::NotADirectory
            ) =>
        {
            Ok(false)
        }
        Err(source) => Err(trainyard_model_dir::Error::io("look at", path)(source).into()),
    }
}

impl Replay {
    /// Prepares the store with its state at the begin of a segment.
    ///
    /// # Errors
    /// The store cannot hold what the head says.
    pub fn prepare(
        shard: &LocalServer,
        source: Source,
        head: &v1::LoggedHead,
        metadata: &StoreMetadata,
        prepare: &v1::PrepareRequest,
    ) -> Result<Self, StartError> {
        shard.store().set_clock(metadata.secs);
        Self::prepare_with(shard, source, head, metadata, prepare, Vec::new())
    }

    /// As [`Replay::prepare`], from a whole cut of the log.
    ///
    /// # Errors
    /// The store cannot hold what the head and the cut say.
    pub fn prepare_from(
        shard: &LocalServer,
        source: Source,
        head: &v1::LoggedHead,
        metadata: &StoreMetadata,
        cut: CutFile,
    ) -> Result<Self, StartError> {
        let prepare = head.prepare.as_ref().map(of_whole_cut);
        let prepare = prepare.ok_or_else(|| {
            StartError::Log("a head without the request that prepared the store".to_owned())
        })?;
        Self::prepare_with(shard, source, head, metadata, &prepare, vec![cut])
    }

    /// As [`Replay::prepare`]. The rows of `cuts` are laid over the values that `prepare` gives.
    ///
    /// # Errors
    /// The store cannot hold what the head and the cuts say.
    pub(crate) fn prepare_with(
        shard: &LocalServer,
        source: Source,
        head: &v1::LoggedHead,
        metadata: &StoreMetadata,
        prepare: &v1::PrepareRequest,
        cuts: Vec<CutFile>,
    ) -> Result<Self, StartError> {
        let Source {
            owner,
            shard: index,
            prepared_epoch,
        } = source;
        let store = shard.store();
        let (plan, place, slices) =
            plan_of(prepare, index).map_err(|refusal| StartError::Log(refusal.message))?;
        let synchronous = plan.update == Update::Sync;
        let claim = Claim {
            cluster_id: owner,
            epoch: head.cluster_epoch,
        };
        store
            .claim(&claim)
            .map_err(|error| StartError::Log(error.to_string()))?;
        let log_state = log_state_of(head, prepared_epoch, prepare.clone());
        let shard = shard.clone();
        let changes = head.changes;
        let replay = Self {
            shard,
            owner,
            log_state,
            synchronous,
            records: 0,
            bytes: 0,
            changes,
        };
        let identity = replay.identity(
            Task {
                role: Role::Ps,
                index,
            },
            0,
        );
        let whole = cuts.first().filter(|cut| cut.head.whole);
        let rules = whole.map(CutFile::initial_rows).transpose();
        let rules = rules?.map(InitialSource);
        replay
            .shard
            .prepare_by(&identity, plan, place, slices, rules.as_ref())
            .map_err(|error| {
                let what = error.to_string();
                if error.is_no_room() {
                    StartError::NoRoom(what)
                } else {
                    StartError::Base(what)
                }
            })?;
        for cut in cuts {
            cut.lay_over(replay.shard.store())?;
        }
        replay.shard.store().set_clock(metadata.secs);
        replay.shard.store().begin_log_cuts();
        let state = if head.open {
            State::Open
        } else {
            State::Prepared
        };
        let resumed = replay.shard.store().resume(prepared_epoch, state, metadata);
        resumed.map_err(|error| StartError::Log(error.to_string()))?;
        Ok(replay)
    }

    fn identity(&self, task: Task, session: u64) -> Identity {
        Identity {
            cluster_id: self.owner,
            epoch: self.log_state.epoch,
            task,
            incarnation: 0,
            session,
        }
    }

    /// Replays the change of one record.
    ///
    /// # Errors
    /// The change does not fit the store, or the memory.
    pub fn make(&mut self, kind: u16, number: u64, body: Bytes) -> Result<(), ReplayError> {
        (self.records, self.bytes) = (self.records + 1, self.bytes + body.len() as u64);
        self.changes += u64::from(is_change(kind));
        match kind {
            // The head of a later segment repeats the state that the store already has.
            HEAD | PART | REPLACED => Ok(()),
            PUSH => self.push(number, &body),
            CHANGE => self.change(body),
            kind => Err(format!("a record of kind {kind}, which is not known").into()),
        }
    }

    fn push(&mut self, number: u64, body: &Bytes) -> Result<(), ReplayError> {
        let logged = record::push(body)?;
        let identity = self.identity(logged.task, logged.session);
        self.shard.store().set_clock(logged.secs);
        let pushed = self
            .shard
            .store()
            .push(&identity, &logged.push)
            .map_err(|error| cannot(&error))?;
        let same = self.synchronous || pushed.version == number;
        if pushed.duplicate || !same {
            let given = pushed.version;
            let expected = number;
            return Err(
                format!("a push led to version {given}, where it had led to {expected}").into(),
            );
        }
        Ok(())
    }

    fn change(&mut self, body: Bytes) -> Result<(), ReplayError> {
        use v1::logged_change::Change;
        let change = v1::LoggedChange::decode(body).map_err(|error| error.to_string())?;
        let chief = self.identity(
            Task {
                role: Role::Chief,
                index: 0,
            },
            0,
        );
        let made = match change.change.ok_or("a change that says nothing")? {
            Change::Claim(epoch) => {
                self.log_state.epoch = epoch;
                self.shard.store().claim(&Claim {
                    cluster_id: self.owner,
                    epoch,
                })
            }
            Change::Open(_) => {
                self.log_state.open = true;
                self.shard.store().open(&chief)
            }
            Change::Finish(_) => self.shard.store().finish(&chief),
            Change::OpenSession(ticket) => {
                let step = step_of(&ticket)?;
                let identity = self.identity(step.task, step.session);
                let opening = OpenSession {
                    seq: step.seq,
                    layout_fingerprint: self.shard.store().status().layout_fingerprint,
                    data_shard: 0,
                };
                self.shard
                    .store()
                    .open_session(&identity, &opening)
                    .map(drop)
            }
            Change::CloseSession(ticket) => {
                let step = step_of(&ticket)?;
                self.shard
                    .store()
                    .close_session(&chief, step.task, step.session)
            }
            Change::Reserve(ticket) => self.shard.store().reserve_again(step_of(&ticket)?),
            Change::ReserveBeyond(ticket) => {
                self.shard.store().reserve_beyond_again(step_of(&ticket)?)
            }
            Change::Use(ticket) => self.shard.store().use_again(step_of(&ticket)?),
            Change::Idle(task) => {
                let task =
                    convert::task_from_wire(Some(task)).map_err(|error| error.to_string())?;
                self.shard.store().rest_again(task);
                Ok(())
            }
            Change::Restart(restarts) => {
                self.log_state.restarts = restarts;
                Ok(())
            }
        };
        made.map_err(|error| cannot(&error))
    }
}

fn cannot(error: &trainyard_parameter_store::Error) -> ReplayError {
    let what = format!("a change that cannot be made again: {error}");
    match error {
        trainyard_parameter_store::Error::NoRoom { .. } => ReplayError::NoRoom(what),
        _ => ReplayError::Unfit(what),
    }
}

/// Returns whether records of this kind change the store. Others describe its state.
pub fn is_change(kind: u16) -> bool {
    matches!(kind, PUSH | CHANGE)
}
