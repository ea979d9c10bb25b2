//! Memory accounting: the bytes that the store holds, and the requests that it refuses for lack of memory.

use std::sync::atomic::Ordering;

use super::Store;
use crate::selection::Resolved;
use crate::{Error, Held, MemoryRoom};

impl Store {
    /// Bounds the bytes that the store may hold; absent = no bound. Bytes that are held already stay.
    pub fn bound_memory(&self, max: Option<u64>) {
        self.memory_budget.bound(max);
    }

    /// Returns the bytes that the store holds.
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
            slices: read(&self.memory_budget.slices)
                + self.slices.iter().map(|slice| slice.bytes()).sum::<u64>(),
            tables: self.tables.memory_bytes(),
            set_aside: aside(self.snapshot_taken.load(Ordering::Acquire)),
            copies: read(&self.memory_budget.copies),
            parts: read(&self.memory_budget.parts),
        }
    }

    /// Checks that `asked` more bytes may be held.
    pub(super) fn check_room(&self, asked: u64, what: &'static str) -> Result<(), Error> {
        if let Some(max) = self.memory_budget.max() {
            self.check_bound(max, "parameter_servers.memory_bytes_max", asked, what)?;
        }
        self.check_measured_room(asked, what)
    }

    /// Checks that the memory limit of the process leaves `asked` more bytes, as far as it is measured.
    fn check_measured_room(&self, asked: u64, what: &'static str) -> Result<(), Error> {
        if let Some(room) = self.memory_budget.room()
            && let Some(most) = room.free
        {
            self.check_bound(most, &format!("what {} leaves", room.of), asked, what)?;
        }
        Ok(())
    }

    fn check_bound(
        &self,
        max: u64,
        bound: &str,
        asked: u64,
        what: &'static str,
    ) -> Result<(), Error> {
        let held = self.held();
        if held.total().saturating_add(asked) > max {
            Err(Error::NoRoom {
                max,
                bound: bound.to_owned(),
                held,
                asked,
                what,
            })
        } else {
            Ok(())
        }
    }

    /// As [`Store::check_room`], for what is held from the beginning and must also fit the memory limit of the process.
    pub(super) fn check_first_room(&self, asked: u64, what: &'static str) -> Result<(), Error> {
        self.check_room(asked, what)?;
        match self.memory_budget.room() {
            Some(room) => self.check_bound(room.limit, &room.of, asked, what),
            None => Ok(()),
        }
    }

    /// Sets what the process may use, as it was measured just now; absent = no limit.
    pub fn set_memory_room(&self, room: Option<MemoryRoom>) {
        let reserve = self.checkpoint_reserve();
        self.memory_budget
            .set_room(room, self.held().total(), reserve);
    }

    /// Says that changes which were acknowledged before are being made again, until it is called with `false`. They may take
    /// the memory that new ones leave to the next checkpoint: they had their room in the process that acknowledged them.
    pub fn set_replaying(&self, is_replaying: bool) {
        self.is_replaying.store(is_replaying, Ordering::Release);
    }

    /// Returns the bytes that pushes leave to the next checkpoint, without which the job cannot end, nor its log.
    fn checkpoint_reserve(&self) -> u64 {
        if self.is_replaying.load(Ordering::Acquire) {
            0
        } else {
            self.tables.reading_bytes_max()
        }
    }

    /// Returns the bytes that the store would hold if every row changed, and the most that it may hold, if the latter
    /// is less.
    pub fn outgrows(&self) -> Option<(u64, u64)> {
        let all: u64 = self
            .slices
            .iter()
            .map(|slice| slice.row_bytes(slice.rows.len()))
            .sum();
        let most = self
            .memory_budget
            .max()
            .into_iter()
            .chain(self.memory_budget.room().map(|room| room.limit))
            .min()?;
        (all > most).then_some((all, most))
    }

    /// Checks that there is room for what a push adds: rows of new ids, rows that change for the first time, and a
    /// micro-batch. If only the copies for a checkpoint in progress do not fit, the push may be repeated when the
    /// checkpoint has been written.
    pub(super) fn check_push(&self, resolved: &Resolved, part: u64) -> Result<(), Error> {
        let ids = || resolved.ids().chain(resolved.counted());
        let most = ids()
            .map(|(_, slice, ids)| slice.growth_max(ids.len()))
            .sum::<u64>()
            + resolved
                .rows()
                .map(|(_, slice, _)| slice.growth_max())
                .sum::<u64>()
            + part;
        let is_saving = self.snapshot_taken.load(Ordering::Acquire);
        let aside: u64 = if is_saving {
            let whole = resolved
                .whole
                .iter()
                .map(|slice| slice.row_bytes(slice.rows.len()));
            let rows = resolved
                .rows()
                .map(|(_, slice, rows)| slice.row_bytes(rows.len()));
            let ids = ids().map(|(_, slice, ids)| slice.aside_max(ids.len()));
            whole.chain(rows).chain(ids).sum()
        } else {
            0
        };
        let is_clear = self.memory_budget.takes_clear(most + aside);
        if is_clear && self.memory_budget.max().is_none() {
            return Ok(());
        }
        let reserve = if is_saving {
            0
        } else {
            self.checkpoint_reserve()
        };
        if self.check_room(most + aside, "").is_ok()
            && self.check_measured_room(most + aside + reserve, "").is_ok()
        {
            return Ok(());
        }
        // Memory is nearly used up, so it pays to find out which rows and ids are new.
        let new = ids().map(|(_, slice, ids)| match slice.count_new(ids) {
            0 => 0,
            new => slice.growth_max(new),
        });
        let rows: u64 = resolved
            .rows()
            .map(|(_, slice, rows)| slice.growth(rows))
            .sum();
        let (what, what_beside) = match (part > 0, rows > 0) {
            (true, _) => (
                "the part of a synchronous step",
                "the part of a synchronous step, and the next checkpoint",
            ),
            (false, true) => (
                "rows that are changed for the first time",
                "rows that are changed for the first time, and the next checkpoint",
            ),
            (false, false) => (
                "rows of new ids",
                "rows of new ids, and the next checkpoint",
            ),
        };
        let asked = new.sum::<u64>() + rows + part;
        if asked > 0 {
            self.check_room(asked, what)?;
            self.check_measured_room(asked + reserve, what_beside)?;
        }
        if aside > 0 && self.check_room(asked + aside, "").is_err() {
            Err(Error::NotReady(
                "a checkpoint is being written, and the memory of the server leaves no room to set aside what changes meanwhile",
            ))
        } else {
            Ok(())
        }
    }
}
