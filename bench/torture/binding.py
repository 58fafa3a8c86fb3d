"""A server that binds thinking to its exact prefix, and long conversations in which everything is changed.

The server signs each thinking block with a hash of what stood before it: the model, the system prompt, the
tools, every message to the byte. It refuses a request in which a block stands behind anything else. Sessions
of 300 turns meet each stage, folds, unfolds, rewinds, other system prompts, other tools, other models, pins,
a second writer, refusals for size and new processes. Callers hand in their own list, continue the views, or
say one message at a time.
"""

import hashlib
import json
import random
from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from bench.processes import map_in_processes

import refold
from refold.stages.arguments import TrimArguments
from refold.stages.clamp import Clamp
from refold.stages.clip import Clip
from refold.stages.dedupe import Dedupe
from refold.stages.offload import Offload
from refold.stages.prune import Prune
from refold.stages.slide import Slide
from refold.stages.strip import Strip
from refold.stages.thinking import DropThinking
from refold.stores import open_store

Item = dict[str, Any]
KNOWN: Final = ("claude-opus-5-5", "anthropic:claude-sonnet-5-5")
"""Models of which the facts say that they bind thinking."""
UNKNOWN: Final = ("claude-opus-9", "anthropic:claude-sonnet-9")
"""Models of which nothing is known."""
CALLERS: Final = ("list", "view", "say", "send")
"""Who holds the history: the caller all of it, the caller the last view, the session; or `session.send`."""
_WINDOW: Final = 3_000
_LIMIT: Final = 4_500
"""Tokens above which the server refuses for size: rarely, because the sessions fold before."""
_REFUSAL: Final = "Invalid `signature` in `thinking` block. The block is bound to a different conversation."
_SYSTEMS: Final = ("You port code.", "You port code, and run the tests.")
_TOOLS: Final = [{"name": "read", "input_schema": {"type": "object"}}], [{"name": "grep", "input_schema": {}}]


STAGES: Final[dict[str, Any]] = {
    "arguments": TrimArguments(limit=60),
    "arrival": Clip(max_bytes=600, on_arrival=True),
    "clamp": Clamp(),
    "clip": Clip(max_bytes=600),
    "dedupe": Dedupe(),
    "offload": Offload(),
    "prune": Prune(protect_tokens=500, least_savings=100),
    "slide": Slide(role="user"),
    "strip": Strip(limit=100),
    "thinking": DropThinking(),
}
SYSTEMS: Final = ("ripple", "codebuddy", "umwelten", "neurolink", "opal")
POLICIES: Final = ("refold", "summary", *STAGES, *SYSTEMS)
"""The default without and with a summariser, each stage before what reaches any size, the five systems."""


def find_policy(name: str) -> refold.Policy:
    """Return the policy of a conversation."""
    if name in SYSTEMS:
        return refold.presets.get(name)
    policy = refold.presets.get("refold")
    return replace(policy, stages=(STAGES[name], *policy.stages[3:])) if name in STAGES else policy


class Refused(Exception):
    """The server's answer to a request that it does not take."""


class Prefix:
    """The hash of everything before a block, to the byte; it grows message by message."""

    def __init__(self, model: str, system: Any, tools: Any) -> None:
        self._hash = hashlib.sha256(json.dumps([model.rpartition(":")[2], system, tools]).encode())

    def add(self, message: Item) -> None:
        """Stand behind one more message."""
        self._hash.update(json.dumps(message).encode())

    def sign(self, blocks: list[Item]) -> str:
        """Return the signature of a block that stands behind these in the next message."""
        inside = self._hash.copy()
        inside.update(json.dumps(blocks).encode())
        return inside.hexdigest()

    def takes(self, message: Item) -> bool:
        """True if all thinking in the next message was made behind this prefix."""
        blocks = _blocks(message)
        return all(
            block.get("signature", block.get("data")) == self.sign(blocks[:place])
            for place, block in enumerate(blocks)
            if _is_thinking(block)
        )


@dataclass
class Server:
    """Answers requests, and refuses thinking behind another prefix than its own."""

    rng: random.Random
    model: str
    requests: int = 0
    refusals: int = 0
    """Requests that were refused for their thinking."""
    too_long: int = 0
    shown: int = 0
    """Blocks of thinking in all requests that were taken."""
    invalid: list[str] = field(default_factory=list)

    def answer(self, messages: list[Item], system: Any, tools: Any) -> Item:
        """Return an answer to a request."""
        self.requests += 1
        prefix = Prefix(self.model, system, tools)
        for place, message in enumerate(messages):
            if not prefix.takes(message):
                self.refusals += 1
                words = (
                    "Invalid `signature` in `thinking` block. The block is bound to a different conversation."
                )
                raise Refused(f"Error code: 400 - messages.{place}.content.0: {words}")
            prefix.add(message)
        self.invalid += [str(problem) for problem in refold.validate(messages, "anthropic")]
        tokens = len(json.dumps(messages)) // 4
        if tokens > _LIMIT:
            self.too_long += 1
            raise Refused(f"prompt is too long: {tokens} tokens > {_LIMIT} maximum")
        self.shown += sum(_is_thinking(block) for message in messages for block in _blocks(message))
        content = self._write_content(prefix)
        reason = "tool_use" if content[-1]["type"] == "tool_use" else "end_turn"
        usage = {"input_tokens": tokens, "output_tokens": 50}
        return {
            "type": "message",
            "role": "assistant",
            "content": content,
            "stop_reason": reason,
            "usage": usage,
        }

    def _write_content(self, prefix: Prefix) -> list[Item]:
        number = self.requests
        content: list[Item] = []
        kinds = self.rng.choice(("tc", "tc", "tc", "tx", "rxc", "txtc", "xc", "t", "tfto"))
        for kind in kinds.replace("o", "c"):
            made = prefix.sign(content)
            words = f"Step {number}: " + " ".join(self.rng.choices(("look", "at", "the", "parser"), k=30))
            call = {"path": f"src/{number % 9}.py", "why": words * 2}
            content.append(
                {
                    "t": {"type": "thinking", "thinking": words, "signature": made},
                    "r": {"type": "redacted_thinking", "data": made},
                    "f": {"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}},
                    "x": {"type": "text", "text": words},
                    "c": {"type": "tool_use", "id": f"toolu_{number}", "name": "read", "input": call},
                }[kind]
            )
        return content


def _blocks(message: Item) -> list[Item]:
    return message["content"] if isinstance(message["content"], list) else []


def _is_thinking(block: Item) -> bool:
    return block["type"] in ("thinking", "redacted_thinking")


@dataclass
class Tally:
    """What one conversation has met."""

    turns: int = 0
    refusals: int = 0
    too_long: int = 0
    folds: int = 0
    shown: int = 0
    needless: int = 0
    """Messages that were sent without thinking which the server would have taken."""
    faults: list[str] = field(default_factory=list)


class Player:
    """One conversation of a caller with the server, through a session."""

    def __init__(self, policy: str, caller: str, *, models: tuple[str, str], seed: int) -> None:
        self.rng = random.Random(f"{policy} {caller} {models} {seed}")  # noqa: S311  # nothing is kept secret
        self.caller, self.models, self.policy = caller, models, policy
        self.server = Server(self.rng, models[0])
        self.system, self.tools = _SYSTEMS[0], _TOOLS[0]
        self.list: list[Item] = []
        self.waiting: list[str] = []
        """Ids of the calls that have no result yet."""
        self.made: dict[str, Item] = {}
        """Every answer with thinking, by what it has beside it."""
        self.tally, self.number = Tally(), 0
        self.store = open_store("memory:")
        self.session = self.open()

    def open(self) -> Any:
        """Open the session anew, as another process does."""
        asks = self.policy == "summary" or self.policy in SYSTEMS
        ask: Any = (lambda _question: "Work went on; src/0.py was read.") if asks else None
        model, policy = self.server.model, find_policy(self.policy)
        return refold.open(
            "talk", store=self.store, model=model, window=_WINDOW, format="anthropic", policy=policy, ask=ask
        )

    def play(self, turns: int) -> Tally:
        """Play some turns; something is changed before every third of them."""
        changes: tuple[Callable[[], object], ...] = (
            *(self.unfold, self.rewind, self.change_system, self.change_tools, self.change_model),
            *(self.fold, self.pin, self.reopen, self.write_beside, self.session_unfold_all),
        )
        for _ in range(turns):
            if self.rng.random() < 0.34:
                self.rng.choice(changes)()
            self.take_turn()
        tally, server = self.tally, self.server
        tally.turns, tally.folds = turns, len(self.session.folds())
        tally.refusals, tally.too_long, tally.shown = server.refusals, server.too_long, server.shown
        tally.faults += server.invalid
        return tally

    # --- one turn

    def take_turn(self) -> None:
        """Say something, send the view, take in the answer."""
        self.number += 1
        message = self.write_message()
        if self.caller == "say":
            self.session.say(message)
        else:
            self.list.append(message)
        if self.caller == "send":
            answer = self.session.send(self.call, self.list, system=self.system, tools=self.tools, say=False)
            self.take_in(answer)
            return
        given = None if self.caller == "say" else self.list
        if self.caller == "list" and self.rng.random() < 0.5:
            given = deepcopy(self.list)
        ready = self.session.prepare(given, system=self.system, tools=self.tools)
        sent, answer = ready.messages, None
        while answer is None:
            try:
                answer = self.call(sent)
            except Refused as error:  # for its thinking once, for its size once
                observed = self.session.observe(error)
                sent = observed.messages
                if not observed.send_again:
                    raise
        self.session.observe(answer)
        if self.caller == "view":
            self.list = list(sent)
        self.take_in(answer)

    def call(self, messages: list[Item]) -> Item:
        """Send a request."""
        sent = json.loads(json.dumps(messages))
        self.count_needless(sent)
        return self.server.answer(sent, self.system, self.tools)

    def take_in(self, answer: Item) -> None:
        """Append the answer where this caller keeps its history."""
        message = {"role": "assistant", "content": answer["content"]}
        if any(map(_is_thinking, answer["content"])):
            self.made[self.name(message)] = message
        if self.caller == "say":
            self.session.say(message)
        else:
            self.list.append(message)
        self.waiting = [block["id"] for block in answer["content"] if block["type"] == "tool_use"]

    def write_message(self) -> Item:
        """Return the results of the last calls, or words of the user."""
        lines = "".join(f"line {line} of {self.number % 5}\n" for line in range(self.rng.choice((3, 20, 60))))
        if not self.waiting:
            return {"role": "user", "content": f"Go on with part {self.number}. {lines[:200]}"}
        waiting, self.waiting = self.waiting, []
        return {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": each, "content": lines} for each in waiting],
        }

    @staticmethod
    def name(message: Item) -> str:
        """Return an answer by what it has beside its thinking."""
        return json.dumps([block for block in _blocks(message) if not _is_thinking(block)])

    def count_needless(self, messages: list[Item]) -> None:
        """Count the answers without thinking that would be taken with it, unless the caller has lost it."""
        if self.caller == "view":
            return
        prefix = Prefix(self.server.model, self.system, self.tools)
        for message in messages:
            made = self.made.get(self.name(message)) if message["role"] == "assistant" else None
            if made is not None and len(made["content"]) != len(_blocks(message)):
                self.tally.needless += prefix.takes(made)
            prefix.add(message)

    # --- changes

    def unfold(self) -> None:
        """Undo the last fold."""
        self.session.unfold()

    def session_unfold_all(self) -> None:
        """Undo every fold."""
        while self.session.unfold():
            pass

    def rewind(self) -> None:
        """Go back a few messages."""
        said = self.session.stats().said
        if said < 12 or self.caller == "view":
            return
        to = said - self.rng.randint(1, 9)
        self.session.rewind(f"#{to}")
        log = self.session.log(kinds=("said",))
        last = log[-1].value
        calls = [block["id"] for block in _blocks(last) if block["type"] == "tool_use"]
        self.waiting = calls if last["role"] == "assistant" else []
        if self.caller != "say":
            self.list = self.list[:to]
        if last["role"] == "user":  # somebody has to answer before the user speaks again
            self.take_in({"content": [{"type": "text", "text": f"Back at {to}, in turn {self.number}."}]})

    def change_system(self) -> None:
        """Send another system prompt."""
        self.system = self.rng.choice(_SYSTEMS)

    def change_tools(self) -> None:
        """Send other tools."""
        self.tools = self.rng.choice(_TOOLS)

    def change_model(self) -> None:
        """Go on with another model."""
        self.server.model = self.rng.choice(self.models)
        self.session.use(model=self.server.model, window=_WINDOW)

    def fold(self) -> None:
        """Fold now."""
        self.session.compact()

    def pin(self) -> None:
        """Keep a message in every view."""
        said = self.session.stats().said
        if said:
            self.session.pin(f"#{self.rng.randint(1, said)}")

    def reopen(self) -> None:
        """Go on in another process."""
        self.session = self.open()

    def write_beside(self) -> None:
        """Have another process say something, where no list of the caller's would lack it."""
        if self.caller == "say" and not self.waiting:
            self.open().say({"role": "user", "content": f"By the way, {self.number}."})


def play(policy: str, caller: str, *, known: bool, turns: int, seed: int = 3) -> Tally:
    """Play one conversation; return what it met."""
    player = Player(policy, caller, models=KNOWN if known else UNKNOWN, seed=seed)
    try:
        return player.play(turns)
    except Exception as error:  # noqa: BLE001  # whatever it is, the turn is lost
        player.tally.faults.append(f"turn {player.number}: {type(error).__name__}: {error}")
        return player.tally


def campaign(*, seed: int, turns: int, told: Callable[[str], None] = print, jobs: int = 1) -> dict[str, Any]:
    """Play every policy with every caller, with the facts and without; return what was met."""
    plays = [(policy, caller, known) for known in (True, False) for policy in POLICIES for caller in CALLERS]

    def work(one: tuple[str, str, bool]) -> Tally:
        policy, caller, known = one
        return play(policy, caller, known=known, turns=turns, seed=seed)

    sums = {known: Tally() for known in (True, False)}
    faults: list[str] = []
    for (policy, caller, known), tally in zip(plays, map_in_processes(work, plays, jobs), strict=True):
        name = f"{policy} {caller} {'with' if known else 'without'} facts"
        if tally.refusals > (0 if known else 1):
            faults.append(f"{name}: {tally.refusals} refusals")
        faults += [f"{name}: {fault}" for fault in tally.faults[:3]]
        total = sums[known]
        for key, value in asdict(tally).items():
            setattr(total, key, getattr(total, key) + value)
        if caller == CALLERS[-1]:
            told(f"{policy} {'with' if known else 'without'} facts: {len(faults)} wrong so far")
    counts = {
        "with_facts": {key: value for key, value in asdict(sums[True]).items() if key != "faults"},
        "without_facts": {key: value for key, value in asdict(sums[False]).items() if key != "faults"},
    }
    return {"conversations": len(plays), **counts, "wrong": len(faults), "faults": faults[:20]}
