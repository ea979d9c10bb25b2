//! The roster, driven without clock or network.

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

fn roster() -> Roster {
    let mut roster = Roster::new(RosterConfig {
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
    roster.begin_epoch(1, vec!["ps:0".into()]);
    roster
}

/// A roster whose data is handed out, with so many lanes.
fn open(lanes: usize) -> Roster {
    let config = RosterConfig {
        admission: Admission::Open,
        lanes,
        ..roster().config
    };
    let mut roster = Roster::new(config);
    roster.begin_epoch(1, Vec::new());
    roster.open();
    roster
}

fn join(index: usize, incarnation: u64) -> Join {
    Join {
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

fn pulse(index: usize, incarnation: u64, joined: &Joined) -> Pulse {
    let epoch = joined.epoch;
    let session = joined.session;
    Pulse {
        task: worker(index),
        incarnation,
        epoch,
        session,
        steps: 3,
        examples: 30,
        loss: 0.5,
        work: Work::default(),
    }
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
fn a_process_that_joins_again_behind_a_session_it_has_used_gets_another_and_its_earlier_one_is_over()
 {
    let mut roster = open(0);
    let first = roster.register(SECOND, join(0, 7)).unwrap();
    roster.heartbeat(2 * SECOND, &pulse(0, 7, &first)).unwrap();
    let spent = |session| Join {
        spent_session: session,
        ..join(0, 7)
    };
    // It lives: nobody waits until it has been silent.
    let second = roster.register(2 * SECOND, spent(first.session)).unwrap();
    assert!(
        second.session > first.session,
        "numbers are used once in a session"
    );
    // The answer was lost, and it asks again.
    let repeated = roster.register(2 * SECOND, spent(first.session)).unwrap();
    assert_eq!(repeated.session, second.session);
    let fenced = roster
        .heartbeat(3 * SECOND, &pulse(0, 7, &first))
        .unwrap_err();
    assert_eq!(fenced.reason, Reason::Fenced);
    assert_eq!(
        roster.totals(),
        (3, 30),
        "what it did in the first one still counts"
    );
    assert_eq!(
        roster
            .register(2 * SECOND + SECOND / 2, join(0, 8))
            .unwrap_err()
            .reason,
        Reason::TaskTaken
    );
}

#[test]
fn a_quarantined_task_takes_part_no_more_and_the_job_fails_when_nobody_else_does() {
    let mut roster = open(0);
    let one = roster.register(SECOND, join(0, 7)).unwrap();
    let other = roster.register(SECOND, join(1, 7)).unwrap();
    assert!(
        !roster.quarantine(worker(0), one.session + 9, "x".into()),
        "not that session"
    );
    assert!(roster.quarantine(worker(0), one.session, "worker:0 is quarantined".into()));
    assert!(
        !roster.quarantine(worker(0), one.session, "x".into()),
        "once"
    );
    assert_eq!(
        roster
            .heartbeat(SECOND, &pulse(0, 7, &one))
            .unwrap_err()
            .reason,
        Reason::Fenced
    );
    for incarnation in [7, 8] {
        let refused = roster.register(SECOND, join(0, incarnation)).unwrap_err();
        assert_eq!(
            (refused.reason, refused.message.as_str()),
            (Reason::Quarantined, "worker:0 is quarantined")
        );
    }
    assert_eq!((roster.active(), roster.stranded()), (1, None));
    assert_eq!(roster.attendance(SECOND), Attendance::Training);
    assert!(roster.quarantine(worker(1), other.session, "worker:1 too".into()));
    assert_eq!(
        roster.stranded().as_deref(),
        Some("worker:0 is quarantined; worker:1 too")
    );
}

#[test]
fn a_second_process_of_a_live_task_is_refused_and_one_of_a_silent_task_taken_in() {
    let mut roster = roster();
    let first = roster.register(SECOND, join(0, 7)).unwrap();
    roster.heartbeat(2 * SECOND, &pulse(0, 7, &first)).unwrap();
    let refused = roster
        .register(2 * SECOND + SECOND / 2, join(0, 8))
        .unwrap_err();
    assert_eq!(refused.reason, Reason::TaskTaken);
    assert!(
        refused
            .message
            .contains("worker:0 is already served by host:1 (pid 4711"),
        "{refused}"
    );
    let second = roster
        .register(3 * SECOND + SECOND / 2, join(0, 8))
        .unwrap();
    assert!(second.session > first.session);
    let fenced = roster
        .heartbeat(4 * SECOND, &pulse(0, 7, &first))
        .unwrap_err();
    assert_eq!(
        fenced.reason,
        Reason::Fenced,
        "the zombie learns that it is one"
    );
    assert_eq!(
        roster.totals(),
        (3, 30),
        "what the first one did still counts"
    );
}

#[test]
fn other_clusters_jobs_and_tasks_are_refused_by_name() {
    let mut roster = roster();
    let cluster = roster
        .register(
            SECOND,
            Join {
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
    let job = roster
        .register(
            SECOND,
            Join {
                layout_fingerprint: 9,
                ..join(0, 1)
            },
        )
        .unwrap_err();
    assert_eq!(job.reason, Reason::OtherLayout);
    let told = Agreement::from_lines(["input.label.positive=\">50k\""]);
    let job = roster
        .register(
            SECOND,
            Join {
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
    let stranger = roster
        .register(
            SECOND,
            Join {
                task: worker(5),
                ..join(0, 1)
            },
        )
        .unwrap_err();
    for part in [
        "trains with worker:0, worker:1",
        "because the rows are divided",
        "name worker:5 in",
    ] {
        assert!(stranger.message.contains(part), "{stranger}");
    }
}

#[test]
fn a_task_whose_connection_broke_off_is_gone_unless_it_says_otherwise_at_once() {
    let mut roster = roster();
    let [dead, alive] = [0, 1].map(|index| {
        let joined = roster.register(SECOND, join(index, 7)).unwrap();
        let pulse = pulse(index, 7, &joined);
        roster.attend(SECOND, &pulse).unwrap();
        pulse
    });
    // It calls anew before the end of its earlier call is noticed.
    roster.attend(2 * SECOND, &alive).unwrap();
    roster.lost(2 * SECOND, &alive);
    roster.lost(2 * SECOND, &dead);
    assert_eq!(roster.expire(2 * SECOND + SECOND / 4), []);
    let again = roster
        .register(2 * SECOND + SECOND / 4, join(0, 8))
        .unwrap();
    assert!(
        again.session > dead.session,
        "another process takes its place at once"
    );
    let again = pulse(0, 8, &again);
    roster.attend(3 * SECOND, &again).unwrap();
    roster.lost(3 * SECOND, &again);
    roster.lost(3 * SECOND, &alive);
    roster.heartbeat(3 * SECOND + SECOND / 4, &alive).unwrap();
    assert_eq!(roster.expire(4 * SECOND), [(worker(0), again.session)]);
    assert!(roster.attend(4 * SECOND, &again).is_err());
}

#[test]
fn silence_ends_a_lease_and_the_task_is_missed() {
    let mut roster = roster();
    let joined = roster.register(SECOND, join(0, 7)).unwrap();
    roster.open();
    assert_eq!(roster.expire(6 * SECOND), []);
    assert_eq!(roster.expire(7 * SECOND), [(worker(0), joined.session)]);
    assert_eq!(roster.expire(8 * SECOND), [], "once");
    let missed = |roster: &mut Roster, now: Duration| match roster.attendance(now) {
        Attendance::Missed(missed) => missed,
        other => panic!("{other:?}"),
    };
    let absent = missed(&mut roster, 8 * SECOND);
    assert_eq!(
        absent.iter().map(|(task, _)| *task).collect::<Vec<_>>(),
        [worker(0), worker(1)]
    );
    assert_eq!(missed(&mut roster, 10 * SECOND)[0].1, 2 * SECOND);
    let back = roster.register(11 * SECOND, join(0, 8)).unwrap();
    assert_eq!(roster.attendance(12 * SECOND), Attendance::Training);
    roster
        .leave(12 * SECOND, &pulse(0, 8, &back), LeaveReason::Finished)
        .unwrap();
    assert_eq!(missed(&mut roster, 12 * SECOND), [(worker(1), 4 * SECOND)]);
}

#[test]
fn the_job_is_done_when_all_inputs_are() {
    let mut roster = roster();
    let first = roster.register(SECOND, join(0, 7)).unwrap();
    let second = roster.register(SECOND, join(1, 8)).unwrap();
    roster.open();
    roster
        .leave(
            2 * SECOND,
            &pulse(0, 7, &first),
            LeaveReason::InputExhausted,
        )
        .unwrap();
    assert_eq!(
        (roster.attendance(2 * SECOND), roster.active()),
        (Attendance::Training, 1)
    );
    roster
        .leave(2 * SECOND, &pulse(1, 8, &second), LeaveReason::Shutdown)
        .unwrap();
    let missed = Attendance::Missed(vec![(worker(1), Duration::ZERO)]);
    assert_eq!(
        roster.attendance(2 * SECOND),
        missed,
        "a task that was told to stop may come back"
    );
    let back = roster.register(3 * SECOND, join(1, 9)).unwrap();
    roster
        .leave(4 * SECOND, &pulse(1, 9, &back), LeaveReason::Finished)
        .unwrap();
    assert_eq!(
        (roster.attendance(4 * SECOND), roster.active()),
        (Attendance::Finished, 0)
    );
}

#[test]
fn a_new_epoch_ends_all_sessions_and_its_own_are_higher() {
    let mut roster = roster();
    let old = roster.register(SECOND, join(0, 7)).unwrap();
    roster.begin_epoch(2, Vec::new());
    assert_eq!(
        roster
            .heartbeat(SECOND, &pulse(0, 7, &old))
            .unwrap_err()
            .reason,
        Reason::StaleEpoch
    );
    assert!(roster.register(SECOND, join(0, 7)).unwrap().session > old.session);
}

#[test]
fn any_worker_may_join_data_that_is_handed_out_and_nobody_else() {
    let mut roster = open(0);
    let joined = roster.register(SECOND, join(WORKERS_MAX - 1, 7)).unwrap();
    assert_eq!(
        (joined.data_shard_index, joined.data_shard_count),
        (2, 2),
        "behind the expected ones"
    );
    let high = roster.register(SECOND, join(WORKERS_MAX, 7)).unwrap_err();
    assert!(
        high.message.contains("must be below 4096, given 4096"),
        "{high}"
    );
    let chief = Join {
        task: Task {
            role: Role::Chief,
            index: 0,
        },
        ..join(0, 7)
    };
    let chief = roster.register(SECOND, chief).unwrap_err();
    assert!(
        chief.message.contains("chief:0 does not train here"),
        "{chief}"
    );
    let other = roster
        .register(
            SECOND,
            Join {
                servers: servers("host:9"),
                ..join(5, 7)
            },
        )
        .unwrap_err();
    assert!(
        other.message.contains("worker:5 was given another cluster"),
        "{other}"
    );
}

#[test]
fn data_that_is_handed_out_waits_for_nobody_who_has_gone() {
    let mut roster = open(0);
    assert_eq!(
        roster.attendance(SECOND),
        Attendance::Deserted(Duration::ZERO)
    );
    assert_eq!(
        roster.attendance(3 * SECOND),
        Attendance::Deserted(2 * SECOND)
    );
    let expected = roster.register(3 * SECOND, join(0, 7)).unwrap();
    let stranger = roster.register(3 * SECOND, join(9, 8)).unwrap();
    assert_eq!(roster.attendance(4 * SECOND), Attendance::Training);
    roster
        .leave(4 * SECOND, &pulse(0, 7, &expected), LeaveReason::Shutdown)
        .unwrap();
    assert_eq!(roster.attendance(5 * SECOND), Attendance::Training);
    roster
        .leave(
            6 * SECOND,
            &pulse(9, 8, &stranger),
            LeaveReason::InputExhausted,
        )
        .unwrap();
    assert_eq!(
        roster.attendance(6 * SECOND),
        Attendance::Finished,
        "worker:0 and worker:1 are not needed"
    );
    roster.reopen();
    assert_eq!(
        roster.attendance(7 * SECOND),
        Attendance::Deserted(Duration::ZERO),
        "there was more to do"
    );
    assert_eq!(roster.totals(), (6, 60));
}

#[test]
fn lanes_go_to_workers_that_were_not_expected() {
    let mut roster = open(2);
    let first = roster.register(SECOND, join(0, 7)).unwrap();
    roster.register(SECOND, join(7, 8)).unwrap();
    roster.assign_lanes(SECOND, None);
    assert_eq!(
        roster.lanes.of(worker(1)),
        [1],
        "it is expected, and may be on its way"
    );
    roster
        .leave(2 * SECOND, &pulse(0, 7, &first), LeaveReason::Shutdown)
        .unwrap();
    roster.assign_lanes(7 * SECOND, None);
    assert_eq!(roster.lanes.of(worker(7)), [0, 1]);
}

/// One thing that happens to a worker.
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
    /// Workers start, stop and die in any order. A model of what each process knows is kept beside the roster: a session
    /// lives in one process, numbers go up, every lane is with somebody who is here, and the job is over only when
    /// nobody is left and somebody has read to the end.
    #[test]
    fn a_storm_of_joins_and_leaves_keeps_one_session_a_task(
        lanes in 0_usize..4, events in prop::collection::vec((0_usize..6, happening()), 1..200),
    ) {
        let mut roster = open(lanes);
        roster.assign_lanes(Duration::ZERO, None);
        let mut alive: BTreeMap<usize, (u64, Joined)> = BTreeMap::new();
        let mut now = Duration::ZERO;
        let mut incarnation = 0;
        let mut highest = 0;
        let mut finished = false;
        for (index, event) in events {
            now += SECOND / 10;
            match event {
                Happening::Starts => {
                    incarnation += 1;
                    match roster.register(now, join(index, incarnation)) {
                        Ok(joined) => {
                            prop_assert!(joined.session > highest, "{} after {highest}", joined.session);
                            highest = joined.session;
                            if let Some((old, session)) = alive.insert(index, (incarnation, joined)) {
                                let zombie = roster.heartbeat(now, &pulse(index, old, &session));
                                prop_assert_eq!(zombie.unwrap_err().reason, Reason::Fenced);
                            }
                            // Whoever had read to the end under this name is forgotten.
                            finished = roster.members.values().any(Member::is_done);
                        }
                        Err(refusal) => prop_assert_eq!(refusal.reason, Reason::TaskTaken),
                    }
                }
                Happening::Beats => {
                    if let Some((own, joined)) = alive.get(&index) {
                        let expired = roster.members[&worker(index)].expired;
                        prop_assert_eq!(roster.heartbeat(now, &pulse(index, *own, joined)).is_ok(), !expired);
                    }
                }
                Happening::Stops | Happening::Finishes => {
                    let done = matches!(event, Happening::Finishes);
                    if let Some((own, joined)) = alive.remove(&index) {
                        let reason = if done { LeaveReason::InputExhausted } else { LeaveReason::Shutdown };
                        let left = roster.leave(now, &pulse(index, own, &joined), reason);
                        finished |= done && left.is_ok();
                    }
                }
                Happening::Dies => drop(alive.remove(&index)),
                Happening::Waits => now += SECOND,
            }
            roster.expire(now);
            roster.assign_lanes(now + 6 * SECOND, None);
            let here: Vec<Task> =
                roster.members.iter().filter(|(_, member)| member.trains()).map(|(task, _)| *task).collect();
            let covered: Vec<u32> = roster.members.keys().flat_map(|task| roster.lanes.of(*task)).collect();
            prop_assert!(here.is_empty() || (0..lanes as u32).all(|lane| covered.contains(&lane)));
            match roster.attendance(now) {
                Attendance::Training => prop_assert!(!here.is_empty()),
                Attendance::Finished => prop_assert!(here.is_empty() && finished),
                Attendance::Deserted(_) => prop_assert!(here.is_empty() && !finished),
                Attendance::Missed(missed) => prop_assert!(false, "{missed:?}"),
            }
        }
    }
}
