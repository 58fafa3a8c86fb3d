"""Conversations, models and stores for the tests of sessions."""

import json

import refold
from refold import formats
from refold.core.compaction.circuit_breaker import Limits
from refold.core.messages.message import Message, Text, ToolCall, ToolResult
from refold.testing import Scripted

SHAPES = ("openai", "responses", "anthropic", "gemini")
SUMMARY = (
    "The user asks numbered questions about the letters alpha, beta and gamma, and every one was answered "
    "with delta, epsilon and zeta. Nothing is open. Read were src/f1.py, src/f2.py and src/f3.py, and no "
    "decision was taken besides going on. The newest question waits for an answer of the same kind, and no "
    "file was changed by anybody on the way; where details are needed the numbers of the messages lead to them."
)


class Clock:
    """Time that stands still unless it is turned."""

    def __init__(self, time=1_000_000.0):
        self.time = time

    def __call__(self):
        return self.time


def talk(turns, *, size=400, last=True, start=0):
    """So many questions with their answers, and one question more."""
    done = []
    for number in range(start, start + turns):
        done.append(user(f"question {number} " + "alpha beta gamma " * (size // 16)))
        done.append(reply(f"answer {number} " + "delta epsilon zeta " * (size // 18)))
    return [*done, user("the last question")] if last else done


def user(text):
    return {"role": "user", "content": text}


def reply(text):
    return {"role": "assistant", "content": text}


def values(turns, *, size=300, tools=True):
    """A conversation with tool calls, as values of our own."""
    done = []
    for number in range(turns):
        done.append(Message("user", (Text(f"question {number} " + "alpha beta " * (size // 11)),)))
        if tools:
            call = ToolCall(f"call_{number}", "read_file", {"path": f"src/f{number}.py"})
            done.append(Message("assistant", (call,)))
            result = ToolResult(call.id, (Text(f"line {number} = 1\n" * (size // 11)),), name="read_file")
            done.append(Message("tool", (result,)))
        done.append(Message("assistant", (Text(f"answer {number} " + "gamma delta " * (size // 12)),)))
    return [*done, Message("user", (Text("the last question"),))]


def wired(messages, shape):
    """Values in a provider's own shape, as JSON that came over a wire."""
    return json.loads(json.dumps(formats.get(shape).render(messages)))


def without_ids(contents):
    """Gemini's calls and answers as most servers write them: without ids."""
    done = json.loads(json.dumps(contents))
    for content in done:
        for part in content["parts"]:
            for key in ("functionCall", "functionResponse"):
                part.get(key, {}).pop("id", None)
    return done


def opened(name="talk", *, store="memory:", window=8_000, **choices):
    return refold.open(name, store=store, window=window, **choices)


def folding(turns=40, *, size=800, answer=SUMMARY, **choices):
    """A session that was folded once with a model, the history, and what was given to send."""
    session = opened(ask=None if answer is None else Scripted(answer), **choices)
    history = talk(turns, size=size)
    ready = session.prepare(history)
    assert ready.fold is not None
    return session, history, ready


def limits(**fields):
    """How often a session may be compacted."""
    return Limits(**fields)


def kinds(session, *only):
    """What a session's branch has, in order."""
    return [one.kind for one in session.log() if not only or one.kind in only]


def stored(session):
    """How many entries the store holds for this session, on all branches."""
    return next((one.entries for one in session.state.store.sessions() if one.name == session.name), 0)


def sound(messages, shape=None):
    """Whether a provider takes it; a call that waits for its result is none of its business."""
    found = refold.validate(messages, format=shape)
    return [problem for problem in found if problem.rule not in {"open-call", "invalid-arguments"}]


def dumped(messages):
    return json.dumps(messages, ensure_ascii=False)


def usage(tokens, **more):
    return {
        "choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": "ok"}}],
        "usage": {"prompt_tokens": tokens, "completion_tokens": 10, **more},
    }
