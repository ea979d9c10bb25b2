//! Outages: the parameter servers that the calls of a task are waiting for.
//!
//! A task makes several calls in parallel. A server that does not answer blocks all of them, but only the first call
//! to notice logs the outage.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Callback with the names of the servers that calls wait for, made when these change.
pub type OnOutage = Arc<dyn Fn(Vec<String>) + Send + Sync>;

/// The servers that calls wait for, and the number of waiting calls of each. Cheap to clone: clones share the counts.
#[derive(Clone)]
pub struct Outages {
    calls: Arc<Mutex<BTreeMap<String, usize>>>,
    changed: OnOutage,
}

impl Outages {
    /// Returns an empty set. `changed` must not call back.
    pub fn new(changed: OnOutage) -> Self {
        Self {
            calls: Arc::default(),
            changed,
        }
    }

    /// Records that a call waits for `server`, until the returned value is dropped.
    pub(crate) fn begin(&self, server: &str) -> Outage {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = calls.entry(server.to_owned()).or_default();
        *waiting += 1;
        let is_first = *waiting == 1;
        if is_first {
            (self.changed)(calls.keys().cloned().collect());
        }
        drop(calls);
        Outage {
            of: self.clone(),
            server: server.to_owned(),
            is_first,
        }
    }
}

impl Default for Outages {
    fn default() -> Self {
        Self::new(Arc::new(|_| {}))
    }
}

impl fmt::Debug for Outages {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Outages")
            .field("calls", &self.calls)
            .finish_non_exhaustive()
    }
}

/// One call that waits for a server.
#[derive(Debug)]
pub(crate) struct Outage {
    of: Outages,
    server: String,
    /// This call noticed the outage before all other calls: the first call logs it.
    pub(crate) is_first: bool,
}

impl Drop for Outage {
    fn drop(&mut self) {
        let mut calls = self.of.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(waiting) = calls.get_mut(&self.server) else {
            return;
        };
        *waiting -= 1;
        if *waiting == 0 {
            calls.remove(&self.server);
            (self.of.changed)(calls.keys().cloned().collect());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_told_by_its_first_call_and_over_with_its_last() {
        let told: Arc<Mutex<Vec<Vec<String>>>> = Arc::default();
        let outages = Outages::new({
            let told = Arc::clone(&told);
            Arc::new(move |servers| told.lock().expect("no panic").push(servers))
        });
        let first = outages.begin("ps:0");
        let second = outages.begin("ps:0");
        let other = outages.begin("ps:1");
        assert!(first.is_first && !second.is_first && other.is_first);
        drop(first);
        drop(other);
        drop(second);
        let told = told.lock().expect("no panic").clone();
        let expected: [&[&str]; 4] = [&["ps:0"], &["ps:0", "ps:1"], &["ps:0"], &[]];
        assert_eq!(told, expected);
    }
}
