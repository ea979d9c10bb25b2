//! Reading of values.

use std::ops::Range;

use crate::tensor_bundle::bundle::Bundle;
use crate::tensor_bundle::dtype::{bf16_to_f32, f16_to_f32};
use crate::tensor_bundle::error::shown;
use crate::tensor_bundle::piece::Piece;
use crate::tensor_bundle::stored::Stored;
use crate::tensor_bundle::strings::{self, STRING_TENSOR_BYTES_MAX, STRINGS_MAX};
use crate::tensor_bundle::{DType, Error, Tensor, Values};

/// Longest missing name that is compared with existing names, in bytes: the work grows with the square of the length.
const NEAR_BYTES_MAX: usize = 256;

impl Bundle {
    /// Reads a whole tensor, and compares it with its checksums.
    ///
    /// # Errors
    /// No tensor has that name, its type cannot be read ([`DType::Other`], strings in slices), its bytes cannot be
    /// read, or its bytes differ from those that were written.
    pub fn read(&self, name: &str) -> Result<Tensor, Error> {
        let stored = self.stored(name)?;
        let order = self.order;
        let values = match stored.info.dtype {
            DType::F32 => {
                Values::F32(self.whole(stored, |bytes| f32::from_bits(order.read_u32(bytes)))?)
            }
            DType::F64 => {
                Values::F64(self.whole(stored, |bytes| f64::from_bits(order.read_u64(bytes)))?)
            }
            DType::I32 => {
                Values::I32(self.whole(stored, |bytes| order.read_u32(bytes).cast_signed())?)
            }
            DType::I64 => {
                Values::I64(self.whole(stored, |bytes| order.read_u64(bytes).cast_signed())?)
            }
            DType::U8 => Values::U8(self.whole(stored, |[byte]| byte)?),
            DType::Bool => Values::Bool(self.whole(stored, |[byte]| byte != 0)?),
            DType::Bf16 => {
                Values::Bf16(self.whole(stored, |bytes| bf16_to_f32(order.read_u16(bytes)))?)
            }
            DType::F16 => {
                Values::F16(self.whole(stored, |bytes| f16_to_f32(order.read_u16(bytes)))?)
            }
            DType::String => Values::Strings(self.strings(stored)?),
            DType::Other(_) => return Err(self.unreadable(stored, "numbers, bool and string")),
        };
        Ok(Tensor {
            info: stored.info.clone(),
            values,
        })
    }

    /// Reads rows of a tensor of floats as `f32` into `out`, whose length is that of the rows. A row is one step of the
    /// first dimension; a scalar is one row of one element. `float64` is rounded to the nearest `f32`.
    ///
    /// The first read of a tensor or slice reads all of it and compares it with its checksum. Later reads read only the
    /// rows, so that a large table can be read in parts. After an error the elements of `out` are unspecified.
    ///
    /// # Errors
    /// As [`Bundle::read`]; the rows exceed the tensor, `out` has another length, or the type is not a floating-point
    /// type.
    pub fn read_f32_rows(
        &self,
        name: &str,
        rows: Range<usize>,
        out: &mut [f32],
    ) -> Result<(), Error> {
        let stored = self.stored(name)?;
        let all = stored.info.rows();
        let row_width = stored.info.row_width();
        let fits = rows.start <= rows.end && rows.end <= all;
        if !fits || (rows.end - rows.start).checked_mul(row_width) != Some(out.len()) {
            return Err(Error::Rows {
                tensor: name.to_owned(),
                begin: rows.start,
                end: rows.end,
                rows: all,
                row_width,
                room: out.len(),
            });
        }
        let order = self.order;
        match stored.info.dtype {
            DType::F32 => self.fill(stored, &rows, out, |bytes| {
                f32::from_bits(order.read_u32(bytes))
            }),
            DType::F64 => self.fill(stored, &rows, out, |bytes| {
                f64::from_bits(order.read_u64(bytes)) as f32
            }),
            DType::Bf16 => self.fill(stored, &rows, out, |bytes| {
                bf16_to_f32(order.read_u16(bytes))
            }),
            DType::F16 => self.fill(stored, &rows, out, |bytes| {
                f16_to_f32(order.read_u16(bytes))
            }),
            _ => Err(self.unreadable(stored, "float32, float64, bfloat16 and float16 here")),
        }
    }

    fn stored(&self, name: &str) -> Result<&Stored, Error> {
        self.tensors.get(name).ok_or_else(|| {
            let names = self
                .tensors
                .keys()
                .map(String::as_str)
                .filter(|name| name.len() <= NEAR_BYTES_MAX);
            let near = trainyard_diagnostic::suggest(name, names);
            Error::Absent {
                path: self.index.clone(),
                tensor: name.to_owned(),
                near: near.map(str::to_owned),
            }
        })
    }

    fn unreadable(&self, stored: &Stored, read: &str) -> Error {
        let info = &stored.info;
        let slices = match info.slices {
            0 => String::new(),
            slices => format!(" in {slices} slices"),
        };
        let what = format!(
            "tensor `{}` is {}{slices}, read are {read}",
            shown(&info.name),
            info.dtype
        );
        Error::unsupported(&self.index, what)
    }

    /// Reads all elements. Their number does not exceed the bytes of the data files.
    fn whole<const N: usize, T: Default + Clone>(
        &self,
        stored: &Stored,
        decode: impl Fn([u8; N]) -> T,
    ) -> Result<Vec<T>, Error> {
        let mut out = vec![T::default(); stored.elements];
        self.fill(stored, &(0..stored.info.rows()), &mut out, decode)?;
        Ok(out)
    }

    /// Reads elements of `N` bytes from all pieces that hold one of the rows.
    fn fill<const N: usize, T>(
        &self,
        stored: &Stored,
        rows: &Range<usize>,
        out: &mut [T],
        decode: impl Fn([u8; N]) -> T,
    ) -> Result<(), Error> {
        let first = rows.start.saturating_mul(stored.info.row_width());
        for piece in &stored.pieces {
            let wanted = piece.region.elements_of(rows);
            if wanted.is_empty() && piece.bytes > 0 {
                continue;
            }
            let bytes = (wanted.start * N) as u64..(wanted.end * N) as u64;
            let Some(shard) = self.shards.get(piece.shard) else {
                continue;
            };
            shard.stream(&stored.info, piece, bytes, |place, bytes| {
                let (values, _) = bytes.as_chunks();
                let elements = PieceElements {
                    piece,
                    first: place as usize / N,
                    values,
                };
                let rows = Rows {
                    first,
                    elements: &mut *out,
                };
                scatter(stored, elements, rows, &decode);
            })?;
        }
        Ok(())
    }

    fn strings(&self, stored: &Stored) -> Result<Vec<Vec<u8>>, Error> {
        let [piece] = stored.pieces.as_slice() else {
            return Err(self.unreadable(stored, "strings in one piece"));
        };
        let Some(shard) = self.shards.get(piece.shard) else {
            return Ok(Vec::new());
        };
        let name = &stored.info.name;
        let limit = |what: &str, found, max| {
            Error::check_limit(
                &shard.path,
                &format!("the {what} of tensor `{}`", shown(name)),
                found,
                max,
            )
        };
        limit("size in bytes", piece.bytes, STRING_TENSOR_BYTES_MAX)?;
        limit("number of strings", stored.elements as u64, STRINGS_MAX)?;
        let bytes = shard.bytes_of(piece)?;
        let decoded = strings::decode(&bytes, stored.elements, self.order).map_err(|what| {
            let what = format!("tensor `{}` at byte {}: {what}", shown(name), piece.offset);
            Error::damaged(&shard.path, what)
        })?;
        shard.compare(&stored.info, piece, decoded.crc32c)?;
        Ok(decoded.strings)
    }
}

/// Consecutive elements of a piece.
struct PieceElements<'a, const N: usize> {
    piece: &'a Piece,
    /// Number of the first element in the piece.
    first: usize,
    values: &'a [[u8; N]],
}

/// Rows of a tensor that are read.
struct Rows<'a, T> {
    /// Number of the first element in the tensor.
    first: usize,
    elements: &'a mut [T],
}

/// Copies elements of a piece to their positions in the rows.
fn scatter<const N: usize, T>(
    stored: &Stored,
    from: PieceElements<'_, N>,
    rows: Rows<'_, T>,
    decode: &impl Fn([u8; N]) -> T,
) {
    let PieceElements {
        piece,
        first: mut element,
        mut values,
    } = from;
    let Rows {
        first,
        elements: out,
    } = rows;
    while !values.is_empty() {
        let run = piece
            .region
            .run(&stored.info.shape, &stored.strides, element);
        let Some((now, later)) = values.split_at_checked(run.length.min(values.len())) else {
            return;
        };
        let begin = run.place.saturating_sub(first);
        let places = out.get_mut(begin..begin + now.len()).unwrap_or_default();
        places
            .iter_mut()
            .zip(now)
            .for_each(|(place, value)| *place = decode(*value));
        (values, element) = (later, element + now.len());
    }
}
