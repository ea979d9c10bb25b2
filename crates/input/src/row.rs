//! Rows of typed columns: their cells, and their inline form as bytes for readers without access to the files.
//!
//! In the inline form, cells are in the order of the columns. Each cell begins with its kind. Numbers have 8 bytes,
//! little-endian. Texts and lists begin with their length in 4 bytes, little-endian.

use serde::{Deserialize, Serialize};
use trainyard_input_options::TimeUnit;

/// Kinds of cells.
const MISSING: u8 = 0;
const INT: u8 = 1;
const FLOAT: u8 = 2;
const TEXT: u8 = 3;
const LIST: u8 = 4;
const UNSIGNED: u8 = 5;
const DAYS: u8 = 6;
const MILLISECONDS: u8 = 7;
const MICROSECONDS: u8 = 8;
const NANOSECONDS: u8 = 9;
const SECONDS: u8 = 10;

/// Unit in which a file counts time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ticks {
    /// Days, of dates.
    Days,
    /// Seconds, of durations.
    Seconds,
    /// Milliseconds.
    Milliseconds,
    /// Microseconds.
    Microseconds,
    /// Nanoseconds.
    Nanoseconds,
}

impl Ticks {
    const SECONDS_OF_A_DAY: i64 = 86_400;

    /// Returns the name of the unit.
    pub fn name(self) -> &'static str {
        self.time_unit().map_or("days", TimeUnit::name)
    }

    /// Returns the unit as that of a job; nothing for days, which no job has.
    pub fn time_unit(self) -> Option<TimeUnit> {
        match self {
            Self::Days => None,
            Self::Seconds => Some(TimeUnit::Seconds),
            Self::Milliseconds => Some(TimeUnit::Milliseconds),
            Self::Microseconds => Some(TimeUnit::Microseconds),
            Self::Nanoseconds => Some(TimeUnit::Nanoseconds),
        }
    }

    /// Returns a time of this unit in another unit, rounded down; nothing if 64 bits do not hold it.
    pub(crate) fn convert(self, time: i64, unit: TimeUnit) -> Option<i64> {
        let to = unit.per_second();
        let Some(own) = self.time_unit() else {
            return time.checked_mul(Self::SECONDS_OF_A_DAY * to);
        };
        let from = own.per_second();
        if from >= to {
            Some(time.div_euclid(from / to))
        } else {
            time.checked_mul(to / from)
        }
    }

    #[cfg(feature = "parquet")]
    fn code(self) -> u8 {
        match self {
            Self::Days => DAYS,
            Self::Seconds => SECONDS,
            Self::Milliseconds => MILLISECONDS,
            Self::Microseconds => MICROSECONDS,
            Self::Nanoseconds => NANOSECONDS,
        }
    }
}

/// A value of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Cell<'a> {
    Missing,
    Int(i64),
    /// A number of an unsigned type of 64 bits.
    Unsigned(u64),
    /// A time since 1970 in UTC, a date, or a time of the day.
    Time(i64, Ticks),
    Float(f64),
    Text(&'a [u8]),
    /// A list with the number of its values. The values are the cells that follow.
    List(u32),
}

#[cfg(feature = "parquet")]
impl Cell<'_> {
    /// Returns the number of bytes of the cell in the inline form of a row.
    #[inline]
    pub(crate) fn encoded_len(self) -> usize {
        match self {
            Self::Missing => 1,
            Self::Int(_) | Self::Unsigned(_) | Self::Time(..) | Self::Float(_) => 9,
            Self::Text(text) => 5 + text.len(),
            Self::List(_) => 5,
        }
    }
}

/// Iterator over the cells of a row in its inline form. It ends at bytes that are not a cell.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowCells<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for RowCells<'a> {
    type Item = Cell<'a>;

    #[inline]
    fn next(&mut self) -> Option<Cell<'a>> {
        let (&kind, rest) = self.0.split_first()?;
        let (cell, rest) = match kind {
            MISSING => (Cell::Missing, rest),
            INT => {
                let (number, rest) = rest.split_first_chunk()?;
                (Cell::Int(i64::from_le_bytes(*number)), rest)
            }
            UNSIGNED => {
                let (number, rest) = rest.split_first_chunk()?;
                (Cell::Unsigned(u64::from_le_bytes(*number)), rest)
            }
            DAYS..=NANOSECONDS => {
                let ticks = match kind {
                    DAYS => Ticks::Days,
                    SECONDS => Ticks::Seconds,
                    MILLISECONDS => Ticks::Milliseconds,
                    MICROSECONDS => Ticks::Microseconds,
                    _ => Ticks::Nanoseconds,
                };
                let (number, rest) = rest.split_first_chunk()?;
                (Cell::Time(i64::from_le_bytes(*number), ticks), rest)
            }
            FLOAT => {
                let (number, rest) = rest.split_first_chunk()?;
                (Cell::Float(f64::from_le_bytes(*number)), rest)
            }
            TEXT => {
                let (length, rest) = rest.split_first_chunk()?;
                let (text, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
                (Cell::Text(text), rest)
            }
            LIST => {
                let (length, rest) = rest.split_first_chunk()?;
                (Cell::List(u32::from_le_bytes(*length)), rest)
            }
            _ => return None,
        };
        self.0 = rest;
        Some(cell)
    }
}

/// Appends the inline form of a row.
///
/// # Panics
/// A text has 4 GiB or more. Texts of Parquet files are shorter.
#[cfg(feature = "parquet")]
pub(crate) fn encode<'a>(cells: impl Iterator<Item = Cell<'a>>, row: &mut Vec<u8>) {
    let number = |kind: u8, bytes: [u8; 8]| {
        let mut cell = [kind; 9];
        cell[1..].copy_from_slice(&bytes);
        cell
    };
    for cell in cells {
        match cell {
            Cell::Missing => row.push(MISSING),
            Cell::Int(value) => row.extend_from_slice(&number(INT, value.to_le_bytes())),
            Cell::Unsigned(value) => {
                row.extend_from_slice(&number(UNSIGNED, value.to_le_bytes()));
            }
            Cell::Time(value, ticks) => {
                row.extend_from_slice(&number(ticks.code(), value.to_le_bytes()));
            }
            Cell::Float(value) => row.extend_from_slice(&number(FLOAT, value.to_le_bytes())),
            Cell::Text(text) => {
                let length = u32::try_from(text.len()).expect("a text is under 4 GiB");
                row.push(TEXT);
                row.extend_from_slice(&length.to_le_bytes());
                row.extend_from_slice(text);
            }
            Cell::List(length) => {
                row.push(LIST);
                row.extend_from_slice(&length.to_le_bytes());
            }
        }
    }
}
