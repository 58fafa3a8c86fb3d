"""Example calls that only have to pass a type checker; nobody runs them."""

from collections.abc import Sequence
from typing import Any, assert_type

import refold
from refold import presets
from refold.testing import Provider, Reply, Request, Scripted, assistant, call, result, shape, user

messages: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]
values: list[refold.Message] = [
    user("hi"),
    call("read", path="a.py"),
    result("c1", "x = 1"),
    assistant("done"),
]


def my_llm(ask: refold.Ask) -> str:
    """A model: from a question to a text."""
    return f"{ask.purpose}: {ask.text[:10]} ({ask.system}, {ask.max_tokens})"


def my_text_llm(prompt: str) -> str:
    """A model that knows nothing of refold."""
    return prompt[:10]


def my_answering_llm(ask: refold.Ask) -> refold.Answer:
    """A model that tells more than its text."""
    return refold.Answer(text=ask.text, finish="stop", input_tokens=1, output_tokens=1)


async def my_async_llm(ask: refold.Ask) -> str:
    """A model in an event loop."""
    return ask.text


def measuring() -> None:
    """Measure plain data and values."""
    budget = refold.measure(messages, model="gpt-4o", system="You help.", tools=[], prompt="go", files=["x"])
    assert_type(budget, refold.Budget)
    assert_type(budget.breakdown, refold.Breakdown)
    assert_type(budget.ratio, float)
    assert_type(budget.should_compact, bool)
    refold.measure(values, window="128k", policy="opal", count=len, usage={"prompt_tokens": 3})
    refold.measure((), window=128_000, policy=presets.get("ripple"), count="exact", format="gemini")
    assert_type(refold.count("text", model="gpt-4o", provider="openai", code=True), int)
    assert_type(refold.count(messages), int)
    assert_type(refold.fit_text("text", 10, model="gpt-4o"), str)
    fitted = refold.fit_files(["a", {"content": "b", "path": "b.py"}], model="gpt-4o", used=5, max_tokens=9)
    assert_type(fitted, tuple[refold.FittedFile, ...])
    assert_type(refold.window("gpt-4o"), refold.Window)
    assert_type(refold.window("gpt-4o").tokens, int)


def compacting() -> None:
    """Compact with every kind of model."""
    outcome = refold.compact(messages, model="gpt-4o", policy="refold", ask=my_llm)
    assert_type(outcome, refold.Outcome)
    assert_type(outcome.receipt, refold.Receipt)
    assert_type(outcome.edits, tuple[refold.Edit, ...])
    assert_type(outcome.summary, str | None)
    assert_type(outcome.files.read, tuple[str, ...])
    refold.compact(
        values, window=8_000, ask=my_text_llm, force=True, focus="files", target="4k", pins=[0, -1]
    )
    refold.compact(values, window=8_000, ask=my_answering_llm, must_fit=True, pins="m1")
    refold.compact(values, window=8_000, target=(3_000, "4k"))
    assert_type(outcome.fits, bool)
    assert_type(outcome.met_target, bool)
    refold.compact(values, ask=Scripted("a summary"))
    refold.compact(values, ask=None)


async def waiting() -> None:
    """Compact in an event loop."""
    outcome = await refold.acompact(messages, model="gpt-4o", ask=my_async_llm)
    assert_type(outcome, refold.Outcome)
    await refold.acompact(messages, ask=Scripted("a summary").later)
    await refold.acompact(messages, ask=my_llm)


def opening() -> None:
    """Open a client with every kind of option."""
    client = refold.open_client("local", window="4k", threads=2, total_seconds=30.0)
    assert_type(client, refold.Client)
    refold.compact(values, ask=client, usage={"prompt_tokens": 3}, tools=[], prompt="go", files=["x"])
    refold.compact(values, ask=["local", client], count="exact", format="openai", system="You help.")


def planning() -> None:
    """Plan, validate and repair."""
    plan = refold.plan(messages, model="claude-sonnet-4-20250514", with_model=False)
    assert_type(plan, refold.Plan)
    assert_type(plan.money_now, float | None)
    problems = refold.validate(messages, "anthropic")
    assert_type(problems, list[refold.Problem])
    assert_type(refold.validate(messages, format=None), list[refold.Problem])
    assert_type(refold.repair(messages), refold.Repaired)
    found = refold.overflow(ValueError("prompt is too long"))
    assert_type(found, refold.OverflowInfo | None)
    assert_type(refold.clip("text", max_bytes=10, max_lines=2, keep="both", save_to=str), refold.Clipped)


def facts_only(thread: refold.Thread) -> Sequence[refold.Message]:
    """A strategy."""
    return [user(f"{len(thread.messages)} messages left out")]


def registering() -> None:
    """Register, list and use strategies and presets."""
    assert_type(refold.register_strategy("facts", facts_only, description="facts"), refold.Strategy)
    assert_type(refold.list_strategies(), tuple[refold.Strategy, ...])
    assert_type(presets.get("ripple", keep_recent_messages=3), refold.Policy)
    assert_type(presets.ripple(keep_recent_messages=3), refold.Policy)


def raising() -> None:
    """Errors carry their facts."""
    try:
        refold.compact(messages, must_fit=True)
    except refold.DoesNotFit as error:
        assert_type(error.tokens, int)
        assert_type(error.breakdown, dict[str, int])
    except refold.FormatError as error:
        assert_type(error.path, str)


def local_provider() -> None:
    def answer(request: Request) -> Reply | None:
        return Reply("ok") if request.used > 100 else None

    with Provider(limit=4_000, answer=answer) as provider:
        provider.refuse_next = 1
        provider.fail_next(529, headers={"retry-after": "0"})
        assert_type(provider.url, str)
        assert_type([found.problem.rule for found in provider.problems], list[str])
        assert_type([request.used for request in provider.answered], list[int])


def testing() -> None:
    """Builders give values."""
    assert_type(shape(values), str)
    assert_type(Scripted("a").asked, list[refold.Ask])
