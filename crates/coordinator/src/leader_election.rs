//! Leader election: decides whether a chief leads or stands by, as a pure state machine. Time is an argument.

use std::time::Duration;

use trainyard_model_dir::Leader;

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

/// The election, as one chief sees it. Times are counted from the chief's start.
#[derive(Debug, Clone)]
pub struct LeaderElection {
    /// Address of this chief.
    own: String,
    /// This chief is `chief:0`, which leads if no chief does.
    first: bool,
    /// The cluster has standby chiefs.
    several: bool,
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
    /// Returns the election of the chief at address `own`. `first`: it is `chief:0`. `several`: the cluster has standby chiefs.
    pub fn new(own: &str, first: bool, several: bool) -> Self {
        Self {
            own: own.to_owned(),
            first,
            several,
            epoch: 0,
            sign: Duration::ZERO,
            heard: false,
            gone: false,
        }
    }

    /// Decides, from the latest claim of the model directory, and from whether that leader has `stopped` the job on
    /// purpose.
    pub fn next(&mut self, now: Duration, leader: Option<Leader>, stopped: bool) -> ElectionStep {
        let leader = match leader {
            // The leader was an earlier process of this chief.
            Some(leader) if leader.address == self.own => return ElectionStep::Chief,
            Some(leader) => leader,
            None if self.first || now >= self.sign + LEADER_TIMEOUT => return ElectionStep::Chief,
            None => return ElectionStep::Wait,
        };
        if leader.cluster_epoch > self.epoch {
            // A claim is a sign of life, unless it was made before this chief started.
            self.sign = if self.epoch > 0 { now } else { self.sign };
            (self.epoch, self.heard, self.gone) = (leader.cluster_epoch, false, false);
        }
        if self.heard && !self.several {
            return ElectionStep::Refuse(leader);
        }
        if self.heard && stopped {
            return ElectionStep::Wait;
        }
        if now >= self.sign + LEADER_TIMEOUT || (self.gone && self.first) {
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

    fn follows(next: &ElectionStep) -> bool {
        matches!(next, ElectionStep::Follow(_))
    }

    #[test]
    fn where_nobody_has_led_the_first_does_at_once_and_the_second_if_the_first_does_not_come() {
        assert_eq!(
            LeaderElection::new("a:1", true, true).next(Duration::ZERO, None, false),
            ElectionStep::Chief
        );
        let mut second = LeaderElection::new("b:1", false, true);
        assert_eq!(second.next(Duration::ZERO, None, false), ElectionStep::Wait);
        assert_eq!(
            second.next(LEADER_TIMEOUT, None, false),
            ElectionStep::Chief
        );
    }

    #[test]
    fn a_chief_that_comes_back_leads_at_once_if_nobody_has_led_since() {
        for first in [true, false] {
            let mut back = LeaderElection::new("a:1", first, true);
            assert_eq!(
                back.next(Duration::ZERO, leader("a:1", 4), false),
                ElectionStep::Chief
            );
        }
    }

    #[test]
    fn the_second_leads_when_the_first_has_given_no_sign_for_a_while() {
        let mut second = LeaderElection::new("b:1", false, true);
        assert!(follows(&second.next(
            Duration::ZERO,
            leader("a:1", 1),
            false
        )));
        second.heard(60 * SECOND);
        assert!(follows(&second.next(61 * SECOND, leader("a:1", 1), false)));
        second.nobody();
        assert!(
            follows(&second.next(62 * SECOND, leader("a:1", 1), false)),
            "it may come back"
        );
        assert_eq!(
            second.next(63 * SECOND, leader("a:1", 1), false),
            ElectionStep::Chief
        );
    }

    #[test]
    fn a_leader_that_was_started_again_is_given_time_anew() {
        let mut second = LeaderElection::new("b:1", false, true);
        second.next(Duration::ZERO, leader("a:1", 1), false);
        second.heard(10 * SECOND);
        assert!(follows(&second.next(12 * SECOND, leader("a:1", 2), false)));
        assert!(follows(&second.next(14 * SECOND, leader("a:1", 2), false)));
        assert_eq!(
            second.next(15 * SECOND, leader("a:1", 2), false),
            ElectionStep::Chief
        );
    }

    #[test]
    fn the_first_stands_by_for_the_second_that_leads_and_leads_again_when_nobody_listens_there() {
        let mut first = LeaderElection::new("a:1", true, true);
        assert!(follows(&first.next(
            Duration::ZERO,
            leader("b:1", 2),
            false
        )));
        first.heard(50 * SECOND);
        assert!(follows(&first.next(50 * SECOND, leader("b:1", 2), false)));
        first.nobody();
        assert_eq!(
            first.next(50 * SECOND, leader("b:1", 2), false),
            ElectionStep::Chief
        );
    }

    #[test]
    fn a_single_chief_does_not_depose_another_that_lives_and_takes_over_from_a_dead_one() {
        let mut elsewhere = LeaderElection::new("b:1", true, false);
        let found = leader("a:1", 3);
        assert!(follows(&elsewhere.next(
            Duration::ZERO,
            found.clone(),
            false
        )));
        let mut other = elsewhere.clone();
        elsewhere.heard(SECOND);
        assert_eq!(
            elsewhere.next(SECOND, found.clone(), false),
            ElectionStep::Refuse(found.clone().expect("one"))
        );
        other.nobody();
        assert_eq!(
            other.next(SECOND, found.clone(), false),
            ElectionStep::Chief,
            "it is gone"
        );
        let mut silent = LeaderElection::new("b:1", true, false);
        assert!(follows(&silent.next(2 * SECOND, found.clone(), false)));
        assert_eq!(
            silent.next(LEADER_TIMEOUT, found, false),
            ElectionStep::Chief,
            "it does not answer"
        );
    }

    #[test]
    fn a_job_that_was_stopped_is_not_taken_over_by_who_stood_by() {
        let mut second = LeaderElection::new("b:1", false, true);
        assert!(follows(&second.next(
            Duration::ZERO,
            leader("a:1", 1),
            true
        )));
        second.heard(SECOND);
        assert_eq!(
            second.next(100 * SECOND, leader("a:1", 1), true),
            ElectionStep::Wait
        );
        assert!(
            follows(&second.next(101 * SECOND, leader("a:1", 2), false)),
            "it goes on"
        );
    }
}
