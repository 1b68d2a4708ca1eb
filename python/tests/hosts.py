# SPDX-License-Identifier: GPL-2.0-or-later
"""Emulated networks of this machine, and hosts in them that ssh reaches."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

RUN = "/run/longhaul"
"""Where guards keep what they know; each host has its own."""


class Network:
    """An emulated network that is up."""

    def __init__(self, name: str) -> None:
        self.name = name
        said = subprocess.run(self.words("status", "--json"), check=True, capture_output=True, text=True)
        self.nodes = {node["name"]: node for node in json.loads(said.stdout)["nodes"]}

    def words(self, what: str, *more: str) -> list[str]:
        """A command about it."""
        return [os.environ["LONGHAUL"], "wan", what, "--name", self.name, *more]

    def on(self, node: str, *command: str) -> list[str]:
        """A command on a node."""
        return self.words("exec", node, "--", *command)


@contextmanager
def network(file: Path) -> Iterator[Network]:
    """Brings up the network of a scenario, and takes it down."""
    name = f"test-{os.getpid()}"
    program = os.environ["LONGHAUL"]
    subprocess.run([program, "wan", "up", file, "--name", name], check=True, capture_output=True)
    try:
        yield Network(name)
    finally:
        subprocess.run([program, "wan", "down", "--name", name], check=True, capture_output=True)


@contextmanager
def two_hosts(folder: Path, rate: str, delay: str) -> Iterator[Path]:
    """Hosts a and b, reached by ssh through pipes. Answers the hosts file."""
    file = folder / "network.toml"
    file.write_text(
        f"""
title = "network"
node = [{{ name = "a", cc = "reno" }}, {{ name = "b", cc = "reno" }}]
link = [{{ between = ["a", "b"], rate = "{rate}", delay = "{delay}" }}]
flow = [{{ name = "file", from = "a", to = "b", bytes = "1MB" }}]
"""
    )
    with network(file) as up, _directory(Path("/run/sshd")):
        keys = {name: _key(folder, name) for name in ("user", "a", "b")}
        config, known, hosts = "", "", 'deviation = 1.0\nmeasure = "100ms"\nssh_config = "ssh_config"\n'
        for name in ("a", "b"):
            state, sshd = folder / f"run-{name}", folder / f"{name}.conf"
            state.mkdir(mode=0o755)
            sshd.write_text(
                f"HostKey {folder / name}\nAuthorizedKeysFile {folder / 'user.pub'}\nStrictModes no\nUsePAM no\nPidFile none\n"
                "LogLevel ERROR\n"
            )
            begin = f"mount --bind {state} {RUN} && exec /usr/sbin/sshd -i -f {sshd}"
            enter = " ".join(up.on(name, "unshare", "--mount", "--propagation", "private", "sh", "-c", f"'{begin}'"))
            config += f"Host host-{name}\n  HostKeyAlias host-{name}\n  ProxyCommand {enter}\n"
            known += f"host-{name} {keys[name]}"
            hosts += f'[[host]]\nnode = "{name}"\nssh = "host-{name}"\naddress = "{up.nodes[name]["ipv4"]}"\n'
            hosts += f'directory = "{folder / f"files-{name}"}"\n'
        config += f"Host *\n  User root\n  IdentityFile {folder / 'user'}\n  IdentitiesOnly yes\n  LogLevel ERROR\n"
        config += f"  UserKnownHostsFile {folder / 'known_hosts'}\n"
        (folder / "ssh_config").write_text(config)
        (folder / "known_hosts").write_text(known)
        (folder / "hosts.toml").write_text(hosts)
        yield folder / "hosts.toml"


def _key(folder: Path, name: str) -> str:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", folder / name], check=True)
    return (folder / f"{name}.pub").read_text()


@contextmanager
def _directory(path: Path) -> Iterator[None]:
    """That sshd wants; removed if it was not there."""
    made = not path.exists()
    path.mkdir(exist_ok=True)
    try:
        yield
    finally:
        if made:
            with suppress(OSError):
                path.rmdir()
