// SPDX-License-Identifier: GPL-2.0-or-later
//! What is printed reads back as the same quantity.

use longhaul_units::{Bytes, Duration, Probability, Rate};
use proptest::prelude::*;

proptest! {
    // Text goes through a double, so whole numbers are exact up to 2^53.
    #[test]
    fn printing_and_parsing_are_inverse(n in 1u64..(1 << 53), p in 0.0f64..=1.0) {
        prop_assert_eq!(Bytes::new(n).to_string().parse(), Ok(Bytes::new(n)));
        prop_assert_eq!(Rate::bits_per_second(n).to_string().parse(), Ok(Rate::bits_per_second(n)));
        prop_assert_eq!(Duration::from_nanos(n).to_string().parse(), Ok(Duration::from_nanos(n)));
        let p = Probability::new(p).unwrap();
        prop_assert_eq!(p.to_string().parse(), Ok(p));
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,20}") {
        let _ = text.parse::<Bytes>();
        let _ = text.parse::<Rate>();
        let _ = text.parse::<Duration>();
        let _ = text.parse::<Probability>();
    }
}
