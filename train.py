"""`python train.py ...` is `ccarena train ...`, without the need to have `ccarena` on PATH."""

import sys

from ccarena_command import main

if __name__ == "__main__":
    sys.exit(main(["train", *sys.argv[1:]]))
