"""Turns results into plain data and short hashes; picks the promised fields only, so that new ones do no harm."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from refold import Message, testing

BUDGET = (
    "window reserve room used ratio level should_compact messages characters count_source window_source"
    " trigger_tokens breakdown.system breakdown.history breakdown.prompt breakdown.tools breakdown.files"
)
OUTCOME = (
    "compacted fits reason stages tier level messages_before messages_after tokens_before tokens_after"
    " tokens_saved summary files.read files.modified breakdown.system breakdown.history breakdown.prompt"
    " breakdown.tools breakdown.files"
)
RECEIPT = (
    "policy trigger window window_source count_source estimated_tokens reported_tokens goal_tokens mended reason"
    " spent.calls spent.input spent.output spent.dollars"
)
REPORT = "stage accepted reason tokens_before tokens_after facts capped"
ASKED = "purpose prompt_tokens answer_tokens failed model estimated dollars"
EDIT = "start end stage why"
PLAN = (
    "would_compact reason fits stages messages_before messages_after tokens_before tokens_after tokens_saved"
    " cache_tokens_lost model_calls model_tokens money_now money_per_turn break_even_turns turn_before turn_after"
    " money_in_cache break_even_in_cache"
)
LEAVING = "index role tokens stage why preview"
STAYING = "index role tokens why"
PROBLEM = "index rule message"
HIT = "handle number role text folded"
STATS = (
    "session said messages current_context_tokens window room ratio level should_compact folds unfolded tokens_saved"
    " totals.requests totals.input totals.output totals.cache_read totals.cache_write"
    " spent.calls spent.input spent.output spent.dollars spent.unpriced"
    " summaries.calls summaries.input summaries.output summaries.dollars summaries.unpriced"
)
FOLD = (
    "name handle stages tokens_before tokens_after at standing covered_by"
    " spent.calls spent.input spent.output spent.dollars"
)
ENTRY = "name parent kind said at value"
OBSERVED = "send_again reason finish reverted"
USAGE = "input output cache_read cache_write messages said"

_NAME = re.compile(r"b[23]:[0-9a-f]{40}")


def pick(value: Any, fields: str) -> Any:
    """The named fields of a value, as plain data; None stays None. `a.b` is the field b of the field a."""
    if value is None:
        return None
    made = {}
    for path in fields.split():
        found = value
        for name in path.split("."):
            found = getattr(found, name)
        made[path] = plain(found)
    return made


def plain(value: Any) -> Any:
    """A value as JSON has it; messages that are values are told as text."""
    if isinstance(value, Message):
        return testing.shape([value], limit=10**9)
    if isinstance(value, Mapping):
        return {str(key): plain(found) for key, found in value.items()}
    if isinstance(value, AbstractSet):
        return sorted(plain(found) for found in value)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [plain(found) for found in value]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise TypeError(f"no plain data: {type(value).__name__}")


def receipt(value: Any) -> Any:
    """What a receipt tells."""
    stages = [
        pick(report, REPORT) | {"calls": [pick(call, ASKED) for call in report.calls]}
        for report in value.stages
    ]
    return pick(value, RECEIPT) | {"stages": stages}


def outcome(value: Any) -> Any:
    """What an outcome tells, its messages left out."""
    if value is None:
        return None
    edits = [pick(edit, EDIT) | {"put": plain(edit.put)} for edit in value.edits]
    return pick(value, OUTCOME) | {"edits": edits, "receipt": receipt(value.receipt)}


def digest(value: Any, length: int = 10) -> str:
    """The beginning of the SHA-256 of a value's canonical JSON."""
    return hashlib.sha256(canonical(value).encode("utf-8", "surrogatepass")).hexdigest()[:length]


def canonical(value: Any) -> str:
    """A plain value as JSON, keys in order."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def mask_names(value: Any) -> Any:
    """A plain value in which each name of an entry is told by when it first appears: `<entry 1>`."""
    seen: dict[str, str] = {}

    def mask(found: Any) -> Any:
        if isinstance(found, str):
            return _NAME.sub(lambda name: seen.setdefault(name[0], f"<entry {len(seen) + 1}>"), found)
        if isinstance(found, dict):
            return {key: mask(inner) for key, inner in found.items()}
        return [mask(inner) for inner in found] if isinstance(found, list) else found

    return mask(value)


def differences(now: Any, then: Any, where: str = "") -> Iterator[str]:
    """Say where two plain values differ, one line for each place."""
    if isinstance(now, dict) and isinstance(then, dict):
        for key in dict.fromkeys([*then, *now]):
            if key not in now or key not in then:
                yield f"{where}.{key}: {'is missing' if key in then else 'is new'}"
            else:
                yield from differences(now[key], then[key], f"{where}.{key}")
    elif isinstance(now, list) and isinstance(then, list) and len(now) == len(then):
        for index, (one, other) in enumerate(zip(now, then, strict=True)):
            yield from differences(one, other, f"{where}[{index}]")
    elif now != then:
        yield f"{where}: was {_short(then)}, is {_short(now)}"


def _short(value: Any) -> str:
    text = canonical(value)
    return text if len(text) <= 300 else f"{text[:300]}... ({len(text)} characters, {digest(value)})"
