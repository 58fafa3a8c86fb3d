"""One fold: what stood there before and what stands there now, side by side; its facts and its receipt."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from refold.core.facts.complete_summary import BEGIN, END
from refold.core.facts.ledger import Fact, Ledger, report_kept
from refold.core.facts.sentences import split_sentences
from refold.core.log.entries import USAGE, Entry
from refold.core.log.view import Change, MessageRange, Replacement, ViewItem, count_messages
from refold.core.messages.message import Message
from refold.core.messages.message_text import full_text
from refold.core.summaries.wrappers import unwrap_summary
from refold.core.tokens.counting import Counter
from refold.inspector.scopes import Scope
from refold.inspector.stored import FoldBody, FoldMark, StoredSession, count_facts, describe_ranges
from refold.inspector.views.entries import describe_inserted
from refold.inspector.views.session_page import MOST_LOADED, count_seen, describe_fold, read_folds
from refold.inspector.views.shown import (
    SHOWN_BYTES,
    Redact,
    can_redact,
    describe_row,
    find_redactor,
    write_text,
)
from refold.redaction.redact import redact_item
from refold.session.state.loaded_view import single_pieces
from refold.session.steps.read_entries import BEGAN, is_believed, usage_report

_HANDLE: Final = re.compile(r"#(\d{1,9})")
_LOOKED_AT: Final = 64
"""Reports behind a fold that are searched for the first one that was believed."""
_MOST_SENTENCES: Final = 400
_MOST_SOURCES: Final = 8
_MOST_FACTS: Final = 400


def show_fold(scope: Scope, name: str, word: str) -> dict[str, Any]:
    """Return everything about one fold."""
    stored = scope.read(name)
    mark = stored.find_fold(word)
    fold = stored.folded(mark.name)
    body = read_folds(scope, stored, {mark.name})[mark.name]
    entry = body.entry
    rows = _FoldRows(scope, stored, body, find_redactor(show=False))
    for change in fold.changes:
        rows.add(change)
    receipt = entry.beside.get("receipt") or {}
    return {
        **describe_fold(stored, mark.name),
        "policy": mark.policy,
        "ratio": _find_ratio(scope, stored, mark, receipt),
        "model": _find_model(receipt),
        "seconds": _find_seconds(mark, entry),
        "messages_before": count_messages(item for change in fold.changes for item in change.removed),
        "messages_after": count_messages(item for change in fold.changes for item in change.inserted),
        "next_request": _find_next_request(scope, stored, entry),
        "unfold": _foresee_unfold(scope, stored, mark) if fold.standing else None,
        "rows": rows.rows,
        "facts": _describe_facts(rows, receipt),
        "receipt": redact_item(receipt).value if can_redact() else receipt,
        "changes": len(fold.changes),
    }


def _find_ratio(
    scope: Scope, stored: StoredSession, mark: FoldMark, receipt: Mapping[str, Any]
) -> float | None:
    """Return how full the room was before a fold; None if the window was another one then."""
    window, room = scope.find_window(stored)
    return mark.tokens_before / room if receipt.get("window") == window else None


def _find_seconds(mark: FoldMark, entry: Entry) -> float | None:
    """Return how long a fold took at first; None where no model was asked, and in older logs."""
    began = entry.beside.get(BEGAN)
    return round(max(0.0, mark.at - began), 3) if isinstance(began, int | float) else None


def _find_model(receipt: Mapping[str, Any]) -> str:
    """Return the model that answered for a fold; "" if none was asked."""
    calls = (call for stage in receipt.get("stages", ()) for call in stage.get("calls", ()))
    models = (str(call.get("model")) for call in calls if call.get("model") and not call.get("failed"))
    return next(models, "")


def _find_next_request(scope: Scope, stored: StoredSession, entry: Entry) -> dict[str, Any] | None:
    """Return the first report of a request behind a fold: it shows whether the sizes were true."""
    reports = scope.store.read(stored.name, stored.head.place, kinds=USAGE, first=entry.said)
    for report in islice(reports, _LOOKED_AT):
        if report.at >= entry.at and is_believed(report):
            return {"tokens": usage_report(report).usage.context, "at": report.at}
    return None


def _foresee_unfold(scope: Scope, stored: StoredSession, mark: FoldMark) -> dict[str, Any] | None:
    """Return how full the window would be without the fold; another fold may cover what it hides."""
    if count_seen(stored) > MOST_LOADED:
        return None
    budget = scope.open(stored.name).budget()
    used = budget.used + (mark.saved if stored.view.covering(mark.name) is None else 0)
    return {"used": used, "ratio": used / budget.room}


@dataclass(slots=True)
class _FoldRows:
    """Lines up the two sides of a fold, in the order of the conversation."""

    scope: Scope
    stored: StoredSession
    body: FoldBody
    redact: Redact
    rows: list[dict[str, Any]] = field(default_factory=list)
    messages: tuple[Message, ...] = ()
    counter: Counter = field(init=False)
    ledger: Ledger = field(init=False)
    stage: str = ""

    def __post_init__(self) -> None:
        self.messages = tuple(self.body.read(place) for place in range(len(self.body)))
        self.counter = self.stored.count_tokens(self.scope.make_policy(self.stored))
        self.ledger = _read_ledger(self.messages)
        stages = self.stored.find_fold(self.body.entry.name).stages
        self.stage = stages[0] if len(stages) == 1 else ""

    def add(self, change: Change) -> None:
        """Add the rows of one change: what is put back divides it into stretches."""
        gone: list[ViewItem] = []
        own = [item for item in change.inserted if isinstance(item, Replacement)]
        parts = list(change.split())
        for at, (part, back) in enumerate(parts):
            if back is None:
                gone.append(part)
            else:
                own = self._close_stretch(gone, own, self._count_before(change, own, back))
                gone = []
                self._add_kept(part)
            if at == len(parts) - 1:
                self._close_stretch(gone, own, len(own))

    def _count_before(self, change: Change, own: list[Replacement], back: int) -> int:
        """Return how many of the fold's own messages stand before one that is put back."""
        return sum(item in own for item in change.inserted[:back] if isinstance(item, Replacement))

    def _add_kept(self, part: ViewItem) -> None:
        where = self._describe_item(part)
        self.rows.append({"kind": "kept", "before": where, "after": where})

    def _close_stretch(self, gone: list[ViewItem], own: list[Replacement], count: int) -> list[Replacement]:
        """Add what left since the last message that stayed, and what stands there; return what is left."""
        here, rest = own[:count], own[count:]
        singles = [single for item in gone for single in single_pieces(item)]
        if gone and not here:
            for item in gone:
                self.rows.append({"kind": "gone", "before": self._describe_item(item), "after": None})
        elif len(singles) == len(here) and not any(self.messages[item.place].is_summary for item in here):
            # one message stands for one message: each was made shorter
            for single, item in zip(singles, here, strict=True):
                self._add_own(item, "shortened", [self._describe_item(single)])
        else:
            for at, item in enumerate(here):
                before = [self._describe_item(one) for one in gone] if at == 0 else []
                self._add_own(item, "summary" if before else "added", before)
        return rest

    def _add_own(self, item: Replacement, kind: str, before: list[dict[str, Any]]) -> None:
        message = self.messages[item.place]
        text = self.redact(write_text(message)[:SHOWN_BYTES])[0]
        after = {
            **describe_inserted(self.stored, self.body, item.place),
            **describe_row(message, self.counter, self.redact),
            "text": text,
        }
        first = before[0] if before else None
        row: dict[str, Any] = {"kind": kind, "before": first, "after": after, "more_before": before[1:]}
        if kind == "shortened":
            row["stage"] = self.stage
        elif kind == "summary":
            row["sentences"] = _find_sources(self.redact(_list_claims(message))[0], self.ledger)
        self.rows.append(row)

    def _describe_item(self, item: ViewItem) -> dict[str, Any]:
        if isinstance(item, MessageRange):
            return {"first": item.first, "last": item.last}
        covers = describe_ranges(self.stored.view.originals(item))
        label = self.stored.labels.get(item.fold, item.fold)
        return {"fold": label, "place": item.place, "covers": covers}


# -- facts and sources ---------------------------------------------------------------------------------------


def _read_ledger(messages: Iterable[Message]) -> Ledger:
    """Return the facts that a fold stored beside its summaries."""
    ledger = Ledger()
    for message in messages:
        if facts := message.meta.get("facts"):
            stored = Ledger.from_json(facts)
            ledger = ledger.merge(stored.facts) if ledger else stored
    return ledger


def _list_claims(message: Message) -> str:
    """Return what a summary says, without the words around it: its text, and the facts behind it."""
    facts = message.text.partition(BEGIN)[2].partition(END)[0]
    return f"{unwrap_summary(message)[:SHOWN_BYTES]}\n{facts}"


def _find_sources(text: str, ledger: Ledger) -> list[dict[str, Any]]:
    """Return the sentences of a summary, each with the messages that its stored facts and handles name."""
    sentences = list(islice((one for one in split_sentences(text) if one.strip()), _MOST_SENTENCES))
    found = [{"text": one, "sources": _name_sources(one, ledger)} for one in sentences]
    return found if any(sentence["sources"] for sentence in found) else []


def _name_sources(sentence: str, ledger: Ledger) -> list[int]:
    low = sentence.lower()
    numbers = {int(number) for number in _HANDLE.findall(sentence)}
    for fact in ledger.facts:
        if fact.at > 0 and len(fact.text) > 3 and (fact.text in sentence or fact.text.lower() in low):
            numbers.add(fact.at)
        if len(numbers) >= _MOST_SOURCES:
            break
    return sorted(numbers)


def _describe_facts(rows: _FoldRows, receipt: Mapping[str, Any]) -> dict[str, Any]:
    """Return which facts of what left stand in the fold's text, and which only a handle leads to."""
    report = report_kept("\n".join(map(full_text, rows.messages)), rows.ledger, 0)
    kept, repaired, by_handle = count_facts(receipt)
    return {
        "kept": _list_facts(report.kept, rows.redact),
        "lost": _list_facts(report.reachable, rows.redact),
        "counts": {"kept": kept, "repaired": repaired, "by_handle": by_handle},
    }


def _list_facts(facts: Iterable[Fact], redact: Redact) -> list[dict[str, Any]]:
    """Return facts as plain data, in the order of their messages; the redactor sees them as one text."""
    listed = list(islice(facts, _MOST_FACTS))
    places = (f"{fact.about}: " if fact.about and fact.kind == "value" else "" for fact in listed)
    texts = [" ".join(f"{place}{fact.text}".split()) for place, fact in zip(places, listed, strict=True)]
    shown = redact("\n".join(texts))[0].split("\n")
    if len(shown) != len(texts):  # a secret went over several lines
        shown = [redact(text)[0] for text in texts]
    return [
        {"kind": fact.kind, "text": text, "handle": f"#{fact.at}" if fact.at > 0 else None}
        for fact, text in zip(listed, shown, strict=True)
    ]
