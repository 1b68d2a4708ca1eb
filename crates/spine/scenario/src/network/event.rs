// SPDX-License-Identifier: GPL-2.0-or-later
//! `[[event]]`.

use super::values::Headings;
use crate::{
    diagnostics::Location,
    fields::{Fields, Located, Name},
    run::{Heading, Loss},
};
use units::{Duration, Rate};

#[derive(Debug, Clone)]
pub(crate) struct EventSpec {
    pub location: Location,
    pub name: Name,
    pub after: Option<Located<Name>>,
    pub at: Duration,
    pub kill: Option<Located<Name>>,
    pub restart: Option<Located<Name>>,
    pub start: Option<Located<Name>>,
    pub change: Option<Located<Name>>,
    pub of_link: LinkChangeSpec,
    pub moves: Option<Located<Name>>,
    pub to: Option<Located<Name>>,
}

/// The keys that say what changes of a link.
#[derive(Debug, Clone)]
pub(crate) struct LinkChangeSpec {
    pub headings: Option<&'static [Heading]>,
    pub rate: Option<Rate>,
    pub delay: Option<Duration>,
    pub loss: Option<Loss>,
    pub cut: Option<bool>,
}

impl LinkChangeSpec {
    fn read(fields: &mut Fields<'_>) -> Self {
        let has_loss = fields.raw("loss").is_some();
        Self {
            headings: fields.optional::<Headings>("direction").map(|headings| headings.0),
            rate: fields.optional("rate"),
            delay: fields.optional("delay"),
            loss: has_loss.then(|| super::loss(fields)),
            cut: fields.optional("cut"),
        }
    }

    /// Whether a property is given.
    pub fn has_any(&self) -> bool {
        self.rate.is_some() || self.delay.is_some() || self.loss.is_some() || self.cut.is_some()
    }
}

pub(super) fn event(mut fields: Fields<'_>) -> Option<EventSpec> {
    let name = fields.required("name");
    let after = fields.optional("after");
    let at = fields.or("at", Duration::ZERO);
    let (kill, restart) = (fields.optional("kill"), fields.optional("restart"));
    let start = fields.optional("start");
    let (change, of_link) = (fields.optional("change"), LinkChangeSpec::read(&mut fields));
    let (moves, to) = (fields.optional("move"), fields.optional("to"));
    let location = fields.location().clone();
    fields.finish();
    let name = name?;
    Some(EventSpec { location, name, after, at, kill, restart, start, change, of_link, moves, to })
}
