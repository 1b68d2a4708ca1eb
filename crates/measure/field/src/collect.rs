// SPDX-License-Identifier: GPL-2.0-or-later
//! Fetches a host's record, by another connection if one ends.

use crate::{
    error::FieldError,
    message::{Answer, Ask},
    method::{Field, keep_alive, of},
    pack,
    remote::Remote,
};
use experiment::ExperimentError;
use record::Record;
use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, Write},
    path::Path,
    time::Duration,
};
use tokio::time::sleep;
use units::text::hexadecimal;

/// The largest file that is fetched.
const MOST_BYTES: u64 = 1 << 30;
/// How many pieces are fetched until other hosts hear of the engine again.
const PIECES: usize = 64;
/// The longest piece.
const PIECE: usize = 1 << 20;
/// How often another connection is tried, and after which pause.
const CONNECTIONS: u32 = 5;
const PAUSE: Duration = Duration::from_secs(2);

/// The record of a host's part, which is over; its files are left in a new folder.
pub async fn collect(
    field: &Field,
    remotes: &mut HashMap<String, Remote>,
    node: &str,
    folder: &Path,
) -> Result<Record, ExperimentError> {
    let failed = |error| ExperimentError::file("fetch a host's record into", folder, error);
    let token = hexadecimal(&host::random::<8>().map_err(failed)?);
    let remote = of(remotes, node)?;
    let answer = remote.part(&Ask::Collect { token: token.clone() }).await?;
    let Answer::File { bytes, sha256 } = answer else {
        return Err(remote.unexpected(&format!("{answer:?}")).into());
    };
    if bytes > MOST_BYTES {
        return Err(remote.fails("its record is too large").into());
    }
    let packed = folder.with_extension("packed");
    let mut fetched = Fetched { file: File::create(&packed).map_err(failed)?, length: 0, bytes };
    let mut tries = 0;
    while fetched.length < bytes {
        // The others wait meanwhile; one that is gone is missed when its own record is fetched.
        let _ = keep_alive(remotes).await;
        match fetched.some(of(remotes, node)?, &token).await {
            Ok(()) => {}
            Err(FieldError::Gone { .. }) if tries < CONNECTIONS => {
                tries += 1;
                sleep(PAUSE * (tries - 1)).await;
                // It may take another try until the host is reached, and until its last guard is gone.
                let _ = field.reach_again(node, remotes).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
    drop(fetched);
    if pack::sha256_of(&packed).map_err(failed)? != (bytes, sha256) {
        return Err(of(remotes, node)?.fails("its record does not arrive as it was sent").into());
    }
    pack::unpack(&packed, folder).map_err(failed)?;
    fs::remove_file(&packed).map_err(failed)?;
    let record = Record::open(folder)?;
    // It is removed with others when room is needed.
    let _ = of(remotes, node)?.order(&Ask::Discard { token }).await;
    Ok(record)
}

struct Fetched {
    file: File,
    length: u64,
    bytes: u64,
}

impl Fetched {
    /// Goes on with what is there, for some pieces.
    async fn some(&mut self, remote: &mut Remote, token: &str) -> Result<(), FieldError> {
        for _ in 0..PIECES {
            if self.length == self.bytes {
                break;
            }
            let ask = Ask::Fetch { token: token.to_owned(), offset: self.length };
            let answer = remote.part(&ask).await?;
            let piece = match &answer {
                Answer::Piece { data } => pack::from_base64(data, PIECE),
                _ => None,
            };
            let left = self.bytes - self.length;
            let piece = piece.filter(|piece| !piece.is_empty() && piece.len() as u64 <= left);
            let piece = piece.ok_or_else(|| remote.unexpected("a piece of another length"))?;
            let own = |error: io::Error| FieldError::Own(error.to_string());
            self.file.write_all(&piece).map_err(own)?;
            self.length += piece.len() as u64;
        }
        Ok(())
    }
}
