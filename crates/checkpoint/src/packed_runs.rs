//! Packed lists of rows: runs of consecutive rows in few bytes.
//!
//! A run is the gap before it, doubled, plus one if it has more than one row; then, if so, the number of its rows less two. Both
//! are LEB128, seven bits a byte. So a single row costs one byte if fewer than 64 rows lie before it, where the first and the
//! last row of a run cost sixteen. Zeros fill the last word.

use std::ops::Range;

/// Bits of a number in each byte.
const BITS: u32 = 7;
/// Marks a byte that another one follows.
const MORE: u8 = 0x80;

/// Returns runs of rows, ascending and without overlaps, as words. The gap of the first run counts from `begin`.
pub(crate) fn pack(runs: &[Range<usize>], begin: usize) -> Vec<u64> {
    let mut bytes = Vec::with_capacity(2 * runs.len());
    let mut end = begin;
    for run in runs.iter().filter(|run| !run.is_empty()) {
        let gap = (run.start - end) as u64;
        end = run.end;
        match run.len() as u64 {
            1 => put(gap << 1, &mut bytes),
            rows => {
                put(gap << 1 | 1, &mut bytes);
                put(rows - 2, &mut bytes);
            }
        }
    }
    bytes.resize(bytes.len().next_multiple_of(size_of::<u64>()), 0);
    let words = bytes.as_chunks().0.iter();
    words.map(|word| u64::from_le_bytes(*word)).collect()
}

/// Returns the runs of a list of `count` rows, all in `rows`.
///
/// # Errors
/// The list has another number of rows, or rows that are not in `rows`. The message says which.
pub(crate) fn unpack(
    words: &[u64],
    rows: &Range<usize>,
    count: usize,
) -> Result<Vec<Range<usize>>, String> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut rest = &bytes[..];
    let mut runs = Vec::new();
    let mut end = rows.start as u64;
    let mut left = count as u64;
    while left > 0 {
        let cut_short = || format!("it ends {left} rows before the last of {count}");
        let first = take(&mut rest).ok_or_else(cut_short)?;
        let more = match first & 1 {
            0 => 0,
            _ => take(&mut rest).ok_or_else(cut_short)?.saturating_add(1),
        };
        let begin = end.saturating_add(first >> 1);
        let length = more.saturating_add(1);
        end = begin.saturating_add(length);
        if end > rows.end as u64 || length > left {
            return Err(format!(
                "rows {begin}..{end} follow, and {left} rows of {rows:?} are left"
            ));
        }
        left -= length;
        runs.push(begin as usize..end as usize);
    }
    if rest.len() >= size_of::<u64>() || rest.iter().any(|byte| *byte != 0) {
        return Err(format!(
            "{} bytes follow the last of {count} rows",
            rest.len()
        ));
    }
    Ok(runs)
}

fn put(mut number: u64, bytes: &mut Vec<u8>) {
    while number >> BITS > 0 {
        bytes.push(number as u8 | MORE);
        number >>= BITS;
    }
    bytes.push(number as u8);
}

/// Takes a number from the front of some bytes; nothing if they end before it does, or it has more than 64 bits.
fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..u64::BITS).step_by(BITS as usize) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & !MORE);
        if bits << shift >> shift != bits {
            return None;
        }
        number |= bits << shift;
        if byte & MORE == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(runs: &[Range<usize>], rows: Range<usize>) -> usize {
        let words = pack(runs, rows.start);
        let count = runs.iter().map(Range::len).sum();
        let read = unpack(&words, &rows, count).expect("the list is whole");
        assert_eq!(read, runs);
        words.len()
    }

    #[test]
    fn runs_are_read_as_they_were_packed() {
        assert_eq!(same(&[], 0..0), 0);
        same(&[5..6, 7..8], 5..8);
        same(
            &[10..11, 11..12, 13..1000, 1 << 40..(1 << 40) + 7],
            10..1 << 41,
        );
        let far = usize::MAX - 9;
        same(&[0..1, far / 2..far / 2 + 1], 0..far);
    }

    #[test]
    fn a_row_among_near_ones_costs_a_byte() {
        let runs: Vec<Range<usize>> = (0..8000).map(|place| 60 * place..60 * place + 1).collect();
        assert_eq!(same(&runs, 0..480_000), 1000);
    }

    #[test]
    fn lists_of_other_rows_are_refused() {
        let words = pack(&[3..4, 7..9], 0);
        let error = |words: &[u64], rows, count| unpack(words, &rows, count).expect_err("wrong");
        assert_eq!(
            error(&words, 0..8, 3),
            "rows 7..9 follow, and 2 rows of 0..8 are left"
        );
        assert_eq!(
            error(&words, 0..9, 2),
            "rows 7..9 follow, and 1 rows of 0..9 are left"
        );
        assert_eq!(error(&[], 0..9, 2), "it ends 2 rows before the last of 2");
        assert_eq!(error(&words, 0..9, 1), "7 bytes follow the last of 1 rows");
        assert_eq!(
            error(&[u64::MAX; 2], 0..9, 1),
            "it ends 1 rows before the last of 1"
        );
    }
}
