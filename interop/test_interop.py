#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests lsl.py against `longhaul send` and `recv`, on loopback: test_interop.py LONGHAUL. Takes some 60 s."""
import json, os, pathlib, signal, socket, subprocess, sys, tempfile, time

from test_lsl import CODE, LSL, Relay, free_port

STORED, STORED_CODE = [sys.executable, str(pathlib.Path(__file__).with_name("stored.py"))], "k3v9-x2mq-7f4t-pd8w-z0y1"

LATEST = time.monotonic() + 380
# Beyond what a receiver takes at first (16 MiB), and what is enough to lose a connection in.
GROUP, LARGE, MIDDLE = 262144, os.urandom(20_000_000), 6_000_000


class Check:
    """One transfer in a directory of its own; ends what it has started."""
    def __init__(self, longhaul, real_sends, encrypted, data):
        self.longhaul, self.real_sends, self.encrypted, self.processes = longhaul, real_sends, encrypted, []
        self.directory = tempfile.TemporaryDirectory()
        self.source, self.target = (pathlib.Path(self.directory.name, name) for name in ("in", "out"))
        self.source.write_bytes(data)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()
        self.directory.cleanup()

    def start(self, *command):
        log = open(f"{self.directory.name}/{len(self.processes)}.log", "wb")
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        self.processes.append(process)
        return process

    def depot(self, *options):
        port = free_port()
        self.start(self.longhaul, "depot", *options, "--listen", f"127.0.0.1:{port}", "--id", "depot1", "--allow-client",
                   "127.0.0.0/8", "--allow-upstream", "127.0.0.1:*", "--allow-local")
        with socket.socket() as sock:
            self.wait(lambda: sock.connect_ex(("127.0.0.1", port)) == 0)
        return port

    def send(self, *options, code=CODE):
        options = [*options, *(["--json"] if self.real_sends else []), *([] if self.encrypted else ["--no-encryption"])]
        return self.start(*([self.longhaul] if self.real_sends else LSL), "send", self.source, "--code", code, *options)

    def receive(self, port, *options):
        if self.real_sends:
            listen = ["--listen", str(port)] if port else []
            return self.start(*LSL, "receive", self.target, "--code", CODE, *listen, *options)
        listen = ["--listen", f"127.0.0.1:{port}"] if port else []
        return self.start(self.longhaul, "recv", CODE, "--json", "-o", self.target, *listen, *options)

    def wait(self, condition, seconds=40):
        until = min(LATEST, time.monotonic() + seconds)
        while not condition():
            assert time.monotonic() < until, "nothing happens"
            time.sleep(0.01)

    def kill_in_the_middle(self, process):
        part = self.target if self.real_sends else self.target.with_name("out.part")
        self.wait(lambda: part.exists() and part.stat().st_size > 2_000_000)
        process.kill()
        process.wait()
        assert part.exists() and part.stat().st_size < len(LARGE), "killed too late"

    def done(self, *processes):
        self.wait(lambda: all(process.poll() is not None for process in processes), 20)
        assert [process.returncode for process in processes] == [0, 0], "an exit code is not 0"
        assert self.target.read_bytes() == self.source.read_bytes(), "other bytes arrived"
        said = json.loads([line for line in self.logs().splitlines() if line.startswith("{")][-1])
        assert said["encrypted"] == self.encrypted, said

    def logs(self):
        return "".join(path.read_text() for path in sorted(self.source.parent.glob("*.log")))


def direct(check):
    port = free_port()
    check.done(check.receive(port), check.send(f"127.0.0.1:{port}"))


def through_depot(check):
    depot, port = check.depot(), free_port()
    check.done(check.receive(port), check.send(f"127.0.0.1:{port}", "--via", f"127.0.0.1:{depot}"))


def meeting(check):
    via = "--via", f"127.0.0.1:{check.depot()}"
    check.done(check.receive(None, *via), check.send(*via))


def lost_connection(check):
    port = free_port()
    relay = Relay(port, cuts=[3_000_000])
    check.done(check.receive(port), check.send(relay.peer))
    assert relay.connections > 1, "the connection was not lost"


def lost_meeting(check):
    depot = check.depot()
    relay = Relay(depot, cuts=[3_000_000])
    check.done(check.receive(None, "--via", f"127.0.0.1:{depot}"), check.send("--via", relay.peer))
    assert relay.connections > 1, "the connection was not lost"


def damaged_byte(check):
    port = free_port()
    relay = Relay(port, flip=5_000_000)
    check.done(check.receive(port), check.send(relay.peer))
    assert relay.connections == 1 + check.encrypted, "12.6: a damaged message ends the connection, damaged data do not"


def damaged_beginning(check):
    """The mark of the first message, its ciphertext, or the second message: the sender connects again."""
    for fault in ({"flip": 35}, {"flip": 60}, {"back": 60}):
        port = free_port()
        relay = Relay(port, **fault)
        check.done(check.receive(port), check.send(relay.peer))
        assert relay.connections == 2, fault
        check.target.unlink()


def wrong_code(check):
    """END 2: the sender ends, after a few attempts if the answer has no proof, and does not go on without encryption.
    The receiver waits for another one."""
    port = free_port()
    receiver, relay = check.receive(port), Relay(port)
    sender = check.send(relay.peer, code=CODE[::-1])
    check.wait(lambda: sender.poll() is not None)
    assert sender.returncode == 1 and relay.connections == (5 if check.encrypted else 1), relay.connections
    assert (b'"kind"' in relay.seen[0]) != check.encrypted, "the note can be seen, or cannot"
    check.done(receiver, check.send(f"127.0.0.1:{port}"))


def killed_receiver(check):
    port = free_port()
    receiver, sender = check.receive(port), check.send(f"127.0.0.1:{port}")
    check.kill_in_the_middle(receiver)
    check.done(check.receive(port), sender)


def killed_sender(check):
    port = free_port()
    receiver, sender = check.receive(port), check.send(f"127.0.0.1:{port}")
    check.kill_in_the_middle(sender)
    check.done(receiver, check.send(f"127.0.0.1:{port}"))


def killed_sender_at_meeting(check):
    via = "--via", f"127.0.0.1:{check.depot()}"
    receiver, sender = check.receive(None, *via), check.send(*via)
    check.kill_in_the_middle(sender)
    check.done(receiver, check.send(*via))


def growing(check):
    """11.6, 11.7: a file that is still written, without its length in the note; its header comes last."""
    port, whole, header = free_port(), check.source.read_bytes(), 1024 * check.encrypted
    check.source.write_bytes(bytes(10) + whole[10:2000] if header else whole[:2000])
    receiver = check.receive(port)
    last = ["--header-last", "1KB"] if header else []
    sender = check.send(f"127.0.0.1:{port}", "--follow", "--until", f"size:{len(whole)}", *last)
    check.wait(lambda: check.target.exists() and check.target.stat().st_size == 2000 - header)
    with check.source.open("r+b") as file:
        file.write(whole[:10])
        file.seek(2000)
        file.write(whole[2000:])
    check.done(receiver, sender)


def stored(check):
    """Left by one, and collected by the other when the first has gone: sections 13 and 14."""
    directory, plain = pathlib.Path(check.directory.name), [] if check.encrypted else ["--no-encryption"]
    config, real = directory / "depot.toml", check.longhaul
    config.write_text(f'[store]\npath = "{directory}/store"\nsize = "100MB"\nkept_free = "1MB"\n')
    options = "--code", STORED_CODE, "--via", f"127.0.0.1:{check.depot('--config', config)}", *plain
    leave, collect = [*STORED, "leave"], [real, "recv", "--json", "-o", check.target]
    if check.real_sends:
        leave = [real, "send", "--detach", "--json", "--owner-key", directory / "key"]
        collect = [*STORED, "collect", check.target]
    sender = check.start(*leave, check.source, *options)
    check.wait(lambda: sender.poll() is not None, 30)
    check.done(check.start(*collect, *options), sender)


def main(longhaul):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    checks = [(direct, size, True) for size in (0, 1, GROUP, GROUP + 1, len(LARGE))]
    checks += [(how, size, True) for how in (through_depot, meeting) for size in (0, GROUP + 1, MIDDLE)]
    faults = (lost_connection, MIDDLE), (damaged_byte, MIDDLE), (killed_receiver, len(LARGE)), (killed_sender, len(LARGE))
    checks += [(how, size, encrypted) for how, size in faults for encrypted in (True, False)]
    checks += [(lost_meeting, MIDDLE, True), (killed_sender_at_meeting, len(LARGE), True)]
    checks += [(stored, size, encrypted) for size, encrypted in ((0, True), (MIDDLE, True), (70000, False))]
    checks += [(damaged_beginning, 1, True), (wrong_code, 1, True), (wrong_code, 1, False)]
    checks += [(how, size, False) for how, size in ((direct, 0), (direct, GROUP + 1), (meeting, MIDDLE))]
    done = failed = 0
    for real_sends in (True, False):
        for how, size, encrypted in checks + [(growing, 3_000_000, True), (growing, 70000, False)] * real_sends:
            done += 1
            sealed = "encrypted" if encrypted else "plain"
            name = f"{how.__name__}, {size} bytes, {sealed}, {'longhaul send' if real_sends else 'longhaul recv'}"
            began = time.monotonic()
            with Check(longhaul, real_sends, encrypted, LARGE[:size]) as check:
                try:
                    how(check)
                    print(f"ok: {name}, {time.monotonic() - began:.1f} s", flush=True)
                except (AssertionError, OSError) as error:
                    failed += 1
                    print(f"FAILED: {name}: {error}\n{check.logs()}", flush=True)
    print(f"{done - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1])))
