"""What a user may write, what comes of it, and how a mistake is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccarena.configs import TrainConfig, dump_config, load_config, parse_overrides, save_config, shipped
from ccarena.configs.userfile import bind, find
from ccarena.errors import ConfigError


def refusal(*tokens: str, config: str | Path = "acct") -> str:
    """The message with which `tokens` on top of `config` are refused."""
    with pytest.raises(ConfigError) as caught:
        load_config(config, parse_overrides(tokens, options=("resume",)))
    return str(caught.value)


def test_a_reward_of_ones_own_has_no_floor_by_default(tmp_path: Path) -> None:
    def floor(reward: str, **algorithm: float) -> object:
        given = {"spec": "orca", "reward": reward, "algorithm": {"name": "PPO", **algorithm}}
        config = load_config(given)
        assert load_config(config.model_dump(mode="json")) == config, "which a run's own file must keep"
        return config.model_dump()["algorithm"]["reward_floor"]

    assert (floor("mine.py:calm"), floor("power")) == (None, -1)
    assert floor("mine.py:calm", reward_floor=-1.0) == -1


@pytest.mark.parametrize("name", shipped())
def test_every_shipped_configuration_loads_and_survives_a_round_trip(name: str, tmp_path: Path) -> None:
    config = load_config(name)
    path = tmp_path / "config.yaml"
    save_config(config, path)
    assert load_config(path) == config
    assert dump_config(load_config(path)) == dump_config(config)
    assert [p.name for p in tmp_path.iterdir()] == ["config.yaml"], "no temporary file is left behind"


def test_a_document_alone_gets_the_defaults_and_the_file_s_name(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("spec: acct\n")
    assert load_config(path) == TrainConfig(name="mine", spec="acct")


def test_overrides_reach_their_keys() -> None:
    config = load_config(
        "acct",
        parse_overrides(
            "--env.link.rate_mbps 48 --env.link.rtt-ms=[20,30] --total-decisions 1e6 --out 7 --algorithm.actor_lr 3e-4 "
            "--env.link.kinds.constant 0 --env.link.kinds.trace 1 --algorithm.max_grad_norm null --seed 1 --seed 2 "
            "--device cuda:1 --params.budget_ms 5 --reward.omega 3 --network mlp".split()
        ),
    )
    assert config.env.link.rate_mbps == (48.0, 48.0)
    assert config.env.link.rtt_ms == (20.0, 30.0)
    assert config.total_decisions == 1_000_000
    assert config.out == "7"
    assert config.algorithm.actor_lr == 3e-4
    assert (config.env.link.kinds.constant, config.env.link.kinds.random_steps, config.env.link.kinds.trace) == (
        0,
        8,
        1,
    )
    assert config.algorithm.max_grad_norm is None
    assert config.seed == 2
    assert config.device == "cuda:1"
    assert config.params == {"budget_ms": 5.0}
    assert (config.reward.name, config.reward.arguments["omega"], config.reward.arguments["zeta"]) == ("acct", 3, 1)
    assert (config.network.name, config.network.arguments) == ("mlp", {})


def test_an_override_replaces_a_mapping() -> None:
    kinds = load_config("acct", {"env.link.kinds": {"trace": 1}}).env.link.kinds
    assert {kind for kind, weight in kinds.model_dump().items() if weight} == {"trace"}


def test_a_file_may_start_from_another_one(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("base: acct\nname: mine\nenv: {link: {loss: 0.01}}\n")
    (tmp_path / "more.yaml").write_text("base: mine.yaml\nseed: 9\n")
    config, acct = load_config(tmp_path / "more.yaml"), load_config("acct")
    assert (config.name, config.seed, config.env.link.loss) == ("mine", 9, (0.01, 0.01))
    assert config.env.link.kinds == acct.env.link.kinds


def test_a_circle_of_bases_is_refused(tmp_path: Path) -> None:
    one, two = tmp_path / "one.yaml", tmp_path / "two.yaml"
    one.write_text("base: two.yaml")
    two.write_text("base: one.yaml")
    assert "circle" in refusal(config=one)


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (["--env.link.rat_mbps", "48"], 'env.link.rat_mbps = 48: unknown key; did you mean "env.link.rate_mbps"?'),
        (["--rate_mbps", "48"], 'rate_mbps = 48: unknown key; did you mean "env.link.rate_mbps"?'),
        (["--env.lnk.rate_mbps", "48"], 'env.lnk = {rate_mbps: 48}: unknown key; did you mean "env.link"?'),
        (["--totl-decisions", "1"], 'totl_decisions = 1: unknown key; did you mean "total_decisions"?'),
        (["--zzz", "1"], "zzz = 1: unknown key; known: algorithm, "),
        (["--resum"], '--resum has no value; expected --KEY VALUE; did you mean "resume"?'),
        (["--seed"], "--seed has no value"),
        (["seed", "1"], "unexpected 'seed'; expected --KEY VALUE"),
        (["--env.worlds", "0"], "env.worlds = 0: expected a whole number, at least 1 and at most 65536"),
        (["--env.worlds", "many"], "env.worlds = many: expected a whole number"),
        (["--env.worlds", "'8'"], "expected a whole number"),
        (["--seed", "true"], "seed = true: expected a whole number"),
        (["--seed", "1.5"], "seed = 1.5: expected a whole number"),
        (["--seed.x", "1"], "seed = {x: 1}: expected a whole number"),
        (["--algorithm.gamma", ".nan"], "algorithm.gamma = .nan: not valid YAML: .nan is not a finite number"),
        (["--algorithm.entropy", "[1]"], "algorithm.entropy = [1]: expected a list of 2"),
        (["--algorithm.entropy", "[1, -1]"], "algorithm.entropy = [1, -1]: expected a list of 2"),
        (["--env", "3"], "env = 3: expected a mapping"),
        (
            ["--env.link.rate_mbps", "[100, 5]"],
            "rate_mbps = [100, 5]: expected a number or a pair [low, high] with low <= high",
        ),
        (["--env.link.rate_mbps", "[1, 2, 3]"], "expected a number or a pair"),
        (["--env.link.rate_mbps", "[.nan, 5]"], "rate_mbps = [.nan, 5]: not valid YAML: .nan is not a finite number"),
        (["--env.cross_traffic.flows", "1.5"], "expected a whole number or a pair"),
        (["--env.link.presets", "3"], "env.link.presets = 3: expected auto or a list"),
        (["--env.link.kinds", "{trace: 0}"], "env.link.kinds: all weights are 0"),
        (["--env.link.traces", "[]", "--env.link.kinds.trace", "1"], 'env.link: "traces" is an empty list'),
        (["--env.worlds", "63"], "env.worlds = 63 is not divisible by algorithm.workers ="),
        (["--executor", "rai"], "executor = rai: expected one of local, ray"),
        (["--device", "gpu"], "device = gpu: expected text matching"),
        (["--name", "../elsewhere"], "name = ../elsewhere: expected text matching"),
        (["--env.link.loss", "[0,"], "env.link.loss = [0,: not valid YAML"),
        (["--params", "{budget_ms: low}"], "params = {budget_ms: low}: expected a mapping, each value a number"),
        (["--reward.omega", "-.inf"], "reward.omega = -.inf: not valid YAML: -.inf is not a finite number"),
        (
            ["--executor", "ray", "--algorithm", "PPO", "--ray.workers", "7", "--env.worlds", "64"],
            "env.worlds = 64 is not divisible by ray.workers = 7; try env.worlds = 63",
        ),
        (["--env.id", "ccarena/Acct-v0"], "env.id = ccarena/Acct-v0: the scheme is now named by `spec`"),
        (["--agent.gamma", "0.9"], "agent = {gamma: 0.9}: the key is now `algorithm`, with its `name`"),
        (["--eval.schemes", "[cubic]"], "eval.schemes = [cubic]: the heuristics are now `baselines`"),
    ],
)
def test_a_wrong_override_names_key_value_and_expectation(tokens: list[str], message: str) -> None:
    text = refusal(*tokens)
    assert message in text
    assert "command line" in text
    assert "\n" not in text, "one problem is one line"


def test_all_problems_are_listed_each_with_its_origin(tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text("spec: acct\nseed: -1\nalgorithm: {name: a3c, gama: 0.9}\n")
    lines = refusal("--env.worlds", "x", config=path).splitlines()
    assert lines[0] == "the configuration has 3 problems:"
    assert f"  {path}: seed = -1: expected a whole number, at least 0 and at most 4294967295" in lines
    assert f'  {path}: algorithm.gama = 0.9: unknown key; did you mean "algorithm.gamma"?' in lines
    assert any(line.startswith("  command line: env.worlds = x") for line in lines)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"seed: 1\nenv: {worlds: 64\n", "line 3"),
        (b"seed: 1\nseed: 2\n", 'line 2, column 1: not valid YAML: the key "seed" is there twice'),
        (b"seed:\t1\n  x: 2", "line "),
        (b"seed: !!python/object/apply:os.system [true]", "line 1"),
        (b"\x80\x81\x82", "line 1: not a text file (byte 0x80); expected YAML in UTF-8"),
        (b"a: \x00", "not a YAML text file"),
        (b"- 1\n- 2\n", "expected a mapping from keys to values, got [1, 2]"),
        (b"1: 2\n", "line 1, column 1: not valid YAML: the key 1 is not text"),
        (b"? [a]\n: 1", "the key ['a'] is not text"),
        (b"spec: acct\na: &a [*a]\n", "line 2, column 8: not valid YAML: the alias *a stands within its own value"),
        (b"[" * 500, "nested too deeply"),
        (b"seed: !!timestamp x", "leave tags (!...) out"),
        (b"!!map [[a, b]]", "leave tags (!...) out"),
        (b"base: 3\n", "base = 3: expected the name"),
        (b"base: nowhere\n", "base = nowhere: neither a file nor a shipped configuration"),
    ],
)
def test_a_file_that_cannot_be_read_says_where(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.yaml"
    path.write_bytes(content)
    text = refusal(config=path)
    assert message in text
    assert text.startswith(str(path))
    assert len(text) < 1000


def test_a_name_that_is_nothing_gets_the_nearest(tmp_path: Path) -> None:
    assert 'did you mean "acct"' in refusal(config="act")
    assert "cannot be read" in refusal(config=tmp_path)


@given(st.binary(max_size=300) | st.text(max_size=100).map(str.encode))
def test_any_bytes_are_a_configuration_or_a_configuration_error(content: bytes) -> None:
    from ccarena.configs.load import build
    from ccarena.core.reader import parse_yaml

    try:
        data = parse_yaml(content, "fuzz.yaml")
        if isinstance(data, dict):
            build(data, "fuzz.yaml", {})
    except ConfigError as error:
        assert str(error)


@given(
    st.sampled_from(["seed", "env", "env.link", "env.link.rate_mbps", "algorithm.entropy", "a.b"]), st.text(max_size=30)
)
def test_any_override_is_a_configuration_or_a_configuration_error(key: str, text: str) -> None:
    try:
        config = load_config("acct", parse_overrides([f"--{key}={text}"]))
    except ConfigError as error:
        assert str(error)
    else:
        assert isinstance(config, TrainConfig)


def test_names_and_files_are_found_from_the_file_that_names_them(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "base.yaml").write_text("spec: my.yaml\nreward: {name: 'r.py:f', k: 1}\nparams: {a: 1}\n")
    (tmp_path / "top.yaml").write_text("base: deep/base.yaml\nreward: {k: 2}\n")
    config = load_config(tmp_path / "top.yaml")
    assert config.spec == str(tmp_path / "deep" / "my.yaml")
    assert (config.reward.name, config.reward.arguments) == (str(tmp_path / "deep" / "r.py") + ":f", {"k": 2})


def test_another_document_or_name_drops_what_belonged_to_the_base_s(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("base: hyvar\nspec: orca\nalgorithm: {name: PPO, n_steps: 8}\n")
    config = load_config(tmp_path / "mine.yaml")
    assert config.params == {}
    assert config.algorithm.arguments == {"n_steps": 8}
    assert config.reward == load_config("hyvar").reward


@pytest.mark.parametrize("arguments", [{"gama": 1}, {"steps": "many"}])
def test_arguments_are_checked_against_who_takes_them(arguments: dict[str, object]) -> None:
    def taker(context: object, gamma: float = 0.9, steps: int = 3) -> None: ...

    with pytest.raises(
        ConfigError, match=r"algorithm\.(gama = 1: mine takes no such|steps = 'many': expected a number)"
    ):
        bind(taker, arguments, "algorithm", "mine", ("context",))
    assert bind(taker, {"gamma": 1}, "algorithm", "mine", ("context",)) == {"gamma": 1}


def test_the_user_s_own_file(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text("def power(report):\n    return report\n")
    assert find(f"{file}:power", "reward")("x") == "x"
    with pytest.raises(ConfigError, match='has no "powr"; did you mean "power"'):
        find(f"{file}:powr", "reward")
    file.write_text("def power(report):\n    return 2\n\n1 / 0\n")
    with pytest.raises(ConfigError, match=r"own\.py, line 4: ZeroDivisionError"):
        find(f"{file}:power", "reward")
    file.write_text("def power(:\n")
    with pytest.raises(ConfigError, match=r"own\.py, line 1: SyntaxError"):
        find(f"{file}:power", "reward")
    with pytest.raises(ConfigError, match="cannot read"):
        find(f"{tmp_path}/none.py:power", "reward")
