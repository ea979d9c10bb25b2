//! Payloads: rows, ids and values in pieces of any lengths.

use bytes::Bytes;
use trainyard_protocol::payload::{Encoding, Payload, ids, rows};

/// Decodes values in pieces and whole.
pub fn run(data: &[u8]) {
    let Some(([encoding, cut, begin, count], bytes)) = data.split_first_chunk::<4>() else {
        return;
    };
    let _ = (rows(bytes), ids(bytes));
    let encoding =
        [Encoding::Float32, Encoding::Bfloat16, Encoding::Float16][usize::from(encoding % 3)];
    let pieces = bytes
        .chunks(usize::from(*cut).max(1))
        .map(Bytes::copy_from_slice)
        .collect();
    let Ok(payload) = Payload::new(pieces, encoding) else {
        return;
    };
    assert_eq!(payload.values() * encoding.value_bytes(), payload.bytes());
    let _ = payload.not_below(1024.0);
    let begin = usize::from(*begin).min(payload.values());
    let mut out = vec![0.0; usize::from(*count).min(payload.values() - begin)];
    payload.read(begin, &mut out);
    // In one piece it is the same.
    let whole =
        Payload::new(vec![Bytes::copy_from_slice(bytes)], encoding).expect("the same length");
    let mut again = vec![0.0; out.len()];
    whole.read(begin, &mut again);
    assert!(
        out.iter()
            .zip(&again)
            .all(|(one, other)| one.to_bits() == other.to_bits())
    );
}
