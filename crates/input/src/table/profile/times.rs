//! Columns of times in the files of a table: their cells are plain numbers, whose unit the file says.

use crate::row::{Cell, RowCells, Ticks};
use crate::table::TableReader;
use crate::{Format, TimeUnit};

impl TableReader {
    /// Calls `each` for the times of the latest row, with the place of its file, the place of the column in that file, and the
    /// unit of the numbers; absent = days. Only Parquet says of a column that it holds times.
    pub fn times(&self, each: impl FnMut(usize, usize, Option<TimeUnit>)) {
        if self.options.format != Format::Parquet {
            return;
        }
        if let Some(reader) = &self.reader {
            let row = reader.record(0).content.bytes();
            of_cells(self.next_file - 1, RowCells(&row), each);
        }
    }
}

/// Calls `each` for the times among the cells of a row.
fn of_cells<'a>(
    file: usize,
    mut cells: impl Iterator<Item = Cell<'a>>,
    mut each: impl FnMut(usize, usize, Option<TimeUnit>),
) {
    let mut field = 0;
    while let Some(cell) = cells.next() {
        let mut found = ticks(cell);
        if let Cell::List(count) = cell {
            for _ in 0..count {
                found = cells.next().and_then(ticks).or(found);
            }
        }
        if let Some(ticks) = found {
            each(file, field, unit(ticks));
        }
        field += 1;
    }
}

fn ticks(cell: Cell<'_>) -> Option<Ticks> {
    match cell {
        Cell::Time(_, ticks) => Some(ticks),
        _ => None,
    }
}

/// Returns the unit as that of a job; nothing for days, which no job has.
fn unit(ticks: Ticks) -> Option<TimeUnit> {
    match ticks {
        Ticks::Days => None,
        Ticks::Seconds => Some(TimeUnit::Seconds),
        Ticks::Milliseconds => Some(TimeUnit::Milliseconds),
        Ticks::Microseconds => Some(TimeUnit::Microseconds),
        Ticks::Nanoseconds => Some(TimeUnit::Nanoseconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_of_a_list_belong_to_its_column() {
        let cells = [
            Cell::Int(1),
            Cell::List(2),
            Cell::Time(1, Ticks::Nanoseconds),
            Cell::Time(2, Ticks::Nanoseconds),
            Cell::List(0),
            Cell::Missing,
            Cell::Time(3, Ticks::Days),
        ];
        let mut found = Vec::new();
        of_cells(7, cells.into_iter(), |file, field, unit| {
            found.push((file, field, unit));
        });
        assert_eq!(found, [(7, 1, Some(TimeUnit::Nanoseconds)), (7, 4, None)]);
    }
}
