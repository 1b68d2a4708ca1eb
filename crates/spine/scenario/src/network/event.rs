// SPDX-License-Identifier: GPL-2.0-or-later
//! `[[event]]`.

use crate::{
    diagnostics::Location,
    fields::{Fields, Located, Name},
};
use units::Duration;

#[derive(Debug, Clone)]
pub(crate) struct EventSpec {
    pub location: Location,
    pub name: Name,
    pub after: Option<Located<Name>>,
    pub at: Duration,
    pub kill: Option<Located<Name>>,
    pub restart: Option<Located<Name>>,
    pub start: Option<Located<Name>>,
}

pub(super) fn event(mut fields: Fields<'_>) -> Option<EventSpec> {
    let name = fields.required("name");
    let after = fields.optional("after");
    let at = fields.or("at", Duration::ZERO);
    let (kill, restart) = (fields.optional("kill"), fields.optional("restart"));
    let start = fields.optional("start");
    let location = fields.location().clone();
    fields.finish();
    Some(EventSpec { location, name: name?, after, at, kill, restart, start })
}
