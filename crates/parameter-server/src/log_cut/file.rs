//! The file of a cut of the log: the rows that it holds, as records.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter};
use std::path::PathBuf;

use bytes::Bytes;
use trainyard_parameter_store::{
    CutRows, SliceValues, Snapshot, SnapshotSlice, SnapshotTable, Store,
};
use trainyard_protocol::payload::float_bytes;
use trainyard_protocol::v1;
use trainyard_variable::{Candidate, DynamicRows, FirstRows, Idle};
use trainyard_write_ahead_log::{Next, Origin, Reader, Record, RecordWriter, SegmentHeader, boot};

use super::folders::{CutFolders, UnfinishedCut};

/// Kinds of records.
pub(super) const HEAD: u16 = 1;
const ROWS: u16 = 2;
const TABLE: u16 = 3;
const TABLE_ROWS: u16 = 4;
pub(super) const END: u16 = 5;

/// Bytes of a read or write.
const BUFFER_BYTES: usize = 1 << 20;

/// Reason why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CutError {
    /// The file cannot be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file is damaged.
    #[error("{0}")]
    Damaged(String),
}

/// Returns a message, preceded by its length.
pub(super) fn front(message: &impl prost::Message) -> Vec<u8> {
    let mut front = Vec::with_capacity(4 + message.encoded_len());
    front.extend((message.encoded_len() as u32).to_le_bytes());
    // A vector grows as it is written to.
    let _ = message.encode(&mut front);
    front
}

/// Writes the file of a cut of about `bytes` bytes, whole or not at all. Returns its size in bytes.
///
/// The file has its place before the snapshot is read, because reading spends the snapshot.
///
/// # Errors
/// The file cannot be written. The snapshot is spent, so the next cut must be whole.
pub(crate) fn write(
    folders: &CutFolders,
    origin: Origin,
    mut head: v1::CutHead,
    snapshot: Snapshot,
    bytes: u64,
) -> io::Result<u64> {
    let file = folders.create(head.segment, bytes)?;
    if head.whole {
        let slices = snapshot.slices.iter();
        let slices = slices.map(|slice| (&slice.variable, slice.first_rows()));
        let tables = snapshot.tables.iter();
        let tables = tables.map(|table| (&table.variable, table.first_rows()));
        let rules = slices
            .chain(tables)
            .map(|rule| serde_json::to_string(&rule));
        head.initial_rows = rules.collect::<Result<_, _>>()?;
    }
    head.version = snapshot.version;
    head.seconds = snapshot.secs;
    let mut out = Cut::begin(file, origin, head.segment)?;
    out.add(HEAD, &head, &[])?;
    for slice in snapshot.slices {
        out.add_slice(slice)?;
    }
    for table in snapshot.tables {
        out.add_table(table)?;
    }
    let records = out.records;
    out.add(END, &v1::CutEnd { records }, &[])?;
    out.finish()
}

/// A file that is being written.
#[derive(Debug)]
pub(super) struct Cut {
    out: RecordWriter<BufWriter<UnfinishedCut>>,
    records: u64,
}

impl Cut {
    /// Begins the file of the cut from which a segment goes on.
    pub(super) fn begin(file: UnfinishedCut, origin: Origin, segment: u64) -> io::Result<Self> {
        let header = SegmentHeader {
            origin,
            number: segment,
            boot: boot(),
            part: 0,
            previous_bytes: 0,
        };
        let out = BufWriter::with_capacity(BUFFER_BYTES, file);
        Ok(Self {
            out: RecordWriter::new(out, &header)?,
            records: 0,
        })
    }

    /// Ends the file, and gives it its name. Returns its size in bytes.
    pub(super) fn finish(self) -> io::Result<u64> {
        let (out, bytes) = self.out.finish()?;
        let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.finish(bytes)?;
        Ok(bytes)
    }

    /// Adds the body of a record.
    pub(super) fn add_body(&mut self, kind: u16, body: &[u8]) -> io::Result<()> {
        self.records += 1;
        self.out.write(kind, &[body])
    }

    fn add(
        &mut self,
        kind: u16,
        message: &impl prost::Message,
        parts: &[&[f32]],
    ) -> io::Result<()> {
        self.records += 1;
        let front = front(message);
        let parts = parts.iter().map(|part| float_bytes(part));
        let parts: Vec<&[u8]> = std::iter::once(&front[..]).chain(parts).collect();
        self.out.write(kind, &parts)
    }

    fn add_slice(&mut self, slice: SnapshotSlice) -> io::Result<()> {
        let mut held = slice.held().into_iter();
        let mut run = held.next();
        let mut stripe = SliceValues::default();
        let number = slice.number;
        let width = slice.width;
        let mut stripes = slice.into_rows();
        while stripes.next(&mut stripe) {
            let mut rows = stripe.values.len().checked_div(width).unwrap_or(0);
            if rows == 0 {
                continue;
            }
            let mut message = v1::CutRows {
                slice: number,
                runs: Vec::new(),
                slots: stripe.slots.len() as u32,
            };
            while rows > 0
                && let Some(rest) = &mut run
            {
                let here = rest.len().min(rows);
                message.runs.extend([rest.start as u32, here as u32]);
                rest.start += here;
                rows -= here;
                if rest.start == rest.end {
                    run = held.next();
                }
            }
            let parts = std::iter::once(&stripe.values).chain(&stripe.slots);
            let parts: Vec<&[f32]> = parts.map(Vec::as_slice).collect();
            self.add(ROWS, &message, &parts)?;
        }
        Ok(())
    }

    fn add_table(&mut self, table: SnapshotTable) -> io::Result<()> {
        let gone = table.gone();
        let number = table.number;
        let message = v1::CutTable {
            slice: number,
            whole: gone.is_none(),
            gone: gone.unwrap_or_default(),
        };
        self.add(TABLE, &message, &[])?;
        table.into_rows().read(&mut |lot: DynamicRows| {
            let message = v1::CutTableRows {
                slice: number,
                idle_pushes: lot.idle.iter().map(|idle| idle.pushes).collect(),
                idle_seconds: lot.idle.iter().map(|idle| idle.secs).collect(),
                slots: lot.slots.len() as u32,
                candidates: lot
                    .candidates
                    .iter()
                    .map(|candidate| v1::CutCandidate {
                        id: candidate.id,
                        idle_pushes: candidate.idle.pushes,
                        idle_seconds: candidate.idle.secs,
                        occurrences: candidate.occurrences,
                    })
                    .collect(),
                ids: lot.ids,
            };
            let parts = std::iter::once(&lot.values).chain(&lot.slots);
            let parts: Vec<&[f32]> = parts.map(Vec::as_slice).collect();
            self.add(TABLE_ROWS, &message, &parts)
        })
    }
}

/// A cut that is being read.
#[derive(Debug)]
pub struct CutFile {
    path: PathBuf,
    /// Size of the file.
    pub(crate) bytes: u64,
    reader: Reader<BufReader<File>>,
    pub(crate) head: v1::CutHead,
}

impl CutFile {
    /// Opens the cut from which a segment goes on; `None` if there is none of this origin and this start of the machine.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    pub(crate) fn open(
        folders: &CutFolders,
        origin: Origin,
        segment: u64,
    ) -> Result<Option<Self>, CutError> {
        let Some((path, file)) = folders.open(segment)? else {
            return Ok(None);
        };
        let bytes = file.metadata()?.len();
        let reader = Reader::new(BufReader::with_capacity(BUFFER_BYTES, file), bytes)?;
        let reader =
            reader.map_err(|what| CutError::Damaged(format!("{}: {what}", path.display())))?;
        let header = reader.header();
        if header.origin != origin || header.number != segment || header.boot != boot() {
            return Ok(None);
        }
        let mut cut = Self {
            path,
            bytes,
            reader,
            head: v1::CutHead::default(),
        };
        let record = cut.next()?;
        let (head, _) = cut.message(&record, HEAD)?;
        cut.head = head;
        Ok(Some(cut))
    }

    /// Returns the rules for the initial values of a whole cut, by variable.
    ///
    /// # Errors
    /// A rule cannot be read.
    pub(crate) fn initial_rows(&self) -> Result<BTreeMap<String, FirstRows>, CutError> {
        let rules = self.head.initial_rows.iter();
        let rules = rules.map(|rule| serde_json::from_str(rule));
        rules
            .collect::<Result<_, _>>()
            .map_err(|error| self.damaged(format!("a rule for initial values: {error}")))
    }

    /// Lays the rows of the cut over the store.
    ///
    /// # Errors
    /// The file cannot be read, is damaged, or does not fit the store.
    pub(crate) fn lay_over(mut self, store: &Store) -> Result<(), CutError> {
        let mut records = 1;
        let mut table: Option<u32> = None;
        loop {
            let record = self.next()?;
            match record.kind {
                ROWS => {
                    let (message, parts): (v1::CutRows, _) = self.message(&record, ROWS)?;
                    let parts = self.parts(&parts, message.slots)?;
                    let mut rows = Vec::new();
                    for run in message.runs.chunks_exact(2) {
                        let end = run[0]
                            .checked_add(run[1])
                            .ok_or_else(|| self.damaged("rows beyond all".into()))?;
                        rows.extend(run[0]..end);
                    }
                    let parts: Vec<&[f32]> = parts.iter().map(Vec::as_slice).collect();
                    let laid = store.lay_over(&CutRows {
                        slice: message.slice,
                        rows: &rows,
                        parts: &parts,
                    });
                    laid.map_err(|error| self.damaged(error.to_string()))?;
                }
                TABLE => {
                    self.end_table(store, table)?;
                    let (message, _): (v1::CutTable, _) = self.message(&record, TABLE)?;
                    let gone = Some(message.gone.as_slice()).filter(|_| !message.whole);
                    let at = (self.head.version, self.head.seconds);
                    store
                        .begin_lay_over_table(message.slice, at, gone)
                        .map_err(|error| self.damaged(error.to_string()))?;
                    table = Some(message.slice);
                }
                TABLE_ROWS => {
                    let (message, parts): (v1::CutTableRows, _) =
                        self.message(&record, TABLE_ROWS)?;
                    let parts = self.parts(&parts, message.slots)?;
                    let slice = message.slice;
                    store
                        .lay_over_table(slice, &rows_of(message, parts))
                        .map_err(|error| self.damaged(error.to_string()))?;
                }
                END => {
                    self.end_table(store, table)?;
                    let (end, _): (v1::CutEnd, _) = self.message(&record, END)?;
                    if end.records != records {
                        return Err(
                            self.damaged(format!("{records} records, expected {}", end.records))
                        );
                    }
                    return Ok(());
                }
                kind => return Err(self.damaged(format!("a record of kind {kind}"))),
            }
            records += 1;
        }
    }

    fn end_table(&self, store: &Store, table: Option<u32>) -> Result<(), CutError> {
        match table {
            Some(table) => store
                .end_lay_over_table(table)
                .map_err(|error| self.damaged(error.to_string())),
            None => Ok(()),
        }
    }

    fn damaged(&self, what: String) -> CutError {
        CutError::Damaged(format!("{}: {what}", self.path.display()))
    }

    /// Reads the next record behind the head.
    pub(super) fn next(&mut self) -> Result<Record, CutError> {
        match self.reader.read()? {
            Next::Record(record) => Ok(record),
            Next::End => Err(self.damaged("it ends before its end".to_owned())),
            Next::Bad(bad) => Err(self.damaged(format!("at byte {}: {}", bad.place, bad.fault))),
        }
    }

    /// Decodes the message of a record. Returns it, and the bytes behind it.
    fn message<M: prost::Message + Default>(
        &self,
        record: &Record,
        kind: u16,
    ) -> Result<(M, Bytes), CutError> {
        let wrong = || {
            self.damaged(format!(
                "at byte {}: a record of kind {kind} that cannot be read",
                record.place
            ))
        };
        let (length, _) = record.body.split_first_chunk::<4>().ok_or_else(wrong)?;
        let end = 4 + u32::from_le_bytes(*length) as usize;
        if record.kind != kind || end > record.body.len() {
            return Err(wrong());
        }
        let message = M::decode(record.body.slice(4..end)).map_err(|_| wrong())?;
        Ok((message, record.body.slice(end..)))
    }

    /// Divides bytes into values and slots.
    fn parts(&self, bytes: &Bytes, slots: u32) -> Result<Vec<Vec<f32>>, CutError> {
        let count = 1 + slots as usize;
        let length = bytes.len() / count;
        if length * count != bytes.len() || !length.is_multiple_of(4) {
            return Err(self.damaged(format!("{} bytes of {count} parts", bytes.len())));
        }
        let part = |place: usize| {
            let bytes = &bytes[place * length..][..length];
            let floats = bytes.as_chunks::<4>().0;
            floats
                .iter()
                .map(|bytes| f32::from_le_bytes(*bytes))
                .collect()
        };
        Ok((0..count).map(part).collect())
    }
}

fn rows_of(message: v1::CutTableRows, mut parts: Vec<Vec<f32>>) -> DynamicRows {
    let idle = |(pushes, secs): (&u64, &u64)| Idle {
        pushes: *pushes,
        secs: *secs,
    };
    let idles = message.idle_pushes.iter().zip(&message.idle_seconds);
    let candidate = |candidate: &v1::CutCandidate| Candidate {
        id: candidate.id,
        idle: idle((&candidate.idle_pushes, &candidate.idle_seconds)),
        occurrences: candidate.occurrences,
    };
    DynamicRows {
        idle: idles.map(idle).collect(),
        ids: message.ids,
        candidates: message.candidates.iter().map(candidate).collect(),
        values: parts.remove(0),
        slots: parts,
    }
}
