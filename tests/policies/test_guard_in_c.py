"""Guards in C: the check of the box, and actions within the bound."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ccarena._core", reason="NATIVE EXTENSION NOT BUILT: guards are not tested (run make)")

from ccarena.core.learned_schemes import shipped_policies
from ccarena.policies import c_source
from ccarena.policies.artifact import Artifact, load
from ccarena.policies.c_runtime import compiler
from tests.policies.made import continuous

_PROGRAM = """#include <stdio.h>
#include "p.h"
#include "p_vectors.h"
int main(void)
{
	static ccarena_s32 state[P_STATE + 1], values[P_VALUES];
	int k, wrong = 0, inside = 0;

	for (k = 0; k < P_VECTORS; k++) {
		wrong += p_decide(p_observations[k], state, values) != p_answers[k];
		inside += p_guard(p_observations[k]);
	}
	printf("%d %d\\n", wrong, inside);
	return 0;
}
"""


@pytest.mark.skipif(compiler() is None, reason="no C compiler")
@pytest.mark.parametrize("discrete", [True, False])
def test_c_holds_actions_to_the_bound_and_checks_the_box(discrete: bool, tmp_path: Path) -> None:
    made: Artifact = load(shipped_policies()["acct"]) if discrete else continuous("hyvar", 1.0)
    length = made.interface.observation_len
    rows = np.random.default_rng(0).uniform(0, 1, (40, length)).astype(np.float32)
    most = 5.0 if discrete else 0.25
    low: list[float | None] = [None] * length
    guard = {"observation": {"low": low, "high": [0.5, *low[1:]]}, "action": {"low": [-1.0], "high": [most]}}
    c_source.write(replace(made, guard=guard), rows, tmp_path, "p")
    (tmp_path / "main.c").write_text(_PROGRAM, encoding="utf-8")
    subprocess.run([str(compiler()), "-O1", "p.c", "main.c", "-o", "main"], cwd=tmp_path, check=True)
    told = subprocess.run([str(tmp_path / "main")], capture_output=True, text=True, check=True).stdout.split()
    assert told == ["0", str(int((rows[:, 0] <= 0.5).sum()))]
    listed = (tmp_path / "p_vectors.h").read_text("utf-8").partition("s32 p_answers[")[2]
    answers = listed.partition("{")[2].partition("}")[0]
    found = np.array([int(word) for word in answers.replace(",", " ").split()])
    values = np.array(made.interface.actions)[found] if discrete else found / 2.0 ** _bits(tmp_path)
    assert values.max() <= most


def _bits(folder: Path) -> int:
    return int((folder / "p.h").read_text("utf-8").partition("P_OUTPUT_BITS ")[2].split()[0])
