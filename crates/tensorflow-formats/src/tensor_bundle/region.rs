//! The part of a tensor that a slice covers, and the positions of its elements.

use std::ops::Range;

/// A box of elements: its start and length in each dimension of the whole tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) starts: Vec<usize>,
    pub(crate) lengths: Vec<usize>,
}

/// Elements that are contiguous both in a slice and in the whole tensor.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Position of the first element in the whole tensor.
    pub(crate) place: usize,
    /// Number of elements, at least 1.
    pub(crate) length: usize,
}

/// Returns the stride of each dimension, and the number of all elements. Returns `None` if a product of dimensions
/// overflows; dimensions of length 0 are left out of the product.
pub(crate) fn strides(shape: &[usize]) -> Option<(Vec<usize>, usize)> {
    let mut out = vec![0; shape.len()];
    let mut elements = 1_usize;
    for (stride, &length) in out.iter_mut().zip(shape).rev() {
        *stride = elements;
        elements = elements.checked_mul(length.max(1))?;
    }
    Some((out, if shape.contains(&0) { 0 } else { elements }))
}

impl Region {
    /// Returns the region of a whole tensor.
    pub(crate) fn whole(shape: &[usize]) -> Self {
        Self {
            starts: vec![0; shape.len()],
            lengths: shape.to_vec(),
        }
    }

    /// Returns the rows covered, row 0 for a scalar.
    pub(crate) fn rows(&self) -> Range<usize> {
        match (self.starts.first(), self.lengths.first()) {
            (Some(&start), Some(&length)) => start..start + length,
            _ => 0..1,
        }
    }

    /// Returns the number of elements, at most that of the whole tensor.
    pub(crate) fn elements(&self) -> usize {
        self.lengths.iter().product()
    }

    /// Returns the range of the region's elements, counted from its first, that lie in these rows of the whole tensor.
    pub(crate) fn elements_of(&self, rows: &Range<usize>) -> Range<usize> {
        let own = self.rows();
        let begin = rows.start.max(own.start);
        let end = rows.end.min(own.end);
        let width: usize = self.lengths.iter().skip(1).product();
        if begin < end {
            (begin - own.start) * width..(end - own.start) * width
        } else {
            0..0
        }
    }

    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let mine = self.starts.iter().zip(&self.lengths);
        let theirs = other.starts.iter().zip(&other.lengths);
        mine.zip(theirs)
            .all(|((&a, &length_a), (&b, &length_b))| a < b + length_b && b < a + length_a)
    }

    /// Returns the position of a region's element in a tensor of this shape and these strides, and the number of
    /// contiguous elements from there on.
    pub(crate) fn run(&self, shape: &[usize], strides: &[usize], element: usize) -> Run {
        // The dimensions after `split` are covered whole, so that consecutive steps of `split` are contiguous.
        let split = self
            .lengths
            .iter()
            .zip(shape)
            .rposition(|(length, whole)| length != whole)
            .unwrap_or(0);
        let length: usize = self.lengths.iter().skip(split).product::<usize>().max(1);
        let within = element % length;
        let mut outer = element / length;
        let mut place = within;
        let dimensions = self
            .starts
            .iter()
            .zip(&self.lengths)
            .zip(strides)
            .enumerate();
        for (dimension, ((&start, &long), &stride)) in dimensions.rev() {
            let mut index = start;
            if dimension < split {
                index += outer % long.max(1);
                outer /= long.max(1);
            }
            place += index * stride;
        }
        Run {
            place,
            length: length - within,
        }
    }
}

/// Checks that regions, each within a tensor of `elements` elements, cover every element exactly once.
pub(crate) fn check_tiles(regions: &mut [Region], elements: usize) -> Result<(), String> {
    regions.sort_by_key(|region| region.rows().start);
    for (index, region) in regions.iter().enumerate() {
        let rest = regions.get(index + 1..).unwrap_or_default();
        let near = rest
            .iter()
            .take_while(|other| other.rows().start < region.rows().end);
        if let Some(other) = near.into_iter().find(|other| region.overlaps(other)) {
            return Err(format!(
                "slices of lengths {:?} at {:?} and of lengths {:?} at {:?} overlap",
                region.lengths, region.starts, other.lengths, other.starts
            ));
        }
    }
    // Without overlap, the sum is at most `elements`.
    let covered: usize = regions.iter().map(Region::elements).sum();
    if covered == elements {
        return Ok(());
    }
    Err(format!(
        "its slices cover {covered} elements, expected {elements}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(starts: &[usize], lengths: &[usize]) -> Region {
        Region {
            starts: starts.to_vec(),
            lengths: lengths.to_vec(),
        }
    }

    #[test]
    fn every_element_of_every_box_goes_to_its_place() {
        let shape = [3, 4, 2];
        let (strides, elements) = strides(&shape).expect("it is small");
        assert_eq!((strides.as_slice(), elements), ([8, 2, 1].as_slice(), 24));
        let boxes = (0..3).flat_map(|a| (0..4).flat_map(move |b| (0..2).map(move |c| [a, b, c])));
        for starts in boxes.clone() {
            for last in boxes
                .clone()
                .filter(|last| last.iter().zip(starts).all(|(last, start)| *last >= start))
            {
                let lengths = [0, 1, 2].map(|d| last[d] - starts[d] + 1);
                let region = region(&starts, &lengths);
                let inside = boxes
                    .clone()
                    .filter(|at| (0..3).all(|d| at[d] >= starts[d] && at[d] <= last[d]))
                    .map(|at| at[0] * 8 + at[1] * 2 + at[2]);
                let expected: Vec<usize> = inside.collect();
                let mut found = Vec::new();
                while found.len() < region.elements() {
                    let run = region.run(&shape, &strides, found.len());
                    found.extend(run.place..run.place + run.length);
                }
                assert_eq!(found, expected, "{region:?}");
            }
        }
    }

    #[test]
    fn rows_are_cut_from_a_slice() {
        let slice = region(&[4, 1], &[3, 2]);
        assert_eq!(slice.elements_of(&(0..100)), 0..6);
        assert_eq!(slice.elements_of(&(5..6)), 2..4);
        assert_eq!(slice.elements_of(&(7..9)), 0..0);
        assert_eq!(Region::whole(&[]).elements_of(&(0..1)), 0..1);
    }

    #[test]
    fn gaps_and_overlaps_are_found() {
        let left = region(&[0, 0], &[4, 2]);
        let right = region(&[0, 2], &[4, 3]);
        assert_eq!(check_tiles(&mut [right.clone(), left.clone()], 20), Ok(()));
        assert!(
            check_tiles(&mut [left.clone()], 20)
                .is_err_and(|text| text.contains("8 elements, expected 20"))
        );
        let wide = region(&[3, 1], &[1, 1]);
        assert!(
            check_tiles(&mut [left, right, wide], 20).is_err_and(|text| text.contains("overlap"))
        );
    }

    #[test]
    fn products_that_overflow_are_refused() {
        assert_eq!(strides(&[0, 1 << 40, 1 << 40]), None);
        assert_eq!(strides(&[1 << 40, 1 << 40, 0]), None);
        assert_eq!(
            strides(&[1 << 40, 0, 3]).map(|(_, elements)| elements),
            Some(0)
        );
        assert_eq!(strides(&[]), Some((vec![], 1)));
    }
}
