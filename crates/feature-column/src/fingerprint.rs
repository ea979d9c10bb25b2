//! FarmHash's `Fingerprint64`, the hash of texts in TensorFlow's `tf.strings.to_hash_bucket_fast` and crosses.
//!
//! Written from the published algorithm, `farmhashna::Hash64` of FarmHash 1.1 (Geoff Pike, Google;
//! <https://github.com/google/farmhash>, `src/farmhash.cc`), whose results will never change. Constants and functions
//! have the names of that source, so that both can be compared side by side. All arithmetic wraps.

const K0: u64 = 0xc3a5_c85c_97cb_3127;
const K1: u64 = 0xb492_b66f_be98_f273;
const K2: u64 = 0x9ae1_6a3b_2f90_404f;
/// Initial state for texts of more than 64 bytes.
const SEED: u64 = 81;
/// Bytes per round for long texts.
const BLOCK: usize = 64;

/// Returns the fingerprint of a text, bit-equal with TensorFlow's for every length.
#[inline]
pub fn fingerprint64(text: &[u8]) -> u64 {
    match text.len() {
        0..=16 => hash_len_0_to_16(text),
        17..=32 => hash_len_17_to_32(text),
        33..=64 => hash_len_33_to_64(text),
        _ => hash_long(text),
    }
}

/// Returns the 8 bytes at an offset, little-endian.
#[inline(always)]
fn fetch64(text: &[u8], place: usize) -> u64 {
    let bytes = text[place..place + 8]
        .first_chunk()
        .expect("the range has 8 bytes");
    u64::from_le_bytes(*bytes)
}

/// Returns the 4 bytes at an offset, little-endian.
#[inline(always)]
fn fetch32(text: &[u8], place: usize) -> u64 {
    let bytes = text[place..place + 4]
        .first_chunk()
        .expect("the range has 4 bytes");
    u64::from(u32::from_le_bytes(*bytes))
}

#[inline(always)]
fn shift_mix(value: u64) -> u64 {
    value ^ (value >> 47)
}

/// Combines two words into one, as in Murmur.
#[inline(always)]
fn hash_len_16(u: u64, v: u64, mul: u64) -> u64 {
    let a = shift_mix((u ^ v).wrapping_mul(mul));
    let b = shift_mix((v ^ a).wrapping_mul(mul));
    b.wrapping_mul(mul)
}

/// Returns the factor for texts of up to 64 bytes.
#[inline(always)]
fn mul_of(length: usize) -> u64 {
    K2.wrapping_add(length as u64 * 2)
}

#[inline]
fn hash_len_0_to_16(text: &[u8]) -> u64 {
    let length = text.len();
    if length >= 8 {
        let mul = mul_of(length);
        let a = fetch64(text, 0).wrapping_add(K2);
        let b = fetch64(text, length - 8);
        let c = b.rotate_right(37).wrapping_mul(mul).wrapping_add(a);
        let d = a.rotate_right(25).wrapping_add(b).wrapping_mul(mul);
        return hash_len_16(c, d, mul);
    }
    if length >= 4 {
        let first = fetch32(text, 0);
        let u = (length as u64).wrapping_add(first << 3);
        return hash_len_16(u, fetch32(text, length - 4), mul_of(length));
    }
    if length > 0 {
        let a = text[0];
        let b = text[length / 2];
        let c = text[length - 1];
        let y = u64::from(a) + (u64::from(b) << 8);
        let z = length as u64 + (u64::from(c) << 2);
        return shift_mix(y.wrapping_mul(K2) ^ z.wrapping_mul(K0)).wrapping_mul(K2);
    }
    K2
}

#[inline]
fn hash_len_17_to_32(text: &[u8]) -> u64 {
    let length = text.len();
    let mul = mul_of(length);
    let a = fetch64(text, 0).wrapping_mul(K1);
    let b = fetch64(text, 8);
    let c = fetch64(text, length - 8).wrapping_mul(mul);
    let d = fetch64(text, length - 16).wrapping_mul(K2);
    let u = a
        .wrapping_add(b)
        .rotate_right(43)
        .wrapping_add(c.rotate_right(30))
        .wrapping_add(d);
    let v = a
        .wrapping_add(b.wrapping_add(K2).rotate_right(18))
        .wrapping_add(c);
    hash_len_16(u, v, mul)
}

fn hash_len_33_to_64(text: &[u8]) -> u64 {
    let length = text.len();
    let mul = mul_of(length);
    let a = fetch64(text, 0).wrapping_mul(K2);
    let b = fetch64(text, 8);
    let c = fetch64(text, length - 8).wrapping_mul(mul);
    let d = fetch64(text, length - 16).wrapping_mul(K2);
    let y = a
        .wrapping_add(b)
        .rotate_right(43)
        .wrapping_add(c.rotate_right(30))
        .wrapping_add(d);
    let z = hash_len_16(
        y,
        a.wrapping_add(b.wrapping_add(K2).rotate_right(18))
            .wrapping_add(c),
        mul,
    );
    let e = fetch64(text, 16).wrapping_mul(mul);
    let f = fetch64(text, 24);
    let g = y.wrapping_add(fetch64(text, length - 32)).wrapping_mul(mul);
    let h = z.wrapping_add(fetch64(text, length - 24)).wrapping_mul(mul);
    let u = e
        .wrapping_add(f)
        .rotate_right(43)
        .wrapping_add(g.rotate_right(30))
        .wrapping_add(h);
    let v = e
        .wrapping_add(f.wrapping_add(a).rotate_right(18))
        .wrapping_add(g);
    hash_len_16(u, v, mul)
}

/// Combines 32 bytes of a block and two seeds into two words.
#[inline(always)]
fn weak_hash_len_32_with_seeds(
    block: &[u8; BLOCK],
    place: usize,
    seed_a: u64,
    seed_b: u64,
) -> (u64, u64) {
    let w = fetch64(block, place);
    let x = fetch64(block, place + 8);
    let y = fetch64(block, place + 16);
    let z = fetch64(block, place + 24);
    let a = seed_a.wrapping_add(w);
    let b = seed_b.wrapping_add(a).wrapping_add(z).rotate_right(21);
    let sum = a.wrapping_add(x).wrapping_add(y);
    let mixed = b.wrapping_add(sum.rotate_right(44));
    (sum.wrapping_add(z), mixed.wrapping_add(a))
}

/// State of 56 bytes that each block of 64 bytes updates.
struct State {
    x: u64,
    y: u64,
    z: u64,
    v: (u64, u64),
    w: (u64, u64),
}

impl State {
    /// Returns the state after a block. The last block has its own factor in `mul`, and the `weight` 9. Other blocks
    /// have `K1` and 1.
    #[inline(always)]
    fn with(self, block: &[u8; BLOCK], mul: u64, weight: u64) -> Self {
        let Self { x, y, z, v, w } = self;
        let x = x
            .wrapping_add(y)
            .wrapping_add(v.0)
            .wrapping_add(fetch64(block, 8));
        let x = x.rotate_right(37).wrapping_mul(mul) ^ w.1.wrapping_mul(weight);
        let y = y
            .wrapping_add(v.1)
            .wrapping_add(fetch64(block, 48))
            .rotate_right(42)
            .wrapping_mul(mul);
        let y = y
            .wrapping_add(v.0.wrapping_mul(weight))
            .wrapping_add(fetch64(block, 40));
        let z = z.wrapping_add(w.0).rotate_right(33).wrapping_mul(mul);
        let v = weak_hash_len_32_with_seeds(block, 0, v.1.wrapping_mul(mul), x.wrapping_add(w.0));
        let seed_b = y.wrapping_add(fetch64(block, 16));
        let w = weak_hash_len_32_with_seeds(block, 32, z.wrapping_add(w.1), seed_b);
        Self {
            x: z,
            y,
            z: x,
            v,
            w,
        }
    }
}

/// Hashes a text of more than 64 bytes: all blocks before the last byte, then the last 64 bytes, which may overlap
/// them.
fn hash_long(text: &[u8]) -> u64 {
    let y = SEED.wrapping_mul(K1).wrapping_add(113);
    let mut state = State {
        x: SEED.wrapping_mul(K2).wrapping_add(fetch64(text, 0)),
        y,
        z: shift_mix(y.wrapping_mul(K2).wrapping_add(113)).wrapping_mul(K2),
        v: (0, 0),
        w: (0, 0),
    };
    // The last byte is left out, so that a block which ends with the text is used only as the last block.
    let (blocks, _) = text[..text.len() - 1].as_chunks();
    for block in blocks {
        state = state.with(block, K1, 1);
    }
    let mul = K1.wrapping_add((state.z & 0xff) << 1);
    state.w.0 = state.w.0.wrapping_add(((text.len() - 1) % BLOCK) as u64);
    state.v.0 = state.v.0.wrapping_add(state.w.0);
    state.w.0 = state.w.0.wrapping_add(state.v.0);
    let last = text.last_chunk().expect("a text of more than 64 bytes");
    let State { x, y, z, v, w } = state.with(last, mul, 9);
    let first = hash_len_16(v.0, w.0, mul)
        .wrapping_add(shift_mix(y).wrapping_mul(K0))
        .wrapping_add(z);
    let second = hash_len_16(v.1, w.1, mul).wrapping_add(x);
    hash_len_16(first, second, mul)
}
