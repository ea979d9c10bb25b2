//! Numeric columns, and the boundaries of their buckets.

use trainyard_diagnostic::{Bound, Code, Section, Takes, Value, section};

use super::files::FeatureFiles;
use crate::analysis::{AnalysisRule, BoundaryPurpose, FilesNeeded};
use crate::{
    FeatureConfig, FeatureKind, Normalizer, Numbers, Operand, OutputDistribution, PeriodicConfig,
    Time, TimePart, TimeUnit,
};

/// Most boundaries that are made for a feature.
const QUANTILES_MAX: u64 = 1 << 16;

/// Most frequencies of a number, and outputs of the layer behind them.
const FREQUENCIES_MAX: u64 = 1 << 12;

/// Frequencies, and deviation of their first values, unless the job says others (`n_frequencies` and `frequency_init_scale` of
/// `rtdl_num_embeddings.PeriodicEmbeddings`, the paper's code).
const FREQUENCIES: usize = 48;
const SIGMA: f32 = 0.01;

/// Most numbers in a field.
const WIDTH_MAX: u64 = 1 << 20;

section! {
    /// Keys of features of numbers.
    #[derive(Debug)]
    pub(crate) struct NumberKeys {
        /// numbers in a field, `2` or `[2, 2]`
        shape: Option<usize> = custom(read_shape, takes_shape, "1").or_invalid(1);
        /// `none`; `log1p`: ln(1 + x), where numbers below 0 count as 0; `signed_log1p`: ln(1 + x), and -ln(1 - x) below 0; `log`: ln(x), where numbers below 1e-7 count as
        /// 1e-7; `min_max`: (x - min) / (max - min); `standardize`: (x - mean) / stddev; `quantile`, of numeric features alone: the share of the training
        /// records that lies below x, by the quantiles that `boundaries` holds
        normalizer: Option<NormalizerName> = choice("normalizer", &NormalizerName::NAMES).or_invalid(NormalizerName::None);
        /// for `standardize`, the subtrahend; `trainyard stats` prints it
        mean: Option<f32> = single(Bound::None).optional("required with it");
        /// for `standardize`, the divisor, not 0; `trainyard stats` prints it
        stddev: Option<f32> = single(Bound::None).optional("required with it");
        /// for `min_max`, the number that becomes 0
        min: Option<f32> = single(Bound::None).optional("required with it");
        /// for `min_max`, the number that becomes 1
        max: Option<f32> = single(Bound::None).optional("required with it");
        /// `[least, greatest]`, applied before the normalizer
        clip: Option<[f32; 2]> = custom(read_clip, || Takes::Numbers, "").optional_or_invalid("none");
        /// another column of numbers, which is subtracted, before `clip`; `default` also replaces missing values of that
        /// column
        minus: Option<String> = text().optional("none");
        /// another column of numbers, which divides the value (division by 0 gives 0), before `clip`; `default` also
        /// replaces missing values of that column
        divided_by: Option<String> = text().optional("none");
        /// the column holds times, as whole numbers since 1970 in UTC, and the feature is their `hour` (0 to 23) or
        /// `weekday` (0 is Monday)
        time: Option<TimePart> = choice("part of a time", &TIME_PARTS).optional_or_invalid("none");
        /// for `time`, `seconds`, `milliseconds`, `microseconds` or `nanoseconds`: the unit of plain numbers. A Parquet
        /// column of timestamps, dates or times has its own
        time_unit: Option<TimeUnit> = choice("unit of times", &TimeUnit::NAMES).or_invalid(TimeUnit::Seconds);
        /// replaces a missing value (one number, or one for each position)
        default: Option<Defaults> = custom(read_default, takes_default, "").optional_or_invalid("none: such a row is bad");
    }
}

section! {
    /// Keys of `numeric` features alone.
    #[derive(Debug)]
    pub(crate) struct EncodingKeys {
        /// `none`: a number feeds the model as one number. `piecewise_linear` (Gorishniy et al. 2022): as a number for each bin between two
        /// boundaries a < b, (x - a) / (b - a), which is 0 below the bin and 1 above it; below the first and above the last
        /// boundary, the line of the outermost bin goes on. `periodic` (same paper): in the deep part, as sin(2 pi c x) and cos(2 pi c x) with
        /// `frequencies` learned numbers c; the linear part has the number itself
        encoding: Encoding = choice("encoding", &Encoding::NAMES).or(Encoding::None);
        /// for the encoding `periodic`: number of learned numbers c
        frequencies: Option<usize> = integer(1..=FREQUENCIES_MAX).or_invalid(FREQUENCIES);
        /// for the encoding `periodic`: standard deviation of the normal distribution from which the numbers c start. It says how fast a wave
        /// turns: with 0.01, a number of standard deviation 1 has slow ones, almost lines
        sigma: Option<f32> = single(Bound::Positive).or_invalid(SIGMA);
        /// for the encoding `periodic`: outputs of a dense layer of its own under ReLU, which follows the waves of each number
        encoding_units: Option<usize> = integer(1..=FREQUENCIES_MAX).optional("no layer");
        /// for the normalizer `quantile`: `uniform`, shares from 0 to 1, or `normal`, their standard normal scores, from -5.2 to 5.2
        output_distribution: Option<OutputDistribution> = choice("output distribution", &OUTPUT_DISTRIBUTIONS).or_invalid(OutputDistribution::Uniform);
    }
}

section! {
    /// Boundaries of `bucketized` features, and of the encoding or the normalizer of `numeric` ones.
    #[derive(Debug)]
    pub(crate) struct BoundaryKeys {
        /// ascending numbers; for the encoding of a numeric feature at least 2. For the normalizer `quantile`, quantiles at equal steps of
        /// the training records, the least and the greatest number included: at least 2, of which two differ; equal ones may
        /// follow each other
        boundaries: Option<Vec<f32>> = custom(read_boundaries, || Takes::Numbers, "")
            .optional_or_invalid("required with buckets, an `encoding` and the normalizer `quantile`, or `boundaries_file`");
        /// TOML file beside the job with a list of ascending numbers for the name of each feature that names the file
        boundaries_file: Option<String> = path().optional("required, or `boundaries`");
        /// for `trainyard analyze`, which makes `boundaries_file`: maximum number of boundaries. Half of them are quantiles of the
        /// training records, the others of the distinct numbers; those of an `encoding` have the least and the greatest number
        /// besides. For the normalizer `quantile`, the number of quantiles of the training records, at least 2; scikit-learn has 1000
        quantiles: Option<usize> = integer(1..=QUANTILES_MAX).optional("the file is yours");
    }
}

/// How a numeric feature feeds the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    None,
    PiecewiseLinear,
    Periodic,
}

impl Encoding {
    const NAMES: [(&'static str, Self); 3] = [
        ("none", Self::None),
        ("piecewise_linear", Self::PiecewiseLinear),
        ("periodic", Self::Periodic),
    ];
}

const OUTPUT_DISTRIBUTIONS: [(&str, OutputDistribution); 2] = [
    ("uniform", OutputDistribution::Uniform),
    ("normal", OutputDistribution::Normal),
];

const TIME_PARTS: [(&str, TimePart); 2] =
    [("hour", TimePart::Hour), ("weekday", TimePart::Weekday)];

/// Numbers that replace missing values.
#[derive(Debug, Clone)]
pub(crate) enum Defaults {
    /// The same number for all positions.
    Alike(f32),
    /// A number for each position.
    Each(Vec<f32>),
}

impl NumberKeys {
    /// Returns the numbers, without their column.
    pub(super) fn numbers(&self, section: &Section<'_>) -> Option<Numbers> {
        let default = self.defaults(section);
        let time = self.time(section);
        let operand = self.operand(section);
        let normalizer = self.normalizer(section)?;
        let width = self.shape?;
        if time.is_some() && width != 1 {
            section.fail(
                Code::E1006,
                "time",
                "time and shape cannot be both set: a field holds one time",
            );
        }
        if time.is_some() && operand.is_some() {
            section.fail(
                Code::E1006,
                "time",
                "time cannot be combined with minus or divided_by",
            );
        }
        if default.is_none() && section.node("default").is_some() {
            return None;
        }
        Some(Numbers {
            column: String::new(),
            width,
            time,
            operand,
            clip: self.clip,
            normalizer,
            piecewise_linear: None,
            periodic: None,
            default,
        })
    }

    /// Returns numbers that stand for those of keys that could not be read.
    pub(super) fn stand_in(&self) -> Numbers {
        let normalizer = match self.normalizer {
            Some(NormalizerName::Quantile) => WITHOUT_QUANTILES,
            _ => Normalizer::None,
        };
        Numbers {
            normalizer,
            ..Numbers::of(String::new())
        }
    }

    fn time(&self, section: &Section<'_>) -> Option<Time> {
        if section.node("time").is_none() && section.node("time_unit").is_some() {
            section.fail(
                Code::E1006,
                "time_unit",
                "time_unit needs time = \"hour\" or \"weekday\"",
            );
        }
        Some(Time {
            part: self.time?,
            unit: self.time_unit?,
        })
    }

    fn operand(&self, section: &Section<'_>) -> Option<Operand> {
        for (key, column) in [("minus", &self.minus), ("divided_by", &self.divided_by)] {
            if column.as_deref() == Some("") {
                section.fail(
                    Code::E1002,
                    key,
                    format!("{key} must name a column of the input, given \"\""),
                );
            }
        }
        match (self.minus.clone(), self.divided_by.clone()) {
            (Some(_), Some(_)) => {
                section.fail(
                    Code::E1006,
                    "divided_by",
                    "minus and divided_by cannot be both set",
                );
                None
            }
            (Some(column), None) => Some(Operand::Minus(column)),
            (None, Some(column)) => Some(Operand::DividedBy(column)),
            (None, None) => None,
        }
    }

    /// Returns a number for each position.
    fn defaults(&self, section: &Section<'_>) -> Option<Vec<f32>> {
        let width = self.shape.unwrap_or(1);
        match self.default.clone()? {
            Defaults::Alike(number) => Some(vec![number; width]),
            Defaults::Each(numbers) if numbers.len() == width => Some(numbers),
            Defaults::Each(numbers) => {
                let message = format!(
                    "default must be one number, or one for each of the {width} of shape, given {}",
                    numbers.len()
                );
                section.fail(Code::E1002, "default", message);
                None
            }
        }
    }

    fn normalizer(&self, section: &Section<'_>) -> Option<Normalizer> {
        let name = self.normalizer?;
        let moments = Pair {
            keys: ["mean", "stddev"],
            values: [self.mean, self.stddev],
            normalizer: "standardize",
        };
        let range = Pair {
            keys: ["min", "max"],
            values: [self.min, self.max],
            normalizer: "min_max",
        };
        let moments = if name == NormalizerName::Standardize {
            Some(moments.needed(section)?)
        } else {
            moments.refused(section)?;
            None
        };
        let range = if name == NormalizerName::MinMax {
            Some(range.needed(section)?)
        } else {
            range.refused(section)?;
            None
        };
        match name {
            NormalizerName::None => Some(Normalizer::None),
            NormalizerName::Log1p => Some(Normalizer::Log1p),
            NormalizerName::SignedLog1p => Some(Normalizer::SignedLog1p),
            NormalizerName::Log => Some(Normalizer::Log),
            NormalizerName::Quantile => Some(WITHOUT_QUANTILES),
            NormalizerName::Standardize => {
                let [mean, stddev] = moments?;
                if !(stddev.is_normal() && stddev > 0.0) {
                    section.fail(
                        Code::E1002,
                        "stddev",
                        format!("stddev must be > 0, given {stddev}"),
                    );
                    return None;
                }
                Some(Normalizer::Standardize { mean, stddev })
            }
            NormalizerName::MinMax => {
                let [min, max] = range?;
                if max <= min {
                    section.fail(
                        Code::E1002,
                        "max",
                        format!("max must be above min ({min}), given {max}"),
                    );
                    return None;
                }
                Some(Normalizer::MinMax { min, max })
            }
        }
    }
}

fn takes_shape() -> Takes {
    let least = 1;
    let most = WIDTH_MAX;
    Takes::AnyOf(vec![
        Takes::Integer { least, most },
        Takes::Integers { least, most },
    ])
}

/// Reads the lengths of a field's axes. Returns the numbers in a field.
fn read_shape(section: &Section<'_>, key: &'static str) -> Option<usize> {
    let shape = match section.node(key)?.value {
        Value::Integer(_) => vec![section.integer(key, 1..=WIDTH_MAX)?],
        _ => section.integers(key, 1..=WIDTH_MAX)?,
    };
    let width = shape
        .iter()
        .try_fold(1_u64, |all, length| all.checked_mul(*length));
    match width {
        Some(width) if width <= WIDTH_MAX => Some(width as usize),
        _ => {
            let message = format!("shape must hold at most {WIDTH_MAX} numbers");
            section.fail(Code::E1002, key, message);
            None
        }
    }
}

fn read_clip(section: &Section<'_>, key: &'static str) -> Option<[f32; 2]> {
    let bounds: Vec<f32> = section
        .numbers(key)?
        .iter()
        .map(|bound| *bound as f32)
        .collect();
    match bounds[..] {
        [least, most] if least < most && least.is_finite() && most.is_finite() => {
            Some([least, most])
        }
        _ => {
            let message = format!("clip must be a lower and a higher number, given {bounds:?}");
            section.fail(Code::E1002, key, message);
            None
        }
    }
}

fn takes_default() -> Takes {
    Takes::AnyOf(vec![Takes::Number(Bound::None), Takes::Numbers])
}

/// Reads one number for all positions, or one number each.
fn read_default(section: &Section<'_>, key: &'static str) -> Option<Defaults> {
    match section.node(key)?.value {
        Value::List(_) => {
            let numbers = section.numbers(key)?;
            let numbers = numbers.into_iter().map(|number| number as f32);
            Some(Defaults::Each(numbers.collect()))
        }
        _ => section.single(key).map(Defaults::Alike),
    }
}

/// The two parameters of a normalizer, which go with it alone.
struct Pair {
    keys: [&'static str; 2],
    values: [Option<f32>; 2],
    normalizer: &'static str,
}

impl Pair {
    /// Returns the parameters of a normalizer that needs them.
    fn needed(&self, section: &Section<'_>) -> Option<[f32; 2]> {
        if let [Some(first), Some(second)] = self.values {
            return Some([first, second]);
        }
        let [first, second] = self.keys;
        let normalizer = self.normalizer;
        let message = format!(
            "normalizer {normalizer} needs {first} and {second}; `trainyard stats` prints them"
        );
        section.fail(Code::E1005, "normalizer", message);
        None
    }

    /// Refuses the parameters of another normalizer.
    fn refused(&self, section: &Section<'_>) -> Option<()> {
        if self.values == [None, None] {
            return Some(());
        }
        let [first, second] = self.keys;
        let normalizer = self.normalizer;
        let message = format!("{first} and {second} need normalizer = \"{normalizer}\"");
        section.fail(Code::E1006, "normalizer", message);
        None
    }
}

/// Names of the normalizers, without their parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NormalizerName {
    None,
    Log1p,
    SignedLog1p,
    Log,
    MinMax,
    Standardize,
    Quantile,
}

impl NormalizerName {
    const NAMES: [(&'static str, Self); 7] = [
        ("none", Self::None),
        ("log1p", Self::Log1p),
        ("signed_log1p", Self::SignedLog1p),
        ("log", Self::Log),
        ("min_max", Self::MinMax),
        ("standardize", Self::Standardize),
        ("quantile", Self::Quantile),
    ];
}

impl EncodingKeys {
    pub(super) fn is_periodic(&self) -> bool {
        self.encoding == Encoding::Periodic
    }

    fn periodic(&self, units: Option<usize>) -> Option<PeriodicConfig> {
        Some(PeriodicConfig {
            frequencies: self.frequencies?,
            sigma: self.sigma?,
            units,
        })
    }
}

/// The normalizer before [`BoundaryKeys::numeric`] has added its quantiles.
const WITHOUT_QUANTILES: Normalizer = Normalizer::Quantile {
    quantiles: Vec::new(),
    output_distribution: OutputDistribution::Uniform,
};

/// Fewest boundaries of an encoding, and of the normalizer `quantile`.
const EDGES_MIN: usize = 2;

/// Whether equal boundaries may follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ties {
    Refused,
    /// They are quantiles: a number that many records have is several of them.
    Kept,
}

impl BoundaryKeys {
    /// Returns the numbers of a numeric feature with the boundaries of their encoding, or of their normalizer, as [`BoundaryKeys::listed`]
    /// returns them.
    pub(super) fn numeric(
        &self,
        section: &Section<'_>,
        keys: &EncodingKeys,
        numbers: Numbers,
    ) -> Option<Numbers> {
        let is_quantile = matches!(numbers.normalizer, Normalizer::Quantile { .. });
        if !is_quantile && section.node("output_distribution").is_some() {
            let message = "output_distribution needs normalizer = \"quantile\"";
            section.fail(Code::E1006, "output_distribution", message);
            return None;
        }
        let of_periodic = ["frequencies", "sigma", "encoding_units"];
        let given = of_periodic
            .into_iter()
            .find(|key| section.node(key).is_some());
        if let Some(key) = given.filter(|_| keys.encoding != Encoding::Periodic) {
            let message = format!("{key} needs encoding = \"periodic\"");
            section.fail(Code::E1006, key, message);
            return None;
        }
        let periodic = match keys.encoding {
            Encoding::Periodic if section.node("encoding_units").is_some() => {
                Some(keys.periodic(Some(keys.encoding_units?))?)
            }
            Encoding::Periodic => Some(keys.periodic(None)?),
            Encoding::None | Encoding::PiecewiseLinear => None,
        };
        let numbers = Numbers {
            periodic,
            ..numbers
        };
        match (keys.encoding, is_quantile) {
            (Encoding::PiecewiseLinear, true) => {
                let message = "encoding = \"piecewise_linear\" and normalizer = \"quantile\" cannot be both set: each has the boundaries. \
                               An encoding with quantiles as boundaries says more than the share of the records";
                section.fail(Code::E1006, "encoding", message);
                None
            }
            (Encoding::PiecewiseLinear, false) => {
                let edges = self.listed(section, Ties::Refused)?;
                self.check_count(section, &edges, "an encoding")?;
                Some(Numbers {
                    piecewise_linear: Some(edges),
                    ..numbers
                })
            }
            (Encoding::None | Encoding::Periodic, true) => {
                let quantiles = self.listed(section, Ties::Kept)?;
                self.check_count(section, &quantiles, "the normalizer quantile")?;
                if self.boundaries.is_some() && quantiles.first() == quantiles.last() {
                    let message = format!(
                        "boundaries of the normalizer quantile must hold two that differ, given {} alone",
                        quantiles[0]
                    );
                    section.fail(Code::E1002, "boundaries", message);
                    return None;
                }
                if let Some(1) = self.quantiles {
                    let message = format!(
                        "quantiles must be at least {EDGES_MIN} for the normalizer quantile: the least and the greatest number, given 1"
                    );
                    section.fail(Code::E1002, "quantiles", message);
                    return None;
                }
                Some(Numbers {
                    normalizer: Normalizer::Quantile {
                        quantiles,
                        output_distribution: keys.output_distribution?,
                    },
                    ..numbers
                })
            }
            (Encoding::None | Encoding::Periodic, false) => {
                let given = ["boundaries", "boundaries_file", "quantiles"];
                if let Some(key) = given.into_iter().find(|key| section.node(key).is_some()) {
                    section.fail(
                        Code::E1006,
                        key,
                        format!(
                            "{key} of a numeric feature is of its encoding or its normalizer: add encoding = \"piecewise_linear\" or normalizer = \"quantile\", or use kind = \"bucketized\""
                        ),
                    );
                    return None;
                }
                Some(numbers)
            }
        }
    }

    /// Checks the number of boundaries in the job.
    fn check_count(&self, section: &Section<'_>, boundaries: &[f32], of: &str) -> Option<()> {
        if self.boundaries_file.is_some() || boundaries.len() >= EDGES_MIN {
            return Some(());
        }
        let message = format!(
            "boundaries of {of} must be at least {EDGES_MIN}, given {}",
            boundaries.len()
        );
        section.fail(Code::E1002, "boundaries", message);
        None
    }

    /// Returns the boundaries of buckets that the job lists, or none if they are in a file.
    pub(super) fn bucketized(&self, section: &Section<'_>, numbers: &Numbers) -> Option<Vec<f32>> {
        if matches!(numbers.normalizer, Normalizer::Quantile { .. }) {
            let message = "normalizer = \"quantile\" is of numeric features: buckets of shares of the records are buckets of the numbers themselves, \
                           so use boundaries of these";
            section.fail(Code::E1006, "normalizer", message);
            return None;
        }
        self.listed(section, Ties::Refused)
    }

    /// Returns the boundaries that the job lists, or none if they are in a file.
    fn listed(&self, section: &Section<'_>, ties: Ties) -> Option<Vec<f32>> {
        if self.quantiles.is_some() && self.boundaries_file.is_none() {
            section.fail(
                Code::E1006,
                "quantiles",
                "quantiles are of a file that `trainyard analyze` makes: they need the key `boundaries_file`",
            );
            return None;
        }
        match (&self.boundaries, &self.boundaries_file) {
            (Some(_), Some(_)) => {
                section.fail(
                    Code::E1006,
                    "boundaries_file",
                    "boundaries and boundaries_file cannot be both set",
                );
                None
            }
            (Some(boundaries), None) => match check_ties(boundaries, ties) {
                Ok(()) => Some(boundaries.clone()),
                Err(what) => {
                    section.fail(Code::E1002, "boundaries", format!("boundaries {what}"));
                    None
                }
            },
            (None, Some(_)) => Some(Vec::new()),
            (None, None) => {
                if section.node("boundaries").is_none() {
                    section.missing("boundaries", "[18, 25, 40, 65]");
                }
                None
            }
        }
    }

    /// Puts the boundaries of a file into the features that are named so.
    pub(super) fn settle(
        &self,
        files: &mut FeatureFiles,
        section: &Section<'_>,
        features: &mut [FeatureConfig],
    ) -> Option<()> {
        let Some(file) = &self.boundaries_file else {
            return Some(());
        };
        let file = files.folder.join(file);
        let is_made = self.quantiles.is_some();
        let is_awaited = is_made && files.needs == FilesNeeded::NotYet;
        let mut all = Some(());
        for feature in features {
            let (boundaries, purpose) = match &mut feature.kind {
                FeatureKind::Bucketized { boundaries, .. } => {
                    (boundaries, BoundaryPurpose::Buckets)
                }
                FeatureKind::Numeric(Numbers {
                    piecewise_linear: Some(edges),
                    ..
                }) => (edges, BoundaryPurpose::Bins),
                FeatureKind::Numeric(Numbers {
                    normalizer: Normalizer::Quantile { quantiles, .. },
                    ..
                }) => (quantiles, BoundaryPurpose::Quantiles),
                _ => continue,
            };
            if let Some(quantiles) = self.quantiles {
                let rule = AnalysisRule::Boundaries { quantiles, purpose };
                files.made = vec![(file.clone(), rule)];
            }
            if is_awaited {
                *boundaries = vec![0.0, 1.0];
                continue;
            }
            let (ties, needed) = match purpose {
                BoundaryPurpose::Buckets => (Ties::Refused, None),
                BoundaryPurpose::Bins => (Ties::Refused, Some("its encoding")),
                BoundaryPurpose::Quantiles => (Ties::Kept, Some("its normalizer")),
            };
            match files.boundaries(section, &file, &feature.name, (is_made, ties)) {
                Some(known) if needed.is_some() && known.first() == known.last() => {
                    let message = format!(
                        "boundaries of `{}` in {} must be at least {EDGES_MIN} different ones for {}, given {} alone",
                        feature.name,
                        file.display(),
                        needed.unwrap_or_default(),
                        known[0]
                    );
                    section.fail(Code::E1002, "boundaries_file", message);
                    all = None;
                }
                Some(known) => *boundaries = known,
                None => all = None,
            }
        }
        all
    }
}

fn read_boundaries(section: &Section<'_>, key: &'static str) -> Option<Vec<f32>> {
    match ascending(&section.numbers(key)?) {
        Ok(boundaries) => Some(boundaries),
        Err(what) => {
            section.fail(Code::E1002, key, format!("boundaries {what}"));
            None
        }
    }
}

/// Returns boundaries as the numbers of a model, or what is wrong with them. Equal ones may follow each other.
pub(super) fn ascending(numbers: &[f64]) -> Result<Vec<f32>, String> {
    let boundaries: Vec<f32> = numbers.iter().map(|&number| number as f32).collect();
    if boundaries.is_empty() {
        return Err("must hold at least one number, given none".to_owned());
    }
    if let Some(position) = boundaries.iter().position(|boundary| !boundary.is_finite()) {
        return Err(format!(
            "must fit into 32 bits, given {:?}",
            numbers[position]
        ));
    }
    match boundaries.windows(2).find(|pair| pair[0] > pair[1]) {
        Some(pair) => Err(format!("must ascend, given {} before {}", pair[0], pair[1])),
        None => Ok(boundaries),
    }
}

/// Says which boundaries are equal, unless they may be.
pub(super) fn check_ties(boundaries: &[f32], ties: Ties) -> Result<(), String> {
    let equal = boundaries.windows(2).find(|pair| pair[0] == pair[1]);
    match equal.filter(|_| ties == Ties::Refused) {
        Some(pair) => Err(format!("must ascend, given {} before {}", pair[0], pair[1])),
        None => Ok(()),
    }
}
