"""`python -m tests.locks --write [SECTION...]`: measures what is locked, all of it or some sections, and writes it."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from tests.locks import measured

LOCKS = Path(__file__).with_name("locks.json")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.locks", description="Write tests/locks/locks.json.")
    parser.add_argument("--write", nargs="*", choices=measured.SECTIONS, required=True, metavar="SECTION", help="(all)")
    chosen = parser.parse_args().write or list(measured.SECTIONS)
    locked = json.loads(LOCKS.read_text("utf-8")) if LOCKS.exists() else {}
    for section in chosen:
        locked[section] = dict(sorted(measured.SECTIONS[section]().items()))
        print(f"{section}: {len(locked[section])} values")
    if "tensors" in chosen:
        locked["machine"] = measured.machine()
    LOCKS.write_text(json.dumps(locked, indent=1, ensure_ascii=False, sort_keys=True) + "\n", "utf-8")


if __name__ == "__main__":
    main()
