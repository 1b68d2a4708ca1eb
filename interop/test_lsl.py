#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests lsl.py against itself on loopback, through a depot of sections 2 to 4 that stands below. Ends with a count."""
import hashlib, io, os, signal, socket, subprocess, sys, tempfile, threading, time

import lsl

HERE = os.path.dirname(os.path.abspath(__file__))


def read_header(sock):
    data = b""
    while len(data) < 8 or len(data) < 8 + lsl.num(data[6:8]):
        size = 8 if len(data) < 8 else 8 + lsl.num(data[6:8])
        got = sock.recv(size - len(data))
        if not got:
            raise OSError("closed within a header")
        data += got
    return data


class Depot:
    """Opens what it is asked to open, and joins meetings."""

    def __init__(self, name):
        self.name, self.waiting, self.lock, self.opens = name, {}, threading.Lock(), 0
        self.server = socket.create_server(("127.0.0.1", 0))
        self.peer = f"127.0.0.1:{self.server.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            threading.Thread(target=self.serve, args=(self.server.accept()[0],), daemon=True).start()

    def serve(self, client):
        try:
            head = read_header(client)
            got = lsl.unpack(head[8:], {1, 2, 3, 4, 5, 6}, {2, 5})
            self.opens += 1
            if self.name.encode() in got[5]:
                client.sendall(lsl.header(2, (1, lsl.u(508, 2)), (3, self.name.encode())))
                return client.close()
            if got[2]:
                first = got[2][0]
                port, host = lsl.num(first[11 + first[10]:13 + first[10]]), first[13 + first[10]:].decode()
                passed = [(5, p) for p in got[5]] + [(5, self.name.encode())]
                far = socket.create_connection((host, port))
                far.sendall(lsl.header(1, (1, got[1]), *((2, h) for h in got[2][1:]), (3, got[3]), *passed))
                threading.Thread(target=self.answer, args=(far, client), daemon=True).start()
                return self.pipe(client, far)
            role = got[3][1]
            with self.lock:
                other = self.waiting.pop((got[1], 1 - role), None)
                if other is None:
                    self.waiting[got[1], role] = client
            if other is None:
                return client.sendall(lsl.header(2, (1, lsl.u(100, 2)), (3, self.name.encode())))
            for sock in (client, other):
                sock.sendall(lsl.header(2, (1, lsl.u(200, 2)), (3, self.name.encode())))
            threading.Thread(target=self.pipe, args=(client, other), daemon=True).start()
            self.pipe(other, client)
        except OSError:
            client.close()

    def answer(self, far, client):
        try:
            while True:
                head = read_header(far)
                got = lsl.unpack(head[8:], {1, 2, 3, 4, 5}, {5})
                final = not 100 <= lsl.num(got[1]) < 200
                own = [(5, bytes([len(self.name)]) + self.name.encode() + b"\1" + lsl.u(70, 4) + b"bbr")] if got[1] == lsl.u(200, 2) else []
                client.sendall(lsl.header(2, *((t, got[t]) for t in (1, 2, 3, 4) if t in got), *own, *((5, h) for h in got[5])))
                if final:
                    return self.pipe(far, client)
        except OSError:
            reset(client)

    def pipe(self, a, b):
        try:
            while data := a.recv(1 << 16):
                b.sendall(data)
            b.shutdown(socket.SHUT_WR)
        except OSError:
            reset(a), reset(b)


def reset(sock):
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    sock.close()


def start(*args):
    return subprocess.Popen([sys.executable, f"{HERE}/lsl.py", *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


def ended(process, code=0):
    out, err = process.communicate(timeout=60)
    assert process.returncode == code, (process.args, process.returncode, out, err)
    return out, err


def wait_for(what):
    until = time.monotonic() + 20
    while not what():
        assert time.monotonic() < until, "nothing happens"
        time.sleep(0.01)


def transfer(data, send=(), receive=(), via=(), meet=None, connections=1):
    """One file, from a process to another."""
    with tempfile.TemporaryDirectory() as d:
        with open(f"{d}/in", "wb") as f:
            f.write(data)
        if meet:
            r = start("receive", "--via", via[-1], "--meet", meet, *receive, f"{d}/out")
            s = start("send", *sum((["--via", v] for v in via[:-1]), []), "--meet", meet, *send, f"{d}/in", via[-1])
        else:
            port = free_port()
            r = start("receive", "--listen", port, *receive, f"{d}/out")
            s = start("send", *sum((["--via", v] for v in via), []), *send, f"{d}/in", f"127.0.0.1:{port}")
        (sent, said), (got, heard) = ended(s), ended(r)
        with open(f"{d}/out", "rb") as f:
            assert f.read() == data
        assert sent.split()[:2] == got.split()[:2] == [lsl.blake3(data).hex(), str(len(data))], (sent, got)
        assert f" {connections} connection" in sent, (sent, said, heard)
        return said, heard


def test_hashes():
    data = bytes(i % 251 for i in range(300000))
    for n, whole in ((0, "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"),
                     (1, "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213")):
        assert lsl.blake3(data[:n]).hex() == whole
    for n in (1, 1024, 1025, 262144, 262145, 300000):  # the tree of groups has the same root
        assert lsl.Stream(io.BytesIO(data[:n])).hash() == lsl.blake3(data[:n])
    k = bytes.fromhex("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4")
    p = bytes.fromhex("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c")
    assert lsl.x25519(k, p).hex() == "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552"


def test_headers():
    session = bytes(range(16))
    assert lsl.header(1, (1, session), (3, b"\2\1")).hex() == "b14c534c010100180100100001" "02030405060708090a0b0c0d0e0f0300020201"
    for bad in ("01000101010001", "0200010101000101", "0100", "7f000100", "80000100800001"):
        try:
            lsl.unpack(bytes.fromhex(bad), {1, 2}, {})
        except ValueError:
            continue
        raise AssertionError(bad)
    assert lsl.unpack(bytes.fromhex("010001aa800001bb"), {1}) == {1: b"\xaa"}


def test_lengths():
    for n in (0, 1, 262143, 262144, 262145, 1000000):
        transfer(os.urandom(n))


def test_depots():
    a, b = Depot("a"), Depot("b")
    said, _ = transfer(os.urandom(3000000), via=(a.peer, b.peer), send=("--cut-after", 1000000), connections=2)
    assert "through a, b" in said and a.opens == b.opens == 2


def test_meeting():
    a, b = Depot("a"), Depot("b")
    said, _ = transfer(os.urandom(3000000), via=(a.peer, b.peer), meet="07" * 16, send=("--secret", "0badcafe", "--cut-after", 1000000),
                       receive=("--secret", "0badcafe"), connections=2)
    assert "through a" in said


def test_damage_cuts_and_digests():
    data = os.urandom(20000000)
    _, heard = transfer(data, send=("--digest", "sha256", "--note", "a note"), receive=("--flip-at", 5000000))
    assert "AGAIN from 4980736" in heard and "a note" in heard
    transfer(data, send=("--digest", "md5", "--cut-after", 3000000), receive=("--flip-at", 100, "--cut-after", 18000000), connections=3)
    transfer(data[:18000000], send=("--cut-after", 17000000, "--secret", "00"), receive=("--flip-at", 17999999, "--secret", "00"), connections=2)


def test_secrets():
    for ours, theirs in (("aa", "bb"), (None, "bb"), ("aa", None)):
        with tempfile.NamedTemporaryFile() as f:
            port = free_port()
            r = start("receive", "--listen", port, *(["--secret", theirs] if theirs else []), f.name)
            s = start("send", *(["--secret", ours] if ours else []), __file__, f"127.0.0.1:{port}")
            assert "END 2" in ended(s, 1)[1]
            r.kill(), r.communicate()


def test_other_processes(both=True):
    """Both ends are killed, one after the other, and go on from their state files."""
    with tempfile.TemporaryDirectory() as d:
        data, port = os.urandom(60000000), free_port()
        with open(f"{d}/in", "wb") as f:
            f.write(data)
        receiver = ("receive", "--listen", port, "--state", f"{d}/r", f"{d}/out")
        sender = ("send", "--state", f"{d}/s", f"{d}/in", f"127.0.0.1:{port}")
        r, s = start(*receiver), start(*sender)
        grown = lambda n: lambda: os.path.exists(f"{d}/out") and os.path.getsize(f"{d}/out") > n
        wait_for(grown(10000000))
        s.kill(), s.communicate()
        s = start(*sender)
        if both:
            wait_for(grown(30000000))
            r.kill(), r.communicate()
            assert os.path.exists(f"{d}/r") and not grown(len(data) - 1)()
            r = start(*receiver)
        out, _ = ended(s)
        ended(r)
        with open(f"{d}/out", "rb") as f:
            assert f.read() == data
        assert out.split()[0] == lsl.blake3(data).hex() and not os.path.exists(f"{d}/s")


def test_other_sender():
    """The acceptor's FIN came to the first process, and does not come again."""
    test_other_processes(both=False)


def test_prefix():
    """6.7: goes on with a beginning of another session; END 3 if it is not the same."""
    data = os.urandom(1500000)
    for change, code in ((0, 0), (1, 1)):
        with tempfile.TemporaryDirectory() as d:
            with open(f"{d}/in", "wb") as f:
                f.write(data)
            with open(f"{d}/out", "wb") as f:
                f.write(data[:699999] + bytes([data[699999] ^ change]))
            port = free_port()
            r = start("receive", "--partial", "--listen", port, f"{d}/out")
            s = start("send", f"{d}/in", f"127.0.0.1:{port}")
            said = ended(s, code)[1]
            if code:
                assert "END 3" in said
                assert "END 3" in ended(r, 1)[1]
            else:
                ended(r)
                with open(f"{d}/out", "rb") as f:
                    assert f.read() == data


def both_ways(relay=lambda sock: sock, **more):
    there, back = os.urandom(3000000), os.urandom(2000000)
    i, a = (lsl.Session(role, io.BytesIO(x), io.BytesIO(), **more) for role, x in ((0, there), (1, back)))
    server = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=a.run, kwargs={"listener": server}, daemon=True)
    thread.start()
    i.cut = 1500000
    i.run(route=[server.getsockname()])
    thread.join(20)
    assert a.inp.file.getvalue() == there and i.inp.file.getvalue() == back and i.connections == 2


def test_both_ways():
    both_ways()
    both_ways(digest=2)


def test_small_records():
    """Records that are no whole groups, one of which is damaged early: a group is asked for once, later ones are kept."""
    data = os.urandom(700000)
    source, sink = lsl.Stream(io.BytesIO(data)), lsl.Stream(io.BytesIO())
    cuts = sorted({*range(0, 700000, 50000), 262144, 524288, 700000})
    asked = []
    for start_, end in zip(cuts, cuts[1:]):
        check = source.value(end) if start_ != 50000 else bytes(32)
        again = sink.take(start_, check, data[start_:end])
        asked += [] if again is None else [again]
    assert asked == [50000] and sink.size == 50000, (asked, sink.size)
    assert sink.take(50000, source.value(262144), data[50000:262144]) is None and sink.size == 700000
    assert sink.file.getvalue() == data and sink.hash() == source.hash()


def test_positions():
    """8.4: the values of a position are those of the whole's tree, whatever its length."""
    data = os.urandom(7 * lsl.GROUP + 5)
    s = lsl.Stream(io.BytesIO(data))
    for n, values in ((0, 0), (1, 1), (lsl.GROUP, 1), (lsl.GROUP + 1, 2), (2 * lsl.GROUP, 2), (7 * lsl.GROUP, 3), (7 * lsl.GROUP + 5, 4)):
        p = s.position(n)
        assert len(p) == 8 + 32 * values and lsl.Stream(io.BytesIO(data)).check(p) == n
        at = [p[8 + 32 * k:40 + 32 * k] for k in range(values)]
        while len(at) > 1:  # what is left of the tree is its right edge
            at[-2:] = [lsl.merge(lsl.columns(at[-2:]), root=len(at) == 2)]
        assert values < 2 or at[0] == lsl.blake3(data[:n])


if __name__ == "__main__":
    tests = [t for name, t in list(globals().items()) if name.startswith("test_") and (len(sys.argv) < 2 or sys.argv[1] in name)]
    for test in tests:
        began = time.monotonic()
        test()
        print(f"{test.__name__} {time.monotonic() - began:.1f} s", flush=True)
    print(f"{len(tests)} passed, 0 failed")
