//! A replica of a shard. One of two replicas is primary, backup, or idle until the chief decides. A single one is always the
//! primary.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::watch;
use tracing::{error, info, warn};
use trainyard_cluster_spec::{Role as TaskRole, Task};
use trainyard_daemon::Context;
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_parameter_server::LocalServer;
use trainyard_parameter_server::journal::LogJournal;
use trainyard_parameter_server::log_cut::of_whole_cut;
use trainyard_parameter_server::log_cut::transfer::{Received, ReceivedCut};
use trainyard_parameter_server::record::LogState;
use trainyard_parameter_server::record::head;
use trainyard_parameter_server::replay::{Replay, Source, base, complete, log_state_of};
use trainyard_parameter_store::{Journal, StoreMetadata};
use trainyard_protocol::v1;
use trainyard_runtime::blocking;
use trainyard_write_ahead_log::Log;

use crate::durable::{cannot, log_of, open_folder, open_log_at};
use crate::initial_values::InitialValues;
use crate::log_cut_telemetry;
use crate::replication::log_sender::LogSender;
use crate::replication::receiving_mark::ReceivingMark;
use crate::replication::replica_role::{Order, Refused, Role, RoleState, Step, Term};
use crate::replication::shipping::{entry_from_wire, kind_of};
use crate::service::Service;

/// Timeout for the backup to confirm the changes that were acknowledged without it.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(2);

/// A store, its journal and its service. All three are replaced when the replica starts over, so that calls that
/// still use the old store cannot affect the new one.
#[derive(Debug, Clone)]
struct Holding {
    shard: LocalServer,
    journal: Option<Arc<LogJournal>>,
    service: Arc<Service>,
}

/// A replica of a shard.
#[derive(Debug)]
pub(crate) struct Replica {
    context: Context,
    /// Index of the shard, which is also the index of its first server.
    shard: usize,
    /// Folder of the replica's log.
    folder: PathBuf,
    receiving: ReceivingMark,
    /// Server of the other replica, and its address; `None` if there is no other one.
    peer: Option<(Task, String)>,
    role: Mutex<RoleState>,
    holding: RwLock<Holding>,
    /// Absent if the log has been read.
    pending: Mutex<Option<PendingJournal>>,
    log_sender: Mutex<Option<LogSender>>,
    /// Serializes changes of the role. Holds what the replica has of the primary that it follows.
    turn: tokio::sync::Mutex<Option<Following>>,
    failure: Mutex<Option<Diagnostic>>,
}

/// What a backup has of its primary's store.
#[derive(Debug)]
enum Following {
    /// A part of the cut that the log goes on from.
    Receiving(Box<Receiving>),
    /// The store.
    Replaying(Box<Replay>),
}

/// A store whose cut is being received.
#[derive(Debug)]
struct Receiving {
    cut: ReceivedCut,
    source: Source,
    first: v1::LoggedHead,
    metadata: StoreMetadata,
}

/// No holder of these locks panics in the middle of a change, so a poisoned lock is safe to use.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The journal of a replica whose log has not been read yet.
type PendingJournal = watch::Sender<Option<Option<Arc<LogJournal>>>>;

impl Holding {
    /// Returns an empty store. Its service refuses calls until the journal is sent.
    fn pending(context: &Context, shard: usize) -> (Self, PendingJournal) {
        let store = fresh(context, shard);
        let (known, journal) = watch::channel(None);
        let service = Service::new(store.clone(), shard, context, journal);
        let holding = Self {
            shard: store,
            journal: None,
            service: Arc::new(service),
        };
        (holding, known)
    }
}

impl Replica {
    /// Returns an idle replica of a shard on this server. `peer` holds the other replica.
    pub(crate) fn of_pair(context: &Context, shard: usize, peer: (Task, String)) -> Self {
        Self::new(context, shard, Some(peer), RoleState::default())
    }

    /// Returns the only replica of this server's own shard. It serves when its log has been read.
    pub(crate) fn single(context: &Context) -> Self {
        Self::new(context, context.task.index, None, RoleState::single())
    }

    fn new(context: &Context, shard: usize, peer: Option<(Task, String)>, role: RoleState) -> Self {
        let (holding, known) = Holding::pending(context, shard);
        Self {
            context: context.clone(),
            shard,
            receiving: ReceivingMark::of(&log_of(context, shard)),
            folder: log_of(context, shard),
            peer,
            role: Mutex::new(role),
            holding: RwLock::new(holding),
            pending: Mutex::new(Some(known)),
            log_sender: Mutex::new(None),
            turn: tokio::sync::Mutex::new(None),
            failure: Mutex::new(None),
        }
    }

    pub(crate) fn shard(&self) -> usize {
        self.shard
    }

    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    /// Returns the server of the other replica, and its address; `None` if there is no other one.
    pub(crate) fn peer(&self) -> Option<&(Task, String)> {
        self.peer.as_ref()
    }

    /// Returns the first server of the shard.
    pub(crate) fn task(&self) -> Task {
        Task {
            role: TaskRole::Ps,
            index: self.shard,
        }
    }

    fn holding(&self) -> Holding {
        self.holding
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn hold(&self, shard: LocalServer, journal: Option<Arc<LogJournal>>, service: Arc<Service>) {
        let mut holding = self.holding.write().unwrap_or_else(PoisonError::into_inner);
        *holding = Holding {
            shard,
            journal,
            service,
        };
    }

    /// Returns the store, even if the replica does not serve it.
    pub(crate) fn store(&self) -> LocalServer {
        self.holding().shard
    }

    /// Returns the journal, if there is a log.
    pub(crate) fn journal(&self) -> Option<Arc<LogJournal>> {
        self.holding().journal
    }

    pub(crate) fn role(&self) -> Role {
        locked(&self.role).role()
    }

    /// Returns the service of the shard; `None` if this replica is not the primary.
    pub(crate) fn serving(&self) -> Option<Arc<Service>> {
        locked(&self.role)
            .is_primary()
            .then(|| self.holding().service)
    }

    /// Returns the failure that ends the server, if there is one.
    pub(crate) fn failure(&self) -> Option<Diagnostic> {
        let log = self.journal().and_then(|journal| journal.failure());
        locked(&self.failure)
            .clone()
            .or_else(|| log.map(|error| cannot(&error)))
            .or_else(|| self.serving()?.failure())
    }

    /// Returns the status of the replica, for the chief.
    pub(crate) fn status(&self) -> v1::ReplicaStatus {
        let state = *locked(&self.role);
        let (role, waits_for_backup, in_sync) = match state.role() {
            Role::Idle => (v1::ReplicaRole::Idle, false, false),
            Role::Primary { waits_for_backup } => {
                (v1::ReplicaRole::Primary, waits_for_backup, false)
            }
            Role::Backup { in_sync } => (v1::ReplicaRole::Backup, false, in_sync),
        };
        let log_sender = locked(&self.log_sender)
            .as_ref()
            .map_or(v1::LinkState::Unspecified, LogSender::state);
        let journal = self.journal().filter(|_| role == v1::ReplicaRole::Primary);
        let (lag_records, lag_bytes) =
            journal.map_or((0, 0), |journal| journal.replication_log().lag());
        let term = state.term();
        v1::ReplicaStatus {
            shard: self.shard as u32,
            role: role.into(),
            term: Some(v1::Term {
                cluster_epoch: term.epoch,
                version: term.version,
            }),
            link: log_sender.into(),
            waits_for_backup,
            in_sync,
            lag_records,
            lag_bytes,
            incomplete: state.role() == Role::Idle && self.receiving.is_marked(),
        }
    }

    /// Takes the role that the chief orders. If the order makes a primary wait for its backup, the backup has
    /// everything acknowledged before when this returns.
    ///
    /// # Errors
    /// The order is older than the latest one, or the replica cannot take the role.
    pub(crate) async fn set_role(
        self: &Arc<Self>,
        cluster: u128,
        term: Term,
        order: Order,
    ) -> Result<(), Refused> {
        let mut turn = self.turn.lock().await;
        let mut role = *locked(&self.role);
        let before = role.role();
        let step = role.set_role(term, order)?;
        let now = role.role();
        // The new role takes effect only after the step, so that a replica without a journal never serves.
        match step {
            Step::Keep => {}
            Step::Recover => self.begin_recovery(),
            Step::Promote => self.promote(turn.take()).await,
            Step::Clear => {
                *turn = None;
                if let Err(problem) = self.clear(cluster).await {
                    self.fail(problem);
                }
            }
        }
        *locked(&self.role) = role;
        if before != now {
            let epoch = term.epoch;
            let map = term.version;
            info!(shard = %self.task(), role = name(now), epoch, map, "the chief has given this replica its role");
        }
        let Role::Primary { waits_for_backup } = now else {
            return Ok(());
        };
        let changed = {
            let mut log_sender = locked(&self.log_sender);
            match &*log_sender {
                Some(known) if !known.is_over() => known.set_term(term),
                _ => *log_sender = Some(LogSender::begin(Arc::clone(self), cluster, term)),
            }
            self.journal()
        };
        if let Some(journal) = changed {
            let replication_log = journal.replication_log();
            if !waits_for_backup {
                replication_log.release_backup();
                return Ok(());
            }
            replication_log.require_backup();
            drop(turn);
            // The backup must have the changes that were acknowledged without it before the chief gets the reply.
            let settled = tokio::time::timeout(COMMIT_TIMEOUT, journal.commit()).await;
            if !matches!(settled, Ok(Ok(()))) {
                return Err(Refused::Unconfirmed);
            }
        }
        Ok(())
    }

    /// Begins to recover the store from the replica's own log. Callers are refused as not ready meanwhile.
    fn begin_recovery(self: &Arc<Self>) {
        let (holding, known) = Holding::pending(&self.context, self.shard);
        *self.holding.write().unwrap_or_else(PoisonError::into_inner) = holding;
        *locked(&self.pending) = Some(known);
        let this = Arc::clone(self);
        tokio::spawn(async move { this.recover().await });
    }

    /// Recovers the store from the replica's own log. Callers are refused as not ready meanwhile. A failure ends the server.
    pub(crate) async fn recover(self: &Arc<Self>) {
        let Some(known) = locked(&self.pending).take() else {
            return;
        };
        if self.receiving.is_marked() {
            let message = format!(
                "the log of {} in {} is what this server had received of the other replica's log when it died, which is not all",
                self.task(),
                self.folder.display()
            );
            let problem = Diagnostic::error(Code::E3008, message).help(
                "start the server of the other replica; if it is gone for good, remove this folder and the file beside it that \
                 ends in .receiving: the job then goes back to its latest checkpoint",
            );
            return self.fail(problem);
        }
        let store = self.store();
        let at = Arc::clone(self);
        let of = store.clone();
        let work = move || open_log_at(&at.context, &at.folder, at.task(), &of);
        let opened = blocking(work).await.unwrap_or_else(|panic| {
            Err(Diagnostic::error(
                Code::E9001,
                format!("the log could not be read: {panic}"),
            ))
        });
        let journal = match opened {
            Ok(journal) => journal,
            Err(problem) => return self.fail(problem),
        };
        // Holding `turn` keeps `set_role` from changing `waits_for_backup` meanwhile.
        let _turn = self.turn.lock().await;
        if let Some(journal) = &journal {
            let replication_log = journal.replication_log();
            match self.role() {
                Role::Primary {
                    waits_for_backup: true,
                } => replication_log.require_backup(),
                _ => replication_log.release_backup(),
            }
        }
        self.bound_memory(&store);
        let service = self.holding().service;
        self.hold(store, journal.clone(), service);
        known.send_replace(Some(journal));
    }

    /// Sets the limits of a store's memory. They apply only after recovery, because recovered values must be held in any case.
    fn bound_memory(&self, store: &LocalServer) {
        let store = store.store();
        store.bound_memory(self.context.job.parameter_servers.memory_bytes_max);
    }

    /// Turns a backup into the primary, with the store that it has replayed.
    async fn promote(&self, following: Option<Following>) {
        let Holding {
            shard,
            journal,
            service,
        } = self.holding();
        let Some(journal) = journal else { return };
        shard.go_on();
        self.bound_memory(&shard);
        if let Some(Following::Replaying(replay)) = following {
            journal.resume(&replay.log_state);
            shard
                .store()
                .keep_journal(Arc::clone(&journal) as Arc<dyn Journal>);
            shard.store().set_restarts(journal.restarted());
        } else {
            // The primary had prepared nothing yet.
            shard
                .store()
                .keep_journal(Arc::clone(&journal) as Arc<dyn Journal>);
        }
        if let Err(error) = journal.written().await {
            warn!(%error, "the log cannot be written");
        }
        let version = shard.store().status().version;
        self.hold(shard, Some(journal), service);
        info!(shard = %self.task(), %version, "this replica serves from now on: the other one is gone");
    }

    /// Drops the store, to follow the other replica.
    async fn clear(&self, cluster: u128) -> Result<(), Diagnostic> {
        *locked(&self.log_sender) = None;
        let journal = match self.journal() {
            Some(journal) => Arc::new(journal.succeed(cluster)),
            None => {
                let folder = self.folder.clone();
                let member = self.shard;
                let context = self.context.clone();
                let open = move || {
                    let log = Log::open(open_folder(&context, &folder)?, None)?;
                    LogJournal::new(log, cluster, member, LogState::default(), None)
                };
                let opened = blocking(open).await.map_err(|panic| {
                    Diagnostic::error(Code::E9001, format!("the log could not be opened: {panic}"))
                })?;
                Arc::new(opened.map_err(|error| cannot(&error))?)
            }
        };
        let (Holding { shard, service, .. }, known) = Holding::pending(&self.context, self.shard);
        // The receiver in the service keeps the journal after its sender is dropped.
        known.send_replace(Some(Some(Arc::clone(&journal))));
        self.hold(shard, Some(journal), service);
        Ok(())
    }

    fn fail(&self, problem: Diagnostic) {
        locked(&self.failure).get_or_insert(problem);
    }

    /// Records that the other replica is the primary. This replica acknowledges nothing more.
    pub(crate) fn depose(&self, why: &str) {
        let was = locked(&self.role).depose();
        if let Some(journal) = self.journal().filter(|_| was) {
            journal.replication_log().close();
            let by = self.peer.as_ref().map(|(task, _)| task.to_string());
            warn!(shard = %self.task(), by, why, "this replica was deposed while its process was suspended: it serves no longer");
        }
    }

    /// Starts to follow a primary. Returns the number of the stream.
    ///
    /// # Errors
    /// This replica is not the backup of that primary.
    pub(crate) async fn handshake(&self, cluster: u128, term: Term) -> Result<u64, Refused> {
        let mut turn = self.turn.lock().await;
        let stream = locked(&self.role).handshake(term)?;
        *turn = None;
        if let Err(problem) = self.clear(cluster).await {
            self.fail(problem);
        }
        Ok(stream)
    }

    /// Applies a request of the primary. The items are written to the log before `confirm` is called, so that they
    /// survive this process, and are replayed when this returns.
    ///
    /// # Errors
    /// This replica no longer follows the stream, or a change cannot be replayed.
    pub(crate) async fn take(
        &self,
        cluster: u128,
        stream: u64,
        request: v1::FollowRequest,
        mut confirm: impl FnMut(usize),
    ) -> Result<(), Refused> {
        // Holding `turn` delays a promotion until the confirmed changes are applied.
        let mut turn = self.turn.lock().await;
        locked(&self.role).takes(stream)?;
        let in_sync = request.in_sync;
        if let Err(what) = self
            .take_items(cluster, &mut turn, request.items, &mut confirm)
            .await
        {
            error!(shard = %self.task(), what, "a change of the primary cannot be replayed: the primary sends its log again");
            locked(&self.role).mark_out_of_sync(stream);
            *turn = None;
            return Err(Refused::Superseded);
        }
        if in_sync {
            if let Some(Following::Receiving(_)) = &*turn {
                error!(shard = %self.task(), "the primary has not sent the whole cut of its log: it sends its log again");
                locked(&self.role).mark_out_of_sync(stream);
                *turn = None;
                return Err(Refused::Superseded);
            }
            if let Err(error) = self.receiving.remove() {
                error!(shard = %self.task(), %error, "the log of this backup cannot be marked as whole: the primary sends its log again");
                locked(&self.role).mark_out_of_sync(stream);
                *turn = None;
                return Err(Refused::Superseded);
            }
            locked(&self.role).mark_in_sync(stream);
            let version = self.store().store().status().version;
            info!(shard = %self.task(), %version, "this backup has everything that its primary had");
        }
        Ok(())
    }

    async fn take_items(
        &self,
        cluster: u128,
        turn: &mut Option<Following>,
        items: Vec<v1::ShippedItem>,
        confirm: &mut impl FnMut(usize),
    ) -> Result<(), String> {
        use v1::shipped_item::Item;
        let mut records = Vec::new();
        for item in items {
            match item.item.ok_or("an item that says nothing")? {
                Item::Record(record) => records.push(record),
                Item::Segment(segment) => {
                    self.take_records(turn, std::mem::take(&mut records), confirm)
                        .await?;
                    self.begin(cluster, turn, segment).await?;
                    self.write().await?;
                    self.unmark_if_whole(turn.as_ref())?;
                    confirm(1);
                }
                Item::Cut(record) => self.receive(turn, record).await?,
            }
        }
        self.take_records(turn, records, confirm).await
    }

    /// Removes the mark of a log that is received, if it has everything that the primary's has: the primary has begun its log
    /// anew, as it does when it is prepared, and sends each change of it to this backup, which is in sync.
    fn unmark_if_whole(&self, turn: Option<&Following>) -> Result<(), String> {
        let in_sync = locked(&self.role).role() == Role::Backup { in_sync: true };
        if in_sync && matches!(turn, Some(Following::Replaying(_))) {
            self.receiving.remove().map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Takes a record of the cut that the log goes on from. With the last one, prepares the store.
    async fn receive(
        &self,
        turn: &mut Option<Following>,
        record: v1::ShippedRecord,
    ) -> Result<(), String> {
        let Some(Following::Receiving(mut receiving)) = turn.take() else {
            return Err("a record of a cut that no segment goes on from".to_owned());
        };
        let kind = kind_of(&record)?;
        if receiving.cut.add(kind, &record.body)? == Received::Part {
            *turn = Some(Following::Receiving(receiving));
            return Ok(());
        }
        let Holding { shard, journal, .. } = self.holding();
        let journal = journal.ok_or("there is no log")?;
        let work = move || {
            let Receiving {
                cut,
                source,
                first,
                metadata,
            } = *receiving;
            let cut = journal.take_received(cut)?;
            Replay::prepare_from(&shard, source, &first, &metadata, cut)
        };
        let replay = blocking(work).await.map_err(|panic| panic.to_string())??;
        *turn = Some(Following::Replaying(Box::new(replay)));
        self.unmark_if_whole(turn.as_ref())?;
        let version = self.store().store().status().version;
        info!(shard = %self.task(), %version, "this backup begins from a cut of its primary's log");
        Ok(())
    }

    /// Writes changes to the log, in one write, and replays them.
    async fn take_records(
        &self,
        turn: &mut Option<Following>,
        records: Vec<v1::ShippedRecord>,
        confirm: &mut impl FnMut(usize),
    ) -> Result<(), String> {
        if records.is_empty() {
            return Ok(());
        }
        let journal = self.journal().ok_or("there is no log")?;
        let Some(Following::Replaying(replay)) = turn else {
            return Err("a change without a store".to_owned());
        };
        let mut written = Vec::with_capacity(records.len());
        for record in records {
            let number = record.number;
            let body = record.body.clone();
            let (kind, entry) = entry_from_wire(record)?;
            journal.follow_record(entry);
            written.push((kind, number, body));
        }
        self.write().await?;
        confirm(written.len());
        written
            .into_iter()
            .try_for_each(|(kind, number, body)| replay.make(kind, number, body))
            .map_err(String::from)
    }

    /// Writes all changes so far to the log.
    async fn write(&self) -> Result<(), String> {
        match self.journal() {
            Some(journal) => journal.written().await.map_err(|error| error.to_string()),
            None => Ok(()),
        }
    }

    /// Begins a segment, with a new store if the segment replaces everything before it.
    async fn begin(
        &self,
        cluster: u128,
        turn: &mut Option<Following>,
        segment: v1::ShippedSegment,
    ) -> Result<(), String> {
        let v1::ShippedSegment {
            prepared_epoch,
            alone,
            head: records,
        } = segment;
        let mut records = records.into_iter();
        let record = records.next().ok_or("a segment without a head")?;
        let (first, mut metadata) = head(record.body.clone())?;
        let mut entries = vec![entry_from_wire(record)?.1];
        for (place, record) in records.enumerate() {
            let body = record.body.clone();
            let (kind, entry) = entry_from_wire(record)?;
            complete(&mut metadata, &first, place as u32, kind, &body)?;
            entries.push(entry);
        }
        if !alone {
            let journal = self.journal().ok_or("there is no log")?;
            let number = journal.follow(&first, None, entries);
            if first.log_cut && number > 0 {
                self.cut_log(&journal, number);
            }
            return Ok(());
        }
        *turn = None;
        self.receiving.set().map_err(|error| error.to_string())?;
        self.clear(cluster)
            .await
            .map_err(|problem| problem.message)?;
        let Holding { shard, journal, .. } = self.holding();
        let journal = journal.ok_or("there is no log")?;
        let source = Source {
            owner: cluster,
            shard: self.shard,
            prepared_epoch,
        };
        if first.log_cut {
            let prepare = first.prepare.as_ref().map(of_whole_cut);
            let prepare = prepare.ok_or("a head without the request that prepared the store")?;
            let log_state = log_state_of(&first, prepared_epoch, prepare);
            let number = journal.follow(&first, Some(log_state), entries);
            let cut = journal.receive_cut(number);
            *turn = Some(Following::Receiving(Box::new(Receiving {
                cut: cut.map_err(|error| error.to_string())?,
                source,
                first,
                metadata,
            })));
            return Ok(());
        }
        if let Some(prepare) = &first.prepare {
            let own = InitialValues::of(&self.context.job);
            own.check(&prepare.warm_start, "the primary", self.context.task)?;
        }
        let folder = self.context.job.model_dir.clone();
        let work = move || {
            let prepare = base(&first, prepared_epoch, &folder)
                .map_err(|error| error.to_string())?
                .ok_or_else(|| format!("no checkpoint of version {} is there", first.version))?;
            let replay = Replay::prepare(&shard, source, &first, &metadata, &prepare)?;
            Ok::<_, String>((replay, first))
        };
        let (replay, first) = blocking(work).await.map_err(|panic| panic.to_string())??;
        journal.follow(&first, Some(replay.log_state.clone()), entries);
        *turn = Some(Following::Replaying(Box::new(replay)));
        Ok(())
    }

    /// Cuts the log of this backup at the begin of a segment, where the primary has cut its own. Training goes on meanwhile.
    fn cut_log(&self, journal: &Arc<LogJournal>, segment: u64) {
        let memory_bytes = journal.memory_bytes_max();
        let cut = self.store().follow_cut(journal, segment, memory_bytes);
        if let Some(cut) = cut {
            tokio::spawn(async move { log_cut_telemetry::record(&cut.await) });
        }
    }

    /// Removes the log of a job that has ended.
    pub(crate) fn forget(&self) {
        *locked(&self.log_sender) = None;
        let cleared = self.journal().map(|journal| journal.clear());
        if let Some(Err(error)) = cleared {
            warn!(%error, "the log of a job that has ended stays: it may be removed by hand");
        } else if let Err(error) = self.receiving.remove() {
            warn!(%error, "a mark of the log of a job that has ended stays: it may be removed by hand");
        }
    }

    /// Returns whether this replica is the primary.
    pub(crate) fn is_primary(&self) -> bool {
        locked(&self.role).is_primary()
    }
}

fn fresh(context: &Context, shard: usize) -> LocalServer {
    LocalServer::new(
        shard,
        context.cluster.num_ps(),
        context.incarnation,
        context.cluster.fingerprint(),
    )
}

fn name(role: Role) -> &'static str {
    match role {
        Role::Idle => "idle",
        Role::Primary {
            waits_for_backup: true,
        } => "primary, with a backup",
        Role::Primary {
            waits_for_backup: false,
        } => "primary",
        Role::Backup { .. } => "backup",
    }
}

#[cfg(test)]
mod tests;
