"""What an error carries: its texts, its statuses, who made it; knows nothing of what they mean.

Errors come as exceptions with causes, as groups, as dicts, as response objects, as JSON text, as a stream of
events, and some of them are hostile: endless, cyclic, nested a hundred thousand deep, raising on every touch.
So the walk has no recursion, visits a bounded number of places, reads a bounded number of characters, and
lets nothing escape. What a model *said* (contents, choices, deltas) is never read as an error.
"""

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice
from typing import Any, Final

_PLACES: Final = 600
"""How many places are visited; real errors have fewer than fifty."""
_HEAD: Final = 16_384
_TAIL: Final = 8_192
"""What is read of one text: an error speaks at its beginning, a log or a stream ends with it."""
_ALL: Final = 98_304
"""How many characters are read in all."""

_SAID: Final = frozenset(
    {
        *("arguments", "candidates", "choices", "content", "content_block", "contents", "delta", "function"),
        *(
            "headers",
            "incomplete_details",
            "input",
            "instructions",
            "logprobs",
            "messages",
            "model",
            "output",
        ),
        *("parts", "prompt", "reasoning", "request", "summary", "system", "text", "tools", "usage"),
    }
)
"""Keys under which there is what somebody said, or facts about it; no errors."""
_NESTED: Final = frozenset({"candidates", "choices", "output"})
"""Of these, how the answer ended and whether an error stands inside is looked at."""
_FINISH: Final = frozenset(
    {"finish_reason", "finishreason", "native_finish_reason", "stop_reason", "stopreason"}
)
_STATUS: Final = frozenset({"code", "http_status", "httpstatuscode", "status", "status_code", "statuscode"})
_PLACE: Final = frozenset(
    {"api_base", "base_url", "endpoint", "llm_provider", "provider", "provider_id", "url"}
)
_BODY: Final = frozenset({"body", "content", "data", "message", "raw", "response", "text"})
_ALWAYS: Final = (
    *(
        "message",
        "error",
        "errors",
        "status_code",
        "status",
        "http_status",
        "code",
        "type",
        "reason",
        "detail",
    ),
    *(
        "details",
        "url",
        "provider",
        "llm_provider",
        "finish_reason",
        "stop_reason",
        "n_ctx",
        "n_prompt_tokens",
    ),
    "response",
)
"""Attributes that are read on any object, in this order."""
_OF_ANSWERS: Final = ("body", "text", "content", "response_body", "json_body", "raw", "data")
"""Attributes that are read on exceptions and on what has a status; elsewhere a model may have said them."""
_SSE: Final = r"(?:^|\n)(?:event|data): ?\S"


@dataclass(slots=True)
class Evidence:
    """What one error says; a cause says it again for itself."""

    texts: list[str] = field(default_factory=list)
    statuses: set[int] = field(default_factory=set)
    kinds: list[str] = field(default_factory=list)
    """Module and class of the exceptions."""
    places: list[str] = field(default_factory=list)
    """Addresses and providers that are named."""
    finishes: set[str] = field(default_factory=set)
    numbers: dict[str, int] = field(default_factory=dict)
    empty: bool = False
    """An answer without a body was seen."""


def gather(error: object) -> list[Evidence]:
    """Collect what an error and its causes say, the error itself first."""
    return _Walk().walk(error)


class _Walk:
    """One walk over one error: what is still to be visited and how much may still be read."""

    def __init__(self) -> None:
        self.stack: list[tuple[object, Evidence, str]] = []
        self.seen: set[int] = set()
        self.found: list[Evidence] = []
        self.alive: list[object] = []
        self.room = _ALL

    def walk(self, error: object) -> list[Evidence]:
        self.found.append(Evidence())
        self.stack.append((error, self.found[0], ""))
        for _ in range(_PLACES):
            if not self.stack:
                break
            with suppress(Exception):  # hostile objects raise what they like; the walk goes on without them
                self.visit(*self.stack.pop())
        return self.found

    def visit(self, value: object, evidence: Evidence, key: str) -> None:
        if isinstance(value, bool) or value is None:
            evidence.empty |= value is None and key == "body"
        elif isinstance(value, int):
            self.number(value, evidence, key)
        elif isinstance(value, str | bytes | bytearray):
            self.text(value, evidence, key)
        elif id(value) not in self.seen:
            self.seen.add(id(value))
            self.alive.append(value)  # an id is only good while its object lives
            self.look_inside(value, evidence, key)

    def look_inside(self, value: object, evidence: Evidence, key: str) -> None:
        if isinstance(value, BaseException):
            self.exception(value, evidence)
        elif isinstance(value, Mapping):
            self.mapping(value, evidence)
        elif isinstance(value, list | tuple | set | frozenset):
            for item in reversed(list(islice(value, _PLACES))):
                self.stack.append((item, evidence, key))
        elif isinstance(value, Enum):
            self.stack.extend(((value.value, evidence, key), (value.name, evidence, key)))
        elif not isinstance(value, float | complex | type):
            self.attributes(value, evidence)

    def exception(self, error: BaseException, evidence: Evidence) -> None:
        if evidence.kinds:
            evidence = Evidence()
            self.found.append(evidence)
        kind = type(error)
        evidence.kinds.append(f"{kind.__module__}.{kind.__qualname__}")
        causes = [_attribute(error, name) for name in ("__cause__", "__context__")]
        group = _attribute(error, "exceptions")
        causes.extend(islice(group, 50) if isinstance(group, list | tuple) else ())
        for cause in reversed(causes):
            if isinstance(cause, BaseException):
                self.stack.append((cause, evidence, ""))
        self.stack.append((_attribute(error, "args"), evidence, ""))
        self.attributes(error, evidence)
        self.stack.append((_shown(error), evidence, ""))

    def attributes(self, value: object, evidence: Evidence) -> None:
        answered = isinstance(value, BaseException) or isinstance(_attribute(value, "status_code"), int)
        for name in reversed(_ALWAYS + _OF_ANSWERS if answered else _ALWAYS):
            found = _attribute(value, name)
            if name == "url" and found is not None:
                found = _shown(found)
            if found is not None and not callable(found):
                self.stack.append((found, evidence, name))
        if answered and _attribute(value, "text") is None:
            self.stack.append((_called(_attribute(value, "json")), evidence, "json"))
        if (asked := _attribute(_attribute(value, "request"), "url")) is not None:
            self.stack.append((_shown(asked), evidence, "url"))
        self.stack.extend((end, evidence, "choices") for end in _ends(_attribute(value, "choices")))

    def mapping(self, value: Mapping[Any, Any], evidence: Evidence) -> None:
        items = [(key.lower(), each) for key, each in islice(value.items(), _PLACES) if isinstance(key, str)]
        refused = any(key in _STATUS and _refused(each) for key, each in items)
        said = _SAID | {"response"} if any(key == "done" for key, _ in items) else _SAID
        for key, each in reversed(items):
            if key in _NESTED:
                self.stack.extend((end, evidence, key) for end in _ends(each))
            elif key not in said or (refused and key in _BODY):
                self.stack.append((_shown(each) if key == "url" else each, evidence, key))

    def number(self, value: int, evidence: Evidence, key: str) -> None:
        if key in _STATUS and 100 <= value <= 599:
            evidence.statuses.add(value)
        elif key in {"n_ctx", "n_prompt_tokens"}:
            evidence.numbers[key] = value

    def text(self, value: str | bytes | bytearray, evidence: Evidence, key: str) -> None:
        text = _excerpt(value)
        if key in _FINISH:
            evidence.finishes.add(text[:100].strip().lower())
        elif key in _PLACE:
            evidence.places.append(text[:300].lower())
        elif not text.strip():
            evidence.empty |= key in _BODY
        elif text.strip().isdigit() and key in _STATUS:
            self.number(int(text.strip()[:6]), evidence, key)
        elif len(text) <= self.room and text not in evidence.texts:
            self.room -= len(text)
            self.read(text, evidence, key)

    def read(self, text: str, evidence: Evidence, key: str) -> None:
        parsed = _json(text)
        if parsed is not None:
            self.stack.append((parsed, evidence, key))
        elif re.search(_SSE, text[:2_000]):
            self.stack.extend(
                (event, evidence, key) for event in reversed(list(islice(_events(text), _PLACES)))
            )
        else:
            evidence.texts.append(text)


def _attribute(value: object, name: str) -> Any:
    with suppress(Exception):
        return getattr(value, name, None)
    return None


def _shown(value: object) -> str:
    with suppress(Exception):
        return str(value)
    return ""


def _called(method: object) -> object:
    if not callable(method) or inspect.iscoroutinefunction(method):
        return None
    made: object = None
    with suppress(Exception):
        made = method()
    if inspect.iscoroutine(made):
        made.close()
    return made if isinstance(made, dict | list) else None


def _ends(value: object) -> Iterator[Mapping[str, Any]]:
    for item in islice(value, 20) if isinstance(value, list | tuple) else ():
        if isinstance(item, Mapping):
            yield {
                key: item[key]
                for key in ("error", "finish_reason", "finishReason", "stop_reason")
                if key in item
            }
        else:
            kept = {key: _attribute(item, key) for key in ("error", "finish_reason", "stop_reason")}
            yield {key: each for key, each in kept.items() if each is not None}


def _refused(status: object) -> bool:
    if isinstance(status, str):
        return status.isdigit() and status[:1] in "45" and len(status) == 3
    return isinstance(status, int) and 400 <= status <= 599


def _excerpt(value: str | bytes | bytearray) -> str:
    short = len(value) <= _HEAD + _TAIL
    if isinstance(value, str):
        return value if short else f"{value[:_HEAD]}\n{value[-_TAIL:]}"
    return bytes(value if short else value[:_HEAD] + b"\n" + value[-_TAIL:]).decode("utf-8", "replace")


def _json(text: str) -> object:
    if text.lstrip()[:1] not in {"{", "["}:
        return None
    try:
        parsed: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict | list) else None


def _events(text: str) -> Iterator[object]:
    failed = False
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        if name == "event":
            failed = rest.strip() == "error"
        elif name == "data":
            parsed = _json(rest)
            if parsed is not None:
                yield parsed
            elif failed or '"error"' in rest:
                yield rest.strip()
