"""Options of commands for training, datasets and searches."""

from tests.core.options.case import Case, more

COLLECTED = "data collect --schemes reno"
EVALUATED = "data evaluate set policy.safetensors --config aurora"
TUNED = "tune-scheme copa --space ranges.yaml"
SEARCHED = "search copa@delta=0.1:1"

EFFECTS: dict[str, dict[str, Case]] = {
    "train": {
        "--help": Case("train --print-config", "train --help"),
        "--config": more("train --print-config", "--config hyvar"),
        "--leave-out": more("train --print-config", "--leave-out att"),
        "--resume": Case("train --print-config", "train --print-config --resume"),
        "--until": more("train", "--until 7"),
        "--ray-address": more("train --print-config --executor ray", "--ray-address head:6379"),
        "--print-config": Case("train --resume", "train --resume --out run --print-config"),
    },
    "status": {
        "run": more("status", "run"),
        "--ray-address": more("status run", "--ray-address http://127.0.0.1:1"),
        "--lines": more("status job --ray-address http://127.0.0.1:1", "--lines 1"),
        "--json": more("status run", "--json", whole=True),
    },
    "tune": {
        "--config": more("tune --space space.yaml", "--config hyvar"),
        "--space": more("tune", "--space space.yaml"),
        "--samples": more("tune --space space.yaml", "--samples 2"),
        "--seeds": more("tune --space space.yaml", "--seeds 2"),
        "--search": more("tune --space space.yaml", "--search optuna"),
        "--scheduler": more("tune --space space.yaml", "--scheduler none"),
        "--validations": more("tune --space space.yaml", "--validations 2"),
        "--out": more("tune --space space.yaml", "--out elsewhere"),
        "--resume": more("tune --out elsewhere", "--resume"),
        "--ray-address": more("tune --space space.yaml", "--ray-address head:6379"),
    },
    "data collect": {
        "--config": more(COLLECTED, "--config aurora"),
        "--schemes": more("data collect", "--schemes reno"),
        "--links": more(COLLECTED, "--links 7"),
        "--seed": more(COLLECTED, "--seed 7"),
        "--out": more(COLLECTED, "--out elsewhere"),
        "--threads": more(COLLECTED, "--threads 1"),
    },
    "data show": {
        "data": Case("data show absent", "data show set"),
        "--json": more("data show set", "--json", whole=True),
    },
    "data evaluate": {
        "data": Case(
            "data evaluate absent policy.safetensors --config aurora",
            "data evaluate set policy.safetensors --config aurora",
        ),
        "policy": Case(
            "data evaluate set absent --config aurora", "data evaluate set policy.safetensors --config aurora"
        ),
        "--config": more("data evaluate set policy.safetensors", "--config aurora"),
        "--gamma": more(EVALUATED, "--gamma 0.5"),
        "--updates": more(EVALUATED, "--updates 7"),
        "--threads": more(EVALUATED, "--threads 1"),
    },
    "data export": {
        "data": Case(
            "data export absent --config aurora --name a/b-v0", "data export set --config aurora --name a/b-v0"
        ),
        "--name": more("data export set --config aurora", "--name a/b-v0"),
        "--config": more("data export set --name a/b-v0", "--config aurora"),
    },
    "tune-scheme": {
        "scheme": Case(TUNED, "tune-scheme ledbat --space ranges.yaml"),
        "--space": more("tune-scheme copa", "--space ranges.yaml"),
        "--distribution": more(TUNED, "--distribution aurora"),
        "--objective": more(TUNED, "--objective known_power"),
        "--candidates": more(TUNED, "--candidates 7"),
        "--links": more(TUNED, "--links 7"),
        "--test-links": more(TUNED, "--test-links 7"),
        "--seed": more(TUNED, "--seed 7"),
        "--threads": more(TUNED, "--threads 1"),
        "--out": more(TUNED, "--out elsewhere"),
        "--resume": more("tune-scheme --out elsewhere", "--resume"),
    },
    "search": {
        "template": Case(SEARCHED, "search copa@delta=0.2:1"),
        "--space": Case(SEARCHED, "search copa --space ranges.yaml"),
        "--generator": Case(SEARCHED, "search copa --generator true"),
        "--link": more(SEARCHED, "--link 12mbps"),
        "--beside": more(SEARCHED, "--beside cubic"),
        "--weights": more(SEARCHED, "--weights power=1"),
        "--candidates": more(SEARCHED, "--candidates 77"),
        "--population": more(SEARCHED, "--population 7"),
        "--rungs": more(SEARCHED, "--rungs 2"),
        "--seeds": more(SEARCHED, "--seeds 2"),
        "--duration-s": more(SEARCHED, "--duration-s 7"),
        "--test-link": more(SEARCHED, "--test-link 12mbps"),
        "--test-seeds": more(SEARCHED, "--test-seeds 2"),
        "--seed": more(SEARCHED, "--seed 7"),
        "--repeat": more(SEARCHED, "--repeat 2"),
        "--silence-s": more(SEARCHED, "--silence-s 7"),
        "--limit-s": more(SEARCHED, "--limit-s 7"),
        "--memory-mb": more(SEARCHED, "--memory-mb 777"),
        "--workers": more(SEARCHED, "--workers 1"),
        "--out": more(SEARCHED, "--out elsewhere"),
        "--resume": more("search --out elsewhere", "--resume"),
    },
}
