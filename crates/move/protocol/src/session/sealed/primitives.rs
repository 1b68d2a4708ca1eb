// SPDX-License-Identifier: GPL-2.0-or-later
//! Cryptographic primitives for Noise: X25519, AES-256-GCM and SHA-256 of the library that TLS uses as well,
//! several times faster than those of `snow`, and random bytes that the caller supplies.

use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    agreement::{PrivateKey, UnparsedPublicKey, X25519, agree},
    digest::{Context, SHA256},
};
use snow::{
    Error,
    params::{CipherChoice, DHChoice, HashChoice},
    resolvers::CryptoResolver,
    types::{Cipher, Dh, Hash, Random},
};

/// Length in bytes of the authentication tag that follows a message.
pub(super) const TAG: usize = 16;

/// Supplies the primitives. The random bytes become one private key.
pub(super) struct Primitives(pub(super) [u8; 32]);

impl CryptoResolver for Primitives {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(Given(Some(self.0))))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        matches!(choice, DHChoice::Curve25519).then(|| Box::new(Agreement::default()) as _)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        matches!(choice, HashChoice::SHA256).then(|| Box::new(Sha256::default()) as _)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        matches!(choice, CipherChoice::AESGCM).then(|| Box::new(Aes::default()) as _)
    }
}

/// Random bytes, once.
struct Given(Option<[u8; 32]>);

impl Random for Given {
    fn try_fill_bytes(&mut self, to: &mut [u8]) -> Result<(), Error> {
        let random = self.0.take().filter(|random| random.len() == to.len()).ok_or(Error::Rng)?;
        to.copy_from_slice(&random);
        Ok(())
    }
}

#[derive(Default)]
struct Agreement {
    private: [u8; 32],
    public: [u8; 32],
}

impl Agreement {
    fn key(&self) -> Result<PrivateKey, Error> {
        PrivateKey::from_private_key(&X25519, &self.private).map_err(|_| Error::Dh)
    }
}

impl Dh for Agreement {
    fn name(&self) -> &'static str {
        "25519"
    }

    fn pub_len(&self) -> usize {
        32
    }

    fn priv_len(&self) -> usize {
        32
    }

    fn set(&mut self, private: &[u8]) {
        self.private.copy_from_slice(private);
        let public = self.key().and_then(|key| key.compute_public_key().map_err(|_| Error::Dh));
        self.public.copy_from_slice(public.expect("any 32 bytes are a key").as_ref());
    }

    fn generate(&mut self, random: &mut dyn Random) -> Result<(), Error> {
        let mut private = [0; 32];
        random.try_fill_bytes(&mut private)?;
        self.set(&private);
        Ok(())
    }

    fn pubkey(&self) -> &[u8] {
        &self.public
    }

    fn privkey(&self) -> &[u8] {
        &self.private
    }

    fn dh(&self, public: &[u8], out: &mut [u8]) -> Result<(), Error> {
        let other = public.get(..32).ok_or(Error::Dh)?;
        // A key of small order, which would lead anybody to the same secret, is an error.
        agree(&self.key()?, UnparsedPublicKey::new(&X25519, other), Error::Dh, |shared| {
            out[..32].copy_from_slice(shared);
            Ok(())
        })
    }
}

#[derive(Default)]
struct Aes(Option<LessSafeKey>);

impl Aes {
    fn key(&self) -> &LessSafeKey {
        self.0.as_ref().expect("a cipher has a key before it is used")
    }
}

/// As section 12.4 of Noise has it: zeros, and the number of the message.
fn nonce(number: u64) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    bytes[4..].copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

impl Cipher for Aes {
    fn name(&self) -> &'static str {
        "AESGCM"
    }

    fn set(&mut self, key: &[u8; 32]) {
        let key = UnboundKey::new(&AES_256_GCM, key).expect("a key of 32 bytes");
        self.0 = Some(LessSafeKey::new(key));
    }

    fn encrypt(&self, number: u64, covered: &[u8], plain: &[u8], out: &mut [u8]) -> usize {
        let (sealed, tag) = out[..plain.len() + TAG].split_at_mut(plain.len());
        sealed.copy_from_slice(plain);
        let made = self.key().seal_in_place_separate_tag(nonce(number), Aad::from(covered), sealed);
        tag.copy_from_slice(made.expect("a message is short").as_ref());
        plain.len() + TAG
    }

    fn decrypt(
        &self,
        number: u64,
        covered: &[u8],
        sealed: &[u8],
        out: &mut [u8],
    ) -> Result<usize, Error> {
        let length = sealed.len().checked_sub(TAG).ok_or(Error::Decrypt)?;
        let (bytes, tag) = sealed.split_at(length);
        let out = out.get_mut(..length).ok_or(Error::Decrypt)?;
        self.key()
            .open_separate_gather(nonce(number), Aad::from(covered), bytes, tag, out)
            .map_err(|_| Error::Decrypt)?;
        Ok(length)
    }
}

struct Sha256(Context);

impl Default for Sha256 {
    fn default() -> Self {
        Self(Context::new(&SHA256))
    }
}

impl Hash for Sha256 {
    fn name(&self) -> &'static str {
        "SHA256"
    }

    fn block_len(&self) -> usize {
        64
    }

    fn hash_len(&self) -> usize {
        32
    }

    fn reset(&mut self) {
        *self = Self::default();
    }

    fn input(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    fn result(&mut self, out: &mut [u8]) {
        let context = std::mem::take(self).0;
        out[..32].copy_from_slice(context.finish().as_ref());
    }
}
