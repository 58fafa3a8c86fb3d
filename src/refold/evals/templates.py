"""CompactBench's templates without CompactBench: a template and a seed become a talk and what must be kept.

The names in the templates' places are made up here, so figures are not those of its leaderboard; those come
from CompactBench itself (`compactbench.py`). Without a model an item counts where the view holds what its
answer must hold; with one, the model answers from the view and the template's own check decides.
"""

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from refold.errors import FormatError
from refold.evals.answers import replied
from refold.evals.planting import Rounds, Seen, after, folded, next_talk
from refold.evals.reuse import shown
from refold.evals.tallies import Tally, row
from refold.evals.ways import Contest, Wire

SEEDS: Final = 5
"""Cases of each template."""
_PLACE: Final = re.compile(r"\{\{\s*([\w.]+)\s*\}\}")
_CHOICES: Final[dict[str, Sequence[str]]] = {
    "person_name": ("Ines", "Tomasz", "Amara", "Yuki", "Lena", "Rashid", "Birgit", "Paulo"),
    "action_phrase": (
        "write to the archive database",
        "email the test customers",
        "rename public endpoints",
        "round prices before the last step",
        "merge without two approvals",
        "restart the queue during the day",
        "store raw card numbers",
        "change the export format",
    ),
    "project_noun": ("ledger rewrite", "harbour portal", "tariff service", "seating planner"),
    "org_name": ("Kestrel Foods", "Linden Rail", "Osprey Labs", "Northgate Mutual"),
}


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that is asked afterwards."""

    prompt: str
    check: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """A talk, and what is asked about it."""

    name: str
    turns: Wire
    items: tuple[Item, ...]


def case_of(template: dict[str, Any], seed: int) -> Case:
    """The case that a template and a seed make."""
    chance = random.Random(f"{template.get('key')}:{seed}")  # noqa: S311  # the same case for everybody
    values = {one["name"]: _value(one["generator"], chance) for one in template.get("variables", ())}
    while len(set(values.values())) < len(values):  # nobody may be confused with himself
        values = {one["name"]: _value(one["generator"], chance) for one in template["variables"]}
    turns: Wire = []
    for turn in template["transcript"]["turns"]:
        if turn["role"] != "distractor_block":  # real talk stands between instead
            turns.append({"role": turn["role"], "content": _filled(turn["template"], values)})
    items = [_item(one, values) for one in template.get("evaluation_items", ())]
    return Case(str(template.get("key", "")), turns, tuple(items))


def _value(generator: str, chance: random.Random) -> str:
    if generator in _CHOICES:
        return chance.choice(_CHOICES[generator])
    if generator == "date_iso":
        return f"{chance.randint(2024, 2026)}-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}"
    if generator == "amount_usd":
        return f"${chance.randint(10, 99_999):,}"
    if generator == "product_sku":
        return f"SKU-{''.join(chance.choices('ABCDEFGH', k=2))}{chance.randint(100, 9_999)}"
    raise FormatError(f"no generator is named {generator!r} here", path="variables")


def _filled(text: str, values: dict[str, str]) -> str:
    return _PLACE.sub(lambda place: values.get(place[1], place[0]), text)


def _item(one: dict[str, Any], values: dict[str, str]) -> Item:
    expected = one["expected"]
    wanted = expected.get("values") or [expected.get("value", "")]
    filled = tuple(_filled(str(value), values) for value in wanted)
    return Item(_filled(one["prompt"], values), expected["check"], filled)


def holds(item: Item, text: str) -> bool:
    """Whether a text passes an item's check."""
    plain = " ".join(text.lower().split())
    there = [" ".join(value.lower().split()) in plain for value in item.values]
    return not any(there) if item.check == "forbidden_absent" else all(there)


def measured(
    templates: Sequence[dict[str, Any]], pool: Sequence[Wire], contest: Contest, rounds: Sequence[int]
) -> Iterator[dict[str, Any]]:
    """The decay curve of each way."""
    contest.begin()
    ways, ask = contest.ways, contest.ask
    cases = [case_of(template, seed) for template in templates for seed in range(SEEDS)]
    kept = {(fold, way.name): Tally() for fold in rounds for way in ways}
    answered = {(fold, way.name): Tally() for fold in rounds for way in ways if ask is not None}
    for way in ways:
        for number, case in enumerate(cases):
            contest.told(f"templates, {way.name}", number, len(cases))

            def look(fold: int, seen: Seen, *, way: str = way.name, case: Case = case) -> None:
                if (fold, way) not in kept:
                    return
                kept[fold, way].tried(seen.trial.asks, seen.trial.why)
                if seen.trial.view is None:
                    return
                text = shown(seen.trial.view)
                known = [item for item in case.items if item.check != "forbidden_absent"]
                kept[fold, way].add(sum(holds(item, text) for item in known), len(known))
                if ask is not None:
                    right = sum(holds(item, replied(ask, text, item.prompt)) for item in case.items)
                    answered[fold, way].add(right, len(case.items))

            talk, at = next_talk(pool, number * 7)
            history = [*case.turns[:-1], *talk, *case.turns[-1:]]
            folded(Rounds(way, contest, pool, max(rounds)), history, at, look)
    for title, tallies in (("templates", kept), ("templates answered", answered)):
        for (fold, way_name), tally in tallies.items():
            yield row(f"{title}, {after(fold)}", way_name, tally, folds=fold)
