//! The natural logarithm of numbers in (0, 1), the same bits on every machine.
//!
//! Initial values depend on seed, variable and row alone, whereas `f32::ln` depends on the platform. This is the
//! routine of glibc and musl (S. Nagy, ARM optimized routines, `logf`): a table of 16 intervals and a cubic, in 64-bit
//! floats.

/// Approximately 1 / c for the middle c of each interval.
const INVERSE: [f64; 16] = [
    1.398907162146528,
    1.3403141896637998,
    1.286432210124115,
    1.2367150214269895,
    1.1906977166711752,
    1.1479821020556429,
    1.1082251448272158,
    1.0711297413057381,
    1.036437278977283,
    1.0,
    0.9492859795739057,
    0.8951049428609004,
    0.8476821620351103,
    0.8050314851692001,
    0.7664671008843108,
    0.731428603316328,
];
/// The logarithm of each c.
const LOGARITHM: [f64; 16] = [
    -0.33569133332882284,
    -0.2929040563774074,
    -0.2518726580937369,
    -0.21245868807117255,
    -0.17453945183745634,
    -0.1380057072319758,
    -0.10275976698545139,
    -0.06871392447020525,
    -0.0357891387398228,
    0.0,
    0.05204517742929496,
    0.11081431298787942,
    0.1652495223695143,
    0.21687389031699977,
    0.2659635028121397,
    0.3127556664073557,
];
/// Coefficients of r^4, r^3 and r^2 in ln(1 + r).
const CUBIC: [f64; 3] = [-0.25089342214237154, 0.333456765744066, -0.4999997485802103];
/// Bits of the smallest number of the first interval.
const OFFSET: u32 = 0x3f33_0000;

/// Returns the natural logarithm of a normal number in (0, 1). The result for any other number is arbitrary.
#[inline(always)]
pub(crate) fn ln(number: f32) -> f32 {
    let bits = number.to_bits();
    let from_offset = bits.wrapping_sub(OFFSET);
    let interval = (from_offset >> 19) as usize & 15;
    let exponent = from_offset.cast_signed() >> 23;
    let mantissa = f64::from(f32::from_bits(bits.wrapping_sub(from_offset & 0xff80_0000)));
    let r = mantissa * INVERSE[interval] - 1.0;
    let whole = LOGARITHM[interval] + f64::from(exponent) * std::f64::consts::LN_2;
    let square = r * r;
    let cubic = CUBIC[0] * square + (CUBIC[1] * r + CUBIC[2]);
    (cubic * square + (whole + r)) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn differing(numbers: impl Iterator<Item = u32>) -> Option<f32> {
        numbers
            .map(f32::from_bits)
            .find(|number| ln(*number).to_bits() != number.ln().to_bits())
    }

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "the environment says how much a test covers"
    )]
    fn it_is_what_the_platform_has() {
        let least = f32::MIN_POSITIVE.to_bits();
        let one = 1.0_f32.to_bits();
        // The thorough test covers every number.
        let step = if std::env::var_os("TRAINYARD_THOROUGH").is_some() {
            1
        } else {
            1009
        };
        assert_eq!(differing((least..one).step_by(step)), None);
        assert_eq!(differing(one - 100_000..one), None);
    }
}
