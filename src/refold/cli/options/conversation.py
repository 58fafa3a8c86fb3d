"""The options of commands that look at a conversation, and the arguments of the library they become."""

import json
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from refold import formats
from refold.calls.target import parse_target
from refold.cli.exit_status import WrongUse
from refold.cli.input.conversations import read_conversation_of
from refold.cli.input.raw import parse_size, read_text_argument
from refold.cli.input.sources import Source
from refold.cli.options.common import FORMATS_HELP, POLICY_HELP, WHOLE_HELP, WINDOW_HELP, add_file
from refold.cli.options.knobs import make_policy, refuse_unknown_policy
from refold.cli.output.progress import LONG_BYTES, progress
from refold.cli.output.screen import Screen
from refold.config import settings as config
from refold.config.settings import Settings
from refold.core.tokens.usage import Usage, read_usage
from refold.errors import FormatError
from refold.policies import presets

NO_USAGE: Final = "none"
"""The value of --usage that counts everything, also where a transcript has the provider's own number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The inputs of a command: its arguments, the conversation and the settings."""

    args: Namespace
    source: Source
    settings: Settings

    @property
    def policies(self) -> list[str]:
        """The names of the policies, each once; `all` stands for the presets."""
        asked = self.args.policy
        names = asked if isinstance(asked, list) else [asked] if asked else []
        for name in names:
            if name != "none":  # a replay without compaction; the others refuse it when they make the policy
                refuse_unknown_policy(name, "--policy", takes_all=isinstance(asked, list))
        names = names or [self.settings.policy or "refold"]
        return list(
            dict.fromkeys(name for word in names for name in (presets.PRESETS if word == "all" else [word]))
        )

    @property
    def model(self) -> str | None:
        """The model: from the arguments, else from the file, else from the settings."""
        return self.args.model or self.source.document.model or self.settings.model

    def options(self, policy: str | None = None) -> dict[str, Any]:
        """Return the arguments of `measure`, under the first policy or under another."""
        args, document = self.args, self.source.document
        chosen = make_policy(policy or self.policies[0], args.knobs or (), self.settings)
        usage = self.find_usage()
        if isinstance(usage, Usage) and (beside := self.source.count_beside()):
            usage = replace(usage, beside=beside)
        elif isinstance(usage, Usage):
            # A session may lack the agent's prompt and tools: its report does not tell how text is counted.
            chosen = replace(chosen, learns=False)
        tools = _parse_json(args.tools, "--tools") if args.tools else document.tools
        if isinstance(tools, dict):  # a request body with its tools, or a single tool
            tools = tools["tools"] if isinstance(tools.get("tools"), list) else [tools]
        return dict(  # noqa: C408  # the names are those of parameters
            model=self.model,
            window=self.settings.window if args.window is None else parse_size(args.window, "--window"),
            system=read_text_argument(args.system, "--system") if args.system else document.system,
            tools=tools if isinstance(tools, list) else None,
            prompt=read_text_argument(args.prompt, "--prompt") if args.prompt else None,
            files=[
                {"content": read_text_argument(f"@{name}", "--attach"), "path": str(Path(name))}
                for name in args.attach or ()
            ],
            policy=config.apply_settings(chosen, self.settings),
            count=args.count,
            usage=usage,
            format=document.format,
        )

    def find_usage(self) -> Any:
        """Return the report to count from: the one that is given, else the last one of a transcript."""
        given = self.args.usage
        if not given or given.strip().lower() == NO_USAGE:
            return None if given else self.source.find_usage()
        wrong = "--usage holds no number: give tokens, the JSON of a provider's usage, or none"
        usage = _parse_json(given, "--usage", wrong)
        if read_usage(usage) is None:
            raise WrongUse(wrong)
        return usage

    def compact_options(self, policy: str | None = None) -> dict[str, Any]:
        """Return the arguments of `compact` and `plan`."""
        args, count = self.args, len(self.source.document.messages)
        first, pins = self.source.first_number, list[int]()
        for pin in args.pin or ():
            is_number = pin[0] == "#"
            index = int(pin.removeprefix("#")) - (first if is_number else 0)
            if not (max(0, 1 - first) if is_number else -count) <= index < count:
                numbers = f"from 0 to {count - 1:,}, or from #1 to #{count - 1 + first:,}"
                raise WrongUse(f"--pin {pin}: the {count:,} messages are counted {numbers}")
            pins.append(index)
        return {
            **self.options(policy),
            "force": args.force,
            "focus": read_text_argument(args.focus, "--focus") if args.focus else "",
            "target": _parse_target(args.target),
            "pins": pins,
            "must_fit": False,
        }

    @contextmanager
    def work(self, doing: str, screen: Screen) -> Iterator[None]:
        """Show progress if the conversation is long, and name the file in an error about a message."""
        with progress(screen, long=len(self.source.raw) > LONG_BYTES) as now:
            now.show(doing)
            with self.name_file():
                yield

    @contextmanager
    def name_file(self) -> Iterator[None]:
        """Add the name of the file to an error about the shape of a message."""
        try:
            yield
        except FormatError as error:
            raise FormatError(str(error), path=self.source.name) from None


def read_inputs(args: Namespace, screen: Screen) -> Inputs:
    """Read the settings and the conversation."""
    settings = config.load()
    if settings.policy is not None and not args.policy:
        refuse_unknown_policy(settings.policy, settings.describe_source("policy"))
    if args.format:
        formats.get(args.format)
    source = read_conversation_of(args, screen, whole=getattr(args, "whole", False))
    return Inputs(args=args, source=source, settings=settings)


def add_conversation(parser: ArgumentParser, *, compare: bool = False) -> None:
    """Add the options of a command that looks at a conversation."""
    add_file(parser)
    add = parser.add_argument_group("the conversation").add_argument
    add("--format", metavar="NAME", help=f"{FORMATS_HELP}; recognised where absent")
    add("--whole", action="store_true", help=WHOLE_HELP)
    add("--system", metavar="TEXT", help="the system prompt, or @FILE, if it is not in FILE")
    add("--tools", metavar="JSON", help="the tool definitions, or @FILE, if they are not in FILE")
    add("--prompt", metavar="TEXT", help="the next message of the user, or @FILE")
    add("--attach", metavar="PATH", action="append", help="a text file that is sent along; repeatable")
    text = "tokens the provider reported last, or its JSON; else a transcript's own; none for neither"
    add("--usage", metavar="N", help=text)
    add = parser.add_argument_group("the budget").add_argument
    add("--model", metavar="NAME", help="finds the window, the prices and the way to count")
    add("--window", metavar="SIZE", help=WINDOW_HELP)
    if compare:
        text = "a preset or a strategy; several, or all, are compared in a table"
        add("--policy", metavar="NAME", action="append", help=text)
    else:
        add("--policy", metavar="NAME", help=POLICY_HELP)
    text = "set a knob of the policy; repeatable"
    add("--set", metavar="KNOB=VALUE", dest="knobs", action="append", help=text)
    add("--count", metavar="exact", help="count exactly; needs the extra exact")


def add_compaction(parser: ArgumentParser) -> None:
    """Add the options of one compaction."""
    add = parser.add_argument_group("the compaction").add_argument
    add("--force", action="store_true", help="compact now, even if it is too early")
    add("--target", metavar="SIZE", help="the largest size of the context afterwards: 12k; or 10k-12k")
    add("--focus", metavar="TEXT", help="what the summary must cover, or @FILE")
    text = "keep this message: #12 as in the plan; or counted from 0, or from the end as in -1; repeatable"
    add("--pin", metavar="INDEX", type=_parse_place, action="append", help=text)


def _parse_place(text: str) -> str:
    try:
        int(text.removeprefix("#"))
    except ValueError:
        raise ArgumentTypeError(f"{text[:80]!r} is not a whole number") from None
    return text


def _parse_target(text: str | None) -> tuple[int, int] | int | None:
    try:
        named = parse_target(text)
    except FormatError as error:
        # The empty text before or behind a dash is no word of the person's.
        problem = str(error).removeprefix("target: ")
        raise WrongUse(f"--target: {problem.replace(repr(''), repr(text))}") from None
    return named.high if named.low is None or named.high is None else (named.low, named.high)


def _parse_json(text: str, option: str, wrong: str = "") -> Any:
    try:
        return json.loads(read_text_argument(text, option))
    except (ValueError, RecursionError) as error:
        raise WrongUse(wrong or f"{option} is not JSON: {error}") from None
