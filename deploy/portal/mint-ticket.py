#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes a ticket for each request that nginx asks it about (auth_request); see README.md beside this file.

nginx names what is asked for in X-Target, as in the request line, and the client's address in X-Client. The answer is 204
with the URL through the depots in X-Ticket-URL, or 403 where there is no ticket for that.
"""

import argparse
import http.server
import os
import socketserver
import subprocess
import sys
import threading
import urllib.parse

# So many tickets are made at a time; others wait for their turn.
AT_A_TIME = threading.BoundedSemaphore(8)


def ticket_for(options, target, client):
    """The URL by which whoever has it gets this target. ValueError says why there is none."""
    # Of a folder, a ticket would open all that is in it.
    if not target.startswith("/") or target.split("?")[0].endswith("/"):
        raise ValueError("it is no file")
    # Bytes that ought to be encoded and are not, as nginx passes them on.
    target = urllib.parse.quote(target.encode("latin-1"), safe="".join(map(chr, range(0x21, 0x7f))))
    command = [options.longhaul, "ticket", "make", "--key", options.key, "--via", options.via]
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
            url = ticket_for(self.server.options, target, client)
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
    parser.add_argument("--via", required=True, help="the depots, the one nearest the client first")
    parser.add_argument("--expires", default="10min", help="how long a ticket may be used [%(default)s]")
    parser.add_argument("--bind-client", action="store_true", help="tickets only for the address that asked")
    parser.add_argument("--longhaul", default="longhaul", help="the program")
    options = parser.parse_args()
    # Before anybody asks: whether it can be done at all.
    try:
        ticket_for(options, "/a-file", "192.0.2.1")
    except (ValueError, OSError, subprocess.SubprocessError) as why:
        parser.error(f"no ticket can be made: {why}")
    # Left by a run that was killed.
    if os.path.exists(options.socket):
        os.unlink(options.socket)
    os.umask(0o117)
    server = Server(options.socket, Handler)
    server.options = options
    print("ready", file=sys.stderr, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
