#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests lsl.py against itself on loopback, through a depot of sections 2 to 4 and a faulty relay. Ends with a count."""
import io, os, pathlib, re, socket, subprocess, sys, tempfile, threading, time

import hashes, lsl, noise, parcel, stored

LSL = [sys.executable, str(pathlib.Path(__file__).with_name("lsl.py"))]
CODE = "k3v9-x2mq-7f4t-pd8w"


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class Relay:
    """Passes connections on to a port. Closes the first ones after `cuts` bytes, and damages the byte `flip` once, or
    the byte `back` of the other direction. `seen` has the beginning of each direction, of all connections."""
    def __init__(self, port, cuts=(), flip=None, back=None):
        self.port, self.cuts, self.flip, self.back, self.connections = port, list(cuts), flip, back, 0
        self.seen = bytearray(), bytearray()
        self.server = socket.create_server(("127.0.0.1", 0))
        self.peer = f"127.0.0.1:{self.server.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client = self.server.accept()[0]
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        try:
            far = self.connect(client)
        except (OSError, lsl.End):
            return client.close()
        if not far:
            return
        self.connections += 1
        left = self.cuts.pop(0) if self.cuts else 1 << 60
        (flip, self.flip), (back, self.back) = (self.flip, None), (self.back, None)
        threading.Thread(target=copy, args=(far, client, 1 << 60, back, self.seen[1]), daemon=True).start()
        copy(client, far, left, flip, self.seen[0])

    def connect(self, client):
        return socket.create_connection(("127.0.0.1", self.port))


def copy(source, target, left, flip, seen):
    """In one direction; with a fault the connection is closed in both."""
    passed = 0
    try:
        while left > passed and (data := bytearray(source.recv(1 << 16))):
            if flip is not None and passed <= flip < passed + len(data):
                data[flip - passed] ^= 1
            passed += len(data)
            seen += data if len(seen) < 1 << 20 else b""
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
        if left <= passed:
            target.shutdown(socket.SHUT_RDWR)
            source.shutdown(socket.SHUT_RDWR)
    except OSError:
        for sock in (source, target):
            reset(sock)


def reset(sock):
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


class Depot(Relay):
    """Opens what it is asked to open, and joins meetings."""
    def __init__(self, name, cuts=()):
        self.by, self.waiting, self.lock = (3, name.encode()), {}, threading.Lock()
        super().__init__(None, cuts)

    def header(self, sock, kind, *fields):
        start = sock.recv(8, socket.MSG_WAITALL)
        lsl.require(start[:6] == b"\xb1LSL\1" + lsl.u(kind, 1), 9, "no header")
        return lsl.unpack(sock.recv(lsl.number(start[6:]), socket.MSG_WAITALL), *fields)

    def connect(self, client):
        fields = self.header(client, lsl.OPEN, {1, 3}, {4, 6}, {2, 5})
        if not fields[2]:
            return self.join(client, fields[1], fields[3][1])
        hop = fields[2][0]
        far = socket.create_connection((hop[13 + hop[10]:].decode(), lsl.number(hop[11 + hop[10]:13 + hop[10]])))
        passed = [(5, name) for name in fields[5]] + [(5, self.by[1])]
        far.sendall(lsl.header(lsl.OPEN, (1, fields[1]), *[(2, hop) for hop in fields[2][1:]], (3, fields[3]), *passed))
        status = b""
        while not status or lsl.number(status) < 200:
            answer = self.header(far, lsl.ANSWER, {1, 3}, {2, 4}, {5})
            status = answer.pop(1)
            own = [(5, lsl.u(len(self.by[1]), 1) + self.by[1] + b"\1" + lsl.u(70, 4) + b"bbr")]
            client.sendall(lsl.header(lsl.ANSWER, (1, status), (3, answer[3]), *own, *[(5, hop) for hop in answer[5]]))
        return far

    def join(self, client, session, role):
        """The first one waits; the second one is served with it."""
        with self.lock:
            other = self.waiting.pop((session, 1 - role), None)
            if not other:
                self.waiting[session, role] = client
        for sock in (client, other) if other else (client,):
            sock.sendall(lsl.header(lsl.ANSWER, (1, lsl.u(200 if other else 100, 2)), self.by))
        return other


def start(*args):
    return subprocess.Popen([*LSL, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process, code=0):
    try:
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == code, (process.args, process.returncode, out, err)
    return out, err


def transfer(data, via=(), meeting=False, relay=None, codes=(CODE, CODE), send=(), there=b"", ends=(0, 0)):
    """One file, from a process to another; what both have said."""
    with tempfile.TemporaryDirectory() as directory:
        source, target, port = pathlib.Path(directory, "source"), pathlib.Path(directory, "out"), free_port()
        source.write_bytes(data)
        target.write_bytes(there)
        if relay:
            relay.port = port
        peer = [] if meeting else [relay.peer if relay else f"127.0.0.1:{port}"]
        via = [option for depot in via for option in ("--via", depot.peer)]
        codes = [["--code", code] if code else [] for code in codes]
        receiver = start("receive", target, *codes[1], *(via[-2:] if meeting else ["--listen", port]))
        sender = start("send", source, *peer, *codes[0], *via, *send)
        try:
            (sent, said), (got, heard) = ended(sender, ends[0]), ended(receiver, ends[1])
        finally:
            receiver.kill()
        if ends == (0, 0):
            assert target.read_bytes() == data
            assert sent.split()[:2] == got.split()[:2] == [hashes.blake3(data).hex(), str(len(data))], (sent, got)
        return sent + said, got + heard


def test_hashes():
    data = bytes(i % 251 for i in range(300000))
    for size, value in ((0, "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"),
                        (1, "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213")):
        assert hashes.blake3(data[:size]).hex() == value
    for size in (1, 1024, 1025, 262144, 262145, 300000):  # the tree of groups has the same root
        assert hashes.Stream(io.BytesIO(data[:size])).whole()[8:] == hashes.blake3(data[:size])


def test_headers():
    session = bytes.fromhex("0102030405060708090a0b0c0d0e0f03")
    meeting = lsl.header(lsl.OPEN, (1, session), (3, b"\2\1"))
    assert meeting.hex() == "b14c534c01010018010010" + session.hex() + "0300020201"
    for bad in ("01000101010001", "0200010101000101", "0100", "7f000100", "80000100800001", "02000100"):
        try:
            lsl.unpack(bytes.fromhex(bad), {1}, {2})
        except lsl.End:
            continue
        raise AssertionError(bad)
    assert lsl.unpack(bytes.fromhex("010001aa800001bb"), {1}, set())[1] == b"\xaa"


def test_positions():
    """8.4: what is left of the tree of a prefix is its right edge."""
    data = os.urandom(7 * lsl.GROUP + 5)
    for groups, rest, count in ((0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 2), (2, 0, 2), (7, 0, 3), (7, 5, 4)):
        size = groups * lsl.GROUP + rest
        position = hashes.Stream(io.BytesIO(data)).position(size)
        values = [position[at:at + 32] for at in range(8, len(position), 32)]
        assert len(values) == count and lsl.number(position[:8]) == size
        while len(values) > 1:
            values[-2:] = [hashes.join(values[-2:], hashes.ROOT if len(values) == 2 else 0)]
        assert count < 2 or values[0] == hashes.blake3(data[:size])


def test_lengths():
    for size in (0, 1, 262143, 262144, 262145, 1000000):
        transfer(os.urandom(size), codes=("", "") if size % 2 else (CODE, CODE.upper().replace("-", " ")))


def test_depots():
    a, b = Depot("a", cuts=[2000000]), Depot("b")
    transfer(os.urandom(3000000), via=(a, b))
    assert a.connections == b.connections == 2


def test_meeting():
    a, b = Depot("a", cuts=[2000000]), Depot("b")
    transfer(os.urandom(3000000), via=(a, b), meeting=True)
    assert a.connections == 2


def test_damage_cuts_and_digests():
    data = os.urandom(20000000)
    said, _ = transfer(data, relay=Relay(None, flip=5000000), send=("--digest", "sha256", "--no-encryption"))
    assert "once more from 4980736" in said
    for options in ((), ("--no-encryption",)):  # sealed, the damage ends the first connection before its cut
        relay = Relay(None, cuts=[3000000, 9000000, 4000000], flip=100000)
        transfer(data, relay=relay, send=("--digest", "md5", *options))
        assert relay.connections == 4


def test_codes():
    """Other codes: the sender gives up, after a few attempts if END has no proof, and does not go on without encryption."""
    for ours, theirs, options in ((CODE, CODE[::-1], ()), (CODE, CODE[::-1], ["--no-encryption"]), ("", CODE, ()),
                                  (CODE, "", ()), (CODE, "", ["--no-encryption"])):
        with tempfile.NamedTemporaryFile() as file:
            port = free_port()
            receiver = start("receive", "--listen", port, *(["--code", theirs] if theirs else []), file.name)
            try:
                relay = Relay(port)
                codes = ["--code", ours] if ours else []
                said = ended(start("send", *codes, *options, __file__, relay.peer), 1)[1]
                assert "END 2" in said and relay.connections == (5 if ours and not options else 1), said
                assert (b"test_lsl.py" in relay.seen[0]) == (not ours or bool(options))
            finally:
                receiver.kill()
                receiver.communicate()


def test_prefix():
    """6.7: goes on with a beginning from another session; END 3 if it is not the same."""
    data = os.urandom(1500000)
    transfer(data, there=data[:699999])
    transfer(data, there=data)
    said, heard = transfer(data, there=data[:699998] + bytes([data[699998] ^ 1]), ends=(1, 1))
    assert "END 3" in said and "END 3" in heard


DOCUMENT = pathlib.Path(__file__).parents[1].joinpath("docs/lsl.md").read_text()


def vector(name):
    return bytes.fromhex(re.search(f"```hex {name}\n(.*?)```", DOCUMENT, re.DOTALL)[1])


def channels(passed, session=bytes(range(16))):
    """Both ends as in section 16, after so many of its messages. The record in each is PING."""
    psk = hashes.derive_key(noise.CONTEXTS[lsl.HELLO], b"secret")
    ends = [lsl.Channel(sock) for sock in socket.socketpair()]
    for role, end in enumerate(ends):
        private = noise.X25519PrivateKey.from_private_bytes(bytes([0x11 + 0x11 * role]) * 32)
        end.noise = noise.Noise(role, bytes(range(16)) if role == 0 else session, psk, private)
    ends[0].mark = b"\1"
    for at in range(passed):
        message = written(ends[at % 2], ends[1 - at % 2])
        ends[1 - at % 2].noise.open(message[5 if at == 0 else 4:])
    return ends


def written(source, target, kind=lsl.PING):
    source.write(lsl.u(kind, 1) + b"\0\0\4\1\2\3\4")
    return target.sock.recv(1 << 16)


def opens(data, passed):
    """Whether the end for which it is opens the message, after as many others."""
    ends = channels(passed)
    source, target = ends[passed % 2].sock, ends[1 - passed % 2]
    source.sendall(data)
    source.shutdown(socket.SHUT_WR)
    try:
        if passed:
            return target.read(8) == b"\x15\0\0\4\1\2\3\4"
        session = lsl.Session(1, io.BytesIO(), io.BytesIO(), code=CODE)
        session.sock, session.channel = target.sock, lsl.Channel(target.sock)
        message = session.expect(1, lsl.SEALED)[1]
        keys = {lsl.HELLO: b"secret", lsl.ATTACH: b""}
        return session.channel.accept(bytes(range(16)), keys, message) == 0
    except (OSError, lsl.End):
        return False


def test_vectors():
    for passed, name in enumerate(("sealed-first", "sealed-second", "sealed-third")):
        ends = channels(passed)
        message = written(ends[passed % 2], ends[1 - passed % 2])
        assert message == vector(name), (name, message.hex())
        if passed == 0:
            assert not opens(message, 0), "PING in place of HELLO"
            message = written(*channels(0), lsl.HELLO)
        assert opens(message, passed)
        for at in range(len(message)):  # including the header of the record, and the mark
            for bit in (1, 128):
                assert not opens(message[:at] + bytes([message[at] ^ bit]) + message[at + 1:], passed), (name, at, bit)
        assert not opens(message[:-1], passed)
    for message in (vector("sealed-second"), vector("sealed-first"), b"\x15\0\0\4\1\2\3\4", b"\x18\0\0\0",
                    b"\x17\0\0\x22" + bytes(34)):
        assert not opens(message, 2)
    assert not opens(b"\x15\0\0\4\1\2\3\4", 1)


def test_stored():
    """What a depot is asked for, and what it keeps (sections 13 and 14)."""
    name, collector, secret = parcel.keys(b"k3v9x2mq7f4tpd8wz0y1")
    assert name.hex() in DOCUMENT and stored.public_of(collector).hex() in DOCUMENT
    request = {"do": "collect", "session": bytes(range(16, 32)).hex(), "from": 65536}
    assert stored.signed(bytes(range(32)), request)(bytes(range(16)), b"\x44" * 32) == vector("request")
    note, content, salt = b'{"kind":"pipe"}', b"hello\n", bytes(range(32))
    sealed = parcel.write(note, content, salt, secret)
    assert sealed == vector("parcel"), sealed.hex()
    for key in (secret, None):
        for size in (0, 1, 65485, 65486, 200000):
            data = os.urandom(size)
            assert parcel.read(parcel.write(note, data, salt, key), key) == (note, data), size
    changed = [sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1:] for at in range(len(sealed))]
    changed += [sealed[:-1], sealed + b"\0", b"", sealed[:parcel.HEAD]]
    for data in changed:
        try:
            parcel.read(data, secret)
            assert False, data.hex()
        except parcel.Refused:
            pass


def test_sealed_messages():
    """Each is opened once and in its place, in its session alone; long records are cut into several."""
    initiator, acceptor = channels(2)
    record = lsl.u(lsl.DATA, 1) + lsl.u(200000, 3) + os.urandom(200000)
    threading.Thread(target=initiator.write, args=(record * 2,), daemon=True).start()
    assert acceptor.read(4) + acceptor.read(200000) == record
    assert acceptor.read(200004) == record
    initiator.write(b"x")
    message = acceptor.sock.recv(100)
    assert acceptor.noise.open(message[4:]) == b"x"
    for action in (lambda: acceptor.noise.open(message[4:]), lambda: channels(1, session=bytes(16)),
                   lambda: channels(0)[1].write(b"x"), lambda: channels(1)[0].write(b"x")):
        try:
            action()
        except ConnectionError:
            continue
        raise AssertionError("a message was taken or sent out of its place")


def test_wire():
    """12.1: encrypted, neither name, content nor hash can be seen; 12.6: what damage to the first messages does."""
    data = os.urandom(500000)
    relay = Relay(None)
    for options, visible in ((("--no-encryption",), True), ((), False)):
        relay.seen = bytearray(), bytearray()
        transfer(data, relay=relay, send=options)
        for part in (b'"name":"source"', data[300000:300016], hashes.blake3(data)):
            assert (part in relay.seen[0]) == visible, (part, visible)
        assert (hashes.blake3(data) in relay.seen[1]) == visible and len(relay.seen[0]) > len(data)
    transfer(data, relay=relay, codes=("", ""))
    assert relay.connections == 3
    for fault in ({"back": 60}, {"flip": 35}, {"flip": 60}, {"flip": 400000}):  # WELCOME; mark; HELLO; DATA
        relay = Relay(None, **fault)
        transfer(data, relay=relay)
        assert relay.connections == 2, fault


if __name__ == "__main__":
    tests = [test for name, test in list(globals().items()) if name.startswith("test_")]
    for test in tests:
        began = time.monotonic()
        test()
        print(f"{test.__name__} {time.monotonic() - began:.1f} s", flush=True)
    print(f"{len(tests)} passed, 0 failed")
