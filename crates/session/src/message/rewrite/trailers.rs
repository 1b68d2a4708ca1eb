// SPDX-License-Identifier: GPL-2.0-or-later
//! Which trailers go on.

use super::{
    super::Fields,
    allowed::{self, Part},
    beyond,
};

/// The trailers that a depot passes on of those that came: what can be known of a body only when it has
/// passed. A receiver may merge trailers into the head and obey them there (RFC 9110, section 6.5.1), so
/// nothing else does.
pub fn trailers_for(came: &Fields) -> Fields {
    let beyond = beyond(came);
    let goes_on = |name, value| beyond(name) && allowed::goes_on(Part::Trailers, name, value);
    let going = came.iter().filter(|(name, value)| goes_on(name, value));
    going.map(|(name, value)| (name.clone(), value.clone())).collect()
}
