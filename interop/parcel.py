# SPDX-License-Identifier: GPL-2.0-or-later
"""The bytes of a stored session as longhaul leaves and collects them: docs/lsl.md, section 14. Needs what lsl.py needs.

All in memory: the body is made, or read, at once.
"""
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hashes import blake3, derive_key

MAGIC, HEAD, CHUNK, TAG, HASH = b"LHparcel\1", 42, 65536, 16, 32


class Refused(Exception):
    """These are not the bytes that were left."""

def keys(code):
    """14.1: the session's name, the seed of the collectors' key, and the secret."""
    contexts = b"longhaul lsl 1 stored id", b"longhaul lsl 1 stored collector", b"longhaul lsl 1 stored secret"
    name, seed, secret = (derive_key(context, code) for context in contexts)
    return name[:16], seed, secret

def cipher(secret, salt):
    return AESGCM(derive_key(b"longhaul lsl 1 parcel", secret + salt))

def nonce(number, is_last):
    return number.to_bytes(11, "big") + bytes([is_last])

def write(note, content, salt, secret=None):
    """14.2 to 14.4; without a secret not encrypted."""
    head = MAGIC + bytes([secret is not None]) + salt
    body = len(note).to_bytes(4, "big") + note + content + blake3(content)
    if secret is None:
        return head + body
    chunks = [body[at:at + CHUNK] for at in range(0, len(body), CHUNK)]
    seal = cipher(secret, salt).encrypt
    return head + b"".join(seal(nonce(n, n + 1 == len(chunks)), chunk, head) for n, chunk in enumerate(chunks))

def read(stored, secret=None):
    """Note and content."""
    head, body = stored[:HEAD], stored[HEAD:]
    if len(head) < HEAD or head[:9] != MAGIC or head[9] > 1 or (head[9] == 1 and secret is None) or not body:
        raise Refused("no head, or a secret is needed")
    if head[9] == 1:
        chunks, opens = [body[at:at + CHUNK + TAG] for at in range(0, len(body), CHUNK + TAG)], cipher(secret, head[10:])
        try:
            body = [opens.decrypt(nonce(n, n + 1 == len(chunks)), chunk, head) for n, chunk in enumerate(chunks)]
            body = b"".join(body)
        except (InvalidTag, ValueError):
            raise Refused("a chunk is not as it was sent")
    length = int.from_bytes(body[:4], "big")
    note, content, whole = body[4:4 + length], body[4 + length:-HASH], body[-HASH:]
    if length > 4096 or len(body) < 4 + length + HASH or blake3(content) != whole:
        raise Refused("the note is too long, or the content differs")
    return note, content
