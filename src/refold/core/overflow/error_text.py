"""Collect the facts that an error carries: texts, statuses, classes; knows nothing of their meaning.

Errors come as exceptions with causes, as groups, as dicts, as response objects, as JSON text, as a stream of
events. Some are hostile: endless, cyclic, nested a hundred thousand deep, raising on every touch. So the walk
has no recursion, visits a bounded number of places, reads a bounded number of characters, and lets no error
escape. The words of a model (contents, choices, deltas) are never read as an error.
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

_MAX_PLACES: Final = 600
"""Places that are visited. Real errors have fewer than fifty; more would only give hostile ones more time."""
_HEAD_CHARS: Final = 16_384
_TAIL_CHARS: Final = 8_192
"""Characters read of one text: an error speaks at its beginning, a log or a stream ends with it."""
_MAX_CHARS: Final = 98_304
"""Characters read in all: four texts of full length. Fewer could miss a refusal behind a long cause."""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# Keys are compared in lower case.
_CONTENT_KEYS: Final = frozenset(
    _words(
        "arguments candidates choices content content_block contents delta function headers"
        " incomplete_details input instructions logprobs messages model output parts prompt reasoning request"
        " summary system text tools usage"
    )
)
"""Keys with the words of a user or a model, or facts about them; never errors."""
_NESTED: Final = frozenset({"candidates", "choices", "output"})
"""Of these, the reason why the answer ended and an error inside are read."""
_FINISH: Final = frozenset(_words("finish_reason finishreason native_finish_reason stop_reason stopreason"))
_STATUS: Final = frozenset(_words("code http_status httpstatuscode status status_code statuscode"))
_PLACE: Final = frozenset(_words("api_base base_url endpoint llm_provider provider provider_id url"))
_BODY: Final = frozenset(_words("body content data message raw response text"))
_ALWAYS: Final = _words(
    "message error errors status_code status http_status code type reason detail details url provider"
    " llm_provider finish_reason stop_reason n_ctx n_prompt_tokens response"
)
"""Attributes that are read on any object, in this order."""
_OF_ANSWERS: Final = _words("body text content response_body json_body raw data")
"""Attributes that are read only on exceptions and on objects with a status; elsewhere a model may have
written them."""
_EVENT_STREAM: Final = re.compile(r"(?:^|\n)(?:event|data): ?\S")


@dataclass(slots=True)
class Evidence:
    """The facts that one error states; each cause has its own."""

    texts: list[str] = field(default_factory=list)
    statuses: set[int] = field(default_factory=set)
    kinds: list[str] = field(default_factory=list)
    """Module and class of each exception."""
    places: list[str] = field(default_factory=list)
    """Addresses and providers that are named."""
    finishes: set[str] = field(default_factory=set)
    numbers: dict[str, int] = field(default_factory=dict)
    empty: bool = False
    """True if an answer without a body was seen."""


def collect_evidence(error: object) -> list[Evidence]:
    """Collect the facts of an error and of its causes, the error itself first."""
    return _Walk().walk(error)


class _Walk:
    """One walk over one error: the places still to visit and the characters still to read."""

    def __init__(self) -> None:
        self.stack: list[tuple[object, Evidence, str]] = []
        self.seen: set[int] = set()
        self.collected: list[Evidence] = []
        self.alive: list[object] = []
        self.room = _MAX_CHARS

    def walk(self, error: object) -> list[Evidence]:
        self.collected.append(Evidence())
        self.stack.append((error, self.collected[0], ""))
        for _ in range(_MAX_PLACES):
            if not self.stack:
                break
            with suppress(Exception):  # hostile objects raise what they like; the walk goes on without them
                self.visit(*self.stack.pop())
        return self.collected

    def visit(self, value: object, evidence: Evidence, key: str) -> None:
        if isinstance(value, bool) or value is None:
            evidence.empty |= value is None and key == "body"
        elif isinstance(value, int):
            self.read_number(value, evidence, key)
        elif isinstance(value, str | bytes | bytearray):
            self.read_text(value, evidence, key)
        elif id(value) not in self.seen:
            self.seen.add(id(value))
            self.alive.append(value)  # an id is only good while its object lives
            self.look_inside(value, evidence, key)

    def look_inside(self, value: object, evidence: Evidence, key: str) -> None:
        if isinstance(value, BaseException):
            self.read_exception(value, evidence)
        elif isinstance(value, Mapping):
            self.read_mapping(value, evidence)
        elif isinstance(value, list | tuple | set | frozenset):
            for item in reversed(list(islice(value, _MAX_PLACES))):
                self.stack.append((item, evidence, key))
        elif isinstance(value, Enum):
            self.stack.extend(((value.value, evidence, key), (value.name, evidence, key)))
        elif not isinstance(value, float | complex | type):
            self.read_attributes(value, evidence)

    def read_exception(self, error: BaseException, evidence: Evidence) -> None:
        if evidence.kinds:
            evidence = Evidence()
            self.collected.append(evidence)
        kind = type(error)
        evidence.kinds.append(f"{kind.__module__}.{kind.__qualname__}")
        causes = [_attribute(error, name) for name in ("__cause__", "__context__")]
        group = _attribute(error, "exceptions")
        causes.extend(islice(group, 50) if isinstance(group, list | tuple) else ())
        for cause in reversed(causes):
            if isinstance(cause, BaseException):
                self.stack.append((cause, evidence, ""))
        self.stack.append((_attribute(error, "args"), evidence, ""))
        self.read_attributes(error, evidence)
        self.stack.append((_to_text(error), evidence, ""))

    def read_attributes(self, value: object, evidence: Evidence) -> None:
        answered = isinstance(value, BaseException) or isinstance(_attribute(value, "status_code"), int)
        for name in reversed(_ALWAYS + _OF_ANSWERS if answered else _ALWAYS):
            attribute = _attribute(value, name)
            if name == "url" and attribute is not None:
                attribute = _to_text(attribute)
            if attribute is not None and not callable(attribute):
                self.stack.append((attribute, evidence, name))
        if answered and _attribute(value, "text") is None:
            self.stack.append((_call_json(_attribute(value, "json")), evidence, "json"))
        if (asked := _attribute(_attribute(value, "request"), "url")) is not None:
            self.stack.append((_to_text(asked), evidence, "url"))
        self.stack.extend((end, evidence, "choices") for end in _answer_ends(_attribute(value, "choices")))

    def read_mapping(self, value: Mapping[Any, Any], evidence: Evidence) -> None:
        entries = islice(value.items(), _MAX_PLACES)
        items = [(key.lower(), inner) for key, inner in entries if isinstance(key, str)]
        is_refusal = any(key in _STATUS and _is_error_status(inner) for key, inner in items)
        # Ollama's answer has the key `done`, and there `response` holds the model's words.
        has_done = any(key == "done" for key, _ in items)
        ignored_keys = _CONTENT_KEYS | {"response"} if has_done else _CONTENT_KEYS
        for key, inner in reversed(items):
            if key in _NESTED:
                self.stack.extend((end, evidence, key) for end in _answer_ends(inner))
            elif key not in ignored_keys or (is_refusal and key in _BODY):
                self.stack.append((_to_text(inner) if key == "url" else inner, evidence, key))

    def read_number(self, value: int, evidence: Evidence, key: str) -> None:
        if key in _STATUS and 100 <= value <= 599:
            evidence.statuses.add(value)
        elif key in {"n_ctx", "n_prompt_tokens"}:
            evidence.numbers[key] = value

    def read_text(self, value: str | bytes | bytearray, evidence: Evidence, key: str) -> None:
        text = _excerpt(value)
        if key in _FINISH:
            evidence.finishes.add(text[:100].strip().lower())
        elif key in _PLACE:
            evidence.places.append(text[:300].lower())
        elif not text.strip():
            evidence.empty |= key in _BODY and not text
        elif text.strip().isdigit() and key in _STATUS:
            self.read_number(int(text.strip()[:6]), evidence, key)
        elif len(text) <= self.room and text not in evidence.texts:
            self.room -= len(text)
            parsed = _parse_json(text)
            if parsed is not None:
                self.stack.append((parsed, evidence, key))
            elif _EVENT_STREAM.search(text[:2_000]):
                events = list(islice(_events(text), _MAX_PLACES))
                self.stack.extend((event, evidence, key) for event in reversed(events))
            else:
                evidence.texts.append(text)


def _attribute(value: object, name: str) -> Any:
    with suppress(Exception):
        return getattr(value, name, None)
    return None


def _to_text(value: object) -> str:
    with suppress(Exception):
        return str(value)
    return ""


def _call_json(method: object) -> object:
    if not callable(method) or inspect.iscoroutinefunction(method):
        return None
    value: object = None
    with suppress(Exception):
        value = method()
    if inspect.iscoroutine(value):
        value.close()  # nobody awaits it, and Python would warn
    return value if isinstance(value, dict | list) else None


def _answer_ends(value: object) -> Iterator[Mapping[str, Any]]:
    """Yield how each answer ended, and its error, without its words."""
    for item in islice(value, 20) if isinstance(value, list | tuple) else ():
        if isinstance(item, Mapping):
            yield {
                key: item[key]
                for key in ("error", "finish_reason", "finishReason", "stop_reason")
                if key in item
            }
        else:
            fields = {key: _attribute(item, key) for key in ("error", "finish_reason", "stop_reason")}
            yield {key: field_value for key, field_value in fields.items() if field_value is not None}


def _is_error_status(status: object) -> bool:
    if isinstance(status, str):
        return status.isdigit() and status[:1] in "45" and len(status) == 3
    return isinstance(status, int) and 400 <= status <= 599


def _excerpt(value: str | bytes | bytearray) -> str:
    short = len(value) <= _HEAD_CHARS + _TAIL_CHARS
    if isinstance(value, str):
        return value if short else f"{value[:_HEAD_CHARS]}\n{value[-_TAIL_CHARS:]}"
    raw = value if short else value[:_HEAD_CHARS] + b"\n" + value[-_TAIL_CHARS:]
    return bytes(raw).decode("utf-8", "replace")


def _parse_json(text: str) -> object:
    if text.lstrip()[:1] not in {"{", "["}:
        return None
    try:
        parsed: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict | list) else None


def _events(text: str) -> Iterator[object]:
    """Yield the data of an event stream: JSON values, and the text of events that report an error."""
    failed = False
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        if name == "event":
            failed = rest.strip() == "error"
        elif name == "data":
            parsed = _parse_json(rest)
            if parsed is not None:
                yield parsed
            elif failed or '"error"' in rest:
                yield rest.strip()
