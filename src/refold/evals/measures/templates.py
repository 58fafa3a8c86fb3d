"""CompactBench's templates without CompactBench: a template and a seed make a talk and its questions.

The names are invented here, so the figures are not those of its leaderboard (for those: `compactbench.py`).
Without a model, an item counts if the view has what its answer must have. With a model, the model answers
from the view and the template's own check decides.
"""

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from refold.errors import FormatError
from refold.evals.measures.answers import ask_question
from refold.evals.measures.planted_facts import FoldedView, Rounds, fold_rounds, format_fold_count, next_talk
from refold.evals.methods import Comparison, Wire
from refold.evals.tables import Tally, make_row
from refold.replay.reused_names import join_texts

SEEDS: Final = 5
"""Cases made from each template."""
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
    """One question and its check."""

    prompt: str
    check: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """A talk and its questions."""

    name: str
    turns: Wire
    items: tuple[Item, ...]


def make_case(template: dict[str, Any], seed: int) -> Case:
    """Make a case from a template and a seed."""
    chance = random.Random(f"{template.get('key')}:{seed}")  # noqa: S311  # the same case for everybody
    values = {item["name"]: _make_value(item["generator"], chance) for item in template.get("variables", ())}
    while len(set(values.values())) < len(values):  # two equal names would confuse the check
        values = {item["name"]: _make_value(item["generator"], chance) for item in template["variables"]}
    turns: Wire = []
    for turn in template["transcript"]["turns"]:
        if turn["role"] != "distractor_block":  # real talk takes its place
            turns.append({"role": turn["role"], "content": _fill_template(turn["template"], values)})
    items: list[Item] = []
    for item in template.get("evaluation_items", ()):
        expected = item["expected"]
        wanted = expected.get("values") or [expected.get("value", "")]
        filled = tuple(_fill_template(str(value), values) for value in wanted)
        items.append(Item(_fill_template(item["prompt"], values), expected["check"], filled))
    return Case(str(template.get("key", "")), turns, tuple(items))


def _make_value(generator: str, chance: random.Random) -> str:
    if generator in _CHOICES:
        return chance.choice(_CHOICES[generator])
    if generator == "date_iso":
        return f"{chance.randint(2024, 2026)}-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}"
    if generator == "amount_usd":
        return f"${chance.randint(10, 99_999):,}"
    if generator == "product_sku":
        return f"SKU-{''.join(chance.choices('ABCDEFGH', k=2))}{chance.randint(100, 9_999)}"
    known = ", ".join((*_CHOICES, "date_iso", "amount_usd", "product_sku"))
    raise FormatError(f"there is no generator {generator!r}; known are: {known}", path="variables")


def _fill_template(text: str, values: dict[str, str]) -> str:
    return _PLACE.sub(lambda place: values.get(place[1], place[0]), text)


def has_item(item: Item, text: str) -> bool:
    """True if a text passes an item's check."""
    plain = " ".join(text.lower().split())
    there = [" ".join(value.lower().split()) in plain for value in item.values]
    return not any(there) if item.check == "forbidden_absent" else all(there)


def measure_templates(
    templates: Sequence[dict[str, Any]], pool: Sequence[Wire], comparison: Comparison, rounds: Sequence[int]
) -> Iterator[dict[str, Any]]:
    """Yield how much each method keeps after each number of folds."""
    comparison.begin()
    methods, ask = comparison.methods, comparison.ask
    cases = [make_case(template, seed) for template in templates for seed in range(SEEDS)]
    kept = {(fold, method.name): Tally() for fold in rounds for method in methods}
    answered = {(fold, method.name): Tally() for fold in rounds for method in methods if ask is not None}
    for method in methods:
        for number, case in enumerate(cases):
            comparison.progress(f"templates, {method.name}", number, len(cases))

            def look(fold: int, seen: FoldedView, *, method: str = method.name, case: Case = case) -> None:
                if (fold, method) not in kept:
                    return
                kept[fold, method].count_fold(seen.trial.asks, seen.trial.why)
                if seen.trial.view is None:
                    return
                text = join_texts(seen.trial.view)
                known = [item for item in case.items if item.check != "forbidden_absent"]
                kept[fold, method].add(sum(has_item(item, text) for item in known), len(known))
                if ask is not None:
                    right = sum(has_item(item, ask_question(ask, text, item.prompt)) for item in case.items)
                    answered[fold, method].add(right, len(case.items))

            talk, at = next_talk(pool, number * 7)
            history = [*case.turns[:-1], *talk, *case.turns[-1:]]
            fold_rounds(Rounds(method, comparison, pool, max(rounds)), history, at, look)
    for title, tallies in (("templates", kept), ("templates answered", answered)):
        for (fold, way_name), tally in tallies.items():
            yield make_row(f"{title}, {format_fold_count(fold)}", way_name, tally, folds=fold)
