"""Compare the store with what the agents said and what the upstream saw."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
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
STORED, LOST = "stored", "lost with its replica"
_NUMBER: Final = re.compile(r"\d[\d,]*")


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
    fates = _find_fates(upstream.asked, entries, load)
    faults["doubled"] = _find_doubled(upstream.asked, fates)
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
        **_count_fates(fates),
        "asks": [
            {"talk": one.talk, "steps": sorted(one.steps), "replica": one.life, "at": one.wall, "fate": fate}
            for one, fate in zip(upstream.asked, fates, strict=True)
        ],
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


def _find_doubled(asked: Sequence[Asked], fates: Sequence[str]) -> list[str]:
    """Return the steps that were summarised again, although the first summary was not lost."""
    done: dict[tuple[str, int], int] = {}
    found = []
    for number, one in enumerate(asked):
        for step in sorted(one.steps):
            before = done.get((one.talk, step))
            if before is not None and fates[before] != LOST:
                found.append(
                    f"{one.talk}: step {step} by {asked[before].life} ({fates[before]}) and {one.life}"
                )
            done[one.talk, step] = number
    return found


def _find_fates(asked: Sequence[Asked], entries: Mapping[str, list[Entry]], load: Load) -> list[str]:
    """Return what became of each summary: stored, lost with its replica, or the words of the log."""
    fates: dict[int, str] = {}
    records: dict[str, list[Entry]] = {}
    for talk in load.talks:
        made = [entry for name in talk.session for entry in entries.get(name, [])]
        records[talk.name] = sorted(filter(_has_asked, made), key=lambda entry: entry.at)
        for entry in list(records[talk.name]):
            for word in SUMMARY.findall(entry.body):
                if int(word) not in fates:  # a later fold may quote an earlier summary
                    fates[int(word)] = STORED
                    records[talk.name] = [each for each in records[talk.name] if each is not entry]
    for number, one in enumerate(asked):
        if number not in fates:
            later = (entry for entry in records.get(one.talk, ()) if entry.at >= one.wall)
            entry = next(later, None)
            if entry is None:
                fates[number] = LOST if _died(one, load) else "the log has no trace of it"
            else:
                records[one.talk].remove(entry)
                fates[number] = _read_reason(entry)
    return [fates[number] for number in range(len(asked))]


def _has_asked(entry: Entry) -> bool:
    """True for an attempt in which a model was asked, whether or not it became a fold."""
    if entry.kind not in ("fold", "attempt") or entry.value.get("trigger") == "carried":
        return False
    return any(report["calls"] for report in entry.beside.get("receipt", {}).get("stages", ()))


def _read_reason(entry: Entry) -> str:
    """Return why an attempt did not use its summary, without the numbers."""
    reports = entry.beside["receipt"]["stages"]
    turned_down = [report["reason"] for report in reports if report["calls"] and not report["accepted"]]
    return _NUMBER.sub("N", (turned_down or [entry.value.get("reason", "replaced by a later one")])[0])


def _died(asked: Asked, load: Load) -> bool:
    """True if the gateway that asked was killed before it had to have stored the answer."""
    killed_at = load.replicas.lives[asked.life].killed_at
    return killed_at is not None and killed_at - asked.at < _STORING_SECONDS


def _count_fates(fates: Sequence[str]) -> dict[str, Any]:
    why = Counter(fate for fate in fates if fate not in (STORED, LOST))
    counts = {"asked": len(fates), "stored": fates.count(STORED), "lost_by_kills": fates.count(LOST)}
    return {"summaries": {**counts, "dropped": why.total()}, "dropped_why": dict(why)}
