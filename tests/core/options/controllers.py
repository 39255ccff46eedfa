"""Options of commands for controllers and policies."""

from tests.core.options.case import Case, more

IMPORT = "policy import indigo weights.safetensors --out a"

EFFECTS: dict[str, dict[str, Case]] = {
    "new controller": {
        "name": Case("new controller mine", "new controller yours"),
        "--lang": more("new controller mine", "--lang rust"),
        "--into": more("new controller mine", "--into elsewhere"),
    },
    "build": {
        "path": Case("build first.c", "build second.c"),
        "--out": more("build first.c", "--out mine.wasm"),
    },
    "check": {
        "controller": Case("check first.py:Mine", "check second.py:Mine"),
    },
    "fit": {
        "runs": Case("fit nowhere", "fit measured", whole=True),
        "--out": more("fit measured", "--out fitted.yaml", whole=True),
        "--json": more("fit measured", "--json fit.json", whole=True),
    },
    "policy show": {
        "policy": Case("policy show absent", "policy show policy.safetensors"),
        "--json": more("policy show policy.safetensors", "--json"),
    },
    "policy rule": {
        "policy": Case("policy rule absent --out a", "policy rule ruled.safetensors --out a"),
        "--out": Case("policy rule ruled.safetensors --out a", "policy rule ruled.safetensors --out b"),
    },
    "policy import": {
        "controller": Case(IMPORT, "policy import orca weights.safetensors --out a"),
        "path": Case(IMPORT, "policy import indigo absent --out a"),
        "--out": Case(IMPORT, "policy import indigo weights.safetensors --out b"),
    },
    "export": {
        "policy": Case("export absent --to onnx", "export policy.safetensors --to onnx"),
        "--to": Case("export policy.safetensors --to onnx", "export policy.safetensors --to c"),
        "--out": more("export policy.safetensors --to onnx", "--out elsewhere"),
        "--name": more("export policy.safetensors --to onnx", "--name mine"),
        "--json": more("export policy.safetensors --to onnx", "--json"),
        "--decisions": more("export policy.safetensors --to c", "--decisions 7"),
        "--duration-s": more("export policy.safetensors --to c", "--duration-s 7"),
    },
    "certify": {
        "policy": Case("certify absent", "certify policy.safetensors --boxes 1 --form float", whole=True),
        "properties": Case("certify policy.safetensors --boxes 1", "certify policy.safetensors holds.yaml", whole=True),
        "--form": more("certify policy.safetensors holds.yaml --json", "--form float", whole=True),
        "--boxes": more("certify policy.safetensors --form float --json", "--boxes 1", whole=True),
        "--json": more("certify policy.safetensors holds.yaml", "--json", whole=True),
        "--guard": more("certify policy.safetensors holds.yaml", "--guard guarded.safetensors", whole=True),
    },
    "parity": {
        "policy": Case("parity absent", "parity policy.safetensors"),
        "--decisions": more("parity policy.safetensors", "--decisions 7"),
        "--seed": more("parity policy.safetensors", "--seed 7"),
        "--link-sets": more("parity policy.safetensors", "--link-sets"),
        "--duration-s": more("parity policy.safetensors", "--duration-s 7"),
        "--json": more("parity policy.safetensors --decisions 8 --link-sets", "--json out.json", whole=True),
    },
    "schemes": {
        "name": more("schemes", "cubic"),
        "--queues": more("schemes", "--queues"),
        "--json": more("schemes", "--json"),
    },
}
