//! The roster, driven without clock or network.

use trainyard_cluster_spec::Role;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn worker(index: usize) -> Task {
    Task { role: Role::Worker, index }
}

fn roster() -> Roster {
    let mut roster = Roster::new(RosterConfig {
        cluster_id: 1,
        cluster_fingerprint: 2,
        layout_fingerprint: 3,
        expected: vec![worker(0), worker(1)],
        lease: 5 * SECOND,
        heartbeat_interval: SECOND / 2,
        takeover: SECOND,
        lanes: 0,
    });
    roster.begin_epoch(1, vec!["ps:0".into()]);
    roster
}

fn join(index: usize, incarnation: u64) -> Join {
    Join {
        task: worker(index),
        incarnation,
        cluster_fingerprint: 2,
        layout_fingerprint: 3,
        address: "host:1".into(),
        process_id: 4711,
        started_unix_secs: 9,
    }
}

fn pulse(index: usize, incarnation: u64, joined: &Joined) -> Pulse {
    let (epoch, session) = (joined.epoch, joined.session);
    Pulse { task: worker(index), incarnation, epoch, session, steps: 3, examples: 30, loss: 0.5 }
}

#[test]
fn a_task_waits_until_training_is_opened() {
    let mut roster = roster();
    let joined = roster.register(SECOND, join(0, 7)).unwrap();
    assert_eq!(
        (joined.state, joined.waiting_for.as_slice()),
        (JobState::Waiting, ["ps:0".to_owned()].as_slice())
    );
    roster.open();
    let again = roster.register(SECOND, join(0, 7)).unwrap();
    assert_eq!(
        (again.state, again.session),
        (JobState::Training, joined.session),
        "the same process, the same session"
    );
    assert_eq!((again.data_shard_index, again.data_shard_count), (0, 2));
}

#[test]
fn a_second_process_of_a_live_task_is_refused_and_one_of_a_silent_task_taken_in() {
    let mut roster = roster();
    let first = roster.register(SECOND, join(0, 7)).unwrap();
    roster.heartbeat(2 * SECOND, &pulse(0, 7, &first)).unwrap();
    let refused = roster.register(2 * SECOND + SECOND / 2, join(0, 8)).unwrap_err();
    assert_eq!(refused.reason, Reason::TaskTaken);
    assert!(refused.message.contains("worker:0 is already served by host:1 (pid 4711"), "{refused}");
    let second = roster.register(3 * SECOND + SECOND / 2, join(0, 8)).unwrap();
    assert!(second.session > first.session);
    let fenced = roster.heartbeat(4 * SECOND, &pulse(0, 7, &first)).unwrap_err();
    assert_eq!(fenced.reason, Reason::Fenced, "the zombie learns that it is one");
    assert_eq!(roster.totals(), (3, 30), "what the first one did still counts");
}

#[test]
fn other_clusters_jobs_and_tasks_are_refused_by_name() {
    let mut roster = roster();
    let cluster = roster.register(SECOND, Join { cluster_fingerprint: 9, ..join(0, 1) }).unwrap_err();
    assert_eq!(cluster.reason, Reason::OtherCluster);
    let job = roster.register(SECOND, Join { layout_fingerprint: 9, ..join(0, 1) }).unwrap_err();
    assert_eq!(job.reason, Reason::OtherLayout);
    let stranger = roster.register(SECOND, Join { task: worker(5), ..join(0, 1) }).unwrap_err();
    assert!(stranger.message.contains("trains with worker:0, worker:1"), "{stranger}");
}

#[test]
fn silence_ends_a_lease_and_the_task_is_missed() {
    let mut roster = roster();
    let joined = roster.register(SECOND, join(0, 7)).unwrap();
    roster.open();
    assert_eq!(roster.expire(6 * SECOND), []);
    assert_eq!(roster.expire(7 * SECOND), [(worker(0), joined.session)]);
    assert_eq!(roster.expire(8 * SECOND), [], "once");
    let absent = roster.absent(8 * SECOND);
    assert_eq!(absent.iter().map(|(task, _)| *task).collect::<Vec<_>>(), [worker(0), worker(1)]);
    assert_eq!(roster.absent(10 * SECOND)[0].1, 2 * SECOND);
    roster.register(11 * SECOND, join(0, 8)).unwrap();
    assert_eq!(roster.absent(12 * SECOND).len(), 1);
}

#[test]
fn the_job_is_done_when_all_inputs_are() {
    let mut roster = roster();
    let first = roster.register(SECOND, join(0, 7)).unwrap();
    let second = roster.register(SECOND, join(1, 8)).unwrap();
    roster.open();
    roster.leave(2 * SECOND, &pulse(0, 7, &first), LeaveReason::InputExhausted).unwrap();
    assert!(!roster.all_done() && roster.active() == 1);
    roster.leave(2 * SECOND, &pulse(1, 8, &second), LeaveReason::Shutdown).unwrap();
    assert!(!roster.all_done(), "a task that was told to stop may come back");
    let back = roster.register(3 * SECOND, join(1, 9)).unwrap();
    roster.leave(4 * SECOND, &pulse(1, 9, &back), LeaveReason::Finished).unwrap();
    assert!(roster.all_done() && roster.active() == 0);
}

#[test]
fn a_new_epoch_ends_all_sessions_and_its_own_are_higher() {
    let mut roster = roster();
    let old = roster.register(SECOND, join(0, 7)).unwrap();
    roster.begin_epoch(2, Vec::new());
    assert_eq!(roster.heartbeat(SECOND, &pulse(0, 7, &old)).unwrap_err().reason, Reason::StaleEpoch);
    assert!(roster.register(SECOND, join(0, 7)).unwrap().session > old.session);
}
