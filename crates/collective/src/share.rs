//! Even shares of a buffer.

use std::ops::Range;

/// Returns share `index` of `count` of a range. Shares follow each other, cover the range, and differ by one at most.
pub(crate) fn share(range: Range<usize>, count: usize, index: usize) -> Range<usize> {
    let length = range.len() as u128;
    let count = count as u128;
    let place = |index: usize| range.start + (length * index as u128 / count) as usize;
    place(index)..place(index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_cover_the_range_evenly() {
        for length in [0, 1, 6, 7, 1000] {
            for count in 1..9 {
                let mut next = 3;
                for index in 0..count {
                    let share = share(3..3 + length, count, index);
                    assert_eq!(share.start, next);
                    assert!(share.len().abs_diff(length / count) <= 1);
                    next = share.end;
                }
                assert_eq!(next, 3 + length);
            }
        }
    }
}
