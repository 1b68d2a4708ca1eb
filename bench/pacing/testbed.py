# SPDX-License-Identifier: GPL-2.0-or-later
"""Two network namespaces with a wire between, and TCP from one to the other: for the scripts beside.

Namespaces have no name, and gap packets' pins lie in a mount namespace of the script's own: whatever ends it,
the kernel takes them away. Senders and receivers are its children and die with it.
"""
import contextlib
import ctypes
import fcntl
import functools
import json
import os
import signal
import socket
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import setup  # noqa: E402
from setup import LONGHAUL, fail  # noqa: E402

# Bytes that a full packet takes of the link: preamble, Ethernet's header, check sequence and inter-frame gap
# around an IP packet of 1500; and what of it TCP calls payload, with timestamps.
FULL, PAYLOAD = 1538, 1448
SO_MAX_PACING_RATE = 47
PORT = 5001
CORES = sorted(os.sched_getaffinity(0))
CLONE_NEWNS, CLONE_NEWNET = 0x20000, 0x40000000
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)


def checked(result):
    if result:
        fail(os.strerror(ctypes.get_errno()))


def prepare(build):
    """As root, with what it takes; ends by SystemExit whoever ends it."""
    setup.need("ip", "tc", root=True)
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, lambda number, _: sys.exit(128 + number))
    if build:
        setup.build()
    checked(LIBC.unshare(CLONE_NEWNS))
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["mount", "-t", "bpf", "bpf", "/sys/fs/bpf"], check=True)


@functools.cache
def has_departure_times():
    """Whether the kernel has fq."""
    said = subprocess.run([LONGHAUL, "pace", "methods", "--json"], capture_output=True, text=True, check=True)
    return any(method["name"] == "departure-times" and method["can"] for method in json.loads(said.stdout)["methods"])


def enter(namespace):
    checked(LIBC.setns(namespace, CLONE_NEWNET))


def new_namespace():
    """Its descriptor, which is all that holds it."""
    with open("/proc/self/ns/net") as before:
        checked(LIBC.unshare(CLONE_NEWNET))
        made = os.open("/proc/self/ns/net", os.O_RDONLY)
        enter(before.fileno())
    return made


def core(number):
    """Has the caller run there; on a machine with one core, on that."""
    os.sched_setaffinity(0, {CORES[min(number, len(CORES) - 1)]})


def first(order):
    """Has the caller run before all that has no real-time priority, and before those of a lower order."""
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(order))


class Path:
    """From one namespace to another."""

    def __init__(self, ends, device, address):
        self.ends, self.device, self.address = ends, device, address
        self.children = []

    def start(self, end, what):
        """A child that does it there."""
        parent = os.getpid()
        pid = os.fork()
        if pid:
            self.children.append(pid)
            return pid
        status = 1
        try:
            for signum in (signal.SIGTERM, signal.SIGINT):
                signal.signal(signum, signal.SIG_DFL)
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() == parent:
                enter(self.ends[end])
                what()
                status = 0
        except OSError as error:
            print(f"{os.path.basename(sys.argv[0])}: {error}", file=sys.stderr)
        finally:
            # What the parent cleans up is the parent's.
            os._exit(status)

    def end(self, pid, kill=True):
        if kill:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.children.remove(pid)
        return os.waitpid(pid, 0)[1]

    def end_all(self):
        for pid in self.children[::-1]:
            self.end(pid)

    def run(self, *command, end=0):
        """A command there; what it prints."""
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False,
                              preexec_fn=lambda: enter(self.ends[end]))
        if done.returncode:
            fail(f"{' '.join(map(str, command))}: {done.stderr.strip()}", 3 if done.returncode == 3 else 1)
        return done.stdout

    def discipline(self, text):
        """Gives the sender's device a root queueing discipline; None: its own again."""
        subprocess.run(["tc", "qdisc", "del", "dev", self.device, "root"], capture_output=True, check=False,
                       preexec_fn=lambda: enter(self.ends[0]))
        if text:
            self.run("tc", "qdisc", "add", "dev", self.device, "root", *text.split())

    def segments(self, most):
        """How many segments a packet that the device is handed may have."""
        self.run("ip", "link", "set", "dev", self.device, "gso_max_segs", most)

    def gaps(self, rate, line):
        """Gap packets on the sender's device."""
        self.run(LONGHAUL, "pace", "add", self.device, "--rate", f"{rate}bit", "--line", f"{line}bit",
                 "--match", "dport", PORT)

    def times(self, rate, super_packets):
        """Departure times on the sender's device, which has fq."""
        self.run(LONGHAUL, "pace", "add", self.device, "--by", "edt", "--rate", f"{rate}bit",
                 "--match", "dport", PORT, *["--super-packets"] * super_packets)

    def unpaced(self):
        """As it was before these."""
        self.run(LONGHAUL, "pace", "del", self.device)

    def gap_counts(self):
        return json.loads(self.run(LONGHAUL, "pace", "show", self.device, "--json"))["devices"][0]

    def flow(self, sender, receiver=None, cores=(0, 1), order=None):
        """A connection; the children that send and receive, in this order; `order` as of `first`."""
        ready, told = os.pipe()

        def placed(number):
            core(cores[number])
            if order:
                first(order)

        def receiving():
            placed(1)
            with socket.create_server((self.address, PORT)) as listener:
                os.write(told, b"!")
                (receiver or swallow)(listener.accept()[0])

        def sending():
            placed(0)
            with socket.socket() as connection:
                sender(connection, (self.address, PORT))

        try:
            taking = self.start(1, receiving)
            os.close(told)
            told = None
            if not os.read(ready, 1):
                fail("the receiver does not start")
            return self.start(0, sending), taking
        finally:
            os.close(ready)
            if told is not None:
                os.close(told)


def swallow(connection):
    """Receives to the end; the kernel throws it away."""
    scrap = bytearray(1 << 20)
    while connection.recv_into(scrap, len(scrap), socket.MSG_TRUNC):
        pass


def send(connection, to, length=None, pacing_bps=None):
    """Sends so many bytes, or until it is ended; by the kernel's TCP pacing at so many bits of the link."""
    # Else several megabytes wait for the emulated wire, and with each packet its gap.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 256 << 10)
    if pacing_bps:
        # TCP counts payload.
        rate = int(pacing_bps / 8 * PAYLOAD / FULL)
        connection.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, struct.pack("@L", rate))
    connection.connect(to)
    block = memoryview(bytes(128 << 10))
    sent = 0
    while length is None or sent < length:
        sent += connection.send(block[:length - sent] if length is not None else block)


@contextlib.contextmanager
def veth():
    """Two namespaces with a virtual wire between, on which nothing takes time."""
    ends = [new_namespace(), new_namespace()]
    path = Path(ends, "pacing0", "10.0.0.2")
    try:
        for descriptor in ends:
            fcntl.fcntl(descriptor, fcntl.F_SETFD, 0)
        path.run("ip", "link", "add", "pacing0", "numtxqueues", 1, "numrxqueues", 1, "type", "veth",
                 "peer", "name", "pacing1")
        # iproute2 takes a path for a namespace; in a child, the descriptor is the same.
        subprocess.run(["ip", "link", "set", "pacing1", "netns", f"/proc/self/fd/{ends[1]}"], check=True,
                       preexec_fn=lambda: enter(ends[0]), pass_fds=ends)
        for end in (0, 1):
            path.run("ip", "address", "add", f"10.0.0.{end + 1}/24", "dev", f"pacing{end}", end=end)
            path.run("sysctl", "-qw", f"net.ipv6.conf.pacing{end}.disable_ipv6=1", end=end)
            path.run("ip", "link", "set", f"pacing{end}", "up", end=end)
        yield path
    finally:
        path.end_all()
        for descriptor in ends:
            os.close(descriptor)


@contextlib.contextmanager
def emulated(line, folder):
    """Two nodes of an emulated network with one link of that rate, and a function that tells what it did."""
    name = f"pacing{os.getpid()}"
    file = os.path.join(folder, "wire.toml")
    with open(file, "w") as scenario:
        # The receiver's acknowledgements take the same kind of link.
        scenario.write(f"""
            title = "pacing"
            node = [{{ name = "sender" }}, {{ name = "receiver" }}]
            [[link]]
            name = "wire"
            between = ["sender", "receiver"]
            rate = "{line}bit"
            queue = "16MB"
            overhead = 38
            max_burst = "0"
        """)

    def told(word):
        said = subprocess.run([LONGHAUL, "wan", word, "--name", name, *(["--json"] if word == "status" else [])],
                              capture_output=True, text=True, check=True).stdout
        return json.loads(said) if word == "status" else said

    subprocess.run([LONGHAUL, "wan", "up", file, "--name", name], check=True, capture_output=True)
    try:
        status = told("status")
        ends = [os.open(f"/proc/{status['pid']}/fd/{node['descriptor']}", os.O_RDONLY)
                for node in status["nodes"]]
        path = Path(ends, "wan0", status["nodes"][1]["ipv4"])
        try:
            yield path, lambda: told("status")
        finally:
            path.end_all()
            for descriptor in ends:
                os.close(descriptor)
    finally:
        told("down")
