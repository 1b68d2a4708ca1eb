# SPDX-License-Identifier: GPL-2.0-or-later
"""A Slurm cluster of this one machine: Debian's munged, slurmctld and slurmd, with files of their own."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from servers import free_ports

CONFIGURATION = """
ClusterName=longhaul
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={daemon}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SwitchType=switch/none
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
KillWait=2
InactiveLimit=0
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def program(name: str) -> str:
    found = shutil.which(name, path=f"/usr/sbin:/sbin:{os.environ['PATH']}")
    assert found, f"{name} is not installed: it is in the Debian packages munge, slurmctld, slurmd and slurm-client"
    return found


@contextmanager
def cluster(folder: Path) -> Iterator[Path]:
    """Starts it, and ends all of its processes. Answers its configuration, for SLURM_CONF."""
    folder.chmod(0o700)
    for name in ("state", "spool"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(1024))
    key.chmod(0o400)
    controller, daemon = free_ports(2)
    file = folder / "slurm.conf"
    host = socket.gethostname().split(".")[0]
    file.write_text(CONFIGURATION.format(host=host, folder=folder, controller=controller, daemon=daemon))
    munge = [program("munged"), "--foreground", "--force", f"--key-file={key}"]
    munge += [f"--{name}={folder}/munge.{end}" for name, end in
              [("socket", "socket"), ("pid-file", "pid"), ("log-file", "log"), ("seed-file", "seed")]]
    running: list[subprocess.Popen[bytes]] = []
    with (folder / "daemons.log").open("wb") as log:
        try:
            for words in (munge, [program("slurmctld"), "-D", "-f", str(file)], [program("slurmd"), "-D", "-f", str(file)]):
                running.append(subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log))
                time.sleep(0.5)
            _wait_until_idle(file, folder / "daemons.log")
            yield file
        finally:
            environment = {**os.environ, "SLURM_CONF": str(file)}
            subprocess.run([program("scancel"), "--signal=KILL", "--full", "--state=RUNNING"], env=environment, check=False)
            subprocess.run([program("scancel"), "--state=PENDING"], env=environment, check=False)
            for process in reversed(running):
                process.terminate()
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def _wait_until_idle(file: Path, log: Path) -> None:
    said = ""
    for _ in range(300):
        words = [program("sinfo"), "--noheader", "--format=%T"]
        shown = subprocess.run(words, env={**os.environ, "SLURM_CONF": str(file)}, capture_output=True, text=True, check=False)
        said = shown.stdout + shown.stderr
        if shown.stdout.strip() == "idle":
            return
        time.sleep(0.2)
    raise AssertionError(f"the node of Slurm is not ready: {said}\n{log.read_text(errors='replace')}")
