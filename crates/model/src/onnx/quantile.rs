//! The normalizer `quantile` in the graph: shares of the training records, and their normal scores. All of it is of double precision,
//! because a score near an end changes much with its share.

use trainyard_onnx::{Attribute, AttributeProto, Name, Tensor, attribute};
use trainyard_run_config::{
    CENTER, CENTER_MAX, CENTER_SQUARE, OutputDistribution, QuantileMap, Rational, SHARE_MIN,
    Segment, Step, TAIL, TAIL_BEGIN,
};

use super::Builder;

impl Builder<'_> {
    /// Returns numbers, `batch x width`, in the distribution of a map.
    pub(super) fn quantile(&mut self, scope: &str, numbers: &Name, map: &QuantileMap) -> Name {
        let last = self.graph.list(&[2]);
        let value = self.cast(scope, "wide", numbers, Tensor::Double);
        let value = self.at(scope, "Unsqueeze", "apart", &[&value, &last]);
        let segments: Vec<Segment> = map.segments().collect();
        let mut share = self.filled_segments(scope, &value, &segments);
        let steps: Vec<Step> = map.steps().collect();
        if !steps.is_empty() {
            let numbers: Vec<f64> = steps.iter().map(|step| step.number).collect();
            let numbers = self.vector(scope, "step", &numbers);
            let at: Vec<f64> = steps.iter().map(|step| step.at).collect();
            let above: Vec<f64> = steps.iter().map(|step| step.above).collect();
            let reached = self.at(scope, "GreaterOrEqual", "reached", &[&value, &numbers]);
            let passed = self.at(scope, "Greater", "passed", &[&value, &numbers]);
            for (name, condition, shares) in [("at", reached, at), ("above", passed, above)] {
                let is_so = self.cast(scope, &format!("is_{name}"), &condition, Tensor::Double);
                let shares = self.vector(scope, &format!("share_{name}"), &shares);
                let steps = self.at(scope, "Mul", &format!("steps_{name}"), &[&is_so, &shares]);
                let sum = self.sum_of_last(scope, &format!("sum_{name}"), &steps);
                share = self.at(scope, "Add", &format!("share_with_{name}"), &[&share, &sum]);
            }
        }
        let value = match map.output_distribution() {
            OutputDistribution::Uniform => share,
            OutputDistribution::Normal => self.normal_score(scope, &share),
        };
        self.cast(scope, "quantile", &value, Tensor::Float)
    }

    /// Returns the shares of the segments below a number, and of what it fills of its own.
    fn filled_segments(&mut self, scope: &str, value: &Name, segments: &[Segment]) -> Name {
        let of = |field: fn(&Segment) -> f64| segments.iter().map(field).collect::<Vec<f64>>();
        let begin = self.vector(scope, "segment_begin", &of(|segment| segment.begin));
        let length = self.vector(scope, "segment_length", &of(|segment| segment.length));
        let share = self.vector(scope, "segment_share", &of(|segment| segment.share));
        let zero = self.double(scope, "zero", 0.0);
        let one = self.double(scope, "one", 1.0);
        let value = self.at(scope, "Sub", "from_begin", &[value, &begin]);
        let value = self.at(scope, "Div", "part", &[&value, &length]);
        let value = self.within(&format!("{scope}/part"), &value, [&zero, &one]);
        let value = self.at(scope, "Mul", "filled_share", &[&value, &share]);
        self.sum_of_last(scope, "share", &value)
    }

    /// Returns standard normal scores of shares (Wichura 1988, algorithm AS 241).
    fn normal_score(&mut self, scope: &str, share: &Name) -> Name {
        let least = self.double(scope, "share_min", SHARE_MIN);
        let most = self.double(scope, "share_max", 1.0 - SHARE_MIN);
        let share = self.within(&format!("{scope}/share"), share, [&least, &most]);
        let half = self.double(scope, "half", 0.5);
        let one = self.double(scope, "whole", 1.0);
        let from_middle = self.at(scope, "Sub", "from_middle", &[&share, &half]);

        let square = self.at(scope, "Mul", "square", &[&from_middle, &from_middle]);
        let begin = self.double(scope, "center_square", CENTER_SQUARE);
        let x = self.at(scope, "Sub", "center_x", &[&begin, &square]);
        let center = self.rational(&format!("{scope}/center"), &x, &CENTER);
        let center = self.at(scope, "Mul", "center_score", &[&from_middle, &center]);

        let other = self.at(scope, "Sub", "other_share", &[&one, &share]);
        let nearer = self.at(scope, "Min", "nearer_share", &[&share, &other]);
        let x = self.at(scope, "Log", "log_share", &[&nearer]);
        let x = self.at(scope, "Neg", "negative_log_share", &[&x]);
        let x = self.at(scope, "Sqrt", "root", &[&x]);
        let begin = self.double(scope, "tail_begin", TAIL_BEGIN);
        let x = self.at(scope, "Sub", "tail_x", &[&x, &begin]);
        let tail = self.rational(&format!("{scope}/tail"), &x, &TAIL);
        let sign = self.at(scope, "Sign", "sign", &[&from_middle]);
        let tail = self.at(scope, "Mul", "tail_score", &[&sign, &tail]);

        let distance = self.at(scope, "Abs", "distance", &[&from_middle]);
        let center_max = self.double(scope, "center_max", CENTER_MAX);
        let is_tail = self.at(scope, "Greater", "is_tail", &[&distance, &center_max]);
        self.at(scope, "Where", "score", &[&is_tail, &tail, &center])
    }

    /// Moves a value into a range. NaN stays NaN: `Max` and `Min` of some runtimes lose it.
    fn within(&mut self, scope: &str, value: &Name, [least, most]: [&Name; 2]) -> Name {
        let is_below = self.at(scope, "Less", "is_below", &[value, least]);
        let value = self.at(scope, "Where", "from_least", &[&is_below, least, value]);
        let is_above = self.at(scope, "Greater", "is_above", &[&value, most]);
        self.at(scope, "Where", "within", &[&is_above, most, &value])
    }

    fn rational(&mut self, scope: &str, x: &Name, [numerator, denominator]: &Rational) -> Name {
        let numerator = self.polynomial(&format!("{scope}_numerator"), x, numerator);
        let denominator = self.polynomial(&format!("{scope}_denominator"), x, denominator);
        self.at(scope, "Div", "ratio", &[&numerator, &denominator])
    }

    /// Returns the value of a polynomial by Horner's rule.
    fn polynomial(&mut self, scope: &str, x: &Name, [first, others @ ..]: &[f64; 8]) -> Name {
        let mut sum = self.double(scope, "coefficient", *first);
        for next in others {
            let product = self.at(scope, "Mul", "product", &[&sum, x]);
            let next = self.double(scope, "coefficient", *next);
            sum = self.at(scope, "Add", "sum", &[&product, &next]);
        }
        sum
    }

    fn at(&mut self, scope: &str, operator: &str, name: &str, inputs: &[&Name]) -> Name {
        self.graph
            .node(operator, &format!("{scope}/{name}"), inputs, [])
    }

    fn cast(&mut self, scope: &str, name: &str, value: &Name, to: Tensor) -> Name {
        let to: AttributeProto = attribute("to", Attribute::Int(to.number().into()));
        self.graph
            .node("Cast", &format!("{scope}/{name}"), &[value], [to])
    }

    fn double(&mut self, scope: &str, name: &str, value: f64) -> Name {
        self.graph
            .doubles(&format!("{scope}/{name}"), &[], &[value])
    }

    /// Returns a constant for the last of three dimensions.
    fn vector(&mut self, scope: &str, name: &str, values: &[f64]) -> Name {
        let shape = [1, 1, values.len()];
        self.graph
            .doubles(&format!("{scope}/{name}"), &shape, values)
    }

    /// Returns the sums of the last of three dimensions.
    fn sum_of_last(&mut self, scope: &str, name: &str, value: &Name) -> Name {
        let last = self.graph.list(&[2]);
        let without = attribute("keepdims", Attribute::Int(0));
        self.graph.node(
            "ReduceSum",
            &format!("{scope}/{name}"),
            &[value, &last],
            [without],
        )
    }
}
