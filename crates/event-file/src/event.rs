//! One event of a run.

use prost::Message as _;

use crate::Histogram;
use crate::message::{
    Content, EventProto, SessionLog, SourceMetadata, Summary, TensorProto, TensorShape, Value, What,
};

/// What the first record of a file says (`tensorflow/core/util/events_writer.h`).
const VERSION: &str = "brain.Event:2";
/// `SessionLog.START`.
const START: i32 = 1;
/// `SessionLog.CHECKPOINT`.
const CHECKPOINT: i32 = 3;
/// `DT_STRING`.
const STRING: i32 = 7;

/// One event of a run: when, at which global step, and what.
#[derive(Debug, Clone, PartialEq)]
pub struct Event(EventProto);

impl Event {
    fn new(wall_time: f64, step: u64, what: What) -> Self {
        // Steps are counted; none comes near the largest number.
        let step = i64::try_from(step).unwrap_or(i64::MAX);
        Self(EventProto {
            wall_time,
            step,
            what: Some(what),
            source_metadata: None,
        })
    }

    fn summary(wall_time: f64, step: u64, value: Vec<Value>) -> Self {
        Self::new(wall_time, step, What::Summary(Summary { value }))
    }

    /// Returns the first record of a file. `wall_time` is in seconds since 1970, here as everywhere.
    pub fn version(wall_time: f64) -> Self {
        let mut event = Self::new(wall_time, 0, What::FileVersion(VERSION.to_owned()));
        event.0.source_metadata = Some(SourceMetadata {
            writer: format!("trainyard {}", env!("CARGO_PKG_VERSION")),
        });
        event
    }

    /// Returns that a program begins to train at `step`: what another wrote of this step and later ones counts no more.
    pub fn started(wall_time: f64, step: u64) -> Self {
        let log = SessionLog {
            status: START,
            checkpoint_path: String::new(),
        };
        Self::new(wall_time, step, What::SessionLog(log))
    }

    /// Returns that a checkpoint of `step` was written; `path` is that of all of them, without the step.
    pub fn checkpoint(wall_time: f64, step: u64, path: String) -> Self {
        Self::new(
            wall_time,
            step,
            What::SessionLog(SessionLog {
                status: CHECKPOINT,
                checkpoint_path: path,
            }),
        )
    }

    /// Returns values by tag.
    pub fn scalars<'a>(
        wall_time: f64,
        step: u64,
        values: impl IntoIterator<Item = (&'a str, f32)>,
    ) -> Self {
        let value = |(tag, value): (&str, f32)| Value {
            tag: tag.to_owned(),
            content: Some(Content::Simple(value)),
        };
        Self::summary(wall_time, step, values.into_iter().map(value).collect())
    }

    /// Returns a text, as a tensor without dimensions.
    pub fn text(wall_time: f64, step: u64, tag: &str, text: String) -> Self {
        let tensor = TensorProto {
            dtype: STRING,
            tensor_shape: Some(TensorShape {}),
            string_val: vec![text.into_bytes()],
        };
        let value = Value {
            tag: tag.to_owned(),
            content: Some(Content::Tensor(tensor)),
        };
        Self::summary(wall_time, step, vec![value])
    }

    /// Returns how the values of something are distributed.
    pub fn histogram(wall_time: f64, step: u64, tag: &str, histogram: &Histogram) -> Self {
        let value = Value {
            tag: tag.to_owned(),
            content: Some(Content::Histogram(histogram.to_proto())),
        };
        Self::summary(wall_time, step, vec![value])
    }

    /// Returns the bytes of the message, without a frame.
    pub fn encode(&self) -> Vec<u8> {
        self.0.encode_to_vec()
    }
}
