// SPDX-License-Identifier: GPL-2.0-or-later
//! Student's t distribution, by the regularised incomplete beta function.
//!
//! `P(|T| > t) = I_x(f / 2, 1 / 2)` at `x = f / (f + t^2)` for `f` degrees of freedom, which need not be whole.
//! Source: Abramowitz and Stegun, 26.7.1 and 26.5.8, a continued fraction, evaluated by Lentz's method.

/// Terms of the continued fraction at most. It takes about the square root of the degrees of freedom.
const MOST_TERMS: u32 = 10_000;
/// A change of the fraction below this ends it.
const PRECISION: f64 = 1e-15;
/// Stands for a zero in a denominator.
const TINY: f64 = 1e-300;

/// The probability that |T| exceeds |t|.
pub fn two_sided_p(t: f64, freedom: f64) -> f64 {
    let square = t * t;
    if square.is_infinite() {
        return 0.0;
    }
    let (x, rest) = (freedom / (freedom + square), square / (freedom + square));
    incomplete_beta([x, rest], freedom / 2.0, 0.5)
}

/// The 97.5 % quantile: |T| exceeds it with a probability of 5 %. `freedom` is 1 or more.
pub fn quantile_975(freedom: f64) -> f64 {
    // From below the normal quantile to above that of one degree of freedom.
    let (mut below, mut above) = (1.9, 13.0);
    loop {
        let middle = f64::midpoint(below, above);
        if middle <= below || middle >= above {
            return middle;
        }
        if two_sided_p(middle, freedom) > 0.05 {
            below = middle;
        } else {
            above = middle;
        }
    }
}

/// `I_x(a, b)` of x and 1 - x, which both keep their digits near 0.
fn incomplete_beta([x, rest]: [f64; 2], a: f64, b: f64) -> f64 {
    if x <= 0.0 || rest <= 0.0 {
        return if x <= 0.0 { 0.0 } else { 1.0 };
    }
    let logarithm = libm::lgamma(a + b) - libm::lgamma(a) - libm::lgamma(b)
        + a * libm::log(x)
        + b * libm::log(rest);
    let front = libm::exp(logarithm);
    // The fraction converges fast on one side of the mean.
    if x < (a + 1.0) / (a + b + 2.0) {
        front * continued_fraction(x, a, b) / a
    } else {
        1.0 - front * continued_fraction(rest, b, a) / b
    }
}

fn continued_fraction(x: f64, a: f64, b: f64) -> f64 {
    let away_from_zero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut numerator = 1.0;
    let mut denominator = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = denominator;
    for m in (1..=MOST_TERMS).map(f64::from) {
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for term in [even, odd] {
            denominator = 1.0 / away_from_zero(1.0 + term * denominator);
            numerator = away_from_zero(1.0 + term / numerator);
            change = denominator * numerator;
            fraction *= change;
        }
        if (change - 1.0).abs() < PRECISION {
            break;
        }
    }
    fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of one and two degrees of freedom, whose distributions have closed forms.
    #[test]
    fn tails_are_those_of_the_closed_forms() {
        for t in [0.0, 1e-6, 0.3, 1.0, 2.5, 12.7, 1e3, 1e8] {
            let cauchy = 1.0 - 2.0 / std::f64::consts::PI * f64::atan(t);
            let found = two_sided_p(t, 1.0);
            assert!((found - cauchy).abs() < 1e-14, "{t}: {found}, {cauchy}");
            let two = 1.0 - t / f64::sqrt(2.0 + t * t);
            let found = two_sided_p(-t, 2.0);
            assert!((found - two).abs() < 1e-14, "{t}: {found}, {two}");
        }
        assert!(two_sided_p(f64::INFINITY, 3.0) <= 0.0);
    }

    /// Another way: the density integrated by Simpson's rule.
    #[test]
    fn tail_is_the_integral_of_the_density() {
        for freedom in [1.5, 3.7, 10.0, 47.3, 400.0] {
            let constant =
                libm::exp(libm::lgamma(f64::midpoint(freedom, 1.0)) - libm::lgamma(freedom / 2.0))
                    / (freedom * std::f64::consts::PI).sqrt();
            let density = |t: f64| constant * (1.0 + t * t / freedom).powf(-(freedom + 1.0) / 2.0);
            for t in [0.5, 2.0, 4.0] {
                let (steps, mut sum) = (2000, density(0.0) + density(t));
                for n in 1..steps {
                    let weight = if n % 2 == 1 { 4.0 } else { 2.0 };
                    sum += weight * density(t * f64::from(n) / f64::from(steps));
                }
                let tail = 1.0 - 2.0 * sum * t / f64::from(steps) / 3.0;
                let found = two_sided_p(t, freedom);
                assert!((found - tail).abs() < 1e-10, "{freedom}, {t}: {found}, {tail}");
            }
        }
    }

    #[test]
    fn quantiles_are_the_published_ones() {
        let published = [
            (1.0, 12.7062),
            (2.0, 4.3027),
            (10.0, 2.2281),
            (11.0, 2.2010),
            (30.0, 2.0423),
            (120.0, 1.9799),
            (1e6, 1.959_966),
        ];
        for (freedom, t) in published {
            assert!((quantile_975(freedom) - t).abs() < 5.1e-5, "{}", quantile_975(freedom));
        }
    }
}
