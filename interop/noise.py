# SPDX-License-Identifier: GPL-2.0-or-later
"""Noise_NNpsk0_25519_AESGCM_SHA256 (Noise, revision 34), and records over a socket, sealed by it (docs/lsl.md, 12).

Needs Python 3.11, numpy and cryptography.
"""
import hashlib, hmac, time

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hashes import derive_key

NAME = b"Noise_NNpsk0_25519_AESGCM_SHA256"  # HASHLEN bytes, and so the first hash as it is
HELLO, ATTACH, END, SEALED = 1, 3, 23, 24
TAG, LONGEST, MARKS = 16, 65535, {1: HELLO, 2: ATTACH}
CONTEXTS = {HELLO: b"longhaul lsl 1 sealed beginning", ATTACH: b"longhaul lsl 1 sealed continuation"}  # 12.3

def u(value, size=8):
    return value.to_bytes(size, "big")

def number(data):
    return int.from_bytes(data, "big")

def public_bytes(private):
    return private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)

def hkdf(chain, material, count):
    secret, values = hmac.digest(chain, material, "sha256"), [b""]
    for at in range(1, count + 1):
        values.append(hmac.digest(secret, values[-1] + u(at, 1), "sha256"))
    return values[1:]


class Cipher:
    """CipherState of Noise, with the nonces of AESGCM."""
    def __init__(self, key):
        self.aead, self.nonce = AESGCM(key), 0

    def apply(self, operation, data, associated):
        self.nonce += 1
        return operation(bytes(4) + u(self.nonce - 1), data, associated)

    def encrypt(self, plain, associated=b""):
        return self.apply(self.aead.encrypt, plain, associated)

    def decrypt(self, sealed, associated=b""):
        return self.apply(self.aead.decrypt, sealed, associated)


class Noise:
    """One end: role 0 initiator, 1 responder. `messages` are those of the handshake that have passed; after 2 of
    them seal and open are those of transport."""
    def __init__(self, role, prologue, psk, private=None):
        self.role, self.private, self.theirs = role, private or X25519PrivateKey.generate(), None
        self.messages, self.hash, self.chain = 0, NAME, NAME
        self.mix_hash(prologue)
        self.chain, mixed, key = hkdf(self.chain, psk, 3)  # psk0
        self.mix_hash(mixed)
        self.cipher = Cipher(key)

    def mix_hash(self, data):
        self.hash = hashlib.sha256(self.hash + data).digest()

    def mix_key(self, material):
        self.chain, key = hkdf(self.chain, material, 2)
        self.cipher = Cipher(key)

    def mix_public(self, public):
        """Token e, and ee in the second message."""
        self.mix_hash(public)
        self.mix_key(public)
        if self.messages == 1:
            self.mix_key(self.private.exchange(X25519PublicKey.from_public_bytes(self.theirs)))

    def passed(self, sealed):
        self.mix_hash(sealed)
        self.messages += 1
        if self.messages == 2:
            keys = hkdf(self.chain, b"", 2)
            self.sending, self.receiving = Cipher(keys[self.role]), Cipher(keys[1 - self.role])

    def seal(self, plain):
        if self.messages == 2:
            return self.sending.encrypt(plain)
        if self.messages != self.role:
            raise ConnectionError("nothing can be sealed before the other end's first message")
        public = public_bytes(self.private)
        self.mix_public(public)
        sealed = self.cipher.encrypt(plain, self.hash)
        self.passed(sealed)
        return public + sealed

    def open(self, message):
        try:
            if self.messages == 2:
                return self.receiving.decrypt(message, b"")
            self.theirs, sealed = message[:32], message[32:]
            self.mix_public(self.theirs)
            plain = self.cipher.decrypt(sealed, self.hash)
        except (InvalidTag, ValueError):  # of a public key that is too short or gives zeros
            raise ConnectionError("a message cannot be opened")
        self.passed(sealed)
        return plain


class Channel:
    """Bytes of records over a socket: as they are, or sealed after `begin` or `accept`."""
    def __init__(self, sock):
        self.sock, self.heard, self.noise, self.mark, self.buffer = sock, time.monotonic(), None, b"", bytearray()

    def begin(self, session, kind, key):
        """Of the initiator: seals what is written from now on, first a record of this kind."""
        self.noise, self.mark = Noise(0, session, derive_key(CONTEXTS[kind], key)), u(kind // 2 + 1, 1)

    def accept(self, session, keys, message):
        """Opens the initiator's first message, with a key for HELLO and one for ATTACH. The record in it is read next.
        Returns the code of END if it cannot be opened, or 0."""
        kind = MARKS.get(message[0])
        if not kind:
            raise ConnectionError("the first message is neither HELLO nor ATTACH")
        if not keys[kind]:
            return 2 if kind == HELLO else 1
        noise = Noise(1, session, derive_key(CONTEXTS[kind], keys[kind]))
        try:
            record = noise.open(message[1:])
        except ConnectionError:
            if kind == ATTACH:
                raise
            return 2
        if record[:4] != u(kind, 1) + u(len(record) - 4, 3):
            raise ConnectionError("the first message holds something else than its record")
        self.noise, self.buffer = noise, bytearray(record)
        return 0

    def exactly(self, size):
        data = bytearray()
        while len(data) < size:
            got = self.sock.recv(size - len(data))
            if not got:
                raise ConnectionError("the connection was closed")
            data += got
        self.heard = time.monotonic()
        return bytes(data)

    def write(self, record):
        if self.noise:
            most = LONGEST - TAG if self.noise.messages == 2 else len(record)
            messages = [self.mark + self.noise.seal(record[at:at + most]) for at in range(0, len(record), most)]
            record, self.mark = b"".join(u(SEALED, 1) + u(len(message), 3) + message for message in messages), b""
        self.sock.sendall(record)

    def read(self, size):
        if not self.noise:
            return self.exactly(size)
        while len(self.buffer) < size:
            kind, length = self.exactly(1)[0], number(self.exactly(3))
            end = kind == END and self.noise.messages == 1  # 12.6: the acceptor cannot seal it
            if length > LONGEST or (kind != SEALED and not end):
                raise ConnectionError(f"record {kind} of {length} bytes is not sealed, or has a wrong length")
            payload = self.exactly(length)
            self.buffer += u(kind, 1) + u(length, 3) + payload if end else self.open(payload)
        data = bytes(self.buffer[:size])
        del self.buffer[:size]
        return data

    def open(self, message):
        second = self.noise.messages == 1
        plain = self.noise.open(message)
        if not plain or (second and number(plain[1:4]) != len(plain) - 4):
            raise ConnectionError("a message holds nothing, or the second one not exactly one record")
        return plain
