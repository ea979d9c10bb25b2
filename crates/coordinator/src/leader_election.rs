//! Leader election: decides whether a chief leads or stands by, as a pure state machine. Time is an argument.

use std::time::Duration;

use trainyard_model_dir::{JobPhase, Leader};

/// Silence of the leading chief after which a standby chief leads: the leader's supervisor has had the time to restart
/// it. For a chief that is silent but not known to be dead, the silence begins when its connection breaks, after 4.5 s.
pub(crate) const LEADER_TIMEOUT: Duration = Duration::from_secs(3);

/// The next action of a chief.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ElectionStep {
    /// The chief leads.
    Chief,
    /// The chief waits until a chief leads.
    Wait,
    /// The chief connects to the leader, and follows it while it is present.
    Follow(Leader),
    /// Another chief leads, and the cluster names no standby chief.
    Refuse(Leader),
}

/// A chief that may lead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Address of the chief.
    pub address: String,
    /// The chief is `chief:0`, which leads if no chief does.
    pub is_first: bool,
    /// The cluster has standby chiefs.
    pub has_standbys: bool,
}

/// The election, as one chief sees it. Times are counted from the chief's start.
#[derive(Debug, Clone)]
pub struct LeaderElection {
    own: Candidate,
    /// The latest term that was seen.
    epoch: u64,
    /// Time of the leader's last sign of life.
    sign: Duration,
    /// The leader has answered.
    heard: bool,
    /// Nothing listens at the leader's address.
    gone: bool,
}

impl LeaderElection {
    /// Returns the election of a chief that has not looked for a leader yet.
    pub fn new(own: Candidate) -> Self {
        Self {
            own,
            epoch: 0,
            sign: Duration::ZERO,
            heard: false,
            gone: false,
        }
    }

    /// Decides, from the latest claim of the model directory, and from the phase that its leader has given the job. A
    /// job that was stopped on purpose is not taken over.
    pub fn next(
        &mut self,
        now: Duration,
        leader: Option<Leader>,
        phase: Option<JobPhase>,
    ) -> ElectionStep {
        let leader = match leader {
            // The leader was an earlier process of this chief.
            Some(leader) if leader.address == self.own.address => return ElectionStep::Chief,
            Some(leader) => leader,
            None if self.own.is_first || now >= self.sign + LEADER_TIMEOUT => {
                return ElectionStep::Chief;
            }
            None => return ElectionStep::Wait,
        };
        if leader.cluster_epoch > self.epoch {
            // A claim is a sign of life, unless it was made before this chief started.
            self.sign = if self.epoch > 0 { now } else { self.sign };
            (self.epoch, self.heard, self.gone) = (leader.cluster_epoch, false, false);
        }
        if self.heard && !self.own.has_standbys {
            return ElectionStep::Refuse(leader);
        }
        if self.heard && phase == Some(JobPhase::Stopped) {
            return ElectionStep::Wait;
        }
        if now >= self.sign + LEADER_TIMEOUT || (self.gone && self.own.is_first) {
            return ElectionStep::Chief;
        }
        ElectionStep::Follow(leader)
    }

    /// Records that the leader was present until now.
    pub fn heard(&mut self, now: Duration) {
        (self.sign, self.heard, self.gone) = (now, true, false);
    }

    /// Records that nothing listens at the leader's address.
    pub fn nobody(&mut self) {
        self.gone = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn leader(address: &str, cluster_epoch: u64) -> Option<Leader> {
        let host = "h".to_owned();
        let process_id = 7;
        let started_unix_secs = 9;
        Some(Leader {
            cluster_epoch,
            address: address.to_owned(),
            host,
            process_id,
            started_unix_secs,
        })
    }

    fn first(address: &str) -> LeaderElection {
        LeaderElection::new(Candidate {
            address: address.to_owned(),
            is_first: true,
            has_standbys: true,
        })
    }

    fn second(address: &str) -> LeaderElection {
        LeaderElection::new(Candidate {
            is_first: false,
            ..first(address).own
        })
    }

    fn single(address: &str) -> LeaderElection {
        LeaderElection::new(Candidate {
            has_standbys: false,
            ..first(address).own
        })
    }

    fn follows(next: &ElectionStep) -> bool {
        matches!(next, ElectionStep::Follow(_))
    }

    #[test]
    fn where_nobody_has_led_the_first_does_at_once_and_the_second_if_the_first_does_not_come() {
        assert_eq!(
            first("a:1").next(Duration::ZERO, None, None),
            ElectionStep::Chief
        );
        let mut second = second("b:1");
        assert_eq!(second.next(Duration::ZERO, None, None), ElectionStep::Wait);
        assert_eq!(second.next(LEADER_TIMEOUT, None, None), ElectionStep::Chief);
    }

    #[test]
    fn a_chief_that_comes_back_leads_at_once_if_nobody_has_led_since() {
        for mut back in [first("a:1"), second("a:1")] {
            assert_eq!(
                back.next(Duration::ZERO, leader("a:1", 4), None),
                ElectionStep::Chief
            );
        }
    }

    #[test]
    fn the_second_leads_when_the_first_has_given_no_sign_for_a_while() {
        let mut second = second("b:1");
        assert!(follows(&second.next(
            Duration::ZERO,
            leader("a:1", 1),
            None
        )));
        second.heard(60 * SECOND);
        assert!(follows(&second.next(61 * SECOND, leader("a:1", 1), None)));
        second.nobody();
        assert!(
            follows(&second.next(62 * SECOND, leader("a:1", 1), None)),
            "it may come back"
        );
        assert_eq!(
            second.next(63 * SECOND, leader("a:1", 1), None),
            ElectionStep::Chief
        );
    }

    #[test]
    fn a_leader_that_was_started_again_is_given_time_anew() {
        let mut second = second("b:1");
        second.next(Duration::ZERO, leader("a:1", 1), None);
        second.heard(10 * SECOND);
        assert!(follows(&second.next(12 * SECOND, leader("a:1", 2), None)));
        assert!(follows(&second.next(14 * SECOND, leader("a:1", 2), None)));
        assert_eq!(
            second.next(15 * SECOND, leader("a:1", 2), None),
            ElectionStep::Chief
        );
    }

    #[test]
    fn the_first_stands_by_for_the_second_that_leads_and_leads_again_when_nobody_listens_there() {
        let mut first = first("a:1");
        assert!(follows(&first.next(Duration::ZERO, leader("b:1", 2), None)));
        first.heard(50 * SECOND);
        assert!(follows(&first.next(50 * SECOND, leader("b:1", 2), None)));
        first.nobody();
        assert_eq!(
            first.next(50 * SECOND, leader("b:1", 2), None),
            ElectionStep::Chief
        );
    }

    #[test]
    fn a_single_chief_does_not_depose_another_that_lives_and_takes_over_from_a_dead_one() {
        let mut elsewhere = single("b:1");
        let found = leader("a:1", 3);
        assert!(follows(&elsewhere.next(
            Duration::ZERO,
            found.clone(),
            None
        )));
        let mut other = elsewhere.clone();
        elsewhere.heard(SECOND);
        assert_eq!(
            elsewhere.next(SECOND, found.clone(), None),
            ElectionStep::Refuse(found.clone().expect("one"))
        );
        other.nobody();
        assert_eq!(
            other.next(SECOND, found.clone(), None),
            ElectionStep::Chief,
            "it is gone"
        );
        let mut silent = single("b:1");
        assert!(follows(&silent.next(2 * SECOND, found.clone(), None)));
        assert_eq!(
            silent.next(LEADER_TIMEOUT, found, None),
            ElectionStep::Chief,
            "it does not answer"
        );
    }

    #[test]
    fn a_job_that_was_stopped_is_not_taken_over_by_who_stood_by() {
        let mut second = second("b:1");
        assert!(follows(&second.next(
            Duration::ZERO,
            leader("a:1", 1),
            Some(JobPhase::Stopped)
        )));
        second.heard(SECOND);
        assert_eq!(
            second.next(100 * SECOND, leader("a:1", 1), Some(JobPhase::Stopped)),
            ElectionStep::Wait
        );
        assert!(
            follows(&second.next(101 * SECOND, leader("a:1", 2), None)),
            "it goes on"
        );
    }
}
