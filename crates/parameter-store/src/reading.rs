//! The reply to a pull, read in pieces: values are copied while the reply is sent, not before.

use std::sync::Arc;

use crate::dynamic::DynamicSlice;
use crate::selection::Resolved;

/// Values that a pull was granted, in order. Each value is as recent as the moment at which it is read. A row is always
/// read as a whole.
#[derive(Debug, Default)]
pub struct Reading {
    resolved: Arc<Resolved>,
    /// Whole slices that the reader already has, as indices into the selection, ascending.
    unchanged: Vec<u32>,
    /// Index of the slice that is being read, in the order of the selection.
    slice: usize,
    /// Rows of that slice that have been read.
    rows: usize,
    left: usize,
    widest: usize,
    /// Values that [`Reading::read_all`] has read, and how many of them have been returned.
    copied: Option<(Vec<f32>, usize)>,
    /// For each slice of ids, the values of a table with a shared row, which are read at once: they and the ids without a
    /// row are of one moment. Empty if no such table is read.
    early: Vec<Vec<f32>>,
    /// For each slice of ids, the places of those without a row, if the table has a shared row.
    without_row: Vec<Vec<u32>>,
}

/// Values of one moment, in the order of the selection.
#[derive(Debug)]
pub(crate) struct ReadAtOnce<'a> {
    pub(crate) values: &'a mut [f32],
    /// For each slice of ids, the places of those without a row, if one of the tables has a shared row.
    pub(crate) without_row: &'a mut [Vec<u32>],
}

impl Reading {
    pub(crate) fn new(resolved: Arc<Resolved>, unchanged: Vec<u32>) -> Self {
        let all: usize = resolved.lengths().map(|(_, length)| length).sum();
        let known: usize = unchanged
            .iter()
            .map(|&place| resolved.whole[place as usize].len())
            .sum();
        let static_widths = resolved
            .whole
            .iter()
            .chain(&resolved.rows)
            .map(|slice| slice.width);
        let widest = static_widths
            .chain(resolved.ids.iter().map(|slice| slice.width))
            .max()
            .unwrap_or(0);
        let (early, without_row) = if resolved.ids.iter().any(|slice| slice.shares_row()) {
            resolved.ids().map(read_early).unzip()
        } else {
            (Vec::new(), Vec::new())
        };
        Self {
            resolved,
            unchanged,
            slice: 0,
            rows: 0,
            left: all - known,
            widest,
            copied: None,
            early,
            without_row,
        }
    }

    /// Removes and returns, for each slice of ids, the places of those without a row. Empty if no table has a shared row.
    pub(crate) fn take_without_row(&mut self) -> Vec<Vec<u32>> {
        std::mem::take(&mut self.without_row)
    }

    /// Returns the number of values that have not been read yet.
    pub fn remaining(&self) -> usize {
        self.left
    }

    /// Returns the width of the widest row, which is the smallest buffer that is certain to make progress.
    pub fn row_values_max(&self) -> usize {
        self.widest
    }

    /// Returns the whole slices that the reader already has, as indices into the selection, ascending. They are not
    /// read.
    pub fn unchanged(&self) -> &[u32] {
        &self.unchanged
    }

    /// Reads all remaining values now, so that all of them are of this moment.
    pub(crate) fn read_all(&mut self) {
        let mut values = vec![0.0; self.left];
        let count = self.read(&mut values);
        (self.left, self.copied) = (count, Some((values, 0)));
    }

    /// Modifies the values that [`Reading::read_all`] has read.
    pub(crate) fn change(&mut self, change: impl FnOnce(&Resolved, ReadAtOnce<'_>)) {
        if let Some((values, _)) = &mut self.copied {
            let without_row = &mut self.without_row;
            change(
                &self.resolved,
                ReadAtOnce {
                    values,
                    without_row,
                },
            );
        }
    }

    /// Copies as many of the next rows as fit into the front of `out`, and returns the number of their values. It is 0
    /// at the end, or if `out` is too short for the next row.
    pub fn read(&mut self, out: &mut [f32]) -> usize {
        let Self {
            resolved,
            unchanged,
            slice,
            rows,
            left,
            copied,
            early,
            ..
        } = self;
        if let Some((values, passed)) = copied {
            let count = out.len().min(*left);
            out[..count].copy_from_slice(&values[*passed..*passed + count]);
            (*passed, *left) = (*passed + count, *left - count);
            return count;
        }
        let mut done = 0;
        while *left > 0 {
            let room = &mut out[done..];
            let place = *slice;
            let whole = resolved.whole.len();
            let by_row = resolved.rows.len();
            // Rows of this slice, and the values and rows that were read now.
            let (all, (count, now)) = if let Some(source) = resolved.whole.get(place) {
                match unchanged.binary_search(&(place as u32)) {
                    Ok(_) => (*rows, (0, 0)),
                    Err(_) => (source.rows.len(), source.read_whole(*rows, room)),
                }
            } else if let Some(source) = resolved.rows.get(place - whole) {
                let named = &resolved.selection.row_sets[resolved.selection.rows[place - whole].1];
                let now = fitting(&named[*rows..], source.width, room.len());
                let count = now.len() * source.width;
                source.read_rows(now, &mut room[..count]);
                (named.len(), (count, now.len()))
            } else {
                let place = place - whole - by_row;
                let Some(source) = resolved.ids.get(place) else {
                    break;
                };
                let named = &resolved.selection.id_sets[resolved.selection.ids[place].1];
                let now = fitting(&named[*rows..], source.width, room.len());
                let count = now.len() * source.width;
                match early.get(place).filter(|_| source.shares_row()) {
                    Some(values) => {
                        room[..count].copy_from_slice(&values[*rows * source.width..][..count])
                    }
                    None => source.read(now, &mut room[..count]),
                }
                (named.len(), (count, now.len()))
            };
            done += count;
            *left -= count;
            *rows += now;
            if *rows == all {
                (*slice, *rows) = (*slice + 1, 0);
            } else if now == 0 {
                break;
            }
        }
        done
    }
}

/// Reads the slice of a table with a shared row: its values, and the places of the ids without a row. Reads nothing of
/// other tables.
fn read_early((_, slice, ids): (u32, &DynamicSlice, &[u64])) -> (Vec<f32>, Vec<u32>) {
    if !slice.shares_row() {
        return Default::default();
    }
    let mut values = vec![0.0; ids.len() * slice.width];
    let without_row = slice.read_with_row(ids, &mut values);
    (values, without_row)
}

/// Returns as many of the first rows as fit.
fn fitting<T>(rows: &[T], width: usize, room: usize) -> &[T] {
    let fit = room.checked_div(width).unwrap_or(rows.len());
    &rows[..rows.len().min(fit)]
}
