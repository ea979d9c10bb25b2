//! Random numbers of several rows at once, from one stream for each row.
//!
//! The numbers are those of `rand_chacha::ChaCha8Rng` with its stream set to the row (D. Bernstein, ChaCha, 8 rounds).
//! That generator makes several numbers of one stream in parallel, but a row needs few of them. This one makes the same
//! numbers of several rows in parallel.

use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

/// Number of streams that are read in parallel: the number of 32-bit numbers in an AVX2 vector.
pub(crate) const LANES: usize = 8;
/// Numbers of a stream that are made at a time.
pub(crate) const BLOCK: usize = 16;

/// The generator of a variable's values.
#[derive(Debug, Clone)]
pub(crate) struct Streams {
    key: [u32; 8],
}

impl Streams {
    /// Returns the generator of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        let bytes = ChaCha8Rng::seed_from_u64(seed).get_seed();
        let mut key = [0; 8];
        for (word, bytes) in key.iter_mut().zip(bytes.as_chunks().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        Self { key }
    }

    /// Returns block `number` of each of these streams: 16 numbers, the first of all streams before the second.
    #[inline(always)]
    pub(crate) fn block<const L: usize>(
        &self,
        streams: &[u64; L],
        number: u32,
    ) -> [[u32; L]; BLOCK] {
        let mut first = [[0; L]; BLOCK];
        // "expand 32-byte k"
        let constants = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];
        for (row, word) in first
            .iter_mut()
            .zip(constants.into_iter().chain(self.key).chain([number, 0]))
        {
            *row = [word; L];
        }
        first[14] = streams.map(|stream| stream as u32);
        first[15] = streams.map(|stream| (stream >> 32) as u32);
        let mut state = first;
        for _ in 0..4 {
            for column in 0..4 {
                quarter(&mut state, [column, 4 + column, 8 + column, 12 + column]);
            }
            for diagonal in 0..4 {
                let at = |row: usize| 4 * row + (diagonal + row) % 4;
                quarter(&mut state, [at(0), at(1), at(2), at(3)]);
            }
        }
        for (row, first) in state.iter_mut().zip(&first) {
            add(row, first);
        }
        state
    }
}

/// Performs a quarter round of each stream.
#[inline(always)]
fn quarter<const L: usize>(state: &mut [[u32; L]; BLOCK], places: [usize; 4]) {
    let [mut a, mut b, mut c, mut d] = places.map(|place| state[place]);
    for [first, second] in [[16, 12], [8, 7]] {
        add(&mut a, &b);
        turn(&mut d, &a, first);
        add(&mut c, &d);
        turn(&mut b, &c, second);
    }
    for (place, row) in places.into_iter().zip([a, b, c, d]) {
        state[place] = row;
    }
}

#[inline(always)]
fn add<const L: usize>(to: &mut [u32; L], by: &[u32; L]) {
    to.iter_mut()
        .zip(by)
        .for_each(|(to, by)| *to = to.wrapping_add(*by));
}

#[inline(always)]
fn turn<const L: usize>(of: &mut [u32; L], by: &[u32; L], bits: u32) {
    of.iter_mut()
        .zip(by)
        .for_each(|(of, by)| *of = (*of ^ by).rotate_left(bits));
}

#[cfg(test)]
mod tests {
    use rand::Rng as _;

    use super::*;

    #[test]
    fn each_stream_is_that_of_the_generator() {
        let streams = [
            0,
            1,
            2,
            77,
            u64::from(u32::MAX),
            u64::from(u32::MAX) + 1,
            u64::MAX - 1,
            u64::MAX,
        ];
        for seed in [0, 1, u64::MAX] {
            let made = Streams::new(seed);
            for number in 0..3 {
                let block = made.block(&streams, number);
                for (lane, stream) in streams.into_iter().enumerate() {
                    let mut one = ChaCha8Rng::seed_from_u64(seed);
                    one.set_stream(stream);
                    one.set_word_pos(u128::from(number) * BLOCK as u128);
                    for (place, words) in block.iter().enumerate() {
                        assert_eq!(
                            words[lane],
                            one.next_u32(),
                            "seed {seed}, stream {stream}, {place}"
                        );
                    }
                }
            }
        }
    }
}
