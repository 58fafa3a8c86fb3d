"""The options that several commands share, and what the library is to be told because of them."""

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refold import formats
from refold.cli.exit_status import WrongUse
from refold.cli.input.sources import FILE, SHAPES, WHOLE, Source, read, text_of
from refold.cli.options import knobs
from refold.cli.output.screen import Screen
from refold.config import settings as config
from refold.config.settings import Settings
from refold.core.tokens.units import parse_tokens
from refold.core.tokens.usage import read_usage
from refold.errors import FormatError
from refold.policies import presets


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What a command was given: its arguments, the conversation, and what is set for every call."""

    args: Namespace
    source: Source
    settings: Settings

    @property
    def policies(self) -> Sequence[str]:
        """The names of the policies; one, unless somebody wants to compare."""
        asked = self.args.policy
        names = asked if isinstance(asked, list) else [asked] if asked else []
        return names or [self.settings.policy or "refold"]

    @property
    def compared(self) -> list[str]:
        """The names of the policies, each once; `all` stands for the presets."""
        named = [name for one in self.policies for name in (presets.PRESETS if one == "all" else [one])]
        return list(dict.fromkeys(named))

    @property
    def model(self) -> str | None:
        """The model: as the arguments say, else as the file says, else as it is set."""
        return self.args.model or self.source.document.model or self.settings.model

    def options(self, policy: str | None = None) -> dict[str, Any]:
        """Return the arguments of `measure`, under the first policy or under another."""
        args, document = self.args, self.source.document
        chosen = knobs.policy(policy or self.policies[0], args.knobs or ())
        window = _size(args.window, "--window") if args.window else self.settings.window
        return dict(  # noqa: C408  # the names are those of parameters
            model=self.model,
            window=window,
            system=text_of(args.system, "--system") if args.system else document.system,
            tools=_tools(args.tools, document.tools),
            prompt=text_of(args.prompt, "--prompt") if args.prompt else None,
            files=[_attachment(name) for name in args.attach or ()],
            policy=config.tuned(chosen, self.settings),
            count=args.count,
            usage=_usage(args.usage) if args.usage else None,
            format=document.format,
        )

    def compact_options(self, policy: str | None = None) -> dict[str, Any]:
        """Return the arguments of `compact` and `plan`."""
        args = self.args
        return {
            **self.options(policy),
            "force": args.force,
            "focus": text_of(args.focus, "--focus") if args.focus else "",
            "target": _size(args.target, "--target") if args.target else None,
            "pins": _pins(args.pin or (), len(self.source.document.messages)),
            "must_fit": False,
        }


def given(args: Namespace, screen: Screen) -> Given:
    """Read what is set and the conversation."""
    settings = config.load()
    if settings.policy is not None and not args.policy:
        knobs.refuse_unknown(settings.policy, settings.sources["policy"])
    if args.format:
        formats.get(args.format)
    source = read(args.file, screen, format=args.format, whole=getattr(args, "whole", False))
    return Given(args=args, source=source, settings=settings)


@contextmanager
def named(given: Given) -> Iterator[None]:
    """Say in which file a message is that has not the shape it should have."""
    try:
        yield
    except FormatError as error:
        raise FormatError(str(error), path=given.source.name) from None


def headline(given: Given, facts: Sequence[str], screen: Screen) -> str:
    """What is looked at, in a line; a long path gives way to the file's own name."""
    told = " · ".join(facts)
    room = max(20, screen.width - len(told) - 2)
    name = given.source.name
    name = Path(name).name if len(name) > room else name
    return f"{screen.paint(screen.short(name, room), 'bold')}  {told}"


def conversation(parser: ArgumentParser, *, compare: bool = False) -> None:
    """Add what every command takes that looks at a conversation."""
    add = parser.add_argument
    add("file", metavar="FILE", help=FILE)
    add = parser.add_argument_group("the conversation").add_argument
    add("--format", metavar="NAME", help=f"{SHAPES}; recognised where absent")
    add("--whole", action="store_true", help=WHOLE)
    add("--system", metavar="TEXT", help="the system prompt, or @FILE, if it is not in FILE")
    add("--tools", metavar="JSON", help="the tool definitions, or @FILE, if they are not in FILE")
    add("--prompt", metavar="TEXT", help="what will be said next, or @FILE")
    add("--attach", metavar="PATH", action="append", help="a text file that is sent along; repeatable")
    add("--usage", metavar="N", help="tokens the provider reported for the last request, or its JSON")
    add = parser.add_argument_group("the budget").add_argument
    add("--model", metavar="NAME", help="finds the window, the prices and the way to count")
    add("--window", metavar="SIZE", help="the window, where you know better: 32000, 128k, 1m")
    if compare:
        told = "a preset or a strategy; several, or all, are compared in a table"
        add("--policy", metavar="NAME", action="append", help=told)
    else:
        add("--policy", metavar="NAME", help="a preset or a strategy; refold by default")
    told = "turn a knob of the policy; repeatable"
    add("--set", metavar="KNOB=VALUE", dest="knobs", action="append", help=told)
    add("--count", metavar="exact", help="count exactly; needs the extra refold[exact]")


def wishes(parser: ArgumentParser) -> None:
    """Add what a compaction takes besides."""
    add = parser.add_argument_group("the compaction").add_argument
    add("--force", action="store_true", help="compact now, whether or not it is time to")
    add("--target", metavar="SIZE", help="how large the context may be afterwards: 12000, 12k")
    add("--focus", metavar="TEXT", help="what a summary is to look at, or @FILE")
    told = "a message that stays, counted from 0, or from the end as in -1; repeatable"
    add("--pin", metavar="INDEX", type=int, action="append", help=told)


def _size(text: str, option: str) -> int:
    try:
        return parse_tokens(text)
    except FormatError as error:
        raise WrongUse(f"{option}: {error}") from None


def _pins(pins: Sequence[int], count: int) -> Sequence[int]:
    for pin in pins:
        if not -count <= pin < count:
            raise WrongUse(f"--pin {pin}: the {count:,} messages are counted from 0 to {count - 1:,}")
    return pins


def _json(text: str, option: str) -> Any:
    try:
        return json.loads(text_of(text, option))
    except (ValueError, RecursionError) as error:
        raise WrongUse(f"{option} is not JSON: {error}") from None


def _tools(argument: str | None, found: Any) -> Sequence[Any] | None:
    value = _json(argument, "--tools") if argument else found
    value = value["tools"] if isinstance(value, dict) and isinstance(value.get("tools"), list) else value
    return [value] if isinstance(value, dict) else value if isinstance(value, list) else None


def _attachment(name: str) -> dict[str, str]:
    return {"content": text_of(f"@{name}", "--attach"), "path": str(Path(name))}


def _usage(text: str) -> Any:
    value = _json(text, "--usage")
    if read_usage(value) is None:
        raise WrongUse("--usage says nothing: give a number of tokens, or the JSON of a provider's usage")
    return value
