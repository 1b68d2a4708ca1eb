#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes a ticket for each request that nginx asks it about (auth_request); see README.md beside this file.

nginx names what is asked for in X-Target, as in the request line, and the client's address in X-Client. The answer is 204
with the URL through the depots in X-Ticket-URL, 204 without it where no route stands, so that nginx serves the file
itself, or 403 where there is no ticket for that.
"""

import argparse
import http.server
import ipaddress
import json
import os
import re
import socketserver
import stat
import subprocess
import sys
import threading
import urllib.parse

# So many tickets are made at a time; others wait for their turn.
AT_A_TIME = threading.BoundedSemaphore(8)
# The maximum size of the routes file, in bytes.
MAX_ROUTES = 1 << 20
# A depot as tickets name it.
DEPOT = re.compile(r"(https:)?[A-Za-z0-9\[][A-Za-z0-9.:\[\]_-]*")


class Routes:
    """The routes that `longhaul failover` keeps in a file (its `routes_file`), read again when it changes.

    A file that cannot be used is logged once, and `fallback` is taken for every client meanwhile.
    """

    def __init__(self, path, fallback):
        self.path, self.fallback = path, fallback
        self.lock = threading.Lock()
        self.version, self.networks = None, None

    def via(self, client):
        """The depots for this client, separated by commas; None where no route stands."""
        with self.lock:
            version = self.version_now()
            if version != self.version:
                self.version = version
                self.networks = self.read()
            networks = self.networks
        if networks is None:
            return self.fallback
        try:
            address = ipaddress.ip_address(client)
        except ValueError:
            # As of a Unix socket: no network holds it.
            return None
        address = getattr(address, "ipv4_mapped", None) or address
        # As nginx has it: the most specific network applies.
        held = [(network.prefixlen, via) for network, via in networks if address in network]
        return max(held, key=lambda one: one[0])[1] if held else None

    def version_now(self):
        try:
            now = os.stat(self.path)
            return now.st_dev, now.st_ino, now.st_mtime_ns, now.st_size
        except OSError as why:
            return str(why)

    def read(self):
        """All networks with their depots; None where the file cannot be used."""
        try:
            networks = parse_routes(read_file(self.path, MAX_ROUTES))
        except (OSError, ValueError) as why:
            instead = "--via is used instead" if self.fallback else "files are served directly"
            log(f"{self.path} cannot be used: {why}; {instead}")
            return None
        log(f"{self.path} is read: routes stand for {sum(via is not None for _, via in networks)} of {len(networks)} networks")
        return networks


def read_file(path, most):
    # A pipe in its place would be waited for.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is no file")
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"it is larger than {most} bytes")
    return content


def parse_routes(content):
    try:
        groups = json.loads(content)["clients"]
        return [(ipaddress.ip_network(network), via_of(group)) for group in groups for network in group["networks"]]
    except (KeyError, TypeError, RecursionError) as why:
        raise ValueError(f"it has no routes as `longhaul failover` writes them: {why!r}") from why


def via_of(group):
    depots = group["via"]
    if not isinstance(depots, list):
        raise TypeError("via")
    for depot in depots:
        if not DEPOT.fullmatch(depot):
            raise ValueError(f"{depot!a} is no depot")
    return ",".join(depots) or None


def log(text):
    print(text, file=sys.stderr, flush=True)


def check_target(target):
    """ValueError where there can be no ticket for this target."""
    # Of a folder, a ticket would open all that is in it.
    if not target.startswith("/") or target.split("?")[0].endswith("/"):
        raise ValueError("it is no file")


def ticket_for(options, target, client, via):
    """The URL by which whoever has it gets this target. ValueError says why there is none."""
    # Bytes that ought to be encoded and are not, as nginx passes them on.
    target = urllib.parse.quote(target.encode("latin-1"), safe="".join(map(chr, range(0x21, 0x7f))))
    command = [options.longhaul, "ticket", "make", "--key", options.key, "--via", via]
    command += ["--expires", options.expires, "--issuer", "portal"]
    if options.bind_client:
        command += ["--client", client]
    with AT_A_TIME:
        made = subprocess.run(command + ["--", options.origin + target], capture_output=True, text=True, timeout=5)
    if made.returncode != 0:
        raise ValueError(made.stderr.strip())
    return made.stdout.strip()


class Handler(http.server.BaseHTTPRequestHandler):
    timeout = 10

    def do_GET(self):
        target, client = self.headers.get("X-Target", ""), self.headers.get("X-Client", "")
        try:
            check_target(target)
            via = self.server.via(client)
            url = ticket_for(self.server.options, target, client, via) if via else None
        except (ValueError, OSError, subprocess.SubprocessError) as why:
            self.log_error("no ticket for %s: %s", ascii(target), why)
            return self.answer(403)
        self.answer(204, url)

    def answer(self, status, url=None):
        self.send_response(status)
        if url:
            self.send_header("X-Ticket-URL", url)
        self.end_headers()

    def address_string(self):
        headers = getattr(self, "headers", None)
        return headers.get("X-Client", "-") if headers else "-"


class Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    # A Unix socket refuses at once whoever finds no room.
    request_queue_size = 1024


def main():
    parser = argparse.ArgumentParser(description="Makes tickets for what nginx has let in.")
    parser.add_argument("--socket", required=True, help="where nginx asks; whoever may write to it gets tickets")
    parser.add_argument("--origin", required=True, help="the files as the last depot reaches them: http://HOST:PORT")
    parser.add_argument("--key", required=True, help="the private key of `longhaul ticket keygen`")
    parser.add_argument("--via", help="the depots, the one nearest the client first; with --routes, while its file cannot be used")
    parser.add_argument("--routes", metavar="FILE", help="the routes that stand: the routes_file of `longhaul failover`")
    parser.add_argument("--expires", default="10min", help="how long a ticket may be used [%(default)s]")
    parser.add_argument("--bind-client", action="store_true", help="tickets only for the address that asked")
    parser.add_argument("--longhaul", default="longhaul", help="the program")
    options = parser.parse_args()
    if not (options.via or options.routes):
        parser.error("one of --via and --routes is needed")
    # Before anybody asks: whether it can be done at all. Without --via any depot does to try the key.
    try:
        ticket_for(options, "/a-file", "192.0.2.1", options.via or "depot.invalid")
    except (ValueError, OSError, subprocess.SubprocessError) as why:
        parser.error(f"no ticket can be made: {why}")
    # Left by a run that was killed.
    if os.path.exists(options.socket):
        os.unlink(options.socket)
    os.umask(0o117)
    server = Server(options.socket, Handler)
    server.options = options
    server.via = Routes(options.routes, options.via).via if options.routes else lambda client: options.via
    log("ready")
    server.serve_forever()


if __name__ == "__main__":
    main()
