"""Budgets for attached files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.core.compaction.file_budget import (
    FAST_PATH_BYTES,
    FILE_READ_BUDGET_FRACTION,
    PREVIEW_BYTES,
    PREVIEW_CHARS,
    FilePlan,
    FileText,
    estimate_by_type,
    file_budget,
    fit_files,
    preview,
    should_clip,
)
from refold.core.messages.text_cutting import byte_size
from refold.errors import FormatError


def by_fours(text):
    return -(-len(text) // 4)


def words(tokens):
    """A text of so many tokens."""
    return "word" * tokens


class TestBudget:
    def test_constants(self):
        """NeuroLink, "File Token Budget", table of constants."""
        assert FILE_READ_BUDGET_FRACTION == 0.6
        assert FAST_PATH_BYTES == 102_400
        assert PREVIEW_BYTES == 5_242_880
        assert PREVIEW_CHARS == 2_000

    @pytest.mark.parametrize(
        ("window", "used", "output", "tokens"),
        [
            (200_000, 50_000, 50_000, 60_000),
            (128_000, 0, 0, 76_800),
            (100, 0, 1, 59),
            (100, 50, 50, 0),
            (100, 99, 0, 0),
            (100, 500, 0, 0),
        ],
    )
    def test_sixty_percent_of_what_is_left(self, window, used, output, tokens):
        """NeuroLink, "calculateFileTokenBudget": rounded down, 0 when nothing remains."""
        assert file_budget(window, used, output) == tokens

    def test_the_share_can_be_set(self):
        """NeuroLink, configuration: fileReadBudgetPercent."""
        assert file_budget(1_000, 0, 0, fraction=0.25) == 250


class TestOneFile:
    @pytest.mark.parametrize(
        ("size", "budget", "plan"),
        [
            (0, 0, FilePlan(clip=False)),
            (102_399, 0, FilePlan(clip=False)),
            (102_400, 25_600, FilePlan(clip=False)),
            (102_400, 25_599, FilePlan(clip=True, max_chars=102_396)),
            (102_401, 25_600, FilePlan(clip=True, max_chars=102_400)),
            (200_000, 100, FilePlan(clip=True, max_chars=2_000)),
            (200_000, 0, FilePlan(clip=True, max_chars=2_000)),
            (5_242_880, 10_000_000, FilePlan(clip=False)),
            (5_242_881, 10_000_000, FilePlan(clip=True, max_chars=2_000, preview=True)),
        ],
    )
    def test_decision(self, size, budget, plan):
        """NeuroLink, "shouldTruncateFile": over 5 MB a preview, below 100 KB never, else by the budget."""
        assert should_clip(size, budget) == plan

    def test_a_preview_tells_name_size_and_start(self):
        """NeuroLink, "Files": the preview has 2000 characters."""
        got = preview(FileText("é" * 3_000, "docs/long.txt"))
        assert (
            got
            == "[Preview of file docs/long.txt: 6000 bytes, the first 2000 characters follow]\n" + "é" * 2_000
        )

    def test_a_preview_does_without_a_name(self):
        assert preview(FileText("abc")).startswith("[Preview of file without a name: 3 bytes")
        assert "\n" not in preview(FileText("abc", "a\nb" + "c" * 900)).partition("]")[0]


class TestTogether:
    def test_what_fits_is_untouched(self):
        """NeuroLink, "enforceAggregateFileBudget": nothing to do under the budget, up to 5 MB."""
        files = [{"content": words(10), "path": "a"}, "plain", FileText(words(1_300_000), "big")]
        got = fit_files(files, budget_tokens=10 + 2 + 1_300_000, count=by_fours)
        assert [file.content for file in got] == [words(10), "plain", words(1_300_000)]
        assert [file.path for file in got] == ["a", None, "big"]
        assert {file.action for file in got} == {"kept"}
        assert [file.tokens for file in got] == [10, 2, 1_300_000]
        assert fit_files([], budget_tokens=0, count=by_fours) == ()

    def test_small_files_are_served_first(self):
        """NeuroLink, "Files": sorted by size; the order of the answer is the order of the question."""
        files = [{"content": words(90_000), "path": "huge"}, {"content": words(50), "path": "small"}]
        huge, small = fit_files(files, budget_tokens=1_000, count=by_fours)
        assert (small.action, small.content) == ("kept", words(50))
        assert (huge.action, huge.path, huge.original_tokens) == ("clipped", "huge", 90_000)
        assert huge.content.endswith("[... the rest of this file is left out]")
        assert 900 <= huge.tokens <= 950

    def test_a_file_without_a_share_leaves_its_room_to_the_others(self):
        """They are whole then: nothing is shared out behind the largest, for which no useful part was left."""
        small, huge = fit_files([words(100), words(90_000)], budget_tokens=150, count=by_fours)
        assert (small.action, small.tokens) == ("kept", 100)
        assert (huge.action, huge.tokens) == ("left out", 0)

    def test_large_files_are_clipped_in_proportion(self):
        """NeuroLink, "enforceAggregateFileBudget": half of the room evenly, half by size."""
        files = [words(10_000), words(30_000)]
        small, large = fit_files(files, budget_tokens=8_000, count=by_fours)
        assert small.action == large.action == "clipped"
        assert 2_950 <= small.tokens <= 3_000
        assert 4_950 <= large.tokens <= 5_000

    def test_five_files_of_nearly_three_megabytes(self):
        """NeuroLink, "enforceAggregateFileBudget": five files of 2.8 MB must not overflow the first message."""
        files = [{"content": "line of a log\n" * 40_000, "path": f"{n}.log"} for n in range(5)]
        got = fit_files(files, budget_tokens=file_budget(128_000, 0, 44_800), count=by_fours)
        assert sum(file.tokens for file in got) <= 49_920
        assert all(file.action == "clipped" and file.tokens > 9_000 for file in got)

    @pytest.mark.parametrize("budget", [10_000, 10_000_000])
    def test_a_very_large_file_is_previewed(self, budget):
        """NeuroLink, "shouldTruncateFile": over 5 MB only a preview, whatever the budget."""
        files = [{"content": "x" * 5_242_881, "path": "dump.sql"}, {"content": words(300)}]
        big, small = fit_files(files, budget_tokens=budget, count=by_fours)
        assert big.action == "previewed"
        assert big.content == preview(FileText("x" * 5_242_881, "dump.sql"))
        assert big.tokens == by_fours(big.content)
        assert small.action == "kept"

    def test_a_preview_is_cut_where_even_it_is_too_much(self):
        (big,) = fit_files(["x" * 5_242_881], budget_tokens=100, count=by_fours)
        assert big.action == "previewed"
        assert big.content.startswith("[Preview of file")
        assert 0 < big.tokens <= 100

    def test_too_many_files_leave_the_largest_out(self):
        """Rather a few files that can be read than a few words of each."""
        files = [words(1_000 + n) for n in range(100)]
        got = fit_files(files, budget_tokens=1_280, count=by_fours)
        assert [file.action for file in got] == ["clipped"] * 10 + ["left out"] * 90
        assert all(file.tokens >= 100 for file in got[:10])

    def test_no_room_leaves_all_out_but_the_empty(self):
        got = fit_files(["", words(3)], budget_tokens=0, count=by_fours)
        assert [(file.action, file.content, file.tokens) for file in got] == [
            ("kept", "", 0),
            ("left out", "", 0),
        ]
        assert got[1].original_tokens == 3

    @pytest.mark.parametrize("content", [None, b"bytes", 3])
    def test_content_that_is_no_text_is_an_error_with_its_place(self, content):
        with pytest.raises(FormatError) as caught:
            fit_files(["x", {"content": content}], budget_tokens=9, count=by_fours)
        assert caught.value.path == "files[1].content"

    @pytest.mark.parametrize("file", [None, b"bytes", 3])
    def test_what_is_no_file_is_an_error_with_its_place(self, file):
        with pytest.raises(FormatError) as caught:
            fit_files(["x", file], budget_tokens=9, count=by_fours)
        assert caught.value.path == "files[1]"

    def test_a_path_may_be_any_path_value(self):
        (file,) = fit_files([{"content": "x", "path": 7}], budget_tokens=9, count=by_fours)
        assert file.path == "7"

    @given(
        st.lists(
            st.tuples(st.text(max_size=8), st.integers(0, 300)).map(lambda pair: pair[0] * pair[1]),
            max_size=12,
        ),
        st.integers(-5, 900),
        st.sampled_from(
            [by_fours, len, byte_size, lambda text: len(text) + 7, lambda text: len(text.split())]
        ),
    )
    def test_law(self, contents, budget, count):
        """Together never over the budget, every file accounted for in its place, nothing enlarged."""
        files = [{"content": content, "path": str(n)} for n, content in enumerate(contents)]
        got = fit_files(files, budget_tokens=budget, count=count)
        assert [file.path for file in got] == [str(n) for n in range(len(files))]
        assert sum(file.tokens for file in got) <= max(0, budget)
        for file, content in zip(got, contents, strict=True):
            assert file.original_tokens == count(content)
            assert file.tokens <= file.original_tokens
            assert file.tokens == (0 if file.action == "left out" else count(file.content))
            assert (file.action == "kept") == (file.content == content and file.action != "left out")
        if sum(map(count, contents)) <= budget:
            assert {file.action for file in got} <= {"kept"}
        assert fit_files(got, budget_tokens=budget, count=count) == got

    def test_fitted_files_are_taken_again(self):
        """What was done to a file, and what it was, is still told when the room becomes smaller."""
        files = [words(400), words(4_000), "x" * 5_242_881]
        first = fit_files(files, budget_tokens=2_000, count=by_fours)
        assert fit_files(first, budget_tokens=2_000, count=by_fours) == first
        again = fit_files(first, budget_tokens=900, count=by_fours)
        assert [file.action for file in again] == ["clipped", "clipped", "previewed"]
        assert [file.original_tokens for file in again] == [400, 4_000, 1_310_721]
        assert sum(file.tokens for file in again) <= 900
        nothing = fit_files(first, budget_tokens=0, count=by_fours)
        assert fit_files(nothing, budget_tokens=2_000, count=by_fours) == nothing


class TestEstimateByType:
    @pytest.mark.parametrize(
        ("what", "size", "tokens"),
        [
            ("video", 10**9, 500),
            ("clip.MP4", 10**9, 500),
            ("video/webm", 5, 500),
            ("audio/x-ms-wma", 5, 300),
            ("song.mp3", 10**7, 300),
            ("image", 5, 1_500),
            ("photo.JPG", 10**7, 1_500),
            ("image/png", 5, 1_500),
            ("image/vnd.adobe.photoshop", 5, 1_500),
            ("a/b.tar.gz", 10**7, 1_000),
            ("application/zip", 5, 1_000),
            ("application/x-tar", 5, 1_000),
            ("unknown", 10**7, 500),
            ("application/octet-stream", 10**7, 500),
            ("mystery.xyz", 10**7, 500),
            ("no_ending", 10**7, 500),
            ("", 10**7, 500),
            ("paper.pdf", 1_000_000, 10_000),
            ("application/pdf", 101, 2),
            ("pdf", 10**9, 50_000),
            ("report.docx", 100_000, 3_750),
            ("office", 100_000, 3_750),
            ("application/vnd.oasis.opendocument.text", 100_000, 3_750),
            ("application/vnd.ms-excel", 1_000, 38),
            ("notes.txt", 4_000, 1_330),
            ("text/plain", 4_000, 1_330),
            ("text", 4_001, 1_331),
            (r"C:\src\Main.java", 4_000, 1_330),
            ("application/json", 4_000, 1_330),
            ("application/main.py", 4_000, 1_330),
            ("image/svg+xml", 4_000, 1_330),
            ("Dockerfile", 4_000, 1_330),
            ("text", -5, 0),
        ],
    )
    def test_kinds(self, what, size, tokens):
        """NeuroLink, "Files": estimates by type, flat for media, by size for documents and text."""
        assert estimate_by_type(what, size) == tokens
