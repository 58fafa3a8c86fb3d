"""Providers that compact by themselves, and conversations that go on through them: no refusal, no loss.

Three fake providers sign or encrypt their compaction blocks as Anthropic, OpenAI and xAI do. Each reads only
its own blocks, of the organisation that a key belongs to, in the place where they have to stand; everything
else it refuses with a code of its own. A conversation grows turn by turn, by a caller who holds a list of its
own or goes on from what was sent. The provider compacts on demand, by a threshold, or by a threshold that
pauses the turn. The model is changed to one of another maker and back, the key is changed with a word and
without, the session is opened again, folds are undone. Then:

    no request was refused, but for the first one after a key was changed without a word
    every list that was sent is valid, and has one block at most
    the cost that the session tells is the sum of all passes that the providers report
    the size that the session tells is within 2 % of what the provider counts
    undoing all folds gives back the list, to the byte
"""

import hashlib
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from bench.processes import map_in_processes, split_in_batches
from bench.torture.ground import WORDS

import refold

Item = dict[str, Any]
LONG: Final = "it was looked at, changed and checked, " * 20
KEYS: Final = {"key-1": "org-a", "key-2": "org-b"}
"""The organisation of each key; blocks belong to the organisation."""


class Refused(Exception):
    """A request that the provider refuses, in the provider's own words."""

    def __init__(self, code: str) -> None:
        super().__init__(f"Error code: 400 - {{'error': {{'code': '{code}'}}}}")
        self.code = code


def _seal(*words: str) -> str:
    return hashlib.blake2b("\n".join(words).encode(), digest_size=12).hexdigest()


def _size(items: list[Item]) -> int:
    return sum(refold.count(_text(item)) + 4 for item in items)


def _text(item: Item) -> str:
    content = item.get("content") or ""
    blocks = [{"text": content}] if isinstance(content, str) else content
    return "\n".join(str(block.get("text") or block.get("content") or "") for block in blocks)


@dataclass
class Provider:
    """What the providers share: whom they bill, what they have refused, what they have read."""

    name: str
    wire: str
    model: str
    billed: int = 0
    """Input tokens of all passes."""
    refusals: list[str] = field(default_factory=list)
    last_size: int = 0
    """What the last request had, as the provider counts it."""
    unavailable: int = 0
    """Compactions that fail for now."""
    compactions: int = 0

    def compact(self, key: str, messages: list[Item]) -> Item:
        """Compact on demand."""
        raise NotImplementedError

    def send(self, key: str, messages: list[Item], *, threshold: int | None, pause: bool) -> Item:
        """Answer a turn."""
        raise NotImplementedError

    def _pass(self, kind: str, size: int, output: int) -> Item:
        self.billed += size
        return {"type": kind, "input_tokens": size, "output_tokens": output}

    def _refuse(self, code: str) -> Refused:
        self.refusals.append(code)
        return Refused(code)

    def _words_for(self, items: list[Item]) -> str:
        self.compactions += 1
        asked = [_text(item)[:60] for item in items if item.get("role") == "user"]
        return f"Compaction {self.compactions} of {len(items)} messages. Asked: {'; '.join(asked[-3:])}"


@dataclass
class Anthropic(Provider):
    """Messages with compaction on demand (signed, first, alone) and by threshold (encrypted, anywhere)."""

    name: str = "anthropic"
    wire: str = "anthropic"
    model: str = "anthropic:claude-opus-4-8"

    def compact(self, key: str, messages: list[Item]) -> Item:
        """Compact on demand."""
        read = self._read(key, messages)
        if self.unavailable:
            self.unavailable -= 1
            raise RuntimeError("Error code: 529 - {'error_code': 'compaction_unavailable'}")
        words = self._words_for(messages)
        block = {
            "type": "compaction",
            "content": words,
            "signature": _seal(KEYS[key], words),
            "tool_changes": [],
        }
        return self._answer([block], [self._pass("compaction", read, refold.count(words))], "compaction")

    def send(self, key: str, messages: list[Item], *, threshold: int | None, pause: bool) -> Item:
        """Answer a turn; compact first where it is over the threshold."""
        size = self._read(key, messages)
        passes, blocks = [], []
        if threshold is not None and size > threshold:
            words = self._words_for(messages)
            blocks = [
                {"type": "compaction", "content": words, "encrypted_content": _seal("e", KEYS[key], words)}
            ]
            passes = [self._pass("compaction", size, refold.count(words))]
            if pause:
                return self._answer(blocks, passes, "compaction")
            size = refold.count(words) + 4
        text = f"answer {self.billed} {LONG}"
        passes.append(self._pass("message", size, refold.count(text)))
        self.last_size = size
        return self._answer([*blocks, {"type": "text", "text": text}], passes, "end_turn")

    def _answer(self, blocks: list[Item], passes: list[Item], stop: str) -> Item:
        last = passes[-1] if passes[-1]["type"] == "message" else {"input_tokens": 0, "output_tokens": 0}
        usage = {key: last[key] for key in ("input_tokens", "output_tokens")}
        return {
            "type": "message",
            "role": "assistant",
            "model": self.model.partition(":")[2],
            "content": blocks,
            "stop_reason": stop,
            "usage": {**usage, "iterations": passes},
        }

    def _read(self, key: str, messages: list[Item]) -> int:
        """Return the size of what is read; what stands before a block is not."""
        blocks = [
            (at, place, block)
            for at, item in enumerate(messages)
            for place, block in enumerate(item["content"] if isinstance(item["content"], list) else ())
            if block.get("type") == "compaction"
        ]
        signed = [each for each in blocks if "signature" in each[2]]
        if len(blocks) > 1 and signed:
            raise self._refuse("compaction_block_ambiguous")
        for at, place, block in blocks:
            if "signature" in block and (at, place) != (0, 0):
                raise self._refuse("compaction_block_misplaced")
            ours = {
                _seal(KEYS[key], block["content"]): "signature",
                _seal("e", KEYS[key], block["content"]): "encrypted_content",
            }
            if not any(block.get(name) == seal for seal, name in ours.items()):
                raise self._refuse("compaction_signature_invalid")
        return _size(messages[blocks[-1][0] :] if blocks else messages)


@dataclass
class Responses(Provider):
    """OpenAI's Responses, and xAI's: an encrypted item, from an endpoint or by a threshold."""

    name: str = "openai"
    wire: str = "responses"
    model: str = "openai:gpt-5"

    def compact(self, key: str, messages: list[Item]) -> Item:
        """Compact by the endpoint: the user's messages and one item."""
        items = messages
        read = self._read(key, items)
        if self.unavailable:
            self.unavailable -= 1
            raise RuntimeError("Error code: 529 - compaction_unavailable")
        users = [item for item in items if item.get("role") == "user"]
        item = self._item(key, items, retained=len(users))
        spent = self._pass("compaction", read, refold.count(_open(item)["words"]))
        return {"object": "response.compaction", "output": [*users, item], "usage": spent}

    def send(self, key: str, messages: list[Item], *, threshold: int | None, pause: bool) -> Item:  # noqa: ARG002
        """Answer a turn; compact first where it is over the threshold."""
        items = messages
        size, output, passes = self._read(key, items), [], []
        if threshold is not None and size > threshold:
            output.append(self._item(key, items, retained=0))
            words = _open(output[0])["words"]
            passes = [self._pass("compaction", size, refold.count(words))]
            size = refold.count(words) + 4
        text = f"answer {self.billed} {LONG}"
        passes.append(self._pass("message", size, refold.count(text)))
        self.last_size = size
        content = [{"type": "output_text", "text": text, "annotations": []}]
        output.append({"type": "message", "role": "assistant", "content": content})
        usage = {"input_tokens": size, "output_tokens": refold.count(text), "iterations": passes}
        return {"object": "response", "status": "completed", "output": output, "usage": usage}

    def _item(self, key: str, items: list[Item], retained: int) -> Item:
        words = self._words_for(items)
        sealed = {"words": words, "retained": retained, "seal": _seal(self.name, KEYS[key], words)}
        return {
            "type": "compaction",
            "id": f"cmp_{self.compactions}",
            "encrypted_content": json.dumps(sealed).encode().hex(),
        }

    def _read(self, key: str, items: list[Item]) -> int:
        places = [at for at, item in enumerate(items) if item.get("type") == "compaction"]
        for at in places:
            sealed = _open(items[at])
            if sealed["seal"] != _seal(self.name, KEYS[key], sealed["words"]):
                raise self._refuse("invalid_encrypted_content")
        if not places:
            return _size(items)
        sealed = _open(items[places[-1]])
        first = places[-1] - sealed["retained"]
        shown = [
            {"content": _open(item)["words"]} if item.get("type") == "compaction" else item
            for item in items[max(0, first) :]
        ]
        return _size(shown)


def _open(item: Item) -> Item:
    opened: Item = json.loads(bytes.fromhex(item["encrypted_content"]))
    return opened


@dataclass
class Foreign(Provider):
    """A provider of another maker behind the same list: it reads no block at all."""

    def send(self, key: str, messages: list[Item], *, threshold: int | None, pause: bool) -> Item:  # noqa: ARG002
        """Answer a turn that has no block."""
        items = messages
        if '"compaction"' in json.dumps(items):
            raise self._refuse("invalid_encrypted_content")
        self.last_size = _size(items)
        self._pass("message", self.last_size, 3)
        text, usage = f"answer {self.billed} {LONG}", {"input_tokens": self.last_size, "output_tokens": 3}
        if self.wire == "anthropic":
            content = [{"type": "text", "text": text}]
            return {"type": "message", "content": content, "stop_reason": "end_turn", "usage": usage}
        content = [{"type": "output_text", "text": text, "annotations": []}]
        output = [{"type": "message", "role": "assistant", "content": content}]
        return {"object": "response", "status": "completed", "output": output, "usage": usage}


def make_providers() -> dict[str, tuple[Provider, Provider]]:
    """Return each provider with one of another maker that reads the same wire."""
    claude, gpt = "anthropic:claude-opus-4-8", "openai:gpt-5"
    return {
        "anthropic": (Anthropic(), Foreign("foreign", "anthropic", gpt)),
        "openai": (Responses(), Foreign("foreign", "responses", claude)),
        "xai": (
            Responses(name="xai", model="xai:grok-4"),
            Responses(name="openai", model=gpt),  # the same shape, and other keys to it
        ),
    }


@dataclass
class Talk:
    """A conversation with one provider: what was said, and what was found wrong."""

    names: str
    seed: int
    window: int = 5_000
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dice = random.Random(f"{self.names}-{self.seed}")  # noqa: S311
        self.own, self.other = make_providers()[self.names]
        self.provider, self.key = self.own, "key-1"
        self.store = refold.open_store("memory:")
        self.said: list[Item] = []
        self.held: list[Item] | None = [] if self.dice.random() < 0.4 else None
        """What a caller has who goes on from what was sent; None for one with a list of its own."""
        self.allowed = self.resends = self.checked = 0
        self.session = self._open()

    def _open(self) -> Any:
        return refold.open(
            "talk",
            store=self.store,
            model=self.provider.model,
            window=self.window,
            format=self.own.wire,
            native=self._compact,
            account=KEYS[self.key],
        )

    def _compact(self, request: Any) -> Any:
        return self.provider.compact(self.key, list(request))

    def turn(self, *, threshold: int | None = None, pause: bool = False) -> None:
        """Say something and get an answer, as a program does that holds its own list."""
        number = len(self.said)
        sent: list[Item] = []
        text = f"Step {number}: the port of service {number} is {9000 + number}. "
        text += " ".join(self.dice.choices(WORDS, k=self.dice.choice((10, 30, 90))))
        self.said.append({"role": "user", "content": text})
        held = self.said if self.held is None else [*self.held, self.said[-1]]
        before = len(self.provider.refusals)

        def call(messages: list[Item]) -> Item:
            nonlocal sent
            sent = messages
            self._check_list(messages)
            return self.provider.send(self.key, messages, threshold=threshold, pause=pause)

        response = self.session.send(call, held)
        self.resends += len(self.provider.refusals) - before
        self._check_size(threshold)
        answer = response["output"] if "output" in response else [_to_message(response)]
        self.said += answer
        self.held = None if self.held is None else [*sent, *answer]

    def _check_list(self, messages: list[Item]) -> None:
        for problem in refold.validate(messages, self.own.wire):
            self.problems.append(f"{problem.rule} at {problem.index} of {len(messages)}")
        if json.dumps(messages).count('"type": "compaction"') > 1:
            self.problems.append("two blocks in one list")

    def _check_size(self, threshold: int | None) -> None:
        budget = self.session.budget()
        told, counted = budget.used, self.provider.last_size
        if threshold is None and budget.count_source == "usage+estimate":
            self.checked += 1
            if abs(told - counted) > max(40, 0.02 * counted):
                self.problems.append(f"the session tells {told} tokens, the provider counts {counted}")

    def change(self, what: str) -> None:
        """Change something about the conversation."""
        if what == "model":
            self.provider = self.other if self.provider is self.own else self.own
            self.session.use(model=self.provider.model, window=self.window)
        elif what == "key":
            self.key = "key-2" if self.key == "key-1" else "key-1"
            self.session.use(account=KEYS[self.key])
        elif what == "key without a word":
            self.key = "key-2" if self.key == "key-1" else "key-1"
            self.allowed += 1
        elif what == "open again":
            self.session = self._open()
        elif what == "unfold":
            self.session.unfold()
        elif what == "unavailable":
            self.own.unavailable = self.dice.choice((1, 2))

    def finish(self) -> list[str]:
        """Check the sums and that every fold can be undone."""
        for provider in (self.own, self.other):  # what one says of a key tells nothing about the other's
            if len(provider.refusals) > self.allowed:
                self.problems.append(
                    f"{provider.name}: {len(provider.refusals)} refusals, {self.allowed} allowed"
                )
        stats = self.session.stats()
        told, billed = stats.totals.input + stats.summaries.input, self.own.billed + self.other.billed
        if told != billed:
            self.problems.append(f"the session tells {told} tokens of input, the providers billed {billed}")
        self.session.use(model=self.own.model, window="10m")
        self.session.prepare(self.said if self.held is None else self.held)  # with the last answer
        while self.session.unfold() is not None:
            pass
        if self.session.view() != self.said:
            self.problems.append("unfolding does not give back the list")
        return self.problems


def _to_message(response: Item) -> Item:
    return {"role": "assistant", "content": response["content"]}


CHANGES: Final = ("model", "key", "open again", "unavailable")
UNTOLD: Final = ("model", "key without a word")


def play(names: str, seed: int, turns: int = 80) -> Talk:
    """Play one conversation; its way of compaction and its changes follow from the seed."""
    talk = Talk(names, seed)
    by = talk.dice.choice(("demand", "threshold", "pause"))
    changes: tuple[str, ...] = CHANGES if talk.dice.random() < 0.8 else UNTOLD
    if by == "demand" and changes is CHANGES:
        changes = (*CHANGES, "unfold")
    for _ in range(turns):
        limit = None if by == "demand" else 1_500
        talk.turn(threshold=limit, pause=by == "pause")
        if talk.dice.random() < 0.2:
            talk.change(talk.dice.choice(changes))
    return talk


def try_talk(names: str, seed: int, turns: int = 80) -> dict[str, Any]:
    """Play a conversation to its end, and return what was found."""
    try:
        talk = play(names, seed, turns)
        folds = len(talk.session.folds())
        return {"folds": folds, "resends": talk.resends, "sizes": talk.checked, "faults": talk.finish()}
    except Exception as error:  # noqa: BLE001  # a crash is what is looked for
        return {"folds": 0, "resends": 0, "sizes": 0, "faults": [f"{type(error).__name__}: {error}"]}


def campaign(*, seed: int, count: int, told: Callable[[str], None], jobs: int = 1) -> dict[str, Any]:
    """Play many conversations with each provider."""
    cases = [(names, seed * 1_000_000 + number) for names in make_providers() for number in range(count)]
    found: list[dict[str, Any]] = []

    def try_batch(numbers: range) -> list[dict[str, Any]]:
        return [try_talk(*cases[number]) for number in numbers]

    for batch in map_in_processes(try_batch, split_in_batches(len(cases), 10), jobs):
        found += batch
    named = zip(cases, found, strict=True)
    faults = [f"{case[0]} {case[1]}: {fault}" for case, one in named for fault in one["faults"]]
    told(f"{len(cases)} conversations, {sum(bool(one['faults']) for one in found)} wrong")
    return {
        "conversations": len(cases),
        "folds": sum(one["folds"] for one in found),
        "resends": sum(one["resends"] for one in found),
        "sizes_compared": sum(one["sizes"] for one in found),
        "wrong": sum(bool(one["faults"]) for one in found),
        "faults": faults[:20],
    }
