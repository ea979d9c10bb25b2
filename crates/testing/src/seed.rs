//! Seeds of randomized tests.
#![expect(
    clippy::disallowed_methods,
    reason = "a test is told its seed by the environment"
)]

use std::fmt;

/// Environment variable with the seed of every randomized test, an integer.
const VARIABLE: &str = "TRAINYARD_SEED";

/// A seed that explains how to repeat its test. Print it in the message of each assertion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed(u64);

impl Seed {
    /// Returns the seed in `TRAINYARD_SEED`, or `default`, and prints it. The test harness shows the line if the test
    /// fails.
    ///
    /// # Panics
    /// If the variable is not an integer.
    pub fn of_environment(default: u64) -> Self {
        let seed = Self::parse(std::env::var(VARIABLE).ok().as_deref(), default);
        println!("{seed}");
        seed
    }

    fn parse(named: Option<&str>, default: u64) -> Self {
        match named {
            Some(text) => Self(text.trim().parse().unwrap_or_else(|_| {
                panic!(
                    "{VARIABLE} must be a whole number from 0 to {}, given {text:?}",
                    u64::MAX
                )
            })),
            None => Self(default),
        }
    }

    /// Returns the number.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{VARIABLE}={}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_goes_before_the_default_and_is_shown_as_it_is_set() {
        assert_eq!(Seed::parse(None, 7).get(), 7);
        assert_eq!(Seed::parse(Some("18446744073709551615"), 7).get(), u64::MAX);
        assert_eq!(Seed::parse(Some("7\n"), 1).get(), 7);
        assert_eq!(Seed::parse(Some("12"), 7).to_string(), "TRAINYARD_SEED=12");
    }

    #[test]
    fn a_seed_that_is_no_number_is_refused() {
        for wrong in ["many", "", "-1", "0x10"] {
            let refused =
                std::panic::catch_unwind(|| Seed::parse(Some(wrong), 7)).expect_err("no number");
            let message = refused.downcast_ref::<String>().expect("a message");
            assert!(
                message.starts_with("TRAINYARD_SEED must be a whole number"),
                "{message}"
            );
        }
    }
}
