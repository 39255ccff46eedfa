"""The `ccarena` command line: finds the command, runs it, and turns errors into one line and an exit code."""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from collections.abc import Sequence

from ccarena import __version__
from ccarena.commands.emulator import SHELLS, execute
from ccarena.core.arguments import Parser, parse, refuse_unused, unrecognised
from ccarena.core.outputs import redirected
from ccarena.core.terminal import command_line, encode_plainly, entered, interruption, remember, visible
from ccarena.errors import DISK, INTERRUPTED, CcarenaError, ConfigError, MissingDependencyError, did_you_mean
from ccarena.extras import how_to_add

COMMANDS = {
    # name: (module with add_parser(subparsers, **kwargs) and run(args) -> exit code or None, one line of help)
    "train": ("ccarena.commands.train", "train a policy, evaluate it and write the run's page"),
    "status": ("ccarena.commands.status", "show the progress of a training here, on an object store or on a cluster"),
    "tune": ("ccarena.commands.tune", "train configurations of a space, several seeds each, and compare them"),
    "tune-scheme": ("ccarena.commands.tune_scheme", "search a scheme's parameters on links, and compare the best"),
    "search": (
        "ccarena.commands.search",
        "search parameters, rules or programs on links, and judge the best on others",
    ),
    "attack": (
        "ccarena.commands.attack",
        "search the links on which an entrant does worst, and write them as scenarios",
    ),
    "data": (
        "ccarena.commands.data",
        "collect trajectories of schemes to learn from; show and export them, and evaluate a policy on them",
    ),
    "eval": ("ccarena.commands.eval", "evaluate a policy beside heuristics on links"),
    "play": ("ccarena.commands.play", "write the arena as a web page: compose, run and change scenarios in a browser"),
    "fidelity": ("ccarena.commands.fidelity", "compare the simulator with recorded kernel runs"),
    "compete": (
        "ccarena.commands.compete",
        "run schemes against each other on one bottleneck: shares and harm",
    ),
    "new": ("ccarena.commands.new", "start a controller of your own, in Python, C or Rust"),
    "build": ("ccarena.commands.build", "make the WebAssembly module of a controller in C or Rust"),
    "check": ("ccarena.commands.check", "try your own controller on hard links, and say what is wrong with it"),
    "leaderboard": ("ccarena.commands.leaderboard", "run, rank and show who is best on many links"),
    "assess": ("ccarena.commands.assess", "ask RFC 9743's questions about a congestion control: is it safe to deploy?"),
    "reproduce": ("ccarena.commands.reproduce", "run the papers' suites: figures, and tables of claims"),
    **{name: ("ccarena.commands.emulator", summary) for name, summary in SHELLS.items()},
    "kernel": (
        "ccarena.commands.kernel",
        "attach the congestion controls to this machine's Linux TCP, list and detach them",
    ),
    "quic": ("ccarena.commands.quic", "send and get data over QUIC under the congestion controls"),
    "remote": ("ccarena.commands.remote", "run a scenario's flows between two machines, over a real path"),
    "fit": ("ccarena.commands.fit", "make a scenario that models a measured path"),
    "policy": ("ccarena.commands.policy", "show a policy, write its best rule, or import a published controller"),
    "export": (
        "ccarena.commands.export",
        "write a policy as C, as an ONNX model, or for the kernel or QUIC, and say what it costs",
    ),
    "certify": ("ccarena.commands.certify", "prove or refute properties of a policy, and write its guard"),
    "parity": ("ccarena.commands.parity", "compare a policy's runtimes (Rust, NumPy, integers, C) with each other"),
    "schemes": ("ccarena.commands.schemes", "list congestion controls, or queue disciplines, with their parameters"),
    "stacks": ("ccarena.commands.stacks", "list and get programs of others: QUIC stacks, WebRTC, BitTorrent's uTP"),
    "traces": ("ccarena.commands.traces", "describe, plot, generate, convert and fetch capacity traces"),
    "completion": ("ccarena.commands.completion", "print what bash, zsh or fish need to complete this command line"),
    "doctor": ("ccarena.commands.doctor", "say what this machine can run, and how to get what is missing"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code (see [`ccarena.errors`])."""
    words = list(sys.argv[1:] if argv is None else argv)
    if "_ARGCOMPLETE" in os.environ:
        from ccarena.commands.completion import answer

        answer(build_parser, list(COMMANDS))
    debug = "--debug" in words
    if sys.stdout is None:  # as after `>&-`; the next file that is opened would take its number
        return _fail("standard output is closed; send it to a file or to /dev/null", 1, debug)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a notebook's is none
            stream.reconfigure(errors=encode_plainly())
    try:
        given = words[1:] if words[:1] == ["--debug"] else words
        if given and given[0] in SHELLS:  # it reads its own options, --debug too
            execute(given)
        code = _run([word for word in words if word != "--debug"])
        sys.stdout.flush()  # here, where a closed pipe can still be handled
        return code
    except BrokenPipeError:
        _discard_output()  # the reader (`| head`) has read enough
        return 0
    except KeyboardInterrupt as error:  # some commands give it a message of their own
        return _fail(str(error) or interruption(), INTERRUPTED, debug)
    except CcarenaError as error:
        return _fail(str(error), error.exit_code, debug)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else "standard output: " if _output_fails() else ""
        advice = "; free some space" if error.errno in DISK else ""
        return _fail(f"{where}{error.strerror or error}{advice}", 1, debug)
    except Exception as error:
        message, code = _unexpected(error)
        return _fail(message, code, debug)


def _run(words: list[str]) -> int:
    chosen = next((word for word in words if not word.startswith("-")), None)
    if chosen is not None and chosen not in COMMANDS:
        raise ConfigError(f'unknown command "{chosen}"{did_you_mean(chosen, COMMANDS)}')
    if not words:
        from ccarena.commands.welcome import welcome

        welcome()
        return 0
    if chosen is None:
        parser = build_parser(None)
        _, rest = parser.parse_known_args(words)
        if rest:
            raise unrecognised(parser, words, rest)
        parser.print_help()
        return 0
    entered(command_line(argparse.Namespace(words=words)))
    # The only one to import: torch and the like must not slow down the others.
    command = importlib.import_module(COMMANDS[chosen][0])
    args, rest = parse(lambda: build_parser(chosen), words)
    if hasattr(args, "overrides"):
        args.overrides = rest
    elif rest:
        raise unrecognised(build_parser(chosen), words, rest)
    args.words = words
    remember(command_line(args))
    with redirected(args):
        refuse_unused(args, getattr(command, "UNUSED", ()))
        return command.run(args) or 0


def build_parser(chosen: str | None) -> Parser:
    """Returns the parser of the whole command line; only the command `chosen` gets its options."""
    parser = Parser(
        prog="ccarena",
        description="An arena for congestion control.",
        epilog='--debug, anywhere, shows the traceback of an error. "-" as a file to write is standard output.',
    )
    parser.add_argument("-V", "--version", action="version", version=f"ccarena {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name, (module, summary) in COMMANDS.items():
        if name == chosen:
            importlib.import_module(module).add_parser(commands, help=summary, description=summary)
        else:
            commands.add_parser(name, help=summary)
    return parser


def _unexpected(error: Exception) -> tuple[str, int]:
    """Returns message and exit code for an exception of another library: an incomplete installation, else a bug."""
    if isinstance(error, ImportError) and _misses_extension(error):
        message = f"the native extension (ccarena._core) is not built: {how_to_add()}; if that fails, `ccarena doctor`"
        return message, MissingDependencyError.exit_code
    if isinstance(error, ModuleNotFoundError) and error.name and error.name.split(".")[0] != "ccarena":
        message = f'the Python package "{error.name}" is not installed here: {how_to_add()}'
        return message, MissingDependencyError.exit_code
    return f"internal error: {type(error).__name__}: {error}; this is a bug in ccarena (--debug shows where)", 1


def _misses_extension(error: ImportError) -> bool:
    """Returns True for the errors of `import ccarena._core` and `from ccarena import _core` without the extension."""
    if isinstance(error, ModuleNotFoundError):
        return error.name == "ccarena._core"
    return error.name == "ccarena" and str(error).startswith("cannot import name '_core' ")


def _output_fails() -> bool:
    """Returns whether standard output refuses what is written there, such as on a full disk."""
    try:
        print(flush=True)  # what failed before may be gone from the buffer
    except OSError:
        _discard_output()
        return True
    return False


def _discard_output() -> None:
    """Sends the rest of standard output nowhere: Python would complain once more when it closes it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str, code: int, debug: bool) -> int:
    if debug:
        import traceback

        traceback.print_exc()
    print(f"error: {visible(message)}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
