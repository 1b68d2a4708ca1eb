# SPDX-License-Identifier: GPL-2.0-or-later
"""Servers of files on this machine: longhaul's own, a depot before it, and one that knows no more than HTTP/1.0."""

from __future__ import annotations

import http.server
import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def free_ports(count: int) -> list[int]:
    """Different ones."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(each.getsockname()[1]) for each in held]
    for each in held:
        each.close()
    return ports


def free_port() -> int:
    return free_ports(1)[0]


@contextmanager
def running(log: Path, words: list[str], port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A program of longhaul that listens, until the end."""
    with log.open("wb") as out:
        process = subprocess.Popen([os.environ["LONGHAUL"], *words], stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        for _ in range(300):
            with socket.socket() as asked:
                if asked.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert process.poll() is None, log.read_text(errors="replace")
            time.sleep(0.1)
        else:
            raise AssertionError(f"nothing listens: {log.read_text(errors='replace')}")
        yield process
    finally:
        process.terminate()
        process.wait(20)


@contextmanager
def site(folder: Path, logs: Path) -> Iterator[str]:
    """Serves a folder with listings. Answers its URL."""
    port = free_port()
    with running(logs / "site.log", ["origin", str(folder), "--listen", f"127.0.0.1:{port}", "--list"], port):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def depot(logs: Path, upstream: str) -> Iterator[str]:
    """A depot that reaches one server."""
    port = free_port()
    words = ["depot", "--id", f"depot{port}", "--listen", f"127.0.0.1:{port}", "--allow-client", "127.0.0.0/8"]
    with running(logs / f"depot{port}.log", [*words, "--allow-upstream", upstream, "--allow-local"], port):
        yield f"127.0.0.1:{port}"


class _Plain(http.server.BaseHTTPRequestHandler):
    """No ranges, no validators."""

    files: dict[str, bytes] = {}
    statuses: dict[str, int] = {}

    def do_GET(self) -> None:
        """Whole files; those that end in `.encoded` say that they are compressed."""
        data = self.files.get(self.path)
        self.send_response(self.statuses.get(self.path, 404 if data is None else 200))
        self.send_header("Content-Length", str(len(data or b"")))
        if self.path.endswith(".encoded"):
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        self.wfile.write(data or b"")

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@contextmanager
def plain(files: dict[str, bytes], statuses: dict[str, int] | None = None) -> Iterator[str]:
    """Serves these files by path, some of them with another status."""
    handler = type("Handler", (_Plain,), {"files": files, "statuses": statuses or {}})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
