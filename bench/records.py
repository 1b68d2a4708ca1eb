# SPDX-License-Identifier: GPL-2.0-or-later
"""The records that `longhaul lab run` and `longhaul sim` left in a directory."""
import json
import pathlib


def records(directory):
    """The manifest and the summary of each whole record, by name. The directory also holds the journal, and failed attempts."""
    for manifest in sorted(pathlib.Path(directory).glob("*/manifest.json")):
        summary = manifest.with_name("summary.json")
        if summary.exists():
            yield json.loads(manifest.read_text()), json.loads(summary.read_text())
