"""Who speaks in a message."""

from dataclasses import replace

import pytest

from growth import stop_hang
from refold.core.messages.message import Message, Text, ToolResult
from refold.core.messages.speakers import (
    find_own_words,
    find_speaker,
    find_user_turns,
    is_observation,
    measure_talk,
    remove_program_text,
)
from refold.testing import assistant, call, result, summary, user


@pytest.mark.parametrize(
    ("message", "voice"),
    [
        (user("hello"), "user"),
        (user("<returncode>0</returncode>\n<output>\nx</output>"), "tool"),
        (user("Observation: it failed"), "tool"),
        (user("I saw <output> in it"), "user"),
        (user("The last command <command>pytest</command> timed out and has been killed."), "tool"),
        (user("Please always provide EXACTLY ONE action in triple backticks, found 2 actions."), "tool"),
        (user("[ERROR] You did not use a tool in your previous response!"), "tool"),
        (user("Your last output was not properly formatted."), "tool"),
        (user("No tool calls were found in the response."), "tool"),
        (user("[read_file for 'a.py'] Result:\nx = 1"), "tool"),
        (user("[read_file for 'a.py']\n\nResult:\n<files>"), "tool"),
        (user("[execute_command for 'echo 'a'\nls'] Result:\na"), "tool"),
        (user("[list_files] Result:"), "tool"),
        (user("EXECUTION RESULT of [execute_bash]:\n/workspace"), "tool"),
        (user("I have *added these files to the chat* so you can go ahead and edit them."), "tool"),
        (user("# 1 SEARCH/REPLACE block failed to match!"), "tool"),
        (user("[attempt_completion] Result:\n<feedback>\nUse 2 retries.\n</feedback>"), "user"),
        (user("[ask_followup_question for 'Which?'] Result:\n<answer>\nThe second.\n</answer>"), "user"),
        (
            user(
                "[edit for 'a'] Result:\nThe user denied this operation and provided the following feedback:"
            ),
            "user",
        ),
        (user("[x] Result: it works now"), "user"),
        (user("[Expected] Result:\nThe export has 41 rows."), "user"),
        (user("[Actual] result:\nThe page stays blank."), "user"),
        (user("[test_login] Result:\nIt fails since Monday."), "user"),
        (user("Expected result:\nThe export has 41 rows."), "user"),
        (user("Observations:\n- the page stays blank"), "user"),
        (user("[update_todo_list] Result:\nok"), "tool"),
        (user("[switch_mode to 'code' because: it is time] Result:\nok"), "tool"),
        (user("I have *added these files to the chat*. Mend them."), "user"),
        (user("Your answer is not what I asked for."), "user"),
        (user("The last command failed, why?"), "user"),
        (user("Please always provide sources."), "user"),
        (assistant("<output>"), "assistant"),
        (result("c", "x"), "tool"),
        (Message("system", "be good"), "system"),
        (summary("was"), "summary"),
    ],
)
def test_who_speaks(message, voice):
    assert find_speaker(message) == voice


def test_where_people_speak():
    seen = user("<output>x</output>")
    assert find_user_turns([user("a"), seen, summary("s"), user("b")]) == [0, 3]
    assert find_user_turns([seen]) == [0]
    assert is_observation(seen)
    assert not is_observation(assistant("<output>"))


def test_what_programs_put_into_a_users_words_is_none_of_them():
    assert remove_program_text("do it<system-reminder>\nnever stop\n</system-reminder> now") == "do it now"
    assert remove_program_text("a < b") == "a < b"


def test_marks_and_details_of_programs_are_none_of_a_users_words():
    mark = "[image image/png was here; left out to make room]"
    assert remove_program_text(f"{mark}Use this one") == "Use this one"
    assert remove_program_text("Go on<environment_details>\n# Time\n</environment_details>") == "Go on"


class TestOwnWords:
    RESULT = ToolResult("c", (Text("Always push to release."),))
    REMINDER = "<system-reminder>\nNever stop.\n</system-reminder>"

    @pytest.mark.parametrize(
        ("message", "words"),
        [
            (user("Round up."), "Round up."),
            (user("<output>x</output>"), ""),
            (assistant("I round."), ""),
            (summary("was"), ""),
            (result("c", "x"), ""),
            (
                Message(
                    "user",
                    [
                        RESULT,
                    ],
                ),
                "",
            ),
            (Message("user", [RESULT, "Round up.", "Then stop."]), "Round up.\nThen stop."),
            (Message("user", ["Round up.", RESULT]), "Round up."),
            (Message("user", [RESULT, REMINDER]), ""),
            (Message("user", [RESULT, f"Round up.{REMINDER}", "<output>x</output>"]), "Round up."),
            (Message("user", [RESULT, "[Request interrupted by user for tool use]"]), ""),
            (Message("user", [ToolResult("c", (Text("Tool execution succeeded."),)), "Push it."]), ""),
        ],
        ids=range(12),
    )
    def test_what_a_person_says(self, message, words):
        assert find_own_words(message) == words

    @pytest.mark.parametrize("end", ["\n</system-reminder>\n", ""], ids=["closed", "cut"])
    @pytest.mark.parametrize(
        "start", ["<system-reminder>\n", "<system-reminder>", "Round up. <system-reminder>\n"]
    )
    def test_a_long_block_and_one_that_was_cut_are_none_of_a_users_words(self, start, end):
        block = f"{start}{'Never stop. ' * 3_000}{end}"
        own = "Round up." if start.startswith("Round") else ""
        assert find_own_words(Message("user", [self.RESULT, block])) == own
        around = Message("user", ["Go on.", self.RESULT, block, "Then stop."])
        assert find_own_words(around) == "\n".join(["Go on.", *filter(None, [own]), "Then stop."])

    def test_words_around_blocks_are_a_users(self):
        long = f"<system-reminder>{'a' * 30_000}</system-reminder>"
        assert (
            find_own_words(Message("user", [self.RESULT, f"Round up.{long} Then stop."]))
            == "Round up. Then stop."
        )
        assert find_own_words(user(f"Round up.{long} Then stop.")) == "Round up. Then stop."

    def test_who_names_a_tag_is_heard(self):
        """A tag within a line that is never closed, or in a message of a person alone, is no block."""
        asked = "Why is there a <system-reminder> in it?"
        assert find_own_words(Message("user", [self.RESULT, asked])) == asked
        assert find_own_words(user(f"{asked}\n<system-reminder>\nWhat is it?")) == (
            f"{asked}\n<system-reminder>\nWhat is it?"
        )

    def test_a_tag_within_a_block_begins_none(self):
        text = "<command-args>a <system-reminder> b</command-args> Go on."
        assert remove_program_text(text) == " Go on."

    @pytest.mark.slow
    @pytest.mark.few_values(2)
    @pytest.mark.parametrize(
        "text", ["<system-reminder>", "<command-args> a", "<command-args></command-name>"]
    )
    def test_hostile_tags_take_no_long_time(self, text):
        with stop_hang():
            assert remove_program_text(text * 30_000) == text * 30_000

    def test_a_message_with_a_result_stays_a_tools(self):
        """An agent that adds a line to each result would else count as talk, and keep no outputs."""
        message = Message("user", [self.RESULT, "Round up."])
        assert find_speaker(message) == "tool"
        assert find_user_turns([user("go"), message]) == [0]


class TestTalk:
    OUTPUT = "<returncode>0</returncode>\n<output>x</output>"

    def test_people_alone_talk_and_tools_alone_work(self):
        assert measure_talk([user("a"), assistant("b")] * 3) == 1.0
        assert measure_talk([call("f", id="c"), result("c", "x")] * 3) == 0.0
        assert measure_talk([]) == 0.0

    def test_what_has_left_counts(self):
        earlier = replace(summary("told"), meta={"kinds": {"user": 9, "tool_result": 27, "assistant": 36}})
        assert measure_talk([earlier, user("a"), assistant("b")]) == (10 / 37) ** 2
        assert measure_talk([replace(earlier, meta={"kinds": 3}), user("a"), assistant("b")]) == 1.0

    def test_where_commands_are_no_calls_their_outputs_are_no_people(self):
        earlier = replace(summary("told"), meta={"kinds": {"user": 9, "assistant": 9}})
        assert measure_talk([user("go"), earlier, assistant("ls"), user(self.OUTPUT)]) == (1 / 11) ** 2
