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


class Handler(http.server.BaseHTTPRequestHandler):
    timeout = 10

    def do_GET(self):
        target, client = self.headers.get("X-Target", ""), self.headers.get("X-Client", "")
        # Of a folder, a ticket would open all that is in it.
        if not target.startswith("/") or target.split("?")[0].endswith("/"):
            return self.answer(403)
        url = self.server.options.origin + target
        command = [self.server.options.longhaul, "ticket", "make", "--key", self.server.options.key]
        command += ["--via", self.server.options.via, "--expires", self.server.options.expires]
        command += ["--issuer", "portal"]
        if self.server.options.bind_client:
            command += ["--client", client]
        made = subprocess.run(command + ["--", url], capture_output=True, text=True, timeout=5)
        if made.returncode != 0:
            self.log_error("%s: %s", target, made.stderr.strip())
            return self.answer(403)
        self.answer(204, made.stdout.strip())

    def answer(self, status, url=None):
        self.send_response(status)
        if url:
            self.send_header("X-Ticket-URL", url)
        self.end_headers()

    def address_string(self):
        return self.headers.get("X-Client", "-")


class Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True


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
