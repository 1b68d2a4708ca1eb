# SPDX-License-Identifier: GPL-2.0-or-later
"""Files at HTTP servers, for fsspec: `longhaul+https://` and `longhaul+http://`; for xarray, which knows no `+` in a scheme,
`longhaulhttps://` and `longhaulhttp://`.

xarray, zarr, dask, pandas and polars take such URLs, with `storage_options={"via": "d1.example.net"}` to go through depots. Bytes are
checked as by `longhaul get`: transfers go on where they broke, what the server promises a digest of has it, and ranges of a file are of
one version. Needs fsspec.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from datetime import datetime, timezone
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urljoin, urlsplit

from fsspec.asyn import AsyncFileSystem, sync
from fsspec.callbacks import DEFAULT_CALLBACK, Callback
from fsspec.spec import AbstractBufferedFile
from fsspec.utils import stringify_path

from longhaul import _longhaul
from longhaul.errors import UnsupportedError, VersionError

PREFIX = "longhaul+"
MOST_KNOWN = 10_000
"""Files whose version is known for ranges."""
LARGEST_INDEX = 16 << 20
"""Bytes of a directory's page."""
BLOCK = 8 << 20
"""Bytes that an open file asks for at least: a round trip of a long path is worth some megabytes."""


class LonghaulFileSystem(AsyncFileSystem):
    """Reads files at HTTP servers, through depots.

    `via` is a route, its depots separated by commas, the nearest first (`"d1.example.net,d2.example.org"`), or a list of routes, of which
    each is used when those before fail. Without it, `client.toml` of the user's configuration decides, as for `longhaul get`; `via=[]` is
    directly. `ca` is a file (PEM) of further certificate authorities, `connections` the number of transfers at a time, `max_memory` the
    size of the largest file that `cat` reads whole. Times are in seconds.
    """

    protocol: str | tuple[str, ...] = ("longhaul+https", "longhaul+http", "longhaulhttps", "longhaulhttp")
    async_impl: bool = True
    cachable: bool = True

    def __init__(
        self,
        via: str | Iterable[str] | None = None,
        *,
        ca: str | os.PathLike[str] | None = None,
        retries: int = 5,
        connections: int = 16,
        connect_timeout: float = 15.0,
        stall_time: float = 30.0,
        allow_downgrade: bool = False,
        allow_unknown_length: bool = False,
        save_encoded: bool = False,
        max_memory: int = 4 << 30,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.max_memory = max_memory
        routes = [via] if isinstance(via, str) else via
        self._remote = _longhaul.Remote(
            via=None if routes is None else list(routes),
            ca=None if ca is None else os.fspath(ca),
            retries=retries,
            connections=connections,
            connect_timeout=connect_timeout,
            stall_time=stall_time,
            allow_downgrade=allow_downgrade,
            allow_unknown_length=allow_unknown_length,
            save_encoded=save_encoded,
        )
        self._known: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._lock = threading.Lock()

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        """Names are URLs without `longhaul+`."""
        if isinstance(path, list):
            return [cls._strip_protocol(item) for item in path]
        name = stringify_path(path).removeprefix(PREFIX)
        return name.removeprefix("longhaul") if name.startswith(("longhaulhttp://", "longhaulhttps://")) else name

    def unstrip_protocol(self, name: str) -> str:
        """The URL by which fsspec finds this file system."""
        return name if name.startswith(PREFIX) else PREFIX + name

    @classmethod
    def _parent(cls, path: Any) -> str:
        """The URL one level up; that of a server is its own."""
        url = str(cls._strip_protocol(path)).rstrip("/")
        scheme, _, rest = url.partition("://")
        return f"{scheme}://{rest.rsplit('/', 1)[0]}" if "/" in rest else url

    def _wait(self, function: Callable[..., Any], *values: Any) -> Any:
        """Does something in fsspec's own thread, for functions that are not asynchronous."""
        return sync(self.loop, function, *values)

    async def _ask(self, begin: Callable[..., _longhaul.Job], *values: Any) -> Any:
        """Begins something, and waits for it without keeping this thread."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()

        def settle(value: Any, error: BaseException | None) -> None:
            if not future.done():
                future.set_result(value) if error is None else future.set_exception(error)

        def done(value: Any, error: BaseException | None) -> None:
            try:
                loop.call_soon_threadsafe(settle, value, error)
            except RuntimeError:
                pass  # The loop is closed, and with it what waited.

        job = begin(*values, done)
        try:
            return await future
        except asyncio.CancelledError:
            job.cancel()
            raise

    async def _look_up(self, path: str, known: bool = False) -> dict[str, Any]:
        """What the server has; also what it had before, if that will do."""
        with self._lock:
            found = self._known.get(path)
        if found is None or not known:
            found = await self._ask(self._remote.find, path)
            with self._lock:
                self._known[path] = found
                self._known.move_to_end(path)
                if len(self._known) > MOST_KNOWN:
                    self._known.popitem(last=False)
        return found

    async def _info(self, path: str, **_: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        if path.endswith("/"):
            return {"name": path, "size": None, "type": "directory"}
        found = await self._look_up(path)
        info = {"name": path, "size": found["size"], "type": "file", "ETag": found["etag"]}
        if found["modified"] is not None:
            info["mtime"] = found["modified"]
        return info

    def modified(self, path: str) -> datetime:
        """When a file was changed last."""
        info = self.info(path)
        if "mtime" not in info:
            raise UnsupportedError(f"{path}: the server does not say when it was changed")
        return datetime.fromtimestamp(info["mtime"], timezone.utc)

    async def _cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        path = self._strip_protocol(path)
        if start is None and end is None:
            return await self._read(path)
        try:
            return await self._range(path, start, end, known=True)
        except VersionError:
            # A range of the version that there is now.
            return await self._range(path, start, end, known=False)

    async def _read(self, path: str) -> bytes:
        whole: bytes = await self._ask(self._remote.read, path, self.max_memory)
        return whole

    async def _range(self, path: str, start: int | None, end: int | None, known: bool) -> bytes:
        found = await self._look_up(path, known)
        if found["version"] is None:
            return (await self._read(path))[slice(start, end)]
        first, last, _ = slice(start, end).indices(found["size"])
        return await self._part(path, found["version"], first, last)

    async def _part(self, path: str, version: _longhaul.Version, start: int, end: int) -> bytes:
        part: bytes = await self._ask(self._remote.read_range, path, version, start, max(start, end))
        return part

    async def _get_file(
        self, rpath: str, lpath: str, callback: Callback = DEFAULT_CALLBACK, **_: Any
    ) -> None:
        path = self._strip_protocol(rpath)
        if path.endswith("/"):
            os.makedirs(lpath, exist_ok=True)
            return
        Path(lpath).parent.mkdir(parents=True, exist_ok=True)
        size = await self._ask(self._remote.save, path, lpath)
        callback.set_size(size)
        callback.absolute_update(size)

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | str | None = None,
        autocommit: bool = True,
        cache_options: dict[str, Any] | None = None,
        **options: Any,
    ) -> Any:
        if mode != "rb":
            raise UnsupportedError(f"mode={mode!r}: files are read here; to send one: longhaul send, or longhaul put")
        found = self._wait(self._look_up, path)
        if found["version"] is None:
            return self._temporary_copy(path)
        size: Any = BLOCK if block_size in (None, "default") else block_size
        cache_type = str(options.pop("cache_type", "readahead"))
        return _RemoteFile(self, path, found, size, cache_type, cache_options, options)

    def _temporary_copy(self, path: str) -> BinaryIO:
        """A file of which the server sends no ranges, or without a sign of their version: it comes as a whole."""
        with tempfile.TemporaryDirectory(prefix="longhaul-") as folder:
            whole = Path(folder) / "whole"
            self._wait(self._ask, self._remote.save, path, whole)
            return whole.open("rb")

    async def _ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """What a server's page of a directory has links to."""
        path = self._strip_protocol(path)
        base = path.rstrip("/") + "/"
        page = await self._ask(self._remote.read, base, LARGEST_INDEX)
        names = _links(base, page.decode(errors="replace"))
        if not detail:
            return names
        kinds = {True: "directory", False: "file"}
        return [{"name": name, "size": None, "type": kinds[name.endswith("/")]} for name in names]

    async def _isdir(self, path: str) -> bool:
        try:
            return bool(await self._ls(path, detail=False))
        except OSError:
            return False

    async def _glob(self, path: str, maxdepth: int | None = None, **options: Any) -> Any:
        """As for all file systems, but `?` is a part of URLs."""
        path = self._strip_protocol(path)
        if not any(sign in path for sign in "*["):
            return [path] if await self._exists(path) else []
        return await super()._glob(path.replace("?", "[?]"), maxdepth=maxdepth, **options)


class _RemoteFile(AbstractBufferedFile):
    """An open file: all that is read of it is of one version."""

    def __init__(
        self,
        fs: LonghaulFileSystem,
        path: str,
        found: dict[str, Any],
        block_size: Any,
        cache_type: str,
        cache_options: dict[str, Any] | None,
        options: dict[str, Any],
    ) -> None:
        self._version = found["version"]
        super().__init__(
            fs,
            path,
            mode="rb",
            block_size=block_size,
            cache_type=cache_type,
            cache_options=cache_options,
            size=found["size"],
            **options,
        )

    def _fetch_range(self, start: int, end: int) -> Any:
        last = min(end, self.size)
        return b"" if start >= last else self.fs._wait(self.fs._part, self.path, self._version, start, last)


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Notes where a link leads."""
        if tag == "a":
            self.found += [value for name, value in attrs if name == "href" and value]


def _links(base: str, page: str) -> list[str]:
    """URLs directly below `base`, each once, in their order."""
    parser = _Links()
    parser.feed(page)
    names: dict[str, None] = {}
    for link in parser.found:
        url = urlsplit(urljoin(base, link))._replace(fragment="")
        name = url.geturl()
        rest = name.removeprefix(base)
        if name != rest and not url.query and rest.rstrip("/") and "/" not in rest.rstrip("/"):
            names[name] = None
    return list(names)
