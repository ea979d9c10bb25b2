//! One of the two replicas of a shard: served, followed, or idle until the chief says which.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::watch;
use tracing::{error, info, warn};
use trainyard_cluster_client::LocalServer;
use trainyard_cluster_spec::{Role as TaskRole, Task};
use trainyard_daemon::Context;
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_parameter_store::Journal;
use trainyard_protocol::v1;
use trainyard_runtime::blocking;
use trainyard_write_ahead_log::{Durability, Folder, Log};

use crate::durable::{cannot, logs, open_log_at};
use crate::journal::{LogJournal, LogState};
use crate::machine::memory_bytes;
use crate::record::head;
use crate::replay::{Replay, Source, base, complete};
use crate::replication::log_sender::LogSender;
use crate::replication::replica_role::{Order, Refused, Role, RoleState, Step, Term};
use crate::replication::shipping::entry_from_wire;
use crate::service::Service;

/// Longest wait for a backup to confirm what had been acknowledged without it.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(2);

/// A store, who keeps its log and who serves it. Another one replaces it whenever the replica begins anew, so that nothing
/// that is still under way with the old one touches the new.
#[derive(Debug, Clone)]
struct Holding {
    shard: LocalServer,
    journal: Option<Arc<LogJournal>>,
    service: Arc<Service>,
}

/// A replica.
#[derive(Debug)]
pub(crate) struct Replica {
    context: Context,
    /// Index of the shard, which is that of the server that is the first to hold it.
    shard: usize,
    /// Where its log lies.
    folder: PathBuf,
    /// The server of the other replica, and where it listens.
    peer: (Task, String),
    role: Mutex<RoleState>,
    holding: RwLock<Holding>,
    log_sender: Mutex<Option<LogSender>>,
    /// Changes of what the replica is are made one after the other; with what makes changes again, while it follows.
    turn: tokio::sync::Mutex<Option<Replay>>,
    failure: Mutex<Option<Diagnostic>>,
}

/// Nothing that holds one of these locks panics half-way through a change.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn service(
    context: &Context,
    shard: &LocalServer,
    index: usize,
    journal: Option<Arc<LogJournal>>,
) -> Arc<Service> {
    // A receiver keeps its value when its sender goes.
    let (_, known) = watch::channel(Some(journal));
    let most = context.job.parameter_servers.log_bytes_max;
    Arc::new(Service::new(
        shard.clone(),
        index,
        context.incarnation,
        known,
        most,
    ))
}

impl Replica {
    /// Returns the idle replica of a shard in this server; `peer` has the other one.
    pub(crate) fn new(context: &Context, shard: usize, peer: (Task, String)) -> Self {
        let own = shard == context.task.index;
        let name = if own {
            format!("ps-{shard}")
        } else {
            format!("ps-{shard}.backup")
        };
        let store = fresh(context, shard);
        let service = service(context, &store, shard, None);
        Self {
            context: context.clone(),
            shard,
            folder: logs(context).join(name),
            peer,
            role: Mutex::default(),
            holding: RwLock::new(Holding {
                shard: store,
                journal: None,
                service,
            }),
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

    pub(crate) fn folder(&self) -> &std::path::Path {
        &self.folder
    }

    /// Returns the server that has the other replica, and where it listens.
    pub(crate) fn peer(&self) -> &(Task, String) {
        &self.peer
    }

    /// Returns the task that is the first to hold the shard.
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

    /// Returns the store, whatever it is worth.
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

    /// Returns who answers the callers of this shard; nothing, where the other replica does.
    pub(crate) fn serving(&self) -> Option<Arc<Service>> {
        locked(&self.role)
            .is_primary()
            .then(|| self.holding().service)
    }

    /// Returns why the server cannot go on.
    pub(crate) fn failure(&self) -> Option<Diagnostic> {
        let log = self.journal().and_then(|journal| journal.failure());
        locked(&self.failure)
            .clone()
            .or_else(|| log.map(|error| cannot(&error)))
    }

    /// Returns how the replica stands, for the chief.
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
        let (lag_records, lag_bytes) = self
            .journal()
            .map_or((0, 0), |journal| journal.replication_log().lag());
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
        }
    }

    /// Becomes what the chief says. A primary that is to wait for its backup does so when this returns: everything that
    /// was acknowledged before is there.
    ///
    /// # Errors
    /// Somebody has said something later, or the replica is not fit for it.
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
        // It counts as what it is told to be only when it is: nobody is served by what has no journal yet.
        match step {
            Step::Keep => {}
            Step::Recover => self.recover(),
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
            info!(shard = %self.task(), role = name(now), epoch, map, "this replica is told what it is");
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
            journal
                .replication_log()
                .set_waits_for_backup(waits_for_backup);
            drop(turn);
            if waits_for_backup {
                // What was acknowledged without the backup is there, too, when the chief hears of it.
                let settled = tokio::time::timeout(COMMIT_TIMEOUT, journal.commit()).await;
                if !matches!(settled, Ok(Ok(()))) {
                    return Err(Refused::Unconfirmed);
                }
            }
        }
        Ok(())
    }

    /// Brings back what the log of its own holds, while callers are told to wait.
    fn recover(self: &Arc<Self>) {
        let store = fresh(&self.context, self.shard);
        let (known, journal) = watch::channel(None);
        let most = self.context.job.parameter_servers.log_bytes_max;
        let index = self.shard;
        let service = Service::new(
            store.clone(),
            index,
            self.context.incarnation,
            journal,
            most,
        );
        self.hold(store.clone(), None, Arc::new(service));
        let this = Arc::clone(self);
        tokio::spawn(async move {
            let at = Arc::clone(&this);
            let of = store.clone();
            let work = move || open_log_at(&at.context, &at.folder, at.task(), &of);
            let remembered = blocking(work).await.unwrap_or_else(|panic| {
                Err(Diagnostic::error(
                    Code::E9001,
                    format!("the log could not be read: {panic}"),
                ))
            });
            match remembered {
                Ok(kept) => {
                    // Under the turn, so that nobody is told to wait for a backup meanwhile.
                    let _turn = this.turn.lock().await;
                    let waits_for_backup = matches!(
                        this.role(),
                        Role::Primary {
                            waits_for_backup: true
                        }
                    );
                    if let Some(journal) = &kept {
                        journal
                            .replication_log()
                            .set_waits_for_backup(waits_for_backup);
                    }
                    let service = this.holding().service;
                    store
                        .store()
                        .bound_memory(this.context.job.parameter_servers.memory_bytes_max);
                    this.hold(store, kept.clone(), service);
                    known.send_replace(Some(kept));
                }
                Err(problem) => this.fail(problem),
            }
        });
    }

    /// Serves what it has made again.
    async fn promote(&self, replay: Option<Replay>) {
        let Holding {
            shard,
            journal,
            service,
        } = self.holding();
        let Some(journal) = journal else { return };
        shard.go_on();
        shard
            .store()
            .bound_memory(self.context.job.parameter_servers.memory_bytes_max);
        shard.store().know_machine(memory_bytes());
        if let Some(replay) = replay {
            journal.resume(&replay.log_state);
            shard
                .store()
                .keep_journal(Arc::clone(&journal) as Arc<dyn Journal>);
            shard.store().set_restarts(journal.restarted());
        } else {
            // Nothing has been prepared yet.
            shard
                .store()
                .keep_journal(Arc::clone(&journal) as Arc<dyn Journal>);
        }
        if let Err(error) = journal.write().await {
            warn!(%error, "the log cannot be written");
        }
        let version = shard.store().status().version;
        self.hold(shard, Some(journal), service);
        info!(shard = %self.task(), version, "this replica serves from now on: the other one is gone");
    }

    /// Gives up what it holds, to follow the other replica.
    async fn clear(&self, cluster: u128) -> Result<(), Diagnostic> {
        *locked(&self.log_sender) = None;
        let journal = match self.journal() {
            Some(journal) => Arc::new(journal.succeed(cluster)),
            None => {
                let folder = self.folder.clone();
                let member = self.shard;
                let open = move || {
                    let log = Log::open(Folder::open(&folder)?, Durability::Wal, None)?;
                    Ok(LogJournal::new(
                        log,
                        cluster,
                        member,
                        LogState::default(),
                        None,
                    ))
                };
                let opened = blocking(open).await.map_err(|panic| {
                    Diagnostic::error(Code::E9001, format!("the log could not be opened: {panic}"))
                })?;
                Arc::new(opened.map_err(|error| cannot(&error))?)
            }
        };
        let store = fresh(&self.context, self.shard);
        let service = service(
            &self.context,
            &store,
            self.shard,
            Some(Arc::clone(&journal)),
        );
        self.hold(store, Some(journal), service);
        Ok(())
    }

    fn fail(&self, problem: Diagnostic) {
        locked(&self.failure).get_or_insert(problem);
    }

    /// Takes note that the other replica serves: nothing is acknowledged here any more.
    pub(crate) fn depose(&self, why: &str) {
        let was = locked(&self.role).depose();
        if let Some(journal) = self.journal().filter(|_| was) {
            journal.replication_log().close();
            let (task, _) = &self.peer;
            warn!(shard = %self.task(), by = %task, why, "this replica was deposed while it stood still: it serves no longer");
        }
    }

    /// Begins to follow a primary. Returns the number of its stream.
    ///
    /// # Errors
    /// This replica is not its backup.
    pub(crate) async fn greet(&self, cluster: u128, term: Term) -> Result<u64, Refused> {
        let mut turn = self.turn.lock().await;
        let stream = locked(&self.role).greet(term)?;
        *turn = None;
        if let Err(problem) = self.clear(cluster).await {
            self.fail(problem);
        }
        Ok(stream)
    }

    /// Takes in what a primary sends: it is in the log when `confirm` is called, so that it outlives this process too, and
    /// made again when this returns.
    ///
    /// # Errors
    /// This replica is the backup of somebody else by now, or something cannot be made again.
    pub(crate) async fn take(
        &self,
        cluster: u128,
        stream: u64,
        request: v1::FollowRequest,
        mut confirm: impl FnMut(usize),
    ) -> Result<(), Refused> {
        // Who promotes this replica takes its turn behind what it has confirmed.
        let mut turn = self.turn.lock().await;
        locked(&self.role).takes(stream)?;
        let in_sync = request.in_sync;
        if let Err(what) = self
            .take_items(cluster, &mut turn, request.items, &mut confirm)
            .await
        {
            error!(shard = %self.task(), what, "a change of the primary cannot be made again: it is sent anew");
            locked(&self.role).mark_out_of_sync(stream);
            *turn = None;
            return Err(Refused::Superseded);
        }
        if in_sync {
            locked(&self.role).mark_in_sync(stream);
            let version = self.store().store().status().version;
            info!(shard = %self.task(), version, "this backup has everything that its primary had");
        }
        Ok(())
    }

    async fn take_items(
        &self,
        cluster: u128,
        turn: &mut Option<Replay>,
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
                    confirm(1);
                }
            }
        }
        self.take_records(turn, records, confirm).await
    }

    /// Writes changes into the log, one write for all of them, and makes them again.
    async fn take_records(
        &self,
        turn: &mut Option<Replay>,
        records: Vec<v1::ShippedRecord>,
        confirm: &mut impl FnMut(usize),
    ) -> Result<(), String> {
        if records.is_empty() {
            return Ok(());
        }
        let journal = self.journal().ok_or("there is no log")?;
        let replay = turn.as_mut().ok_or("a change without a store")?;
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
    }

    /// Waits until everything that the log was given is written.
    async fn write(&self) -> Result<(), String> {
        match self.journal() {
            Some(journal) => journal.write().await.map_err(|error| error.to_string()),
            None => Ok(()),
        }
    }

    /// Begins a segment, with a store of its own where what was before is over.
    async fn begin(
        &self,
        cluster: u128,
        turn: &mut Option<Replay>,
        segment: v1::ShippedSegment,
    ) -> Result<(), String> {
        let v1::ShippedSegment {
            prepared_epoch,
            alone,
            head: records,
        } = segment;
        let mut records = records.into_iter();
        let first = records.next().ok_or("a segment without a head")?;
        let (told, mut metadata) = head(first.body.clone())?;
        let mut entries = vec![entry_from_wire(first)?.1];
        for (place, record) in records.enumerate() {
            let body = record.body.clone();
            let (kind, entry) = entry_from_wire(record)?;
            complete(&mut metadata, &told, place as u32, kind, &body)?;
            entries.push(entry);
        }
        if !alone {
            let journal = self.journal().ok_or("there is no log")?;
            journal.follow(None, told.version, told.changes, entries);
            return Ok(());
        }
        *turn = None;
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
        let folder = self.context.job.model_dir.clone();
        let version = told.version;
        let changes = told.changes;
        let work = move || {
            let prepare = base(&told, prepared_epoch, &folder)
                .map_err(|error| error.to_string())?
                .ok_or_else(|| format!("no checkpoint of version {} is there", told.version))?;
            Replay::prepare(&shard, source, &told, &metadata, &prepare)
        };
        let replay = blocking(work).await.map_err(|panic| panic.to_string())??;
        journal.follow(Some(replay.log_state.clone()), version, changes, entries);
        *turn = Some(replay);
        Ok(())
    }

    /// Removes the log: the job is over.
    pub(crate) fn forget(&self) {
        *locked(&self.log_sender) = None;
        if let Some(Err(error)) = self.journal().map(|journal| journal.clear()) {
            warn!(%error, "the log of a job that has ended stays: it may be removed by hand");
        }
    }

    /// Returns whether workers are served here.
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
