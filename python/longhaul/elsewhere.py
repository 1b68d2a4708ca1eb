# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs in other processes and on other machines, by an executor.

A task is one run. What it leaves is a record, packed into one file. Emulated runs and those on hosts are made by the command `longhaul` of
the worker. Engines run tasks again whose worker has died, also those that had
finished; so workers that share a directory with the client put what they finish there, and look there first. A lock for each run keeps
two workers from one run. Some engines do not say that a worker has died, or say it late (submitit asks Slurm every ten minutes, and Slurm
without accounting does not know): so workers there also show that they are alive.
"""

from __future__ import annotations

import fcntl
import io
import multiprocessing
import os
import platform
import secrets
import shutil
import subprocess
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from longhaul import _longhaul, command
from longhaul.control import CongestionControl, Control, digest, load_congestion_control
from longhaul.errors import LonghaulError, UnsupportedError

POLL_S = 0.2
"""Between two looks at a task, and at whether to stop."""
NEW_EXECUTORS = 10
"""New executors in a row for one that breaks before a run ends, and new tasks for a run whose worker has died."""
BEAT_S = 2.0
"""Between two signs of life of a worker."""
QUEUE_S = 30.0
"""Between two looks at the queue of Slurm."""
DEAD_AFTER_S = 60.0
"""Without such a sign: some shared file systems show changes late."""


def _close_journals() -> None:
    """In a process that was forked from the client: the engine's lock is the client's alone, and must end with it."""
    with os.scandir("/proc/self/fd") as entries:
        held = [int(entry.name) for entry in entries if _is_journal(entry)]
    for descriptor in held:
        os.close(descriptor)


def _is_journal(entry: os.DirEntry[str]) -> bool:
    try:
        return os.readlink(entry.path).endswith("/.sweep.jsonl")
    except OSError:
        return False


os.register_at_fork(after_in_child=_close_journals)


@runtime_checkable
class Submits(Protocol):
    """An executor: of `concurrent.futures`, of Dask (`client.get_executor()`), of submitit."""

    def submit(self, function: Callable[..., Any], /, *args: Any) -> Any:
        """Takes a task, and answers a future with `done()`, `result()` and `cancel()`."""


Executor = Submits | Callable[[], Submits]


@dataclass(frozen=True)
class Carried:
    """A congestion control on its way to a worker."""

    digest: str
    control: type[CongestionControl] | None
    """A class, which the executor carries as it carries any: by name, or by what cloudpickle makes of it."""
    name: str = ""
    content: bytes = b""
    """Name and content of a C file."""

    @classmethod
    def of(cls, control: Control) -> Carried:
        """One that is loaded here."""
        if isinstance(control, type):
            return cls(digest(control), control)
        content = Path(control).read_bytes()
        return cls(sha256(content).hexdigest(), None, Path(control).name, content)

    def load(self) -> None:
        """Makes it known at the worker, once in a process."""
        if self.control is not None:
            load_congestion_control(self.control)
        elif self.digest not in _loaded:
            with tempfile.TemporaryDirectory(prefix="longhaul-") as folder:
                file = Path(folder) / self.name
                file.write_bytes(self.content)
                _longhaul.load_congestion_control(file)
            _loaded.add(self.digest)


_loaded: set[str] = set()
"""C files that this process has loaded as a worker."""


@dataclass(frozen=True)
class Task:
    """One run, with all that a worker needs."""

    run: str
    """The run as JSON."""
    method: str
    sources: str
    """The client's `source_hash`."""
    controls: tuple[Carried, ...]
    """Congestion controls that workers have to load."""
    hosts: str | None
    """The hosts file of runs on hosts, where the worker has it."""
    command: tuple[str, ...]
    finished: str
    """The client's directory of finished runs."""
    token: str
    """The name of a file in it, by which a worker knows that it sees the same directory."""

    @property
    def key(self) -> str:
        """The name of its record there: the same for the same run of the same program."""
        parts = [self.run.encode(), self.method.encode(), self.sources.encode()]
        parts += [control.digest.encode() for control in self.controls]
        parts += [] if self.hosts is None else [self.hosts.encode()]
        return sha256(b"\0".join(sha256(part).digest() for part in parts)).hexdigest()


def run_task(task: Task) -> bytes | None:
    """What a worker does: the packed record, or None if it is in the shared directory."""
    with _Watch.task():
        return _run_task(task)


class _Watch:
    """Ends a worker of a pool whose client was killed: it would wait for tasks for ever. A task under way comes to its end first."""

    _lock = threading.Lock()
    _none = threading.Condition(_lock)
    _is_on = False
    _tasks = 0

    @classmethod
    def begin(cls) -> None:
        with cls._lock:
            if not cls._is_on and multiprocessing.parent_process() is not None:
                cls._is_on = True
                threading.Thread(target=cls._wait, daemon=True, name="longhaul-watch").start()

    @classmethod
    @contextmanager
    def task(cls) -> Iterator[None]:
        cls.begin()
        with cls._lock:
            cls._tasks += 1
        try:
            yield
        finally:
            with cls._lock:
                cls._tasks -= 1
                cls._none.notify_all()

    @classmethod
    def _wait(cls) -> None:
        client = multiprocessing.parent_process()
        assert client is not None
        client.join()
        with cls._lock:
            cls._none.wait_for(lambda: cls._tasks == 0)
            os._exit(1)


def processes(workers: int | None = None) -> Callable[[], Submits]:
    """For `simulate(executor=processes(4))`: makes a pool of processes, as many as processors by default, and another if one of them dies.

    The processes end with the client, however it ends. They import the program, so it calls `simulate` below
    `if __name__ == "__main__":`.
    """
    context = multiprocessing.get_context("spawn")
    return lambda: ProcessPoolExecutor(workers, mp_context=context, initializer=_Watch.begin)


def _run_task(task: Task) -> bytes | None:
    is_command = task.method in command.METHODS
    own = command.sources(task.method) if is_command else _longhaul.source_hash(task.method)
    if own != task.sources:
        place = command.program() if is_command else Path(__file__).parent
        raise UnsupportedError(
            f"the worker on {platform.node()} has another longhaul ({_longhaul.VERSION} in {place}): install the same one there"
        )
    finished = Path(task.finished)
    if not (finished / task.token).exists():
        return _packed(task)
    record = finished / f"{task.key}.zip"
    with _locked(finished / f"{task.key}.lock"), _signs_of_life(finished / f"{task.key}.alive"):
        if not record.exists():
            part = finished / f"{task.key}.part-{os.getpid()}-{secrets.token_hex(4)}"
            part.write_bytes(_packed(task))
            part.rename(record)
    return None


def _packed(task: Task) -> bytes:
    with tempfile.TemporaryDirectory(prefix="longhaul-") as folder:
        if task.method in command.METHODS:
            command.run(task.method, task.run, task.hosts, Path(folder))
        else:
            _run_here(task, folder)
        record = command.record_below(Path(folder))
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
            for file in sorted(record.rglob("*")):
                if file.is_file():
                    archive.write(file, file.relative_to(record))
        return packed.getvalue()


def _run_here(task: Task, folder: str) -> None:
    for control in task.controls:
        control.load()
    _longhaul.run(
        _longhaul.Scenario.of_runs([task.run]),
        task.method,
        folder,
        jobs=1,
        again=True,
        any_program=False,
        keep=False,
        until=None,
        command=list(task.command),
        tell=lambda *_: None,
        fetch=None,
        prepared=None,
    )


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Holds the lock of a file; a process that dies lets go of it."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _signs_of_life(file: Path) -> Iterator[None]:
    """Writes to the file every now and then."""
    ended = threading.Event()

    def beat() -> None:
        count = 0
        while True:
            count += 1
            try:
                file.write_text(str(count))
            except OSError:
                pass  # The client is gone, or the disk is full: the run will tell.
            if ended.wait(BEAT_S):
                return

    thread = threading.Thread(target=beat, daemon=True, name="longhaul-alive")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        file.unlink(missing_ok=True)


class _SlurmQueue:
    """This user's jobs that wait or run, as Slurm says without accounting."""

    _lock = threading.Lock()
    _asked = float("-inf")
    _jobs: set[str] | None = None

    @classmethod
    def has(cls, job: str) -> bool:
        """Whether a job is there; also where Slurm does not answer."""
        with cls._lock:
            if time.monotonic() - cls._asked > QUEUE_S:
                cls._asked, cls._jobs = time.monotonic(), cls._ask()
            return cls._jobs is None or job.split("_")[0] in cls._jobs

    @staticmethod
    def _ask() -> set[str] | None:
        words = ["squeue", "--noheader", "--me", "--format=%F"]
        try:
            answer = subprocess.run(words, capture_output=True, text=True, timeout=QUEUE_S, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return set(answer.stdout.split()) if answer.returncode == 0 else None


class _Pulse:
    """Whether a worker goes on, by this machine's clock alone."""

    def __init__(self, file: Path, record: Path) -> None:
        self._file, self._record = file, record
        self._last, self._since = "", time.monotonic()

    def has_stopped(self, future: Any) -> bool:
        try:
            shown = self._file.read_text()
        except OSError:
            shown = ""
        # Until it has begun there is no sign: a task may wait in a queue for days. Then the queue says whether it will begin.
        job = getattr(future, "job_id", None)
        is_expected = shown == "" and (job is None or _SlurmQueue.has(str(job)))
        now = time.monotonic()
        if is_expected or shown != self._last:
            self._last, self._since = shown, now
        return now - self._since > DEAD_AFTER_S and not self._record.exists()


class _WorkerDied(Exception):
    """A task whose worker does not go on."""


class Fetcher:
    """Has runs done by an executor, and puts their records where the engine wants them."""

    def __init__(
        self, executor: Executor, method: str, controls: list[Carried], hosts: str | None, words: list[str], finished: Path
    ) -> None:
        self._make: Callable[[], Submits] | None = None
        if isinstance(executor, Submits):
            self._executor: Submits = executor
        elif callable(executor):
            self._make = executor
            self._executor = executor()
        else:
            raise TypeError(f"executor={executor!r}: it needs submit(function, *args), or to be a function that makes such a one")
        self._lock = threading.Lock()
        self._broken = 0
        self._method, self._controls, self._hosts, self._words = method, tuple(controls), hosts, tuple(words)
        self._sources = "" if method in command.METHODS else _longhaul.source_hash(method)
        self._finished = finished
        finished.mkdir(parents=True, exist_ok=True)
        self._token = f"token-{secrets.token_hex(16)}"
        (finished / self._token).touch()

    def prepare(self, runs: list[str]) -> tuple[str, str] | None:
        """Of a method that is the command's: the hash of its sources, and the runs as it makes them, as a worker says."""
        if self._method not in command.METHODS:
            return None
        answered: tuple[str, str] = self._executor.submit(command.prepare, self._method, runs, self._hosts).result()
        self._sources = answered[0]
        return answered

    def fetch(self, run: str, folder: Path, stop: _longhaul.StopFlag) -> None:
        """Has one run done. Each runs in a thread of its own."""
        task = Task(
            run, self._method, self._sources, self._controls, self._hosts, self._words, str(self._finished), self._token
        )
        record = self._finished / f"{task.key}.zip"
        packed = None if record.exists() else self._result(task, stop)
        with zipfile.ZipFile(record if packed is None else io.BytesIO(packed)) as archive:
            for name in archive.namelist():
                if name not in (Path(name).name, f"logs/{Path(name).name}"):
                    raise LonghaulError(f"a worker's record has a file {name!r}: not a plain name")
            archive.extractall(folder)
        with self._lock:
            self._broken = 0

    def forget(self) -> None:
        """Removes what workers have finished: it is on record, or shall be run again."""
        for file in self._finished.glob("*.zip"):
            file.unlink(missing_ok=True)

    def close(self) -> None:
        """Workers no longer put records here. An executor that was made here ends."""
        (self._finished / self._token).unlink(missing_ok=True)
        if self._make is not None:
            _shut_down(self._executor)
        if not any(self._finished.glob("*.zip")):
            shutil.rmtree(self._finished, ignore_errors=True)

    def _result(self, task: Task, stop: _longhaul.StopFlag) -> bytes | None:
        deaths = 0
        alive, record = (self._finished / f"{task.key}.{end}" for end in ("alive", "zip"))
        while True:
            with self._lock:
                executor = self._executor
            try:
                with self._lock:
                    future = executor.submit(run_task, task)
                return _wait(future, stop, _Pulse(alive, record))
            except BrokenExecutor as error:
                self._make_another(executor, error)
            except Exception as error:
                if not _is_death(error):
                    raise
                deaths += 1
                alive.unlink(missing_ok=True)
                if deaths > NEW_EXECUTORS:
                    raise LonghaulError(f"{deaths} workers in a row have died of the same run: {error}") from error
    def _make_another(self, broken: Submits, error: BrokenExecutor) -> None:
        with self._lock:
            if self._executor is not broken:
                return  # Another thread has made it.
            if self._make is None or self._broken >= NEW_EXECUTORS:
                raise LonghaulError(
                    f"the executor broke: {error}. What is finished is kept: call simulate() again with a new one, or give "
                    "executor= a function that makes one"
                ) from error
            self._broken += 1
            _shut_down(broken)
            self._executor = self._make()


def _is_death(error: Exception) -> bool:
    """Whether the task ended with its worker. Of submitit's errors, the class itself says that, and what derives from it does not."""
    return isinstance(error, _WorkerDied) or type(error).__name__ == "UncompletedJobError"


def _wait(future: Any, stop: _longhaul.StopFlag, pulse: _Pulse) -> bytes | None:
    ended = threading.Event()
    has_callbacks = hasattr(future, "add_done_callback")
    if has_callbacks:
        future.add_done_callback(lambda _: ended.set())
    while not ended.wait(POLL_S):
        if stop.is_set():
            future.cancel()
            raise KeyboardInterrupt
        if future.done():
            break
        if not has_callbacks and pulse.has_stopped(future):
            future.cancel()
            raise _WorkerDied(f"no sign of life for {DEAD_AFTER_S:.0f} s")
    try:
        result = future.result()
    except ModuleNotFoundError as error:
        if error.name and error.name.split(".")[0] == "longhaul":
            raise LonghaulError(f"a worker has no longhaul ({error}): install the same package there") from error
        raise
    if result is not None and not isinstance(result, bytes):
        raise LonghaulError(f"the executor answered {type(result).__name__} instead of a record")
    return result


def _shut_down(executor: Submits) -> None:
    shut_down = getattr(executor, "shutdown", None)
    if shut_down is not None:
        shut_down(wait=False, cancel_futures=True)


