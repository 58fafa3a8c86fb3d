"""Dedupe: of several reads of one file only the latest stays, and what points to it tells the truth."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stage_tasks import make_task

import refold
from chat_messages import written_call
from refold import Message, Text, presets
from refold.core.compaction.edits import apply_edits
from refold.core.compaction.placeholders import CLEARED, format_pointer, is_placeholder
from refold.core.messages.text_cutting import clip
from refold.stages.dedupe import Dedupe
from refold.testing import assistant, call, call_part, calls, result, result_part

POINTER = "[File src/index.ts - refer to latest read below]"


def deduped(messages, stage=None, **more):
    return apply_edits(messages, (stage or Dedupe())(make_task(messages, **more)).edits)


def read(number, path="src/index.ts", text=None, **arguments):
    content = text if text is not None else f"{number}".ljust(5_000, "x")
    return [call("read_file", id=f"c{number}", path=path, **arguments), result(f"c{number}", content)]


def texts(messages):
    return [part.text for message in messages for part in message.results]


def short(messages):
    return [text[:1] if len(text) == 5_000 else text for text in texts(messages)]


class TestNeuroLink:
    """NeuroLink, "Stage 2: File Read Deduplication", and case 12 of its page."""

    def test_two_reads(self):
        """Case 12: the first of two reads of 5,000 characters points to the last, which is intact."""
        assert short(deduped([*read(1), *read(2)])) == [POINTER, "2"]

    def test_three_reads(self):
        """Case 12: the first two of three point to the last."""
        step = Dedupe()(make_task([*read(1), *read(2), *read(3)]))
        assert step.note == "2 superseded reads"
        assert short(deduped([*read(1), *read(2), *read(3)])) == [POINTER, POINTER, "3"]

    def test_different_files(self):
        """Case 12: reads of different files are left alone."""
        messages = [*read(1, "a.ts"), *read(2, "b.ts")]
        step = Dedupe()(make_task(messages))
        assert (step.edits, step.note) == ((), "no read of a file is superseded")

    @pytest.mark.parametrize(("size", "acts"), [(20, False), (68, False), (69, True), (5_000, True)])
    def test_thirty_per_cent(self, size, acts):
        """Section "Stage 2": at least 30 % of the replaced text must be saved; the pointer has 48 characters."""
        step = Dedupe()(make_task([*read(1, text="x" * size), *read(2, text="y" * size)]))
        assert bool(step.edits) is acts
        assert acts or step.note == "the reads are small"

    @pytest.mark.parametrize(
        "said",
        ["read_file 'src/index.ts'", 'Read file "src/index.ts"', "cat src/index.ts", "Reading src/index.ts"],
    )
    def test_plain_transcripts(self, said):
        """Section "File read detection": without tool calls the words of a tool result tell what was read."""
        messages = [Message("tool", f"{said}\n" + letter * 5_000) for letter in "ab"]
        done = deduped(messages)
        assert [message.text[:48] for message in done] == [POINTER, messages[1].text[:48]]

    @pytest.mark.parametrize(
        "said", ["I read the docs", "thread safety matters", "We concat strings", "Read file 'config.json'"]
    )
    def test_prose_is_never_taken_for_a_read(self, said):
        """The page, faults: the words of a model are no reads, whatever they say."""
        messages = [assistant(said + "x" * 3_000), assistant(said + "y" * 3_000), *read(1)]
        assert not Dedupe()(make_task(messages)).edits

    def test_read_file_in_words_names_the_file(self):
        """The page, faults: `Read file 'config.json'` reads config.json, not a path `file`."""
        messages = [
            Message("tool", f"Read file '{name}'\n" + "x" * 3_000) for name in ("config.json", "other.json")
        ]
        assert not Dedupe()(make_task(messages)).edits


class TestThePointerIsTrue:
    """Section "Refer to latest read below" must hold in the result (issue 2, item 9)."""

    def test_reads_are_matched_by_call_id(self):
        """Parallel calls: each result belongs to the call with its id, in whatever order they come."""
        messages = [
            calls(call_part("read_file", path="a.py"), call_part("read_file", path="b.py")),
            result("c2", "b" * 5_000),
            result("c1", "a" * 5_000),
            call("read_file", id="c3", path="b.py"),
            result("c3", "B" * 5_000),
        ]
        assert [text[:12] for text in texts(deduped(messages))] == ["[File b.py -", "a" * 12, "B" * 12]

    def test_results_of_one_message(self):
        """Two reads of one file in one user message: the earlier part points to the later one."""
        messages = [
            calls(call_part("read_file", path="a.py"), call_part("read_file", path="a.py")),
            Message("user", (result_part("c1", "1" * 900), result_part("c2", "2" * 900), Text("and now?"))),
        ]
        done = deduped(messages)
        assert [part.text[:5] for part in done[1].parts] == ["[File", "22222", "and n"]

    def test_a_failed_read_supersedes_nothing(self):
        """The file is shown only by a read that succeeded."""
        flagged = Message("tool", (result_part("c2", "x" * 5_000, is_error=True),))
        messages = [*read(1), call("read_file", id="c2", path="src/index.ts"), flagged]
        assert deduped(messages) == messages

    @pytest.mark.parametrize(
        "words",
        ["Error: no such file", "ENOENT: src/index.ts", "Permission denied", "File not found.", "", "  \n"],
    )
    def test_a_read_that_says_it_failed_supersedes_nothing(self, words):
        """OpenAI results carry no flag: what begins like a failure is taken for one."""
        messages = [*read(1), *read(2, text=words)]
        assert deduped(messages) == messages

    @pytest.mark.parametrize(
        "words", [CLEARED, format_pointer("src/index.ts"), "[Tool result truncated — originally 9 chars]"]
    )
    def test_a_placeholder_supersedes_nothing_and_is_not_superseded(self, words):
        assert deduped([*read(1), *read(2, text=words)]) == [*read(1), *read(2, text=words)]
        done = deduped([*read(1, text=words), *read(2), *read(3)])
        assert short(done) == [words, POINTER, "3"]

    def test_a_cut_read_supersedes_only_cut_reads(self):
        """The whole of a file must not give way to a piece of it."""
        cut = clip("x" * 6_000, max_bytes=3_000).text
        assert deduped([*read(1), *read(2, text=cut)]) == [*read(1), *read(2, text=cut)]
        assert short(deduped([*read(1, text=cut), *read(2)])) == [POINTER, "2"]
        assert short(deduped([*read(1, text=cut), *read(2, text=cut)])) == [POINTER, cut]

    def test_a_piece_supersedes_only_the_same_piece(self):
        """A read of all covers every piece; a read of another piece covers nothing."""
        whole, first, second = {}, {"offset": 0, "limit": 50}, {"offset": 50, "limit": 50}
        assert short(deduped([*read(1, **first), *read(2, **second)])) == ["1", "2"]
        assert short(deduped([*read(1, **first), *read(2, **first)])) == [POINTER, "2"]
        assert short(deduped([*read(1, **first), *read(2, **whole)])) == [POINTER, "2"]
        assert short(deduped([*read(1, **whole), *read(2, **first)])) == ["1", "2"]

    def test_one_file_may_be_written_in_two_ways(self):
        assert short(deduped([*read(1, "./src/index.ts"), *read(2)]))[1:] == ["2"]

    def test_guarded_reads_stay_whole(self):
        """A pinned read is not replaced, and may still be the one others point to."""
        messages = [*read(1), *read(2), *read(3)]
        assert short(deduped(messages, protected=frozenset({3}))) == [POINTER, "2", "3"]

    def test_deduplicating_twice_changes_nothing(self):
        once = deduped([*read(1), *read(2)])
        assert not Dedupe()(make_task(once)).edits


class TestThroughTheSurface:
    """What later stages take away no pointer may point to."""

    def test_a_pointer_does_not_outlive_its_read(self):
        """NeuroLink: the first exchange stays when the window slides; its pointer must not outlive its read."""
        messages = [{"role": "user", "content": "go"}]
        for number in range(2):
            messages += [
                written_call(f"r{number}", json.dumps({"path": "a.py"})),
                {"role": "tool", "tool_call_id": f"r{number}", "content": f"{number}" * 4_000},
            ]
        messages += [
            {"role": ("user", "assistant")[n % 2], "content": f"{n} " + "talk " * 200} for n in range(20)
        ]
        policy = presets.get("neurolink")
        wide = refold.compact(messages, policy=policy, target=8_000)
        assert wide.stages == ("deduplicate",)
        assert wide.messages[2]["content"] == "[File a.py - refer to latest read below]"
        assert wide.messages[4]["content"] == "1" * 4_000
        narrow = refold.compact(messages, policy=policy, target=2_000)
        assert narrow.stages == ("deduplicate", "truncate")
        assert narrow.fits
        assert narrow.met_target
        assert narrow.messages[2]["content"] == CLEARED
        assert not any("refer to latest" in str(message["content"]) for message in narrow.messages)
        again = refold.compact(wide.messages, policy=policy, target=2_000)
        assert again.messages[2]["content"] == CLEARED

    def test_a_pointer_to_a_read_that_is_cut_in_the_view_says_so(self):
        """The default shortens older outputs after it has put its pointers."""
        messages = [{"role": "user", "content": "Find the fault."}]
        for number, name in enumerate(["a.py", "a.py", "b.py"]):
            messages += [
                written_call(f"r{number}", json.dumps({"path": name})),
                {
                    "role": "tool",
                    "tool_call_id": f"r{number}",
                    "content": "\n".join(
                        f"line {at} of {name} has the value {at * number}" for at in range(150)
                    ),
                },
            ]
        short = refold.compact(messages, model="gpt-4o", target=2_400).messages
        assert "left out" in short[4]["content"]
        assert short[2]["content"] == "[File a.py - refer to cut version below]"
        whole = refold.compact(messages, model="gpt-4o", target=4_500).messages
        assert whole[4] == messages[4]
        assert whole[2]["content"] == "[File a.py - refer to latest read below]"


paths = st.sampled_from(["a.py", "b.py", "./a.py"])
contents = st.sampled_from(
    ["x" * 400, "y" * 900, "Error: gone", "", CLEARED, format_pointer("a.py"), "short"]
)
extents = st.sampled_from([{}, {"offset": 1}, {"offset": 2}])


@given(st.lists(st.tuples(paths, contents, extents), max_size=10), st.frozensets(st.integers(0, 19)))
def test_every_pointer_points_to_a_read_below(history, guarded):
    """In any history: what a new pointer names is shown, not cut and not failed, further below."""
    messages = [
        message
        for number, (path, text, extent) in enumerate(history)
        for message in read(number, path, text, **extent)
    ]
    done = deduped(messages, protected=guarded)
    assert all(done[index] is messages[index] for index in guarded if index < len(done))
    for index, (new, old) in enumerate(zip(done, messages, strict=True)):
        if new is old:
            continue
        path, extent = history[index // 2][0].removeprefix("./"), history[index // 2][2]
        below = [
            number
            for number in range(index // 2 + 1, len(history))
            if history[number][0].removeprefix("./") == path
            and history[number][2] in ({}, extent)
            and not is_placeholder(texts(done)[number])
        ]
        assert below
