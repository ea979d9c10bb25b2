//! What a feed passes on, and when it waits.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use trainyard_write_ahead_log::{Durability, Folder};

use super::*;

fn log(folder: &Path) -> Log {
    Log::open(
        Folder::open(folder).expect("it is free"),
        Durability::Wal,
        None,
    )
    .expect("it opens")
}

fn record(number: u64) -> Entry {
    Entry::new(1, vec![Bytes::from_static(b"change")]).numbered(number)
}

fn begun(folder: &Path) -> (Log, Arc<Feed>) {
    let log = log(folder);
    let feed = Arc::new(Feed::new(None));
    feed.add(&log, record(1));
    feed.begin(&log, Origin::default(), true, |changes| {
        assert_eq!(changes, 0, "what came before is dropped");
        vec![record(0)]
    });
    (log, feed)
}

#[tokio::test]
async fn nothing_is_settled_that_the_backup_does_not_have() {
    let folder = tempfile::tempdir().expect("a folder");
    let (log, feed) = begun(folder.path());
    feed.add(&log, record(1));
    let from = feed.subscribe();
    assert_eq!((from.items, from.changes), (2, 1));
    feed.add(&log, record(2));
    feed.settle(feed.end())
        .await
        .expect("nobody waits for the backup yet");
    feed.set_waits(true);
    let waiting = Arc::clone(&feed);
    let end = feed.end();
    let mut settled = tokio::spawn(async move { waiting.settle(end).await });
    tokio::task::yield_now().await;
    assert!(!settled.is_finished());
    feed.confirm(from.items);
    tokio::time::timeout(Duration::from_millis(20), &mut settled)
        .await
        .expect_err("it lacks the last one");
    assert_eq!(feed.lag(), (1, record(2).bytes()));
    assert_eq!(
        feed.take(from, u64::MAX).expect("it is subscribed").len(),
        1
    );
    feed.confirm(from.items + 1);
    settled.await.expect("no panic").expect("it is there");
}

#[tokio::test(start_paused = true)]
async fn a_backup_that_says_nothing_is_not_waited_for_without_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let (log, feed) = begun(folder.path());
    feed.set_waits(true);
    feed.add(&log, record(1));
    let refused = feed
        .settle(feed.end())
        .await
        .expect_err("there is no backup");
    assert!(
        matches!(refused, Unsettled::Unconfirmed { changes: 2 }),
        "{refused}"
    );
    // It goes on alone, once it may.
    feed.set_waits(false);
    feed.settle(feed.end()).await.expect("nobody is waited for");
}

#[tokio::test]
async fn a_feed_that_is_closed_has_nothing_settled_and_takes_nothing_in() {
    let folder = tempfile::tempdir().expect("a folder");
    let (log, feed) = begun(folder.path());
    let end = feed.end();
    feed.close();
    assert!(matches!(feed.settle(end).await, Err(Unsettled::Deposed)));
    feed.add(&log, record(1));
    assert_eq!(feed.begin(&log, Origin::default(), true, |_| Vec::new()), 0);
    assert_eq!(feed.end(), end);
}

#[tokio::test(start_paused = true)]
async fn changes_wait_when_too_much_waits_to_be_sent() {
    let folder = tempfile::tempdir().expect("a folder");
    let (log, feed) = begun(folder.path());
    let from = feed.subscribe();
    let large = Bytes::from(vec![1; 1 << 20]);
    for number in 0..=QUEUED_BYTES_MAX >> 20 {
        feed.add(&log, Entry::new(1, vec![large.clone()]).numbered(number));
    }
    assert!(matches!(
        feed.settle(feed.end()).await,
        Err(Unsettled::Unconfirmed { .. })
    ));
    while feed
        .take(from, 8 << 20)
        .is_some_and(|items| !items.is_empty())
    {}
    feed.settle(feed.end()).await.expect("there is room again");
    feed.unsubscribe(from);
    assert!(feed.take(from, 1).is_none(), "nobody is told any more");
}
