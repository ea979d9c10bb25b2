//! One event of a run.

use prost::Message as _;

use crate::event_file::Histogram;
use crate::generated::event::What;
use crate::generated::session_log::SessionStatus;
use crate::generated::summary::{Value, value};
use crate::generated::{
    DataType, Event as EventProto, SessionLog, SourceMetadata, Summary, TensorProto,
    TensorShapeProto,
};

/// Content of the first record of a file (`tensorflow/core/util/events_writer.h`).
const VERSION: &str = "brain.Event:2";

/// One event of a run: its time, its global step and its content.
#[derive(Debug, Clone, PartialEq)]
pub struct Event(EventProto);

impl Event {
    fn new(wall_time: f64, step: u64, what: What) -> Self {
        // Steps never reach the largest `i64`.
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

    /// Returns the first record of a file. All `wall_time` arguments are in seconds since 1970.
    pub fn version(wall_time: f64) -> Self {
        let mut event = Self::new(wall_time, 0, What::FileVersion(VERSION.to_owned()));
        event.0.source_metadata = Some(SourceMetadata {
            writer: format!("trainyard {}", env!("CARGO_PKG_VERSION")),
        });
        event
    }

    /// Returns the event of a program that starts to train at `step`. It invalidates earlier events of this step and
    /// later steps.
    pub fn started(wall_time: f64, step: u64) -> Self {
        let log = SessionLog {
            status: SessionStatus::Start.into(),
            checkpoint_path: String::new(),
        };
        Self::new(wall_time, step, What::SessionLog(log))
    }

    /// Returns the event of a written checkpoint of `step`. `path` is the common prefix of all checkpoints, without the
    /// step.
    pub fn checkpoint(wall_time: f64, step: u64, path: String) -> Self {
        Self::new(
            wall_time,
            step,
            What::SessionLog(SessionLog {
                status: SessionStatus::Checkpoint.into(),
                checkpoint_path: path,
            }),
        )
    }

    /// Returns an event with scalars by tag.
    pub fn scalars<'a>(
        wall_time: f64,
        step: u64,
        values: impl IntoIterator<Item = (&'a str, f32)>,
    ) -> Self {
        let scalar = |(tag, number): (&str, f32)| Value {
            tag: tag.to_owned(),
            value: Some(value::Value::SimpleValue(number)),
        };
        Self::summary(wall_time, step, values.into_iter().map(scalar).collect())
    }

    /// Returns an event with a text, as a tensor without dimensions.
    pub fn text(wall_time: f64, step: u64, tag: &str, text: String) -> Self {
        let tensor = TensorProto {
            dtype: DataType::DtString.into(),
            tensor_shape: Some(TensorShapeProto::default()),
            string_val: vec![text.into_bytes()],
            ..TensorProto::default()
        };
        let value = Value {
            tag: tag.to_owned(),
            value: Some(value::Value::Tensor(tensor)),
        };
        Self::summary(wall_time, step, vec![value])
    }

    /// Returns an event with a histogram.
    pub fn histogram(wall_time: f64, step: u64, tag: &str, histogram: &Histogram) -> Self {
        let value = Value {
            tag: tag.to_owned(),
            value: Some(value::Value::Histo(histogram.to_proto())),
        };
        Self::summary(wall_time, step, vec![value])
    }

    /// Returns the encoded message, without a frame.
    pub fn encode(&self) -> Vec<u8> {
        self.0.encode_to_vec()
    }
}
