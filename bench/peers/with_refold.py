"""Refold behind the same protocol as its peers; the way is a policy's name.

Set up as docs/library.md says: `refold.compact(messages, window=...)` for a history at hand, a session with
`say` and `prepare` for a conversation that goes on. The window is the budget. Thinking blocks are
Anthropic's, so conversations that have some are compacted in Anthropic's shape.
"""

import copy
import json
from collections.abc import Callable
from typing import Any

from serving import HUGE, Adapter, Answer, Messages, Thunk, at_once, serve, tokens

import refold

PREPARING = ("prepare", "lists", "copies", "folded", "view")
"""Ways of a session that is handed a list in every turn."""
FOLDED_TOKENS = 100_000
"""What a fold leaves at most: half of the 200,000 tokens at which the default folds."""


class Asked:
    """Somebody who answers, with a window that the library can read."""

    def __init__(self, ask: Callable[[str], Answer], window: int) -> None:
        self.ask, self.window = ask, window

    def __call__(self, question: refold.Ask) -> "refold.Answer | str":
        """The answer; with its end where that is not the ordinary one."""
        said = self.ask(f"{question.system}\n\n{question.text}")
        if said.finish == "stop":
            return said.text
        return refold.Answer(text=said.text, finish=said.finish, calls=said.calls)


class Refold(Adapter):
    """A policy; for timing also `stateless`, in a `session`, with a `model`, or only to `truncate`.

    `prepare`, `lists` and `copies` prepare the whole history that the caller holds: the same list that has
    grown, another list of the same dicts, and other dicts with the same words, as a gateway reads them.
    `folded` does what `prepare` does, behind a fold; `view` then continues the view that it was given.
    """

    package = "refold"
    ways = (
        "refold",
        "ripple",
        "codebuddy",
        "umwelten",
        "neurolink",
        "opal",
        "stateless",
        "session",
        "model",
        "truncate",
        "prepare",
        "lists",
        "copies",
        "folded",
        "view",
    )

    def __init__(self, way: str) -> None:
        super().__init__(way)
        self.policy = way if way in self.ways[:6] else "refold"
        self.session: refold.Session | None = None
        self.asked = Asked(at_once, 128_000)

    def fold(self, messages: Messages, budget: int, ask: Callable[[str], Answer], window: int) -> Messages:
        """Compact at once."""
        if any(message.get("type") == "compaction" for message in messages):  # items of the Responses API
            asked = Asked(ask, window)
            done = refold.compact(messages, format="responses", window=budget, policy=self.policy, ask=asked)
            return done.messages
        thought = any(isinstance(message.get("content"), list) for message in messages)
        given = to_anthropic(messages) if thought else messages
        wire = "anthropic" if thought else "openai"
        asked = Asked(ask, window)
        outcome = refold.compact(given, format=wire, window=budget, policy=self.policy, ask=asked)
        return to_openai(outcome.messages) if thought else outcome.messages

    def start(self) -> None:
        """A new session in memory."""
        self.session = None

    def turn(self, messages: Messages, budget: int, ask: Callable[[str], Answer], window: int) -> Messages:
        """Say what was said and prepare the request."""
        late = self.told.get("meanwhile", [])

        def asked(prompt: str) -> Answer:
            if late and self.session is not None:
                self.session.say([late.pop()])
            return ask(prompt)

        self.asked.ask, self.asked.window = asked, window
        if self.session is None:
            self.session = refold.open(
                "matrix",
                store="memory:",
                policy=self.policy,
                window=budget,
                ask=self.asked,
                format="openai",
                redaction="export" if self.told.get("redact") else "off",
            )
        self.session.say(messages)
        view: Messages = self.session.prepare().messages
        return view

    def kept(self) -> str:
        """The log: everything that was said."""
        assert self.session is not None  # noqa: S101  # a conversation was started
        return "\n".join(entry.body for entry in self.session.log() if entry.kind == "said")

    def decide(self, messages: Messages) -> Callable[[], Thunk]:
        """One message more, and whether it is time; or the whole list, for those without a session."""
        if self.way == "stateless":
            return lambda: lambda: refold.measure(messages, window=HUGE).should_compact
        never = refold.presets.get("refold", trigger_tokens=None)  # by default 200,000 tokens are folded
        session = refold.open("bench", store="memory:", window=HUGE, policy=never)
        if self.way in PREPARING:
            return self._preparing(session, messages)
        session.say(messages)
        session.prepare()

        def turned() -> object:
            session.say({"role": "user", "content": "And now the next module, please."})
            return session.needs_compaction()

        return lambda: turned

    def _preparing(self, session: refold.Session, messages: Messages) -> Callable[[], Thunk]:
        """One message more, and the whole list handed in again."""
        session.prepare(messages)
        if self.way in ("folded", "view"):
            session.compact(target=min(tokens(messages) // 4, FOLDED_TOKENS))
        ready = session.prepare(messages)
        messages = ready.messages if self.way == "view" else messages

        def fresh() -> Thunk:
            messages.append({"role": "user", "content": "And now the next module, please."})
            again = list(messages) if self.way == "lists" else messages
            again = copy.deepcopy(again) if self.way == "copies" else again
            return lambda: session.prepare(again)

        return fresh

    def act(self, messages: Messages) -> Callable[[], Thunk]:
        """Compact to a quarter, without a model unless the way is `model`."""
        if self.way in ("truncate", "session"):
            return lambda: self._truncation(messages) if self.way == "truncate" else self._fold(messages)
        ask = Asked(at_once, 128_000) if self.way == "model" else None
        whole = tokens(messages)  # our own count would be remembered, and the first run be none

        def cut() -> object:
            return refold.compact(messages, window=whole, target=whole // 4, ask=ask).messages

        return lambda: cut

    @staticmethod
    def _fold(messages: Messages) -> Thunk:
        """A whole fold in a session that has heard and counted the messages before."""
        whole = refold.count(messages)
        policy = refold.presets.get("refold", trigger_tokens=None, target_fraction=0.25, reserve_tokens=0)
        session = refold.open("bench", store="memory:", window=whole, policy=policy)
        session.say(messages)
        return session.prepare

    @staticmethod
    def _truncation(messages: Messages) -> Thunk:
        """Old messages leave the view of a session, the last quarter stays; nothing is told about them."""
        session = refold.open("bench", store="memory:", window=HUGE)
        session.say(messages)
        session.prepare()
        return lambda: session.compact("truncate", keep=len(messages) // 4)

    def count(self, messages: Messages) -> Thunk:
        """Exact o200k with framing, as `refold[exact]` counts it."""
        return lambda: refold.measure(messages, model="gpt-4o", window=HUGE, count="exact").breakdown.total

    def estimate(self, messages: Messages) -> Thunk:
        """The calibrated estimate."""
        return lambda: refold.count(messages)


def to_anthropic(messages: Messages) -> Messages:
    """The same conversation as Anthropic writes it: results in user messages, calls as blocks."""
    made: Messages = []
    for message in messages:
        content = message.get("content")
        blocks: list[dict[str, Any]] = [{"type": "text", "text": content}] if isinstance(content, str) else []
        blocks = list(content) if isinstance(content, list) else blocks
        if message["role"] == "tool":
            block = {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": content}
            if made[-1]["role"] == "user" and made[-1]["content"][0].get("type") == "tool_result":
                made[-1]["content"].append(block)
            else:
                made.append({"role": "user", "content": [block]})
            continue
        for call in message.get("tool_calls", ()):
            arguments = json.loads(call["function"]["arguments"])
            name = call["function"]["name"]
            blocks.append({"type": "tool_use", "id": call["id"], "name": name, "input": arguments})
        made.append({"role": message["role"], "content": blocks})
    return made


def to_openai(messages: Messages) -> Messages:
    """Back from Anthropic's shape; thinking blocks stay blocks."""
    made: Messages = []
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        said = [block for block in blocks if block["type"] in ("text", "thinking", "redacted_thinking")]
        for block in blocks:
            if block["type"] == "tool_result":
                inner = block["content"]
                text = inner if isinstance(inner, str) else "".join(part.get("text", "") for part in inner)
                made.append({"role": "tool", "tool_call_id": block["tool_use_id"], "content": text})
        calls = [
            {
                "id": block["id"],
                "type": "function",
                "function": {"name": block["name"], "arguments": json.dumps(block["input"])},
            }
            for block in blocks
            if block["type"] == "tool_use"
        ]
        if said or calls:
            made.append(
                {"role": message["role"], "content": said, **({"tool_calls": calls} if calls else {})}
            )
    return made


if __name__ == "__main__":
    serve(Refold)
