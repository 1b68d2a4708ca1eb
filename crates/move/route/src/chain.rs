// SPDX-License-Identifier: GPL-2.0-or-later
//! Chains of depots as they are written: `d1.example.net,https:d2.example.org`, the nearest first.

use protocol::{AuthorityError, DepotAddress, RouteError, check_depots};

/// Text that is no chain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChainTextError {
    /// One of the depots is malformed.
    #[error(transparent)]
    Depot(#[from] AuthorityError),
    /// There are too many, or one is there twice.
    #[error(transparent)]
    Route(#[from] RouteError),
}

/// Reads a chain: depots with commas between them, the nearest first.
///
/// # Errors
/// One is malformed, there are more than 16, or one is there twice.
pub fn read_chain(text: &str) -> Result<Vec<DepotAddress>, ChainTextError> {
    let depots: Vec<_> = text.split(',').map(str::parse).collect::<Result<_, AuthorityError>>()?;
    check_depots(&depots)?;
    Ok(depots)
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::MAX_DEPOTS;

    #[test]
    fn chains_are_read_and_bounded() {
        let chain = read_chain("d1,https:d2:1").unwrap();
        assert_eq!(
            chain.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["d1:3880", "https:d2:1"]
        );
        assert!(matches!(read_chain("d1,,d2"), Err(ChainTextError::Depot(_))));
        assert!(matches!(
            read_chain("d1,d2,D1:3880"),
            Err(ChainTextError::Route(RouteError::Twice(_)))
        ));
        let many: Vec<String> = (0..=MAX_DEPOTS).map(|n| format!("d{n}")).collect();
        let most = many[..MAX_DEPOTS].join(",");
        assert_eq!(read_chain(&most).unwrap().len(), MAX_DEPOTS);
        assert!(matches!(
            read_chain(&many.join(",")),
            Err(ChainTextError::Route(RouteError::TooManyDepots(17)))
        ));
    }
}
