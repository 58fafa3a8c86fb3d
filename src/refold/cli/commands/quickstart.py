"""`refold quickstart`, and `refold` alone: what is on this machine, and the three commands to begin with."""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from typing import Final

from refold.cli.exit_status import DONE
from refold.cli.input.stores import store_address, store_exists
from refold.cli.options.common import add_store
from refold.cli.output.log_lines import format_age
from refold.cli.output.screen import Screen
from refold.core.tokens.units import format_count
from refold.errors import RefoldError
from refold.transcripts.agents import AGENTS
from refold.transcripts.session_files import list_session_files

EXAMPLES: Final = """\
  refold
  refold quickstart --json | jq -r '.commands[].command'
"""
SHOWN: Final = 3
"""Commands that are shown: more is a list to read, and `refold --help` has it."""
_MODELS: Final[Mapping[str, str]] = {
    "ANTHROPIC_API_KEY": "anthropic:claude-sonnet-4-6",
    "OPENAI_API_KEY": "openai:gpt-4.1-mini",
    "GEMINI_API_KEY": "gemini:gemini-2.5-flash",
    "GOOGLE_API_KEY": "gemini:gemini-2.5-flash",
}
"""A model for each key that may be set; it only has to exist, `--model` takes any other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """An agent whose transcripts are on this machine."""

    name: str
    sessions: int
    changed: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What is on this machine that the program can work with."""

    agents: tuple[Agent, ...]
    """The agent that was used last is the first."""
    store: str
    sessions: int
    last: str | None
    """The session of the store that was changed last."""
    model: str | None
    """A model to talk to: the one that is set, the one of a key, or the one on this machine."""
    key: str | None
    """The variable that has a key, if that is where the model comes from."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_store(parser)


def run(args: Namespace, screen: Screen) -> int:
    """Look around and show what to do first."""
    found = look_around(args, Path.home(), os.environ)
    commands = list(suggest_commands(found, getattr(args, "store", None)))[:SHOWN]
    if args.json:
        rows = [{"command": command, "about": about} for command, about in commands]
        screen.json({"found": asdict(found), "commands": rows})
        return DONE
    screen.line("Refold keeps long conversations with language models inside the context window.")
    screen.line()
    screen.line(screen.paint("Found here", "bold"))
    for line in _describe(found):
        screen.line(f"  {line}")
    screen.line()
    screen.line(screen.paint("Try", "bold"))
    for command, about in commands:
        screen.line(f"  {screen.paint(command, 'cyan')}")
        screen.line(f"      {about}")
    screen.line()
    screen.line("`refold --help` lists every command, `refold COMMAND --help` its options.")
    return DONE


def look_around(args: Namespace, home: Path, variables: Mapping[str, str]) -> Found:
    """Return what is on this machine; opens no transcript, and makes no store."""
    agents = (agent for name in AGENTS if (agent := _find_agent(name, home, variables)) is not None)
    address, sessions, last = _find_sessions(args)
    model, key = _find_model(variables)
    return Found(
        agents=tuple(sorted(agents, key=lambda agent: -agent.changed)),
        store=address,
        sessions=sessions,
        last=last,
        model=model,
        key=key,
    )


def _find_agent(name: str, home: Path, variables: Mapping[str, str]) -> Agent | None:
    """Return an agent with the number of its sessions; a database of many sessions counts as they are."""
    files = list(list_session_files(name, home, variables))
    if not files:
        return None
    count = len(files)
    if any(not file.session for file in files):
        from refold.transcripts import find

        count = sum(1 for _ in find(name, home, variables))
    return Agent(name=name, sessions=count, changed=max(file.changed_ns for file in files) / 1e9)


def _find_sessions(args: Namespace) -> tuple[str, int, str | None]:
    """Return the store's address, the number of its sessions, and the one that was changed last."""
    from contextlib import closing

    from refold.stores import open_store

    address = store_address(args)
    if address.startswith("memory:") or not store_exists(address):
        return address, 0, None
    try:
        with closing(open_store(address)) as store:
            infos = store.sessions()
            return store.address, len(infos), infos[0].name if infos else None
    except RefoldError:  # a store that cannot be reached is no reason to say nothing
        return address, 0, None


def _find_model(variables: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Return a model that answers here, and the variable that has its key."""
    from refold.cli.commands.chat import find_address
    from refold.config import settings

    has_client = find_spec("httpx2") is not None
    chosen = settings.load().model
    if chosen is not None:
        return chosen, None
    for key, model in _MODELS.items() if has_client else ():
        if variables.get(key):
            return model, key
    try:
        return find_address(None, variables), None
    except RefoldError:
        return None, None


def suggest_commands(found: Found, store: str | None) -> Iterator[tuple[str, str]]:
    """Yield commands with what they show, the most useful first."""
    agent = found.agents[0].name if found.agents else ""
    option = f" --store {quote(store)}" if store else ""
    model = f" --model {quote(found.model)}" if found.model and found.key else ""
    last = quote(found.last) if found.last is not None else ""
    if agent:
        yield f"refold measure {agent}:latest", f"how full the window of your last session of {agent} is"
    if last and found.model:
        yield f"refold chat --session {last}{model}{option}", "go on in the session that was changed last"
    elif last:
        yield f"refold show {last} --brief{option}", "what the model sees of your last session"
    elif found.model:
        yield f"refold chat --model {quote(found.model)}", "talk; a meter shows how full the context is"
    if agent:
        yield f"refold replay {agent}:latest --window 200k --policy all", "the session under every policy"
    if last:
        yield f"refold recall {last} 'WORDS'{option}", "find what was said there, folded or not"
    yield "refold demo", "an agent's task in a small window: folds, recall, undo; needs no model"
    yield "refold measure FILE --model gpt-4o", "how full the window of a list of messages is"
    yield "refold plan FILE --window 32k", "what a compaction would remove, and what that costs"


def _describe(found: Found) -> Iterator[str]:
    """Yield a line for each thing that was found."""
    for agent in found.agents:
        age = format_age(agent.changed)
        yield f"{agent.name}: {format_count(agent.sessions, 'session')}, the last one {age}"
    if found.sessions:
        yield f"store {found.store}: {format_count(found.sessions, 'session')}, the last one {found.last}"
    if found.model is not None:
        yield f"a model to talk to: {found.model}" + (f", because {found.key} is set" if found.key else "")
    if not found.agents:
        yield f"no transcripts of {', '.join(AGENTS)}"
    if not found.sessions:
        yield "no sessions in the store yet"
    if found.model is None:
        yield "no model to talk to: no key is set, and none is installed on this machine"
