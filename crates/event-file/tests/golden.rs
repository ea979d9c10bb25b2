//! Events as TensorFlow's Estimator wrote them: `TRAINYARD_GOLDEN` names the folder of what was recorded.

use std::path::PathBuf;

use trainyard_event_file::Event;
use trainyard_tfrecord::Records;

fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("TRAINYARD_GOLDEN").map(PathBuf::from);
    if folder.is_none() {
        println!("skipped: TRAINYARD_GOLDEN names no folder of recorded values");
    }
    folder
}

/// The event that a line of the description says; none of kinds that are not written here. The reader of JSON may miss the
/// last bit of a time, which is the record's, therefore.
fn event(said: &serde_json::Value, record: &[u8]) -> Option<Event> {
    let step = said["step"].as_u64().expect("a step");
    let (_, time) = record.split_first()?;
    let time = f64::from_le_bytes(*time.first_chunk()?);
    assert!((said["wall_time"].as_f64().expect("a time") - time).abs() < 1e-6, "{said}");
    match said["what"].as_str().expect("a kind") {
        "session_log" if said["status"] == 1 => Some(Event::started(time, step)),
        "session_log" => {
            let path = said["checkpoint_path"].as_str().expect("a path");
            Some(Event::checkpoint(time, step, path.to_owned()))
        }
        "summary" => {
            let values = said["values"].as_array().expect("values");
            if let Some(text) = values[0]["text"].as_str() {
                return Some(Event::text(time, step, values[0]["tag"].as_str()?, text.to_owned()));
            }
            let scalar = |value: &'_ serde_json::Value| value["value"].as_f64().expect("a number") as f32;
            let values = values.iter().map(|value| (value["tag"].as_str().expect("a tag"), scalar(value)));
            Some(Event::scalars(time, step, values))
        }
        _ => None,
    }
}

#[test]
fn events_are_byte_for_byte_those_of_the_estimator() {
    let Some(folder) = folder() else { return };
    let text = std::fs::read(folder.join("events_expected.json")).expect("descriptions");
    let said: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    let mut compared = 0;
    for name in ["events_train.tfevents", "events_eval.tfevents"] {
        let bytes = std::fs::read(folder.join(name)).expect("recorded events");
        let records: Vec<&[u8]> = Records::new(&bytes).map(|record| record.expect("whole")).collect();
        let said = said[name].as_array().expect("a list");
        assert_eq!(records.len(), said.len(), "{name}");
        for (record, said) in records.iter().zip(said) {
            let Some(event) = event(said, record) else { continue };
            assert_eq!(event.encode(), *record, "{name}: {said}");
            compared += 1;
        }
    }
    assert!(compared > 10, "{compared} events");
}
