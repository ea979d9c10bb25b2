//! A wait with notices: the first after 2 s, further ones every 10 s, and an error at the deadline.

use std::time::Duration;

use crate::{Code, Diagnostic, escape};

/// Time before the first notice.
const FIRST_NOTICE_AFTER: Duration = Duration::from_secs(2);
/// Time between two notices.
const NOTICE_INTERVAL: Duration = Duration::from_secs(10);
/// Most characters of a peer's response in a notice.
const LAST_CHARACTERS_MAX: usize = 256;

/// Next action of the waiting task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Continue silently.
    Wait,
    /// Log this line and continue.
    Notice(String),
    /// Give up with this error.
    GiveUp(Box<Diagnostic>),
}

/// A wait of one task for another. Pure: the elapsed time is an argument.
#[derive(Debug, Clone)]
pub struct Waiting {
    who: String,
    subject: String,
    deadline: Duration,
    next_notice: Duration,
    tries: u64,
}

impl Waiting {
    /// Starts a wait of the task `who` (`worker:1`) for `subject` (`ps:1 at 10.0.0.5:2222`).
    pub fn new(who: impl Into<String>, subject: impl Into<String>, deadline: Duration) -> Self {
        Self {
            who: who.into(),
            subject: subject.into(),
            deadline,
            next_notice: FIRST_NOTICE_AFTER,
            tries: 0,
        }
    }

    /// Counts a try that failed with `last`, `waited` after the start. Returns the next action.
    pub fn tick(&mut self, waited: Duration, last: &str) -> Action {
        self.tries += 1;
        self.look(waited, last)
    }

    /// Returns the next action while a try is in progress, `waited` after the start. `last` is the state of the try.
    pub fn look(&mut self, waited: Duration, last: &str) -> Action {
        let last = one_line(last);
        let Self {
            who,
            subject,
            deadline,
            tries,
            ..
        } = self;
        if waited >= *deadline {
            let message = format!(
                "{subject} was not ready for {} s (last: {last})",
                deadline.as_secs()
            );
            let help = "start it, or correct its address in the cluster spec; --connect-deadline sets how long to wait";
            return Action::GiveUp(Box::new(
                Diagnostic::error(Code::E2003, message)
                    .note(format!("{who} tried {tries} times"))
                    .help(help),
            ));
        }
        if waited < self.next_notice {
            return Action::Wait;
        }
        self.next_notice = waited + NOTICE_INTERVAL;
        let tries = if *tries > 0 {
            format!("{tries} tries")
        } else {
            String::new()
        };
        let seconds = format!("{:.1} s", waited.as_secs_f32());
        let known: Vec<String> = [last, tries, seconds]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect();
        Action::Notice(format!(
            "waiting: {who} for {subject} ({})",
            known.join(", ")
        ))
    }

    /// Returns a line about the end of the wait, `waited` after the start, if a notice was logged before.
    pub fn over(&self, waited: Duration) -> Option<String> {
        let Self { who, subject, .. } = self;
        let told = self.next_notice > FIRST_NOTICE_AFTER;
        told.then(|| {
            format!(
                "{subject} answers {who} again after {:.1} s",
                waited.as_secs_f32()
            )
        })
    }
}

/// Shortens a peer's text to one line. A line break in it must not begin a log line of its own.
fn one_line(last: &str) -> String {
    let shown: String = last.chars().take(LAST_CHARACTERS_MAX).collect();
    let end = if shown.len() < last.len() { " …" } else { "" };
    format!("{}{end}", escape(&shown).replace('\n', "\\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_speaks_at_2_s_then_every_10_s_then_gives_up() {
        let mut waiting =
            Waiting::new("worker:1", "ps:1 at 10.0.0.5:2222", Duration::from_secs(60));
        let mut notices = Vec::new();
        for second in 0..=60_u64 {
            match waiting.tick(Duration::from_secs(second), "connection refused") {
                Action::Wait => {}
                Action::Notice(text) => {
                    assert!(
                        text.contains("worker:1 for ps:1 at 10.0.0.5:2222 (connection refused"),
                        "{text}"
                    );
                    notices.push(second);
                }
                Action::GiveUp(diagnostic) => {
                    assert_eq!((second, diagnostic.exit_code()), (60, 69));
                    assert!(
                        diagnostic
                            .message
                            .contains("60 s (last: connection refused)"),
                        "{diagnostic}"
                    );
                }
            }
        }
        assert_eq!(notices, [2, 12, 22, 32, 42, 52]);
        let over = waiting
            .over(Duration::from_secs(53))
            .expect("it was told of");
        assert_eq!(
            over,
            "ps:1 at 10.0.0.5:2222 answers worker:1 again after 53.0 s"
        );
        let silent = Waiting::new("worker:1", "ps:1", Duration::from_secs(60));
        assert_eq!(silent.over(Duration::from_secs(1)), None);
    }

    #[test]
    fn a_notice_says_what_is_known_and_nothing_else() {
        let mut waiting = Waiting::new("ps:0", "chief:0", Duration::MAX);
        let notice = |action| match action {
            Action::Notice(text) => text,
            other => panic!("{other:?}"),
        };
        let text = notice(waiting.look(Duration::from_secs(2), "it has not claimed this server"));
        assert_eq!(
            text,
            "waiting: ps:0 for chief:0 (it has not claimed this server, 2.0 s)"
        );
        assert_eq!(
            notice(waiting.tick(Duration::from_secs(20), "")),
            "waiting: ps:0 for chief:0 (1 tries, 20.0 s)"
        );
    }

    #[test]
    fn the_words_of_a_peer_stay_on_one_short_line() {
        let said = format!("{}\nerror[E3001]: \u{1b}[2Jforged", "x".repeat(200));
        let mut waiting = Waiting::new("worker:1", "ps:1", Duration::from_secs(60));
        let Action::Notice(text) = waiting.tick(Duration::from_secs(3), &said) else {
            panic!("no notice")
        };
        assert!(text.contains("\\nerror[E3001]: \\u{1b}[2Jforged"), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        let Action::GiveUp(problem) = waiting.tick(Duration::from_secs(60), &"y".repeat(9000))
        else {
            panic!("it waits on")
        };
        assert!(
            problem.message.len() < 400 && problem.message.contains("y …"),
            "{problem}"
        );
    }
}
