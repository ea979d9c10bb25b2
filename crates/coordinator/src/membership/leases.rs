//! Leases: expiry, quarantine, and the tasks that are present, missing or done.

use super::*;

impl Membership {
    /// Expires the leases of tasks that have been silent for too long. Returns their sessions.
    pub fn expire(&mut self, now: Duration) -> Vec<(Task, u64)> {
        let MembershipConfig {
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

    /// Ends a session, and bars its task for as long as this chief leads. Returns whether the session was active.
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

    /// Returns the reasons of all quarantines, if no task is left that trains or is done.
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

    /// Returns the tasks that train.
    pub fn active_tasks(&self) -> Vec<Task> {
        let members = self.members.iter().filter(|(_, member)| member.trains());
        members.map(|(task, _)| *task).collect()
    }

    /// Returns the number of tasks that have reached the end of their input, or of the steps.
    pub fn done(&self) -> usize {
        self.members
            .values()
            .filter(|member| member.is_done())
            .count()
    }

    /// Returns the state of the job with respect to its tasks.
    pub fn liveness(&mut self, now: Duration) -> Liveness {
        let missing = self.missing(now);
        if self.active() > 0 {
            self.deserted_since = None;
            return Liveness::Training;
        }
        match &self.config.admission {
            Admission::Expected(_) if missing.is_empty() => Liveness::Finished,
            Admission::Expected(_) => Liveness::Missed(missing),
            // No task reads to the end of the data before all of it has been applied.
            Admission::Open if self.members.values().any(Member::is_done) => Liveness::Finished,
            Admission::Open => {
                let since = *self.deserted_since.get_or_insert(now);
                Liveness::Deserted(now.saturating_sub(since))
            }
        }
    }

    /// Removes the tasks that have left at the end of their input, because there is more to do.
    pub fn reopen(&mut self) {
        for member in self.members.values().filter(|member| member.is_done()) {
            self.past = (
                self.past.0 + member.heartbeat.0,
                self.past.1 + member.heartbeat.1,
            );
        }
        self.members.retain(|_, member| !member.is_done());
    }

    /// Returns the expected tasks that are neither present nor done, and how long each has been missing.
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

    /// Returns whether a task has ever registered.
    pub fn was_here(&self, task: Task) -> bool {
        self.seen_once.contains(&task)
    }

    /// Returns a task that has left because of a failure, with its message.
    pub fn failure(&self) -> Option<(Task, String)> {
        self.members
            .iter()
            .find_map(|(task, member)| match &member.left {
                Some(LeaveReason::Failed(message)) => Some((*task, message.clone())),
                _ => None,
            })
    }

    /// Returns whether a task other than `own` was told to stop, and has left.
    pub fn others_stop(&self, own: Task) -> bool {
        self.members
            .iter()
            .any(|(task, member)| *task != own && member.left == Some(LeaveReason::Shutdown))
    }
}
