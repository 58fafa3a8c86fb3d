"""Sessions that are driven step by step; each step tells what a caller sees, as short hashes.

One driver serves threads and event loops: what a call gives is awaited where it can be.
"""

import asyncio
import inspect
import json
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from surface_histories import RULES, History, history
from surface_models import Model
from surface_values import (
    BUDGET,
    ENTRY,
    FOLD,
    HIT,
    OBSERVED,
    STATS,
    USAGE,
    canonical,
    digest,
    mask_names,
    outcome,
    pick,
    plain,
    receipt,
)

import refold


@dataclass(frozen=True, slots=True)
class Setting:
    """Which conversation is driven, and how the session is opened."""

    wire: str
    number: int
    policy: str
    ask: bool
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the case."""
        return f"{self.wire}-{self.number:03} {self.policy}{' ask' if self.ask else ''}"


SETTINGS = (
    Setting("openai", 1, "refold", True),
    Setting("anthropic", 3, "refold", True),
    Setting("gemini", 8, "refold", False),
    Setting("responses", 12, "refold", False),
    Setting("values", 3, "refold", True, {"format": "refold"}),
    Setting("openai", 4, "refold", False, {"model": "gpt-4o"}),
    Setting("openai", 5, "ripple", True),
    Setting("anthropic", 14, "codebuddy", True),
    Setting("gemini", 15, "umwelten", True),
    Setting("openai", 16, "neurolink", True),
    Setting("anthropic", 18, "opal", False),
    Setting("responses", 20, "refold", True, {"redaction": "storage"}),
)
EVENTS = {
    "usage_update": "tokens window ratio",
    "context_warning": "level used room reason",
    "compaction_start": "trigger",
    "compaction_end": "messages_before messages_after tokens_before tokens_after stages fold",
    "compaction_skipped": "reason until",
    "compaction_failed": "reason",
    "overflow": "provider limit requested recovered",
    "unfolded": "fold",
}
LONG = "prompt is too long: {} tokens > {} maximum"
WORDS = (
    "invoice",
    "ledger queue",
    "which header does the webhook write of src/core/orders.py",
    "nothing-like-this",
)


@dataclass(slots=True)
class Clock:
    """The time, as the driver sets it."""

    now: float = 1_900_000_000.0

    def __call__(self) -> float:
        return self.now


def _digest(value: Any) -> Any:
    """A hash, or the value itself where that is not longer than a line."""
    return value if len(canonical(value)) <= 40 else digest(value, 8)


async def wait_for(value: Any) -> Any:
    """What a call gave, waited for where the session belongs to an event loop."""
    return await value if inspect.isawaitable(value) else value


@dataclass(slots=True)
class Recorder:
    """The steps of one session, each with its fields."""

    steps: dict[str, Any] = field(default_factory=dict)
    full: dict[str, Any] = field(default_factory=dict)

    def note(self, label: str, **fields: Any) -> None:
        """Write down what a step gave."""
        label = f"{len(self.steps):02} {label}"
        self.full[label] = fields
        self.steps[label] = {key: _digest(mask_names(plain(found))) for key, found in fields.items()}

    async def call(self, label: str, made: Callable[[], Any], shown: Callable[[Any], Any] = plain) -> Any:
        """Call, and write down what it gave or which error it raised."""
        try:
            value = await wait_for(made())
        except refold.RefoldError as error:
            self.note(label, error=type(error).__name__)
            return None
        found = shown(value)
        self.note(label, **(found if isinstance(found, dict) and shown is not plain else {"value": found}))
        return value


def session_options(setting: Setting, **options: Any) -> dict[str, Any]:
    """The options a session of this setting is opened with."""
    one = _history(setting)
    made: dict[str, Any] = {"policy": setting.policy, "now": Clock(), **setting.more, **options}
    if "model" not in made:
        made["window"] = one.options.get("window", 4_000)
    if setting.ask:
        made["ask"] = Model(setting.number, one.language)
    return made


def _history(setting: Setting, scale: float = 1.0) -> History:
    return history(setting.wire, setting.number, scale=scale)


def session_rows(setting: Setting, *, asynchronous: bool = False) -> Recorder:
    """Drive one session in memory and give its steps."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", refold.RefoldWarning)
        return asyncio.run(_rows(setting, asynchronous))


async def _rows(setting: Setting, asynchronous: bool) -> Recorder:
    options = session_options(setting, store="memory:")
    make = refold.aopen if asynchronous else refold.open
    session = make("task", **options)
    recorder = Recorder()
    heard: list[Any] = []
    session.subscribe(lambda event: heard.append(_event(event)))
    await converse(session, _history(setting), options, recorder)
    await look(session, recorder)
    await change(session, recorder, options["now"])
    await _export(session, recorder, make, setting)
    recorder.note("events", kinds=[event["kind"] for event in heard], events=heard)
    entries = await wait_for(session.log())
    recorder.note("entries", kinds=[entry.kind for entry in entries])
    recorder.steps["names of the entries"] = digest([entry.name for entry in entries], 8)
    await wait_for(session.close())
    return recorder


def _event(event: Any) -> dict[str, Any]:
    shown = pick(event, EVENTS[event.kind]) | {"kind": event.kind, "session": event.session, "at": event.at}
    return shown | ({"receipt": receipt(event.receipt)} if event.kind == "compaction_end" else {})


async def converse(session: Any, one: History, options: dict[str, Any], recorder: Recorder) -> None:
    """Play a conversation: the first half as a list that the caller holds, the second half said."""
    clock = options["now"]
    half = len(one.messages) * 2 // 3
    around = {key: one.options[key] for key in ("system", "tools") if key in one.options}
    for end in range(2, half, max(2, half // 4)):
        clock.now += 60
        ready = await recorder.call(
            "prepare", lambda end=end: session.prepare(one.messages[:end], **around), _ready
        )
        if ready is not None:
            answer = usage(one.wire, int(ready.budget.used * 1.15) + 7, end)
            await recorder.call("observe", lambda answer=answer: session.observe(answer), _observed)
    await recorder.call("checkpoint", lambda: session.checkpoint("half"))
    await recorder.call("pin", lambda: session.pin("#2"))
    for message in one.messages[half:]:
        clock.now += 5
        await wait_for(session.say(message))
    said = await recorder.call("say", lambda: session.say(f"One more thing. {RULES[number_of(one)]}"))
    assert said is not None
    await recorder.call("needs", session.needs_compaction)
    await recorder.call("budget", session.budget, lambda value: {"budget": pick(value, BUDGET)})
    ready = await recorder.call(
        "prepare own", lambda: session.prepare(prompt="go on", files=["a file " * 40]), _ready
    )
    used = ready.budget.used
    refused = RuntimeError(LONG.format(max(6_000, used * 2), max(4_100, used)))
    await recorder.call("observe refusal", lambda: session.observe(refused), _observed)
    await recorder.call("observe other", lambda: session.observe(ValueError("no such key")), _observed)
    clock.now += 4_000
    await recorder.call("observe again", lambda: session.observe(usage(one.wire, used // 2, 9)), _observed)


def number_of(one: History) -> int:
    """Which rule is said last."""
    return one.number % len(RULES)


async def look(session: Any, recorder: Recorder) -> None:
    """Ask for everything a session shows."""
    await recorder.call("view", session.view)
    await recorder.call("log", session.log, lambda found: [pick(entry, ENTRY) for entry in found])
    await recorder.call("folds", session.folds, lambda found: [pick(fold, FOLD) for fold in found])
    for words in WORDS:
        await recorder.call(f"recall {words}", lambda words=words: session.recall(words, limit=4), _hits)
    for handle in ("#1", "#2-#4", -1, "#999", "no handle"):
        await recorder.call(f"original {handle}", lambda handle=handle: session.original(handle))
    await recorder.call("stats", session.stats, lambda value: {"stats": pick(value, STATS)})
    await recorder.call("recall tool", session.recall_tool)
    for arguments in ('{"query": "ledger"}', {"handle": "#1-#3"}, "no JSON", "{}"):
        await recorder.call("answer recall", lambda arguments=arguments: session.answer_recall(arguments))


async def change(session: Any, recorder: Recorder, clock: Clock) -> None:
    """Fold, unfold, rewind; look after each."""
    clock.now += 4_000
    await recorder.call("compact", lambda: session.compact(focus="the ledger", keep=2), _outcome)
    await recorder.call("view", session.view)
    clock.now += 4_000
    await recorder.call("compact by strategy", lambda: session.compact("truncate", target=900), _outcome)
    await recorder.call("folds", session.folds, lambda found: [pick(fold, FOLD) for fold in found])
    await recorder.call("unfold", session.unfold)
    await recorder.call("view", session.view)
    await recorder.call("unfold again", session.unfold)
    await recorder.call("view", session.view)
    await recorder.call("unpin", lambda: session.unpin("#2"))
    await recorder.call("rewind to a checkpoint", lambda: session.rewind("half"))
    await recorder.call("say", lambda: session.say("Another way."))
    await recorder.call("rewind", lambda: session.rewind("#5"))
    await recorder.call("say", lambda: session.say("A third way."))
    await recorder.call("prepare", session.prepare, _ready)
    await recorder.call("stats", session.stats, lambda value: {"stats": pick(value, STATS)})


async def _export(session: Any, recorder: Recorder, make: Any, setting: Setting) -> None:
    for form in ("ripple", "neurolink"):
        with tempfile.TemporaryDirectory() as folder:
            written = await recorder.call(
                f"export {form}",
                lambda folder=folder, form=form: session.export(folder, form=form),
                lambda paths: [str(path) for path in paths],
            )
            texts = [(Path(folder) / path).read_text(encoding="utf-8") for path in written or ()]
            recorder.note(f"files {form}", texts=texts)
            other = make("copy", **session_options(setting, store="memory:"))
            await recorder.call("import", lambda folder=folder, other=other: other.import_from(folder))
            await recorder.call("view of the import", other.view)
            await wait_for(other.close())


def usage(wire: str, tokens: int, output: int) -> dict[str, Any]:
    """A response that tells its usage as the provider does."""
    if wire == "anthropic":
        report = {
            "input_tokens": tokens // 3,
            "cache_read_input_tokens": tokens - tokens // 3,
            "output_tokens": output,
        }
        return {
            "type": "message",
            "role": "assistant",
            "content": [],
            "stop_reason": "end_turn",
            "usage": report,
        }
    if wire == "gemini":
        report = {
            "promptTokenCount": tokens,
            "candidatesTokenCount": output,
            "cachedContentTokenCount": tokens // 4,
        }
        return {"candidates": [{"finishReason": "STOP"}], "usageMetadata": report}
    if wire == "responses":
        report = {
            "input_tokens": tokens,
            "output_tokens": output,
            "input_tokens_details": {"cached_tokens": 5},
        }
        return {"object": "response", "status": "completed", "output": [], "usage": report}
    report = {"prompt_tokens": tokens, "completion_tokens": output}
    return {"choices": [{"message": {"role": "assistant"}, "finish_reason": "stop"}], "usage": report}


def _ready(ready: Any) -> dict[str, Any]:
    return {
        "messages": ready.messages,
        "budget": pick(ready.budget, BUDGET),
        "outcome": outcome(ready.outcome),
        "fold": ready.fold is not None,
    }


def _observed(observed: Any) -> dict[str, Any]:
    return {
        "messages": observed.messages,
        "facts": pick(observed, OBSERVED),
        "usage": pick(observed.usage, USAGE),
        "budget": pick(observed.budget, BUDGET),
        "outcome": outcome(observed.outcome),
    }


def _outcome(made: Any) -> dict[str, Any]:
    return {"messages": made.messages, "outcome": outcome(made)}


def _hits(hits: Any) -> Any:
    return [pick(hit, HIT) for hit in hits]


def setting_by_name(name: str) -> Setting:
    """The setting of a case."""
    return next(setting for setting in SETTINGS if setting.name == name)


def show(name: str) -> Any:
    """Everything the steps of a session gave."""
    return json.loads(json.dumps(plain(session_rows(setting_by_name(name)).full)))
