#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes hosts.toml for `longhaul lab run --method field` from machines that EnOSlib provides.

  enoslib_hosts.py PROVIDER CONFIG [DIRECTORY]

PROVIDER is static, g5k (Grid'5000), chameleon or fabric; CONFIG is EnOSlib's configuration of it (YAML), in which the role of each
machine is a node of the scenario. The machines are reserved and deployed as EnOSlib does that. In DIRECTORY (.) it leaves
hosts.toml and ssh_config. Each machine's address is the first that it has in one of the configuration's networks, or `longhaul_address` of its
`extra`, or else the one by which ssh reaches it. `longhaul_sudo` of `extra` says whether guards are run by sudo (default: for all users
but root), and `longhaul_directory` where files go.

Needs enoslib (pip3 install enoslib). Exit status: 0, or 2 if something is missing or wrong.
"""
import json
import pathlib
import shlex
import socket
import sys

# The provider's class and that of its configuration.
PROVIDERS = {
    "static": ("Static", "StaticConf"),
    "g5k": ("G5k", "G5kConf"),
    "chameleon": ("CBM", "CBMConf"),
    "fabric": ("Fabric", "FabricConf"),
}


def fail(text):
    print(f"enoslib_hosts: {text}", file=sys.stderr)
    sys.exit(2)


def provided(provider, config):
    """The machines by role, and the networks, of a provider."""
    try:
        import enoslib
        import yaml
    except ImportError as error:
        fail(f"{error.name} is missing: pip3 install enoslib")
    make, configure = (getattr(enoslib, name, None) for name in PROVIDERS[provider])
    if make is None:
        fail(f"this enoslib has no {provider}: pip3 install 'enoslib[{provider}]'")
    roles, networks = make(configure.from_dictionary(yaml.safe_load(config.read_text())).finalize()).init()
    everyone = [host for hosts in roles.values() for host in hosts]
    if networks and not all("longhaul_address" in host.extra for host in everyone):
        # Asks each machine for its addresses.
        roles = enoslib.sync_info(roles, networks)
    return roles, networks


def nodes(roles):
    """Each role's one machine."""
    used = {}
    for node, hosts in sorted(roles.items()):
        if len(hosts) != 1:
            fail(f"the role {node} has {len(hosts)} machines: a node of a scenario is one")
        (host,) = hosts
        other = used.setdefault(host.address, node)
        if other != node:
            fail(f"{host.address} is both {other} and {node}: a machine is one node")
        yield node, host


def data_address(host, networks):
    """The address in the network under test."""
    if "longhaul_address" in host.extra:
        return host.extra["longhaul_address"]
    everything = [network for some in networks.values() for network in some]
    found = host.filter_addresses(networks=everything) if everything else []
    if found:
        return str(found[0].ip.ip)
    try:
        return socket.getaddrinfo(host.address, None)[0][4][0]
    except OSError as error:
        fail(f"{host.address}: {error}. Give it an address in the network under test: extra: {{longhaul_address: ...}}")


def ssh_lines(host):
    """How ssh reaches a machine, by the user's own configuration and what EnOSlib has for it."""
    lines = [f"Host {host.address}"]
    for key, value in (("User", host.user), ("Port", host.port), ("IdentityFile", host.keyfile)):
        if value:
            lines.append(f"  {key} {value}")
    words = shlex.split(host.extra.get("ansible_ssh_common_args", ""))
    gateway = host.extra.get("gateway")
    if gateway:
        user = host.extra.get("gateway_user")
        lines.append(f"  ProxyJump {user}@{gateway}" if user else f"  ProxyJump {gateway}")
    while words:
        option = words.pop(0)
        value = words.pop(0) if words and len(option) == 2 else option[2:]
        if option.startswith("-o"):
            name, _, setting = value.partition("=")
            lines.append(f"  {name} {setting}")
        elif option.startswith("-J"):
            lines.append(f"  ProxyJump {value}")
        elif option.startswith("-F"):
            lines.append(f"  Include {value}")
        else:
            fail(f"{host.address}: ansible_ssh_common_args has {option}, which ssh's configuration has no line for")
    return lines


def main(words):
    if len(words) not in (2, 3) or words[0] not in PROVIDERS:
        fail(f"usage: enoslib_hosts.py {'|'.join(PROVIDERS)} CONFIG [DIRECTORY]")
    provider, config = words[0], pathlib.Path(words[1])
    directory = pathlib.Path(words[2] if len(words) == 3 else ".")
    if not config.is_file():
        fail(f"{config}: there is no such file")
    roles, networks = provided(provider, config)
    ssh, hosts = [], ['ssh_config = "ssh_config"', ""]
    for node, host in nodes(roles):
        sudo = host.extra.get("longhaul_sudo", host.user not in (None, "root"))
        # JSON's texts are TOML's.
        hosts += ["[[host]]", f"node = {json.dumps(node)}", f"ssh = {json.dumps(host.address)}"]
        hosts += [f"address = {json.dumps(data_address(host, networks))}", f"sudo = {json.dumps(bool(sudo))}", ""]
        if "longhaul_directory" in host.extra:
            hosts[-1:] = [f"directory = {json.dumps(host.extra['longhaul_directory'])}", ""]
        ssh += ssh_lines(host)
    ssh += ["Host *", "  Include ~/.ssh/config"]
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "ssh_config").write_text("\n".join(ssh) + "\n")
    (directory / "hosts.toml").write_text("\n".join(hosts))
    print(f"{directory / 'hosts.toml'}: {', '.join(sorted(roles))}")


if __name__ == "__main__":
    main(sys.argv[1:])
