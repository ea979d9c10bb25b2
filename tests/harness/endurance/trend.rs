//! Whether something grows: a straight line through what was seen, and how far what was seen lies from it.

/// Errors of a slope beyond which it is taken for one.
const ERRORS: f64 = 3.0;

/// A line by least squares through points of (hours, value).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trend {
    /// The line at the first point.
    pub first: f64,
    /// The line at the last point.
    pub last: f64,
    /// Its slope, per hour.
    pub per_hour: f64,
    /// Standard error of the slope, per hour.
    pub error: f64,
}

impl Trend {
    /// Draws the line; nothing where fewer than three points, or all at one time, say no slope.
    pub fn of(points: &[(f64, f64)]) -> Option<Self> {
        let count = points.len() as f64;
        if count < 3.0 {
            return None;
        }
        let mean_time = points.iter().map(|(time, _)| time).sum::<f64>() / count;
        let mean_value = points.iter().map(|(_, value)| value).sum::<f64>() / count;
        let squares: f64 = points
            .iter()
            .map(|(time, _)| (time - mean_time).powi(2))
            .sum();
        if squares <= 0.0 {
            return None;
        }
        let products: f64 = points
            .iter()
            .map(|(time, value)| (time - mean_time) * (value - mean_value))
            .sum();
        let per_hour = products / squares;
        let line = |time: f64| mean_value + per_hour * (time - mean_time);
        let rest: f64 = points
            .iter()
            .map(|(time, value)| (value - line(*time)).powi(2))
            .sum();
        let error = (rest / (count - 2.0) / squares).sqrt();
        let times = || points.iter().map(|(time, _)| *time);
        let first = line(times().fold(f64::INFINITY, f64::min));
        let last = line(times().fold(f64::NEG_INFINITY, f64::max));
        Some(Self {
            first,
            last,
            per_hour,
            error,
        })
    }

    /// Whether the line rises by more than `tolerance` from its first point to its last, and its slope is no noise.
    pub fn rises(&self, tolerance: f64) -> bool {
        self.last - self.first > tolerance && self.per_hour > ERRORS * self.error
    }
}

/// Whether what was seen grows: the line through all of it rises by more than `tolerance`, and the line through its second half by
/// more than half of that. Memory that an allocator took once and keeps is a step, after which nothing rises.
pub(super) fn grows(points: &[(f64, f64)], tolerance: f64) -> bool {
    let rises = |points: &[(f64, f64)], tolerance| {
        Trend::of(points).is_some_and(|trend| trend.rises(tolerance))
    };
    rises(points, tolerance) && rises(&points[points.len() / 2..], tolerance / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Draw;

    /// Sixty minutes of something around 100 that rises so much an hour.
    fn seen(per_hour: f64, noise: f64) -> Vec<(f64, f64)> {
        let mut draw = Draw::new(3);
        let at = |minute: u32| f64::from(minute) / 60.0;
        (0..60)
            .map(|minute| {
                (
                    at(minute),
                    100.0 + per_hour * at(minute) + noise * (draw.fraction() - 0.5),
                )
            })
            .collect()
    }

    #[test]
    fn a_line_through_points_of_a_line_is_that_line() {
        let trend = Trend::of(&seen(6.0, 0.0)).expect("there are points");
        assert!(
            (trend.per_hour - 6.0).abs() < 1e-9 && (trend.first - 100.0).abs() < 1e-9,
            "{trend:?}"
        );
        assert!(trend.rises(5.0));
        assert!(!trend.rises(6.0), "it rises by 5.9 in 59 minutes");
    }

    #[test]
    fn noise_is_no_growth_and_growth_within_noise_is_found() {
        assert!(
            !Trend::of(&seen(0.0, 50.0))
                .expect("there are points")
                .rises(0.0)
        );
        assert!(
            Trend::of(&seen(20.0, 20.0))
                .expect("there are points")
                .rises(5.0)
        );
        assert!(
            !Trend::of(&seen(-20.0, 20.0))
                .expect("there are points")
                .rises(0.0)
        );
    }

    #[test]
    fn a_step_is_no_growth_and_a_rise_that_goes_on_is() {
        let steps = |at: &[usize]| {
            let rise =
                |minute: usize| 10.0 * at.iter().filter(|step| minute >= **step).count() as f64;
            let seen = seen(0.0, 2.0).into_iter().enumerate();
            seen.map(|(minute, (hours, value))| (hours, value + rise(minute)))
                .collect::<Vec<_>>()
        };
        assert!(
            Trend::of(&steps(&[15]))
                .expect("there are points")
                .rises(5.0)
        );
        assert!(!grows(&steps(&[15]), 5.0));
        assert!(
            grows(&steps(&[8, 16, 24, 32, 40, 48, 56]), 5.0),
            "a step every few minutes"
        );
        assert!(grows(&seen(20.0, 4.0), 5.0));
        assert!(!grows(&seen(0.0, 20.0), 5.0));
    }

    #[test]
    fn too_few_points_have_no_slope() {
        assert_eq!(Trend::of(&[(0.0, 1.0), (1.0, 2.0)]), None);
        assert_eq!(Trend::of(&[(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)]), None);
    }
}
