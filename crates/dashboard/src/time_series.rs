//! A time series of a whole run in bounded memory.

/// A measurement: `N` values at one time. Unknown values are NaN.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point<const N: usize> {
    /// Seconds since 1970.
    pub unix_secs: f64,
    /// Global step.
    pub step: u64,
    pub values: [f32; N],
}

/// Points that are merged into one: means of the known values, at the time of the last point.
#[derive(Debug, Clone)]
struct Mean<const N: usize> {
    count: u32,
    last: (f64, u64),
    sums: [f64; N],
    counts: [u32; N],
}

impl<const N: usize> Mean<N> {
    fn new() -> Self {
        Self {
            count: 0,
            last: (0.0, 0),
            sums: [0.0; N],
            counts: [0; N],
        }
    }

    fn add(&mut self, point: &Point<N>) {
        self.count += 1;
        self.last = (point.unix_secs, point.step);
        let known = point
            .values
            .iter()
            .enumerate()
            .filter(|(_, value)| value.is_finite());
        for (place, value) in known {
            self.sums[place] += f64::from(*value);
            self.counts[place] += 1;
        }
    }

    fn point(&self) -> Point<N> {
        let mean = |place: usize| match self.counts[place] {
            0 => f32::NAN,
            count => (self.sums[place] / f64::from(count)) as f32,
        };
        Point {
            unix_secs: self.last.0,
            step: self.last.1,
            values: std::array::from_fn(mean),
        }
    }
}

/// A time series of at most `most` points. When it is full, neighbours are merged, and each later point holds twice as
/// many measurements: the series covers the whole run, at ever lower resolution.
#[derive(Debug, Clone)]
pub(crate) struct TimeSeries<const N: usize> {
    points: Vec<Point<N>>,
    most: usize,
    /// Measurements in a point.
    stride: u32,
    open: Mean<N>,
}

impl<const N: usize> TimeSeries<N> {
    /// Returns an empty series of at most `most` points, 2 or more.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            points: Vec::new(),
            most: most.max(2),
            stride: 1,
            open: Mean::new(),
        }
    }

    /// Returns a series of at most `most` points, 2 or more, that continues these.
    pub(crate) fn resumed(points: Vec<Point<N>>, most: usize) -> Self {
        // There is one measurement per second, so the median of the seconds between points is the stride.
        let mut apart: Vec<f64> = points
            .windows(2)
            .map(|pair| pair[1].unix_secs - pair[0].unix_secs)
            .collect();
        apart.sort_by(f64::total_cmp);
        let stride = apart
            .get(apart.len() / 2)
            .map_or(1, |seconds| seconds.round() as u32)
            .max(1);
        let mut curve = Self {
            points,
            stride,
            ..Self::new(most)
        };
        while curve.points.len() >= curve.most {
            curve.halve();
        }
        curve
    }

    /// Adds a measurement, later than those before.
    pub(crate) fn push(&mut self, point: &Point<N>) {
        self.open.add(point);
        if self.open.count < self.stride {
            return;
        }
        self.points
            .push(std::mem::replace(&mut self.open, Mean::new()).point());
        if self.points.len() >= self.most {
            self.halve();
        }
    }

    fn halve(&mut self) {
        let pair = |pair: &[Point<N>]| {
            let mut mean = Mean::new();
            pair.iter().for_each(|point| mean.add(point));
            mean.point()
        };
        self.points = self.points.chunks(2).map(pair).collect();
        self.stride = self.stride.saturating_mul(2);
    }

    /// Returns the points, oldest first.
    pub(crate) fn points(&self) -> &[Point<N>] {
        &self.points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_stays_within_its_bound_and_in_view_from_beginning_to_end() {
        let mut curve = TimeSeries::<2>::new(16);
        for second in 0..100_000_u64 {
            // The first points lack one value.
            let late = if second < 50_000 { f32::NAN } else { 3.0 };
            curve.push(&Point {
                unix_secs: second as f64,
                step: 2 * second,
                values: [second as f32, late],
            });
            assert!(curve.points().len() < 16);
        }
        let points = curve.points();
        assert!(points.len() >= 8, "{} points", points.len());
        assert!(
            points
                .windows(2)
                .all(|pair| pair[0].unix_secs < pair[1].unix_secs)
        );
        assert!(
            points
                .first()
                .is_some_and(|point| point.values[0] < 12_500.0)
        );
        assert!(
            points
                .last()
                .is_some_and(|point| point.unix_secs > 87_500.0 && point.step > 175_000)
        );
        // A value that grows evenly: the mean of a point lies in the middle of its measurements.
        for pair in points.windows(2) {
            let middle = f64::midpoint(pair[0].unix_secs + 1.0, pair[1].unix_secs);
            assert!(
                (f64::from(pair[1].values[0]) - middle).abs() < 1.0,
                "{pair:?}"
            );
        }
        assert!(points[0].values[1].is_nan());
        assert_eq!(points[points.len() - 1].values[1], 3.0);
    }

    #[test]
    fn a_curve_that_goes_on_keeps_its_pace_and_its_bound() {
        let point = |second: u64| Point {
            unix_secs: second as f64,
            step: second,
            values: [second as f32],
        };
        let mut first = TimeSeries::<1>::new(16);
        (0..1000).for_each(|second| first.push(&point(second)));
        // The chief is away for an hour.
        let mut second = TimeSeries::resumed(first.points().to_vec(), 16);
        assert_eq!(second.stride, first.stride);
        assert_eq!(second.points(), first.points());
        (4600..104_600).for_each(|time| second.push(&point(time)));
        assert!(second.points().len() < 16 && second.points()[0].unix_secs < 20_000.0);
        // A series of more points than allowed, of one point, and of none.
        assert!(
            TimeSeries::resumed((0..100).map(point).collect(), 16)
                .points()
                .len()
                < 16
        );
        assert_eq!(TimeSeries::resumed(vec![point(5)], 16).stride, 1);
        assert_eq!(TimeSeries::<1>::resumed(Vec::new(), 16).stride, 1);
    }
}
