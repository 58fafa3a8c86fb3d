"""Strategies by id: those that come along, those a program registers, and plug-ins."""

import importlib.metadata
from dataclasses import replace
from types import SimpleNamespace

import pytest
from plugged_stage import Last

import refold
from refold import presets
from refold.errors import AnswerFailed, RefoldError
from refold.testing import Scripted, assistant, shape, summary, system, user

LONG = "words about the work " * 20
HISTORY = [system("s"), user(LONG), assistant(LONG), user("on"), assistant(LONG), user("last")]


def compacted(policy, messages=HISTORY, ask=None, **wishes):
    return refold.compact(messages, policy=policy, ask=ask, window=8_000, **wishes)


def registered(function, id="mine", **words):  # noqa: A002  # Umwelten's own word
    refold.register_strategy(id, function, **words)
    return id


def find(id):  # noqa: A002  # Umwelten's own word
    """The listed strategy with this id, or None."""
    return next((one for one in refold.list_strategies() if one.id == id), None)


# -- registering and listing -------------------------------------------------------------------------------


def test_two_strategies_come_along():
    """Umwelten's document: through-line-and-facts and truncate."""
    assert [(one.id, one.name) for one in refold.list_strategies()] == [
        ("through-line-and-facts", "Through-line and facts"),
        ("truncate", "Truncate"),
    ]
    assert all(one.description for one in refold.list_strategies())


def test_a_registered_strategy_is_listed_and_found():
    """Umwelten's page, case 21."""
    strategy = refold.register_strategy("facts", lambda thread: "F", name="Facts", description="only facts")
    assert (strategy.id, strategy.name, strategy.description) == ("facts", "Facts", "only facts")
    assert refold.list_strategies()[-1] is strategy
    assert find("facts") is strategy
    assert find("nobody") is None


def test_a_strategy_without_a_name_is_called_by_its_id():
    strategy = refold.register_strategy("facts", lambda thread: "F")
    assert (strategy.name, strategy.description) == ("facts", "")


def test_the_last_one_registered_wins_also_over_those_that_come_along():
    registered(lambda thread: "first")
    registered(lambda thread: "second")
    assert compacted("mine").messages[1].text == "second"
    registered(lambda thread: "my own", id="truncate")
    assert compacted("truncate").messages[1].text == "my own"
    assert [one.id for one in refold.list_strategies()] == ["through-line-and-facts", "truncate", "mine"]


def test_an_object_with_the_four_fields_is_a_strategy():
    given = SimpleNamespace(id="object", name="An object", description="as told", compact=lambda thread: "O")
    strategy = refold.register_strategy(given)
    assert (strategy.id, strategy.name, strategy.description) == ("object", "An object", "as told")
    assert compacted("object").messages[1].text == "O"


def test_a_mapping_with_the_four_fields_is_a_strategy():
    refold.register_strategy({"id": "map", "name": "A map", "compact": lambda thread: "M"})
    assert find("map").name == "A map"
    assert compacted("map").messages[1].text == "M"


def test_words_beside_an_object_win():
    given = SimpleNamespace(id="object", name="An object", description="as told", compact=None)
    strategy = refold.register_strategy(given, lambda thread: "mine", name="Mine", description="my words")
    assert (strategy.name, strategy.description) == ("Mine", "my words")
    assert compacted("object").messages[1].text == "mine"


@pytest.mark.parametrize(
    "arguments",
    [
        ("mine",),
        ("", lambda thread: "x"),
        ("mine", 3),
        (SimpleNamespace(compact=len),),
        (None, len),
        ({"id": 3, "compact": len},),
    ],
    ids=["no function", "no id", "no callable", "object without id", "id is None", "id is a number"],
)
def test_a_strategy_needs_an_id_and_a_function(arguments):
    with pytest.raises(RefoldError, match="needs an id and a function"):
        refold.register_strategy(*arguments)


# -- what a strategy is given ------------------------------------------------------------------------------


def test_a_strategy_sees_the_stretch_that_leaves_its_text_and_its_options():
    seen = []
    registered(lambda thread: seen.append(thread) or "S")
    policy = presets.get("umwelten", strategy="mine", strategy_options={"depth": 3})
    compacted(policy)
    (thread,) = seen
    assert thread.messages == tuple(HISTORY[1:5])
    assert thread.text.startswith(f"--- user ---\n{LONG}\n\n--- assistant ---\n")
    assert thread.options["depth"] == 3
    assert thread.model is False
    compacted(policy, ask=Scripted("x"))
    assert seen[1].model is True


def test_a_strategy_sees_messages_in_the_shape_the_caller_uses():
    seen = []
    registered(lambda thread: seen.extend(thread.messages) or "S")
    history = [{"role": "user", "content": LONG}, {"role": "assistant", "content": LONG}]
    outcome = compacted("mine", history)
    assert seen == history
    assert all(a is b for a, b in zip(seen, history, strict=True))
    assert outcome.messages == [{"role": "system", "content": "S"}]


def test_what_is_guarded_is_not_given_to_a_strategy():
    seen = []
    registered(lambda thread: seen.extend(thread.messages) or "S")
    compacted("mine", pins=[2])
    assert seen == [HISTORY[1], HISTORY[3], HISTORY[4]]


def test_a_strategy_is_not_called_where_nothing_may_leave():
    """Umwelten's page, cases 3, 6 and 13."""
    called = []
    registered(lambda thread: called.append(1) or "S")
    for history in ([system("s")], [system("s"), user("a")], [system("s"), summary("was"), user("a")]):
        outcome = compacted("mine", history)
        assert not outcome.compacted
        assert outcome.reason == "nothing to compact: mine: nothing may leave yet"
    assert called == []


# -- what a strategy gives ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        "S",
        system("S"),
        [system("S")],
        (system("S"),),
        {"role": "system", "content": "S"},
        [{"role": "system", "content": "S"}],
        {"replacement_messages": [{"role": "system", "content": "S"}]},
        {"replacementMessages": [{"role": "system", "content": "S"}]},
        {"messages": "S"},
        SimpleNamespace(replacement_messages=[{"role": "system", "content": "S"}]),
    ],
    ids=repr,
)
def test_a_strategy_gives_text_or_messages_in_any_form(given):
    """Umwelten's page, case 12: [s, u, a, u, a, u] becomes [s, R, u]."""
    registered(lambda thread: given)
    history = [{"role": message.role, "content": message.text} for message in HISTORY]
    outcome = compacted("mine", history)
    assert outcome.messages == [history[0], {"role": "system", "content": "S"}, history[5]]
    assert outcome.messages[0] is history[0]
    assert (outcome.stages, outcome.summary) == (("mine",), "S")
    assert outcome.reason == "mine: 4 messages condensed by mine"


def test_what_a_strategy_gives_is_marked_as_a_summary():
    registered(lambda thread: [user("S"), assistant("T")])
    outcome = compacted("mine")
    assert shape(outcome.messages) == "system: s\nuser (summary): S\nassistant (summary): T\nuser: last"
    assert outcome.messages[1].meta == {
        "kind": "summary",
        "generation": 1,
        "messages": 4,
        "kinds": {"user": 2, "assistant": 2},
        "read_files": (),
        "modified_files": (),
    }


def test_a_strategy_may_leave_everything_out():
    registered(lambda thread: [])
    assert shape(compacted("mine").messages) == "system: s\nuser: last"


def test_a_strategy_that_gives_nothing_changes_nothing():
    registered(lambda thread: None)
    outcome = compacted("mine")
    assert (outcome.messages, outcome.reason) == (HISTORY, "nothing to compact: mine: mine gave nothing")


def test_a_strategy_that_gives_something_else_is_told_what_to_give():
    registered(lambda thread: 3)
    with pytest.raises(RefoldError, match="gives messages or text, not int"):
        compacted("mine")


def test_a_strategy_that_makes_it_larger_is_turned_down():
    registered(lambda thread: LONG * 10)
    outcome = compacted("mine")
    assert (outcome.compacted, outcome.messages) == (False, HISTORY)
    assert "not smaller" in outcome.reason


def test_a_strategy_that_raises_raises_and_changes_nothing():
    """Umwelten's page, compactContext: strategy errors propagate."""

    def broken(_):
        raise ZeroDivisionError

    registered(broken)
    history = list(HISTORY)
    with pytest.raises(ZeroDivisionError):
        compacted("mine", history)
    assert history == HISTORY


# -- strategies that ask -----------------------------------------------------------------------------------


def asking(thread):
    first = yield refold.Ask("Condense: " + thread.text, purpose="facts")
    second = yield "Shorter: " + first
    return second


def test_a_strategy_asks_by_yielding():
    registered(asking)
    model = Scripted(["long facts", "facts"])
    outcome = compacted("mine", ask=model)
    assert model.asked[0].startswith("Condense: --- user ---")
    assert model.asked[1] == "Shorter: long facts"
    assert [call.purpose for call in outcome.receipt.calls] == ["facts", "summary"]
    assert outcome.summary == "facts"


def test_a_model_that_fails_raises_inside_the_strategy():
    seen = []

    def careful(thread):
        try:
            yield "Condense"
        except AnswerFailed as error:
            seen.append(error)
            return (yield "Again")

    registered(careful)
    error = TimeoutError("slow")
    assert compacted("mine", ask=Scripted([error, "facts"])).summary == "facts"
    assert seen[0].cause is error
    assert "slow" in str(seen[0])


def test_a_failure_that_nobody_catches_raises_and_changes_nothing():
    registered(asking)
    with pytest.raises(AnswerFailed, match="slow"):
        compacted("mine", ask=Scripted(TimeoutError("slow")))


def test_a_strategy_that_asks_without_a_model_is_an_error():
    """Umwelten's page, decisions: a strategy that needs a model and has none is an error that changes nothing."""
    registered(asking)
    with pytest.raises(AnswerFailed, match="no model was given"):
        compacted("mine")


def test_a_coroutine_that_waits_for_nobody_is_a_strategy():
    async def mine(_):
        return "S"

    registered(mine)
    assert compacted("mine").summary == "S"


def test_a_coroutine_that_waits_is_told_to_yield():
    class Never:
        def __await__(self):
            yield

    async def mine(_):
        await Never()

    registered(mine)
    with pytest.raises(RefoldError, match=r"yield refold\.Ask"):
        compacted("mine")


# -- using one by its id -----------------------------------------------------------------------------------


def test_an_unknown_id_changes_nothing_and_names_the_known_ones():
    """Umwelten's page, case 16."""
    outcome = compacted(presets.get("umwelten", strategy="nobody"))
    assert (outcome.compacted, outcome.messages) == (False, HISTORY)
    assert "no strategy 'nobody'; known are: through-line-and-facts, truncate" in outcome.reason


def test_a_policy_may_be_named_by_a_strategys_id():
    outcome = compacted("truncate")
    assert outcome.receipt.policy == "umwelten"
    assert outcome.messages[1].text.startswith("(Earlier conversation omitted")


def test_the_truncating_one_says_how_many_turns_stay():
    """Umwelten's page, case 17: keep_turns 5 is in the text, and no model is asked."""
    model = Scripted("x")
    history = [system("s"), *(message for n in range(8) for message in (user(f"{n}"), assistant(LONG)))]
    outcome = compacted(presets.get("truncate", keep_turns=5), history, ask=model)
    assert "last 5 turns retained" in outcome.messages[1].text
    assert model.asked == []
    assert len(outcome.messages) == 12


def test_the_truncating_one_tells_only_what_is_true():
    assert "retained" not in compacted("truncate").messages[1].text


def test_the_telling_one_asks_for_two_sections():
    model = Scripted("It was about work.")
    outcome = compacted("through-line-and-facts", ask=model)
    assert outcome.messages[1].text == "Previous context (condensed):\nIt was about work."
    assert len(model.asked) == 1


def test_a_strategy_is_looked_up_when_it_runs():
    policy = presets.get("umwelten", strategy="later")
    registered(lambda thread: "S", id="later")
    assert compacted(policy).summary == "S"


# -- plug-ins ----------------------------------------------------------------------------------------------


class Point:
    """An entry point of another package."""

    def __init__(self, name, load):
        self.name, self.value, self._load = name, f"package:{name}", load

    def load(self):
        return self._load()


@pytest.fixture
def plugged(monkeypatch):
    points = []

    def entry_points(*, group):
        return points if group == "refold.stages" else []

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    return points


def test_a_strategy_of_another_package_is_listed_and_used_by_its_name(plugged):
    plugged.append(Point("last", lambda: Last))
    assert [(one.id, one.description) for one in refold.list_strategies()][-1] == ("last", "package:last")
    policy = presets.get("umwelten", strategy="last", strategy_options={"depth": 3})
    outcome = compacted(policy)
    assert shape(outcome.messages) == "system: s\nuser: last"
    assert outcome.edits[0].why == "3"


def test_a_policy_may_be_named_by_a_plug_in(plugged):
    plugged.append(Point("last", lambda: lambda keep, options: Last(keep, {"depth": 1})))
    assert compacted("last").compacted


def test_a_plug_in_is_loaded_only_when_it_runs(plugged):
    def load():
        raise ImportError("no such module")

    plugged.append(Point("broken", load))
    assert len(refold.list_strategies()) == 3
    with pytest.raises(RefoldError, match="'broken' is installed but could not be made: no such module"):
        compacted("broken")


def test_a_registered_strategy_wins_over_a_plug_in(plugged):
    plugged.extend([Point("mine", lambda: Last), Point("truncate", lambda: Last)])
    registered(lambda thread: "S")
    assert compacted("mine").summary == "S"
    assert [one.id for one in refold.list_strategies()] == ["through-line-and-facts", "truncate", "mine"]
    assert "omitted" in compacted("truncate").messages[1].text


def test_the_stage_of_a_strategy_is_called_by_its_id():
    assert presets.get("umwelten", strategy="mine").stages[0].name == "mine"


def test_a_strategy_makes_a_stage_for_any_policy():
    registered(lambda thread: "S")
    stage = find("mine").make(presets.get("umwelten").stages[0].keep, {})
    policy = replace(presets.get("opal"), stages=(stage,))
    assert compacted(policy, force=True).stages == ("mine",)
