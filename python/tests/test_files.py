# SPDX-License-Identifier: GPL-2.0-or-later
"""Files at servers by fsspec: directly and through depots, with what pandas, zarr and xarray do."""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import shutil
import socket
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import fsspec
import longhaul
import numpy
import pandas
import pytest
import servers
import xarray
import zarr
from longhaul.files import LonghaulFileSystem

DATA = random.Random(1).randbytes(3_000_000)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("files")
    (made / "data.bin").write_bytes(DATA)
    (made / "empty").write_bytes(b"")
    (made / "deep/er").mkdir(parents=True)
    (made / "deep/er/a b.txt").write_text("deep")
    pandas.DataFrame({"x": range(1000)}).to_csv(made / "table.csv", index=False)
    return made


@pytest.fixture(scope="module")
def url(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with servers.site(folder, tmp_path_factory.mktemp("logs")) as url:
        yield f"longhaul+{url}"


@pytest.fixture(scope="module")
def via(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    logs, upstream = tmp_path_factory.mktemp("logs"), url.partition("://")[2]
    with servers.depot(logs, upstream) as far, servers.depot(logs, far) as near:
        yield f"{near},{far}"


@pytest.fixture(params=["directly", "through depots"])
def options(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {"via": [] if request.param == "directly" else request.getfixturevalue("via")}


def test_ranges_wholes_and_files(url: str, options: dict[str, Any], tmp_path: Path) -> None:
    fs, path = fsspec.core.url_to_fs(f"{url}/data.bin", **options)
    assert isinstance(fs, LonghaulFileSystem) and fs.unstrip_protocol(path) == f"{url}/data.bin"
    assert fs.cat(path) == DATA and fs.size(path) == len(DATA) and fs.exists(path)
    for start, end in [(0, 10), (5, None), (None, 7), (-9, None), (-9, -3), (100, 100), (2_999_990, 4_000_000)]:
        assert fs.cat_file(path, start, end) == DATA[start:end], (start, end)
    assert fs.cat_ranges([path] * 3, [0, 10, 20], [5, 15, 25]) == [DATA[0:5], DATA[10:15], DATA[20:25]]
    with fs.open(path, block_size=100_000) as file:
        file.seek(1_234_567)
        assert file.read(300_000) == DATA[1_234_567:1_534_567]
        file.seek(-5, 2)
        assert file.read() == DATA[-5:]
    fs.get(path, str(tmp_path / "copy"))
    assert (tmp_path / "copy").read_bytes() == DATA and not (tmp_path / "copy.part").exists()
    assert fs.cat(f"{path.rsplit('/', 1)[0]}/empty") == b""
    assert "ETag" in fs.info(path) and fs.modified(path).year >= 2026


def test_directories(url: str, options: dict[str, Any]) -> None:
    fs, root = fsspec.core.url_to_fs(url, **options)
    assert sorted(fs.ls(root, detail=False)) == [f"{root}/{name}" for name in ("data.bin", "deep/", "empty", "table.csv")]
    assert fs.isdir(f"{root}/deep") and not fs.isdir(f"{root}/data.bin")
    assert fs.find(f"{root}/deep") == [f"{root}/deep/er/a%20b.txt"]
    assert fs.glob(f"{root}/*.csv") == [f"{root}/table.csv"]
    assert fs.cat(f"{root}/deep/er/a%20b.txt") == b"deep"


def test_what_is_not_there(url: str, options: dict[str, Any]) -> None:
    fs, path = fsspec.core.url_to_fs(f"{url}/nowhere", **options)
    assert not fs.exists(path)
    for ask in (fs.cat_file, fs.info, fs.open):
        with pytest.raises(FileNotFoundError, match="nowhere"):
            ask(path)


def test_pandas_reads_remote_tables(url: str, options: dict[str, Any]) -> None:
    table = pandas.read_csv(f"{url}/table.csv", storage_options=options)
    assert table["x"].sum() == 499_500


def test_zarr_and_xarray(url: str, folder: Path, options: dict[str, Any]) -> None:
    values = numpy.random.default_rng(1).normal(size=(40, 300))
    winds = xarray.Dataset({"wind": (("time", "x"), values)}).chunk({"time": 4})
    winds.to_zarr(folder / "store.zarr", mode="w", zarr_format=2, consolidated=True)
    # Of the later form, without a list of its members: these are found by the server's listings.
    winds.to_zarr(folder / "later.zarr", mode="w", zarr_format=3, consolidated=False)
    for name, consolidated in (("store.zarr", True), ("later.zarr", False)):
        plain = f"{url}/{name}".replace("+", "")
        with xarray.open_zarr(plain, storage_options=options, consolidated=consolidated) as remote:
            numpy.testing.assert_array_equal(remote["wind"].values, values)
    group = zarr.open_group(f"{url}/store.zarr", mode="r", storage_options=options)
    array = group["wind"]
    assert isinstance(array, zarr.Array)
    numpy.testing.assert_array_equal(array[7:9], values[7:9])
    for name in ("store.zarr", "later.zarr"):
        shutil.rmtree(folder / name)


def test_depot_that_is_gone_is_no_missing_chunk(url: str) -> None:
    """zarr takes a file that is not there for a chunk without values: no other failure may look like it."""
    fs = LonghaulFileSystem(via=f"127.0.0.1:{servers.free_port()}", retries=0, skip_instance_cache=True)
    with pytest.raises(longhaul.TransferError) as raised:
        fs.cat_file(f"{url}/data.bin")
    assert not isinstance(raised.value, FileNotFoundError)


@pytest.mark.parametrize("status", [403, 429, 500, 503])
def test_refusal_is_no_missing_chunk(status: int, tmp_path: Path) -> None:
    """pydata/xarray#8842, fsspec/filesystem_spec#342: a chunk that does not come was read as NaN."""
    array = zarr.create_array(tmp_path / "a.zarr", shape=(4,), chunks=(2,), dtype="f8", compressors=None, zarr_format=2)
    array[:] = numpy.arange(4)
    served = {f"/{file.name}": file.read_bytes() for file in (tmp_path / "a.zarr").iterdir()}
    with servers.plain(served, {"/1": status}) as url:
        remote = zarr.open_array(f"longhaul+{url}", mode="r", storage_options={"via": [], "retries": 0})
        with pytest.raises(OSError, match=str(status)):
            remote[:]
    del served["/1"]
    with servers.plain(served) as url:
        remote = zarr.open_array(f"longhaul+{url}", mode="r", storage_options={"via": []})
        numpy.testing.assert_array_equal(remote[:], [0, 1, 0, 0])


def test_compressed_answer_is_not_taken_for_the_file() -> None:
    """fsspec/filesystem_spec#1319: the length was that of what is compressed, so the file was cut."""
    with servers.plain({"/x.encoded": b"not what it seems"}) as url:
        for ask in (LonghaulFileSystem(via=[]).info, LonghaulFileSystem(via=[]).cat):
            with pytest.raises(longhaul.TransferError, match="encoded the file.*save_encoded=True"):
                ask(f"{url}/x.encoded")
        assert LonghaulFileSystem(via=[], save_encoded=True).cat(f"{url}/x.encoded") == b"not what it seems"


def test_forked_processes_read_too(url: str) -> None:
    """fsspec/s3fs#889: after a fork, threads of the parent are missing."""
    assert LonghaulFileSystem(via=[]).cat_file(f"{url}/data.bin", 0, 3) == DATA[:3]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as executor:
            parts = executor.map(read_part, [(url, n) for n in range(8)], timeout=60)
    assert b"".join(parts) == DATA[:80_000]


def read_part(task: tuple[str, int]) -> bytes:
    url, n = task
    part: bytes = LonghaulFileSystem(via=[]).cat_file(f"{url}/data.bin", n * 10_000, (n + 1) * 10_000)
    return part


def test_files_that_change(url: str, folder: Path) -> None:
    changing = folder / "changing.bin"
    changing.write_bytes(b"a" * 500_000)
    fs, path = fsspec.core.url_to_fs(f"{url}/changing.bin", via=[])
    with fs.open(path, block_size=1000) as file:
        assert file.read(10) == b"a" * 10
        changing.write_bytes(b"b" * 400_000)
        file.seek(300_000)
        with pytest.raises(longhaul.VersionError, match="open it again"):
            file.read(10)
    assert fs.cat_file(path, 0, 5) == b"b" * 5
    changing.unlink()


def test_server_without_ranges_or_validators() -> None:
    page = b"<a href='x.bin'>x</a><a href='//other.example/y'>y</a><a href='?q'>q</a><a href='../up'>up</a><a href='/list/a/b'>b</a>"
    with servers.plain({"/x.bin": DATA, "/list/": page}) as url:
        fs, path = fsspec.core.url_to_fs(f"longhaul+{url}/x.bin", via=[])
        assert fs.cat_file(path, 10, 20) == DATA[10:20] and fs.size(path) == len(DATA)
        with fs.open(path) as file:
            file.seek(1_000_000)
            assert file.read(10) == DATA[1_000_000:1_000_010]
        # Links that lead elsewhere are left out.
        assert fs.ls(f"{url}/list", detail=False) == [f"{url}/list/x.bin"]
        with pytest.raises(FileNotFoundError):
            fs.ls(f"{url}/nowhere")


def test_memory_has_a_limit(url: str) -> None:
    fs = LonghaulFileSystem(via=[], max_memory=1000)
    with pytest.raises(longhaul.TransferError, match="larger than"):
        fs.cat(f"{url}/data.bin")
    assert fs.cat_file(f"{url}/data.bin", 0, 10) == DATA[:10]


def test_asynchronous_use_and_cancelling(url: str) -> None:
    async def use() -> None:
        fs = LonghaulFileSystem(via=[], asynchronous=True, skip_instance_cache=True)
        parts = await asyncio.gather(*(fs._cat_file(f"{url}/data.bin", n * 1000, (n + 1) * 1000) for n in range(200)))
        assert b"".join(parts) == DATA[:200_000]
        with pytest.raises(asyncio.TimeoutError):
            # A server that accepts and says nothing.
            with socket.create_server(("127.0.0.1", 0)) as silent:
                await asyncio.wait_for(fs._cat_file(f"http://127.0.0.1:{silent.getsockname()[1]}/x"), 0.5)
        assert await fs._cat_file(f"{url}/empty") == b""

    asyncio.run(use())


@pytest.mark.parametrize(
    ("options", "words"),
    [({"via": "a b"}, 'via="a b"'), ({"connections": 0}, "at least 1"), ({"stall_time": -1}, "seconds, above 0"), ({"ca": "/nowhere"}, "nowhere")],
)
def test_wrong_options(options: dict[str, Any], words: str) -> None:
    with pytest.raises((ValueError, OSError), match=words):
        LonghaulFileSystem(**options)


def test_writing_is_refused_with_the_way_to_do_it(url: str) -> None:
    with pytest.raises(longhaul.UnsupportedError, match="longhaul send"), fsspec.open(f"{url}/new", "wb", via=[]):
        pass
