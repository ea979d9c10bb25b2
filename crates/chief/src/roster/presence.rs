//! Who is here: leases that end, tasks that are missed, and those that take no part any more.

use super::*;

impl Roster {
    /// Ends the leases of tasks that have been silent for too long. Returns their sessions.
    pub fn expire(&mut self, now: Duration) -> Vec<(Task, u64)> {
        let RosterConfig {
            lease,
            return_within,
            ..
        } = self.config;
        let mut gone = Vec::new();
        for (task, member) in &mut self.members {
            let lost = member
                .lost
                .is_some_and(|lost| now.saturating_sub(lost) > return_within);
            let silent = now.saturating_sub(member.seen) > lease;
            if member.left.is_none() && !member.expired && (lost || silent) {
                member.expired = true;
                gone.push((*task, member.session));
            }
        }
        gone
    }

    /// Ends a session for good: its task takes part no more, as long as this chief leads. Returns whether it had.
    pub fn quarantine(&mut self, task: Task, session: u64, why: String) -> bool {
        let Some(member) = self
            .members
            .get_mut(&task)
            .filter(|member| member.session == session)
        else {
            return false;
        };
        if member.expired {
            return false;
        }
        member.expired = true;
        self.quarantined.insert(task, why);
        true
    }

    /// Returns why tasks take part no more, if nobody is left who trains, or has come to the end of its input.
    pub fn stranded(&self) -> Option<String> {
        let useful = self
            .members
            .values()
            .any(|member| member.trains() || member.is_done());
        let why: Vec<&str> = self.quarantined.values().map(String::as_str).collect();
        (!useful && !why.is_empty()).then(|| why.join("; "))
    }

    /// Returns whether a task trains.
    pub fn trains(&self, task: Task) -> bool {
        self.members.get(&task).is_some_and(Member::trains)
    }

    /// Returns the number of tasks that train.
    pub fn active(&self) -> usize {
        self.members
            .values()
            .filter(|member| member.trains())
            .count()
    }

    /// Returns the number of tasks that have come to the end of their input, or of the steps.
    pub fn done(&self) -> usize {
        self.members
            .values()
            .filter(|member| member.is_done())
            .count()
    }

    /// Returns how the job stands with those who take part.
    pub fn attendance(&mut self, now: Duration) -> Attendance {
        let missing = self.missing(now);
        if self.active() > 0 {
            self.deserted_since = None;
            return Attendance::Training;
        }
        match &self.config.admission {
            Admission::Expected(_) if missing.is_empty() => Attendance::Finished,
            Admission::Expected(_) => Attendance::Missed(missing),
            // Nobody reads to the end of the data before all of it has been applied.
            Admission::Open if self.members.values().any(Member::is_done) => Attendance::Finished,
            Admission::Open => {
                let since = *self.deserted_since.get_or_insert(now);
                Attendance::Deserted(now.saturating_sub(since))
            }
        }
    }

    /// Takes back that tasks have left because their input is used up: there is more to do.
    pub fn reopen(&mut self) {
        for member in self.members.values().filter(|member| member.is_done()) {
            self.past = (self.past.0 + member.pulse.0, self.past.1 + member.pulse.1);
        }
        self.members.retain(|_, member| !member.is_done());
    }

    /// Returns the expected tasks whose input is not known to be used up and that are not here, with how long they have
    /// been missed.
    fn missing(&mut self, now: Duration) -> Vec<(Task, Duration)> {
        let here_or_done = |task: &Task| {
            self.members
                .get(task)
                .is_some_and(|member| member.trains() || member.is_done())
        };
        let missing: Vec<Task> = self
            .config
            .expected
            .iter()
            .copied()
            .filter(|task| !here_or_done(task))
            .collect();
        self.absent_since.retain(|task, _| missing.contains(task));
        missing
            .into_iter()
            .map(|task| {
                (
                    task,
                    now.saturating_sub(*self.absent_since.entry(task).or_insert(now)),
                )
            })
            .collect()
    }

    /// Returns whether a task has ever been here.
    pub fn was_here(&self, task: Task) -> bool {
        self.seen_once.contains(&task)
    }

    /// Returns why a task cannot go on, if one has said so.
    pub fn failure(&self) -> Option<(Task, String)> {
        self.members
            .iter()
            .find_map(|(task, member)| match &member.left {
                Some(LeaveReason::Failed(message)) => Some((*task, message.clone())),
                _ => None,
            })
    }

    /// Returns whether another task than `own` was told to stop, and has left.
    pub fn others_stop(&self, own: Task) -> bool {
        self.members
            .iter()
            .any(|(task, member)| *task != own && member.left == Some(LeaveReason::Shutdown))
    }
}
