"""The stand-in for a model that CompactBench's methods are read with."""

import json

import pytest

from refold.evals.reader.stand_in import LAST, UNKNOWN, answer_question, reply

PROSE = """SUMMARY:
USER: For the regatta, let's rent the red boats.
ASSISTANT: Shall I call them?
USER: Hold on, scratch that. Instead, let's borrow the club's boats.
USER: Never race in fog. That is the rule.
USER: Amara brings the flags, and Rashid keeps the time.
USER: The fee is 45 euros. We still have to ask the harbour master.
USER: Where do we start?"""
STATE = """STRUCTURED STATE:
Locked decisions:
- Instead, let's borrow the club's boats.

Forbidden behaviors (NEVER do):
- No longer: For the regatta, let's rent the red boats.
- race in fog

Unresolved items:
- We still have to ask the harbour master.

Immutable facts:
- The fee is 45 euros.

Entity roles:
- Amara: Amara brings the flags
- Rashid: Rashid keeps the time"""
QUESTION = (
    "You have the following summary of a prior conversation:\n\n{artifact}\n\n"
    "Based only on this summary, answer the following question concisely.\n\nQUESTION: {question}\n\nANSWER:"
)


@pytest.mark.parametrize("artifact", [PROSE, STATE], ids=["prose", "state"])
@pytest.mark.parametrize(
    ("question", "holds", "lacks"),
    [
        ("What must never happen?", "race in fog", "red boats"),
        ("What is the current plan?", "borrow the club's boats", "rent the red boats"),
        ("Is 'rent the red boats' still the plan?", "No.", "red boats"),
        ("Do we borrow the club's boats?", "Yes: ", "red"),
        ("Who brings the flags?", "Amara", "fog"),
        ("Does Amara keep the time?", "No.", "time"),
        ("Does Rashid keep the time?", "Yes: ", "fog"),
        ("How much is the fee?", "45", "fog"),
        ("Whom has nobody asked yet?", "harbour master", "45"),
        ("Propose the next step for the regatta.", "", "fog"),
        ("Which colour has the moon?", UNKNOWN, "boats"),
    ],
)
def test_a_question_gets_what_the_artifact_says(artifact, question, holds, lacks):
    told = reply(QUESTION.format(artifact=artifact, question=question))
    assert holds in told
    assert lacks not in told


def test_nothing_is_known_of_an_empty_artifact():
    assert answer_question("(no summary or structured state)", "Who keeps the time?") == UNKNOWN
    assert answer_question("", "Is it raining?") == "No."


def test_a_talk_goes_on_with_words_of_the_artifact_and_none_of_the_prompt():
    prompt = (
        "You have the following summary of a prior conversation:\n\n" + STATE + "\n\nThe user now says:\n\n"
        "USER: What is the plan?\n\nRespond as the assistant. Your response will be treated as the next turn.\n\n"
        "ASSISTANT:"
    )
    assert reply(prompt) == "Instead, let's borrow the club's boats."


def test_a_summary_is_what_the_user_said_and_a_state_is_the_ledgers():
    prompt = (
        "Summarize the following conversation.\n\nCONVERSATION:\nUSER: Never race in fog.\n\n"
        "ASSISTANT: Noted.\n\nUSER: Rashid keeps the time.\nAll day.\n\nJSON:"
    )
    assert reply(prompt) == "Never race in fog.\nRashid keeps the time.\nAll day."
    state = json.loads(reply(prompt, as_json=True))
    assert state["forbidden_behaviors"] == ["Never race in fog."]
    assert state["entity_map"] == {"Rashid": "Rashid keeps the time"}


def test_other_prompts_get_their_last_lines():
    partial = "Combine these.\n\nPARTIAL 1: Never race in fog.\n\nPARTIAL 2: Bring flags.\n\nFINAL SUMMARY:"
    assert reply(partial) == "Never race in fog.\nBring flags."
    lines = [f"line {number}" for number in range(30)]
    assert reply("\n".join(lines)).split("\n") == lines[-LAST:]
