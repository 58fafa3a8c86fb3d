"""Clipping, fitting and clamping of text."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from growth import stop_hang
from refold.core.messages.text_boundaries import boundary_after, boundary_before, well_formed
from refold.core.messages.text_cutting import (
    MAX_BYTES,
    MAX_LINES,
    MIDDLE_OMITTED,
    NOTICE,
    Clipped,
    Fitted,
    byte_size,
    clip,
    find_telling_word,
    first_line,
    fit_text,
    head_and_tail,
    middle_out,
)
from sample_sizes import few_or_all

FAMILY = "👨‍👩‍👧‍👦"
CLUSTERS = [
    "a",
    " ",
    "é",
    "e\u0301\u0323",
    FAMILY,
    "👍🏽",
    "❤️",
    "🇩🇪",
    "🏴\U000e0067\U000e0062\U000e007f",
    "\u1100\u1161\u11a8",
    "각",
    "क्ष",
    "\r\n",
    "\n",
    "\ud83d\ude00",
    "กำ",
    "\u0600\u0661",
    "\x1b[31m",
    "\x1b[1;4;38;5;200m",
    "\x1b]8;;http://example.org/a b\x1b\\",
    "\x1b]0;title\x07",
    "\x1b(B",
    "漢",
]
ANY_TEXT = st.text(st.characters(), max_size=300) | st.lists(st.sampled_from(CLUSTERS), max_size=80).map(
    "".join
)
KEEPS = st.sampled_from(["head", "tail", "both"])


def edges(clusters):
    """Places between clusters."""
    found, at = {0}, 0
    for cluster in clusters:
        at += len(cluster)
        found.add(at)
    return found


def lines_of(text):
    return text.count("\n") + (not text.endswith("\n") and text != "")


class TestClip:
    def test_limits(self):
        """NeuroLink, "Tool Output Limits": 51200 bytes and 2000 lines."""
        assert (MAX_BYTES, MAX_LINES) == (51_200, 2_000)
        assert not clip("x" * 51_200).clipped
        assert clip("x" * 51_201).clipped
        assert not clip("x\n" * 2_000).clipped
        assert clip("x\n" * 2_001).clipped

    def test_text_within_its_limits_is_the_same_object(self):
        """NeuroLink, case 27: a small output is unchanged, even with half a surrogate in it."""
        text = "small \ud800"
        assert clip(text) == Clipped(text, clipped=False, original_bytes=9, saved_to=None)
        assert clip(text).text is text

    def test_the_tail_is_kept_and_the_notice_is_appended(self):
        """NeuroLink, "Tool Output Limits": the tail by default, then sizes before and after."""
        got = clip("a" * 100_000 + "END")
        assert got.original_bytes == 100_003
        body, _, notice = got.text.rpartition("\n")
        assert body.endswith("END")
        assert notice == f"[Output truncated from 100003 bytes to {len(body)} bytes]"
        assert len(got.text) <= 51_200
        assert len(got.text) > 51_190

    def test_the_head_can_be_kept(self):
        """NeuroLink, "Tool Output Limits": direction head."""
        got = clip("START" + "a" * 100_000, keep="head")
        assert got.text.startswith("START")
        assert got.text.endswith(" bytes]")

    def test_both_ends_can_be_kept(self):
        """NeuroLink, case 27: 100 KB are cut with the bytes omitted named between a quarter and three."""
        got = clip("x" * 102_400, keep="both")
        head, _, rest = got.text.partition("\n[... ")
        number, _, tail = rest.partition(" bytes omitted ...]\n")
        assert got.original_bytes == 102_400
        assert len(head) + int(number) + len(tail) == 102_400
        assert len(tail) // len(head) == 3
        assert len(got.text) <= 51_200

    def test_both_ends_by_lines(self):
        """NeuroLink, case 27: of 3000 lines cut to 100 the first and the last are there, 25 and 75."""
        got = clip("\n".join(f"Line {n}" for n in range(3_000)), max_lines=100, keep="both")
        kept = got.text.split("\n")
        assert kept[0] == "Line 0"
        assert kept[24] == "Line 24"
        assert kept[25].endswith("bytes omitted ...]")
        assert kept[26] == "Line 2925"
        assert kept[-1] == "Line 2999"

    def test_both_ends_share_what_one_does_not_need(self):
        """A short head leaves its bytes to the tail, and a short tail to the head."""
        short_head = clip(
            "a\n" * 25 + "b" * 9_000 + "\n" + "c" * 300 + "\n" * 75, max_lines=100, max_bytes=600, keep="both"
        )
        assert short_head.text.startswith("a\n" * 25)
        assert "c" * 300 in short_head.text
        short_tail = clip("a" * 400 + "\n" * 40 + "z\n" * 75, max_lines=100, max_bytes=700, keep="both")
        assert short_tail.text.startswith("a" * 400)
        assert short_tail.text.endswith("z\n" * 75)

    @pytest.mark.parametrize(
        ("text", "keep", "lines", "kept"),
        [
            ("a\nb\nc", "tail", 2, "b\nc\n"),
            ("a\nb\nc\n", "tail", 2, "b\nc\n"),
            ("a\nb\nc\n", "head", 2, "a\nb\n"),
            ("a\r\nb\r\nc", "head", 1, "a\r\n"),
            ("a\r\nb\r\nc", "tail", 1, "c\n"),
            ("\n\n\n", "tail", 2, "\n\n"),
            ("a\nb", "head", 0, ""),
            ("a\nb", "tail", 0, ""),
            ("a\nb", "tail", -3, ""),
        ],
    )
    def test_lines(self, text, keep, lines, kept):
        """A line end at the end starts no new line; the notice is a line of its own."""
        got = clip(text, keep=keep, max_lines=lines)
        assert got.text.startswith(kept + "[Output truncated from ")

    def test_one_line_without_end_is_one_line(self):
        assert not clip("x" * 100, max_lines=1).clipped
        assert not clip("x\n", max_lines=1).clipped
        assert not clip("", max_lines=0).clipped

    def test_no_limit(self):
        text = "x\n" * 100_000
        assert not clip(text, max_bytes=None, max_lines=None).clipped
        assert clip(text, max_bytes=None, max_lines=10).text.startswith("x\n" * 10 + "[")
        assert clip(text, max_bytes=100, max_lines=None).clipped

    def test_a_limit_smaller_than_the_notice_holds_for_the_text_alone(self):
        got = clip("0123456789" * 10, max_bytes=4)
        assert got.text == "6789\n[Output truncated from 100 bytes to 4 bytes]"
        assert clip("abc", max_bytes=0).text == "[Output truncated from 3 bytes to 0 bytes]"
        assert clip("abc", max_bytes=-1).text == "[Output truncated from 3 bytes to 0 bytes]"

    def test_a_wrong_word_is_refused(self):
        with pytest.raises(ValueError, match="'head', 'tail' or 'both'"):
            clip("x", keep="middle")  # type: ignore[arg-type]

    def test_saved_path_is_named(self):
        """NeuroLink, "Tool Output Limits": the notice carries the path when the full text was saved."""
        seen = []
        got = clip("x" * 1_000, max_bytes=300, save_to=lambda text: seen.append(text) or "out/1.txt")
        assert seen == ["x" * 1_000]
        assert got.saved_to == "out/1.txt"
        assert got.text.endswith(" bytes] [Full output saved to out/1.txt]")
        assert len(got.text) <= 300
        both = clip("x" * 1_000, max_bytes=300, keep="both", save_to=lambda _: "out/1.txt")
        assert " bytes omitted ...] [Full output saved to out/1.txt]\n" in both.text
        assert clip("x" * 9, max_bytes=None, max_lines=0, save_to=lambda _: "p").text.endswith("saved to p]")

    def test_nothing_is_saved_when_nothing_is_cut(self):
        assert clip("x", save_to=lambda text: pytest.fail("saved")).saved_to is None

    @pytest.mark.parametrize("answer", [None, ""])
    def test_a_save_that_names_nothing_gives_no_pointer(self, answer):
        got = clip("x" * 1_000, max_bytes=300, save_to=lambda _: answer)
        assert got.saved_to is None
        assert got.text.endswith(" bytes]")

    def test_a_save_that_fails_does_not_stop_the_clip(self):
        def full(text):
            raise OSError(28, "no space left")

        got = clip("x" * 1_000, max_bytes=300, save_to=full)
        assert got.clipped
        assert got.saved_to is None
        assert got.text.endswith(" bytes]")

    def test_a_pointer_that_does_not_fit_is_left_out_of_the_text(self):
        got = clip("x" * 1_000, max_bytes=300, save_to=lambda _: "p" * 400)
        assert got.saved_to == "p" * 400
        assert "ppp" not in got.text
        assert len(got.text) <= 300

    @given(ANY_TEXT, st.integers(0, 400), st.integers(0, 20) | st.none(), KEEPS)
    def test_never_over_the_limits(self, text, max_bytes, max_lines, keep):
        """Text and notice stay within the bytes, or the notice alone is larger than they are."""
        got = clip(text, max_bytes=max_bytes, max_lines=max_lines, keep=keep)
        assert got.original_bytes == byte_size(text)
        if not got.clipped:
            assert got.text is text
            return
        assert byte_size(got.text) <= max(max_bytes, min(max_bytes, 80) + 80)
        if max_lines is not None:
            assert lines_of(got.text) <= max_lines + 1
        got.text.encode()

    @given(ANY_TEXT, st.integers(0, 400) | st.none(), st.integers(0, 20) | st.none(), KEEPS)
    def test_to_clip_twice_is_to_clip_once(self, text, max_bytes, max_lines, keep):
        once = clip(text, max_bytes=max_bytes, max_lines=max_lines, keep=keep)
        twice = clip(once.text, max_bytes=max_bytes, max_lines=max_lines, keep=keep)
        assert twice.text == once.text

    @pytest.mark.parametrize("keep", ["head", "tail", "both"])
    def test_a_clipped_text_can_be_told_from_a_whole_one(self, keep):
        text = "line\n" * 3_000
        assert NOTICE.search(text) is None
        assert NOTICE.search(clip(text, keep=keep).text)
        assert NOTICE.search(clip(text, keep=keep, save_to=lambda _: "p").text)[0].endswith(" saved to p]")

    def test_a_notice_excuses_no_more_than_itself(self):
        """Output that merely quotes a notice is still held to the limits."""
        quoted = "[Output truncated from 9 bytes to 1 bytes]\n"
        assert clip(quoted + "x\n" * 12, max_lines=10).clipped
        assert clip(quoted + "x" * 500, max_bytes=400).clipped
        assert clip(quoted + "x" * 500, max_bytes=None, max_lines=0).clipped

    @given(st.lists(st.sampled_from(CLUSTERS), min_size=1, max_size=60), st.integers(0, 200), KEEPS)
    def test_cuts_fall_between_characters(self, clusters, max_bytes, keep):
        """Fault C34: no cut in a grapheme, a surrogate pair, a CRLF or an ANSI sequence."""
        text = "".join(clusters)
        got = clip(text, max_bytes=max_bytes, max_lines=None, keep=keep)
        if not got.clipped:
            return
        starts = {well_formed("".join(clusters[:n])) for n in range(len(clusters) + 1)}
        ends = {well_formed("".join(clusters[n:])) for n in range(len(clusters) + 1)}
        if keep == "both":
            head, _, rest = got.text.rpartition("[... ")
            assert head in starts or head.removesuffix("\n") in starts
            assert rest.partition(" bytes omitted ...]\n")[2] in ends
        else:
            body = got.text.rpartition("[Output")[0]
            wanted = starts if keep == "head" else ends
            assert body in wanted or body.removesuffix("\n") in wanted

    def test_lone_surrogates_become_valid_text(self):
        """Fault C34: what is cut can always be written as UTF-8."""
        got = clip("a\ud800" * 1_000 + "\ud83d\ude00", max_bytes=200)
        assert "a\ufffda\ufffd😀\n[Output" in got.text
        got.text.encode()

    @pytest.mark.each_value
    @pytest.mark.parametrize(
        "piece", ["word ", "e\u0301", "\u0301", "🇩🇪", "\x1b]", "\x1b[1m", "\n", "\ud800", "漢"]
    )
    @pytest.mark.parametrize("keep", ["head", "tail", "both"])
    def test_megabytes_do_not_hang(self, piece, keep):
        text = piece * (4_000_000 // len(piece))
        with stop_hang():
            got = clip(text, keep=keep)
        assert byte_size(got.text) <= MAX_BYTES


def by_fours(text):
    return -(-len(text) // 4)


class TestFitText:
    def test_text_that_fits_is_unchanged(self):
        assert fit_text("Hello.", 2, count=by_fours) == Fitted("Hello.", truncated=False)
        assert fit_text("", 0, count=by_fours) == Fitted("", truncated=False)

    @pytest.mark.parametrize("budget", [0, -5])
    def test_no_budget_gives_no_text(self, budget):
        assert fit_text("Hello.", budget, count=by_fours) == Fitted("", truncated=True)

    def test_never_over_the_budget(self):
        """NeuroLink, known fault: a limit of 100 tokens gave 101 or 102 because of the dots."""
        got = fit_text("word " * 1_000, 100, count=by_fours)
        assert got.truncated
        assert got.text.endswith("word...")
        assert 98 <= by_fours(got.text) <= 100

    def test_cut_after_a_sentence_beyond_the_half(self):
        """NeuroLink, "truncateToTokenBudget": at a sentence end, else at a word, then three dots."""
        text = "One sentence here. Another one follows! And a third one that is much longer than the rest"
        assert fit_text(text, 15, count=by_fours).text == "One sentence here. Another one follows!..."

    def test_a_sentence_in_the_first_half_is_not_enough(self):
        text = "Short. " + "then many words come without any end of a sentence " * 5
        assert (
            fit_text(text, 20, count=by_fours).text
            == "Short. then many words come without any end of a sentence then many words..."
        )

    @pytest.mark.parametrize(
        ("text", "kept"),
        [
            ("first line of text\nsecond line of it all", "first line of text\n"),
            ("这是第一个句子的全部。第二个句子还没有结束就被截断了", "这是第一个句子的全部。"),
            ("see module a.b.c.d.e.f.g.h for more", "see module"),
            ("What is it? Nobody can tell us now", "What is it?"),
        ],
    )
    def test_ends_of_sentences(self, text, kept):
        assert fit_text(text, len(kept) + 7, count=len).text == kept + "..."

    def test_a_word_that_ends_at_the_cut_stays(self):
        assert fit_text("alpha beta gamma", 13, count=len).text == "alpha beta..."

    def test_a_far_gap_is_not_sought(self):
        """One long word after a short one is cut, not thrown away."""
        assert fit_text("id " + "x" * 500, 203, count=len).text == "id " + "x" * 197 + "..."
        assert fit_text("id " + "x" * 500, 33, count=len).text == "id..."

    def test_leading_space_is_no_word(self):
        assert fit_text("    " + "x" * 50, 20, count=len).text == "    " + "x" * 13 + "..."

    def test_a_number_is_not_cut(self):
        assert fit_text("金額為813451元", 8, count=len).text == "金額為..."
        assert fit_text("8134513", 6, count=len).text == "813..."  # there is nothing else

    def test_the_dots_alone_or_nothing(self):
        assert fit_text("Hello world", 3, count=len) == Fitted("...", truncated=True)
        assert fit_text("Hello world", 2, count=len) == Fitted("", truncated=True)
        assert fit_text("Hello world", 5, count=len, ellipsis="").text == "Hello"

    def test_a_cluster_is_whole_or_absent(self):
        assert fit_text(FAMILY * 9, len(FAMILY) * 2 + 5, count=len).text == FAMILY * 2 + "..."
        assert fit_text(FAMILY * 2, 6, count=len).text == "..."

    def test_uneven_counts_step_back_to_what_was_counted(self):
        """A counter that dislikes the nicer cut gets the one it accepted."""

        def fussy(text):
            return 999 if text.endswith("beta...") else len(text)

        assert fit_text("alpha beta gammadelta", 15, count=fussy).text == "alpha beta g..."

    @pytest.mark.few_values(3)
    @pytest.mark.parametrize(
        "text",
        [
            "word " * 2_000_000,
            "x" * 10_000_000,
            "a" * 5_000_000 + "漢" * 1_700_000,
            "漢" * 1_700_000 + "a" * 5_000_000,
            "\n" * 9_000_000 + "x",
        ],
        ids=["words", "one word", "late dense", "early dense", "empty lines"],
    )
    @pytest.mark.parametrize("budget", [1, 10, 1_000, 100_000, 1_000_000])
    def test_few_counts_for_ten_megabytes(self, text, budget):
        calls = 0

        def count(piece):
            nonlocal calls
            calls += 1
            return len(piece.encode()) // 3 + 1

        got = fit_text(text, budget, count=count)
        assert calls <= 20
        assert count(got.text) <= budget
        if budget >= 1_000:
            assert count(got.text) >= budget * 0.9

    def test_a_counter_that_jumps_ends_the_search_in_time(self):
        """Where the count says nothing about the way, the search still ends, with what it has."""
        calls = []

        def cliff(piece):
            calls.append(len(piece))
            return 1 if len(piece) < 1_234_567 else 1_000

        got = fit_text("x" * 10_000_000, 200, count=cliff)
        assert len(calls) <= 20
        assert 1_000_000 < len(got.text) < 1_234_567

    @given(ANY_TEXT, st.integers(-1, 80), st.sampled_from(["...", "", "…", " [more]"]), st.integers(0, 6))
    def test_law(self, text, budget, ellipsis, kind):
        """Whatever the counter, the result is in the budget, valid, and a start of the text."""

        def count(piece):
            return [len(piece), by_fours(piece), byte_size(piece), len(piece.split()), 3, hash_of(piece), 0][
                kind
            ]

        got = fit_text(text, budget, count=count, ellipsis=ellipsis)
        assert got.text == "" or count(got.text) <= budget
        if not got.truncated:
            assert got.text == (text if budget > 0 else "")
            return
        assert got.text == "" or got.text.endswith(ellipsis)
        kept = got.text.removesuffix(ellipsis) if got.text else ""
        assert well_formed(text).startswith(kept)

    @given(st.lists(st.sampled_from(CLUSTERS), min_size=1, max_size=60), st.integers(1, 60))
    def test_cuts_fall_between_characters(self, clusters, budget):
        """Fault C34 holds for budgets as well."""
        text = "".join(clusters)
        got = fit_text(text, budget, count=len)
        if got.truncated:
            starts = {well_formed("".join(clusters[:n])) for n in range(len(clusters) + 1)}
            kept = got.text.removesuffix("...")
            assert kept in starts


def hash_of(text):
    """A counter without any order."""
    return sum(map(ord, text)) % 97


class TestClamp:
    def test_the_marker_has_78_characters(self):
        """Ripple, "Clamp": the marker is 78 characters and says that the middle was omitted."""
        assert len(MIDDLE_OMITTED) == 78
        assert "middle" in MIDDLE_OMITTED
        assert "omitted" in MIDDLE_OMITTED

    @pytest.mark.parametrize(("limit", "half"), [(600, 261), (1_000, 461), (4_096, 2_009), (8_000, 3_961)])
    def test_halves(self, limit, half):
        """Ripple, case 18: 12,000 characters clamped."""
        got = head_and_tail("h" * 6_000 + "t" * 6_000, limit)
        assert got == "h" * half + MIDDLE_OMITTED + "t" * half
        assert len(got) <= limit

    def test_short_text_is_unchanged(self):
        """Ripple, case 18: what is not too long stays."""
        assert head_and_tail("x" * 600, 600) == "x" * 600

    @pytest.mark.parametrize("limit", [-1, 0, 100, 278])
    def test_guard(self, limit):
        """Ripple, case 19: a limit of 278 or less changes nothing."""
        assert head_and_tail("x" * 12_000, limit) == "x" * 12_000
        assert len(head_and_tail("x" * 12_000, 279)) == 278

    def test_other_markers(self):
        assert head_and_tail("a" * 300 + "b" * 300, 300, "<>") == "a" * 149 + "<>" + "b" * 149

    @given(ANY_TEXT.map(lambda text: text * 9), st.integers(0, 600))
    def test_law(self, text, limit):
        got = head_and_tail(text, limit)
        if limit > 278:
            assert len(got) <= limit
        if got is not text:
            head, _, tail = got.partition(MIDDLE_OMITTED)
            assert well_formed(text).startswith(head)
            assert well_formed(text).endswith(tail)


class TestMiddleOut:
    def test_head_and_tail_of_an_output(self):
        got = middle_out("h" * 5_000 + "t" * 5_000, head=10, tail=20)
        assert got == "h" * 10 + "\n[... 9970 characters left out ...]\n" + "t" * 20

    def test_what_would_not_shrink_stays(self):
        assert middle_out("x" * 100, head=40, tail=30) == "x" * 100
        assert middle_out("x" * 100, head=400, tail=300) == "x" * 100
        assert middle_out("x" * 100, head=-5, tail=-5) == "\n[... 100 characters left out ...]\n"

    @pytest.mark.parametrize("size", range(60, 100, 3))
    def test_words_and_numbers_stay_whole(self, size):
        """Half of an amount would be another amount."""
        text = " ".join(f"Invoice {n} amounts to {48_250 + n * 1_379} EUR;" for n in range(20))
        head, _, tail = middle_out(text, head=size, tail=size).split("\n")
        assert text.startswith(f"{head} ")
        assert text.endswith(f" {tail}")
        assert min(len(head), len(tail)) > size - 24

    @pytest.mark.parametrize("size", range(60, 90, 3))
    def test_a_number_among_letters_without_gaps_stays_whole(self, size):
        text = "共計金額為813,451.20元整" * 30
        head, _, tail = middle_out(text, head=size, tail=size).split("\n")
        assert set(re.findall(r"[\d.,]+", f"{head} {tail}")) == {"813,451.20"}
        assert len(head) > size - 10

    @pytest.mark.parametrize("size", range(60, 74, 2))
    def test_a_list_of_numbers_is_cut_between_them(self, size):
        numbers = [str(813_451 + n) for n in range(90)]
        head, _, tail = middle_out(",".join(numbers), head=size, tail=size).split("\n")
        assert {*head.split(","), *tail.split(",")} <= {*numbers, ""}

    def test_a_long_run_of_digits_is_cut_where_it_is_asked(self):
        assert middle_out("4" * 900, head=50, tail=50).startswith("4" * 50 + "\n[...")

    @given(ANY_TEXT.map(lambda text: text * 3), st.integers(-2, 200), st.integers(-2, 200))
    def test_never_longer(self, text, head, tail):
        got = middle_out(text, head=head, tail=tail)
        assert got is text or len(got) < len(text)
        if got is not text:
            assert len(got) <= max(0, head) + max(0, tail) + 45
            got.encode()


class TestFirstLine:
    def test_topics(self):
        """CodeBuddy, plain tier: a topic over 80 characters becomes 77 and three dots."""
        assert first_line("x" * 80) == "x" * 80
        assert first_line("x" * 81) == "x" * 77 + "..."

    @pytest.mark.parametrize(
        ("text", "line"),
        [
            ("", ""),
            (" \n\t\n", ""),
            ("\n\n  Fix it \r\nnow", "Fix it"),
            ("a\u2028b", "a"),
            ("one\x0btwo", "one"),
        ],
    )
    def test_the_first_line_that_says_something(self, text, line):
        assert first_line(text) == line

    def test_small_limits(self):
        assert first_line("abcdef", 3) == "..."
        assert first_line("abcdef", 1) == "."
        assert first_line("abcdef", 0) == ""
        assert first_line("abcdef", -4) == ""
        assert first_line("a" + FAMILY * 3, 10) == "a..."

    @given(ANY_TEXT, st.integers(0, 100))
    def test_law(self, text, limit):
        got = first_line(text, limit)
        assert len(got) <= limit
        assert got == got.strip()
        assert not got or len(got.splitlines()) == 1


class TestBoundaries:
    @given(st.lists(st.sampled_from(CLUSTERS), max_size=30), st.integers(-3, 200))
    def test_both_sides_find_edges(self, clusters, at):
        """A boundary is an edge between clusters, on the side that was asked for."""
        text = "".join(clusters)
        before, after = boundary_before(text, at), boundary_after(text, at)
        assert {before, after} <= edges(clusters)
        assert before <= max(0, at)
        assert after >= min(at, len(text))
        if 0 <= at <= len(text) and before == at:
            assert after == at

    @pytest.mark.parametrize("cluster", [c for c in CLUSTERS if len(c) > 1])
    def test_no_place_inside(self, cluster):
        text = "x" + cluster + "y"
        for at in range(1, len(cluster) + 1):
            assert boundary_before(text, at) == 1
            assert boundary_after(text, at + 1) >= 1 + len(cluster)

    def test_flags_go_in_pairs(self):
        assert boundary_before("🇩🇪🇫🇷🇬", 4) == 4
        assert boundary_before("🇩🇪🇫🇷🇬", 3) == 2
        assert boundary_after("🇩🇪🇫🇷🇬", 3) == 4
        assert boundary_after("🇩🇪🇫🇷🇬", 5) == 5

    @pytest.mark.parametrize(
        ("text", "at"),
        [
            ("ab", 1),
            ("a\n", 1),
            ("\n\u0301", 1),
            ("\rx", 1),
            ("각나", 1),
            ("ᄀx", 1),
            ("xᅡ", 1),
            ("क्a", 2),
            ("\ud800x", 1),
            ("\udc00\ud800", 1),
            ("\u200d\n", 1),
            ("🇩x", 1),
            ("x🇩", 1),
            ("\x1b[31mred", 5),
            ("x\x1b[31m", 1),
            ("\x1b", 1),
        ],
    )
    def test_places_between(self, text, at):
        assert boundary_before(text, at) == at
        assert boundary_after(text, at) == at

    def test_an_escape_without_end_is_two_characters(self):
        text = "\x1b]0;" + "t" * 100
        assert boundary_before(text, 1) == 0
        assert boundary_before(text, 50) == 50

    def test_a_long_link_is_whole(self):
        text = "see \x1b]8;;" + "u" * 3_000 + "\x1b\\here"
        assert boundary_before(text, 2_000) == 4
        assert boundary_before(text, 3_010) == 4
        assert boundary_after(text, 2_000) == len(text) - 4

    @settings(max_examples=few_or_all(20, 50))
    @given(st.text(st.characters()))
    def test_well_formed_text_is_valid_and_no_larger(self, text):
        got = well_formed(text)
        got.encode()
        assert byte_size(got) <= byte_size(text)
        assert well_formed(got) is got


@pytest.mark.parametrize(
    ("text", "query", "place"),
    [
        ("the crane and the limiter", "the limiter", 18),
        ("the crane_limiter", "limiter", 10),  # a part of a name
        ("港の制限値", "制限", 2),
        ("the crane", "no such thing", None),
        ("the crane", "", None),
    ],
)
def test_the_rarest_word_of_a_query_is_found(text, query, place):
    assert find_telling_word(text, query) == place
