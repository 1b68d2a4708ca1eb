// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul depot keygen`: the key that signs a depot's announcements.

use crate::{failure::Failure, key_files, random::random};
use clap::Args;
use protocol::{DepotAddress, ticket::Signer};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  longhaul depot keygen https:paris.example.org paris.pem --public depots.jwks
  longhaul depot keygen tokyo.example.net:3880 tokyo.pem --add-to depots.jwks";

/// Make a key that signs a depot's announcements.
///
/// Writes the private key, for register.key of this depot, to a new file that only its owner can read. Prints the public
/// key as a JWK Set, for register.trust of all depots and `trust` of clients' registers.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct KeygenArgs {
    /// Address of the depot, as in its register.address; the key is only valid for it
    #[arg(value_name = "[https:]HOST[:PORT]")]
    address: DepotAddress,
    /// New file for the private key (PEM, PKCS #8); an existing file is never overwritten
    key: PathBuf,
    /// Write the public key (JWK Set) to a new file instead of printing it
    #[arg(long, value_name = "FILE", conflicts_with = "add_to")]
    public: Option<PathBuf>,
    /// Add the public key to this JWK Set
    #[arg(long, value_name = "FILE")]
    add_to: Option<PathBuf>,
}

pub fn run(args: &KeygenArgs) -> Result<(), Failure> {
    let signer = Signer::from_seed(random()?).map_err(Failure::failed)?;
    let signer = signer.named(&args.address.to_string());
    key_files::write_pair(&signer, &args.key, args.public.as_deref(), args.add_to.as_deref())?;
    errln!("private key: {}; key name: {}", args.key.display(), args.address);
    Ok(())
}
