//! Element types of tensors.

use std::fmt;

use crate::generated::DataType;

/// Type of the elements of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DType {
    /// 32-bit float.
    F32,
    /// 64-bit float.
    F64,
    /// 32-bit signed integer.
    I32,
    /// 64-bit signed integer.
    I64,
    /// 8-bit unsigned integer.
    U8,
    /// One byte per element; 0 is false.
    Bool,
    /// The upper half of a 32-bit float.
    Bf16,
    /// IEEE 754 half precision.
    F16,
    /// Byte strings of any length.
    String,
    /// A type that can be listed but not read, with its number in TensorFlow's `DataType`.
    Other(i32),
}

impl DType {
    /// Returns whether the type is a floating-point type, which [`crate::tensor_bundle::Bundle::read_f32_rows`] can read.
    pub fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64 | Self::Bf16 | Self::F16)
    }

    /// Converts a number of TensorFlow's `DataType` (`tensorflow/core/framework/types.proto`).
    pub(crate) fn from_number(number: i32) -> Self {
        match DataType::try_from(number) {
            Ok(DataType::DtFloat) => Self::F32,
            Ok(DataType::DtDouble) => Self::F64,
            Ok(DataType::DtInt32) => Self::I32,
            Ok(DataType::DtUint8) => Self::U8,
            Ok(DataType::DtString) => Self::String,
            Ok(DataType::DtInt64) => Self::I64,
            Ok(DataType::DtBool) => Self::Bool,
            Ok(DataType::DtBfloat16) => Self::Bf16,
            Ok(DataType::DtHalf) => Self::F16,
            // No variable of Estimator has another type.
            _ => Self::Other(number),
        }
    }

    /// Returns the bytes of an element in a data file, if all elements have the same known size.
    pub(crate) fn width(self) -> Option<usize> {
        match self {
            Self::U8 | Self::Bool => Some(1),
            Self::Bf16 | Self::F16 => Some(2),
            Self::F32 | Self::I32 => Some(4),
            Self::F64 | Self::I64 => Some(8),
            Self::String | Self::Other(_) => None,
        }
    }
}

/// Writes TensorFlow's name of the type, such as `float32`.
impl fmt::Display for DType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::F32 => "float32",
            Self::F64 => "float64",
            Self::I32 => "int32",
            Self::I64 => "int64",
            Self::U8 => "uint8",
            Self::Bool => "bool",
            Self::Bf16 => "bfloat16",
            Self::F16 => "float16",
            Self::String => "string",
            Self::Other(number) => return write!(formatter, "DataType {number}"),
        };
        formatter.write_str(name)
    }
}

/// Returns the value of a bfloat16, exactly.
pub fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Returns the value of an IEEE 754 binary16, exactly.
pub fn f16_to_f32(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let exponent = u32::from(bits >> 10) & 0x1f;
    let fraction = u32::from(bits & 0x3ff);
    match exponent {
        0 => {
            // Zero or subnormal: a multiple of 2^-24, which f32 holds exactly.
            let size = fraction as f32 * f32::from_bits((127 - 24) << 23);
            f32::from_bits(sign | size.to_bits())
        }
        31 => f32::from_bits(sign | 0x7f80_0000 | fraction << 13),
        _ => f32::from_bits(sign | (exponent + 127 - 15) << 23 | fraction << 13),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_is_its_definition() {
        for bits in 0..=u16::MAX {
            let exponent = i32::from(bits >> 10 & 0x1f);
            let fraction = f64::from(bits & 0x3ff);
            let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
            let value = f16_to_f32(bits);
            assert_eq!(value.is_sign_negative(), bits & 0x8000 != 0, "{bits:04x}");
            match exponent {
                31 if fraction == 0.0 => assert_eq!(f64::from(value), sign * f64::INFINITY),
                31 => assert!(value.is_nan()),
                0 => assert_eq!(
                    f64::from(value),
                    sign * fraction * 2_f64.powi(-24),
                    "{bits:04x}"
                ),
                _ => assert_eq!(
                    f64::from(value),
                    sign * (1.0 + fraction / 1024.0) * 2_f64.powi(exponent - 15),
                    "{bits:04x}"
                ),
            }
        }
    }

    #[test]
    fn a_bfloat16_is_the_upper_half_of_a_float() {
        assert_eq!(bf16_to_f32(0x3fc0), 1.5);
        assert_eq!(bf16_to_f32(0xc010), -2.25);
    }
}
