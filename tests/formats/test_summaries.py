"""Summaries known again by their first words."""

import pytest
from hypothesis import given
from wire_cases import TEXT

from refold.core.messages import summary_headers
from refold.core.messages.message import EMPTY, Message, Text
from refold.formats import get
from refold.formats.shared.summaries import mark_summaries, recognise_summary

CODEBUDDY_HEADER = "[Conversation Summary — "
OPAL_HEADER = "[Conversation summary"
OPAL_LINE_HEADER = "[Conversation summary — older messages were compacted]"
RIPPLE_HEADER = "This conversation continues an earlier one whose older messages were summarised"
UMWELTEN_HEADER = "Previous context (condensed):"
UMWELTEN_TRUNCATED_HEADER = "(Earlier conversation omitted"

FILES = "<read-files>\nlib/a.ex\n lib/b.ex \n</read-files>\n\n<modified-files>\nlib/c.ex\n</modified-files>"


class TestRecognise:
    def test_opal(self):
        """Opal, summary message: a user message whose file lists can be read back from its text alone."""
        text = f"{OPAL_LINE_HEADER}\n\n## Goal\nx\n\n{FILES}"
        assert recognise_summary("user", text) == {
            "kind": "summary",
            "by": "opal",
            "read_files": ("lib/a.ex", "lib/b.ex"),
            "modified_files": ("lib/c.ex",),
        }
        assert recognise_summary("user", "[Conversation summary") == {"kind": "summary", "by": "opal"}

    def test_claude_code(self):
        text = (
            "This session is being continued from a previous conversation that ran out of context. Done: a."
        )
        assert recognise_summary("user", text) == {"kind": "summary", "by": "claude-code"}

    def test_codebuddy(self):
        """CodeBuddy, tiers 2, 3 and 4: three headers, each with the number of messages it stands for."""
        assert recognise_summary(
            "system", "[Conversation Summary — 12 earlier messages compacted]\n\nx 99 messages"
        ) == {
            "kind": "summary",
            "by": "codebuddy",
            "messages": 12,
        }
        assert recognise_summary("system", "[Earlier conversation summary — 3 messages compacted]") == {
            "kind": "summary",
            "by": "codebuddy",
            "messages": 3,
        }
        assert recognise_summary(
            "system", "[Conversation context — 7 earlier messages removed to fit context window]"
        ) == {
            "kind": "notice",
            "by": "codebuddy",
            "messages": 7,
        }
        assert recognise_summary("system", "[Conversation Summary — some messages]\n5 messages") == {
            "kind": "summary",
            "by": "codebuddy",
        }

    def test_umwelten(self):
        """Umwelten, strategies: what `through-line-and-facts` and `truncate` put in place of a segment."""
        assert recognise_summary("system", "Previous context (condensed):\nx") == {
            "kind": "summary",
            "by": "umwelten",
        }
        assert recognise_summary("system", "(Earlier conversation omitted; last 2 turns retained.)") == {
            "kind": "notice",
            "by": "umwelten",
            "kept_turns": 2,
        }
        assert recognise_summary("system", "(Earlier conversation omitted.)") == {
            "kind": "notice",
            "by": "umwelten",
        }

    def test_neurolink(self):
        """NeuroLink, sliding window: the truncation marker."""
        text = "[Earlier conversation history was truncated to fit within context limits]"
        assert (
            recognise_summary("system", text)
            == recognise_summary("user", text)
            == {"kind": "notice", "by": "neurolink"}
        )

    def test_ripple(self):
        """Ripple, summary turn text."""
        text = "This conversation continues an earlier one whose older messages were summarised. x"
        assert recognise_summary("user", text) == {"kind": "summary", "by": "ripple"}

    def test_ours(self):
        text = f'<refold-summary generation="2" covers="#1-#57" kind="digest" note="a &quot;b&quot; &lt;c&gt; &amp;amp;" x-y="1">\nGoal\n{FILES}\n</refold-summary>'
        assert recognise_summary("user", text) == {
            "kind": "digest",
            "by": "refold",
            "generation": 2,
            "covers": "#1-#57",
            "note": 'a "b" <c> &amp;',
            "x_y": 1,
            "read_files": ("lib/a.ex", "lib/b.ex"),
            "modified_files": ("lib/c.ex",),
        }

    def test_our_header_must_end(self):
        assert recognise_summary("user", "<refold-summary generation=") is None
        assert recognise_summary("user", "<refold-summary\n>") is None
        assert recognise_summary("user", "<refold-summary " + "x" * 2000 + ">") is None
        assert recognise_summary("user", "<refold-summary >") == {"kind": "summary", "by": "refold"}
        assert recognise_summary("user", f'<refold-summary n="{"9" * 13}">')["n"] == "9" * 13
        assert recognise_summary("user", f'<refold-summary n="{"9" * 12}">')["n"] == int("9" * 12)

    def test_the_last_file_lists_count(self):
        """What a stage appends stands behind what a model wrote."""
        text = f"{OPAL_LINE_HEADER}\n<read-files>\nold.py\n</read-files>\n<read-files>\nnew.py\n</read-files>\n<modified-files>\nno end"
        assert recognise_summary("user", text) == {"kind": "summary", "by": "opal", "read_files": ("new.py",)}
        assert "read_files" not in recognise_summary(
            "user", f"{OPAL_LINE_HEADER}\n</read-files> <read-files>"
        )
        assert "read_files" not in recognise_summary("user", f"{OPAL_LINE_HEADER}\nx </read-files>")

    @pytest.mark.parametrize("role", ["assistant", "tool"])
    def test_only_users_and_systems_carry_summaries(self, role):
        assert recognise_summary(role, OPAL_LINE_HEADER) is None

    @pytest.mark.parametrize(
        "text",
        [
            "",
            " [Conversation summary",
            "x [Conversation summary",
            "[conversation summary",
            "Previous",
            "This conversation",
            "(Earlier",
            "<refold-summary",
        ],
    )
    def test_other_texts_are_no_summaries(self, text):
        assert recognise_summary("user", text) is None

    @given(text=TEXT)
    def test_any_text_behind_a_header_is_harmless(self, text):
        for header in (
            OPAL_HEADER,
            CODEBUDDY_HEADER,
            UMWELTEN_TRUNCATED_HEADER,
            summary_headers.REFOLD,
        ):
            found = recognise_summary("user", header + text)
            assert found is None or found["by"]


class TestMark:
    def test_an_acknowledgement_counts_only_behind_a_summary(self):
        summary = Message("user", RIPPLE_HEADER)
        ack = Message("assistant", summary_headers.ACKNOWLEDGEMENT)
        marked = mark_summaries([ack, summary, ack, ack, Message("user", "x"), ack])
        assert [message.source for message in marked] == [
            None,
            "summarization",
            "summarization",
            None,
            None,
            None,
        ]
        assert marked[1].meta == {"kind": "summary", "by": "ripple"}
        assert marked[2].meta == {"kind": "ack"}
        assert marked[0].meta is EMPTY

    def test_a_longer_answer_is_no_acknowledgement(self):
        marked = mark_summaries(
            [
                Message("user", RIPPLE_HEADER),
                Message("assistant", f"{summary_headers.ACKNOWLEDGEMENT} Now"),
            ]
        )
        assert marked[1].source is None
        assert (
            mark_summaries(
                [Message("user", RIPPLE_HEADER), Message("user", summary_headers.ACKNOWLEDGEMENT)]
            )[1].source
            is None
        )

    def test_something_in_between_breaks_the_tie(self):
        between = Message("user", (Text("a"), Text("b")))
        marked = mark_summaries(
            [
                Message("user", RIPPLE_HEADER),
                between,
                Message("assistant", summary_headers.ACKNOWLEDGEMENT),
            ]
        )
        assert marked[2].source is None

    def test_a_summary_beside_other_words_is_not_only_a_summary(self):
        """A user's own words in the same message must not leave with the next fold."""
        message = Message("user", (Text(OPAL_LINE_HEADER), Text("and now do this")))
        assert mark_summaries([message]) == (message,)

    @pytest.mark.parametrize(
        ("name", "item"),
        [
            (
                "openai",
                {"role": "developer", "content": [{"type": "text", "text": UMWELTEN_HEADER}]},
            ),
            (
                "responses",
                {"role": "user", "content": [{"type": "input_text", "text": UMWELTEN_HEADER}]},
            ),
            (
                "anthropic",
                {
                    "role": "user",
                    "content": [{"type": "text", "text": UMWELTEN_HEADER, "cache_control": {}}],
                },
            ),
            ("gemini", {"role": "user", "parts": [{"text": UMWELTEN_HEADER}]}),
        ],
    )
    def test_a_summary_that_was_read_is_still_untouched(self, name, item):
        wire = get(name)
        (message,) = wire.parse([item])
        assert message.is_summary
        assert wire.render([message])[0] is item
