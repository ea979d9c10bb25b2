//! Byte order of the machine that wrote a checkpoint.

use crate::generated::bundle_header_proto::Endianness;

/// Byte order of tensor values, and of string lengths in checksums. All other data is always little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    /// Parses `BundleHeaderProto.Endianness`.
    pub(crate) fn from_header(value: i32) -> Option<Self> {
        match Endianness::try_from(value).ok()? {
            Endianness::Little => Some(Self::Little),
            Endianness::Big => Some(Self::Big),
        }
    }

    pub(crate) fn read_u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Self::Little => u16::from_le_bytes(bytes),
            Self::Big => u16::from_be_bytes(bytes),
        }
    }

    pub(crate) fn read_u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(bytes),
            Self::Big => u32::from_be_bytes(bytes),
        }
    }

    pub(crate) fn read_u64(self, bytes: [u8; 8]) -> u64 {
        match self {
            Self::Little => u64::from_le_bytes(bytes),
            Self::Big => u64::from_be_bytes(bytes),
        }
    }

    pub(crate) fn write_u32(self, value: u32) -> [u8; 4] {
        match self {
            Self::Little => value.to_le_bytes(),
            Self::Big => value.to_be_bytes(),
        }
    }
}
