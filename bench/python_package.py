# SPDX-License-Identifier: GPL-2.0-or-later
"""The Python package as it is installed, for benches, with packages that its users have."""
import json
import os
import shutil
import subprocess

import setup
from setup import BUILT, ROOT


class Package:
    """Python with the package, in a directory."""

    def __init__(self, folder, packages):
        """Builds it, and installs what `requirements-test.txt` pins of these packages."""
        self.folder = folder
        setup.build(library="python")
        shutil.copytree(os.path.join(ROOT, "python/longhaul"), os.path.join(folder, "longhaul"))
        shutil.copy(os.path.join(BUILT, "lib_longhaul.so"), os.path.join(folder, "longhaul/_longhaul.abi3.so"))
        with open(os.path.join(ROOT, "python/requirements-test.txt"), encoding="utf-8") as file:
            pinned = [line.strip() for line in file if line.split("==")[0] in packages]
        installed = subprocess.run(["pip3", "install", "--quiet", "--disable-pip-version-check", "--target", folder, *pinned])
        if installed.returncode != 0:
            setup.fail("pip3 could not install what the package's users have")

    def run(self, program, *words, on=lambda *command: command):
        """Runs a program, perhaps elsewhere; its JSON document."""
        command = on("python3", "-c", program, *map(str, words))
        done = subprocess.run(command, env={**os.environ, "PYTHONPATH": self.folder}, capture_output=True, text=True)
        if done.returncode != 0:
            setup.fail(f"a program of Python failed:\n{done.stderr}")
        return json.loads(done.stdout or "{}")
