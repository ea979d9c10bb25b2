//! Delivery and waits of the replication log.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use trainyard_write_ahead_log::{EarlierSegments, Folder};

use super::*;

const START: SegmentStart = SegmentStart {
    origin: Origin {
        owner: 0,
        member: 0,
        prepared_epoch: 0,
    },
    earlier: EarlierSegments::Obsolete,
};

fn log(folder: &Path) -> Log {
    Log::open(Folder::open(folder).expect("it is free"), None).expect("it opens")
}

fn record(number: u64) -> Entry {
    Entry::new(1, vec![Bytes::from_static(b"change")]).numbered(number)
}

fn begun(folder: &Path) -> (Log, Arc<ReplicationLog>) {
    let log = log(folder);
    let replication_log = Arc::new(ReplicationLog::new(None));
    replication_log.add(&log, record(1));
    replication_log.begin(&log, START, |changes| {
        assert_eq!(changes, 0, "what came before is dropped");
        vec![record(0)]
    });
    (log, replication_log)
}

#[tokio::test]
async fn nothing_is_settled_that_the_backup_does_not_have() {
    let folder = tempfile::tempdir().expect("a folder");
    let (log, replication_log) = begun(folder.path());
    replication_log.add(&log, record(1));
    let from = replication_log.subscribe();
    assert_eq!((from.items, from.changes), (2, 1));
    replication_log.add(&log, record(2));
    replication_log
        .commit(replication_log.end())
        .await
        .expect("nobody waits for the backup yet");
    replication_log.require_backup();
    let waiting = Arc::clone(&replication_log);
    let end = replication_log.end();
    let mut settled = tokio::spawn(async move { waiting.commit(end).await });
    tokio::task::yield_now().await;
    assert!(!settled.is_finished());
    replication_log.confirm(from.items);
    tokio::time::timeout(Duration::from_millis(20), &mut settled)
        .await
        .expect_err("it lacks the last one");
    assert_eq!(replication_log.lag(), (1, record(2).bytes()));
    assert_eq!(
        replication_log
            .take(from, u64::MAX)
            .expect("it is subscribed")
            .len(),
        1
    );
    replication_log.confirm(from.items + 1);
    settled.await.expect("no panic").expect("it is there");
}

#[test]
fn what_a_backup_that_is_away_lacks_is_its_lag() {
    let folder = tempfile::tempdir().expect("a folder");
    let (log, replication_log) = begun(folder.path());
    assert_eq!(replication_log.lag(), (1, 0), "no backup has the segment");
    let from = replication_log.subscribe();
    replication_log.confirm(from.items);
    assert_eq!(replication_log.lag(), (0, 0));
    replication_log.unsubscribe(from);
    for number in 1..=3 {
        replication_log.add(&log, record(number));
    }
    assert_eq!(replication_log.lag(), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn a_backup_that_says_nothing_is_not_waited_for_without_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let (log, replication_log) = begun(folder.path());
    replication_log.require_backup();
    replication_log.add(&log, record(1));
    let refused = replication_log
        .commit(replication_log.end())
        .await
        .expect_err("there is no backup");
    assert!(
        matches!(refused, NotCommitted::Unconfirmed { changes: 2 }),
        "{refused}"
    );
    // The primary continues alone when it need not wait for the backup.
    replication_log.release_backup();
    replication_log
        .commit(replication_log.end())
        .await
        .expect("nobody is waited for");
}

#[tokio::test]
async fn a_feed_that_is_closed_has_nothing_settled_and_takes_nothing_in() {
    let folder = tempfile::tempdir().expect("a folder");
    let (log, replication_log) = begun(folder.path());
    let end = replication_log.end();
    replication_log.close();
    assert!(matches!(
        replication_log.commit(end).await,
        Err(NotCommitted::Deposed)
    ));
    replication_log.add(&log, record(1));
    assert_eq!(replication_log.begin(&log, START, |_| { Vec::new() }), 0);
    assert_eq!(replication_log.end(), end);
}

#[tokio::test(start_paused = true)]
async fn changes_wait_when_too_much_waits_to_be_sent() {
    let folder = tempfile::tempdir().expect("a folder");
    let (log, replication_log) = begun(folder.path());
    let from = replication_log.subscribe();
    let large = Bytes::from(vec![1; 1 << 20]);
    for number in 0..=QUEUED_BYTES_MAX >> 20 {
        replication_log.add(&log, Entry::new(1, vec![large.clone()]).numbered(number));
    }
    assert!(matches!(
        replication_log.commit(replication_log.end()).await,
        Err(NotCommitted::Unconfirmed { .. })
    ));
    while replication_log
        .take(from, 8 << 20)
        .is_some_and(|items| !items.is_empty())
    {}
    replication_log
        .commit(replication_log.end())
        .await
        .expect("there is room again");
    replication_log.unsubscribe(from);
    assert!(
        replication_log.take(from, 1).is_none(),
        "nobody is told any more"
    );
}
