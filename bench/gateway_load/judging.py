"""Compare the store with what the agents said and what the upstream saw."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

from bench.gateway_load.agents import Load, Talk
from bench.gateway_load.upstream import SUMMARY, Asked, Upstream

from refold import formats
from refold.core.log.entries import ROOT, Entry, hash_entry
from refold.session.steps.take_in import is_system
from refold.stores import Store

_STORING_SECONDS: Final = 30.0
"""Seconds within which an answered summary becomes a fold; a replica that is killed later has lost none."""
_SHOWN: Final = 20


def judge(store: Store, load: Load, upstream: Upstream) -> dict[str, Any]:
    """Return all numbers, and the first faults in words."""
    entries: dict[str, list[Entry]] = defaultdict(list)
    covers: Counter[str] = Counter()
    for session, place, entry in store.salvage():
        entries[session].append(entry)
        if entry.kind == "fold":
            took = [change["took"] for change in entry.value["changes"]]
            covers[json.dumps([session, place.line, took])] += 1
    faults: dict[str, list[str]] = {"failed": load.failures, "invalid": upstream.collect_problems()}
    faults |= {name: [] for name in ("lost", "foreign", "split", "moved")}
    faults["folded_twice"] = [cover[:80] for cover, times in covers.items() if times > 1]
    for talk in load.talks:
        _judge_talk(talk, entries, upstream.moves[talk.name], faults)
    faults["doubled"] = _find_doubled(upstream.asked, load)
    faults["troubles"] = [trouble.what for trouble in store.check()]
    shown = [f"{name}: {what}" for name, found in faults.items() for what in found]
    kinds = Counter(entry.kind for found in entries.values() for entry in found)
    return {
        **{name: len(found) for name, found in faults.items()},
        "wrong": len(shown),
        "refused_and_folded": upstream.refused,
        "faults": shown[:_SHOWN],
        "messages": kinds["said"],
        "folds": kinds["fold"],
        "sessions": len(entries),
        "summaries": _count_summaries(upstream.asked, entries, load),
    }


def _judge_talk(
    talk: Talk, entries: Mapping[str, list[Entry]], moves: int, faults: dict[str, list[str]]
) -> None:
    if len(talk.session) != 1:
        faults["split"].append(f"{talk.name} has the sessions {sorted(talk.session)}")
        return
    stored = entries.get(next(iter(talk.session)), [])
    said = Counter(entry.name for entry in stored if entry.kind == "said")
    wanted = {name for history in talk.said for name in _name_messages(history, talk.wire)}
    faults["lost"] += [
        f"{talk.name}: a message is stored {said[name]} times" for name in wanted if said[name] != 1
    ]
    faults["foreign"] += [f"{talk.name}: {name}" for name in said if name not in wanted]
    folds = sum(entry.kind == "fold" for entry in stored)
    if moves > folds + talk.branches + 2 * talk.bypassed:
        faults["moved"].append(f"{talk.name}: {moves} times, with {folds} folds")


def _name_messages(history: list[Any], wire: str) -> list[str]:
    names, parent, form = [], ROOT, formats.get(wire)
    for item in history:
        if is_system(form, item) and not names:
            continue
        parent = hash_entry(parent, "said", item, len(names) + 1)
        names.append(parent)
    return names


def _find_doubled(asked: Iterable[Asked], load: Load) -> list[str]:
    """Return the steps that were summarised again, although whoever did it first lived long enough."""
    done: dict[tuple[str, int], Asked] = {}
    found = []
    for one in asked:
        for step in sorted(one.steps):
            before = done.get((one.talk, step))
            if before is not None and not _died(before, load):
                found.append(f"{one.talk}: step {step} by {before.life} and {one.life}")
            done[one.talk, step] = one
    return found


def _died(asked: Asked, load: Load) -> bool:
    """True if the gateway that asked was killed before it had to have stored the answer."""
    killed_at = load.replicas.lives[asked.life].killed_at
    return killed_at is not None and killed_at - asked.at < _STORING_SECONDS


def _count_summaries(asked: list[Asked], entries: Mapping[str, list[Entry]], load: Load) -> dict[str, int]:
    folds = (entry for found in entries.values() for entry in found if entry.kind == "fold")
    stored = {int(number) for fold in folds for number in SUMMARY.findall(fold.body)}
    rest = [one for number, one in enumerate(asked) if number not in stored]
    lost = sum(_died(one, load) for one in rest)
    return {"asked": len(asked), "stored": len(stored), "lost_by_kills": lost, "dropped": len(rest) - lost}
