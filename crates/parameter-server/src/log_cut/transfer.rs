//! A whole cut on its way from a primary to its backup, record by record.

use std::io;

use bytes::Bytes;
use prost::Message as _;
use trainyard_protocol::v1;
use trainyard_write_ahead_log::Origin;

use super::file::{Cut, END, HEAD, front};
pub use super::file::{CutError, CutFile};
use super::folders::{CutFolders, CutPlace};

/// A cut that is being sent.
#[derive(Debug)]
pub struct SentCut {
    file: CutFile,
    state: Sent,
}

/// The part of a cut that has been sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    Nothing,
    Head,
    Everything,
}

impl SentCut {
    /// Returns the cut from which a segment goes on, if it is whole; `None` if it is not, or does not exist.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    pub(crate) fn open(
        folders: &CutFolders,
        origin: Origin,
        segment: u64,
    ) -> Result<Option<Self>, CutError> {
        let cut = CutFile::open(folders, origin, segment)?;
        let whole = cut.filter(|cut| cut.head.whole);
        Ok(whole.map(|file| Self {
            file,
            state: Sent::Nothing,
        }))
    }
}

impl Iterator for SentCut {
    type Item = Result<(u16, Bytes), CutError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.state {
            Sent::Nothing => {
                self.state = Sent::Head;
                Some(Ok((HEAD, front(&self.file.head).into())))
            }
            Sent::Head => {
                let record = match self.file.next() {
                    Ok(record) => record,
                    Err(error) => {
                        self.state = Sent::Everything;
                        return Some(Err(error));
                    }
                };
                if record.kind == END {
                    self.state = Sent::Everything;
                }
                Some(Ok((record.kind, record.body)))
            }
            Sent::Everything => None,
        }
    }
}

/// A cut that is being received. It becomes a cut of the receiver's own log.
///
/// It lies on the disk: it is written once for each stream of the primary, and a later cut replaces it.
#[derive(Debug)]
pub struct ReceivedCut {
    file: Cut,
    head: Option<v1::CutHead>,
    origin: Origin,
    segment: u64,
}

/// The part of a cut that has been received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// Records are missing.
    Part,
    /// Everything.
    Whole,
}

impl ReceivedCut {
    /// Begins the file of the cut from which `segment` of the receiver's log goes on.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn begin(folders: &CutFolders, origin: Origin, segment: u64) -> io::Result<Self> {
        let file = folders.create_in(CutPlace::Disk, segment, 0)?;
        Ok(Self {
            file: Cut::begin(file, origin, segment)?,
            head: None,
            origin,
            segment,
        })
    }

    /// Writes the next record.
    ///
    /// # Errors
    /// The file cannot be written, or the first record is not the head of a whole cut.
    pub fn add(&mut self, kind: u16, body: &[u8]) -> Result<Received, String> {
        if self.head.is_some() {
            let written = self.file.add_body(kind, body);
            written.map_err(|error| error.to_string())?;
            return Ok(if kind == END {
                Received::Whole
            } else {
                Received::Part
            });
        }
        let message = body.get(4..).filter(|_| kind == HEAD);
        let head = message.and_then(|message| v1::CutHead::decode(message).ok());
        let head = head
            .filter(|head| head.whole)
            .ok_or("the first record is not the head of a whole cut")?;
        let head = v1::CutHead {
            segment: self.segment,
            checkpoints: Vec::new(),
            ..head
        };
        let written = self.file.add_body(HEAD, &front(&head));
        written.map_err(|error| error.to_string())?;
        self.head = Some(head);
        Ok(Received::Part)
    }

    /// Ends the file of a cut of which everything has been received. Returns its head, its size in bytes, and its origin.
    pub(crate) fn finish(self) -> io::Result<(v1::CutHead, u64, Origin)> {
        let head = self.head.unwrap_or_default();
        Ok((head, self.file.finish()?, self.origin))
    }
}
