# SPDX-License-Identifier: GPL-2.0-or-later
"""An emulated network with web servers and chains of two depots on it, for benches of whole transfers.

The scenario has depots, by default the nodes `near` and `far`. Whatever is started ends with the network.
"""
import contextlib
import hashlib
import json
import os
import subprocess
import time

from setup import LONGHAUL, ROOT


class Failed(Exception):
    """A program failed; the text says which and how."""


def checked(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)}: {done.stderr or done.stdout}")
    return done.stdout


class Network:
    """The network of a scenario of bench/, and what runs on it."""

    def __init__(self, scenario, name, settings, folder, stack, depots=("near", "far")):
        self.name, self.folder, self.stack = name, folder, stack
        os.chmod(folder, 0o755)
        sets = [word for setting in settings for word in ("--set", setting)]
        checked(LONGHAUL, "wan", "up", os.path.join(ROOT, "bench", scenario), "--name", name, *sets)
        stack.callback(subprocess.run, [LONGHAUL, "wan", "down", "--name", name], stdout=subprocess.DEVNULL)
        self.address = {}
        for line in checked(*self.on(depots[0], "cat", "/etc/hosts")).splitlines():
            address, *names = line.split("#")[0].split() or [""]
            if "." in address:
                self.address.update((node, address) for node in names)
        for node in depots:
            # As the depots themselves advise.
            checked(*self.on(node, "sysctl", "-qw", "net.ipv4.tcp_slow_start_after_idle=0"))

    def forget_paths(self, *nodes):
        """Has each connection of these nodes begin without what an earlier one has found out."""
        for node in nodes:
            checked(*self.on(node, "sysctl", "-qw", "net.ipv4.tcp_no_metrics_save=1"))

    def on(self, node, *command):
        """The command that runs another one on a node."""
        return [LONGHAUL, "wan", "exec", "--name", self.name, node, "--", *command]

    def start(self, node, *command):
        """Starts a program on a node; it ends with the network."""
        log = self.stack.enter_context(open(os.path.join(self.folder, f"{node}.log"), "a"))
        process = subprocess.Popen(self.on(node, *command), stdout=log, stderr=log)
        self.stack.callback(end, process)

    def serve(self, server, sizes_bytes, random=False):
        """nginx on a node, with a file for each size, called by it; their SHA-256 by size."""
        site = os.path.join(self.folder, "site")
        os.makedirs(site, exist_ok=True)
        digests = {}
        for size in sizes_bytes:
            path = os.path.join(site, str(size))
            if not os.path.exists(path):
                with open(path, "wb") as file:
                    if random:
                        file.write(os.urandom(size))
                    file.truncate(size)
            if random:
                digests[size] = sha256(path)
        config = os.path.join(self.folder, f"nginx-{server}.conf")
        with open(config, "w") as file:
            file.write(f"daemon off; master_process off; pid {self.folder}/nginx-{server}.pid;\n"
                       f"error_log {self.folder}/nginx-{server}.err; events {{ }}\n"
                       f"http {{ access_log off; sendfile on; tcp_nopush on; keepalive_timeout 600;\n"
                       f"server {{ listen 80; root {site}; }} }}\n")
        self.start(server, "nginx", "-c", config)
        return digests

    def chain(self, port, control, warm, more_near="", more_far="", server="server"):
        """A pair of depots at a port, with so many warm connections; the URL at the first, to which the
        origin's path is added."""
        for node, peer, count, more in (("near", "far", warm, more_near), ("far", "near", 0, more_far)):
            config = os.path.join(self.folder, f"{node}-{port}.toml")
            with open(config, "w") as file:
                file.write(f"""
                    id = "{node}-{port}"
                    listen = ["0.0.0.0:{port}"]
                    trust.depots = ["{self.address[peer]}/32"]
                    allow.clients = ["0.0.0.0/0"]
                    allow.upstreams = ["0.0.0.0/0:*"]
                    allow.servers = ["0.0.0.0/0:*"]
                    allow.private = true
                    threads = 1
                    {"" if warm else "idle_connections.per_hop = 0"}
                    [[hop]]
                    peer = "{self.address[peer]}/32"
                    congestion = "{control}"
                    warm = {count}
                    {more}
                    """)
            self.start(node, LONGHAUL, "depot", "--config", config)
        far, server = self.address["far"], self.address[server]
        return f"http://{self.address['near']}:{port}/lh1/fetch/{far}:{port}/http:{server}/"

    def faults(self):
        """Why what was measured on it does not count."""
        return json.loads(checked(LONGHAUL, "wan", "status", "--name", self.name, "--json"))["faults"]

    def await_listener(self, node, port):
        """Waits until something listens at a node's port."""
        deadline = time.monotonic() + 10
        while f":{port} " not in checked(*self.on(node, "ss", "-tlnH")):
            if time.monotonic() > deadline:
                raise Failed(f"nothing listens at port {port} of {node}: see {self.folder}/{node}.log")
            time.sleep(0.02)


def end(process):
    """Ends a program that was started."""
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def controls_loaded(names):
    """Loads what is missing of longhaul's own congestion controls, and unloads that."""
    with open("/proc/sys/net/ipv4/tcp_available_congestion_control") as file:
        there = file.read().split()
    for name in names:
        if not name.startswith("lh_") and name not in there:
            raise Failed(f"this kernel has no {name}")
    missing = [name[3:] for name in names if name.startswith("lh_") and name not in there]
    if missing:
        checked(LONGHAUL, "cc", "load", *missing)
    try:
        yield
    finally:
        if missing:
            subprocess.run([LONGHAUL, "cc", "unload", *missing], stdout=subprocess.DEVNULL)
