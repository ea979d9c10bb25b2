//! How the tasks stand, for people.

use trainyard_trainer::Work;

use super::*;

/// Silence after which a task is shown as silent: two heartbeats, and some.
const SILENT: Duration = Duration::from_millis(1500);

/// How a task stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct View {
    pub(crate) task: Task,
    /// A word: `training`, `silent`, `absent`, ...
    pub(crate) state: &'static str,
    /// Why, where there is more to say.
    pub(crate) reason: Option<String>,
    /// Where it runs; absent where it has not come.
    pub(crate) address: Option<String>,
    /// Process there.
    pub(crate) process_id: Option<u32>,
    /// 0 where it has not come.
    pub(crate) session: u64,
    /// Time since its last sign of life.
    pub(crate) silence: Duration,
    /// When it told what follows, by the roster's clock.
    pub(crate) told: Duration,
    /// Steps of the session.
    pub(crate) steps: u64,
    /// Examples in them.
    pub(crate) examples: u64,
    /// Loss of the latest; absent before the first.
    pub(crate) loss: Option<f64>,
    pub(crate) work: Work,
}

impl Roster {
    /// Returns how every task stands that is expected, or has come.
    pub(crate) fn view(&self, now: Duration) -> Vec<View> {
        let expected = self.config.expected.iter().copied();
        let tasks: BTreeSet<Task> = expected.chain(self.members.keys().copied()).collect();
        tasks
            .into_iter()
            .map(|task| self.view_of(task, now))
            .collect()
    }

    /// Returns what is waited for, before training.
    pub(crate) fn waiting_for(&self) -> &[String] {
        &self.waiting_for
    }

    fn view_of(&self, task: Task, now: Duration) -> View {
        let Some(member) = self.members.get(&task) else {
            return View {
                task,
                state: "absent",
                reason: None,
                address: None,
                process_id: None,
                session: 0,
                silence: Duration::ZERO,
                told: Duration::ZERO,
                steps: 0,
                examples: 0,
                loss: None,
                work: Work::default(),
            };
        };
        let silence = now.saturating_sub(member.seen);
        let (state, reason) = match (&member.left, self.quarantined.get(&task)) {
            (_, Some(why)) => ("quarantined", Some(why.clone())),
            (Some(LeaveReason::InputExhausted | LeaveReason::Finished), _) => ("done", None),
            (Some(LeaveReason::Shutdown), _) => ("stopped", None),
            (Some(LeaveReason::Failed(why)), _) => ("failed", Some(why.clone())),
            (None, _) if member.expired => ("gone", None),
            (None, _) if member.lost.is_some() || silence > SILENT => ("silent", None),
            (None, _) if self.state == JobState::Waiting => ("waiting", None),
            (None, _) => ("training", None),
        };
        let (steps, examples, loss) = member.pulse;
        View {
            task,
            state,
            reason,
            address: Some(member.join.address.clone()),
            process_id: Some(member.join.process_id),
            session: member.session,
            silence,
            told: member.told,
            steps,
            examples,
            loss: (steps > 0).then_some(loss),
            work: member.work,
        }
    }
}
