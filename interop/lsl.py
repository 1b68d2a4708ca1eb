#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Sends or receives a file in a session, as longhaul send and recv do; written from docs/lsl.md alone.

Needs Python 3.11, numpy and cryptography. Not here: TLS, tickets, target 1, several sessions or connections at a time,
and data from the acceptor to the initiator. Numbers in comments are rules of docs/lsl.md.
"""
import argparse, contextlib, hashlib, hmac, io, json, os, secrets, select, socket, sys, time

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

GROUP, WINDOW, EARLY = 262144, 1 << 25, 1 << 24
QUIET, SILENCE, PATIENCE, MEETING = 10, 30, 60, 3600  # seconds
OPEN, ANSWER = 1, 2
HELLO, WELCOME, ATTACH, ATTACHED, CONFIRM = 1, 2, 3, 4, 5
DATA, ACK, AGAIN, FIN, DONE, PING, PONG, END = 16, 17, 18, 19, 20, 21, 22, 23
SIZES = {**{kind: (0, 8192) for kind in range(1, 6)}, DATA: (41, 40 + GROUP), ACK: (16, 16), AGAIN: (8, 8),
         FIN: (72, 104), DONE: (72, 72), PING: (8, 8), PONG: (8, 8), END: (34, 34 + 1024)}
SESSION, ENCODINGS, KEY, NONCE, LIMIT, NOTE, DIGEST, POSITION, SECRET, PROOF = 1, 2, 3, 4, 5, 6, 7, 8, 9, 255
FIELDS = {HELLO: ({SESSION, ENCODINGS, KEY, LIMIT}, {NOTE, DIGEST, SECRET}),  # required and optional
          WELCOME: ({ENCODINGS, KEY, LIMIT, POSITION, PROOF}, {NOTE}), ATTACHED: ({NONCE, LIMIT, POSITION, PROOF}, set()),
          ATTACH: ({SESSION, NONCE, LIMIT, POSITION, PROOF}, set()), CONFIRM: ({PROOF}, set())}
DIGESTS = {b"\1": "sha256", b"\2": "md5"}


# BLAKE3, on arrays with a column for each chunk or parent that is computed at the same time.

IV = np.array([0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19], "<u4")
ORDER = [0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15]  # of the words as the rounds use them, four at a time
PERMUTATION = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8]
NEXT = [ORDER.index(PERMUTATION[word]) for word in ORDER]
LEFT, ACROSS, RIGHT = [1, 2, 3, 0], [2, 3, 0, 1], [3, 0, 1, 2]
CHUNK_START, CHUNK_END, PARENT, ROOT, KEYED, CONTEXT, MATERIAL = 1, 2, 4, 8, 16, 32, 64

def rotate(words, bits):
    return words >> np.uint32(bits) | words << np.uint32(32 - bits)

def compress(state, words, counter, length, flags):
    a, b, c, d = state[:4], state[4:], np.repeat(IV[:4, None], state.shape[1], 1), np.empty_like(state[:4])
    d[0], d[1], d[2], d[3] = counter & 0xFFFFFFFF, counter >> 32, length, flags
    words = words[ORDER]
    for _ in range(7):
        for half, there, back in ((0, LEFT, RIGHT), (8, RIGHT, LEFT)):  # columns, then diagonals
            for at, bits_d, bits_b in ((half, 16, 12), (half + 4, 8, 7)):
                a = a + b + words[at:at + 4]
                d = rotate(d ^ a, bits_d)
                c = c + d
                b = rotate(b ^ c, bits_b)
            b, c, d = b[there], c[ACROSS], d[back]
        words = words[NEXT]
    return np.concatenate((a ^ c, b ^ d))

def leaves(data, chunk, key, flags, root):
    """The chaining values of the chunks of `data`, the first of which has the number `chunk`, as columns."""
    count = max(1, -(-len(data) // 1024))
    words = np.frombuffer(bytes(data).ljust(count * 1024, b"\0"), "<u4").reshape(count, 16, 16)
    state, numbers = np.repeat(key[:, None], count, 1), np.arange(count, dtype=np.int64)
    for start in range(0, min(1024, len(data)) or 1, 64):
        left = np.minimum(1024, len(data) - 1024 * numbers) - start  # of each chunk
        bits = flags | (CHUNK_START if start == 0 else 0) | np.where(left <= 64, CHUNK_END | root, 0)
        after = compress(state, words[:, start // 64].T, numbers + chunk, np.minimum(left, 64), bits)
        state = np.where((left > 0) | (start == 0), after, state)
    return state

def merge(values, key=IV, flags=0, root=0):
    """The one node above these columns; of an odd number the last goes up a level as it is."""
    while (count := values.shape[1]) > 1:
        pairs = np.concatenate((values[:, 0:count - count % 2:2], values[:, 1::2]))
        bits = flags | PARENT | (root if count == 2 else 0)
        parents = compress(np.repeat(key[:, None], count // 2, 1), pairs, 0, 64, bits)
        values = np.concatenate((parents, values[:, count - count % 2:]), 1)
    return values.astype("<u4").tobytes()

def blake3(data, chunk=0, key=IV.tobytes(), flags=0, root=ROOT):
    """With root 0 the chaining value of a subtree that begins with the chunk of that number."""
    key = np.frombuffer(key, "<u4")
    return merge(leaves(data, chunk, key, flags, root if len(data) <= 1024 else 0), key, flags, root)

def derive_key(context, data):
    return blake3(data, key=blake3(context, flags=CONTEXT), flags=MATERIAL)

class End(Exception):
    """This end sends END with a code and a text. ValueError: with code 9. OSError: the connection is lost."""


class Failed(Exception):
    """The session is over without success."""


def u(value, size=8):
    return value.to_bytes(size, "big")

def number(data):
    return int.from_bytes(data, "big")

def pack(*fields):
    return b"".join(u(kind, 1) + u(len(value), 2) + value for kind, value in fields)

def unpack(data, required, optional, repeated=()):
    """Fields by type (1.2, 1.3), those that may be repeated as lists."""
    fields, last = {kind: [] for kind in repeated}, -1
    while data:
        kind, size = data[0], number(data[1:3])
        value, data, again = data[3:3 + size], data[3 + size:], kind == last and kind not in repeated
        if len(value) < size or kind < last or again or (kind < 128 and kind not in {*required, *optional, *repeated}):
            raise ValueError(f"field {kind} is unknown, out of order, repeated or cut off")
        fields[kind], last = fields[kind] + [value] if kind in repeated else value, kind
    if required - set(fields):
        raise ValueError(f"fields {required - set(fields)} are missing")
    return fields

def header(kind, *fields):
    return b"\xb1LSL\x01" + u(kind, 1) + u(len(pack(*fields)), 2) + pack(*fields)


class Stream:
    """The bytes of one direction, in a file, and the chaining values of whole groups once they are computed."""
    def __init__(self, file):
        self.file, self.size, self.values = file, file.seek(0, 2), {}

    def read(self, start, end):
        self.file.seek(start)
        return self.file.read(end - start)

    def value(self, end):
        """Of the group that ends at `end`, or is cut off there."""
        start = (end - 1) // GROUP * GROUP
        value = self.values.get(end) or blake3(self.read(start, end), start // 1024, root=0)
        if end % GROUP == 0:
            self.values[end] = value
        return value

    def join(self, start, end, root=0):
        values = b"".join(self.value(min(at, end)) for at in range(start + GROUP, end + GROUP, GROUP))
        return merge(np.frombuffer(values, "<u4").reshape(-1, 8).T, root=root)

    def position(self, size):
        """8.4"""
        values, at = b"", 0
        for length in (1 << bit for bit in reversed(range(18, 48))):
            if max(0, size - 1) & length:
                values += self.join(at, at + length)
                at += length
        return u(size) + values + (self.value(size) if size else b"")

    def whole(self):
        """Length and hash, as in FIN and DONE."""
        return u(self.size) + (self.join(0, self.size, ROOT) if self.size > GROUP else blake3(self.read(0, self.size)))

    def digest(self, kind):
        self.file.seek(0)
        return hashlib.file_digest(self.file, DIGESTS[kind]).digest() if kind else b""


class Session:
    """Role 0: initiator, 1: acceptor. `peers` leads to the other end or, with `meeting`, to the meeting under the code."""
    def __init__(self, role, out, inp, peers=(), code="", meeting=False, listener=None, asks=()):
        self.role, self.out, self.inp, self.peers, self.meeting = role, Stream(out), Stream(inp), peers, meeting
        self.listener, self.asks, self.digest = listener, asks, dict(asks).get(DIGEST)
        self.secret = derive_key(b"longhaul lsl 1 code", code.encode()) if code else b""
        self.name = derive_key(b"longhaul lsl 1 meeting", code.encode())[:16] if meeting else None
        self.session_key, self.connections, self.damaged, self.since = None, 0, {}, time.monotonic()
        self.sent = self.received = False  # whether DONE has come, or has been sent

    def say(self, text):
        print(f"{('send', 'receive')[self.role]}: {text}", file=sys.stderr, flush=True)

    def over(self):
        return self.sent and self.received

    # Connections, headers and records.

    def exactly(self, size):
        data = bytearray()
        while len(data) < size:
            got = self.sock.recv(size - len(data))
            if not got:
                raise ConnectionError("the connection was closed")
            data += got
        self.heard = time.monotonic()
        return bytes(data)

    def header(self, kind, *fields):
        start = self.exactly(8)
        if start[:6] != b"\xb1LSL\x01" + u(kind, 1) or number(start[6:]) > 16384:
            raise ValueError("this is no header of the expected kind")
        return unpack(self.exactly(number(start[6:])), *fields)

    def accept(self):
        fields = self.header(OPEN, {1, 3}, {4, 6}, {2, 5})
        self.name_asked, ok = fields[1], len(fields[1]) == 16 and fields[3] == b"\0" and not fields[2]
        self.sock.sendall(header(ANSWER, (1, u(200 if ok else 400, 2)), (3, b"end")))
        if not ok:
            raise ConnectionError("an acceptor wants a session, target 0 and no hops")

    def open(self):
        self.name_asked = self.name = self.name or secrets.token_bytes(16)
        hops = [(2, bytes(11) + u(port, 2) + host.encode()) for host, port in self.peers[1:]]  # 2.1
        target = u(2, 1) + u(self.role, 1) if self.meeting else u(0, 1)
        self.sock.sendall(header(OPEN, (1, self.name), *hops, (3, target)))
        self.sock.settimeout(SILENCE)
        while 100 <= (status := number((answer := self.header(ANSWER, {1, 3}, {2, 4}, {5}))[1])) < 200:
            self.sock.settimeout(MEETING)
        self.since = time.monotonic()  # 3.4
        if status != 200:
            by, error, text = (answer.get(field, b"").decode() for field in (3, 2, 4))
            raise (Failed if status < 500 and status != 409 else OSError)(f"{by} answers {status}: {error} {text}")

    def put(self, kind, payload):
        self.sock.sendall(u(kind, 1) + u(len(payload), 3) + payload)

    def record(self, wait):
        """The next record that means something to the callers; None if there is none within the time."""
        while select.select([self.sock], [], [], wait)[0]:
            kind, size = self.exactly(1)[0], number(self.exactly(3))
            least, most = SIZES.get(kind, (0, 40 + GROUP))
            if (kind not in SIZES and kind < 128) or not least <= size <= most:
                raise ValueError(f"record {kind} of {size} bytes is unknown, or has a wrong length")
            payload = self.exactly(size)
            if kind == PING:
                self.put(PONG, payload)
            elif kind == END:
                self.ended(payload[:2], payload[2:34], payload[34:])
            elif kind != PONG and kind < 128:
                return kind, payload
        if time.monotonic() - self.heard > SILENCE:
            raise ConnectionError("nothing arrives")

    def expect(self, wait, *kinds):
        kind, payload = self.record(wait) or (None, b"")
        if kind not in kinds:
            raise ValueError(f"record {kind} is not allowed here" if kind else "no record comes")
        return kind, payload

    def ended(self, code, proof, text):
        """10.2"""
        reason = f"the other end says END {number(code)}: {text.decode(errors='replace')}"
        if self.key and number(code) != 9 and proof == self.proof(b"end", 1 - self.role, code, text):
            raise Failed(reason)
        if number(code) == 1 and self.role == 0 and not self.proven:
            self.session_key, self.name = None, self.name if self.meeting else None  # another session begins
        raise ConnectionRefusedError(reason)

    def end(self, code, text):
        code, text = u(code, 2), text.encode()
        self.put(END, code + (self.proof(b"end", self.role, code, text) if self.proven else bytes(32)) + text)
        self.close()
        if self.proven and number(code) != 9:
            raise Failed(f"END {number(code)}: {text.decode()}")

    def close(self):
        """9.4"""
        self.sock.shutdown(socket.SHUT_WR)
        while self.sock.recv(1 << 20):
            pass

    # Proofs, and the beginning: sections 6 and 7.

    def proof(self, label, *rest):
        rest = b"".join(u(part, 1) if isinstance(part, int) else part for part in rest)  # a number is a direction
        return blake3(label + rest, key=self.key, flags=KEYED)

    def verify(self, proof, code, label, *rest):
        if not hmac.compare_digest(proof, self.proof(label, *rest)):
            raise End(code, f"wrong proof ({label.decode()})")

    def prove(self, label, before, *fields):
        return pack(*fields, (PROOF, self.proof(label, before, pack(*fields))))

    def greet(self):
        """Until CONFIRM: what the other end has, and up to where it takes data; and records that came before."""
        private, nonce, early = X25519PrivateKey.generate(), (NONCE, secrets.token_bytes(32)), []
        state = (LIMIT, u(self.inp.size + WINDOW)), (POSITION, self.inp.position(self.inp.size))
        public = (KEY, private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))
        if self.role == 0:
            kind, self.key = ATTACH if self.session_key else HELLO, self.session_key
            if kind == ATTACH:
                first = self.prove(b"attach", b"", (SESSION, self.name), nonce, *state)
            else:
                secret = [(SECRET, b"\1")] if self.secret else []
                first = pack((SESSION, self.name), (ENCODINGS, b"\1"), public, state[0], *self.asks, *secret)
            self.put(kind, first)
            answer = self.expect(SILENCE, kind + 1)[1]
            fields = unpack(answer, *FIELDS[kind + 1])
            keys = public[1] + fields.get(KEY, b"")
        else:
            kind, first = self.expect(QUIET, HELLO, ATTACH)
            fields = unpack(first, *FIELDS[kind])
            if fields[SESSION] != self.name_asked:
                raise ValueError("the session is not that of OPEN")
            if kind == ATTACH and (not self.session_key or self.name != self.name_asked):
                raise End(1, "unknown session")
            if kind == HELLO and self.session_key and not self.secret:
                raise End(5, "there is a session already")
            if kind == HELLO and bool(self.secret) != (SECRET in fields):
                raise End(2, "both ends need a code, or neither")
            self.key, keys = self.session_key, fields.get(KEY, b"") + public[1]
        if kind == HELLO:
            if 1 not in fields[ENCODINGS] or fields.get(DIGEST, b"\1") not in DIGESTS:
                raise ValueError("unknown encoding or digest")
            shared = private.exchange(X25519PublicKey.from_public_bytes(fields[KEY]))
            self.key = derive_key(b"longhaul lsl 1 session key", shared + self.name_asked + keys + self.secret)
        if self.role == 0:
            self.verify(fields[PROOF], 2, b"welcome" if kind == HELLO else b"attached", first, answer[:-35])
            self.proven = True
            self.check(fields[POSITION])
            self.put(CONFIRM, self.prove(b"confirm", first + answer))
        else:
            if kind == HELLO:
                answer = self.prove(b"welcome", first, (ENCODINGS, b"\1"), public, *state)
            else:
                self.verify(fields[PROOF], 2, b"attach", first[:-35])
                self.proven = True
                self.check(fields[POSITION])
                answer = self.prove(b"attached", first, nonce, *state)
            self.put(kind + 1, answer)
            allowed = (CONFIRM, DATA) if kind == HELLO and not self.secret else (CONFIRM,)  # 6.5
            while (record := self.expect(SILENCE, *allowed))[0] == DATA and len(early) < EARLY // 1024:
                early.append(record)
            self.verify(unpack(record[1], *FIELDS[CONFIRM])[PROOF], 2, b"confirm", first + answer)
            self.proven, self.name = True, self.name_asked
        if kind == HELLO:
            self.session_key, self.sent, self.received = self.key, False, False
            if self.role:
                self.digest = fields.get(DIGEST)
                self.say(f"note: {fields.get(NOTE, b'').decode(errors='replace')}")
        self.at = self.acknowledged = number(fields.get(POSITION, b"")[:8])
        self.limit, self.again, self.put_fin = number(fields[LIMIT]), [], False
        self.told, self.parts, self.asked, self.fin = self.inp.size, {}, set(), None
        for record in early:
            self.take(*record)

    def check(self, position):
        """8.5"""
        size = number(position[:8])
        if size > self.out.size or position != self.out.position(size):
            raise End(3, "the prefix is not the same")

    # Data: sections 8 and 9.

    def transfer(self):
        while not self.over():
            next_group = min(self.at // GROUP * GROUP + GROUP, self.out.size, self.limit)
            start, end = self.again[0] if self.again else (self.at, next_group)
            fin = not self.again and self.at == self.out.size and not self.put_fin and not self.sent
            record = self.record(0 if start < end or fin or self.inp.size > self.told else QUIET)
            if record:
                self.take(*record)
            if self.inp.size - self.told >= (4 << 20 if record else 1):
                self.told = self.inp.size
                self.put(ACK, u(self.told) + u(self.told + WINDOW))
            elif record:
                continue
            elif start < end:
                self.put(DATA, u(start) + self.out.value(end) + self.out.read(start, end))
                self.again, self.at = self.again[1:], max(self.at, end)
            elif fin:
                whole, self.put_fin = self.out.whole(), True
                self.put(FIN, whole + self.proof(b"fin", self.role, whole) + self.out.digest(self.digest))
            else:
                self.put(PING, bytes(8))

    def take(self, kind, payload):
        offset = number(payload[:8])
        if kind == DATA:
            self.take_data(offset, offset + len(payload) - 40, payload[8:40], payload[40:])
        elif kind == ACK and self.acknowledged <= offset <= self.at and number(payload[8:]) >= self.limit:
            self.acknowledged, self.limit = offset, number(payload[8:])
        elif kind == AGAIN and self.acknowledged <= offset < self.at:
            self.say(f"once more from {offset}")
            self.again.append((offset, min(offset // GROUP * GROUP + GROUP, self.at)))
        elif kind == DONE:
            self.verify(payload[40:], 9, b"done", self.role, payload[:40])
            self.sent = payload[:40] == self.out.whole()
        elif kind == FIN and offset >= self.inp.size:
            self.verify(payload[40:72], 9, b"fin", 1 - self.role, payload[:40])
            self.fin = payload
        else:
            raise ValueError(f"record {kind} is not allowed here")
        if self.fin and number(self.fin[:8]) > self.inp.size:
            self.ask(self.inp.size // GROUP)
        elif self.fin:
            whole, digest, self.fin = self.fin[:40], self.fin[72:], None
            if whole != self.inp.whole() or digest != self.inp.digest(self.digest):
                raise End(8, "the whole differs from what was sent")
            self.received = True
            self.put(DONE, whole + self.proof(b"done", 1 - self.role, whole))

    def take_data(self, start, end, check, data):
        """8.3 to 8.7. `parts` are verified beginnings of groups, behind those that are in the file."""
        group, size = start // GROUP, self.inp.size
        if end > (group + 1) * GROUP or end > size + WINDOW:
            raise ValueError("DATA crosses a group, or goes beyond the limit")
        have = group * GROUP + len(self.part(group))
        if end <= size or end <= have:
            return
        if group > size // GROUP:
            self.ask(size // GROUP)  # if it was left out
        if start > have:
            return self.ask(group)
        whole = self.part(group) + data[have - start:]
        if not hmac.compare_digest(blake3(whole, group * GROUP // 1024, root=0), check):
            self.damaged[have] = self.damaged.get(have, 0) + 1
            if self.damaged[have] == 8:
                raise End(7, f"the data at {have} keep arriving damaged")
            self.asked.discard(group)
            return self.ask(group)
        self.asked.discard(group)
        self.parts[group] = whole
        if end % GROUP == 0:
            self.inp.values[end] = check
        while whole := self.parts.pop(self.inp.size // GROUP, b""):
            self.inp.file.seek(self.inp.size)
            self.inp.file.write(whole[self.inp.size % GROUP:])
            self.inp.size += len(whole) - self.inp.size % GROUP

    def part(self, group):
        return self.parts.get(group) or self.inp.read(group * GROUP, max(self.inp.size, group * GROUP))

    def ask(self, group):
        """Once, until something of the group arrives."""
        if group not in self.asked:
            self.asked.add(group)
            self.say(f"asks again from {group * GROUP + len(self.part(group))}")
            self.put(AGAIN, u(group * GROUP + len(self.part(group))))

    def run(self):
        """Until both directions are done and the last connection has ended in order (9.4)."""
        pause, refusals, self.since = 0.1, 0, time.monotonic()
        while True:
            self.sock, self.key, self.proven, self.heard = None, None, False, time.monotonic()
            try:
                if self.listener:
                    self.listener.settimeout(QUIET if self.over() else PATIENCE if self.session_key else None)
                self.sock = self.listener.accept()[0] if self.listener else socket.create_connection(self.peers[0], QUIET)
                self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.sock.settimeout(QUIET)
                self.accept() if self.listener else self.open()
                self.sock.settimeout(SILENCE)
                self.greet()
                self.connections, pause, refusals = self.connections + 1, 0.1, 0
                self.transfer()
                return self.close()
            except (End, ValueError) as error:
                code, reason = error.args if isinstance(error, End) else (9, str(error))
                refusals += 1
                with contextlib.suppress(OSError):
                    self.end(code, reason)
            except OSError as error:
                reason, refusals = str(error), refusals + isinstance(error, ConnectionRefusedError)
            finally:
                self.since = time.monotonic() if self.proven else self.since
                if self.sock:
                    self.sock.close()
            waited = time.monotonic() - self.since
            if self.over() and (self.role == 0 or waited > QUIET):
                return
            self.say(reason)
            if (self.session_key or not self.listener) and (waited > PATIENCE or refusals > 5):
                raise Failed(f"given up: {reason}")
            time.sleep(pause)
            pause = min(2 * pause, 2)


def peer(text):
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for command in (send := commands.add_parser("send"), receive := commands.add_parser("receive")):
        command.add_argument("--via", action="append", default=[], type=peer, metavar="HOST:PORT", help="a depot")
        command.add_argument("--code", default="")
    send.add_argument("--digest", choices=DIGESTS.values())
    send.add_argument("file")
    send.add_argument("peer", nargs="?", type=peer, metavar="HOST:PORT")
    receive.add_argument("--listen", type=int, metavar="PORT")
    receive.add_argument("file", metavar="OUTPUT")
    args = parser.parse_args()
    code = args.code.lower().translate(str.maketrans("oil", "011", "- "))
    if args.command == "send":
        file = open(args.file, "rb")
        note = {"kind": "file", "name": os.path.basename(args.file), "bytes": os.path.getsize(args.file)}
        asks = [(NOTE, json.dumps(note).encode())] + [(DIGEST, key) for key in DIGESTS if DIGESTS[key] == args.digest]
        peers = args.via + [args.peer] * bool(args.peer)
        session = Session(0, file, io.BytesIO(), peers, code, not args.peer, asks=asks)
    else:
        file = open(os.open(args.file, os.O_RDWR | os.O_CREAT, 0o666), "r+b", buffering=0)
        listener = None if args.via else socket.create_server(("127.0.0.1", args.listen))
        session = Session(1, io.BytesIO(), file, args.via, code, bool(args.via), listener)
    if session.meeting and not code:
        parser.error("a meeting needs --code")
    try:
        session.run()
    except Failed as error:
        sys.exit(f"{args.command}: {error}")
    stream = session.inp if session.role else session.out
    print(f"{stream.whole()[8:].hex()} {stream.size} bytes, {session.connections} connections")


if __name__ == "__main__":
    main()
