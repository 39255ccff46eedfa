"""Sage's two leagues, as its authors' benchmark counts wins (github.com/Soheil-ab/ccBench, arXiv:2307.10054).

    python examples/sage/league.py runs/sage-offline cubic copa bbr vegas --games 40

Single flow: 12 to 192 Mbit/s, 5 to 80 ms one way, buffers of 0.5 to 16 BDP, constant or with one jump by 2 or 4 at
17 s. The score is throughput² over the mean one-way delay in each of four pieces: 0-3, 3-10, 10-17 and 17-24 s after
10 s.

Beside CUBIC: the same constant links with at least 1 BDP. CUBIC begins, the entrant 5 s later. Its throughput counts in
each of four pieces of 30 s, and the nearest to the fair share wins.

Whoever is within 10 % of the best has won, too. `--games N` plays N links of each league, drawn at random by `--seed`;
without it, all 660 and 125 are played.
"""

import argparse
import random

from ccarena.eval.measure.packet_log import PacketLog
from ccarena.eval.measure.queueing import one_way_delay_ms
from ccarena.eval.measure.signal_delay import sage_score
from ccarena.scenarios.backends import execute
from ccarena.scenarios.entrants import parse

RATES, DELAYS = (12, 24, 48, 96, 192), (5, 10, 20, 40, 80)
SETUP_S, JUMP_S, LATER_S, MARGIN = 10, 17, 5, 0.1
ALONE = [(SETUP_S + a, SETUP_S + b) for a, b in ((0, 3), (3, 10), (10, 17), (17, 24))]
BESIDE = [(SETUP_S + LATER_S + 30 * k, SETUP_S + LATER_S + 30 * (k + 1)) for k in range(4)]
FACTORS = {12: (1, 2, 4, 0.5, 0.25), 24: (1, 2, 4, 0.5, 0.25), 48: (1, 2, 4, 0.5, 0.25), 96: (1, 2, 0.5, 0.25)}


def links(bdps, factors):
    """Yields every link of a league."""
    for rate in RATES:
        for factor in factors.get(rate, (1,) if not factors else (1, 0.5, 0.25)):
            for delay in DELAYS:
                for bdp in bdps:
                    yield rate, factor, delay, max(1, int(bdp * 2 * rate * delay / 12))


def scenario(rate, factor, delay, packets, flows, duration_s):
    """Returns the scenario of a link with its flows."""
    service = {"type": "constant", "rate_mbps": rate}
    if factor != 1:
        steps = [{"at_s": 0, "rate_mbps": rate}, {"at_s": JUMP_S, "rate_mbps": rate * factor}]
        service = {"type": "steps", "steps": steps}
    link = {"service": service, "delay_ms": delay, "queue": {"type": "droptail", "packets": packets}}
    return {"duration_s": duration_s, "links": [link], "flows": flows, "record": {"packets": True}}


def log_of(document):
    """Returns the packets of the entrant, which is the last flow."""
    result = execute(document, "sim")
    return PacketLog.from_arrays(result["links"][0]["log"]).of_flow(len(document["flows"]) - 1)


def throughput_mbps(log, from_s, to_s):
    """Returns Mbit/s of IP bytes."""
    return float(log.bytes.sum()) * 8e-6 / (to_s - from_s)


def alone(entrant, link):
    """Returns the score in each piece."""
    log = log_of(scenario(*link, [entrant.as_flow()], ALONE[-1][1]))
    for piece in ALONE:
        own = log.left_within(*piece)
        yield sage_score(throughput_mbps(own, *piece), one_way_delay_ms(own, link[2]).mean()) if len(own) else 0.0


def beside(entrant, link):
    """Returns the throughput in each piece, in fair shares."""
    flows = [{"scheme": "cubic", "name": "first"}, entrant.as_flow(name="later", start_s=LATER_S)]
    log = log_of(scenario(*link, flows, BESIDE[-1][1]))
    for piece in BESIDE:
        yield throughput_mbps(log.left_within(*piece), *piece) / (link[0] / 2)


def best(scores):
    """Returns who is within the margin of the highest score."""
    return {name for name, score in scores.items() if score >= (1 - MARGIN) * max(scores.values())}


def nearest(shares):
    """Returns who is within the margin of the least distance to the fair share, as the benchmark has it."""
    least = min(abs(share - 1) for share in shares.values())
    return {name for name, share in shares.items() if (1 - least) * (1 - MARGIN) <= share <= (1 + least) * (1 + MARGIN)}


LEAGUES = {
    "single flow": (list(links((0.5, 1, 2, 4, 8, 16), FACTORS)), alone, best),
    "beside CUBIC": (list(links((1, 2, 4, 8, 16), {})), beside, nearest),
}


def play(entrants, games=None, seed=1):
    """Returns for each league the share of games, a link and a piece each, that every entrant won."""
    rates = {}
    for league, (every, run, winners) in LEAGUES.items():
        chosen = every if games is None else random.Random(seed).sample(every, min(games, len(every)))
        won, count = dict.fromkeys(entrants, 0), 0
        for link in chosen:
            for piece in zip(*(run(parse(entrant), link) for entrant in entrants), strict=True):
                count += 1
                for name in winners(dict(zip(entrants, piece, strict=True))):
                    won[name] += 1
        rates[league] = {name: won[name] / count for name in entrants}
    return rates


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("entrants", nargs="+", help="entrants: schemes, policies, runs (docs/entrants.md)")
    parser.add_argument("--games", type=int, help="links of each league (all)")
    parser.add_argument("--seed", type=int, default=1, help="which links are drawn (1)")
    given = parser.parse_args()
    for league, rates in play(given.entrants, given.games, given.seed).items():
        print(league)
        for name, rate in sorted(rates.items(), key=lambda each: -each[1]):
            print(f"  {rate:6.1%}  {name}")
