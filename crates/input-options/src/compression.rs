//! Compression of files (`compression_type` of `tf.data.TFRecordDataset`).

use std::path::Path;

use serde::Serialize;

/// Compression of a whole file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    /// No compression.
    None,
    /// Gzip (RFC 1952), of one or more members.
    Gzip,
    /// Zlib (RFC 1950).
    Zlib,
}

impl Compression {
    /// Every compression with its name in a job file.
    pub const NAMES: [(&'static str, Self); 3] = [
        ("none", Self::None),
        ("gzip", Self::Gzip),
        ("zlib", Self::Zlib),
    ];

    /// Returns the compression by the extension of a file's name: `.gz` and `.gzip`, `.zz` and `.zlib`, otherwise none.
    pub fn of(file: &Path) -> Self {
        match file.extension().and_then(|ending| ending.to_str()) {
            Some("gz" | "gzip") => Self::Gzip,
            Some("zz" | "zlib") => Self::Zlib,
            _ => Self::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_says_the_compression() {
        let of = |file: &str| Compression::of(file.as_ref());
        assert_eq!(of("part-0.tfrecord.gz"), Compression::Gzip);
        assert_eq!(of("part-0.zlib"), Compression::Zlib);
        assert_eq!(of("part-0.tfrecord"), Compression::None);
    }
}
