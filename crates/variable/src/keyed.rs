//! Gradients of rows or ids that several parts name: the union of their keys, and the sums.

/// Returns the keys that at least one part names, ascending, each once.
pub fn union_of_keys<'a, K: Ord + Copy + 'a>(parts: impl Iterator<Item = &'a [K]>) -> Vec<K> {
    let mut union: Vec<K> = parts.flatten().copied().collect();
    union.sort_unstable();
    union.dedup();
    union
}

/// Adds the gradients of one part to `sums`, which has `width` values for each of `keys`. The keys `named` by the part
/// must ascend and be among `keys`. Further `values` are ignored.
pub fn add_by_key<K: Ord>(keys: &[K], sums: &mut [f32], named: &[K], values: &[f32], width: usize) {
    let mut at = 0;
    for (key, values) in named.iter().zip(values.chunks_exact(width.max(1))) {
        while keys[at] < *key {
            at += 1;
        }
        sums[at * width..(at + 1) * width]
            .iter_mut()
            .zip(values)
            .for_each(|(sum, value)| *sum += value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_two_parts_name_are_summed_and_the_others_kept() {
        let parts: [(&[u32], &[f32]); 2] = [
            (&[2, 5], &[1.0, 2.0, 3.0, 4.0]),
            (&[1, 5], &[10.0, 20.0, 30.0, 40.0]),
        ];
        let keys = union_of_keys(parts.iter().map(|(named, _)| *named));
        assert_eq!(keys, [1, 2, 5]);
        let mut sums = vec![0.0; 6];
        parts
            .iter()
            .for_each(|(named, values)| add_by_key(&keys, &mut sums, named, values, 2));
        assert_eq!(sums, [10.0, 20.0, 1.0, 2.0, 33.0, 44.0]);
    }
}
