"""Export of a policy as C: integer inference, the policy's numbers, a function that decides, and test vectors.

`write` gives four files, none of which needs a library; docs/export.md says how to use them:
- `ccarena_policy.h` is the same for every policy;
- `NAME.h` has the policy's sizes and functions;
- `NAME.c` has its numbers;
- `NAME_vectors.h` has observations with the policy's answers (`vectors`).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccarena.errors import ConfigError, cannot_write
from ccarena.policies.artifact import Artifact
from ccarena.policies.integer import IntegerPolicy
from ccarena.policies.recording import record

__all__ = ["HEADER", "identifier", "sources", "vectors", "write"]

HEADER = "ccarena_policy.h"
VECTORS, FAR = 48, 16
"""Number of observations in the test vectors: decisions of one flow, then values over the network's whole input
range.
"""
RECORDED = 4096
"""Number of recorded decisions among which the flow with the most varied answers is chosen."""


def write(policy: Artifact, observations: NDArray[np.float32], folder: Path, name: str | None = None) -> list[Path]:
    """Writes the files into `folder` and returns them.

    Raises PolicyError for a policy without an integer form, ConfigError for a name that is no C identifier, and
    ConfigError or WriteError if a file cannot be written. See `sources`.
    """
    files = []
    for file, text in sources(policy, observations, name).items():
        path = folder / file
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        except OSError as error:
            raise cannot_write(path, error) from error
        files.append(path)
    return files


def vectors(policy: Artifact) -> NDArray[np.float32]:
    """Returns observations `[N, length]` to test a build with, as one flow in this order.

    They begin with the first decisions of the recorded flow with the most varied answers. Then each entry is drawn
    evenly from its range behind the normalisation, since a flow leaves some inputs of a network at zero.

    Raises PolicyError for a policy without an integer form.
    """
    integer, normalisation = IntegerPolicy.of(policy), policy.interface.normalisation
    recording = record(policy, RECORDED)

    def variation(flow: NDArray[np.float32]) -> tuple[int, int]:
        answers, _ = _answers(policy, integer, flow)
        return len(np.unique(answers)), int((answers[1:] != answers[:-1]).sum())

    flow = max(recording.flows(VECTORS), key=variation)
    seen = np.random.default_rng(0).uniform(normalisation.low, normalisation.high, (FAR, flow.shape[1]))
    return np.concatenate([flow, (normalisation.offset + seen / normalisation.scale).astype(np.float32)])


def sources(policy: Artifact, observations: NDArray[np.float32], name: str | None = None) -> dict[str, str]:
    """Returns the files' texts by name. `observations` `[N, length]` become test vectors, as one flow in this order."""
    from ccarena import _core

    name = identifier(str(policy.spec.get("name", "policy"))) if name is None else name
    if identifier(name) != name:
        raise ConfigError(f'--name "{name}": expected letters, digits and _, as C names functions, not {HEADER[:-2]}')
    integer = _bounded(IntegerPolicy.of(policy), policy)
    return {
        HEADER: _core.POLICY_HEADER,
        f"{name}.h": _header(policy, integer, name),
        f"{name}.c": _numbers(policy, integer, name),
        f"{name}_vectors.h": _vectors(policy, integer, observations, name),
    }


def _bounded(integer: IntegerPolicy, policy: Artifact) -> IntegerPolicy:
    """Returns the integer form with its guard's bound of a continuous action, rounded inwards."""
    if not policy.guard or integer.bounds is None:
        return integer
    unit, (low, high) = 2.0**integer.output_bits, integer.bounds
    least, most = (policy.guard["action"][end][0] * unit for end in ("low", "high"))
    return replace(integer, bounds=(max(low, math.ceil(least)), min(high, math.floor(most))))


def _held(policy: Artifact) -> list[int]:
    """Returns for each discrete action the one that the guard allows: the nearest value, of equally near the first."""
    values = np.array(policy.interface.actions)
    if not policy.guard:
        return list(range(len(values)))
    [low], [high] = policy.guard["action"]["low"], policy.guard["action"]["high"]
    allowed = np.flatnonzero((values >= low) & (values <= high))
    return [int(allowed[np.abs(values[allowed] - value).argmin()]) for value in values]


def identifier(name: str) -> str:
    """Returns `name` as a valid C identifier."""
    word = re.sub(r"\W", "_", name, flags=re.ASCII).lower() or "policy"
    return f"policy_{word}" if word[0].isdigit() or word.startswith("ccarena") else word


def _header(policy: Artifact, integer: IntegerPolicy, name: str) -> str:
    upper = name.upper()
    action = (
        f"The index of the action, whose value is {name}_actions[index] / 2^{integer.observation_bits}."
        if integer.bounds is None
        else f"The action, in units of 2^-{integer.output_bits}."
    )
    values = f"extern const ccarena_s64 {name}_actions[{upper}_OUTPUTS];\n" if integer.bounds is None else ""
    guard = f"""
/* 1 if an observation is within the policy's guard, 0 if it trips it: what was certified holds within it alone, so let
 * another controller decide outside. Actions are held to the guard's bound either way. */
int {name}_guard(const ccarena_s64 *observation);
"""
    return f"""/* A policy of ccarena for the learned scheme {policy.spec.get("name", "unnamed")}, spec {policy.interface.digest}.
 * Observation, entry by entry, oldest first within a signal's history:
{_entries(policy)}
 */
#ifndef {upper}_POLICY_H
#define {upper}_POLICY_H

#include "{HEADER}"

#if CCARENA_POLICY_VERSION != 1
#error "this policy and {HEADER} are of different versions; export the policy again"
#endif

#define {upper}_OBSERVATION {integer.observation}
/* Numbers that it remembers for each flow; an array needs one at least. */
#define {upper}_STATE {integer.state}
#define {upper}_VALUES {integer.values}
#define {upper}_OUTPUTS {integer.output[1]}
#define {upper}_OUTPUT {integer.output[0]}
#define {upper}_OUTPUT_BITS {integer.output_bits}
{values}
/* Decides. `observation`: raw signals in units of 2^-{integer.observation_bits}, any numbers. `state`: the flow's, zeros at its start, replaced.
 * `values`: room to work, {upper}_VALUES numbers, whose content does not matter; afterwards the outputs are
 * the {upper}_OUTPUTS numbers from values[{upper}_OUTPUT] on.
 * {action} */
ccarena_s32 {name}_decide(const ccarena_s64 *observation, ccarena_s32 *state, ccarena_s32 *values);
{guard if policy.guard else ""}
#endif
"""  # noqa: E501


def _entries(policy: Artifact) -> str:
    from ccarena import _core

    lines, start = [], 0
    for entry in _core.learned(json.dumps(policy.spec))["observation"]:
        stop = start + entry["length"] - 1
        places = f"{start}" if stop == start else f"{start}-{stop}"
        lines.append(f" *   {places:<7} {entry['name']}{', ' + entry['unit'] if entry['unit'] else ''}")
        start = stop + 1
    return "\n".join(lines)


def _numbers(policy: Artifact, integer: IntegerPolicy, name: str) -> str:
    upper = name.upper()
    steps = "\n".join("\t{ " + ", ".join(_number(n) for n in step) + " }," for step in integer.steps)
    following = "".join(
        f"\tfor (i = 0; i < {length}; i++)\n\t\tstate[{start} + i] = values[{place} + i];\n"
        for start, (place, length) in _starts(integer.next)
    )
    before = (
        f"\tfor (i = 0; i < {integer.state}; i++)\n\t\tvalues[{integer.observation} + i] = state[i];\n"
        if integer.state
        else ""
    )
    return f"""#include "{name}.h"

static const struct ccarena_step steps[{max(1, len(integer.steps))}] = {{
{steps}
}};

static const ccarena_u16 weights[{max(1, integer.weights.size)}] = {{
{_rows(integer.weights)}
}};

static const ccarena_s64 constants[{max(1, integer.constants.size)}] = {{
{_rows(integer.constants)}
}};

static const struct ccarena_policy policy = {{ steps, weights, constants, {len(integer.steps)} }};
{_actions(policy, integer, name)}
ccarena_s32 {name}_decide(const ccarena_s64 *observation, ccarena_s32 *state, ccarena_s32 *values)
{{
	ccarena_u32 i;

	(void)state;
	for (i = 0; i < {upper}_OBSERVATION; i++)
		values[i] = ccarena_normalise(&policy, i, observation[i]);
{before}	ccarena_policy_run(&policy, values);
{following}{_answer(policy, integer, upper)}}}
{_guard(policy, integer, name)}"""


def _actions(policy: Artifact, integer: IntegerPolicy, name: str) -> str:
    if integer.bounds is not None:
        return ""
    values = integer.raw(np.array(policy.interface.actions))
    held = f"\nstatic const ccarena_u32 held[{name.upper()}_OUTPUTS] = {{\n{_rows(_held(policy))}\n}};\n"
    actions = f"\nconst ccarena_s64 {name}_actions[{name.upper()}_OUTPUTS] = {{\n{_rows(values)}\n}};\n"
    return actions + (held if policy.guard else "")


def _answer(policy: Artifact, integer: IntegerPolicy, upper: str) -> str:
    if integer.bounds is None:
        best = f"ccarena_argmax(values + {upper}_OUTPUT, {upper}_OUTPUTS)"
        return f"\treturn (ccarena_s32){f'held[{best}]' if policy.guard else best};\n"
    low, high = (_number(bound) for bound in integer.bounds)
    output = f"values[{upper}_OUTPUT]"
    return f"\t{output} = (ccarena_s32)ccarena_clamp({output}, {low}, {high});\n\treturn {output};\n"


def _guard(policy: Artifact, integer: IntegerPolicy, name: str) -> str:
    """Returns the function that checks the guard's box; nothing without a guard."""
    if not policy.guard:
        return ""
    size = f"{name.upper()}_OBSERVATION"
    ends = (policy.guard["observation"][end] for end in ("low", "high"))
    farthest = (-(2**62), 2**62)
    rows = [
        [far if x is None else int(integer.raw(np.float32(x))) for x in numbers]
        for far, numbers in zip(farthest, ends, strict=True)
    ]
    return f"""
static const ccarena_s64 guard[2][{size}] = {{
{{
{_rows(rows[0])}
}},
{{
{_rows(rows[1])}
}},
}};

int {name}_guard(const ccarena_s64 *observation)
{{
	ccarena_u32 i;

	for (i = 0; i < {size}; i++)
		if (observation[i] < guard[0][i] || observation[i] > guard[1][i])
			return 0;
	return 1;
}}
"""


def _vectors(policy: Artifact, integer: IntegerPolicy, observations: NDArray[np.float32], name: str) -> str:
    raw, (answers, outputs) = integer.raw(observations), _answers(policy, integer, observations)
    upper = name.upper()
    return f"""/* {name}_decide answers {name}_answers[k] to {name}_observations[k], in this order, one flow, and leaves
 * {name}_outputs[k] in values[{upper}_OUTPUT] and after: a build that differs in any of them is another policy. */
#define {upper}_VECTORS {len(raw)}

static const ccarena_s64 {name}_observations[{len(raw)}][{integer.observation}] = {{
{chr(10).join("{" + chr(10) + _rows(row) + chr(10) + "}," for row in raw)}
}};

static const ccarena_s32 {name}_answers[{len(raw)}] = {{
{_rows(answers)}
}};

static const ccarena_s32 {name}_outputs[{len(raw)}][{outputs.shape[1]}] = {{
{chr(10).join("{" + chr(10) + _rows(row) + chr(10) + "}," for row in outputs)}
}};
"""


def _answers(
    policy: Artifact, integer: IntegerPolicy, flow: NDArray[np.float32]
) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """Returns answers `[N]` and outputs `[N, outputs]` to the observations of one flow."""
    state = np.zeros((1, integer.state), np.int32)
    outputs = np.concatenate([integer.outputs(row[None], state) for row in integer.raw(flow)])
    if integer.bounds is not None:
        return outputs[:, 0], outputs
    return np.array(_held(policy))[outputs.argmax(axis=1)], outputs


def _starts(parts: Sequence[tuple[int, int]]) -> Iterable[tuple[int, tuple[int, int]]]:
    start = 0
    for part in parts:
        yield start, part
        start += part[1]


def _number(value: int) -> str:
    """Returns `value` as a C literal: the least 32-bit integer has no literal of its own, and larger ones are
    64-bit.
    """
    value = int(value)
    if value == -(2**31):
        return "-2147483647 - 1"
    return f"{value}LL" if abs(value) >= 2**31 else str(value)


def _rows(values: Iterable[int]) -> str:
    words = [_number(value) for value in values] or ["0"]
    return "\n".join("\t" + ", ".join(words[i : i + 12]) + "," for i in range(0, len(words), 12))
