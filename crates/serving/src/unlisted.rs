//! Values of records that no vocabulary lists: a wrong column, or another spelling, makes all records alike.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use trainyard_input::{Batch, Cells, FieldKind, Schema};
use trainyard_run_config::{FeatureConfig, FeatureKind};

/// Values of a feature of which none is listed that are no coincidence.
const VALUES_MIN: u64 = 100;

/// Time between two looks at the values of a feature that has had a listed one.
const PERIOD: Duration = Duration::from_secs(60);

/// Values that a message shows.
const SHOWN_MAX: usize = 3;

/// Longest text that a message shows, in characters.
const CHARACTERS_MAX: usize = 60;

/// The features with a vocabulary, and their values of late.
#[derive(Debug, Default)]
pub(crate) struct UnlistedValues {
    features: Vec<Vocabulary>,
    recent: Mutex<Recent>,
}

#[derive(Debug)]
struct Vocabulary {
    name: String,
    /// Place of the column in a batch.
    column: usize,
    kind: FeatureKind,
}

/// What has come since the last look.
#[derive(Debug, Default)]
struct Recent {
    begun: Option<Instant>,
    /// Of each feature, absent once a value was listed or it has been told.
    unlisted: Vec<Option<Unlisted>>,
}

#[derive(Debug, Default, Clone)]
struct Unlisted {
    values: u64,
    first: Vec<String>,
}

impl UnlistedValues {
    /// Looks at the features with a vocabulary.
    pub(crate) fn new(features: &[FeatureConfig], schema: &Schema) -> Self {
        let of_feature = |feature: &FeatureConfig| {
            let FeatureKind::Vocabulary {
                column, integers, ..
            } = &feature.kind
            else {
                return None;
            };
            let mut fields = schema.fields.iter();
            let place = fields.position(|field| {
                field.name == *column
                    && matches!(
                        (&field.kind, integers),
                        (FieldKind::Bytes { .. }, false) | (FieldKind::Int { .. }, true)
                    )
            })?;
            Some(Vocabulary {
                name: feature.name.clone(),
                column: place,
                kind: feature.kind.clone(),
            })
        };
        Self {
            features: features.iter().filter_map(of_feature).collect(),
            recent: Mutex::default(),
        }
    }

    /// Looks at the values of a batch. Returns what is to be told of a feature, once a minute: that none of its values was listed. A
    /// feature that has had a listed value is not looked at again in that minute.
    pub(crate) fn see(&self, batch: &Batch) -> Option<String> {
        if self.features.is_empty() {
            return None;
        }
        // Another thread looks at its own batch.
        let mut recent = self.recent.try_lock()?;
        self.see_at(&mut recent, batch, Instant::now())
    }

    fn see_at(&self, recent: &mut Recent, batch: &Batch, now: Instant) -> Option<String> {
        let is_over = |begun: Instant| now.saturating_duration_since(begun) >= PERIOD;
        if recent.begun.is_none_or(is_over) {
            recent.begun = Some(now);
            recent.unlisted = vec![Some(Unlisted::default()); self.features.len()];
        }
        let mut told = None;
        for (feature, unlisted) in self.features.iter().zip(&mut recent.unlisted) {
            let Some(found) = unlisted else { continue };
            let is_listed = feature.see(batch, found);
            if is_listed || found.values >= VALUES_MIN {
                if !is_listed && told.is_none() {
                    told = Some(feature.told(found));
                }
                *unlisted = None;
            }
        }
        told
    }
}

impl Vocabulary {
    /// Counts the values of a batch. Returns whether one is listed.
    fn see(&self, batch: &Batch, found: &mut Unlisted) -> bool {
        let (Some(column), FeatureKind::Vocabulary { values, .. }) =
            (batch.columns.get(self.column), &self.kind)
        else {
            return false;
        };
        match &column.cells {
            Cells::Bytes(texts) => (0..texts.len()).any(|place| {
                let text = texts.get(place);
                if text.is_empty() {
                    return false;
                }
                let is_listed = values.id(text).is_some();
                found.add(is_listed, || String::from_utf8_lossy(text).into_owned());
                is_listed
            }),
            Cells::Int(numbers) => numbers.iter().any(|number| {
                // -1 is no value.
                if *number == -1 {
                    return false;
                }
                let is_listed = values.id_of_int(*number).is_some();
                found.add(is_listed, || number.to_string());
                is_listed
            }),
            Cells::Float(_) => false,
        }
    }

    fn told(&self, found: &Unlisted) -> String {
        let first: Vec<String> = found.first.iter().map(|text| format!("{text:?}")).collect();
        let begin = match &self.kind {
            FeatureKind::Vocabulary { values, .. } => values.iter().next().unwrap_or_default(),
            _ => "",
        };
        format!(
            "none of {} values of the feature `{}` in requests is in its vocabulary, which begins with {begin:?}: the first are {}, and the model takes all \
             of them for unknown ones",
            found.values,
            self.name,
            first.join(", ")
        )
    }
}

impl Unlisted {
    fn add(&mut self, is_listed: bool, text: impl FnOnce() -> String) {
        if is_listed {
            return;
        }
        self.values += 1;
        if self.first.len() < SHOWN_MAX {
            let text: String = text().chars().take(CHARACTERS_MAX).collect();
            if !self.first.contains(&text) {
                self.first.push(text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use trainyard_input::{Bytes, Column};
    use trainyard_run_config::Job;

    use super::*;

    fn batch(texts: &[&str]) -> Batch {
        let mut cells = Bytes::default();
        texts.iter().for_each(|text| cells.push(text.as_bytes()));
        Batch {
            rows: texts.len(),
            columns: vec![Column::bytes(cells)],
            ..Batch::default()
        }
    }

    fn of_colors() -> UnlistedValues {
        let text = "model_dir = \"m\"\nmodel = { kind = \"linear_classifier\" }\n\
            input = { label = { column = \"y\" }, train = { files = [\"a.csv\"], epochs = 1 } }\n\
            [[feature]]\ncolumn = \"color\"\nkind = \"vocabulary\"\nvalues = [\"red\", \"green\"]\n";
        let job = Job::parse(Path::new("job.toml"), text, &[]).expect("the job is good");
        let mut schema = Schema::default();
        schema.want("color", FieldKind::Bytes { separator: None });
        UnlistedValues::new(&job.features, &schema)
    }

    #[test]
    fn values_of_which_none_is_listed_are_told_once_in_a_while() {
        let values = of_colors();
        let mut recent = Recent::default();
        let begun = Instant::now();
        let strange = batch(&["Red"; 60]);
        assert_eq!(
            values.see_at(&mut recent, &strange, begun),
            None,
            "60 values"
        );
        let told = values
            .see_at(&mut recent, &strange, begun)
            .expect("120 values");
        for part in ["none of 120 values", "`color`", "\"Red\"", "\"red\""] {
            assert!(told.contains(part), "{part}: {told}");
        }
        assert_eq!(
            values.see_at(&mut recent, &batch(&["Red"; 200]), begun),
            None
        );
        let later = begun + PERIOD;
        let told = values.see_at(&mut recent, &batch(&["Red"; 200]), later);
        assert!(told.is_some(), "a minute later");
    }

    #[test]
    fn one_listed_value_is_enough() {
        let values = of_colors();
        let mut recent = Recent::default();
        let now = Instant::now();
        let mixed: Vec<&str> = [["Red"; 50].as_slice(), &["green"], &["blue"; 100]].concat();
        assert_eq!(values.see_at(&mut recent, &batch(&mixed), now), None);
        assert_eq!(values.see_at(&mut recent, &batch(&["Red"; 500]), now), None);
        assert_eq!(
            values.see_at(&mut recent, &batch(&[""; 500]), now + PERIOD),
            None
        );
    }
}
