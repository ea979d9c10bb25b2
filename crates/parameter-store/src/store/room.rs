//! Room for more: what the store holds, and what it refuses to hold.

use std::sync::atomic::Ordering;

use super::Store;
use crate::selection::Resolved;
use crate::{Error, Held};

impl Store {
    /// Bounds the bytes that the store may hold; absent = no bound. What it holds already stays.
    pub fn bound_memory(&self, max: Option<u64>) {
        self.memory.bound(max);
    }

    /// Returns the bytes that it holds.
    pub fn held(&self) -> Held {
        let read = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
        let aside = |taken: bool| {
            if !taken {
                return 0;
            }
            self.slices
                .iter()
                .map(|slice| slice.aside_bytes())
                .sum::<u64>()
                + self.tables.aside_bytes()
        };
        Held {
            slices: read(&self.memory.slices)
                + self.slices.iter().map(|slice| slice.bytes()).sum::<u64>(),
            tables: self.tables.memory_bytes(),
            set_aside: aside(self.snapshot_taken.load(Ordering::Acquire)),
            copies: read(&self.memory.copies),
            parts: read(&self.memory.parts),
        }
    }

    /// Checks that so many more bytes may be held.
    pub(super) fn check_room(&self, asked: u64, what: &'static str) -> Result<(), Error> {
        match self.memory.max() {
            Some(max) => self.check_bound(max, "parameter_servers.memory_bytes_max", asked, what),
            None => Ok(()),
        }
    }

    fn check_bound(
        &self,
        max: u64,
        bound: &'static str,
        asked: u64,
        what: &'static str,
    ) -> Result<(), Error> {
        let held = self.held();
        if held.total().saturating_add(asked) > max {
            Err(Error::NoRoom {
                max,
                bound,
                held,
                asked,
                what,
            })
        } else {
            Ok(())
        }
    }

    /// Checks the same of what is there from the beginning, which must fit the machine too.
    pub(super) fn check_first_room(&self, asked: u64, what: &'static str) -> Result<(), Error> {
        self.check_room(asked, what)?;
        match self.memory.machine() {
            Some(machine) => self.check_bound(
                machine,
                "the memory of its machine, or of its unit",
                asked,
                what,
            ),
            None => Ok(()),
        }
    }

    /// Tells how much memory the process may have: what is to be held from the beginning must fit it.
    pub fn know_machine(&self, bytes: Option<u64>) {
        self.memory.know_machine(bytes);
    }

    /// Returns the bytes that the store would hold if every row was changed, and the most that it may, if those are fewer.
    pub fn outgrows(&self) -> Option<(u64, u64)> {
        let all: u64 = self
            .slices
            .iter()
            .map(|slice| slice.row_bytes(slice.rows.len()))
            .sum();
        let most = self
            .memory
            .max()
            .into_iter()
            .chain(self.memory.machine())
            .min()?;
        (all > most).then_some((all, most))
    }

    /// Checks that there is room for what a push adds: rows of new ids, and a part of a synchronous step. Where there is
    /// only none to set aside what a checkpoint under way still needs, the push may come again when that is written.
    pub(super) fn check_push(&self, resolved: &Resolved, part: u64) -> Result<(), Error> {
        if self.memory.max().is_none() {
            return Ok(());
        }
        let most = resolved
            .ids()
            .map(|(_, slice, ids)| slice.growth_max(ids.len()))
            .sum::<u64>()
            + resolved
                .rows()
                .map(|(_, slice, _)| slice.growth_max())
                .sum::<u64>()
            + part;
        let aside: u64 = if self.snapshot_taken.load(Ordering::Acquire) {
            let whole = resolved
                .whole
                .iter()
                .map(|slice| slice.row_bytes(slice.rows.len()));
            let rows = resolved
                .rows()
                .map(|(_, slice, rows)| slice.row_bytes(rows.len()));
            let ids = resolved
                .ids()
                .map(|(_, slice, ids)| slice.aside_max(ids.len()));
            whole.chain(rows).chain(ids).sum()
        } else {
            0
        };
        if self.check_room(most + aside, "").is_ok() {
            return Ok(());
        }
        // Nearly full: now it is worth a look which rows and ids are new.
        let new = resolved
            .ids()
            .map(|(_, slice, ids)| match slice.count_new(ids) {
                0 => 0,
                new => slice.growth_max(new),
            });
        let rows: u64 = resolved
            .rows()
            .map(|(_, slice, rows)| slice.growth(rows))
            .sum();
        let what = match (part > 0, rows > 0) {
            (true, _) => "the part of a synchronous step",
            (false, true) => "rows that are changed for the first time",
            (false, false) => "rows of new ids",
        };
        let asked = new.sum::<u64>() + rows + part;
        if asked > 0 {
            self.check_room(asked, what)?;
        }
        if aside > 0 && self.check_room(asked + aside, "").is_err() {
            Err(Error::NotReady(
                "a checkpoint is being written, and memory_bytes_max leaves no room to set aside what changes meanwhile",
            ))
        } else {
            Ok(())
        }
    }
}
