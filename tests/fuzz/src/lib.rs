//! What fuzz targets share: folders in memory, and inputs that are made of several parts.

use std::path::PathBuf;

use trainyard_input::{Compression, Dataset, FieldKind, Format, Options, Schema};

/// Returns a folder of this process, in memory where there is such a place.
pub fn scratch(name: &str) -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    let root = if memory.is_dir() { memory } else { std::env::temp_dir() };
    let folder = root.join(format!("trainyard-fuzz-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// Cuts an input in two, at the place that its first two bytes say.
pub fn two(data: &[u8]) -> (&[u8], &[u8]) {
    let Some((head, rest)) = data.split_first_chunk::<2>() else { return (&[], &[]) };
    rest.split_at(usize::from(u16::from_le_bytes(*head)).min(rest.len()))
}

/// Takes numbers out of an input, and zeros behind its end.
#[derive(Debug)]
pub struct Numbers<'a>(pub &'a [u8]);

impl Numbers<'_> {
    /// Returns whether there is nothing left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the next byte.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// Returns a number below `most`, which is at most 256.
    pub fn below(&mut self, most: usize) -> usize {
        usize::from(self.byte()) % most.max(1)
    }

    /// Returns a number, mostly a small one, sometimes one near an end of the range.
    pub fn wide(&mut self) -> u64 {
        let (kind, small) = (self.byte(), u64::from(self.byte()));
        match kind % 8 {
            0 => u64::MAX - small,
            1 => small << 56,
            2 => (1 << 24) - 128 + small,
            _ => small,
        }
    }

    /// Returns so many of the next bytes, or what is left.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken.to_vec()
    }
}

/// Reads a file as training data, as `variant` says: which bad rows are left out, how it is compressed, how it is shuffled.
pub fn read_rows(name: &str, format: Format, variant: u8, bytes: &[u8]) {
    let folder = scratch(name);
    let path = folder.join("rows");
    std::fs::write(&path, bytes).expect("a file");
    let mut schema = Schema::default();
    schema.want("a", FieldKind::Float { width: 1, separator: None, default: Some(vec![0.0]) });
    schema.want("b", FieldKind::INT);
    schema.want("b", FieldKind::Int { separator: Some(b'|'), truncate: true });
    schema.want("c", FieldKind::BYTES);
    schema.want("c", FieldKind::Bytes { separator: Some(b'|') });
    schema.want("a", FieldKind::Floats { separator: b'|' });
    let compression = [Compression::None, Compression::None, Compression::Gzip, Compression::Zlib];
    let options = Options { compression: Some(compression[usize::from(variant & 3)]), trim: variant & 4 == 0, missing: vec!["NA".to_owned()], bad_rows: if variant & 8 == 0 { BadRows::Skip } else { BadRows::Fail }, bad_rows_max: 50, batch_size: 3, drop_remainder: variant & 16 != 0, shuffle_rows: if variant & 32 == 0 { 0 } else { 5 }, seed: 11, skip_batches: u64::from(variant >> 7), ..Options::new(vec![path], format) };
    let Ok(dataset) = Dataset::open(options, schema) else { return };
    for batch in dataset {
        let Ok(batch) = batch else { return };
        assert!(batch.rows > 0 && batch.rows <= 3);
        for column in &batch.columns {
            column.rows(batch.rows).for_each(|place| assert!(place.end <= column.cells.len()));
        }
    }
}
