#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Leaves a file at a depot that keeps sessions, or collects one, as longhaul does; written from docs/lsl.md alone.

Needs what lsl.py needs, and the file in memory. Not here: list, extend, drop, and continuing in another process.
"""
import argparse, io, json, os, pathlib, secrets, sys

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from lsl import Failed, Session, peer
from noise import public_bytes
from parcel import Refused, keys, read, write


def public_of(seed):
    return public_bytes(Ed25519PrivateKey.from_private_bytes(seed))

def signed(seed, request):
    """13.2: gives the note of HELLO for a session and the key in HELLO."""
    text, public = json.dumps(request, separators=(",", ":")).encode(), public_of(seed)
    sign = Ed25519PrivateKey.from_private_bytes(seed).sign
    context = b"longhaul lsl 1 store request"
    return lambda session, key: sign(context + session + key + public + text) + public + text

def leave(path, peers, code, encrypt):
    name, collector, secret = keys(code)
    note = {"kind": "file", "name": path.name, "bytes": path.stat().st_size}
    note = json.dumps(note, separators=(",", ":")).encode()
    stored = write(note, path.read_bytes(), secrets.token_bytes(32), secret if encrypt else None)
    request = {"do": "leave", "collector": public_of(collector).hex(), "bytes": len(stored), "life_s": 3600}
    owner = secrets.token_bytes(32)
    Session(0, io.BytesIO(stored), io.BytesIO(), peers, name=name, request=signed(owner, request)).run()

def collect(path, peers, code, encrypt):
    name, collector, secret = keys(code)
    request, stored = {"do": "collect", "session": name.hex(), "from": 0}, io.BytesIO()
    Session(0, io.BytesIO(), stored, peers, request=signed(collector, request)).run()
    if encrypt and stored.getvalue()[9:10] == b"\0":
        raise Refused("it is not encrypted")
    note, content = read(stored.getvalue(), secret)
    print(f"note: {note.decode(errors='replace')}", file=sys.stderr)
    path.write_bytes(content)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["leave", "collect"])
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--via", action="append", required=True, type=peer, metavar="HOST:PORT", help="a depot")
    parser.add_argument("--code", required=True, help="20 characters")
    parser.add_argument("--no-encryption", dest="encrypt", action="store_false", help="leave, or accept, plain bytes")
    args = parser.parse_args()
    code = args.code.lower().translate(str.maketrans("oil", "011", "- ")).encode()
    try:
        {"leave": leave, "collect": collect}[args.command](args.file, args.via, code, args.encrypt)
    except (Failed, Refused) as error:
        sys.exit(f"{args.command}: {error}")


if __name__ == "__main__":
    main()
