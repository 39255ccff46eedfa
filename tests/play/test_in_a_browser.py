"""The web page in Chromium: it runs what the command runs, and nothing that it is given breaks it."""

from __future__ import annotations

import base64
import json
import shutil
import zlib
from pathlib import Path
from typing import Any

import pytest

import ccarena
from ccarena import _core
from ccarena.core.learned_schemes import shipped_policies
from ccarena.core.reader import parse
from ccarena.play import assets, write
from ccarena.scenarios.flows import enter
from ccarena.scenarios.scenario import read_scenario, resolve, scenario_json
from tests.play.player import Player

PRESETS = sorted((Path(__file__).parents[2] / "crates/ccarena-web/page/presets").glob("*.yaml"))
LINK = {"service": {"type": "constant", "rate_mbps": 10}, "queue": {"type": "droptail", "packets": 40}}
SHORT = {"duration_s": 2, "links": [LINK], "flows": [{"scheme": "cubic"}]}


def native(text: str, folder: Path = Path()) -> str:
    """Returns the digest that the command prints for a scenario."""
    return _core.result_digest(scenario_json(enter(resolve(parse(text, "scenario.yaml"), folder))))


def address(document: Any) -> str:
    """Returns the part of an address that holds a scenario."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    return "#s=" + base64.urlsafe_b64encode(packer.compress(text) + packer.flush()).decode().rstrip("=")


@pytest.mark.parametrize("preset", PRESETS, ids=lambda path: path.stem)
def test_every_preset_gives_the_native_result(player: Player, preset: Path) -> None:
    player.open(f"#p={preset.stem}")
    state = player.state()
    assert player.browser.messages == [] and player.message() == ""
    assert parse(state["yaml"], "page.yaml") == parse(preset.read_text("utf-8"), preset.name)
    assert state["digest"] == native(preset.read_text("utf-8"))


def test_a_turned_knob_becomes_part_of_the_scenario(player: Player) -> None:
    player.open("#p=weights", wait="ccarena.state().timeS > 1")
    for knob, place in ((0, 400), (1, 700), (2, 300), (4, 800)):
        before = player.state()["timeS"]
        player.turn(knob, place)
        player.until(f"ccarena.state().timeS > {before} + 0.4")
    player.until("ccarena.state().digest")
    state = player.state()
    document = parse(state["yaml"], "page.yaml")
    link, weight = document["links"][0], document["flows"][1]["changes"]
    assert link["service"]["steps"][0] == {"at_s": 0, "rate_mbps": 28}
    assert (
        all(len(part["steps"]) == 2 for part in (link["service"], link["delay_ms"], link["loss"])) and len(weight) == 1
    )
    assert document == state["scenario"] and state["digest"] == native(state["yaml"])


def test_an_address_holds_the_scenario(player: Player) -> None:
    player.open("#p=cubic-bbr")
    player.turn(0, 300)
    player.until("location.hash.startsWith('#s=')")
    before, shared = player.state(), str(player.browser.evaluate("location.hash"))
    player.open(shared)
    after = player.state()
    assert after["scenario"] == before["scenario"] and after["digest"] == native(before["yaml"])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("#s=!!!!", "cannot be read: it is not base64"),
        (address(SHORT)[:-8], "cannot be read: it is cut off or was changed"),
        (address(b'{"links": [' + b" " * 30_000_000), "cannot be read: it unpacks to more than 2 MB"),
        ("#p=nothing", "there is none: expected bufferbloat"),
        (address([1]), "expected a mapping with `links` and `flows`"),
        (address({**SHORT, "flows": []}), "flows: expected a list with at least one entry"),
        (address({**SHORT, "flows": [{"scheme": "cubik"}]}), 'did you mean "cubic"?'),
        (address({**SHORT, "flows": [{"scheme": {"a": 1}, "app": 5, "changes": [3]}]}), "flows[0]."),
        (address({**SHORT, "links": [{"service": 7, "queue": [], "delay_ms": {"steps": [None]}}]}), "links[0]."),
        (address({**SHORT, "links": [{"service": {"type": "trace", "file": "no.trace"}}]}), "no.trace"),
        (
            address({**SHORT, "duration_s": 1e5, "links": [{"service": {"type": "constant", "rate_mbps": 1e5}}]}),
            "million",
        ),
    ],
    ids=["base64", "cut", "bomb", "preset", "list", "empty", "scheme", "flow", "link", "trace", "large"],
)
def test_a_hostile_address_is_refused_with_the_reason(player: Player, given: str, expected: str) -> None:
    player.open(given, wait="!message.hidden")
    assert expected in player.message()


def test_texts_of_a_scenario_are_only_texts(player: Player) -> None:
    name = '<img src=x onerror="document.title = 1">'
    player.open(address({**SHORT, "links": [{**LINK, "name": name}], "flows": [{"scheme": "cubic", "name": name}]}))
    assert (
        player.browser.evaluate("document.images.length") == 0
        and player.browser.evaluate("document.title") == "Play · ccarena"
    )


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [420, 1400])
def test_it_fits_both_widths_in_both_themes(player: Player, width: int, theme: str) -> None:
    call = player.browser.call
    call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
    call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
    try:
        player.open("#p=crowd")
        player.click("keep")
        player.do("document.querySelectorAll('details').forEach(part => part.open = true)")
        assert player.browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
        dark = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).every(x => x < 60)"
        assert player.browser.evaluate(dark) == (theme == "dark")
        player.click("theme")
        assert player.browser.evaluate(dark) != (theme == "dark")
    finally:
        call("Emulation.clearDeviceMetricsOverride")
        call("Emulation.setEmulatedMedia", features=[])


def test_keys_and_words(player: Player) -> None:
    player.open("#p=acct")
    player.until("ccarena.state().playing")
    player.key(" ", "Space")
    assert not player.state()["playing"]
    at = player.state()["timeS"]
    player.key(".", "Period")
    assert player.state()["timeS"] > at
    player.do("speeds.children[3].focus()")
    player.key("ArrowRight")
    assert player.browser.evaluate("document.activeElement.textContent") == "max"
    player.do("document.activeElement.blur()")
    player.do("document.getElementById('charts').scrollIntoView({behavior: 'instant'})")
    # A page that has just stopped may still lay itself out; the click has to meet the chart where it then is.
    player.browser.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    x, y = player.browser.evaluate(
        "(({x, y, width}) => [x + width / 3, y + 50])(document.querySelector('.u-over').getBoundingClientRect())"
    )
    for kind in ("mousePressed", "mouseReleased"):
        player.browser.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
    player.until("Math.abs(ccarena.state().timeS - 10) < 0.3")
    player.key("0", "Digit0")
    player.until("ccarena.state().timeS === 30 && !ccarena.state().playing")
    assert "At 30 seconds: first" in player.browser.evaluate("summary.textContent")
    unnamed = (
        "[...document.querySelectorAll('button, input, select')].filter(e => !e.hidden && !e.labels?.length"
        " && !e.textContent.trim() && !e.getAttribute('aria-label')).length"
    )
    assert player.browser.evaluate(unnamed) == 0


def test_what_is_refused_changes_nothing(player: Player, tmp_path: Path) -> None:
    photo = tmp_path / "photo.png"
    photo.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(400))
    (tmp_path / "back.trace").write_text("5\n4\n", "utf-8")
    (tmp_path / "long.yaml").write_text(json.dumps({**SHORT, "x": [1] * 300_000}), "utf-8")
    (tmp_path / "large.yaml").write_text(" " * 2_100_000, "utf-8")
    (tmp_path / "negative.yaml").write_text(json.dumps({**SHORT, "duration_s": -1}), "utf-8")
    player.open(address(SHORT))
    before = player.state()
    for name, expected in (
        ("photo.png", "expected a trace"),
        ("back.trace", "back.trace"),
        ("long.yaml", "more than 20000 values"),
        ("large.yaml", "expected at most 2 MB"),
        ("negative.yaml", "duration_s"),
    ):
        player.give(tmp_path / name)
        player.until(f"!message.hidden && message.innerText.startsWith('{name}')")
        assert expected in player.message() and "Nothing was changed" in player.message()
        state = player.state()
        assert state["scenario"] == before["scenario"] and state["digest"] == before["digest"]


def test_a_number_that_cannot_be_read_is_refused_at_its_field(player: Player) -> None:
    player.open(address(SHORT))
    fault = (
        "const part = [...document.querySelectorAll('.field')].find(e => e.textContent.startsWith('LABEL'));"
        "const input = part.querySelector('input'); input.value = 'TEXT'; input.dispatchEvent(new Event('change'));"
        "return part.querySelector('.fault')?.textContent ?? '';"
    )
    before = player.state()["scenario"]
    for label, text, expected in (
        ("Rate", "7,5", "write 7.5"),
        ("Rate", "1,500", "write 1.500 or 1500"),
        ("Duration", "long", "no number"),
        ("One-way", "0: 10, 1: 7,5", "write steps such as"),
    ):
        assert expected in player.do(fault.replace("LABEL", label).replace("TEXT", text))
        assert player.state()["scenario"] == before
    assert player.do(fault.replace("LABEL", "Rate").replace("TEXT", "7.5")) == ""
    assert player.state()["scenario"]["links"][0]["service"]["rate_mbps"] == 7.5


def test_old_results_do_not_stand_under_a_new_title(player: Player) -> None:
    player.open(address(SHORT))
    assert player.browser.evaluate("!!figures.querySelector('table') && cover.hidden")
    player.do(f"location.hash = '{address({**SHORT, 'duration_s': -1})}'")
    player.until("!message.hidden")
    assert (
        player.browser.evaluate("figures.innerHTML + intervals.innerHTML + digest.innerHTML + legend.innerHTML") == ""
    )
    assert player.browser.evaluate("cover.innerText").startswith("Not run")


def test_a_comparison_pairs_flows_by_name(player: Player) -> None:
    def scenario(*names: str) -> dict[str, Any]:
        return {**SHORT, "flows": [{"name": name, "scheme": "cubic" if name != "bbr" else "bbr"} for name in names]}

    player.open(address(scenario("cubic", "bbr")))
    rates = {row: player.state()["figures"]["flows"][row]["throughput_mbps"] for row in (0, 1)}
    player.click("keep")
    player.do(f"location.hash = '{address(scenario('bbr', 'other', 'third'))}'")
    player.until("ccarena.state().flows[0] === 'bbr' && differences.querySelector('table')")
    rows = player.browser.evaluate("[...differences.querySelectorAll('tbody tr')].map(row => row.innerText)")
    assert len(rows) == 2 and rows[0].startswith("bbr") and f"A {rates[1]:.2f}" in rows[0]
    assert rows[1].startswith("other") and f"A {rates[0]:.2f}" in rows[1]
    assert "no partner" in player.browser.evaluate("differences.innerText")


def test_a_slider_at_the_end_keeps_the_page_and_plays_again(player: Player) -> None:
    player.open(address(SHORT))
    player.until("ccarena.state().timeS === 2 && !ccarena.state().playing")
    player.do("speeds.children[1].click(); document.querySelector('.knob input').focus()")
    before = player.state()
    player.key("ArrowLeft")
    assert player.state()["flows"] == ["flow0"] and player.browser.evaluate("cover.hidden")
    player.until("ccarena.state().playing && ccarena.state().digest")
    player.do("speeds.children[4].click()")
    player.until("ccarena.state().timeS === 2 && !ccarena.state().playing")
    state = player.state()
    assert state["digest"] not in (None, before["digest"])
    rates = [step["rate_mbps"] for step in state["scenario"]["links"][0]["service"]["steps"]]
    assert rates == [9.5]
    player.do("speeds.children[0].click()")
    player.key(" ", "Space")
    assert player.state()["playing"]


AT_RANDOM = """
  let state = 7, odd = ['', '1', '0.5', '-1', 'abc', '0: 5, 3: 2', '[]', 'null'];
  const below = n => (state = (state * 1103515245 + 12345) & 0x7fffffff) % n;
  const parts = '#form select, #form input, .add button, #form legend button, .knob input, #speeds button'
    + ', #presets button, #keep, #drop, #step, #again, #run, #theme';
  for (let step = 0; step < 70; step++) {
    const all = [...document.querySelectorAll(parts)].filter(e => !e.hidden);
    const one = all[below(all.length)], label = one.closest('.field')?.innerText ?? '';
    if (/Copies|Duration/.test(label)) continue;
    if (one.textContent[0] === '+' && ccarena.state().scenario.flows.length > 5) continue;
    if (one.tagName === 'SELECT') one.value = one.options[below(one.options.length)].value;
    else if (one.type === 'range') one.value = below(1001);
    else if (one.tagName === 'INPUT' && one.type !== 'checkbox') one.value = odd[below(odd.length)];
    else one.click();
    one.dispatchEvent(new Event('input'));
    one.dispatchEvent(new Event('change'));
    await new Promise(done => setTimeout(done, 10));
  }
  window.finished = true;
"""


def test_no_order_of_changes_breaks_the_page(player: Player) -> None:
    player.open("#p=bufferbloat")
    player.do(f"(async () => {{ {AT_RANDOM} }})()")
    player.until("window.finished")
    harmless = ("cannot be parsed", "File chooser dialog")
    assert [said for said in player.browser.messages if not any(word in said for word in harmless)] == []
    player.do("presets.children[3].click()")
    player.until("ccarena.state().digest && ccarena.state().flows[0] === 'first' && message.hidden")


def test_a_flow_that_is_named_after_its_scheme_gets_a_name_of_its_own(player: Player) -> None:
    player.open("#p=cubic-bbr")
    choose = (
        "const one = [...document.querySelectorAll('#form fieldset select')].filter(e => e.labels[0]?.textContent === "
    )
    choose += "'Scheme')[0]; one.value = '{}'; one.dispatchEvent(new Event('change'));"
    for scheme, name in (("bbr", "bbr 2"), ("reno", "reno")):
        player.do(choose.format(scheme))
        player.until(f"ccarena.state().digest && ccarena.state().flows[0] === '{name}'")
        assert player.message() == "" and player.state()["flows"] == [name, "bbr"]


def test_flows_keep_their_names_if_another_is_removed(player: Player) -> None:
    player.open(address({**SHORT, "flows": [{"scheme": "cubic"}, {"scheme": "reno"}, {"scheme": "bbr"}]}))
    player.do("document.querySelector('[aria-label=\"remove flow flow0\"]').click()")
    player.until("ccarena.state().digest && ccarena.state().flows.length === 2")
    assert player.state()["flows"] == ["flow1", "flow2"] and player.message() == ""


def test_steps_of_replaced_runs_do_not_keep_orders_waiting(player: Player) -> None:
    long = {**SHORT, "duration_s": 900, "links": [{"service": {"type": "constant", "rate_mbps": 200}}]}
    source = (
        "{ const Own = Worker; window.Worker = class extends Own { constructor(a) { super(a); window.own = this; } }; }"
    )
    script = player.browser.call("Page.addScriptToEvaluateOnNewDocument", source=source)
    player.open(address(SHORT))
    player.browser.call("Page.removeScriptToEvaluateOnNewDocument", **script)
    player.do(
        f"""
        window.steps = 0; window.answered = false;
        own.addEventListener('message', ({{data}}) => {{
          const last = data.id === 1024;
          if (data.kind === 'opened' && last) own.postMessage({{kind: 'read', id: -9e6, text: 'links: [1]'}});
          if (data.kind === 'update' && last && !answered) steps++;
          if (data.id === -9e6) answered = true;
        }});
        const scenario = JSON.stringify({json.dumps(long)});
        const order = {{kind: 'run', scenario, files: new Map(), packets: 0, whole: false}};
        for (let id = 1000; id < 1025; id++) own.postMessage({{...order, id}});
        """
    )
    player.until("answered")
    assert player.browser.evaluate("steps") <= 4


def test_reduced_motion_shows_the_end(player: Player) -> None:
    player.browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}])
    try:
        player.open("#p=acct")
        player.until("ccarena.state().timeS === 30")
        assert not player.state()["playing"]
    finally:
        player.browser.call("Emulation.setEmulatedMedia", features=[])


def test_figures_are_those_of_the_command(player: Player) -> None:
    path = next(path for path in PRESETS if path.stem == "vegas-cubic")
    player.open(f"#p={path.stem}")
    rows = ccarena.run(read_scenario(path)).flows().to_dict("records")
    for here, there in zip(player.state()["figures"]["flows"], rows, strict=True):
        assert here.pop("loss_share") / 100 == pytest.approx(there["loss_share"])
        assert here == pytest.approx({name: there[name] for name in here}, rel=1e-6)


def test_comparison_seeds_and_cancel(player: Player) -> None:
    player.open(address({**SHORT, "links": [{**LINK, "loss": 0.01}]}))
    player.click("keep")
    player.turn(1, 900)
    player.until("ccarena.state().digest && differences.querySelector('table')")
    player.do("document.getElementById('seed-count').value = '4'")
    player.click("seeds")
    player.until("intervals.innerText.includes('±')")
    player.open(
        address({**SHORT, "duration_s": 600, "links": [{"service": {"type": "constant", "rate_mbps": 500}}]}),
        wait="ccarena.state().nowS > 0",
    )
    player.click("cancel")
    assert "Cancelled" in player.message() and player.state()["digest"] is None
    player.open(address(SHORT))
    assert player.message() == ""


def test_a_worker_that_breaks_is_replaced(player: Player) -> None:
    player.browser.call(
        "Page.addScriptToEvaluateOnNewDocument",
        source="""
      window.workers = []; const Own = Worker;
      window.Worker = class extends Own { constructor(address) { super(address); workers.push(this); } };
    """,
    )
    player.open("#p=cubic-bbr")
    player.do("workers.at(-1).dispatchEvent(new ErrorEvent('error', {message: 'boom', cancelable: true}))")
    assert "boom" in player.message() and "started anew" in player.message()
    player.click("again")
    player.turn(0, 500)
    player.until("ccarena.state().digest && workers.length === 2")


def test_a_browser_without_webassembly_is_told(player: Player) -> None:
    script = player.browser.call("Page.addScriptToEvaluateOnNewDocument", source="delete window.WebAssembly")
    try:
        player.open(wait="!message.hidden")
        assert "this browser has no WebAssembly" in player.message()
    finally:
        player.browser.call("Page.removeScriptToEvaluateOnNewDocument", **script)


def test_files_of_the_reader(player: Player, tmp_path: Path) -> None:
    (tmp_path / "mine.trace").write_text("".join(f"{at}\n" for at in range(1, 2000, 2)), "utf-8")
    shutil.copy(shipped_policies()["acct-table"], tmp_path / "mine.safetensors")
    (tmp_path / "odd.safetensors").write_bytes(b"\xff" * 40)
    player.open(address(SHORT))
    player.give(tmp_path / "mine.trace")
    player.until("ccarena.state().scenario.links[0].service.type === 'trace' && ccarena.state().digest")
    player.give(tmp_path / "mine.safetensors")
    player.until("ccarena.state().scenario.flows[0].policy && ccarena.state().digest")
    state = player.state()
    text = state["yaml"].replace("mine.safetensors", str(tmp_path / "mine.safetensors"))
    assert state["scenario"]["flows"][0]["scheme"] == "acct" and state["digest"] == native(text, tmp_path)
    player.give(tmp_path / "odd.safetensors")
    player.until("!message.hidden")
    assert "odd.safetensors: it is no policy" in player.message()
    (tmp_path / "bad.yaml").write_text("links: [\n", "utf-8")
    player.give(tmp_path / "bad.yaml")
    player.until("message.innerText.includes('bad.yaml')")


def test_files_that_a_link_does_not_hold_are_asked_for(player: Player, tmp_path: Path) -> None:
    (tmp_path / "mine.trace").write_text("".join(f"{at}\n" for at in range(1, 2000, 2)), "utf-8")
    shutil.copy(shipped_policies()["acct-table"], tmp_path / "mine.safetensors")
    traced = {**LINK, "service": {"type": "trace", "file": "mine.trace"}, "router": "acct"}
    document = {**SHORT, "links": [LINK | {"name": "a"}, traced | {"name": "b"}]}
    document["flows"] = [
        {"name": "a", "scheme": "acct", "policy": "mine.safetensors"},
        {"name": "b", "scheme": "cubic"},
    ]
    player.open(address(document), wait="!message.hidden")
    assert player.message().startswith("this scenario needs mine.trace, mine.safetensors, which are not in this page: ")
    player.give(tmp_path / "mine.trace")
    player.until(
        "message.innerText.includes('needs mine.safetensors, which is not') && message.innerText.includes('Nothing')"
    )
    player.give(tmp_path / "mine.trace", tmp_path / "mine.safetensors")
    player.until("ccarena.state().digest")
    # They are where the scenario names them.
    assert player.state()["scenario"] == document and player.message() == ""


def test_the_run_button_shows_how_much_is_simulated(player: Player) -> None:
    long = {**SHORT, "duration_s": 600, "links": [{"service": {"type": "constant", "rate_mbps": 500}}]}
    share = "parseInt(run.style.getPropertyValue('--simulated'))"
    player.open(address(long), wait=f"{share} > 0 && {share} < 100 && run.title === `simulated: ${{{share}}} %`")
    player.click("cancel")
    player.open(address(SHORT))
    player.until(f"{share} === 0 && run.title === ''")


def test_the_command_puts_a_scenario_and_its_files_into_the_page(player: Player, tmp_path: Path) -> None:
    (tmp_path / "mine.trace").write_text("".join(f"{at}\n" for at in range(1, 2000, 2)), "utf-8")
    shutil.copy(shipped_policies()["acct-table"], tmp_path / "mine.safetensors")
    flow = {"name": "a", "scheme": str(tmp_path / "mine.safetensors")}
    document = {
        "duration_s": 3,
        "links": [{"service": {"type": "trace", "file": "mine.trace"}, "router": "acct"}],
        "flows": [flow, {"scheme": "cubic@hystart=0"}],
    }
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(json.dumps(document), "utf-8")
    write(tmp_path / "page.html", scenario)
    player.open(page=tmp_path / "page.html")
    assert player.state()["digest"] == native(scenario.read_text("utf-8"), tmp_path)


def test_a_cell_compares_with_stored_figures(player: Player, tmp_path: Path) -> None:
    for name in ("cell.js", "engine.js"):
        shutil.copy(assets() / name, tmp_path)
    document = {**SHORT, "flows": [{"name": "cubic", "scheme": "cubic"}]}
    goodput = float(ccarena.run(document).flows()["goodput_mbps"][0])
    stored = json.dumps({"cubic": {"goodput_mbps": goodput, "rtt_mean_ms": 1.0}})
    digest = native(json.dumps(document))
    about = {"scenario": json.dumps(document), "stored": stored, "digest": digest}
    attributes = " ".join(f"data-ccarena-{key}='{value}'" for key, value in about.items())
    (tmp_path / "page.html").write_text(
        f"<!DOCTYPE html><html lang=en><script src=cell.js defer></script><body><div {attributes}></div></body></html>",
        "utf-8",
    )
    player.open(page=tmp_path / "page.html", wait="document.querySelector('.ccarena-cell button')")
    player.do("document.querySelector('.ccarena-cell button').click()")
    player.until("document.querySelector('.ccarena-cell td')")
    text = str(player.browser.evaluate("document.querySelector('.ccarena-cell').innerText"))
    verdicts = player.browser.evaluate(
        "[...document.querySelectorAll('.ccarena-cell td:last-child')].map(cell => cell.className)"
    )
    assert verdicts == ["same", "other"] and "byte for byte" in text and digest in text
    assert (assets() / "cell.js").stat().st_size <= 200_000


def test_the_python_that_the_page_shows_runs(player: Player, capsys: pytest.CaptureFixture[str]) -> None:
    player.open(address({**SHORT, "links": [{**LINK, "router": True}]}))
    player.do("[...forms.children].find(tab => tab.textContent === 'Python').click()")
    exec(player.browser.evaluate("document.getElementById('text').textContent"), {})
    assert "goodput_mbps" in capsys.readouterr().out
