//! Events compared byte for byte with those of TensorFlow's Estimator.

use serde_json::Value;
use trainyard_tensorflow_formats::event_file::Event;
use trainyard_tensorflow_formats::tfrecord::Records;
use trainyard_testing::{Golden, list};

/// Returns the time of a record. A JSON parser may lose its last bit.
fn wall_time(record: &[u8]) -> Option<f64> {
    // Field 1 of `Event`, a double, comes first.
    let (key, rest) = record.split_first()?;
    (*key == 9).then(|| rest.first_chunk().map(|bytes| f64::from_le_bytes(*bytes)))?
}

/// Splits the first record of a file before field 10 of `Event`, the program that writes. Field 1 is a double, and
/// field 3 a text.
fn until_writer(record: &[u8]) -> (&[u8], Option<&u8>) {
    const TIME_BYTES: usize = 9;
    let text_bytes = 2 + usize::from(record[TIME_BYTES + 1]);
    let (before, after) = record.split_at(TIME_BYTES + text_bytes);
    (before, after.first())
}

/// Returns the event that a description stands for, or `None` if Trainyard does not write its kind.
fn event(described: &Value, record: &[u8]) -> Option<Event> {
    let step = described["step"].as_u64().expect("a step");
    let time = wall_time(record).expect("a record begins with its time");
    assert!(
        (described["wall_time"].as_f64().expect("a time") - time).abs() < 1e-6,
        "{described}"
    );
    match described["what"].as_str().expect("a kind") {
        "file_version" => Some(Event::version(time)),
        "session_log" if described["status"] == 1 => Some(Event::started(time, step)),
        "session_log" => {
            let path = described["checkpoint_path"].as_str().expect("a path");
            Some(Event::checkpoint(time, step, path.to_owned()))
        }
        "summary" => {
            let values = list(&described["values"]);
            let tag = |value: &Value| value["tag"].as_str().expect("a tag").to_owned();
            if values[0]["kind"] == "tensor" {
                let text = values[0]["text"].as_str()?;
                return Some(Event::text(time, step, &tag(&values[0]), text.to_owned()));
            }
            let scalar = |value: &Value| value["value"].as_f64().expect("a number") as f32;
            let scalars: Vec<_> = values
                .iter()
                .map(|value| (tag(value), scalar(value)))
                .collect();
            Some(Event::scalars(
                time,
                step,
                scalars.iter().map(|(tag, value)| (tag.as_str(), *value)),
            ))
        }
        "graph_def" | "meta_graph_def" => None,
        other => panic!("{other} is no recorded kind"),
    }
}

#[test]
fn golden_events_are_byte_for_byte_those_of_tensorflow() {
    let golden = Golden::find();
    let Some(described) = golden.json("events_expected.json") else {
        return;
    };
    let mut equal = 0;
    let mut first = 0;
    let mut graphs = 0;
    let mut tensors = 0;
    for (name, described) in described.as_object().expect("a list for each file") {
        let Some(bytes) = golden.bytes(name) else {
            continue;
        };
        let records: Vec<&[u8]> = Records::new(&bytes)
            .map(|record| record.expect("whole"))
            .collect();
        assert_eq!(records.len(), list(described).len(), "{name}");
        for (record, described) in records.iter().zip(list(described)) {
            match event(described, record) {
                Some(event) if described["what"] == "file_version" => {
                    let encoded = event.encode();
                    assert_eq!(
                        until_writer(&encoded),
                        until_writer(record),
                        "{name}: {described}"
                    );
                    first += 1;
                }
                Some(event) => {
                    assert_eq!(event.encode(), *record, "{name}: {described}");
                    equal += 1;
                }
                // Graphs of TensorFlow, and numbers as tensors of TensorFlow 2, are not written by Trainyard.
                None if described["what"] == "summary" => tensors += 1,
                None => graphs += 1,
            }
        }
    }
    golden.assert_counts(
        "events_expected.json",
        &[
            ("equal", equal, 19),
            (
                "equal but for the name of the program that writes",
                first,
                4,
            ),
            ("graphs", graphs, 6),
            ("numbers as tensors", tensors, 3),
        ],
    );
}
