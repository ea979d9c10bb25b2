//! Record index: the locations of the runs of records. A run is `batch_size` consecutive records, across all files.

use std::num::NonZeroU32;

use crate::FileRange;

/// The locations of all records known so far, in runs. Run `i` begins at record `i * batch_size` of the concatenated
/// files. So all runs but the last are full, and a run that crosses the end of a file has several ranges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordIndex {
    batch_size: NonZeroU32,
    /// File ranges of the runs. No range crosses the end of a run, and a file without records has no range.
    ranges: Vec<FileRange>,
    /// Number of records before each file that was begun.
    before: Vec<u64>,
    rows: u64,
    complete: bool,
}

impl RecordIndex {
    pub(crate) fn new(batch_size: NonZeroU32) -> Self {
        Self {
            batch_size,
            ranges: Vec::new(),
            before: Vec::new(),
            rows: 0,
            complete: false,
        }
    }

    /// Returns the number of records of a full run.
    pub fn batch_size(&self) -> NonZeroU32 {
        self.batch_size
    }

    /// Returns whether all files were scanned to their ends.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Returns the number of records known so far. Once the index is complete, it is the number of records of a pass.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the number of runs known so far. The last run counts if it is full or if the index is complete.
    pub fn runs(&self) -> u64 {
        let size = u64::from(self.batch_size.get());
        if self.complete {
            self.rows.div_ceil(size)
        } else {
            self.rows / size
        }
    }

    /// Returns the number of records of a run, 0 if the run is not known.
    pub(crate) fn run_rows(&self, run: u64) -> u32 {
        if run >= self.runs() {
            return 0;
        }
        let size = u64::from(self.batch_size.get());
        // The cast loses nothing: the number is at most the size of a run.
        (self.rows - run * size).min(size) as u32
    }

    /// Returns the file ranges of a run, none if the run is not known.
    pub fn ranges(&self, run: u64) -> &[FileRange] {
        if run >= self.runs() {
            return &[];
        }
        let begin = self.ranges.partition_point(|range| self.run(range) < run);
        let count = self.ranges[begin..]
            .iter()
            .take_while(|range| self.run(range) == run)
            .count();
        &self.ranges[begin..begin + count]
    }

    fn run(&self, range: &FileRange) -> u64 {
        (self.before[range.file as usize] + range.record) / u64::from(self.batch_size.get())
    }

    pub(crate) fn begin_file(&mut self) {
        self.before.push(self.rows);
    }

    /// Adds the next record of the file that was begun last.
    #[inline]
    pub(crate) fn add(&mut self, line: u64, offset: u64, end: u64) {
        let border = self.rows.is_multiple_of(u64::from(self.batch_size.get()));
        let file = self.before.len() - 1;
        self.rows += 1;
        match self.ranges.last_mut() {
            Some(range) if !border && range.file as usize == file => {
                (range.rows, range.bytes) = (range.rows + 1, end - range.offset);
            }
            _ => {
                let record = self.rows - 1 - self.before[file];
                let bytes = end - offset;
                self.ranges.push(FileRange {
                    file: file as u32,
                    rows: 1,
                    record,
                    line,
                    offset,
                    bytes,
                });
            }
        }
    }

    pub(crate) fn complete(&mut self) {
        self.complete = true;
    }
}
