// SPDX-License-Identifier: GPL-2.0-or-later
//! Which trailers go on.

use super::{
    super::Fields,
    allowed::{self, Part},
    beyond,
};

/// The trailers of an answer that a depot passes on: what can be known of a body only when it has passed. A receiver
/// may merge trailers into the head and obey them there (RFC 9110, section 6.5.1), so nothing else does.
pub fn trailers_for_client(came: &Fields) -> Fields {
    of(Part::Trailers, came)
}

/// Those of a request.
pub fn trailers_for_origin(came: &Fields) -> Fields {
    of(Part::RequestTrailers, came)
}

fn of(part: Part, came: &Fields) -> Fields {
    let beyond = beyond(came);
    let goes_on = |name, value| beyond(name) && allowed::goes_on(part, name, value);
    let going = came.iter().filter(|(name, value)| goes_on(name, value));
    going.map(|(name, value)| (name.clone(), value.clone())).collect()
}
