"""Planted rules and facts: said once, then folded again and again with new talk between.

A rule is left where one line of the view has every word of its probe. `data/constraints.json` has three sets
of rules: `develop` may be looked at while the ledger is improved, of `held_out` only the kinds of what was
lost, and `fresh`, written by somebody who had not read the ledger, never.
"""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final

from refold.core.messages.speakers import observed
from refold.evals.layouts import Dataset
from refold.evals.reuse import shown
from refold.evals.tallies import Tally, row
from refold.evals.ways import Contest, Trial, Way, Wire, tokens

BUDGET: Final = 2_500
"""Tokens of a view after each fold: small, so that ten folds press on what is kept."""
GROUP: Final = 5
"""Things that are planted into one history."""
TALK_TOKENS: Final = 4_000
"""New talk between two folds, about."""
SETS: Final = ("develop", "held_out", "fresh")
"""The sets of rules, from the one that was looked at to the one that never was."""
_OPENING: Final = "Hello, let us work through today's list."

_HOSTS: Final = ("kestrel", "bramble", "osprey", "larch", "tundra", "saffron", "juniper", "marlin")
_PEOPLE: Final = ("Ines Duarte", "Tomasz Wilk", "Amara Obi", "Yuki Arai", "Lena Brandt", "Omar Haddad")
_FACTS: Final[Sequence[tuple[str, str]]] = (
    ("My booking code is {code}.", "{code}"),
    ("The staging host is {host}-{small}.internal, port {port}.", "{host}-{small}.internal|{port}"),
    ("We agreed on a budget of {amount} euros for the offsite.", "{amount}|offsite"),
    ("{person} from the vendor is our contact, her extension is {small}{small}.", "{person}|{small}{small}"),
    ("The outage began at 0{digit}:{small} because the disk of {host} was full.", "0{digit}:{small}|{host}"),
    ("Ticket OPS-{port} tracks the broken import.", "OPS-{port}|import"),
)


@dataclass(frozen=True, slots=True)
class Planted:
    """What is said, and the words by which one knows it again."""

    text: str
    probe: tuple[str, ...]

    def stands_in(self, view: str) -> bool:
        """Whether one line of a view has it all."""
        words = [word.lower() for word in self.probe]
        return any(all(word in line for word in words) for line in view.lower().split("\n"))


def rules(name: str) -> list[Planted]:
    """One of the sets of rules, by its name in `SETS`."""
    text = resources.files("refold.evals").joinpath("data/constraints.json").read_text(encoding="utf-8")
    return [Planted(one["rule"], _probe(one["probe"])) for one in json.loads(text)[name]]


def _probe(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def facts(count: int, seed: int) -> list[Planted]:
    """Facts with made-up names and numbers, the same for the same seed."""
    chance = random.Random(seed)  # noqa: S311  # the same facts for everybody
    made = []
    for number in range(count):
        values = {
            "code": "".join(chance.choices("ABCDEFGHKLMNPRSTUVWXYZ23456789", k=6)),
            "host": chance.choice(_HOSTS),
            "person": chance.choice(_PEOPLE),
            "small": chance.randint(11, 59),
            "digit": chance.randint(1, 9),
            "port": chance.randint(1_000, 9_999),
            "amount": f"{chance.randint(2, 19)},{chance.randint(100, 999)}",
        }
        text, probe = _FACTS[number % len(_FACTS)]
        made.append(Planted(text.format(**values), tuple(probe.format(**values).split("|"))))
    return made


def pool_of(found: Dataset, seed: int, size: int = TALK_TOKENS) -> list[Wire]:
    """Talk to fold between, in pieces of a size: the data's own where it has any, else made up."""
    talks = [plain(talk.messages) for talk in (*found.talks, *found.longmemeval[:4])]
    talks += [plain(run.messages) for run in found.runs[:20]] if not talks else []
    pieces = [piece for talk in talks for piece in _pieces(talk, size)]
    return pieces or _made_up(seed)


def _pieces(talk: Wire, most: int) -> list[Wire]:
    """A long talk in pieces, so that no fold meets a history of another size than the others."""
    pieces: list[Wire] = [[]]
    size = 0
    for message in talk:
        weight = tokens([message])
        if size + weight > most and pieces[-1]:
            pieces.append([])
            size = 0
        pieces[-1].append(message)
        size += weight
    return [piece for piece in pieces if len(piece) > 1]


def plain(talk: Wire) -> Wire:
    """A talk in which nobody calls tools by wire: what tools said is told by the assistant."""
    return [
        {"role": "user" if one["role"] == "user" else "assistant", "content": one["content"]}
        for one in talk
        if one["role"] != "system" and isinstance(one.get("content"), str) and one["content"].strip()
    ]


def _made_up(seed: int) -> list[Wire]:
    """Talk about stock and deliveries that means nothing, the same for the same seed."""
    chance = random.Random(seed)  # noqa: S311  # the same talk for everybody
    goods = ("bolts", "paint", "cable", "gravel", "timber", "tiles", "hoses", "gloves", "filters", "pumps")
    return [
        [
            {
                "role": "user" if at % 2 == 0 else "assistant",
                "content": f"Is there enough {chance.choice(goods)} for the {chance.choice(goods)} delivery?"
                if at % 2 == 0
                else " ".join(
                    f"The shelf with {chance.choice(goods)} has {chance.randint(2, 900)} pieces, and the "
                    f"lorry for {chance.choice(goods)} comes on day {chance.randint(1, 28)}."
                    for _ in range(6)
                ),
            }
            for at in range(20)
        ]
        for _ in range(40)
    ]


def measured(
    name: str, planted: Sequence[Planted], pool: Sequence[Wire], contest: Contest, rounds: Sequence[int]
) -> Iterator[dict[str, Any]]:
    """The decay curve of each way."""
    contest.begin()
    groups = [planted[at : at + GROUP] for at in range(0, len(planted), GROUP)]
    tallies = {(fold, way.name): Tally() for fold in rounds for way in contest.ways}
    for way in contest.ways:
        for number, group in enumerate(groups):
            contest.told(f"{name}, {way.name}", number, len(groups))

            def look(fold: int, seen: Seen, *, way: str = way.name, group: Sequence[Planted] = group) -> None:
                if (tally := tallies.get((fold, way))) is not None:
                    count(group, seen, tally)

            first, at = next_talk(pool, number * 7)
            history = said_in(first, [one.text for one in group])
            folded(Rounds(way, contest, pool, max(rounds)), history, at, look)
    for (fold, way_name), tally in tallies.items():
        yield row(f"{name}, {after(fold)}", way_name, tally, folds=fold)


def after(fold: int) -> str:
    """So many folds, in words."""
    return f"{fold} fold{'s' * (fold > 1)}"


@dataclass(frozen=True, slots=True)
class Rounds:
    """How a history is folded again and again."""

    way: Way
    contest: Contest
    pool: Sequence[Wire]
    count: int


@dataclass(frozen=True, slots=True)
class Seen:
    """What became of a history in one fold, the tokens that it had and those that were allowed."""

    trial: Trial
    of: int
    budget: int


def count(group: Sequence[Planted], seen: Seen, tally: Tally) -> None:
    """Count what is left of a group in a view."""
    tally.tried(seen.trial.asks, seen.trial.why)
    if (view := seen.trial.view) is not None:
        text = shown(view)
        left = sum(one.stands_in(text) for one in group)
        tally.add(left, len(group), tokens=tokens(view), of=seen.of)
        tally.spent(tokens(view), seen.budget)


def folded(rounds: Rounds, first: Wire, at: int, look: Callable[[int, Seen], None]) -> None:
    """Fold the first talk, go on with new talk, fold again; `look` sees each fold, failed ones too."""
    history: Wire = opened(first)
    trial = Trial(history)
    for fold in range(1, rounds.count + 1):
        if trial.view is not None:  # whoever failed once has nothing to go on with
            trial = rounds.contest.trial(rounds.way, history, BUDGET)
        look(fold, Seen(trial, tokens(history), BUDGET))
        talk, at = next_talk(rounds.pool, at)
        history = [*(trial.view or ()), *talk]


def opened(talk: Wire) -> Wire:
    """The talk behind a first request, as every history has one."""
    return [{"role": "user", "content": _OPENING}, *talk]


def next_talk(pool: Sequence[Wire], at: int, size: int = TALK_TOKENS) -> tuple[Wire, int]:
    """About so many tokens of talk, and where the next begins."""
    talk: Wire = []
    while tokens(talk) < size:
        talk += pool[at % len(pool)]
        at += 1
    return talk, at


def said_in(talk: Wire, said: Sequence[str]) -> Wire:
    """The talk with each thing said in a place of its own: alone, with a lead, or behind other words."""
    talk = [dict(one) for one in talk]
    for number, text in enumerate(said):
        at = 3 + number * len(talk) // (len(said) + 1)
        behind = next((place for place in range(at, len(talk)) if _speaks(talk[place])), None)
        if number % 3 == 2 and behind is not None:
            talk[behind]["content"] += f"\n{text}"
        else:
            talk.insert(at, {"role": "user", "content": text if number % 3 else f"By the way. {text}"})
    return talk


def _speaks(message: dict[str, Any]) -> bool:
    """Whether a person speaks: behind what a command printed nobody says anything."""
    return message["role"] == "user" and not observed(message["content"])
