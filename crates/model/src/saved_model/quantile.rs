//! The normalizer `quantile` in a SavedModel: shares of the training records, and their normal scores. All of it is of double precision,
//! because a score near an end changes much with its share.

use trainyard_run_config::{OutputDistribution, QuantileMap, SHARE_MIN, Segment, Step};
use trainyard_tensorflow_formats::generated::DataType;
use trainyard_tensorflow_formats::saved_model::{Binary, Comparison, Edge, Graph, Unary};

use super::Builder;

impl Builder<'_> {
    /// Returns numbers, `[batch, width]`, in the distribution of a map.
    pub(super) fn quantile(
        &mut self,
        scope: &str,
        numbers: &Edge,
        width: usize,
        map: &QuantileMap,
    ) -> Edge {
        let name = |part: &str| format!("{scope}/{part}");
        let graph = &mut *self.graph;
        let double = DataType::DtDouble;
        let value = graph.cast(&name("wide"), numbers, double);
        let value = graph.reshape(&name("apart"), &value, &[-1, width as i64, 1]);

        let segments: Vec<Segment> = map.segments().collect();
        let mut of_segments = |part: &str, of: fn(&Segment) -> f64| {
            let values: Vec<f64> = segments.iter().map(of).collect();
            graph.doubles(&name(part), &[1, 1, values.len()], &values)
        };
        let begin = of_segments("segment_begin", |segment| segment.begin);
        let length = of_segments("segment_length", |segment| segment.length);
        let share = of_segments("segment_share", |segment| segment.share);
        let zero = graph.doubles(&name("zero"), &[], &[0.0]);
        let one = graph.doubles(&name("one"), &[], &[1.0]);
        let filled = graph.binary(Binary::Subtract, &name("from_begin"), &value, &begin);
        let filled = graph.binary(Binary::Divide, &name("part"), &filled, &length);
        let filled = within(graph, &name("filled"), &filled, [&zero, &one]);
        let filled = graph.binary(Binary::Multiply, &name("filled_share"), &filled, &share);
        let mut share = graph.sum_along(&name("share"), &filled, 2);

        let steps: Vec<Step> = map.steps().collect();
        if !steps.is_empty() {
            let mut of_steps = |part: &str, of: fn(&Step) -> f64| {
                let values: Vec<f64> = steps.iter().map(of).collect();
                graph.doubles(&name(part), &[1, 1, values.len()], &values)
            };
            let numbers = of_steps("step", |step| step.number);
            let shares_at = of_steps("share_at", |step| step.at);
            let shares_above = of_steps("share_above", |step| step.above);
            for (part, comparison, shares) in [
                ("at", Comparison::GreaterEqual, shares_at),
                ("above", Comparison::Greater, shares_above),
            ] {
                let name = |what: &str| format!("{scope}/{what}_{part}");
                let is_so = graph.compare(comparison, &name("is"), &value, &numbers);
                let is_so = graph.cast(&name("one"), &is_so, double);
                let steps = graph.binary(Binary::Multiply, &name("steps"), &is_so, &shares);
                let sum = graph.sum_along(&name("sum"), &steps, 2);
                share = graph.binary(Binary::Add, &name("share_with"), &share, &sum);
            }
        }
        let share = graph.reshape(&name("shares"), &share, &[-1, width as i64]);
        let value = match map.output_distribution() {
            OutputDistribution::Uniform => share,
            OutputDistribution::Normal => {
                let least = graph.doubles(&name("share_min"), &[], &[SHARE_MIN]);
                let most = graph.doubles(&name("share_max"), &[], &[1.0 - SHARE_MIN]);
                let share = within(graph, &name("share"), &share, [&least, &most]);
                graph.unary(Unary::NormalQuantile, &name("score"), &share)
            }
        };
        graph.cast(&name("quantile"), &value, DataType::DtFloat)
    }
}

/// Moves a value into a range. NaN stays NaN.
fn within(graph: &mut Graph, scope: &str, value: &Edge, [least, most]: [&Edge; 2]) -> Edge {
    let name = |part: &str| format!("{scope}/{part}");
    let is_below = graph.compare(Comparison::Less, &name("is_below"), value, least);
    let value = graph.select(&name("from_least"), &is_below, [least, value]);
    let is_above = graph.compare(Comparison::Greater, &name("is_above"), &value, most);
    graph.select(&name("within"), &is_above, [most, &value])
}
