"""Ripple's folder: the live messages, one part a fold, and sessions that come back as they were."""

import json
from dataclasses import replace

import pytest
from exported_cases import removed_ranges, sessions
from hypothesis import given, settings

from refold.core.log.view import Change, MessageRange, Replacement
from refold.core.messages import summary_headers
from refold.errors import FormatError
from refold.formats.shared import exported as form
from refold.formats.shared.exported import Exported, ExportedFold, check, from_json, to_json
from refold.formats.systems.ripple_archive import IN_LOG, name_history, part_name, read_archive, write_archive
from sample_sizes import few_or_all

RIPPLE_HEADER = "This conversation continues an earlier one whose older messages were summarised"

SUMMARY = f"{RIPPLE_HEADER} to make room. A condensed summary of them follows:\n\nCONDENSED"


def said(text, role="user"):
    return {"role": role, "content": text}


def lines(messages):
    return "".join(json.dumps(message) + "\n" for message in messages)


def rows(text):
    return [json.loads(line) for line in text.splitlines()]


def session(*, summary=None, standing=True):
    """Six messages; two folds, the second over the first one's summary, each with an acknowledgement."""
    summary = said(SUMMARY) if summary is None else summary
    ack = said(summary_headers.ACKNOWLEDGEMENT, "assistant")
    folds = (
        fold("one", (MessageRange(1, 2),), summary, ack),
        replace(
            fold("two", (Replacement("one", 0), Replacement("one", 1), MessageRange(3, 4)), summary, ack),
            standing=standing,
        ),
    )
    messages = tuple(said(str(number)) for number in range(1, 7))
    return Exported(session="s", format="openai", said=messages, folds=folds, checkpoints={"c": 2}, pins=(5,))


def fold(name, took, *put):
    change = Change(took, tuple(Replacement(name, place) for place in range(len(put))))
    return ExportedFold(name=name, changes=(change,), put=put, said=4, stages=("summarize",), at=1.5)


class TestWriting:
    def test_one_part_a_fold_and_the_live_messages(self):
        files = write_archive(session())
        assert list(files) == [
            "messages.jsonl",
            "history/part-1.jsonl",
            "history/part-2.jsonl",
            "refold.json",
        ]
        assert rows(files["history/part-1.jsonl"]) == [said("1"), said("2")]
        assert rows(files["history/part-2.jsonl"]) == [said("3"), said("4")]
        assert rows(files["messages.jsonl"])[1:] == [
            said(summary_headers.ACKNOWLEDGEMENT, "assistant"),
            said("5"),
            said("6"),
        ]

    def test_the_summary_names_the_history_folder(self):
        text = rows(write_archive(session(), history="/data/s/history/")["messages.jsonl"])[0]["content"]
        where = "The original messages are kept in /data/s/history/, one part file per compaction."
        assert (
            text == f"{RIPPLE_HEADER} to make room. {where} A condensed summary of them follows:\n\nCONDENSED"
        )

    @pytest.mark.parametrize(
        "summary",
        [
            said("[Conversation summary — older messages were compacted]\n\nx", "system"),
            {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "x"}]},
            {"role": "user", "parts": [{"text": "t", "thought": True}, {"text": "x"}]},
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "x"}]},
            {"role": "human", "text": "x", "source": "summarization"},
        ],
    )
    def test_every_wire_shape_carries_the_pointer(self, summary):
        exported = session(summary=summary)
        files = write_archive(exported)
        assert "x\\n\\nThe original messages are kept in history/" in files["messages.jsonl"].splitlines()[0]
        assert read_archive(files) == exported

    @pytest.mark.parametrize(
        "summary",
        [said("x", "tool"), {"role": "user", "content": []}, {"role": ["user"], "content": "x"}, {}, 3],
    )
    def test_what_cannot_carry_it_stays(self, summary):
        exported = session(summary=summary)
        files = write_archive(exported)
        assert json.loads(files["messages.jsonl"].splitlines()[0]) == summary
        assert read_archive(files) == exported

    def test_the_pointer_is_not_written_twice(self):
        live = rows(write_archive(session())["messages.jsonl"])[0]
        assert rows(write_archive(session(summary=live))["messages.jsonl"])[0] == live

    def test_summaries_have_the_tag_by_which_ripple_knows_them(self):
        """Its document: the turn is tagged (source == "summarization"), and so is the acknowledgement."""
        told = {"beside": [{"source": "summarization"}, {"source": "summarization", "meta": {}}]}
        exported = session()
        folds = tuple(replace(fold, facts=told) for fold in exported.folds)
        files = write_archive(replace(exported, folds=folds))
        assert [row.get("source") for row in rows(files["messages.jsonl"])] == [
            "summarization",
            "summarization",
            None,
            None,
        ]
        assert read_archive(files) == replace(exported, folds=folds)
        assert '"source"' not in files["history/part-2.jsonl"]
        old = write_archive(replace(exported, folds=folds), tagged=False)
        assert '"source"' not in old["messages.jsonl"]
        assert read_archive(old) == replace(exported, folds=folds)

    @pytest.mark.parametrize(
        "beside", [None, "text", [], ["text", "text"], [{}, {}], [{"source": "user"}, {"meta": {}}]]
    )
    def test_what_is_no_summary_has_no_tag(self, beside):
        exported = session()
        folds = tuple(replace(fold, facts={"beside": beside}) for fold in exported.folds)
        files = write_archive(replace(exported, folds=folds))
        assert '"source"' not in files["messages.jsonl"]
        assert read_archive(files) == replace(exported, folds=folds)

    @pytest.mark.parametrize("put", [{"role": "user", "content": "S", "source": "mine"}, "text"])
    def test_a_message_with_a_source_of_its_own_keeps_it(self, put):
        exported = session(summary=put)
        folds = tuple(
            replace(fold, facts={"beside": [{"source": "summarization"}] * 2}) for fold in exported.folds
        )
        files = write_archive(replace(exported, folds=folds))
        live = rows(files["messages.jsonl"])[0]
        assert live == put or live["source"] == "mine"
        assert read_archive(files) == replace(exported, folds=folds)

    def test_an_unfolded_fold_has_no_part(self):
        files = write_archive(session(standing=False))
        assert part_name(2) not in files
        assert rows(files["messages.jsonl"])[2:] == [said(str(n)) for n in range(3, 7)]

    def test_what_an_unfolded_fold_took_belongs_to_the_fold_above(self):
        exported = session()
        exported = replace(exported, folds=(replace(exported.folds[0], standing=False), exported.folds[1]))
        files = write_archive(exported)
        assert rows(files["history/part-2.jsonl"]) == [said(str(n)) for n in range(1, 5)]
        assert "history/part-1.jsonl" not in files

    @settings(max_examples=few_or_all(8, 60), deadline=None)
    @given(exported=sessions())
    def test_a_session_comes_back_as_it_was(self, exported):
        files = write_archive(exported)
        assert repr(read_archive(files)) == repr(exported)
        assert write_archive(read_archive(files)) == files


class TestReading:
    def test_messages_said_since_belong_to_it(self):
        files = write_archive(session())
        files["messages.jsonl"] += json.dumps(said("7")) + "\n\n"
        assert read_archive(files) == replace(session(), said=(*session().said, said("7")))

    @pytest.mark.parametrize(
        ("name", "text", "words"),
        [
            ("messages.jsonl", '{"role": "user"}\n{"ro', "messages.jsonl line 2: is not JSON"),
            ("history/part-2.jsonl", "?\n", "history/part-2.jsonl line 1: is not JSON"),
            ("history/part-2.jsonl", "", "history/part-2.jsonl: lines are missing"),
            (
                "history/part-2.jsonl",
                lines([said("3"), said("4"), said("5")]),
                "refold.json: does not belong",
            ),
            ("history/part-3.jsonl", lines([said("a")]), "refold.json: does not belong"),
            ("messages.jsonl", lines([said(str(n)) for n in range(9)]), "refold.json: does not belong"),
            ("refold.json", "[]", "refold.json: cannot be read"),
            ("refold.json", "{}", "refold.json: cannot be read"),
            ("refold.json", '{"view": [], "parts": []}', "refold.json: cannot be read"),
            ("refold.json", "{", "refold.json: is not JSON"),
        ],
    )
    def test_what_was_damaged_is_refused_with_its_place(self, name, text, words):
        files = {**write_archive(session()), name: text}
        with pytest.raises(FormatError) as caught:
            read_archive(files)
        assert str(caught.value).startswith(words)

    @pytest.mark.parametrize("name", ["messages.jsonl", "history/part-1.jsonl"])
    def test_a_file_that_is_missing_is_named(self, name):
        files = write_archive(session())
        del files[name]
        with pytest.raises(FormatError, match=f"{name}: the file is missing"):
            read_archive(files)

    def test_a_hostile_manifest_costs_nothing(self):
        files = write_archive(session())
        value = json.loads(files["refold.json"])
        for view in (["1-99999999999"], ["9-1"], ["x"], [3], 3, ["1-" + "9" * 5000]):
            with pytest.raises(FormatError):
                read_archive({**files, "refold.json": json.dumps({**value, "view": view})})


RIPPLES = {"role": "human", "text": "Earlier: ...", "source": "summarization"}


class TestPlainFolders:
    def test_parts_stand_where_the_summary_stands(self):
        ack = {"role": "ai", "text": summary_headers.ACKNOWLEDGEMENT}
        files = {
            "messages.jsonl": lines([said("0", "system"), RIPPLES, ack, said("5")]),
            "history/part-10.jsonl": lines([said("3"), said("4")]),
            "history/part-2.jsonl": lines([said("1"), said("2")]),
            "history/part-03.jsonl": "not ours",
            "notes.txt": "not ours",
        }
        exported = read_archive(files)
        assert [message["content"] for message in exported.said] == ["0", "1", "2", "3", "4", "5"]
        assert exported.view == (said("0", "system"), RIPPLES, ack, said("5"))
        assert [(fold.name, removed_ranges(fold)) for fold in exported.folds] == [
            ("part-2", [(2, 3)]),
            ("part-10", [(4, 5)]),
        ]
        assert read_archive(write_archive(exported)) == exported

    def test_a_summary_is_known_by_its_words(self):
        exported = read_archive(
            {"messages.jsonl": lines([said(SUMMARY), said("2")]), "history/part-1.jsonl": lines([said("1")])}
        )
        assert exported.said == (said("1"), said("2"))

    def test_the_tag_is_no_part_of_a_providers_message(self):
        tagged = {**said("S"), "source": "summarization"}
        part = {"history/part-1.jsonl": lines([said("1")])}
        exported = read_archive({"messages.jsonl": lines([tagged, said("2")]), **part})
        assert exported.view == (said("S"), said("2"))
        assert exported.folds[0].facts == {"beside": [{"source": "summarization"}]}
        assert read_archive({"messages.jsonl": lines([tagged, said("2")])}).said == (said("S"), said("2"))

    def test_a_part_whose_messages_are_still_live_was_left_by_a_run_that_failed(self):
        live = [said("1"), said("2"), said("3")]
        files = {"messages.jsonl": lines(live), "history/part-1.jsonl": lines(live[:2])}
        assert read_archive(files) == Exported(said=tuple(live))

    def test_no_parts_or_empty_ones(self):
        live = [RIPPLES, said("2")]
        assert read_archive({"messages.jsonl": lines(live)}) == Exported(said=tuple(live))
        assert read_archive({"messages.jsonl": lines(live), "history/part-1.jsonl": "\n"}).said == tuple(live)
        files = {
            "messages.jsonl": lines(live),
            "history/part-1.jsonl": "",
            "history/part-2.jsonl": lines([said("1")]),
        }
        assert read_archive(files).view == tuple(live)
        assert read_archive({"messages.jsonl": ""}) == Exported()

    def test_parts_without_a_summary(self):
        exported = read_archive(
            {
                "messages.jsonl": lines([said("2"), 3, {"role": "user"}]),
                "history/part-1.jsonl": lines([said("1")]),
            }
        )
        assert exported.said == (said("1"), said("2"), 3, {"role": "user"})
        assert exported.view == (said("2"), 3, {"role": "user"})


class TestExported:
    def test_ranges_are_subtracted_in_any_order(self):
        left = form.subtract_ranges(MessageRange(1, 9), (MessageRange(7, 7), MessageRange(3, 4)))
        assert left == [MessageRange(1, 2), MessageRange(5, 6), MessageRange(8, 9)]

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"folds": (fold("a", (MessageRange(1, 7),)),)}, "fold 1: speaks of messages #1-#7 of 6"),
            ({"folds": (fold("a", (MessageRange(2, 1),)),)}, "fold 1: speaks of messages #2-#1 of 6"),
            (
                {"folds": (fold("a", (Replacement("a", 0),), said("x")),)},
                "fold 1: speaks of message 0 of 'a'",
            ),
            (
                {"folds": (fold("a", (MessageRange(1, 1),)), fold("a", (MessageRange(2, 2),)))},
                "fold 2: has the name of another",
            ),
            ({"checkpoints": {"c": 7}}, "checkpoint 'c': stands behind message #7 of 6"),
            ({"pins": (0,)}, "pins: there is no message #0"),
        ],
    )
    def test_what_is_not_there_is_refused(self, change, words):
        with pytest.raises(FormatError) as caught:
            check(replace(session(), **change))
        assert str(caught.value).startswith(words)

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"refold": 2}, "upgrade refold"),
            ({"refold": True}, "found bool"),
            ({"pins": ["1"]}, "found str"),
            ({"pins": [10**400]}, "found a number that is too large"),
            ({"folds": [{}]}, "the field 'name' is missing"),
            ({"folds": [{"name": "a", "changes": 3}]}, "cannot be read"),
            ({"folds": [{"name": "a", "changes": [{"took": ["7/0"], "put": []}]}]}, "there is no fold '7'"),
        ],
    )
    def test_json_that_does_not_fit_is_refused(self, change, words):
        with pytest.raises(FormatError, match=words):
            from_json({**to_json(session()), **change}, session().said, where="x")

    def test_the_parts_and_the_view_are_all_that_was_said(self):
        exported = session()
        gone = [
            number
            for runs in form.removed_by_fold(exported).values()
            for run in runs
            for number in range(run.first, run.last + 1)
        ]
        assert gone == [1, 2, 3, 4]
        assert exported.view[2:] == (said("5"), said("6"))


def test_a_summary_says_where_the_originals_are():
    assert name_history(IN_LOG).endswith("where `recall` finds them.")
    assert name_history("history/").endswith("history/, one part file per compaction.")
