"""The notebooks run as they stand, from top to bottom, and are committed without outputs."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: the notebooks were not run (run make)")
pytest.importorskip("nbclient", reason="NBCLIENT IS NOT INSTALLED: the notebooks were not run")
pytest.importorskip("ipykernel", reason="IPYKERNEL IS NOT INSTALLED: the notebooks were not run")
pytest.importorskip("pandas", reason="PANDAS IS NOT INSTALLED: the notebooks were not run")
pytest.importorskip("matplotlib", reason="MATPLOTLIB IS NOT INSTALLED: the notebooks were not run")

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples" / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs_and_is_committed_without_outputs(path: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code and not any(cell.outputs or cell.execution_count for cell in code)
    if "ccarena.train" in "".join(cell.source for cell in code):
        pytest.importorskip("stable_baselines3", reason="STABLE-BASELINES3 IS NOT INSTALLED: a notebook was not run")
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert code[-1].outputs, "the last cell shows nothing"


def test_there_are_notebooks() -> None:
    assert len(NOTEBOOKS) == 3
