# SPDX-License-Identifier: GPL-2.0-or-later
"""The notebooks of the documentation, cell by cell."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(os.environ["LONGHAUL_SOURCES"]) / "docs/notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_notebook_runs(file: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(file, as_version=4)
    nbformat.validate(notebook)
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()


def test_all_notebooks_are_listed() -> None:
    guide = (Path(os.environ["LONGHAUL_SOURCES"]) / "docs/python.md").read_text()
    assert len(NOTEBOOKS) >= 4
    for file in NOTEBOOKS:
        assert f"notebooks/{file.name}" in guide
