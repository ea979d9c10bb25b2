//! A store that takes long to prepare still answers requests.

use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};

use super::*;

/// A checkpoint in which each read waits until it is released.
struct Slow {
    begun: Mutex<Sender<()>>,
    go: Mutex<Receiver<()>>,
}

impl TensorSource for Slow {
    fn read(
        &self,
        _: &str,
        _: Option<&str>,
        _: Range<usize>,
        out: &mut [f32],
    ) -> Result<(), String> {
        let _ = self
            .begun
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .send(());
        let _ = self
            .go
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .recv();
        out.fill(1.0);
        Ok(())
    }

    fn held(&self, _: &str, rows: Range<usize>) -> Result<Vec<Range<usize>>, String> {
        Ok(vec![rows])
    }

    fn read_held(
        &self,
        variable: &str,
        slot: Option<&str>,
        rows: Range<usize>,
        out: &mut [f32],
    ) -> Result<(), String> {
        self.read(variable, slot, rows, out)
    }

    fn first_rows(&self, _: &str) -> Option<FirstRows> {
        None
    }

    fn read_dynamic<'a>(
        &'a self,
        _: &'a str,
        _: &'a [&'a str],
        _: Range<u128>,
    ) -> Result<Lots<'a>, String> {
        Err("there is none".to_owned())
    }
}

/// Prepares a store from a slow checkpoint, and calls `look` when the first read has begun. `look` releases the reads.
fn while_preparing<T>(look: impl FnOnce(&Store, Sender<()>) -> T) -> (T, Store, Result<(), Error>) {
    let (begun, has_begun) = channel();
    let (let_go, go) = channel();
    let source = Slow {
        begun: Mutex::new(begun),
        go: Mutex::new(go),
    };
    let store = Store::new(0);
    store
        .claim(&Claim {
            cluster_id: CLUSTER,
            epoch: 1,
        })
        .unwrap();
    let restore = Restore {
        source: &source,
        version: Version::Pushes(5),
        global_step: 5,
        positions: Vec::new(),
    };
    let request = Prepare {
        restore: Some(restore),
        ..prepare(0)
    };
    let (seen, prepared) = std::thread::scope(|scope| {
        let preparing = scope.spawn(|| store.prepare(&chief(1), request));
        has_begun.recv().expect("it reads");
        let seen = look(&store, let_go);
        (seen, preparing.join().expect("no panic"))
    });
    (seen, store, prepared)
}

#[test]
fn a_store_that_is_being_restored_answers_and_says_how_far_it_has_come() {
    let ((), store, prepared) = while_preparing(|store, let_go| {
        let status = store.status();
        assert_eq!(
            (status.state, status.prepared_epoch, status.epoch),
            (State::Preparing, 0, 1)
        );
        assert_eq!(status.progress.total_bytes, 4 * (2 + 4));
        assert!(
            status.progress.done_bytes < status.progress.total_bytes,
            "{:?}",
            status.progress
        );
        assert_eq!(store.positions(), []);
        let refused = [
            store.open(&chief(1)).unwrap_err(),
            store.open_session(&worker(0, 1), &opening(0)).unwrap_err(),
            store.snapshot(&chief(1), Basis::Whole).unwrap_err(),
            store.prepare(&chief(1), prepare(0)).unwrap_err(),
        ];
        assert!(
            refused
                .iter()
                .all(|error| matches!(error, Error::NotReady(_))),
            "{refused:?}"
        );
        drop(let_go);
    });
    assert_eq!(prepared, Ok(()));
    assert_eq!(
        (store.status().state, store.status().version.count()),
        (State::Prepared, 5)
    );
}

#[test]
fn a_later_chief_ends_what_an_earlier_one_has_begun_and_prepares_anew() {
    let ((), store, prepared) = while_preparing(|store, let_go| {
        store
            .claim(&Claim {
                cluster_id: CLUSTER,
                epoch: 2,
            })
            .unwrap();
        store.cancel_preparing();
        drop(let_go);
    });
    assert!(prepared.is_err(), "{prepared:?}");
    assert_eq!(
        (store.status().state, store.held().total()),
        (State::Empty, 0)
    );
    store.prepare(&chief(2), prepare(0)).unwrap();
    assert_eq!(
        (store.status().state, store.status().prepared_epoch),
        (State::Prepared, 2)
    );
}

#[test]
fn what_was_prepared_for_an_earlier_chief_is_not_served_by_a_later_one() {
    let ((), store, prepared) = while_preparing(|store, let_go| {
        store
            .claim(&Claim {
                cluster_id: CLUSTER,
                epoch: 2,
            })
            .unwrap();
        drop(let_go);
    });
    assert_eq!(
        prepared,
        Err(Error::StaleEpoch {
            current: 2,
            given: 1
        })
    );
    assert_eq!(
        (store.status().state, store.status().prepared_epoch),
        (State::Empty, 0)
    );
}

#[test]
fn a_job_that_ends_while_a_store_is_being_restored_has_ended_for_it() {
    let ((), store, prepared) = while_preparing(|store, let_go| {
        store.drain();
        assert_eq!(
            store.status().state,
            State::Preparing,
            "there is nothing to drain"
        );
        store.finish(&chief(1)).unwrap();
        drop(let_go);
    });
    assert!(prepared.is_err(), "{prepared:?}");
    assert_eq!(store.status().state, State::Finished);
}

#[test]
fn a_snapshot_alone_is_no_checkpoint() {
    let store = open_store(0);
    store.open_session(&worker(0, 1), &opening(0)).unwrap();
    step(&store, &worker(0, 1), 1, batch(0, 0), &[1.0; 4]).unwrap();
    drop(store.snapshot(&chief(1), Basis::Whole).unwrap());
    assert!(
        !store.close_if_saved(),
        "its file may never come to be whole"
    );
    store.saved(0, 1);
    assert!(!store.close_if_saved(), "that was told in another epoch");
    store.saved(1, 1);
    assert!(store.close_if_saved());
}
