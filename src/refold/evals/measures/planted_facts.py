"""Planted rules and facts: said once, then folded again and again with new talk in between.

A rule is kept if one line of the view has every word of its probe. `data/constraints.json` has three sets of
rules. `develop` may be read while the ledger is improved. Of `held_out`, only the kinds of lost rules may be
read. `fresh` was written by somebody who had not read the ledger, and its losses are never read.
"""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final

from refold.core.messages.speakers import is_program_text
from refold.errors import RefoldError
from refold.evals.datasets import Dataset
from refold.evals.methods import Comparison, Method, Trial, Wire, count_tokens
from refold.evals.tables import Tally, make_row
from refold.replay.reused_names import join_texts

BUDGET: Final = 2_500
"""Tokens of a view after each fold: few, so that ten folds put pressure on what is kept."""
GROUP: Final = 5
"""Facts planted in one history."""
TALK_TOKENS: Final = 4_000
"""Approximate tokens of new talk between two folds."""
SETS: Final = ("develop", "held_out", "fresh")
"""The sets of rules, from the one that may be read to the one that never is."""
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
class PlantedFact:
    """A statement, and the words that identify it."""

    text: str
    probe: tuple[str, ...]

    def stands_in(self, view: str) -> bool:
        """True if one line of a view has every word."""
        words = [word.lower() for word in self.probe]
        return any(all(word in line for word in words) for line in view.lower().split("\n"))


def read_rules(name: str) -> list[PlantedFact]:
    """Read one of the `SETS`."""
    text = resources.files("refold.evals").joinpath("data/constraints.json").read_text(encoding="utf-8")
    rules = ((rule["rule"], rule["probe"]) for rule in json.loads(text)[name])
    return [PlantedFact(rule, (probe,) if isinstance(probe, str) else tuple(probe)) for rule, probe in rules]


def make_facts(count: int, seed: int) -> list[PlantedFact]:
    """Make facts with invented names and numbers, the same for the same seed."""
    chance = random.Random(seed)  # noqa: S311  # the same facts for everybody
    facts = []
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
        facts.append(PlantedFact(text.format(**values), tuple(probe.format(**values).split("|"))))
    return facts


def collect_talks(dataset: Dataset, seed: int, size: int = TALK_TOKENS) -> list[Wire]:
    """Collect talk in pieces of one size: from the data if it has any, else invented."""
    talks = [to_plain_talk(talk.messages) for talk in (*dataset.talks, *dataset.longmemeval[:4])]
    talks += [to_plain_talk(run.messages) for run in dataset.runs[:20]] if not talks else []
    pieces = [piece for talk in talks for piece in _split_talk(talk, size)]
    return pieces or _make_talks(seed)


def _split_talk(talk: Wire, most: int) -> list[Wire]:
    """Split a long talk, so that all folds meet histories of about one size."""
    pieces: list[Wire] = [[]]
    size = 0
    for message in talk:
        weight = count_tokens([message])
        if size + weight > most and pieces[-1]:
            pieces.append([])
            size = 0
        pieces[-1].append(message)
        size += weight
    return [piece for piece in pieces if len(piece) > 1]


def to_plain_talk(talk: Wire) -> Wire:
    """Return a talk without tool calls: the assistant says what tools printed."""
    return [
        {"role": "user" if message["role"] == "user" else "assistant", "content": message["content"]}
        for message in talk
        if message["role"] != "system"
        and isinstance(message.get("content"), str)
        and message["content"].strip()
    ]


def _make_talks(seed: int) -> list[Wire]:
    """Make meaningless talk about stock and deliveries, the same for the same seed."""
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


def measure_planted(
    name: str,
    planted: Sequence[PlantedFact],
    pool: Sequence[Wire],
    comparison: Comparison,
    rounds: Sequence[int],
) -> Iterator[dict[str, Any]]:
    """Yield how much each method keeps after each number of folds."""
    comparison.begin()
    groups = [planted[at : at + GROUP] for at in range(0, len(planted), GROUP)]
    tallies = {(fold, method.name): Tally() for fold in rounds for method in comparison.methods}
    for method in comparison.methods:
        for number, group in enumerate(groups):
            comparison.progress(f"{name}, {method.name}", number, len(groups))

            def look(
                fold: int,
                seen: FoldedView,
                *,
                method: str = method.name,
                group: Sequence[PlantedFact] = group,
            ) -> None:
                if (tally := tallies.get((fold, method))) is not None:
                    count_kept(group, seen, tally)

            first, at = next_talk(pool, number * 7)
            history = insert_statements(first, [fact.text for fact in group])
            fold_rounds(Rounds(method, comparison, pool, max(rounds)), history, at, look)
    for (fold, method_name), tally in tallies.items():
        yield make_row(f"{name}, {format_fold_count(fold)}", method_name, tally, folds=fold)


def parse_folds(text: str) -> list[int]:
    """Parse numbers of folds such as `1,3,10`."""
    try:
        rounds = sorted({int(word) for word in text.split(",")})
    except ValueError:
        rounds = []
    if not rounds or rounds[0] < 1 or rounds[-1] > 100:
        raise RefoldError(f"--folds takes numbers from 1 to 100, as in 1,3,10, not {text!r}")
    return rounds


def format_fold_count(fold: int) -> str:
    """Return a number of folds in words."""
    return f"{fold} fold{'s' * (fold > 1)}"


@dataclass(frozen=True, slots=True)
class Rounds:
    """Settings for folding a history repeatedly: the method, the talk in between, the number of folds."""

    method: Method
    comparison: Comparison
    pool: Sequence[Wire]
    count: int


@dataclass(frozen=True, slots=True)
class FoldedView:
    """The result of one fold, the tokens of its history, and its budget."""

    trial: Trial
    of: int
    budget: int


def count_kept(group: Sequence[PlantedFact], seen: FoldedView, tally: Tally) -> None:
    """Count the facts of a group that a view still has."""
    tally.count_fold(seen.trial.asks, seen.trial.why)
    if (view := seen.trial.view) is not None:
        text = join_texts(view)
        left = sum(fact.stands_in(text) for fact in group)
        tally.add(left, len(group), tokens=count_tokens(view), of=seen.of)
        tally.count_tokens(count_tokens(view), seen.budget)


def fold_rounds(rounds: Rounds, first: Wire, at: int, look: Callable[[int, FoldedView], None]) -> None:
    """Fold, add new talk, fold again; `look` gets each fold, also the failed ones."""
    history: Wire = with_system_prompt(first)
    trial = Trial(history)
    for fold in range(1, rounds.count + 1):
        if trial.view is not None:  # a method that failed has no view to go on with
            trial = rounds.comparison.trial(rounds.method, history, BUDGET)
        look(fold, FoldedView(trial, count_tokens(history), BUDGET))
        talk, at = next_talk(rounds.pool, at)
        history = [*(trial.view or ()), *talk]


def with_system_prompt(talk: Wire) -> Wire:
    """Put a first request before the talk, as every history has one."""
    return [{"role": "user", "content": _OPENING}, *talk]


def next_talk(pool: Sequence[Wire], at: int, size: int = TALK_TOKENS) -> tuple[Wire, int]:
    """Return about `size` tokens of talk, and where the next talk begins."""
    talk: Wire = []
    while count_tokens(talk) < size:
        talk += pool[at % len(pool)]
        at += 1
    return talk, at


def insert_statements(talk: Wire, said: Sequence[str]) -> Wire:
    """Insert each statement in its own place: alone, after a lead, or behind other words."""
    talk = [dict(message) for message in talk]
    for number, text in enumerate(said):
        at = 3 + number * len(talk) // (len(said) + 1)
        # No statement is hidden behind the output of a command.
        people = (one for one in talk[at:] if one["role"] == "user" and not is_program_text(one["content"]))
        behind = next(people, None)
        if number % 3 == 2 and behind is not None:
            behind["content"] += f"\n{text}"
        else:
            talk.insert(at, {"role": "user", "content": text if number % 3 else f"By the way. {text}"})
    return talk
