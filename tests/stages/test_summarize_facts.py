"""The house's summaries keep the facts: kept, repaired, reachable; one second question; state as data."""

import pytest

import refold
from refold import presets
from refold.testing import assistant, call, result, user

PAD = "and so the talk goes on and on through the day. "
RULE = "Never deploy the billing service on a Friday."
MEMORY = (
    "The talk goes on and on through the day, in the words of both, and each of them says so again. Other things "
    "came up only at its beginning, and nobody came back to them later. It is still going on, and nobody waits."
)

EMPTY = "It was about a number of things."


def history():
    return [
        user("Let us begin."),
        user(f"{RULE} The port is 8443."),
        call("read_file", id="r", path="src/billing.py"),
        result("r", "def charge_card(): pass\n" + PAD * 40),
        *(made for n in range(30) for made in (user(f"{n} {PAD * 4}"), assistant(f"{n} {PAD * 10}"))),
        user("go on"),
    ]


def compact(*answers, messages=None, **knobs):
    asked = []

    def ask(question):
        asked.append(question)
        return answers[min(len(asked), len(answers)) - 1]

    ask.window = 32_000  # one question holds all that leaves
    policy = presets.get("refold", keep_user_tokens=0, **knobs)
    outcome = refold.compact(messages or history(), policy=policy, window=8_000, force=True, ask=ask)
    return outcome, asked


def report(outcome):
    (found,) = [one for one in outcome.receipt.stages if one.stage == "summarize"]
    return found


def view(outcome):
    return "\n".join(message.text for message in outcome.messages)


def few():
    """A talk with less to keep than a text is judged by."""
    return [*history()[:4], *(made(PAD * 12) for _ in range(15) for made in (user, assistant)), user("go on")]


def test_what_a_summary_lacks_stands_behind_it():
    outcome, asked = compact(MEMORY, messages=few())
    assert len(asked) == 1
    assert "<facts>\n## What the user said\n- #1 Never deploy the billing service on a Friday." in view(
        outcome
    )
    kept, repaired, reachable = report(outcome).facts
    assert kept < repaired
    assert reachable > 0
    assert outcome.summary == MEMORY


@pytest.mark.slow
@pytest.mark.parametrize("heading", ["What the user wants", "What the user said"])
def test_what_a_summary_has_where_it_is_read_back_is_not_repeated(heading):
    outcome, _ = compact(f"Memory.\n\n## {heading}\n- {RULE}")
    assert view(outcome).count("Never deploy") == 1
    assert report(outcome).facts[0] >= 1


@pytest.mark.slow
def test_a_rule_that_a_summary_tells_elsewhere_stands_behind_it_too():
    """The next summary may lack it, and a caller with plain messages has nothing else of it."""
    outcome, _ = compact(f"Rule of the user: {RULE}")
    assert view(outcome).count("Never deploy") == 2
    assert report(outcome).facts[0] >= 1


def test_facts_and_state_travel_as_data():
    outcome, _ = compact(MEMORY, messages=few())
    assert report(outcome).accepted
    (put,) = [message for edit in outcome.edits for message in edit.put]
    assert put.meta["state"] in ("finished", "working")  # by where the cut falls
    assert ["value", "8443", "The port", 1, 3.0, 1] in put.meta["facts"]


@pytest.mark.slow
def test_ten_folds_keep_the_rule():
    """Fault C39: the ledger is patched, not told again."""
    messages = few()
    for number in range(10):
        outcome, _ = compact(f"Memory {number}. {MEMORY}", messages=messages)
        assert report(outcome).accepted
        more = [(user if n % 2 else assistant)(PAD * 12) for n in range(30)]
        messages = [*outcome.messages, *more]
    assert RULE in view(outcome)


@pytest.mark.slow
@pytest.mark.parametrize("bad", ["Sure, I will deploy it.", refold.Answer(text="x", calls=1)])
def test_a_text_that_is_no_summary_gets_one_second_question(bad):
    outcome, asked = compact(bad, f"The memory: {RULE}")
    assert len(asked) == 2
    assert "an answer was turned down" in asked[1]
    assert report(outcome).accepted


def ask_in_parts(answer):
    """Compact with a model that reads a part of the conversation at a time; returns the purposes of the questions."""
    asked = []

    def ask(question):
        asked.append(question)
        return answer(question.purpose, sum(one.purpose == question.purpose for one in asked))

    ask.window = 3_000
    policy = presets.get("refold", keep_user_tokens=0)
    outcome = refold.compact(history(), policy=policy, window=8_000, force=True, ask=ask)
    return outcome, asked


@pytest.mark.slow
def test_only_the_joining_of_parts_is_asked_again_if_it_was_turned_down():
    outcome, asked = ask_in_parts(lambda purpose, time: EMPTY if (purpose, time) == ("merge", 1) else MEMORY)
    purposes = [question.purpose for question in asked]
    parts = len(set(purposes) - {"merge"})
    assert parts > 2
    assert len(purposes) == parts + 2
    assert purposes[-2:] == ["merge", "merge"]
    assert report(outcome).accepted


@pytest.mark.slow
def test_only_the_part_that_was_turned_down_is_asked_again():
    def answer(purpose, time):
        return "Sure, I will deploy it." if purpose.startswith("initial 2/") and time == 1 else MEMORY

    outcome, asked = ask_in_parts(answer)
    again = [question for question in asked if "an answer was turned down" in question]
    assert [question.purpose[:9] for question in again] == ["initial 2", "merge"]
    assert report(outcome).accepted


@pytest.mark.slow
def test_a_part_that_tells_nothing_is_asked_again_with_the_joining():
    def answer(purpose, time):
        if time == 1 and (purpose == "merge" or purpose.startswith("initial 3/")):
            return EMPTY
        return MEMORY

    outcome, asked = ask_in_parts(answer)
    again = [question.purpose for question in asked if "an answer was turned down" in question]
    assert [purpose[:9] for purpose in again] == ["initial 3", "merge"]
    assert report(outcome).accepted


@pytest.mark.slow
def test_a_model_that_fails_at_a_part_twice_is_not_asked_for_the_others():
    outcome, asked = ask_in_parts(lambda purpose, time: EMPTY)
    purposes = [question.purpose for question in asked]
    assert purposes == ["initial 1/3", "initial 2/3", "initial 3/3", "merge", "initial 1/3"]
    assert not report(outcome).accepted
    assert "asked again: it tells nothing" in report(outcome).reason


@pytest.mark.slow
def test_a_model_that_gives_no_answer_to_the_second_question_is_not_asked_for_the_others():
    outcome, asked = ask_in_parts(lambda purpose, time: EMPTY if time == 1 else "")
    assert len(asked) == 5
    assert report(outcome).reason == "the summary was empty"


def test_the_second_refusal_is_the_last():
    """The reason is in the receipt, and the next stage goes on."""
    outcome, asked = compact("Sure, I will deploy it.")
    assert len(asked) == 2
    assert not report(outcome).accepted
    assert "goes on with the conversation" in report(outcome).reason
    assert "asked again" in report(outcome).reason
    assert "digest" in outcome.stages
    assert RULE in view(outcome)


@pytest.mark.slow
def test_a_failure_is_not_asked_again():
    outcome, asked = compact("")
    assert len(asked) == 1
    assert report(outcome).reason == "the summary was empty"


def test_without_room_for_facts_a_summary_that_loses_the_rules_is_turned_down():
    rules = [user(f"Never touch the module number {n} on any day of the week.") for n in range(200)]
    policy = presets.get("refold", keep_user_tokens=0, ledger_tokens=30)
    messages = [user("hi"), *rules, user("go on")]
    told = f"The user speaks of modules and of days of the week. {MEMORY}"
    outcome = refold.compact(messages, policy=policy, window=8_000, target=700, ask=lambda _: told)
    assert "lost" in report(outcome).reason
    assert not report(outcome).accepted


@pytest.mark.slow
def test_a_target_of_the_callers_own_is_filled_with_what_the_summary_lacks():
    """Room that was asked for and left empty would only lose what fits in it."""
    told = [user(f"My cousin number {n} lives in house {n * 7} of Lisbon. " + PAD * 2) for n in range(120)]
    messages = [user("hi"), *told, user("go on")]
    policy = presets.get("refold", keep_user_tokens=0, ledger_tokens=200)
    asked = {"policy": policy, "window": 16_000, "ask": lambda _: MEMORY}
    outcome = refold.compact(messages, target=2_500, **asked)
    assert "summarize" in outcome.stages
    assert outcome.met_target
    assert outcome.tokens_after >= 0.85 * 2_500
    assert view(outcome).count("cousin number") > 60


def test_a_policy_without_a_ledger_has_none():
    outcome, _ = compact("The memory.", ledger_tokens=0)
    (put,) = [message for edit in outcome.edits for message in edit.put]
    assert "facts" not in put.meta
    assert report(outcome).facts == (0, 0, 0)
    assert "State:" not in put.text


FLIGHT = (
    "I'm sorry for the error message, but I can help with that. Please find the details of your flight "
    "below. Please go ahead and book your flight now! Safe travels!"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "why"),
    [
        (FLIGHT, "goes on with the conversation"),
        ("What was requested? What was asked for? </conversation 1f1a078ac66e>", "repeats the question"),
    ],
)
def test_a_text_that_keeps_nothing_is_turned_down_whatever_stands_behind_it(text, why):
    """A small model wrote these over sixty facts; the block of repaired facts made them look whole."""
    outcome, asked = compact(text)
    assert len(asked) == 2
    assert why in asked[1]
    assert why in report(outcome).reason
    assert "asked again" in report(outcome).reason
    assert not report(outcome).accepted
    assert "digest" in outcome.stages
    assert RULE in view(outcome)
    assert text not in view(outcome)


def test_the_fence_of_the_question_is_known_by_its_mark():
    seen = []

    def echo(question):
        seen.append(question)
        return f"{RULE} The mark is {question.split('<conversation ')[1][:12]}."

    echo.window = 32_000
    policy = presets.get("refold", keep_user_tokens=0)
    outcome = refold.compact(history(), policy=policy, window=8_000, force=True, ask=echo)
    assert len(seen) == 2
    assert "repeats the question" in report(outcome).reason


def test_where_little_is_to_keep_a_text_is_not_judged_by_it():
    outcome, asked = compact(MEMORY, messages=few())
    assert len(asked) == 1
    assert report(outcome).accepted


@pytest.mark.slow
def test_words_that_only_stand_in_for_a_summary_are_not_judged():
    """A plan asks nobody; what it would save is counted with a text of the expected length."""
    outcome, asked = compact("[stand-in] " + "summary " * 75)
    assert len(asked) == 1
    assert report(outcome).accepted


@pytest.mark.slow
def test_a_model_that_says_one_word_again_and_again_is_turned_down():
    outcome, _ = compact("summary " * 450)
    assert not report(outcome).accepted
    assert RULE in view(outcome)
