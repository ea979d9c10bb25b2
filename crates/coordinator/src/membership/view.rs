//! The status of each task, for the page.

use trainyard_trainer::StepTotals;

use super::*;

/// Silence after which a task is shown as silent: more than three heartbeat intervals.
const SILENT_AFTER: Duration = Duration::from_millis(1500);

/// The status of a task.
#[derive(Debug, Clone, PartialEq)]
pub struct View {
    /// Task.
    pub task: Task,
    /// A word: `training`, `silent`, `absent`, ...
    pub state: &'static str,
    /// Reason of the state, if there is more to say.
    pub reason: Option<String>,
    /// Address of the task; absent if it has not registered.
    pub address: Option<String>,
    /// Process id at that address.
    pub process_id: Option<u32>,
    /// Session; 0 if the task has not registered.
    pub session: u64,
    /// Time since the last sign of life of the task.
    pub silence: Duration,
    /// Time of the heartbeat that reported the following values, since the chief's start.
    pub told: Duration,
    /// Steps of the session.
    pub steps: u64,
    /// Examples in these steps.
    pub examples: u64,
    /// Loss of the latest step; absent before the first.
    pub loss: Option<f64>,
    /// Steps of the task, and their times.
    pub totals: StepTotals,
}

impl Membership {
    /// Returns the status of every task that is expected or has registered.
    pub fn view(&self, now: Duration) -> Vec<View> {
        let expected = self.config.expected.iter().copied();
        let tasks: BTreeSet<Task> = expected.chain(self.members.keys().copied()).collect();
        tasks
            .into_iter()
            .map(|task| self.view_of(task, now))
            .collect()
    }

    /// Returns the names that the job waits for before training.
    pub fn waiting_for(&self) -> &[String] {
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
                totals: StepTotals::default(),
            };
        };
        let silence = now.saturating_sub(member.seen);
        let (state, reason) = match (&member.left, self.quarantined.get(&task)) {
            (_, Some(why)) => ("quarantined", Some(why.clone())),
            (Some(LeaveReason::InputExhausted | LeaveReason::Finished), _) => ("done", None),
            (Some(LeaveReason::Shutdown), _) => ("stopped", None),
            (Some(LeaveReason::Failed(why)), _) => ("failed", Some(why.clone())),
            (None, _) if member.expired => ("gone", None),
            (None, _) if member.lost.is_some() || silence > SILENT_AFTER => ("silent", None),
            (None, _) if self.state == JobState::Waiting => ("waiting", None),
            (None, _) => ("training", None),
        };
        let (steps, examples, loss) = member.heartbeat;
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
            totals: member.totals,
        }
    }
}
