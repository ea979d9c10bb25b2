//! Tests of the membership without clock or network.

use proptest::prelude::*;
use trainyard_cluster_spec::Role;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn worker(index: usize) -> Task {
    Task {
        role: Role::Worker,
        index,
    }
}

fn servers(ps: &str) -> Servers {
    Servers::from_lines(["chief:0=host:1", &format!("ps:0={ps}")])
}

fn membership() -> Membership {
    let mut membership = Membership::new(MembershipConfig {
        cluster_id: 1,
        servers: servers("host:2"),
        layout_fingerprint: 3,
        job: Agreement::default(),
        expected: vec![worker(0), worker(1)],
        admission: Admission::Expected("the rows are divided"),
        lease: 5 * SECOND,
        heartbeat_interval: SECOND / 2,
        takeover: SECOND,
        return_within: SECOND / 2,
        lanes: 0,
    });
    membership.begin_epoch(1, vec!["ps:0".into()]);
    membership
}

/// Returns an open membership with dynamic sharding and `lanes` lanes.
fn open(lanes: usize) -> Membership {
    let config = MembershipConfig {
        admission: Admission::Open,
        lanes,
        ..membership().config
    };
    let mut membership = Membership::new(config);
    membership.begin_epoch(1, Vec::new());
    membership.open();
    membership
}

fn join(index: usize, incarnation: u64) -> RegisterRequest {
    RegisterRequest {
        task: worker(index),
        incarnation,
        servers: servers("host:2"),
        layout_fingerprint: 3,
        job: Agreement::default(),
        address: "host:1".into(),
        process_id: 4711,
        started_unix_secs: 9,
        spent_session: 0,
    }
}

fn heartbeat(index: usize, incarnation: u64, joined: &RegisterReply) -> HeartbeatRequest {
    let epoch = joined.epoch;
    let session = joined.session;
    HeartbeatRequest {
        task: worker(index),
        incarnation,
        epoch,
        session,
        steps: 3,
        examples: 30,
        loss: 0.5,
        totals: StepTotals::default(),
    }
}

#[test]
fn a_task_waits_until_training_is_opened() {
    let mut membership = membership();
    let joined = membership.register(SECOND, join(0, 7)).unwrap();
    assert_eq!(
        (joined.state, joined.waiting_for.as_slice()),
        (JobState::Waiting, ["ps:0".to_owned()].as_slice())
    );
    membership.open();
    let again = membership.register(SECOND, join(0, 7)).unwrap();
    assert_eq!(
        (again.state, again.session),
        (JobState::Training, joined.session),
        "the same process, the same session"
    );
    assert_eq!((again.data_shard_index, again.data_shard_count), (0, 2));
}

#[test]
fn a_process_that_joins_again_behind_a_session_it_has_used_gets_another_and_its_earlier_one_is_over()
 {
    let mut membership = open(0);
    let first = membership.register(SECOND, join(0, 7)).unwrap();
    membership
        .heartbeat(2 * SECOND, &heartbeat(0, 7, &first))
        .unwrap();
    let spent = |session| RegisterRequest {
        spent_session: session,
        ..join(0, 7)
    };
    // The process is alive, so the registration does not wait for a silence.
    let second = membership
        .register(2 * SECOND, spent(first.session))
        .unwrap();
    assert!(
        second.session > first.session,
        "numbers are used once in a session"
    );
    // The reply was lost, and the process repeats the request.
    let repeated = membership
        .register(2 * SECOND, spent(first.session))
        .unwrap();
    assert_eq!(repeated.session, second.session);
    let fenced = membership
        .heartbeat(3 * SECOND, &heartbeat(0, 7, &first))
        .unwrap_err();
    assert_eq!(fenced.reason, Reason::Fenced);
    assert_eq!(
        membership.totals(),
        (3, 30),
        "what it did in the first one still counts"
    );
    assert_eq!(
        membership
            .register(2 * SECOND + SECOND / 2, join(0, 8))
            .unwrap_err()
            .reason,
        Reason::TaskTaken
    );
}

#[test]
fn a_quarantined_task_takes_part_no_more_and_the_job_fails_when_nobody_else_does() {
    let mut membership = open(0);
    let one = membership.register(SECOND, join(0, 7)).unwrap();
    let other = membership.register(SECOND, join(1, 7)).unwrap();
    assert!(
        !membership.quarantine(worker(0), one.session + 9, "x".into()),
        "not that session"
    );
    assert!(membership.quarantine(worker(0), one.session, "worker:0 is quarantined".into()));
    assert!(
        !membership.quarantine(worker(0), one.session, "x".into()),
        "once"
    );
    assert_eq!(
        membership
            .heartbeat(SECOND, &heartbeat(0, 7, &one))
            .unwrap_err()
            .reason,
        Reason::Fenced
    );
    for incarnation in [7, 8] {
        let refused = membership
            .register(SECOND, join(0, incarnation))
            .unwrap_err();
        assert_eq!(
            (refused.reason, refused.message.as_str()),
            (Reason::Quarantined, "worker:0 is quarantined")
        );
    }
    assert_eq!((membership.active(), membership.stranded()), (1, None));
    assert_eq!(membership.liveness(SECOND), Liveness::Training);
    assert!(membership.quarantine(worker(1), other.session, "worker:1 too".into()));
    assert_eq!(
        membership.stranded().as_deref(),
        Some("worker:0 is quarantined; worker:1 too")
    );
}

#[test]
fn a_second_process_of_a_live_task_is_refused_and_one_of_a_silent_task_taken_in() {
    let mut membership = membership();
    let first = membership.register(SECOND, join(0, 7)).unwrap();
    membership
        .heartbeat(2 * SECOND, &heartbeat(0, 7, &first))
        .unwrap();
    let refused = membership
        .register(2 * SECOND + SECOND / 2, join(0, 8))
        .unwrap_err();
    assert_eq!(refused.reason, Reason::TaskTaken);
    assert!(
        refused
            .message
            .contains("worker:0 is already served by host:1 (pid 4711"),
        "{refused}"
    );
    let second = membership
        .register(3 * SECOND + SECOND / 2, join(0, 8))
        .unwrap();
    assert!(second.session > first.session);
    let fenced = membership
        .heartbeat(4 * SECOND, &heartbeat(0, 7, &first))
        .unwrap_err();
    assert_eq!(
        fenced.reason,
        Reason::Fenced,
        "the zombie learns that it is one"
    );
    assert_eq!(
        membership.totals(),
        (3, 30),
        "what the first one did still counts"
    );
}

#[test]
fn other_clusters_jobs_and_tasks_are_refused_by_name() {
    let mut membership = membership();
    let cluster = membership
        .register(
            SECOND,
            RegisterRequest {
                servers: servers("host:9"),
                ..join(0, 1)
            },
        )
        .unwrap_err();
    assert_eq!(cluster.reason, Reason::OtherCluster);
    assert!(
        cluster
            .message
            .ends_with("ps:0 is host:9 for worker:0 and host:2 for chief:0"),
        "{cluster}"
    );
    let job = membership
        .register(
            SECOND,
            RegisterRequest {
                layout_fingerprint: 9,
                ..join(0, 1)
            },
        )
        .unwrap_err();
    assert_eq!(job.reason, Reason::OtherLayout);
    let told = Agreement::from_lines(["input.label.positive=\">50k\""]);
    let job = membership
        .register(
            SECOND,
            RegisterRequest {
                job: told,
                ..join(0, 1)
            },
        )
        .unwrap_err();
    assert_eq!(job.reason, Reason::OtherLayout);
    assert!(
        job.message
            .contains("input.label.positive is \">50k\" for worker:0"),
        "{job}"
    );
    let stranger = membership
        .register(
            SECOND,
            RegisterRequest {
                task: worker(5),
                ..join(0, 1)
            },
        )
        .unwrap_err();
    for part in [
        "whose tasks that train are worker:0, worker:1",
        "because the rows are divided",
        "name worker:5 in",
    ] {
        assert!(stranger.message.contains(part), "{stranger}");
    }
}

#[test]
fn a_task_whose_connection_broke_off_is_gone_unless_it_says_otherwise_at_once() {
    let mut membership = membership();
    let [dead, alive] = [0, 1].map(|index| {
        let joined = membership.register(SECOND, join(index, 7)).unwrap();
        let heartbeat = heartbeat(index, 7, &joined);
        membership.keep_alive(SECOND, &heartbeat).unwrap();
        heartbeat
    });
    // The task opens a new stream before the break of the earlier one is noticed.
    membership.keep_alive(2 * SECOND, &alive).unwrap();
    membership.lost(2 * SECOND, &alive);
    membership.lost(2 * SECOND, &dead);
    assert_eq!(membership.expire(2 * SECOND + SECOND / 4), []);
    let again = membership
        .register(2 * SECOND + SECOND / 4, join(0, 8))
        .unwrap();
    assert!(
        again.session > dead.session,
        "another process takes its place at once"
    );
    let again = heartbeat(0, 8, &again);
    membership.keep_alive(3 * SECOND, &again).unwrap();
    membership.lost(3 * SECOND, &again);
    membership.lost(3 * SECOND, &alive);
    membership
        .heartbeat(3 * SECOND + SECOND / 4, &alive)
        .unwrap();
    assert_eq!(membership.expire(4 * SECOND), [(worker(0), again.session)]);
    assert!(membership.keep_alive(4 * SECOND, &again).is_err());
}

#[test]
fn silence_ends_a_lease_and_the_task_is_missed() {
    let mut membership = membership();
    let joined = membership.register(SECOND, join(0, 7)).unwrap();
    membership.open();
    assert_eq!(membership.expire(6 * SECOND), []);
    assert_eq!(membership.expire(7 * SECOND), [(worker(0), joined.session)]);
    assert_eq!(membership.expire(8 * SECOND), [], "once");
    let missed = |membership: &mut Membership, now: Duration| match membership.liveness(now) {
        Liveness::Missed(missed) => missed,
        other => panic!("{other:?}"),
    };
    let absent = missed(&mut membership, 8 * SECOND);
    assert_eq!(
        absent.iter().map(|(task, _)| *task).collect::<Vec<_>>(),
        [worker(0), worker(1)]
    );
    assert_eq!(missed(&mut membership, 10 * SECOND)[0].1, 2 * SECOND);
    let back = membership.register(11 * SECOND, join(0, 8)).unwrap();
    assert_eq!(membership.liveness(12 * SECOND), Liveness::Training);
    membership
        .leave(12 * SECOND, &heartbeat(0, 8, &back), LeaveReason::Finished)
        .unwrap();
    assert_eq!(
        missed(&mut membership, 12 * SECOND),
        [(worker(1), 4 * SECOND)]
    );
}

#[test]
fn the_job_is_done_when_all_inputs_are() {
    let mut membership = membership();
    let first = membership.register(SECOND, join(0, 7)).unwrap();
    let second = membership.register(SECOND, join(1, 8)).unwrap();
    membership.open();
    membership
        .leave(
            2 * SECOND,
            &heartbeat(0, 7, &first),
            LeaveReason::InputExhausted,
        )
        .unwrap();
    assert_eq!(
        (membership.liveness(2 * SECOND), membership.active()),
        (Liveness::Training, 1)
    );
    membership
        .leave(2 * SECOND, &heartbeat(1, 8, &second), LeaveReason::Shutdown)
        .unwrap();
    let missed = Liveness::Missed(vec![(worker(1), Duration::ZERO)]);
    assert_eq!(
        membership.liveness(2 * SECOND),
        missed,
        "a task that was told to stop may come back"
    );
    let back = membership.register(3 * SECOND, join(1, 9)).unwrap();
    membership
        .leave(4 * SECOND, &heartbeat(1, 9, &back), LeaveReason::Finished)
        .unwrap();
    assert_eq!(
        (membership.liveness(4 * SECOND), membership.active()),
        (Liveness::Finished, 0)
    );
}

#[test]
fn a_new_epoch_ends_all_sessions_and_its_own_are_higher() {
    let mut membership = membership();
    let old = membership.register(SECOND, join(0, 7)).unwrap();
    membership.begin_epoch(2, Vec::new());
    assert_eq!(
        membership
            .heartbeat(SECOND, &heartbeat(0, 7, &old))
            .unwrap_err()
            .reason,
        Reason::StaleEpoch
    );
    assert!(membership.register(SECOND, join(0, 7)).unwrap().session > old.session);
}

#[test]
fn any_worker_may_join_data_that_is_handed_out_and_nobody_else() {
    let mut membership = open(0);
    let joined = membership
        .register(SECOND, join(WORKERS_MAX - 1, 7))
        .unwrap();
    assert_eq!(
        (joined.data_shard_index, joined.data_shard_count),
        (2, 2),
        "behind the expected ones"
    );
    let high = membership
        .register(SECOND, join(WORKERS_MAX, 7))
        .unwrap_err();
    assert!(
        high.message.contains("must be below 4096, given 4096"),
        "{high}"
    );
    let chief = RegisterRequest {
        task: Task {
            role: Role::Chief,
            index: 0,
        },
        ..join(0, 7)
    };
    let chief = membership.register(SECOND, chief).unwrap_err();
    assert!(
        chief.message.contains("chief:0 does not train in this job"),
        "{chief}"
    );
    let other = membership
        .register(
            SECOND,
            RegisterRequest {
                servers: servers("host:9"),
                ..join(5, 7)
            },
        )
        .unwrap_err();
    assert!(
        other.message.contains("worker:5 has another cluster"),
        "{other}"
    );
}

#[test]
fn data_that_is_handed_out_waits_for_nobody_who_has_gone() {
    let mut membership = open(0);
    assert_eq!(
        membership.liveness(SECOND),
        Liveness::Deserted(Duration::ZERO)
    );
    assert_eq!(
        membership.liveness(3 * SECOND),
        Liveness::Deserted(2 * SECOND)
    );
    let expected = membership.register(3 * SECOND, join(0, 7)).unwrap();
    let stranger = membership.register(3 * SECOND, join(9, 8)).unwrap();
    assert_eq!(membership.liveness(4 * SECOND), Liveness::Training);
    membership
        .leave(
            4 * SECOND,
            &heartbeat(0, 7, &expected),
            LeaveReason::Shutdown,
        )
        .unwrap();
    assert_eq!(membership.liveness(5 * SECOND), Liveness::Training);
    membership
        .leave(
            6 * SECOND,
            &heartbeat(9, 8, &stranger),
            LeaveReason::InputExhausted,
        )
        .unwrap();
    assert_eq!(
        membership.liveness(6 * SECOND),
        Liveness::Finished,
        "worker:0 and worker:1 are not needed"
    );
    membership.reopen();
    assert_eq!(
        membership.liveness(7 * SECOND),
        Liveness::Deserted(Duration::ZERO),
        "there was more to do"
    );
    assert_eq!(membership.totals(), (6, 60));
}

#[test]
fn lanes_go_to_workers_that_were_not_expected() {
    let mut membership = open(2);
    let first = membership.register(SECOND, join(0, 7)).unwrap();
    membership.register(SECOND, join(7, 8)).unwrap();
    membership.assign_lanes(SECOND, None);
    assert_eq!(
        membership.lanes.of(worker(1)),
        [1],
        "it is expected, and may be on its way"
    );
    membership
        .leave(2 * SECOND, &heartbeat(0, 7, &first), LeaveReason::Shutdown)
        .unwrap();
    membership.assign_lanes(7 * SECOND, None);
    assert_eq!(membership.lanes.of(worker(7)), [0, 1]);
}

/// An event of a worker.
#[derive(Debug, Clone)]
enum Happening {
    Starts,
    Beats,
    Stops,
    Finishes,
    Dies,
    Waits,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        4 => Just(Happening::Starts),
        4 => Just(Happening::Beats),
        2 => Just(Happening::Stops),
        1 => Just(Happening::Finishes),
        1 => Just(Happening::Dies),
        2 => Just(Happening::Waits),
    ]
}

proptest! {
    /// Workers start, stop and die in any order. A model of what each process knows is kept beside the membership: a
    /// session lives in one process, session numbers grow, every lane belongs to a present task, and the job is over
    /// only when no task is left and one has read to the end.
    #[test]
    fn a_storm_of_joins_and_leaves_keeps_one_session_a_task(
        lanes in 0_usize..4, events in prop::collection::vec((0_usize..6, happening()), 1..200),
    ) {
        let mut membership = open(lanes);
        membership.assign_lanes(Duration::ZERO, None);
        let mut alive: BTreeMap<usize, (u64, RegisterReply)> = BTreeMap::new();
        let mut now = Duration::ZERO;
        let mut incarnation = 0;
        let mut highest = 0;
        let mut finished = false;
        for (index, event) in events {
            now += SECOND / 10;
            match event {
                Happening::Starts => {
                    incarnation += 1;
                    match membership.register(now, join(index, incarnation)) {
                        Ok(joined) => {
                            prop_assert!(joined.session > highest, "{} after {highest}", joined.session);
                            highest = joined.session;
                            if let Some((old, session)) = alive.insert(index, (incarnation, joined)) {
                                let zombie = membership.heartbeat(now, &heartbeat(index, old, &session));
                                prop_assert_eq!(zombie.unwrap_err().reason, Reason::Fenced);
                            }
                            // An earlier process of this task that had read to the end is forgotten.
                            finished = membership.members.values().any(Member::is_done);
                        }
                        Err(refusal) => prop_assert_eq!(refusal.reason, Reason::TaskTaken),
                    }
                }
                Happening::Beats => {
                    if let Some((own, joined)) = alive.get(&index) {
                        let expired = membership.members[&worker(index)].expired;
                        prop_assert_eq!(membership.heartbeat(now, &heartbeat(index, *own, joined)).is_ok(), !expired);
                    }
                }
                Happening::Stops | Happening::Finishes => {
                    let done = matches!(event, Happening::Finishes);
                    if let Some((own, joined)) = alive.remove(&index) {
                        let reason = if done { LeaveReason::InputExhausted } else { LeaveReason::Shutdown };
                        let left = membership.leave(now, &heartbeat(index, own, &joined), reason);
                        finished |= done && left.is_ok();
                    }
                }
                Happening::Dies => drop(alive.remove(&index)),
                Happening::Waits => now += SECOND,
            }
            membership.expire(now);
            membership.assign_lanes(now + 6 * SECOND, None);
            let here: Vec<Task> =
                membership.members.iter().filter(|(_, member)| member.trains()).map(|(task, _)| *task).collect();
            let covered: Vec<u32> = membership.members.keys().flat_map(|task| membership.lanes.of(*task)).collect();
            prop_assert!(here.is_empty() || (0..lanes as u32).all(|lane| covered.contains(&lane)));
            match membership.liveness(now) {
                Liveness::Training => prop_assert!(!here.is_empty()),
                Liveness::Finished => prop_assert!(here.is_empty() && finished),
                Liveness::Deserted(_) => prop_assert!(here.is_empty() && !finished),
                Liveness::Missed(missed) => prop_assert!(false, "{missed:?}"),
            }
        }
    }
}
