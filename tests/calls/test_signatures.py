"""Every public call shows its parameters, their types and their defaults at run time."""

import inspect
import typing

import pytest

import refold
from refold import presets


def public_calls():
    """Every function of the package, and every method of its classes, by name."""
    for name in refold.__all__:
        value = getattr(refold, name)
        if inspect.isfunction(value):
            yield name, value
        elif inspect.isclass(value) and not issubclass(value, BaseException):
            for inner, method in inspect.getmembers(value, inspect.isfunction):
                if not inner.startswith("_") and method.__module__.startswith("refold"):
                    yield f"{name}.{inner}", method
    for name, make in presets.PRESETS.items():
        yield f"presets.{name}", make


CALLS = dict(public_calls())


@pytest.mark.parametrize("name", CALLS)
def test_no_call_hides_its_parameters(name):
    """`help(refold.compact)` lists what it takes; nothing is behind `**options`."""
    kinds = {parameter.kind for parameter in inspect.signature(CALLS[name]).parameters.values()}
    assert inspect.Parameter.VAR_KEYWORD not in kinds


@pytest.mark.parametrize("name", CALLS)
def test_types_of_every_call_resolve_at_run_time(name):
    """Tools that read annotations, such as a documentation generator, need no type checker."""
    hints = typing.get_type_hints(CALLS[name])
    parameters = [each for each in inspect.signature(CALLS[name]).parameters if each != "self"]
    assert set(parameters) <= set(hints)


@pytest.mark.parametrize("name", CALLS)
def test_every_call_says_what_it_returns(name):
    """No call shows a generator that only its own driver understands."""
    assert "Generator" not in str(typing.get_type_hints(CALLS[name]).get("return"))


SHARED = ("model", "window", "system", "tools", "prompt", "files", "policy", "count", "usage", "format")
OF_A_COMPACTION = ("force", "focus", "target", "pins", "must_fit")


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("measure", SHARED),
        ("compact", ("ask", *SHARED, *OF_A_COMPACTION, "ask_timeout")),
        ("acompact", ("ask", *SHARED, *OF_A_COMPACTION, "ask_timeout")),
        ("plan", ("with_model", "summariser", "ask_window", *SHARED, *OF_A_COMPACTION)),
    ],
)
def test_the_calls_on_messages_take_the_same_options_in_the_same_order(name, options):
    parameters = inspect.signature(CALLS[name]).parameters
    assert tuple(parameters) == ("messages", *options)
    assert all(parameters[option].kind is inspect.Parameter.KEYWORD_ONLY for option in options)


def test_the_calls_agree_on_their_defaults():
    of_compact = inspect.signature(refold.compact).parameters
    for name in ("measure", "acompact", "plan"):
        for option, parameter in inspect.signature(CALLS[name]).parameters.items():
            if option in of_compact:
                assert parameter == of_compact[option]


def test_every_option_reaches_the_call():
    """Options are passed on in their own places: each changes what it names."""
    messages = [{"role": "user", "content": "hi there"}]
    plain = refold.measure(messages, window="8k")
    assert refold.measure(messages, model="gpt-4o").window == 128_000
    assert refold.measure(messages, window="8k", system="You help.").breakdown.system > 0
    assert refold.measure(messages, window="8k", tools=[{"name": "read"}]).breakdown.tools > 0
    assert refold.measure(messages, window="8k", prompt="go on").breakdown.prompt > 0
    assert refold.measure(messages, window="8k", files=["a text"]).breakdown.files > 0
    assert refold.measure(messages, window="8k", policy="opal").count_source == "opal"
    assert refold.measure(messages, window="8k", count=len).used > plain.used
    assert refold.measure(messages, window="8k", usage={"prompt_tokens": 77}).used >= 77
    with pytest.raises(refold.FormatError, match="klingon"):
        refold.measure(messages, window="8k", format="klingon")
