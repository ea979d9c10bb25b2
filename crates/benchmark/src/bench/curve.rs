//! A rate by number of workers as a picture.

use std::fmt::Write as _;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 440.0;
/// Space for the numbers at the left and below, and for the title.
const LEFT: f64 = 90.0;
const RIGHT: f64 = 30.0;
const TOP: f64 = 60.0;
const BOTTOM: f64 = 60.0;
/// Steps of the vertical axis, about.
const TICKS: f64 = 5.0;

/// The measurements of a curve.
#[derive(Debug)]
pub(super) struct Curve<'a> {
    /// One line above the picture.
    pub(super) title: &'a str,
    /// Unit of the rates.
    pub(super) unit: &'a str,
    /// Workers, rate and what limits it, ascending by workers.
    pub(super) points: Vec<(usize, f64, &'static str)>,
    /// Linear rate for each worker.
    pub(super) linear: f64,
}

/// Returns the curve as SVG: the measured rates, what limits each, and the line of linear scaling.
pub(super) fn svg(curve: &Curve<'_>) -> String {
    let last = curve.points.last().map_or(1, |(workers, ..)| *workers) as f64;
    let rates = curve.points.iter().map(|(_, rate, _)| *rate);
    let most = rates.fold(curve.linear * last, f64::max);
    let step = tick(most / TICKS);
    let ticks = (most / step).ceil().max(1.0);
    let top = step * ticks;
    let x = |workers: f64| LEFT + workers / last * (WIDTH - LEFT - RIGHT);
    let y = |rate: f64| HEIGHT - BOTTOM - rate / top * (HEIGHT - TOP - BOTTOM);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n"
    );
    // A long title would leave the picture.
    for (line, part) in wrapped(curve.title, 105).iter().enumerate() {
        let _ = writeln!(
            text,
            "<text x=\"{}\" y=\"{}\">{}</text>",
            LEFT / 2.0,
            18 + 15 * line,
            escaped(part)
        );
    }
    let digits = usize::from(step < 1.0);
    for number in 0..=ticks as usize {
        let rate = step * number as f64;
        let (height, right) = (y(rate), WIDTH - RIGHT);
        let _ = writeln!(
            text,
            "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{height:.1}\" y2=\"{height:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{rate:.digits$}</text>",
            LEFT - 8.0,
            height + 4.0
        );
    }
    let _ = writeln!(
        text,
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"#888\" stroke-dasharray=\"6 4\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\" fill=\"#666\" text-anchor=\"end\">linear</text>",
        x(0.0),
        y(0.0),
        x(last),
        y(curve.linear * last),
        x(last) - 12.0,
        y(curve.linear * last) - 4.0
    );
    let places: Vec<String> = curve
        .points
        .iter()
        .map(|(workers, rate, _)| format!("{:.1},{:.1}", x(*workers as f64), y(*rate)))
        .collect();
    let _ = writeln!(
        text,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"#0b62a4\" stroke-width=\"2\"/>",
        places.join(" ")
    );
    for (workers, rate, limit) in &curve.points {
        let (across, height) = (x(*workers as f64), y(*rate));
        let _ = writeln!(
            text,
            "<circle cx=\"{across:.1}\" cy=\"{height:.1}\" r=\"4\" fill=\"#0b62a4\"><title>{workers} workers: {rate:.0} {}, {limit}</title></circle>\
             <text x=\"{across:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{workers}</text>",
            escaped(curve.unit),
            HEIGHT - BOTTOM + 18.0
        );
        if *limit != "none" {
            let _ = writeln!(
                text,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#0b62a4\">{limit}</text>",
                across - 8.0,
                height + 18.0
            );
        }
    }
    let _ = write!(
        text,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">workers</text>\n\
         <text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n</svg>\n",
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 16.0,
        LEFT - 8.0,
        TOP - 10.0,
        escaped(curve.unit)
    );
    text
}

/// Returns the least of 1, 2 and 5 times a power of ten that is not below a number.
fn tick(least: f64) -> f64 {
    if least <= 0.0 {
        return 1.0;
    }
    let power = 10.0_f64.powf(least.log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    let factor = factors.into_iter().find(|factor| factor * power >= least);
    factor.unwrap_or(10.0) * power
}

/// Returns a text in lines of at most `width` letters, cut between words.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_has_its_points_at_their_rates_and_says_their_limits() {
        let curve = Curve {
            title: "a & b",
            unit: "steps/s",
            points: vec![(1, 100.0, "none"), (4, 200.0, "server full")],
            linear: 100.0,
        };
        let picture = svg(&curve);
        // The axis ends at 400, four ticks of 100; 4 workers are at its right end.
        let height = |rate: f64| HEIGHT - BOTTOM - rate / 400.0 * (HEIGHT - TOP - BOTTOM);
        for part in [
            format!(
                "points=\"{:.1},{:.1} 690.0,{:.1}\"",
                LEFT + 150.0,
                height(100.0),
                height(200.0)
            ),
            format!("x2=\"690.0\" y2=\"{:.1}\"", height(400.0)),
            ">server full</text>".to_owned(),
            "a &amp; b".to_owned(),
            ">400</text>".to_owned(),
        ] {
            assert!(picture.contains(&part), "{part}\n{picture}");
        }
    }

    #[test]
    fn ticks_are_round() {
        let found = [0.0, 0.3, 1.0, 3.0, 7.0, 81.0, 12345.0].map(tick);
        assert_eq!(found, [1.0, 0.5, 1.0, 5.0, 10.0, 100.0, 20000.0]);
    }
}
