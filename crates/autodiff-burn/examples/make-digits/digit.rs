//! Digits drawn as a hand would: a few strokes, each time somewhat different.

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

/// Rows and columns of an image.
pub(crate) const SIDE: usize = 28;
/// Pixels of an image.
pub(crate) const PIXELS: usize = SIDE * SIDE;

/// Side of the square that a digit is drawn in, in pixels.
const BOX: f32 = 20.0;
/// Width of the soft edge of a stroke, in pixels.
const EDGE: f32 = 0.8;

type Point = [f32; 2];

/// Draws a digit, 0 to 9, as 28 x 28 grey values, row by row; 255 is ink.
///
/// # Panics
/// It is no digit.
pub(crate) fn draw(digit: u8, random: &mut ChaCha8Rng) -> [u8; PIXELS] {
    let mut strokes = strokes(digit, random);
    deform(&mut strokes, random);
    let radius = random.random_range(0.5..1.6);
    let ink = random.random_range(0.75..1.0_f32);
    let noise = random.random_range(0.0..0.08_f32);
    let mut image = [0; PIXELS];
    for (place, pixel) in image.iter_mut().enumerate() {
        let center = [(place % SIDE) as f32 + 0.5, (place / SIDE) as f32 + 0.5];
        let lines = strokes.iter().flat_map(|stroke| stroke.windows(2));
        let near = lines
            .map(|line| distance(center, line[0], line[1]))
            .fold(f32::MAX, f32::min);
        let covered = ((radius + EDGE - near) / EDGE).clamp(0.0, 1.0);
        let grain = noise * random.random_range(-1.0..1.0_f32);
        *pixel = (255.0 * (ink * covered + grain).clamp(0.0, 1.0)) as u8;
    }
    image
}

/// The strokes of a digit in the unit square, y downward.
fn strokes(digit: u8, random: &mut ChaCha8Rng) -> Vec<Vec<Point>> {
    let mut often = |share: f64| random.random_bool(share);
    match digit {
        0 => vec![arc([0.5, 0.5], [0.29, 0.44], -100.0, 270.0)],
        1 if often(0.5) => vec![vec![[0.5, 0.06], [0.5, 0.94]]],
        1 => vec![vec![[0.33, 0.26], [0.53, 0.06], [0.53, 0.94]]],
        2 => {
            let mut stroke = arc([0.48, 0.3], [0.26, 0.24], -170.0, 40.0);
            stroke.extend([[0.24, 0.92], [0.78, 0.92]]);
            vec![stroke]
        }
        3 => {
            vec![
                arc([0.45, 0.28], [0.26, 0.22], -150.0, 90.0),
                arc([0.45, 0.71], [0.29, 0.22], -90.0, 150.0),
            ]
        }
        4 if often(0.5) => {
            vec![
                vec![[0.28, 0.08], [0.24, 0.55], [0.8, 0.55]],
                vec![[0.7, 0.08], [0.66, 0.94]],
            ]
        }
        4 => vec![vec![[0.64, 0.94], [0.64, 0.06], [0.18, 0.62], [0.84, 0.62]]],
        5 => {
            let mut stroke = vec![[0.76, 0.07], [0.32, 0.07], [0.29, 0.46]];
            stroke.extend(arc([0.47, 0.67], [0.28, 0.25], -130.0, 140.0));
            vec![stroke]
        }
        6 => {
            let mut stroke = vec![[0.66, 0.06], [0.42, 0.26], [0.27, 0.5]];
            stroke.extend(arc([0.49, 0.7], [0.25, 0.23], -180.0, 190.0));
            vec![stroke]
        }
        7 => {
            let mut strokes = vec![vec![[0.2, 0.08], [0.78, 0.08], [0.42, 0.94]]];
            if often(0.3) {
                strokes.push(vec![[0.4, 0.5], [0.74, 0.5]]);
            }
            strokes
        }
        8 => vec![
            arc([0.5, 0.27], [0.22, 0.2], 90.0, 450.0),
            arc([0.5, 0.7], [0.26, 0.23], -90.0, 270.0),
        ],
        9 => {
            let mut stroke = arc([0.48, 0.3], [0.24, 0.23], 10.0, 370.0);
            stroke.extend([[0.71, 0.5], [0.64, 0.74], [0.54, 0.94]]);
            vec![stroke]
        }
        other => panic!("{other} is not a digit"),
    }
}

/// Points of an ellipse from one angle to another, in degrees; 0 is to the right, 90 down.
fn arc(center: Point, radii: Point, from: f32, to: f32) -> Vec<Point> {
    let steps = 14;
    let angles =
        (0..=steps).map(|step| (from + (to - from) * step as f32 / steps as f32).to_radians());
    angles
        .map(|angle| {
            [
                center[0] + radii[0] * angle.cos(),
                center[1] + radii[1] * angle.sin(),
            ]
        })
        .collect()
}

/// Moves every point a little, then turns, slants, stretches and shifts the whole, and scales it to pixels.
fn deform(strokes: &mut [Vec<Point>], random: &mut ChaCha8Rng) {
    let (sin, cos) = random.random_range(-0.26..0.26_f32).sin_cos();
    let slant = random.random_range(-0.3..0.3_f32);
    let stretch: [f32; 2] = [random.random_range(0.7..1.1), random.random_range(0.8..1.1)];
    let shift: [f32; 2] = [
        random.random_range(-2.5..2.5),
        random.random_range(-2.0..2.0),
    ];
    // Two slow waves bend the strokes without breaking them.
    let bend: [f32; 4] = std::array::from_fn(|_| random.random_range(-0.06..0.06));
    let phase = random.random_range(0.0..std::f32::consts::TAU);
    for point in strokes.iter_mut().flatten() {
        let wave = (5.0 * point[1] + phase).sin();
        let other = (5.0 * point[0] + phase).cos();
        let x = (point[0] - 0.5 + bend[0] * wave + bend[1] * other) * stretch[0];
        let y = (point[1] - 0.5 + bend[2] * wave + bend[3] * other) * stretch[1];
        let x = x - slant * y;
        let middle = SIDE as f32 / 2.0;
        *point = [
            middle + BOX * (cos * x - sin * y) + shift[0],
            middle + BOX * (sin * x + cos * y) + shift[1],
        ];
    }
}

/// Distance of a point from the line between two others.
fn distance(point: Point, from: Point, to: Point) -> f32 {
    let along = [to[0] - from[0], to[1] - from[1]];
    let away = [point[0] - from[0], point[1] - from[1]];
    let square = along[0] * along[0] + along[1] * along[1];
    let share = if square > 0.0 {
        ((along[0] * away[0] + along[1] * away[1]) / square).clamp(0.0, 1.0)
    } else {
        0.0
    };
    (away[0] - share * along[0]).hypot(away[1] - share * along[1])
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::*;

    #[test]
    fn a_seed_draws_the_same_digit_again_and_another_seed_another() {
        let drawn = |seed| draw(5, &mut ChaCha8Rng::seed_from_u64(seed));
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
    }

    #[test]
    fn every_digit_is_ink_on_an_empty_ground() {
        let mut random = ChaCha8Rng::seed_from_u64(3);
        for digit in (0..10).cycle().take(200) {
            let image = draw(digit, &mut random);
            let ink = image.iter().filter(|pixel| **pixel > 127).count();
            assert!((15..350).contains(&ink), "{digit} has {ink} pixels of ink");
        }
    }
}
