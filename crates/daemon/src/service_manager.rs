//! Notifications to the service manager (`sd_notify(3)`): ready, status, stopping and watchdog.

use std::time::Duration;

use crate::supervision::UpWhen;
use crate::{Readiness, ReadinessState, Watchdog};
use sd_notify::NotifyState;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// Number of checks within the watchdog timeout of the service manager. A stall of half that timeout is always
/// tolerated.
const QUESTIONS: u32 = 4;
/// Number of beats of a waiting loop between two checks.
const SIGNS: u32 = 4;
/// Time between checks without a watchdog.
const NO_WATCHDOG_INTERVAL: Duration = Duration::from_secs(3600);

/// Returns a watchdog for the service manager's timeout, and the time between checks; without a timeout, an idle
/// watchdog.
pub(crate) fn watchdog() -> (Watchdog, Option<Duration>) {
    // A lower bound keeps a watchdog timeout of zero from using a whole core.
    let question = sd_notify::watchdog_enabled()
        .map(|limit| (limit / QUESTIONS).max(Duration::from_millis(20)));
    (
        question.map_or_else(Watchdog::default, |question| {
            Watchdog::every(question / SIGNS)
        }),
        question,
    )
}

/// Reports the state of the daemon and its watchdog to the service manager, until the future is dropped. Without a
/// service manager, the notifications have no effect.
pub(crate) async fn follow(
    up_when: UpWhen,
    readiness: Readiness,
    watchdog: Watchdog,
    question: Option<Duration>,
    stop: CancellationToken,
) {
    let mut standing = readiness.watch();
    let mut ready = false;
    let mut stopping = false;
    let mut questions = interval(question.unwrap_or(NO_WATCHDOG_INTERVAL));
    questions.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let now = standing.borrow_and_update().clone();
        let status = status(&now);
        let mut states = vec![NotifyState::Status(&status)];
        if !ready && is_up(up_when, &now) {
            states.push(NotifyState::Ready);
            ready = true;
        }
        if stop.is_cancelled() && !stopping {
            states.push(NotifyState::Stopping);
            stopping = true;
        }
        tell(&states);
        tokio::select! {
            changed = standing.changed() => if changed.is_err() {
                // The state cannot change any more.
                return;
            },
            () = stop.cancelled(), if !stopping => {}
            () = report_loops(&mut questions, &watchdog), if question.is_some() => {}
        }
    }
}

/// Reports to the watchdog of the service manager for ever, as long as the loops of the daemon make progress.
async fn report_loops(questions: &mut tokio::time::Interval, watchdog: &Watchdog) {
    loop {
        questions.tick().await;
        if watchdog.all_loops_alive() {
            tell(&[NotifyState::Watchdog]);
        } else {
            warn!(
                "a loop of this daemon does not make progress: the daemon does not report to the \
                watchdog of the service manager"
            );
        }
    }
}

/// Returns whether a daemon is up for the service manager.
fn is_up(up_when: UpWhen, standing: &ReadinessState) -> bool {
    let listens = standing.state != Readiness::STARTING;
    standing.ready || up_when == UpWhen::Listening && listens
}

/// Returns one line for `systemctl status`.
fn status(standing: &ReadinessState) -> String {
    match standing.waiting_for.as_slice() {
        [] => standing.state.clone(),
        waited => format!("{} for {}", standing.state, waited.join(", ")),
    }
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        warn!(%error, "this daemon cannot report its state to the service manager");
    }
}

#[cfg(test)]
mod tests {
    use trainyard_cluster_spec::Role;

    use super::*;

    #[test]
    fn a_server_is_up_when_it_listens_and_the_others_when_they_have_joined() {
        let standing = |state: &str, ready| ReadinessState {
            state: state.to_owned(),
            ready,
            waiting_for: Vec::new(),
        };
        let starting = Readiness::default().get();
        for role in [Role::Ps, Role::Worker, Role::Chief, Role::Evaluator] {
            assert!(!is_up(UpWhen::of(role), &starting), "{role}");
            assert!(
                is_up(UpWhen::of(role), &standing("training", true)),
                "{role}"
            );
        }
        assert!(is_up(UpWhen::of(Role::Ps), &standing("waiting", false)));
        assert!(!is_up(
            UpWhen::of(Role::Worker),
            &standing("waiting", false)
        ));
        assert!(is_up(
            UpWhen::of(Role::Chief),
            &standing("standing by", true)
        ));
    }

    #[test]
    fn the_status_names_who_is_waited_for() {
        let waits = |names: &[&str]| {
            let names = names.iter().map(ToString::to_string).collect();
            status(&ReadinessState {
                state: "waiting".to_owned(),
                ready: false,
                waiting_for: names,
            })
        };
        assert_eq!(waits(&["chief:0", "ps:1"]), "waiting for chief:0, ps:1");
        assert_eq!(waits(&[]), "waiting");
    }
}
