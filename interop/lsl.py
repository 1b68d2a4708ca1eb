#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Sessions of docs/lsl.md, written from that document alone, to hold the document to. Needs Python 3.11 and numpy.

Not here: TLS, tickets, several connections for a hop, target 1 (it has no records). Numbers in comments are rules of
the document.
"""
import argparse, hashlib, hmac, io, json, os, secrets, select, socket, sys, time

import numpy as np

GROUP, EARLY, WINDOW = 262144, 1 << 24, 1 << 25
HELLO, WELCOME, ATTACH, ATTACHED, CONFIRM = 1, 2, 3, 4, 5
DATA, ACK, AGAIN, FIN, DONE, PING, PONG, END = 16, 17, 18, 19, 20, 21, 22, 23
SIZES = {**{t: (0, 8192) for t in range(1, 6)}, DATA: (41, 40 + GROUP), ACK: (16, 16), AGAIN: (8, 8), FIN: (72, 104),
         DONE: (72, 72), PING: (8, 8), PONG: (8, 8), END: (34, 34 + 1024)}
# Fields: required and allowed ones of each record (6.1), then of headers.
NEED = {HELLO: {1, 2, 3, 5}, WELCOME: {2, 3, 5, 8, 255}, ATTACH: {1, 4, 5, 8, 255}, ATTACHED: {4, 5, 8, 255}, CONFIRM: {255}}
MAY = {HELLO: {6, 7, 9}, WELCOME: {6}, ATTACH: set(), ATTACHED: set(), CONFIRM: set()}
LENGTHS = {1: (16, 16), 2: (1, 255), 3: (32, 32), 4: (32, 32), 5: (8, 8), 6: (0, 4096), 7: (1, 1), 8: (8, 968), 9: (1, 1), 255: (32, 32)}
DIGESTS = {1: "sha256", 2: "md5"}


# BLAKE3, on arrays of n columns: one for each chunk or parent that is computed at the same time.

IV = np.array([0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19], np.uint32)
ORDER = [0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15]  # the words as the rounds use them, four at a time
PERMUTE = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8]
NEXT = [ORDER.index(PERMUTE[w]) for w in ORDER]
START, STOP, PARENT, ROOT, KEYED, CONTEXT, MATERIAL = 1, 2, 4, 8, 16, 32, 64


def turn(x, by):
    high = x << np.uint32(32 - by)
    x >>= np.uint32(by)
    x |= high


def compress(h, m, counter, length, flags):
    n = m.shape[1]
    a, b, c, d = h[:4].copy(), h[4:].copy(), np.repeat(IV[:4, None], n, 1), np.empty((4, n), np.uint32)
    d[0], d[1], d[2], d[3] = counter & 0xFFFFFFFF, counter >> 32, length, flags
    m = m[ORDER]
    for i in range(7):
        for half in (0, 8):
            for k, (r, s) in ((half, (16, 12)), (half + 4, (8, 7))):
                a += b
                a += m[k:k + 4]
                d ^= a
                turn(d, r)
                c += d
                b ^= c
                turn(b, s)
            by = 1 if half == 0 else -1  # to the diagonals and back
            b, c, d = (np.concatenate((x[j:], x[:j])) for x, j in ((b, by), (c, 2), (d, -by)))
        m = m[NEXT]
    return np.concatenate((a ^ c, b ^ d))


def leaves(data, at, key, flags, root=False):
    """The chaining values of the chunks of `data`, the first of which is number `at`, as columns."""
    full = len(data) // 1024
    out = []
    for first, n, part in ((0, full, data[:full * 1024]), (full, 1, data[full * 1024:])):
        if n == 0 or (not part and data):
            continue
        size = len(part) // n
        blocks = max(1, -(-size // 64))
        words = np.frombuffer(bytes(part).ljust(n * blocks * 64, b"\0"), "<u4").reshape(n, blocks, 16).transpose(1, 2, 0)
        h = np.repeat(key[:, None], n, 1)
        counter = np.arange(at + first, at + first + n, dtype=np.uint64)
        for i in range(blocks):
            last = i == blocks - 1
            bits = flags | (START if i == 0 else 0) | (STOP if last else 0) | (ROOT if last and root else 0)
            h = compress(h, words[i], counter, size - i * 64 if last else 64, bits)
        out.append(h)
    return np.concatenate(out, 1)


def merge(values, key=IV, flags=0, root=False):
    """The one node above these; of an odd number the last goes up a level as it is."""
    while values.shape[1] > 1:
        n = values.shape[1]
        pairs = np.concatenate((values[:, 0:n - n % 2:2], values[:, 1::2]))
        up = compress(np.repeat(key[:, None], n // 2, 1), pairs, np.uint64(0), 64, flags | PARENT | (ROOT if root and n == 2 else 0))
        values = np.concatenate((up, values[:, n - 1:]), 1) if n % 2 else up
    return values.astype("<u4").tobytes()


def columns(values):
    return np.frombuffer(b"".join(values), "<u4").reshape(-1, 8).T


def blake3(data, key=IV, flags=0):
    return merge(leaves(data, 0, key, flags, len(data) <= 1024), key, flags, True)


def keyed(key, data):
    return blake3(data, np.frombuffer(key, "<u4"), KEYED)


def derive(context, data):
    return blake3(data, np.frombuffer(blake3(context, flags=CONTEXT), "<u4"), MATERIAL)


def subtree(data, at):
    """8.2: `data` begins at offset `at`."""
    return merge(leaves(data, at // 1024, IV, 0))


def x25519(k, u=(9).to_bytes(32, "little")):
    p = 2**255 - 19
    k = int.from_bytes(k, "little") & ~7 & (1 << 255) - 1 | 1 << 254
    x1 = x3 = int.from_bytes(u, "little") & (1 << 255) - 1
    x2, z2, z3, swap = 1, 0, 1, 0
    for t in range(254, -1, -1):
        bit = k >> t & 1
        if swap ^ bit:
            x2, x3, z2, z3 = x3, x2, z3, z2
        swap = bit
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        aa, bb, da, cb = a * a % p, b * b % p, d * a % p, c * b % p
        x3, z3 = (da + cb)**2 % p, x1 * (da - cb)**2 % p
        e = aa - bb
        x2, z2 = aa * bb % p, e * (aa + 121665 * e) % p
    if swap:
        x2, z2 = x3, z3
    return (x2 * pow(z2, p - 2, p) % p).to_bytes(32, "little")


# Headers and records.

class End(Exception):
    """This end sends END with `code` and closes the connection."""
    def __init__(self, code, text):
        super().__init__(f"END {code}: {text}")
        self.code, self.text = code, text


class Gone(Exception):
    """The connection is lost; the session is not."""


class Failed(Exception):
    """The session is over without success."""


def u(value, size=8):
    return value.to_bytes(size, "big")


def num(data):
    return int.from_bytes(data, "big")


def pack(*fields):
    return b"".join(bytes([t]) + u(len(v), 2) + v for t, v in fields)


def unpack(data, known, repeated=()):
    """Fields by type (1.2, 1.3); those that may be repeated as lists. ValueError if they break a rule."""
    out, at, last = {t: [] for t in repeated}, 0, -1
    while at < len(data):
        t, size = data[at], num(data[at + 1:at + 3])
        if at + 3 + size > len(data) or t < last or (t == last and t not in repeated) or (t < 128 and t not in known):
            raise ValueError(f"field {t} is unknown, out of order, repeated or cut")
        value, at, last = bytes(data[at + 3:at + 3 + size]), at + 3 + size, t
        if t in repeated:
            out[t].append(value)
            if len(out[t]) > 16:
                raise ValueError(f"more than 16 fields {t}")
        elif t in known:
            out[t] = value
    return out


def fields(kind, payload):
    try:
        out = unpack(payload, NEED[kind] | MAY[kind])
    except ValueError as e:
        raise End(9, str(e))
    if NEED[kind] - set(out) or any(not LENGTHS[t][0] <= len(v) <= LENGTHS[t][1] for t, v in out.items()):
        raise End(9, f"record {kind} lacks a field, or one has a wrong length")
    return out


def header(kind, *what):
    body = pack(*what)
    return b"\xb1LSL\x01" + bytes([kind]) + u(len(body), 2) + body


def hop(peer):
    host, port = peer
    return bytes(10) + b"\0" + u(port, 2) + host.encode()  # plain TCP, as the depot likes (2.1)


def peer_of(text):
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


class Link:
    """A connection. Stages: open and answer (headers), greet (acceptor), welcome (initiator), confirm (acceptor), on."""
    def __init__(self, sock, stage):
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock, self.stage, self.inp, self.outp = sock, stage, bytearray(), bytearray()
        self.heard = self.spoke = time.monotonic()
        self.eof = self.proved = self.meeting = self.secret = False
        self.session = self.mine = self.theirs = self.begin = None

    def put(self, kind, payload):
        self.outp += bytes([kind]) + u(len(payload), 3) + payload

    def pump(self, readable):
        try:
            if readable and not self.eof:
                data = self.sock.recv(1 << 20)
                self.inp += data
                self.eof, self.heard = not data, time.monotonic()
            if self.outp:
                del self.outp[:self.sock.send(memoryview(self.outp)[:1 << 20].tobytes())]
                self.spoke = time.monotonic()
        except BlockingIOError:
            pass
        except OSError as e:
            raise Gone(str(e))

    def header(self, kind):
        head = self.inp[:8]
        if not b"\xb1LSL\x01".startswith(head[:5]) or (len(head) > 5 and head[5] != kind):
            raise ValueError("no header of this version")
        size = num(head[6:8]) if len(head) == 8 else 0
        if size > 16384:
            raise ValueError("the header is too long")
        if len(head) < 8 or len(self.inp) < 8 + size:
            return None
        body = bytes(self.inp[8:8 + size])
        del self.inp[:8 + size]
        return body

    def record(self):
        if len(self.inp) < 4:
            return None
        kind, size = self.inp[0], num(self.inp[1:4])
        low, high = SIZES.get(kind, (0, 1 << 24))
        if (kind not in SIZES and kind < 128) or not low <= size <= high:
            raise End(9, f"unknown record {kind}, or of a wrong length, {size}")
        if len(self.inp) < 4 + size:
            return None
        payload = bytes(memoryview(self.inp)[4:4 + size])
        del self.inp[:4 + size]
        return kind, payload

    def close(self, gently=False):
        """Gently: what was sent arrives, because nothing is left unread (a reset would overtake it)."""
        try:
            if gently:
                self.sock.settimeout(5)
                self.sock.sendall(self.outp)
                self.sock.shutdown(socket.SHUT_WR)
                until = time.monotonic() + 5
                while time.monotonic() < until and self.sock.recv(1 << 20):
                    pass
        except OSError:
            pass
        self.sock.close()


# The two directions.

class Stream:
    """Bytes in a file, `size` of them, and the chaining values of their groups as far as they were needed."""
    def __init__(self, file, size=None):
        self.file, self.groups, self.size = file, [], file.seek(0, 2) if size is None else size
        self.pos = self.high = self.limit = self.acked = 0  # of what is sent
        self.again, self.parts, self.asked, self.damaged, self.fin = [], {}, set(), {}, None  # of what is received

    def read(self, start, end):
        self.file.seek(start)
        return self.file.read(end - start)

    def value(self, end):
        """Of the bytes of the group that ends at `end`, or is cut there."""
        group = (end - 1) // GROUP
        if group < len(self.groups) and end == (group + 1) * GROUP:
            return self.groups[group]
        got = subtree(self.read(group * GROUP, end), group * GROUP)
        if group == len(self.groups) and end == (group + 1) * GROUP:
            self.groups.append(got)
        return got

    def before(self, count):
        while len(self.groups) < count:
            self.value((len(self.groups) + 1) * GROUP)
        return self.groups[:count]

    def position(self, n):
        """8.4"""
        m, at, out = (n - 1) // GROUP, 0, [u(n)]
        for bit in range(29, -1, -1) if n else ():
            if m >> bit & 1:
                out.append(merge(columns(self.before(at + (1 << bit))[at:])))
                at += 1 << bit
        return b"".join(out + [self.value(n)] if n else out)

    def check(self, position):
        """8.5: the offset of the other end's position."""
        n = num(position[:8])
        if n > self.size or not hmac.compare_digest(self.position(n), position):
            raise End(3, "the prefix is not the same")
        return n

    def hash(self):
        if self.size <= GROUP:
            return blake3(self.read(0, self.size))
        return merge(columns(self.before((self.size - 1) // GROUP) + [self.value(self.size)]), root=True)

    def digest(self, which):
        self.file.seek(0)
        return hashlib.file_digest(self.file, DIGESTS[which]).digest() if which else b""

    def begin(self, at, limit):
        """Sending goes on at `at`, on another connection."""
        self.pos, self.high, self.limit, self.acked, self.again, self.finished = at, at, limit, at, [], False

    def next(self, limit):
        """The next DATA to send."""
        if self.again:
            start, end = self.again.pop(0)
        else:
            start, end = self.pos, min((self.pos // GROUP + 1) * GROUP, self.size, limit)
            if end <= start:
                return None
            self.pos = end
            self.high = max(self.high, end)
        return u(start) + self.value(end) + self.read(start, end)

    def take(self, start, check, data):
        """8.3 to 8.6: the offset to ask for, or None."""
        end, group, now = start + len(data), start // GROUP, self.size // GROUP
        if end > (group + 1) * GROUP or end > self.size + WINDOW + GROUP:
            raise End(9, "DATA crosses a group or goes beyond the limit")
        if group > now and now not in self.asked:  # a group was left out
            self.asked.add(now)
            return self.size
        part = self.parts.setdefault(group, bytearray(self.read(now * GROUP, self.size)) if group == now else bytearray())
        have = group * GROUP + len(part)
        if end <= self.size or end <= have:
            return None  # once more
        if start > have:
            new = start not in self.asked and group not in self.asked
            self.asked.add(group)
            return have if new else None
        whole = part + data[have - start:]
        if not hmac.compare_digest(subtree(whole, group * GROUP), check):
            self.damaged[have] = self.damaged.get(have, 0) + 1
            if self.damaged[have] == 8:
                raise End(7, f"the data at {have} keep arriving damaged")
            self.asked.add(group)
            return have
        self.asked.discard(group)
        self.parts[group] = whole
        while (now := self.size // GROUP) in self.parts and now * GROUP + len(self.parts[now]) > self.size:
            whole = self.parts[now]
            self.file.seek(self.size)
            self.file.write(whole[self.size - now * GROUP:])
            self.size = now * GROUP + len(whole)
            if len(whole) == GROUP:
                del self.parts[now]
        return None


class Session:
    """Role 0: initiator, 1: acceptor. `out` and `inp` are files; what `inp` has already is the beginning (6.7)."""
    def __init__(self, role, out, inp, session=None, secret=b"", note=b"", digest=0, state=None, cut=None, flip=None):
        self.role, self.out, self.inp, self.session = role, Stream(out), Stream(inp), session
        self.secret, self.note, self.digest, self.state, self.cut, self.flip = secret, note, digest, state, cut, flip
        self.key = self.private = self.link = self.theirs = self.target = None
        self.confirmed = self.sent = self.received = False
        self.route, self.told, self.connections, self.later = [], 0, 0, []
        self.out.begin(0, 0)
        if state and os.path.exists(state):
            saved = json.load(open(state))
            self.session, self.key, self.confirmed, self.digest = bytes.fromhex(saved["session"]), bytes.fromhex(saved["key"]), True, saved["digest"]
            self.received = saved["received"]

    def save(self):
        if self.state:
            with open(os.open(self.state + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as f:
                json.dump({"session": self.session.hex(), "key": self.key.hex(), "digest": self.digest, "received": self.received}, f)
            os.replace(self.state + ".new", self.state)

    def over(self):
        return self.sent and self.received

    def say(self, text):
        print(f"{('initiator', 'acceptor')[self.role]}: {text}", file=sys.stderr, flush=True)

    def proof(self, label, *rest):
        return keyed(self.key, label + b"".join(rest))

    def verify(self, proof, label, *rest, code=2):
        if not hmac.compare_digest(proof, self.proof(label, *rest)):
            raise End(code, f"wrong proof ({label.decode()})")

    def agree(self, public, hello, welcome):
        x = x25519(self.private, public)
        if x == bytes(32):
            raise End(9, "the public key is of low order")
        self.key = derive(b"longhaul lsl 1 session key", x + self.session + hello + welcome + self.secret)

    def limit(self):
        return u(min(self.inp.size + WINDOW, 1 << 47))

    # Connecting, and the first record of an initiator.

    def connect(self):
        try:
            sock = socket.create_connection(self.route[0], 10)
        except OSError as e:
            raise Gone(f"{self.route[0]}: {e}")
        link = Link(sock, "answer")
        self.connections += 1
        link.outp += header(1, (1, self.session), *((2, hop(p)) for p in self.route[1:]), (3, self.target))
        if self.role == 1:
            return link
        if self.key:  # 7.1
            body = pack((1, self.session), (4, secrets.token_bytes(32)), (5, self.limit()), (8, self.inp.position(self.inp.size)))
            link.begin, link.mine = ATTACH, body + pack((255, self.proof(b"attach", body)))
        else:
            self.private = secrets.token_bytes(32)
            link.begin, link.mine = HELLO, pack((1, self.session), (2, b"\1"), (3, x25519(self.private)), (5, self.limit()),
                                                *([(6, self.note)] if self.note else []), *([(7, bytes([self.digest]))] if self.digest else []),
                                                *([(9, b"\1")] if self.secret else []))
            self.out.begin(0, 0)
        link.put(link.begin, link.mine)
        return link

    # What arrives.

    def headers(self, link):
        """True if there was one."""
        if link.stage == "open":
            try:
                body = link.header(1)
                if body is None:
                    return False
                got = unpack(body, {1, 2, 3, 4, 5, 6}, {2, 5})
                if len(got.get(1, b"")) != 16 or got.get(3) != b"\0" or got[2]:
                    raise ValueError("this is an acceptor: it wants a session, target 0 and no hops (2.3)")
            except ValueError as e:
                link.outp += header(2, (1, u(400, 2)), (2, b"http_request_error"), (3, b"end"), (4, str(e).encode()))
                link.close(True)
                raise Gone(f"refused: {e}")
            link.session, link.stage = got[1], "greet"
            link.outp += header(2, (1, u(200, 2)), (3, b"end"))
            return True
        try:
            body = link.header(2)
            if body is None:
                return False
            got = unpack(body, {1, 2, 3, 4, 5}, {5})
            status = num(got[1])
            if 3 not in got or len(got[1]) != 2:
                raise ValueError("by is missing")
        except (ValueError, KeyError) as e:
            raise Gone(f"malformed ANSWER: {e}")
        if 100 <= status < 200:
            link.meeting = True
        elif status == 200:
            names = [h[1:1 + h[0]].decode() for h in got[5]]
            self.say(f"open, by {got[3].decode()}" + (f" through {', '.join(names)}" if names else ""))
            link.stage, link.session = ("greet" if self.role else "welcome"), self.session
        else:
            raise Gone(f"{got[3].decode()} answers {status} {got.get(2, b'').decode()} {got.get(4, b'').decode()}")
        return True

    def take(self, link, kind, payload):
        if link.stage == "on":
            return self.on(link, kind, payload)
        if kind == PING:
            return link.put(PONG, payload)
        if kind == END:
            return self.ended(link, payload)
        if kind >= 128 or kind == PONG:
            return
        if link.stage == "greet" and kind == HELLO:
            return self.hello(link, payload)
        if link.stage == "greet" and kind == ATTACH:
            return self.attach(link, payload)
        if link.stage == "confirm" and kind == DATA and link.begin == HELLO:
            if not self.secret:
                self.data(link, payload)
            return
        if link.stage == "confirm" and kind == CONFIRM:
            got = fields(kind, payload)
            self.verify(got[255], b"confirm", link.theirs, link.mine)
            first = fields(link.begin, link.theirs)
            self.confirmed = True
            return self.start(link, num(first[5]), num(first[8][:8]) if 8 in first else 0)
        if link.stage == "welcome" and kind == (WELCOME if link.begin == HELLO else ATTACHED):
            got = fields(kind, payload)
            if kind == WELCOME:
                if got[2] != b"\1":
                    raise End(9, "this encoding was not offered")
                self.agree(got[3], fields(HELLO, link.mine)[3], got[3])
            label = b"welcome" if kind == WELCOME else b"attached"
            try:
                self.verify(got[255], label, link.mine, payload[:-35])
            except End:
                self.key = None if kind == WELCOME else self.key
                raise
            link.proved = True
            at = self.out.check(got[8])
            link.put(CONFIRM, pack((255, self.proof(b"confirm", link.mine, payload))))
            if 6 in got:
                self.say(f"note: {got[6]!r}")
            self.confirmed, high = True, self.out.high
            self.start(link, num(got[5]), max(at, self.out.pos) if kind == WELCOME else at)
            self.out.high, self.out.acked = max(high, at) if kind == WELCOME else at, at
            return
        raise End(9, f"record {kind} is not allowed here")

    def hello(self, link, payload):
        got = fields(HELLO, payload)
        if self.session is None:
            self.session = got[1]
        if self.confirmed or got[1] != self.session or got[1] != link.session:
            raise End(5, "the session exists already, or there is no room for another")
        if bool(self.secret) != (got.get(9) == b"\1"):
            raise End(2, "both ends need the secret, or neither")
        if 1 not in got[2] or (7 in got and got[7][0] not in DIGESTS):
            raise End(9, "no encoding or digest that is known here")
        if self.link:  # 7.5: not confirmed
            self.link.close()
        self.link, link.begin, link.theirs, link.stage = link, HELLO, payload, "confirm"
        self.private, self.digest = secrets.token_bytes(32), got.get(7, b"\0")[0]
        public = x25519(self.private)
        self.agree(got[3], got[3], public)
        self.inp.parts, self.inp.asked = {}, set()
        body = pack((2, b"\1"), (3, public), (5, self.limit()), (8, self.inp.position(self.inp.size)))
        link.mine = body + pack((255, self.proof(b"welcome", payload, body)))
        link.put(WELCOME, link.mine)
        self.connections += 1
        if 6 in got:
            self.say(f"note: {got[6]!r}")

    def attach(self, link, payload):
        got = fields(ATTACH, payload)
        if self.key is None or got[1] != self.session or got[1] != link.session:
            raise End(1, "unknown session")
        self.verify(got[255], b"attach", payload[:-35])
        link.proved = True
        self.out.check(got[8])
        link.begin, link.theirs, link.stage = ATTACH, payload, "confirm"
        body = pack((4, secrets.token_bytes(32)), (5, self.limit()), (8, self.inp.position(self.inp.size)))
        link.mine = body + pack((255, self.proof(b"attached", payload, body)))
        link.put(ATTACHED, link.mine)
        self.connections += 1

    def start(self, link, limit, at):
        if self.link and self.link is not link:
            self.link.close()
        self.link, link.stage, link.proved, self.told = link, "on", True, self.inp.size
        if link.begin == ATTACH:
            self.inp.parts, self.inp.asked, self.inp.fin = {}, set(), None
        self.out.begin(at, limit)
        self.save()
        for offset in self.later:
            link.put(AGAIN, u(offset))
        self.later = []

    def ended(self, link, payload):
        code, text = num(payload[:2]), payload[34:].decode(errors="replace")
        proof = self.key and self.proof(b"end", bytes([1 - self.role]), payload[:2], payload[34:])
        if proof and hmac.compare_digest(proof, payload[2:34]) and code != 9:
            raise Failed(f"the other end says END {code}: {text}")
        raise Gone(f"the other end says END {code}: {text}")

    def data(self, link, payload):
        start, check, data = num(payload[:8]), payload[8:40], payload[40:]
        if self.flip is not None and start <= self.flip < start + len(data):
            data = bytearray(data)
            data[self.flip - start] ^= 1
            self.flip = None
        lacks = self.inp.take(start, check, data)
        if lacks is not None:
            self.say(f"AGAIN from {lacks}")
            if link.stage == "on":
                link.put(AGAIN, u(lacks))
            else:
                self.later.append(lacks)  # 6.6 allows no AGAIN yet
        if self.inp.size >= self.told + (4 << 20) and link.stage == "on":
            self.ack(link)
        if self.cut is not None and self.role and self.inp.size >= self.cut:
            self.cut = None
            raise Gone("cut")

    def ack(self, link):
        self.inp.file.flush()
        self.told = self.inp.size
        link.put(ACK, u(self.told) + self.limit())

    def on(self, link, kind, payload):
        if kind == DATA:
            self.data(link, payload)
            self.finish(link)
        elif kind == ACK:
            offset, limit = num(payload[:8]), num(payload[8:])
            if not self.out.acked <= offset <= self.out.high or limit < self.out.limit:
                raise End(9, "ACK of what was not sent, or that takes back")
            self.out.acked, self.out.limit = offset, limit
        elif kind == AGAIN:
            offset = num(payload)
            if offset >= self.out.high:
                raise End(9, "AGAIN of what was not sent")
            self.out.again.append((offset, min((offset // GROUP + 1) * GROUP, self.out.high)))
        elif kind == FIN:
            if len(payload) != 72 + (hashlib.new(DIGESTS[self.digest]).digest_size if self.digest else 0):
                raise End(9, "FIN with or without a digest")
            self.verify(payload[40:72], b"fin", bytes([1 - self.role]), payload[:40], code=9)
            self.inp.fin = payload
            self.finish(link)
        elif kind == DONE:
            self.verify(payload[40:], b"done", bytes([self.role]), payload[:40], code=9)
            if payload[:40] != u(self.out.size) + self.out.hash():
                raise End(9, "DONE of another stream")
            self.sent = True
        elif kind == PING:
            link.put(PONG, payload)
        elif kind == END:
            self.ended(link, payload)
        elif kind < 128 and kind != PONG:
            raise End(9, f"record {kind} is not allowed here")

    def finish(self, link):
        """9.3, as soon as nothing is missing that was asked for again."""
        fin = self.inp.fin
        if fin is None or (num(fin[:8]) > self.inp.size and self.inp.asked):
            return
        self.inp.file.flush()
        if fin[:40] != u(self.inp.size) + self.inp.hash() or fin[72:] != self.inp.digest(self.digest):
            raise End(8, "the whole differs from what was sent")
        self.inp.fin, self.received = None, True
        self.save()  # before DONE, because FIN does not come again after it
        link.put(DONE, fin[:40] + self.proof(b"done", bytes([1 - self.role]), fin[:40]))

    # What leaves.

    def send(self, link):
        early = link.begin == HELLO and link.stage in ("answer", "welcome") and not self.secret
        if link.stage != "on" and not early:
            return
        limit = EARLY if link.stage != "on" else self.out.limit
        while len(link.outp) < 4 * GROUP:
            data = self.out.next(limit)
            if data is None:
                break
            link.put(DATA, data)
        if self.cut is not None and self.role == 0 and self.out.pos >= self.cut:
            self.cut = None
            raise Gone("cut")
        if link.stage != "on":
            return
        if not self.out.finished and not self.sent and not self.out.again and self.out.pos == self.out.size:
            whole = u(self.out.size) + self.out.hash()
            link.put(FIN, whole + self.proof(b"fin", bytes([self.role]), whole) + self.out.digest(self.digest))
            self.out.finished = True
        if time.monotonic() - link.spoke > 15 and not link.outp:
            link.put(PING, secrets.token_bytes(8))

    def step(self, link, readable):
        """Everything that can be done on a connection now."""
        link.pump(readable)
        while link.stage in ("open", "answer") and self.headers(link):
            pass
        while link.stage not in ("open", "answer") and (record := link.record()):
            self.take(link, *record)
        if link.stage == "on" and self.inp.size > self.told:
            self.ack(link)
        self.send(link)
        link.pump(False)
        quiet = time.monotonic() - link.heard
        if link.eof or (quiet > (10 if link.stage == "open" else 60) and not link.meeting):
            raise Gone("the connection was closed" if link.eof else "nothing arrives")
        if link.stage == "on":
            link.meeting = False

    def run(self, listener=None, route=(), target=b"\0", patience=60):
        """Until both directions are done. An acceptor listens, or meets its initiator at the end of a route."""
        self.route, self.target, links = list(route), target, []
        since, wait, refusals, reason = time.monotonic(), 0.1, 0, ""
        if not listener:
            self.session = self.session or secrets.token_bytes(16)
        while not self.over() or links:
            try:
                if self.route and not links and not self.over():
                    links.append(self.connect())
                socks = [link.sock for link in links]
                ready, _, _ = select.select(socks + ([listener] if listener else []), [x.sock for x in links if x.outp], [], 0.5)
                if listener in ready:
                    links.append(Link(listener.accept()[0], "open"))
            except Gone as e:
                reason, ready = str(e), []
                time.sleep(wait)
                wait = min(wait * 2, 2)
            for link in links[:]:
                try:
                    if link.sock.fileno() < 0:
                        raise Gone("replaced")
                    self.step(link, link.sock in ready)
                    if link.stage == "on":
                        since, wait, refusals = time.monotonic(), 0.1, 0
                        if self.over() and self.role == 0:
                            link.close(True)
                            links.remove(link)
                    continue
                except Gone as e:
                    reason, gently = str(e), False
                    refusals += "END" in reason or "answers" in reason
                except End as e:
                    reason, gently = str(e), True
                    code, text = u(e.code, 2), e.text.encode()
                    known = link.proved and self.key
                    link.put(END, code + (self.proof(b"end", bytes([self.role]), code, text) if known else bytes(32)) + text)
                    if known and e.code != 9:
                        link.close(True)
                        raise Failed(reason)
                    refusals += 1
                link.close(gently or self.over())
                links.remove(link)
                self.link = None if self.link is link else self.link
                if not self.over():
                    self.say(reason)
                    time.sleep(0.1 if self.route else 0)
            if not self.over() and (refusals > 5 or (time.monotonic() - since > patience and not any(x.meeting for x in links) and (self.route or self.connections))):
                raise Failed(f"given up: {reason}")
        if self.state and os.path.exists(self.state):
            os.remove(self.state)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    send, receive = commands.add_parser("send"), commands.add_parser("receive")
    for p in (send, receive):
        p.add_argument("--via", action="append", default=[], type=peer_of, metavar="HOST:PORT", help="a depot; may be repeated")
        p.add_argument("--meet", type=bytes.fromhex, metavar="SESSIONHEX", help="meet at the last peer of the route")
        p.add_argument("--secret", type=bytes.fromhex, default=b"", metavar="HEX")
        p.add_argument("--state", metavar="FILE", help="keep what another process needs to go on with the session")
        p.add_argument("--cut-after", type=int, metavar="BYTES", help="close the connection once, and go on by another")
    send.add_argument("--note", default="")
    send.add_argument("--digest", choices=["sha256", "md5"])
    send.add_argument("file")
    send.add_argument("peer", type=peer_of, metavar="HOST:PORT")
    receive.add_argument("--listen", type=int, metavar="PORT")
    receive.add_argument("--flip-at", type=int, metavar="BYTE", help="damage this byte once as it arrives")
    receive.add_argument("--partial", action="store_true", help="OUTPUT has the beginning already")
    receive.add_argument("output")
    a = parser.parse_args()
    if a.command == "send":
        digest = {None: 0, "sha256": 1, "md5": 2}[a.digest]
        s = Session(0, open(a.file, "rb"), io.BytesIO(), a.meet, a.secret, a.note.encode(), digest, a.state, a.cut_after)
        how = {"route": a.via + [a.peer], "target": b"\2\0" if a.meet else b"\0"}
    else:
        keep = a.partial or (a.state and os.path.exists(a.state))
        s = Session(1, io.BytesIO(), open(a.output, "r+b" if keep else "w+b"), a.meet, a.secret, state=a.state, cut=a.cut_after, flip=a.flip_at)
        how = {"route": a.via, "target": b"\2\1"} if a.via else {"listener": socket.create_server(("127.0.0.1", a.listen))}
    try:
        s.run(**how)
    except Failed as e:
        sys.exit(f"{a.command}: {e}")
    stream = s.inp if s.role else s.out
    print(f"{stream.hash().hex()} {stream.size} bytes, {s.connections} connection{'s' * (s.connections != 1)}")


if __name__ == "__main__":
    main()
