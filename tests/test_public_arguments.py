"""A wrong argument of any public call is one line that names it, and never an error from somewhere inside."""

import asyncio
import inspect
import math
from fractions import Fraction
from numbers import Integral

import pytest

import refold
from refold import RefoldError, presets

TALK = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]
WRONG = (
    *(4, 4.5, -1, True, "text", "", b"x", [], [3], ["a"], {}, {"a": 1}, object(), math.nan, set()),
    lambda *_: None,
)
CALLS = {
    "measure": {"messages": TALK},
    "compact": {"messages": TALK},
    "plan": {"messages": TALK},
    "count": {"text_or_messages": "some text"},
    "fit_text": {"text": "some text", "max_tokens": 5},
    "fit_files": {"files": [{"path": "a", "content": "b"}]},
    "validate": {"messages": TALK},
    "repair": {"messages": TALK},
    "overflow": {"error": "prompt is too long"},
    "window": {"model": "gpt-4o"},
    "clip": {"text": "text"},
    "open_store": {"address": "memory:"},
    "open": {"name": "task", "store": "memory:"},
    "aopen": {"name": "task", "store": "memory:"},
    "work": {"store": "memory:"},
    "Sessions": {"store": "memory:"},
}
METHODS = {
    "say": {"message": "hi"},
    "prepare": {},
    "send": {"call": lambda _messages: {"choices": []}},
    "compact": {},
    "segment": {},
    "log": {},
    "recall": {"query": "hi"},
    "original": {"handle": "#1"},
    "rewind": {"to": "#1"},
    "unfold": {},
    "pin": {},
    "checkpoint": {},
    "recall_tool": {},
    "answer_recall": {"arguments": "{}"},
    "use": {},
    "export": {"directory": "out"},
    "import_from": {"directory": "out"},
    "subscribe": {"callback": print},
}


def try_wrong_values(name, call, arguments):
    """Pass each wrong value as each argument; what is no refusal in one line comes through."""
    by_hand = (TypeError, ValueError) if name in {"clip", "subscribe"} else ()
    lines = []
    for parameter in inspect.signature(call).parameters.values():
        for value in WRONG if parameter.kind is not parameter.VAR_KEYWORD else ():
            try:
                call(**{**arguments, parameter.name: value})
            except (RefoldError, *by_hand) as error:
                lines.append(str(error))
    assert lines or name == "answer_recall"  # which answers a model whatever it said
    assert not any("\n" in line for line in lines)


@pytest.fixture
def own_folder(tmp_path, monkeypatch):
    """Texts are addresses of stores and folders too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REFOLD_STORE", "memory:")


@pytest.mark.usefixtures("own_folder")
@pytest.mark.parametrize("name", CALLS)
def test_calls(name, recwarn):
    try_wrong_values(name, getattr(refold, name), CALLS[name])


@pytest.mark.slow
@pytest.mark.usefixtures("own_folder")
@pytest.mark.parametrize("name", METHODS)
def test_methods(name, recwarn):
    def call(**arguments):
        with refold.open("task", store="memory:", window=8_000) as session:
            session.say(TALK)
            getattr(session, name)(**arguments)

    call.__signature__ = inspect.signature(refold.Session).replace(
        parameters=list(inspect.signature(getattr(refold.Session, name)).parameters.values())[1:]
    )
    try_wrong_values(name, call, METHODS[name])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"model": 4}, "model=4: expected text, or none"),
        ({"tools": 5}, "tools=5: expected a list, or none"),
        ({"prompt": 3}, "prompt=3: expected text, or none"),
        ({"count": 3}, "count=3: expected a function, or text, or none"),
        ({"policy": [3]}, "policy=[3]: expected text, or a Policy"),
        ({"window": 3.5}, "window=3.5: expected a whole number, or text such as 128k, or none"),
        ({"files": "notes"}, "files='notes': expected a list, or none"),
        ({"count": lambda _text: None}, "count: expected a number of tokens from it, found None"),
    ],
)
def test_the_line_names_the_argument_and_what_it_may_be(arguments, said):
    for call in (refold.measure, refold.compact, refold.plan):
        with pytest.raises(RefoldError) as caught:
            call(TALK, **arguments)
        assert str(caught.value) == said


def test_values_that_are_no_plain_type_have_words_of_their_own():
    with pytest.raises(RefoldError, match=r"fallback='8k': expected a whole number, or \.\.\., or none$"):
        refold.window("gpt-4o", fallback="8k")
    with pytest.raises(RefoldError, match=r"address=3: expected text, or a path$"):
        refold.open_store(3)


def test_calls_of_an_event_loop_are_checked_and_stay_what_they_are():
    assert inspect.iscoroutinefunction(refold.acompact)
    with pytest.raises(RefoldError, match="model=4"):
        asyncio.run(refold.acompact(TALK, model=4))
    assert asyncio.run(refold.acompact(TALK, policy=None)).fits

    async def prepare():
        async with refold.aopen("task", store="memory:") as session:
            await session.prepare(TALK, tools=5)

    with pytest.raises(RefoldError, match="tools=5"):
        asyncio.run(prepare())


def test_positions_are_checked_as_names_are():
    with pytest.raises(RefoldError, match="max_tokens='5': expected a whole number"):
        refold.fit_text("some text", "5")
    with pytest.raises(TypeError, match="positional"):
        refold.fit_text("some text", 5, "gpt-4o")


@pytest.mark.parametrize("name", ["notes.txt", "src/app.py", "Makefile"])
def test_the_name_of_a_file_is_not_taken_for_its_text(name, tmp_path, monkeypatch):
    """A name of a known shape, or of a file that is there."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Makefile").write_text("all:\n", encoding="utf-8")
    for file in (name, tmp_path / name):
        for call in (
            lambda file=file: refold.measure(TALK, files=[file]),
            lambda file=file: refold.fit_files([file], model="gpt-4o"),
            lambda file=file: refold.open("task", store="memory:").prepare(TALK, files=[file]),
        ):
            with pytest.raises(RefoldError, match="names a file: give its text"):
                call()
    for text in ("", "word", f"see {name}", f"{name}\n# a comment"):
        assert refold.measure(TALK, files=[text]).breakdown.files == refold.count(text)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"widow": 3}, "there is no option 'widow'; did you mean window?"),
        ({"zzz": 3}, "there is no option 'zzz'; there are name, "),
        ({"model": 4}, "model=4: expected text, or none"),
        ({"policy": "refolt"}, "there is no policy 'refolt'; did you mean refold?"),
        ({"options": {"model": "gpt-4o"}}, "options={'model': 'gpt-4o'}: expected a function, or none"),
        ({"max_open": True}, "max_open=True: expected a whole number"),
    ],
)
def test_many_sessions_are_checked_before_the_first_is_opened(options, said, tmp_path):
    with pytest.raises(RefoldError) as caught:
        refold.Sessions(store=f"sqlite:{tmp_path / 'store'}", **options)
    assert str(caught.value).startswith(said)
    assert not list(tmp_path.iterdir())


class bool_:  # noqa: N801  # as NumPy has it
    """A truth value of another library."""

    def __bool__(self):
        return True


class WholeNumber:
    """A whole number of another library."""

    def __index__(self):
        return 8_000

    __int__ = __index__


Integral.register(WholeNumber)


@pytest.mark.parametrize("window", [8_000.0, 0.8 * 10_000, WholeNumber(), "8k"])
def test_a_whole_number_of_any_kind_is_one(window):
    assert refold.measure(TALK, window=window).window == 8_000
    assert refold.open("task", store="memory:", window=window).budget().window == 8_000
    with pytest.raises(RefoldError, match="expected a whole number"):
        refold.measure(TALK, window=0.5)


@pytest.mark.parametrize("window", [0, -5, "0", "many"])
def test_a_window_that_is_none_is_named_in_the_error(window):
    calls = (
        lambda: refold.measure(TALK, window=window),
        lambda: refold.compact(TALK, window=window),
        lambda: refold.open("task", store="memory:", window=window),
        lambda: refold.open("task", store="memory:").use(window=window),
        lambda: refold.fit_files([{"path": "a", "content": "b"}], window=window),
    )
    for call in calls:
        with pytest.raises(
            RefoldError, match=rf"window={window!r} is not a number of tokens: .* more than 0"
        ):
            call()


def _name_type(given):
    return "" if callable(given) else given if isinstance(given, str) else type(given).__name__


NONSENSE = [
    10**30,
    10**5000,
    -1,
    True,
    False,
    float("nan"),
    float("inf"),
    1.5,
    "nan",
    "1e9999",
    "-5",
    "",
    b"5",
    [],
]
"""Values that no option that counts something may have, and none of which an error shows in full."""


def opened(**options):
    return refold.open("task", store="memory:", **{"window": 8_000, **options})


@pytest.mark.parametrize("value", NONSENSE, ids=_name_type)
@pytest.mark.parametrize(
    ("name", "call"),
    {
        "window": lambda value: refold.measure(TALK, window=value),
        "window of open": lambda value: opened(window=value),
        "window of use": lambda value: opened().use(window=value),
        "target": lambda value: refold.compact(TALK, window=8_000, target=value),
        "target of a session": lambda value: opened().compact(target=value),
        "low target": lambda value: refold.compact(TALK, window=8_000, target=(value, 8_000)),
        "max_tokens": lambda value: refold.fit_text("hello", value),
        "max_tokens of files": lambda value: refold.fit_files(["a"], window=8_000, max_tokens=value),
        "used": lambda value: refold.fit_files(["a"], window=8_000, used=value),
        "max_bytes": lambda value: refold.clip("hello", max_bytes=value),
        "max_lines": lambda value: refold.clip("hello", max_lines=value),
        "keep": lambda value: opened().compact(keep=value),
        "limit": lambda value: opened().recall("x", limit=value),
        "max_summary_tokens_per_hour": lambda value: opened(max_summary_tokens_per_hour=value),
        "keep_recent_messages": lambda value: presets.get("ripple", keep_recent_messages=value),
    }.items(),
    ids=_name_type,
)
def test_a_number_that_makes_no_sense_is_one_line_that_names_the_option(name, call, value):
    with pytest.raises(RefoldError, match=name.split()[-1 if name == "low target" else 0]) as refused:
        call(value)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("value", [each for each in NONSENSE if each not in (1.5, False)], ids=_name_type)
@pytest.mark.parametrize(
    ("name", "call"),
    {
        "max_dollars": lambda value: opened(max_dollars=value),
        "max_dollars_per_hour": lambda value: opened(max_dollars_per_hour=value),
        "ask_timeout": lambda value: opened(ask=len, ask_timeout=value),
        "ask_timeout ": lambda value: refold.compact(TALK, window=8_000, ask=len, ask_timeout=value),
        "trigger_fraction": lambda value: presets.get("refold", trigger_fraction=value),
    }.items(),
    ids=_name_type,
)
def test_an_amount_that_makes_no_sense_is_one_line_that_names_the_option(name, call, value):
    with pytest.raises(RefoldError, match=name.strip()) as refused:
        call(value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("usage", [True, False, "nan", b"5", []])
def test_a_report_that_is_none_is_refused(usage):
    with pytest.raises(RefoldError, match="usage: expected a number of tokens"):
        refold.measure(TALK, window=8_000, usage=usage)


@pytest.mark.parametrize("number", [10**30, float("inf"), float("nan"), -1, "7", None])
def test_a_count_of_text_that_gives_nonsense_is_refused(number):
    with pytest.raises(RefoldError, match="count: expected a number of tokens from it"):
        refold.measure(TALK, window=8_000, count=lambda _: number)


def test_nothing_is_a_number_where_it_makes_sense():
    assert refold.measure(TALK, window=8_000, usage=0).used == refold.measure(TALK, window=8_000).used
    assert refold.fit_text("hello", 0) == ""
    assert opened().recall("x", limit=0) == []
    assert opened(max_dollars=0, max_summary_tokens_per_hour=0)


def test_false_is_no_place_to_go_back_to():
    session = opened()
    session.say("one")
    with pytest.raises(RefoldError, match="False is no handle"):
        session.rewind(False)
    assert session.state.view.said == 1


def test_none_stands_for_a_default_that_is_text_or_false():
    outcome = refold.compact(TALK, window=8_000, force=None, must_fit=None, focus=None)
    assert outcome.reason.startswith("not yet")


def test_numbers_of_other_libraries_are_numbers():
    outcome = refold.compact(TALK, window=8_000, ask_timeout=Fraction(5, 2), force=bool_(), target=4_000.0)
    assert outcome.reason.startswith("nothing to compact")
    with pytest.raises(RefoldError, match="force=1: expected true or false"):
        refold.compact(TALK, window=8_000, force=1)


async def _answer_later(_question):
    return "short"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: refold.clip("x", keep="middle"), "keep='middle': expected 'head' or 'tail' or 'both'"),
        (lambda: refold.clip("x", max_bytes=-1), "max_bytes=-1"),
        (lambda: refold.clip("x", max_lines=-1), "max_lines=-1"),
        (lambda: refold.open("s", store="memory:").compact(keep=-1), "keep=-1"),
        (lambda: refold.measure(TALK, usage="x", window=8_000), "usage"),
        (
            lambda: refold.compact(TALK * 30, window=8_000, policy="ripple", force=True, ask=_answer_later),
            "asynchronous",
        ),
        (lambda: refold.open("s", store="memory:", ask=_answer_later), "asynchronous"),
    ],
)
def test_a_value_that_nothing_can_be_done_with_is_refused(call, words):
    with pytest.raises(RefoldError, match=words) as refused:
        call()
    assert "\n" not in str(refused.value)
