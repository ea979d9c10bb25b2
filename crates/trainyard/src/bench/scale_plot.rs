//! Plot of `bench scale` as SVG: measured rates beside linear rates.

use std::fmt::Write as _;

use super::scale::Point;

/// Width of the picture in pixels.
const WIDTH: f64 = 760.0;
/// Height of the picture in pixels.
const HEIGHT: f64 = 480.0;
/// Left, right, top and bottom edge of the plot area, in pixels.
const EDGES: (f64, f64, f64, f64) = (80.0, 735.0, 65.0, 420.0);
/// Blue of the measured points. The palette of Okabe and Ito can be told apart by colour-blind readers.
const MEASURED: &str = "#0072B2";
/// Grey of the linear line. The line is also dashed, so that no difference depends on colour alone.
const LINEAR: &str = "#595959";

/// Draws points in ascending order of workers, at least one point. The plot shows `conditions` under its title.
pub(super) fn plot(points: &[Point], conditions: &str) -> String {
    let (left, right, top, bottom) = EDGES;
    let last = points.last();
    let workers_max = last.map_or(1.0, |last| last.workers as f64);
    let rate = points.first().map_or(0.0, Point::rate_of_a_worker);
    let rate_max = points
        .iter()
        .map(|point| point.steps_per_second)
        .fold(rate * workers_max, f64::max);
    let x_step = tick(workers_max).max(1.0);
    let y_step = tick(rate_max);
    let x_max = (workers_max / x_step).ceil() * x_step;
    let y_max = (rate_max / y_step).ceil() * y_step;
    let x = |workers: f64| left + (right - left) * workers / x_max;
    let y = |rate: f64| bottom - (bottom - top) * rate / y_max;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"13\" fill=\"#222222\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let mut add = |line: String| {
        let _ = writeln!(svg, "{line}");
    };
    add(format!(
        "<text x=\"{left}\" y=\"24\" font-size=\"17\" font-weight=\"bold\">Steps a second by number of workers</text>"
    ));
    add(format!(
        "<text x=\"{left}\" y=\"44\" font-size=\"11\">{}</text>",
        escape(conditions)
    ));
    for index in 0..=(y_max / y_step).round() as u32 {
        let value = f64::from(index) * y_step;
        let place = y(f64::from(index) * y_step);
        add(format!(
            "<line x1=\"{left}\" y1=\"{place:.1}\" x2=\"{right}\" y2=\"{place:.1}\" stroke=\"#DDDDDD\"/>"
        ));
        let base = place + 4.5;
        add(format!(
            "<text x=\"{}\" y=\"{base:.1}\" text-anchor=\"end\">{}</text>",
            left - 8.0,
            number(value)
        ));
    }
    for index in 0..=(x_max / x_step).round() as u32 {
        let value = f64::from(index) * x_step;
        let place = x(f64::from(index) * x_step);
        add(format!(
            "<line x1=\"{place:.1}\" y1=\"{bottom}\" x2=\"{place:.1}\" y2=\"{}\" stroke=\"#222222\"/>",
            bottom + 5.0
        ));
        add(format!(
            "<text x=\"{place:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            bottom + 20.0,
            number(value)
        ));
    }
    add(format!(
        "<path d=\"M{left} {top}V{bottom}H{right}\" fill=\"none\" stroke=\"#222222\"/>"
    ));
    add(format!(
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">workers (number)</text>",
        (left + right) / 2.0,
        bottom + 44.0
    ));
    let middle = (top + bottom) / 2.0;
    add(format!(
        "<text transform=\"translate(22 {middle}) rotate(-90)\" text-anchor=\"middle\">steps of all workers (1/s)</text>"
    ));
    add(format!(
        "<line class=\"linear\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{LINEAR}\" stroke-width=\"1.5\" stroke-dasharray=\"7 5\"/>",
        x(0.0),
        y(0.0),
        x(workers_max),
        y(rate * workers_max)
    ));
    let places: Vec<(f64, f64)> = points
        .iter()
        .map(|point| (x(point.workers as f64), y(point.steps_per_second)))
        .collect();
    let line: Vec<String> = places
        .iter()
        .map(|(x, y)| format!("{x:.1},{y:.1}"))
        .collect();
    add(format!(
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{MEASURED}\" stroke-width=\"2\"/>",
        line.join(" ")
    ));
    for (x, y) in &places {
        add(format!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{MEASURED}\"/>"
        ));
    }
    // The corner above the linear line is always free.
    let sample = left + 14.0;
    let words = left + 52.0;
    add(format!(
        "<path d=\"M{sample} 86h30\" stroke=\"{MEASURED}\" stroke-width=\"2\"/><circle cx=\"{}\" cy=\"86\" r=\"4\" fill=\"{MEASURED}\"/>",
        sample + 15.0
    ));
    let end = last.map_or(String::new(), |last| {
        format!(
            " ({:.0} % of linear at {} workers)",
            last.share_of_linear * 100.0,
            last.workers
        )
    });
    add(format!(
        "<text x=\"{words}\" y=\"90.5\">measured{end}</text>"
    ));
    add(format!(
        "<path d=\"M{sample} 108h30\" stroke=\"{LINEAR}\" stroke-width=\"1.5\" stroke-dasharray=\"7 5\"/>"
    ));
    add(format!(
        "<text x=\"{words}\" y=\"112.5\">linear: {rate:.1}/s of one worker, times their number</text>"
    ));
    svg.push_str("</svg>\n");
    svg
}

/// Returns a distance between ticks that gives four to ten ticks: 1, 2 or 5 times a power of ten.
fn tick(max: f64) -> f64 {
    let rough = (max / 8.0).max(1e-6);
    let power = 10_f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0]
        .into_iter()
        .find(|factor| factor * power >= rough);
    factor.unwrap_or(10.0) * power
}

/// Formats a number without its rounding noise.
fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::super::scale::tests::point;
    use super::*;

    #[test]
    fn points_on_the_linear_line_are_drawn_on_it() {
        let svg = plot(&[point(1, 10.0, 1.0), point(10, 100.0, 1.0)], "a < b & c");
        // 10 workers with ticks 2 apart, and 100 steps with ticks 20 apart: both axes end at the upper right corner.
        assert!(
            svg.contains("x2=\"735.0\" y2=\"65.0\" stroke=\"#595959\""),
            "{svg}"
        );
        assert!(svg.contains("<circle cx=\"735.0\" cy=\"65.0\""), "{svg}");
        assert!(svg.contains("<circle cx=\"145.5\" cy=\"384.5\""), "{svg}");
        assert!(
            svg.contains("a &lt; b &amp; c") && svg.contains("100 % of linear at 10 workers"),
            "{svg}"
        );
        assert!(
            svg.contains("workers (number)") && svg.contains("(1/s)"),
            "both axes say their units: {svg}"
        );
    }

    #[test]
    fn a_slower_point_lies_below_the_line() {
        let svg = plot(&[point(1, 10.0, 1.0), point(10, 50.0, 0.5)], "");
        assert!(
            svg.contains("<circle cx=\"735.0\" cy=\"242.5\""),
            "half way up: {svg}"
        );
    }

    #[test]
    fn marks_are_round_numbers() {
        for (max, expected) in [
            (64.0, 10.0),
            (1216.0, 200.0),
            (8.0, 1.0),
            (0.4, 0.05),
            (100.0, 20.0),
        ] {
            assert!((tick(max) - expected).abs() < 1e-9, "{max}: {}", tick(max));
        }
        assert_eq!(
            (number(0.1 + 0.2), number(1200.0)),
            ("0.3".to_owned(), "1200".to_owned())
        );
    }
}
