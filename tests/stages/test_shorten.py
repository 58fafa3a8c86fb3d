"""Shorten one message: outputs by their content, words from both ends, arguments value by value."""

import json
import re
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth import assert_linear
from refold import Document, File, Message, Opaque, Text, ToolCall
from refold.core.summaries.wrappers import Covered, find_frame, wrap_summary
from refold.core.tokens.counting import ESTIMATE_COUNTER
from refold.core.tokens.estimate import estimate
from refold.stages.shorten import (
    LEAST_VALUE,
    RULES_SHARE,
    RULES_TITLE,
    keep_both_ends,
    shorten_message,
    shorten_request,
)
from refold.testing import assistant, call, calls, image, result, result_part, summary, thinking, user
from sample_sizes import few_or_all

LOG = "\n".join(
    "ERROR: disk sda1 is full" if number == 1_500 else f"INFO step {number} of the build is done"
    for number in range(3_000)
)
PROSE = "\n".join(f"Line {number} of a long story about ships and harbours." for number in range(200))


def size(message):
    return ESTIMATE_COUNTER.message(message)


def short(message, limit):
    return shorten_message(message, limit, ESTIMATE_COUNTER)


class TestMessages:
    def test_what_fits_stays_as_it_is(self):
        message = user("hello")
        assert short(message, 100) is message

    def test_what_cannot_be_shorter_stays_as_it_is(self):
        message = user("hello there my dear")
        assert short(message, 1) is message

    @pytest.mark.parametrize(
        "extra",
        [
            {"thoughtSignature": "c2ln"},
            {"extra_content": {"google": {"thought_signature": "c2ln"}}},
            {"provider_specific_fields": {"thought_signature": "c2ln"}},
        ],
    )
    def test_a_signed_call_is_kept_whole(self, extra):
        """Gemini takes it back as it was signed, or not at all."""
        call = ToolCall("c1", "write", {"path": "a.py", "content": PROSE}, extra)
        shortened = short(Message("assistant", (Text(PROSE), call)), 300)
        assert list(shortened.calls) == [call]
        named = ToolCall("c1__thought__c2ln", "write", {"content": PROSE})  # as LiteLLM hands it out
        assert list(short(Message("assistant", (named,)), 300).calls) == [named]
        assert len(shortened.text) < len(PROSE) / 4
        assert size(short(Message("assistant", (ToolCall("c1", "write", {"content": PROSE}),)), 300)) <= 300

    def test_a_text_that_is_cut_is_signed_no_more(self):
        signed = Message("assistant", (Text(PROSE, {"thoughtSignature": "c2ln", "note": 1}),))
        assert short(signed, 100).parts[0].extra == {"note": 1}
        assert short(signed, 9_000) is signed

    def test_an_output_keeps_what_matters(self):
        shortened = short(result("c1", LOG), 300)
        assert "ERROR: disk sda1 is full" in shortened.results[0].text
        assert size(shortened) <= 300

    def test_an_output_in_a_users_message_too(self):
        """As agents that call no tools bring it."""
        shortened = short(user(f"<output>\n{LOG}\n</output>"), 300)
        assert "ERROR: disk sda1 is full" in shortened.text

    @pytest.mark.parametrize("limit", [1, 100, 300])
    def test_a_summary_keeps_its_frame(self, limit):
        whole = wrap_summary(PROSE, Covered(messages=3, first=1, last=3))
        shortened = short(summary(whole), limit).text
        first, last = find_frame(whole)
        assert "no request and no permission" in first
        assert shortened.startswith(f"{first}Line 0 of")
        assert shortened.endswith(last)
        assert len(shortened) < len(whole)

    def test_a_summary_without_a_frame_of_tags_keeps_both_ends(self):
        shortened = short(summary(PROSE), 300).text
        assert shortened.startswith("Line 0 of")
        assert shortened.endswith("harbours.")

    @pytest.mark.parametrize("make", [user, assistant])
    def test_words_keep_both_ends(self, make):
        shortened = short(make(PROSE), 300)
        assert shortened.text.startswith("Line 0 of")
        assert "lines left out]\n" in shortened.text
        assert shortened.text.endswith("Line 199 of a long story about ships and harbours.")
        assert 250 < size(shortened) <= 300

    def test_small_parts_stay_whole_beside_large_ones(self):
        message = calls(
            "I write it.", call_part := ToolCall("1", "write", {"text": PROSE}), Text("So there.")
        )
        first, second, third = short(message, 200).parts
        assert (first, third) == (message.parts[0], message.parts[2])
        assert second.name == call_part.name
        assert len(second.arguments["text"]) < len(PROSE)

    def test_thinking_and_opaque_blocks_stay(self):
        thought, block = thinking("hm " * 400), Opaque("anthropic", {"type": "x", "data": "y" * 900})
        shortened = short(Message("assistant", (thought, Text(PROSE), block)), 200)
        assert shortened.parts[0] == thought
        assert shortened.parts[2] == block

    def test_pictures_and_files_become_markers(self):
        message = user("Look:", image(), File(name="a.bin", data="eA=="))
        shortened = short(message, 60)
        assert [type(part) for part in shortened.parts] == [Text, Text, Text]
        assert "[file a.bin was here" in shortened.text

    def test_a_picture_in_a_result_is_kept_as_a_marker_beside_its_text(self):
        shortened = short(Message("tool", (result_part("1", Text(LOG), image()),)), 200)
        assert "ERROR: disk" in shortened.results[0].text
        assert size(shortened) <= 200

    def test_what_a_result_holds_beside_text_stays(self):
        block = Opaque("anthropic", {"type": "reference"})
        shortened = short(Message("tool", (result_part("1", Text(LOG), block),)), 200)
        assert shortened.results[0].content[1] == block

    def test_a_document_with_text(self):
        shortened = short(user(Document(text=PROSE, title="story"), Document(title="empty")), 200)
        assert shortened.parts[0].title == "story"
        assert len(shortened.parts[0].text) < len(PROSE)
        assert shortened.parts[1].text is None


class TestWordsBesideResults:
    RULE = "Use net amounts from now on: divide by 1.19 for DE. And round to whole euros."

    @pytest.mark.slow
    def test_they_stay_while_the_result_is_cut(self):
        mixed = Message("user", (result_part("a", LOG), Text(self.RULE)))
        for limit in (60, 100, 400):
            cut = short(mixed, limit)
            assert cut.parts[1] == Text(self.RULE)
            assert size(cut) <= limit

    def test_long_ones_are_cut_too(self):
        cut = short(Message("user", (result_part("a", LOG), Text(PROSE))), 200)
        assert size(cut) <= 200
        assert "left out" in cut.parts[1].text


class TestManyTexts:
    def test_they_are_one_where_each_would_keep_too_much(self):
        many = Message("assistant", tuple(Text(f"{number}. {PROSE[:900]}") for number in range(12)))
        cut = short(many, 80)
        assert size(cut) <= 80
        assert cut.text.startswith("0. Line 0")

    def test_they_stay_apart_where_there_is_room(self):
        many = Message("assistant", tuple(Text(f"{number}. {PROSE[:900]}") for number in range(12)))
        assert len(short(many, 1_000).parts) == 12


class TestBlocks:
    """What refold carries without understanding it, but for the words in it."""

    ROWS: ClassVar = [{"id": number, "place": f"berth {number}"} for number in range(900)]

    @pytest.mark.slow
    def test_data_stays_data(self):
        block = Opaque("response", {"rows": self.ROWS, "total": 900}, "")
        shortened = short(Message("tool", (result_part("c1", block, Opaque("code", 0, "")),)), 300)
        data, code = shortened.results[0].content
        assert size(shortened) <= 300
        assert data.kind == "response"
        assert data.value["total"] == 900
        assert data.value["rows"][0] == {"id": 0, "place": "berth 0"}
        assert code.value == 0

    def test_data_of_which_no_data_is_left_is_text(self):
        block = Opaque("json", {"json": {f"key {at}": {"place": "quay " * 9} for at in range(99)}}, "json")
        (part,) = short(Message("tool", (result_part("c1", block),)), 12).results[0].content
        assert isinstance(part, Text)

    @pytest.mark.slow
    def test_each_text_of_a_block_has_its_share(self):
        files = [{"name": "a", "text": LOG}, {"name": "b", "text": "brief"}, {"name": "c", "text": PROSE}]
        message = Message("assistant", (Opaque("found", {"files": files}, "files.*.text"),))
        (block,) = shorten_message(message, 600, ESTIMATE_COUNTER, "#7").parts
        first, second, third = block.value["files"]
        assert [first["name"], second, third["name"]] == ["a", files[1], "c"]
        assert "ERROR: disk sda1 is full" in first["text"]
        assert "recall #7]" in first["text"]
        assert "recall" not in third["text"]
        assert 300 < size(shorten_message(message, 600, ESTIMATE_COUNTER, "#7")) <= 600

    @pytest.mark.slow
    def test_a_result_keeps_the_forms_of_what_it_holds(self):
        parts = (Document(text=LOG, title="log"), Opaque("rows", self.ROWS, ""), Text("as asked"))
        message = Message("tool", (result_part("c1", *parts),))
        document, data, text = shorten_message(message, 800, ESTIMATE_COUNTER, "#3").results[0].content
        assert document.title == "log"
        assert "recall #3]" in document.text
        assert data.value[0] == self.ROWS[0]
        assert text == parts[2]

    def test_too_many_documents_in_a_result_become_one_text(self):
        documents = [Document(text=f"Page {number}: the pilot is aboard.") for number in range(400)]
        shortened = short(Message("tool", (result_part("c1", *documents),)), 500)
        assert size(shortened) <= 500
        assert [type(part) for part in shortened.results[0].content] == [Text]

    @pytest.mark.slow
    def test_short_texts_side_by_side_are_cut_as_one(self):
        message = user(*(f"Line {number} of many." for number in range(900)), image())
        shortened = short(message, 200)
        assert size(shortened) <= 200
        assert shortened.parts[0].text.startswith("Line 0 of many.\nLine 1 of many.")

    def test_a_few_short_texts_stay_apart(self):
        message = user("Look at this:", "and at that:", Text(PROSE, {"cache": 1}))
        assert short(message, 200).parts[:2] == message.parts[:2]


class TestSaidTwice:
    PLAN: ClassVar = [f"- Step {number}: paint the {number}. boat in the harbour" for number in range(40)]

    def test_what_a_call_has_too_is_said_once(self):
        quoted = "\n".join(f"> {line}\n>" for line in self.PLAN)
        written = "\n".join(self.PLAN)
        for arguments in (
            {"file": "plan.md", "content": written},
            json.dumps({"deep": [{"content": written}]}),
        ):
            message = calls(f"The plan is this.\n{quoted}\nShall I?", ToolCall("c1", "write", arguments))
            got = short(message, size(message) * 3 // 5)
            assert got.text == "The plan is this.\n[... 80 lines left out, the call below has them]\nShall I?"
            assert got.calls[0].arguments == arguments, "so the call needs not be cut"

    def test_a_call_that_is_cut_too_is_not_said_to_have_all(self):
        text = "\n".join(self.PLAN)
        message = calls(f"The plan.\n{text}", ToolCall("c1", "write", {"content": text}))
        got = short(message, size(message) // 5)
        assert got.text == "The plan.\n[... 40 lines left out, the cut call has some]"
        assert "left out" in str(got.calls[0].arguments)
        assert size(got) <= size(message) // 5

    def test_a_few_lines_and_other_words_stay(self):
        few = "\n".join(self.PLAN[:3])
        message = calls(f"{few}\n{PROSE}", ToolCall("c1", "write", {"content": few}))
        assert short(message, 400).text.startswith(few)
        assert "the call below" not in short(message, 400).text

    def test_what_fits_stays_as_it_is(self):
        text = "\n".join(self.PLAN)
        message = calls(text, ToolCall("c1", "write", {"content": text}))
        assert short(message, size(message)) is message


class TestArguments:
    def shorten(self, arguments, limit=150):
        (shortened,) = short(Message("assistant", (ToolCall("1", "write", arguments),)), limit).calls
        return shortened.arguments

    def test_an_object_stays_one_and_short_values_stay(self):
        got = self.shorten({"path": "src/a.py", "lines": 3, "text": PROSE})
        assert (got["path"], got["lines"]) == ("src/a.py", 3)
        assert 0 < len(got["text"]) < 800

    def test_a_path_stays_whole_and_what_is_no_path_does_not(self):
        path = "/home/someone/projects/harbour-worktrees/harbour-gqc/priv/migrations/20260211205820_add_state.exs"
        got = self.shorten({"filePath": path, "old_string": PROSE, "new_string": PROSE})
        assert got["filePath"] == path
        assert len(got["old_string"]) < 800
        assert len(self.shorten({"file": PROSE, "text": PROSE})["file"]) < 800
        assert isinstance(self.shorten({"files": [{"path": path, "content": PROSE}] * 9})["files"], list)

    def test_json_stays_json(self):
        got = json.loads(self.shorten(json.dumps({"path": "src/a.py", "text": PROSE})))
        assert got["path"] == "src/a.py"
        assert len(got["text"]) < 800

    def test_escaped_text_has_as_much_as_the_same_text_unescaped(self):
        rules = "".join(f"第{at}条：数据库连接必须关闭，不要泄漏。\n" for at in range(300))
        escaped, plain = (
            self.shorten(json.dumps({"text": rules}, ensure_ascii=ascii_only), limit=1_000)
            for ascii_only in (True, False)
        )
        assert escaped == plain
        assert estimate(plain) > 700

    @pytest.mark.slow
    @pytest.mark.parametrize("limit", [40, 80, 150, 400])
    def test_a_list_stays_a_list(self, limit):
        edits = [{"old": f"x{n} = {n} " * 9, "new": f"y{n} = {n} " * 9} for n in range(60)]
        for value in (edits, tuple(edits)):
            message = Message("assistant", (ToolCall("1", "edit", {"path": "a", "edits": value}),))
            got = short(message, limit)
            assert size(got) <= limit
            arguments = got.calls[0].arguments
            assert arguments["path"] == "a"
            assert isinstance(arguments["edits"], list)
            assert "left out" in str(arguments["edits"])
            assert isinstance(arguments["edits"][0], dict if limit > 40 else str)

    @pytest.mark.parametrize("limit", [40, 150])
    def test_an_object_inside_stays_an_object(self, limit):
        options = {f"option_{n}": [f"value {n}"] * 9 for n in range(40)}
        got = json.loads(self.shorten(json.dumps({"path": "a", "options": options}), limit))
        assert got["path"] == "a"
        assert isinstance(got["options"], dict)
        assert len(got["options"]) < 40
        assert isinstance(got["options"].get("option_0", []), list)

    def test_what_is_nested_too_deeply_is_a_marker_of_its_type(self):
        deep = {}
        for n in range(90):
            deep = {f"level_{n}": deep}
        got = self.shorten({"path": "a", "object": deep, "list": [deep] * 3}, limit=60)
        assert got["object"] == {"[... 1 key left out]": None}
        assert got["list"] == ["[... 3 items left out]"]

    def test_a_value_that_is_no_json_becomes_a_text(self):
        assert "left out" in self.shorten({"path": "a", "number": 10**900})["number"]

    @pytest.mark.parametrize("broken", ['{"path": "a', "[1, 2", "", "plain "])
    def test_what_is_no_object_becomes_one(self, broken):
        got = json.loads(self.shorten(broken + "x y " * 900))
        assert set(got) == {"arguments"}
        assert len(got["arguments"]) < 800

    def test_values_that_need_many_escapes_are_within_the_limit_too(self):
        message = call("write", id="1", text='"\\\n\t' * 900)
        for limit in (150, 300, 600):
            assert size(short(message, limit)) <= limit

    def test_the_id_and_the_name_stay(self):
        message = call("write", id="7", text=PROSE)
        (made,) = short(message, 100).calls
        assert (made.id, made.name) == ("7", "write")


class TestHandles:
    """The first marker names the number by which the whole can be fetched back."""

    @pytest.mark.parametrize(
        "message",
        [
            user(PROSE),
            assistant("short", PROSE),
            result("1", LOG),
            user(Document(text=PROSE)),
            call("write", id="1", text=PROSE),
            Message("assistant", (ToolCall("1", "write", json.dumps({"text": PROSE})),)),
        ],
    )
    def test_one_marker_names_it(self, message):
        shortened = shorten_message(message, 200, ESTIMATE_COUNTER, "#7")
        assert ESTIMATE_COUNTER.visible(shortened).count("; recall #7") == 1
        assert size(shortened) <= 200

    @pytest.mark.parametrize(
        ("name", "limit"), [("a-file-of-the-harbour.txt", 300), ("n" * 250, 2_000)], ids=["usual", "longest"]
    )
    def test_a_marker_with_many_facts_names_it(self, name, limit):
        rows = "\n".join(f"-rw-r--r-- 1 root root 120 Jan 1 10:00 {n}-{name}" for n in range(60))
        shortened = shorten_message(result("1", f"total 8\n{rows}"), limit, ESTIMATE_COUNTER, "#7")
        assert re.search(r"left out, (?:\d+-\S+ ){8}…; recall #7\]", shortened.results[0].text)

    def test_words_that_end_in_dots_name_it_behind_them(self):
        shortened = shorten_message(assistant("word " * 400), 40, ESTIMATE_COUNTER, "#7")
        assert shortened.text.endswith("… [recall #7]")

    def test_where_only_noise_is_left_out_nothing_is_named(self):
        shortened = shorten_message(result("1", "\x1b[31mred\x1b[0m " * 100), 300, ESTIMATE_COUNTER, "#7")
        assert shortened.results[0].text == "red " * 100

    def test_a_marker_is_named_once(self):
        named = "first\n[... 5 lines left out; recall #7]\nlast"
        shortened = shorten_message(assistant(named, PROSE), 200, ESTIMATE_COUNTER, "#7")
        assert shortened.parts[0].text == named
        assert "#7" not in shortened.parts[1].text


class TestBothEnds:
    def test_a_text_that_fits(self):
        assert keep_both_ends("a\nb", 10, estimate) == "a\nb"

    def test_one_line_is_cut_inside(self):
        text = "begin " + "word " * 2_000 + "end"
        got = keep_both_ends(text, 300, estimate)
        assert got.startswith("begin word")
        assert got.endswith("word end")
        assert 200 < estimate(got) <= 300

    def test_long_lines_do_not_leave_the_room_unused(self):
        text = "\n".join(f"paragraph {number} " + "word " * 150 for number in range(12))
        assert estimate(keep_both_ends(text, 500, estimate)) >= 400

    @pytest.mark.slow
    @pytest.mark.few_values(3)
    @pytest.mark.parametrize("limit", [130, 140, 150, 170, 190, 250, 500])
    @pytest.mark.parametrize("shorten", [keep_both_ends, shorten_request])
    def test_short_lines_stay_whole(self, shorten, limit):
        lines = [
            f"Section {n}. The seller brings goods of kind {n} {'and bills them ' * 5}." for n in range(300)
        ]
        got = shorten("\n".join(lines), limit, estimate).split("\n")
        assert [line for line in got if line not in lines] == [f"[... {301 - len(got)} lines left out]"]
        assert estimate("\n".join(got)) > limit * 0.6

    @pytest.mark.parametrize("at", [0, 1])
    def test_only_the_end_with_the_long_line_is_cut_inside(self, at):
        short = [f"{n}: a line that is short" for n in range(100)]
        long = "word " * 2_000
        got = keep_both_ends("\n".join([long, *short] if at else [*short, long]), 400, estimate)
        above, below = re.split(r"\n\[\.\.\. \d+ characters left out \.\.\.\]\n", got)
        assert all(line in short for line in (below if at else above).split("\n"))
        assert (above if at else below) in long
        assert estimate(got) > 300

    def test_a_few_words_are_kept_from_the_beginning(self):
        got = keep_both_ends("begin " + "word " * 2_000, 30, estimate)
        assert got.startswith("begin word")
        assert got.endswith("…")
        assert estimate(got) <= 30


class TestPastedRuns:
    @pytest.mark.few_values(2)
    @pytest.mark.parametrize("make", [user, assistant])
    @pytest.mark.parametrize("limit", [4_000, 1_000, 300])
    def test_a_log_shows_its_trouble_and_the_words_around_it_stay_whole(self, make, limit):
        text = f"Here is my log, never restart it:\n\n{LOG}\n\nWhat is wrong?"
        got = shorten_message(make(text), limit, ESTIMATE_COUNTER).text
        assert got.startswith("Here is my log, never restart it:\n\nINFO step 0")
        assert got.endswith("\n\nWhat is wrong?")
        assert "ERROR: disk sda1 is full" in got
        assert estimate(got) <= limit

    @pytest.mark.parametrize("make", [shorten_request, pytest.param(keep_both_ends, marks=pytest.mark.slow)])
    def test_words_that_need_half_of_the_room_are_cut_in_one_piece(self, make):
        text = f"{PROSE}\n{LOG}\nWhat is wrong?"
        got = make(text, 300, estimate)
        assert got.startswith(PROSE[:100])
        assert got.count("left out") == 1


class TestRequests:
    def test_a_request_is_shown_from_its_beginning(self):
        got, words = (make(PROSE, 400, estimate) for make in (shorten_request, keep_both_ends))
        ends = [text.partition("left out]")[2].count("\n") for text in (got, words)]
        assert 0 < ends[0] * 2 <= ends[1]
        assert estimate(got) <= 400

    def test_a_question_in_the_last_line_stays(self):
        question = f"Why is {'this and ' * 12}that wrong?"
        got = shorten_request(f"{PROSE}\n{question}\n\n", 130, estimate)
        assert got.rstrip().endswith(question)
        assert got.startswith("Line 0 of")
        assert estimate(got) <= 130

    def test_a_question_below_a_padded_table_stays(self):
        dense = "\n".join(
            f"Please look at point {at} of the list and say why it differs." for at in range(15)
        )
        rows = "\n".join(f"| {at}{' ' * 80}| done{' ' * 80}|" for at in range(50))
        for limit in (70, 84, 95, 200):
            got = shorten_request(f"{dense}\n{rows}\nWhy is row 7 missing?", limit, estimate)
            assert got.endswith("Why is row 7 missing?")

    @pytest.mark.parametrize("limit", [60, 160, 300, 480])
    @pytest.mark.parametrize("number", [3, 14, 20])
    def test_rules_at_the_end_are_said_once(self, number, limit):
        rules = [f"Never rename the module harbour_{at}, whatever it is." for at in range(number)]
        got = shorten_request("\n".join([PROSE, *rules]), limit, estimate)
        said = [got.count(rule) for rule in rules]
        assert max(said) <= 1
        assert estimate(got) <= limit
        # The rules that both ends would show beside a block of rules, as a whole, are no fewer.
        assert sum(said) >= min(number, limit * RULES_SHARE // 15)

    def test_rules_inside_survive(self):
        lines = PROSE.split("\n")
        lines[90] = "Never touch the file config/prod.yaml."
        got = shorten_request("\n".join(lines), 400, estimate)
        assert got.split("\n")[-2:] == [RULES_TITLE, "- Never touch the file config/prod.yaml."]
        assert got.startswith("Line 0 of")
        assert estimate(got) <= 400

    def test_rules_that_are_shown_anyway_are_not_said_twice(self):
        got = shorten_request(f"Never touch the tests.\n{PROSE}", 400, estimate)
        assert got.count("Never touch") == 1
        assert RULES_TITLE not in got

    def test_many_rules_take_no_more_than_their_share(self):
        lines = PROSE.split("\n")
        lines[50:150] = [f"You must never rename the module harbour_{number}." for number in range(100)]
        got = shorten_request("\n".join(lines), 400, estimate)
        rules = got.partition(RULES_TITLE)[2]
        assert 1 <= rules.count("- You must") < 15
        assert estimate(got) <= 400

    def test_the_task_and_what_is_forbidden_come_before_other_rules(self):
        lines = PROSE.split("\n")
        lines[60:70] = [f"Always use the flag --calm{number} for harbours." for number in range(10)]
        lines[99] = "- MODIFY: source files in /work"
        lines[100] = "- DO NOT MODIFY: Tests (setup.cfg, etc.)"
        lines[110] = "Your task is to change the harbour and nothing else."
        got = shorten_request("\n".join(lines), 200, estimate)
        rules = got.partition(RULES_TITLE)[2].strip().split("\n")
        assert rules[:3] == [
            "- Your task is to change the harbour and nothing else.",
            "- DO NOT MODIFY: Tests (setup.cfg, etc.)",
            "- MODIFY: source files in /work",
        ]
        assert estimate(got) <= 200

    def test_a_list_of_data_does_not_stand_before_what_is_forbidden(self):
        lines = PROSE.split("\n")
        lines[60:120] = [f"- {chr(65 + number % 26)}QX: bought {number} shares" for number in range(60)]
        lines[130] = "Never push to main."
        rules = shorten_request("\n".join(lines), 200, estimate).partition(RULES_TITLE)[2]
        assert rules.strip().startswith("- Never push to main.\n")

    @pytest.mark.parametrize("fence", ["```", "~~~"])
    def test_a_command_that_is_demanded_word_for_word_survives(self, fence):
        lines = PROSE.split("\n")
        command = "echo DONE && git add -A && git diff --cached"
        lines[100:101] = ["When you are done, issue exactly this command:", "", f"{fence}sh", command, fence]
        got = shorten_request("\n".join(lines), 300, estimate)
        assert got.endswith(f"- When you are done, issue exactly this command: `{command}`")
        again = shorten_request("\n".join([*lines, command]), 300, estimate)
        assert again.count(command) == 1, "it is shown at the end anyway"

    @pytest.mark.parametrize(
        "block", [[], ["```", *map(str, range(9)), "```"], ["plain words"], ["```", "open"]]
    )
    def test_what_follows_a_demand_and_is_no_short_command(self, block):
        lines = PROSE.split("\n")
        lines[190:] = ["Do exactly this:", *block]
        lines[90] = "Never touch the tests."
        got = shorten_request("\n".join([*lines[:100], *lines[185:], *lines[100:185]]), 300, estimate)
        assert got.endswith(f"{RULES_TITLE}\n- Never touch the tests.")

    @pytest.mark.parametrize(
        "example",
        [
            ["<example_response>", "Never do RULE.", "</example_response>"],
            ["## Examples", "Never do RULE.", "### More", "Never do RULE too.", "## Else"],
            ["Example of a WRONG answer, it must never be RULE:"],
        ],
    )
    def test_examples_demand_nothing(self, example):
        lines = PROSE.split("\n")
        lines[80] = "Never touch the tests."
        lines[100:110] = example
        got = shorten_request("\n".join(lines), 400, estimate)
        assert got.endswith(f"{RULES_TITLE}\n- Never touch the tests.")

    def test_a_rule_that_is_too_long_is_left_out(self):
        lines = PROSE.split("\n")
        lines[90] = "You must never ever rename " + "the module and the class and " * 12 + "the file."
        got = shorten_request("\n".join(lines), 120, estimate)
        assert RULES_TITLE not in got


TEXTS = st.text(max_size=60) | st.builds(
    lambda text, times: text * times, st.text(max_size=30), st.integers(1, 80)
)
ARGUMENTS = st.dictionaries(
    st.text(max_size=8), TEXTS | st.integers() | st.lists(st.integers(), max_size=9) | st.none(), max_size=4
)
MESSAGES = st.one_of(
    TEXTS.map(user),
    TEXTS.map(assistant),
    TEXTS.map(lambda text: result("1", text)),
    st.builds(lambda text, made: calls(text, ToolCall("1", "t", made)), TEXTS, ARGUMENTS | TEXTS),
    st.builds(lambda text, made: calls(text, ToolCall("1", "t", json.dumps(made))), TEXTS, ARGUMENTS),
)


@given(MESSAGES, st.integers(0, 500))
def test_any_message(message, limit):
    """Never longer, the same parts in the same order, calls stay valid, and what fits is the same."""
    shortened = short(message, limit)
    assert size(shortened) <= size(message)
    assert [type(part) for part in shortened.parts] == [type(part) for part in message.parts]
    if size(message) <= limit:
        assert shortened is message
    for before, after in zip(message.calls, shortened.calls, strict=True):
        assert (after.id, after.name) == (before.id, before.name)
        if after != before:
            parsed = after.arguments if isinstance(after.arguments, dict) else json.loads(after.arguments)
            assert isinstance(parsed, dict)
            assert isinstance(after.arguments, str) or isinstance(before.arguments, dict)
    assert short(message, limit) == shortened


@given(
    st.lists(st.text(st.characters(codec="ascii"), max_size=80), max_size=80), st.integers(LEAST_VALUE, 400)
)
def test_both_ends_are_within_the_limit(lines, limit):
    text = "\n".join(lines)
    assert estimate(keep_both_ends(text, limit, estimate)) <= limit
    assert estimate(shorten_request(text, limit, estimate)) <= limit + 1


@pytest.mark.few_values(2)
@pytest.mark.slow
@pytest.mark.parametrize("make", [user, assistant, lambda text: result("1", text)])
def test_the_work_is_linear(make):
    def work(number):
        message = make("\n".join(f"line {at} of an output, path src/m{at}.py" for at in range(number)))
        return lambda: short(message, 200)

    assert_linear(work, few_or_all(400, 1_000))
