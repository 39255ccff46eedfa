"""Parser of every command: it reports errors in one line with the nearest name, and refuses options without effect."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn

from ccarena.errors import ConfigError, did_you_mean

__all__ = ["Parser", "Unused", "number", "parse", "refuse", "refuse_unused"]

_CHOICE = re.compile(r"(.*): invalid choice: '?([^']*?)'? \(choose from (.*)\)", re.DOTALL)
_NUMBER = re.compile(r"(.*): invalid (int|float) value: '(.*)'", re.DOTALL)
_WORD = re.compile(r"[^\s,']+")


class Parser(argparse.ArgumentParser):
    """A parser whose errors are ConfigErrors, and which takes options by their whole names alone."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **kwargs})
        # Gives `--link -5mbps` and `--rtt-ms -1,20` the same error as `--seeds -1`.
        self._negative_number_matcher = re.compile(r"-\.?\d")

    def error(self, message: str) -> NoReturn:
        """Raises ConfigError instead of printing the usage and leaving."""
        if match := _CHOICE.fullmatch(message):
            where, given, choices = match.groups()
            message = f'{where}: unknown "{given}"{did_you_mean(given, _WORD.findall(choices))}'
        elif match := _NUMBER.fullmatch(message):
            where, kind, given = match.groups()
            message = f'{where}: got "{given}"; expected a {"whole number" if kind == "int" else "number"}'
        raise ConfigError(f"{message} (`{self.prog} --help` shows what it takes)")


class Unused(NamedTuple):
    """Options that have no effect if another option is given, or is missing."""

    options: Sequence[str]
    """Names in the parsed arguments."""
    when: Callable[[argparse.Namespace], Any]
    """Function of the parsed arguments that returns whether the options have no effect."""
    because: str
    """Ends the sentence `--OPTION has no effect ...`."""


def number(text: str, where: str) -> float:
    """Returns a finite number, as int if it is whole. Raises ConfigError, which begins with `where`."""
    try:
        value = float(text)
    except ValueError:
        raise ConfigError(f'{where} is "{text}"; expected a number') from None
    if not math.isfinite(value):
        raise ConfigError(f'{where} is "{text}"; expected a finite number')
    return int(value) if value.is_integer() else value


def parse(make: Callable[[], Parser], words: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Returns the parsed arguments and the words that no option takes.

    The argument `given` maps the name of each given option to its spelling. `make` builds the parser anew: a second
    parse without defaults finds what was given.
    """
    args, rest = make().parse_known_args(words)
    bare = make()
    for parser in parsers(bare):
        for action in parser._actions:
            action.default = argparse.SUPPRESS
        parser._defaults.clear()
    spelling = {action.dest: _spelling(action) for parser in parsers(bare) for action in parser._actions}
    args.given = {name: spelling.get(name, name) for name in vars(bare.parse_known_args(words)[0])}
    return args, rest


def _spelling(action: argparse.Action) -> str:
    return action.option_strings[-1] if action.option_strings else str(action.metavar or action.dest)


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yields `parser` and the parsers of its commands, at every depth."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in dict.fromkeys(action.choices.values()):
                yield from parsers(each)


def unrecognised(parser: argparse.ArgumentParser, words: Sequence[str], rest: Sequence[str]) -> ConfigError:
    """Returns the error for `rest`, the words that no option of the chosen command takes."""
    chosen = parser
    for word in words:
        for action in chosen._actions:
            if isinstance(action, argparse._SubParsersAction) and word in action.choices:
                chosen = action.choices[word]
                break
    first = next((word for word in rest if word.startswith("-")), rest[0])
    name = first.partition("=")[0]
    known = [option for action in chosen._actions for option in action.option_strings]
    hint = did_you_mean(name, known) if name.startswith("-") else ""
    return ConfigError(f'{chosen.prog}: unexpected "{name}"{hint} (`{chosen.prog} --help` shows what it takes)')


def refuse_unused(args: argparse.Namespace, rules: Sequence[Unused]) -> None:
    """Raises ConfigError for the first given option that has no effect."""
    for rule in rules:
        if args.given.keys() & set(rule.options) and rule.when(args):
            refuse(args, rule.options, rule.because)


def refuse(args: argparse.Namespace, options: Sequence[str], because: str) -> None:
    """Raises ConfigError if one of `options` was given, saying that it has no effect `because`."""
    for name in options:
        if name in args.given:
            raise ConfigError(f"{args.given[name]} has no effect {because}; leave it out")
