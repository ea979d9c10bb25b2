//! A backup equals its primary's store, whenever it begins to follow, and serves that store when it is promoted.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use prost::Message as _;
use trainyard_cluster_spec::{ClusterSpec, Role as TaskRole, Task};
use trainyard_daemon::{Context, LogFormat};
use trainyard_parameter_server::LocalServer;
use trainyard_parameter_server::journal::LogJournal;
use trainyard_parameter_server::log_cut::DueCut;
use trainyard_parameter_server::random_work::{
    Act, CLUSTER, Image, SERVER, Worker, acts, image, open_log, updates, without_log,
};
use trainyard_parameter_server::recovery::{Expected, recover};
use trainyard_parameter_server::replication_log::Subscription;
use trainyard_parameter_store::{LogCut, Update};
use trainyard_protocol::v1;
use trainyard_run_config::{Job, WarmStartConfig};

use super::Replica;
use crate::durable::{log_of, open_folder};
use crate::replication::replica_role::{Order, Refused, Role, Term};
use crate::replication::shipping::{LogReader, has_start, item_to_wire};

const FIRST: Term = Term {
    epoch: 1,
    version: 1,
};
const SECOND: Term = Term {
    epoch: 1,
    version: 2,
};

/// Returns the context of `ps:1` of two servers, with its files in a folder.
fn context(folder: &Path) -> Context {
    let text = "model_dir = \"m\"\n[input]\nlabel = { column = \"y\" }\ntrain = { files = [\"t.csv\"] }\n\
                eval = { files = [\"t.csv\"] }\n[[feature]]\ncolumn = \"x\"\nkind = \"numeric\"\n\
                [model]\nkind = \"dnn_classifier\"\nhidden_units = [2]\n[train]\nmax_steps = 1\n\
                [parameter_servers]\ndurability = \"replica\"\n";
    let mut job = Job::parse(Path::new("job.toml"), text, &[]).expect("a job");
    job.model_dir = folder.join("model");
    let ps = |index| {
        (
            Task {
                role: TaskRole::Ps,
                index,
            },
            format!("127.0.0.1:{}", 1 + index),
        )
    };
    let cluster = ClusterSpec {
        tasks: [ps(0), ps(1)].into(),
        admin: Default::default(),
        standbys: Default::default(),
        evaluators: 0,
        credentials: Default::default(),
        evaluator_addresses: Vec::new(),
    };
    Context {
        cluster: Arc::new(cluster),
        task: ps(1).0,
        state_dir: Some(folder.join("state")),
        shared_memory_dir: folder.join("memory"),
        ..Context::alone(job, None, LogFormat::default())
    }
}

/// Returns the backup of `ps:0`.
fn backup(folder: &Path) -> Arc<Replica> {
    Arc::new(Replica::of_pair(
        &context(folder),
        0,
        (SERVER, "127.0.0.1:1".to_owned()),
    ))
}

fn expected(model_dir: &Path) -> Expected<'_> {
    Expected {
        model_dir,
        owner: Some(CLUSTER),
        prepared_epoch: 1,
        task: SERVER,
    }
}

/// Subscribes a backup. If it cannot begin from the log as it is, the log is cut.
async fn subscribe(
    worker: &Worker<'_>,
    journal: &Arc<LogJournal>,
    model_dir: &Path,
) -> Subscription {
    journal.write().expect("there is room");
    if !has_start(journal, expected(model_dir)).expect("the log is sound") {
        cut_log(worker, journal, LogCut::Whole).await;
    }
    let from = journal.replication_log().subscribe();
    journal.write().expect("there is room");
    from
}

/// Cuts the log of the primary. Some cuts fit into shared memory.
async fn cut_log(worker: &Worker<'_>, journal: &Arc<LogJournal>, rows: LogCut) {
    let cut = DueCut { rows, bytes: 6000 };
    let written = worker.shard.cut_log(Arc::clone(journal), cut).await;
    assert!(written.expect("there is room").is_some());
}

/// Does one piece of work, and cuts the log in the way that `kind` says.
async fn act(worker: &mut Worker<'_>, journal: &Arc<LogJournal>, act: &Act, kind: u8) {
    tokio::task::block_in_place(|| worker.act(act));
    match kind {
        0..=1 => cut_log(worker, journal, LogCut::Increment).await,
        2 => cut_log(worker, journal, LogCut::Whole).await,
        _ => {}
    }
}

/// Returns the requests of a primary: its log up to the subscription, and the items queued after it.
fn sent(journal: &LogJournal, model_dir: &Path, from: Subscription) -> Vec<v1::FollowRequest> {
    let log = LogReader::open(journal, expected(model_dir), from.changes);
    let mut log = log.expect("the log is sound");
    let next = || log.as_mut()?.next().expect("the log is sound");
    let mut requests: Vec<_> = std::iter::from_fn(next).collect();
    requests.push(v1::FollowRequest {
        in_sync: true,
        ..v1::FollowRequest::default()
    });
    requests.extend(queued(journal, from));
    requests
}

/// Runs on several threads, because a checkpoint blocks one.
fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(work)
}

fn queued(journal: &LogJournal, from: Subscription) -> Option<v1::FollowRequest> {
    let items = journal
        .replication_log()
        .take(from, u64::MAX)
        .expect("nobody else has subscribed");
    let items: Vec<_> = items.iter().map(item_to_wire).collect();
    (!items.is_empty()).then(|| v1::FollowRequest {
        items,
        ..v1::FollowRequest::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_backup_that_begins_at_any_moment_is_the_store_that_its_primary_is(
        update in updates(),
        acts in acts(),
        cuts in prop::collection::vec(0_u8..20, 64),
        first in any::<prop::sample::Index>(),
        again in any::<prop::sample::Index>(),
    ) {
        let scratch = tempfile::tempdir().expect("a folder");
        let model_dir = scratch.path().join("model");
        let journal = open_log(&scratch.path().join("log"));
        let mut worker = Worker::new(&model_dir, update, Some(&journal));
        let work: Vec<(&Act, u8)> = acts.iter().zip(cuts).collect();
        let (before, behind) = work.split_at(first.index(work.len()));
        let (between, behind) = behind.split_at(again.index(behind.len()));
        let expected = image(&without_log(update, &acts));
        let secs = run(async {
            let replica = backup(scratch.path());
            replica.set_role(CLUSTER, FIRST, Order::Backup).await.expect("it is idle");
            // The second stream replaces the first, and a third one the second.
            for work in [before, between] {
                for (piece, kind) in work {
                    act(&mut worker, &journal, piece, *kind).await;
                }
                let stream = replica.handshake(CLUSTER, FIRST).await.expect("it is a backup");
                let from = subscribe(&worker, &journal, &model_dir).await;
                for request in sent(&journal, &model_dir, from) {
                    replica.take(CLUSTER, stream, request, |_| ()).await.expect("it fits");
                }
                assert_eq!(replica.role(), Role::Backup { in_sync: true });
            }
            let stream = replica.handshake(CLUSTER, FIRST).await.expect("it is a backup");
            let from = subscribe(&worker, &journal, &model_dir).await;
            for request in sent(&journal, &model_dir, from) {
                replica.take(CLUSTER, stream, request, |_| ()).await.expect("it fits");
            }
            let mut confirmed = 0;
            for (piece, kind) in behind {
                act(&mut worker, &journal, piece, *kind).await;
                if let Some(request) = queued(&journal, from) {
                    replica.take(CLUSTER, stream, request, |items| confirmed += items).await.expect("it fits");
                }
            }
            journal.replication_log().require_backup();
            journal.replication_log().confirm(from.items + confirmed as u64);
            journal.commit().await.expect("everything is confirmed");
            replica.set_role(CLUSTER, SECOND, Order::Primary { waits_for_backup: false }).await.expect("it is level");
            let more = v1::FollowRequest::default();
            let late = replica.take(CLUSTER, stream, more, |_| panic!("it is not confirmed")).await;
            assert_eq!(late, Err(Refused::Deposed { by: SECOND }));
            let kept = replica.journal().expect("it keeps a log");
            kept.commit().await.expect("there is nobody to wait for");
            let shard = replica.store();
            // A cut may still be written, and there is one snapshot at a time.
            shard.settle().await;
            shard.store().set_clock(worker.secs);
            assert_eq!(settled(image(&shard), &expected), expected);
            worker.secs
        });
        // The backup's own log leads to the same store.
        let shard = recovered(scratch.path());
        shard.store().set_clock(secs);
        assert_eq!(settled(image(&shard), &expected), expected);
    }
}

/// Returns an image without what taking one changes: a snapshot begins a new segment.
fn settled(mut found: Image, expected: &Image) -> Image {
    found.status.state = expected.status.state;
    found
}

/// Returns the store that the log of the backup leads to.
fn recovered(folder: &Path) -> LocalServer {
    let context = context(folder);
    let shard = LocalServer::new(0, 2, 2, 1);
    let log = open_folder(&context, &log_of(&context, 0)).expect("it is free");
    let model_dir = folder.join("model");
    let found = recover(&shard, &log, expected(&model_dir));
    assert!(found.expect("the log is sound").is_some());
    shard
}

#[test]
fn a_change_that_cannot_be_made_again_is_no_backup_any_more() {
    let scratch = tempfile::tempdir().expect("a folder");
    let model_dir = scratch.path().join("model");
    let journal = open_log(&scratch.path().join("log"));
    let mut worker = Worker::new(&model_dir, Update::Async, Some(&journal));
    run(async {
        let replica = backup(scratch.path());
        replica
            .set_role(CLUSTER, FIRST, Order::Backup)
            .await
            .expect("it is idle");
        let stream = replica
            .handshake(CLUSTER, FIRST)
            .await
            .expect("it is a backup");
        let from = subscribe(&worker, &journal, &model_dir).await;
        for request in sent(&journal, &model_dir, from) {
            replica
                .take(CLUSTER, stream, request, |_| ())
                .await
                .expect("it fits");
        }
        worker.act(&Act::OpenSession { task: 0 });
        worker.act(&Act::CloseSession { task: 0 });
        let mut request = queued(&journal, from).expect("two changes");
        // Closing a session that was never opened does no harm. A push of such a session cannot be replayed.
        request.items = vec![v1::ShippedItem {
            item: Some(v1::shipped_item::Item::Record(v1::ShippedRecord {
                kind: 3,
                number: 9,
                body: bytes::Bytes::from_static(&[9; 8]),
            })),
        }];
        let taken = replica.take(CLUSTER, stream, request, |_| ()).await;
        assert_eq!(taken, Err(Refused::Superseded));
        assert_eq!(replica.role(), Role::Backup { in_sync: false });
        let order = Order::Primary {
            waits_for_backup: false,
        };
        assert_eq!(
            replica.set_role(CLUSTER, SECOND, order).await,
            Err(Refused::NotInSync)
        );
        replica
            .handshake(CLUSTER, FIRST)
            .await
            .expect("it is sent anew");
    });
}

#[test]
fn a_backup_reads_initial_values_only_from_where_its_own_job_says() {
    let scratch = tempfile::tempdir().expect("a folder");
    let model_dir = scratch.path().join("model");
    let origin = scratch.path().join("other.safetensors");
    std::fs::write(&origin, b"\x02\0\0\0\0\0\0\0{}").expect("there is room");
    let journal = open_log(&scratch.path().join("log"));
    let worker = Worker::new(&model_dir, Update::Async, Some(&journal));
    run(async {
        let from = subscribe(&worker, &journal, &model_dir).await;
        let mut requests = sent(&journal, &model_dir, from);
        let heads = requests.iter_mut().flat_map(|request| &mut request.items);
        let mut heads = heads.filter_map(|item| match &mut item.item {
            Some(v1::shipped_item::Item::Segment(segment)) => segment.head.first_mut(),
            _ => None,
        });
        let record = heads.next().expect("a segment");
        let mut head = v1::LoggedHead::decode(record.body.clone()).expect("a head");
        let prepare = head.prepare.as_mut().expect("it was prepared");
        prepare.warm_start = origin.to_string_lossy().into_owned();
        record.body = head.encode_to_vec().into();
        drop(heads);
        for own in [None, Some(&origin)] {
            let mut context = context(scratch.path());
            context.state_dir = Some(scratch.path().join(format!("state-{}", own.is_some())));
            let job = Arc::make_mut(&mut context.job);
            job.train.warm_start = own.map(|path| WarmStartConfig {
                from: path.to_string_lossy().into_owned(),
                variables: String::new(),
                rename: Default::default(),
            });
            let peer = (SERVER, "127.0.0.1:1".to_owned());
            let replica = Arc::new(Replica::of_pair(&context, 0, peer));
            let order = replica.set_role(CLUSTER, FIRST, Order::Backup).await;
            order.expect("it is idle");
            let stream = replica.handshake(CLUSTER, FIRST).await.expect("a backup");
            let first = requests[0].clone();
            let taken = replica.take(CLUSTER, stream, first, |_| ()).await;
            assert_eq!(taken.is_ok(), own.is_some(), "{taken:?}");
        }
    });
}
