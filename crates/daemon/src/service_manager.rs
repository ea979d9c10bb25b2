//! What a daemon tells the service manager that has started it (`sd_notify(3)`): ready, status, stopping, alive.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tracing::warn;
use trainyard_cluster_spec::Role;

use crate::{Readiness, ReadinessState, Watchdog};

/// Questions within the time after which the service manager takes a daemon for dead. A stall of half that time passes,
/// whenever it begins.
const QUESTIONS: u32 = 4;
/// Signs of a loop that waits, within the time between two questions.
const SIGNS: u32 = 4;
/// Time between looks, where no watchdog asks.
const NO_WATCHDOG_INTERVAL: Duration = Duration::from_secs(3600);

/// Returns the pulse that the service manager's watchdog wants, and the time between questions.
pub(crate) fn watchdog() -> (Watchdog, Option<Duration>) {
    // Bounded below so that a watchdog of no time at all does not take a core.
    let question = sd_notify::watchdog_enabled()
        .map(|limit| (limit / QUESTIONS).max(Duration::from_millis(20)));
    (
        question.map_or_else(Watchdog::default, |question| {
            Watchdog::every(question / SIGNS)
        }),
        question,
    )
}

/// Tells the service manager how the daemon stands, and that its loops live, until it is dropped. Without a service
/// manager nothing is told to anybody.
pub(crate) async fn follow(
    role: Role,
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
        if !ready && is_up(role, &now) {
            states.push(NotifyState::Ready);
            ready = true;
        }
        if stop.is_cancelled() && !stopping {
            states.push(NotifyState::Stopping);
            stopping = true;
        }
        tell(&states);
        if !rest(
            &mut standing,
            &mut questions,
            &watchdog,
            question.is_some(),
            &stop,
            stopping,
        )
        .await
        {
            return;
        }
    }
}

/// Answers questions until there is news; false when there will be none.
async fn rest(
    standing: &mut watch::Receiver<ReadinessState>,
    questions: &mut tokio::time::Interval,
    watchdog: &Watchdog,
    watched: bool,
    stop: &CancellationToken,
    stopping: bool,
) -> bool {
    loop {
        tokio::select! {
            changed = standing.changed() => return changed.is_ok(),
            () = stop.cancelled(), if !stopping => return true,
            _ = questions.tick(), if watched => {
                if watchdog.all_loops_alive() {
                    tell(&[NotifyState::Watchdog]);
                } else {
                    warn!("a loop of this daemon has given no sign of life lately: the watchdog is not answered");
                }
            }
        }
    }
}

/// Whether a daemon does what it was started for. A server serves as soon as it listens, whoever is there to be served;
/// the others have joined.
fn is_up(role: Role, standing: &ReadinessState) -> bool {
    standing.ready || role == Role::Ps && standing.state != Readiness::STARTING
}

/// One line for `systemctl status`.
fn status(standing: &ReadinessState) -> String {
    match standing.waiting_for.as_slice() {
        [] => standing.state.clone(),
        waited => format!("{} for {}", standing.state, waited.join(", ")),
    }
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        warn!(%error, "the service manager cannot be told how this daemon stands");
    }
}

#[cfg(test)]
mod tests {
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
            assert!(!is_up(role, &starting), "{role}");
            assert!(is_up(role, &standing("training", true)), "{role}");
        }
        assert!(is_up(Role::Ps, &standing("waiting", false)));
        assert!(!is_up(Role::Worker, &standing("waiting", false)));
        assert!(is_up(Role::Chief, &standing("standing by", true)));
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
