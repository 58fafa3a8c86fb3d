"""Shrinking the output of tools: what stays, by kind, and the laws that hold for every text."""

import base64
import hashlib
import json
import re
from itertools import pairwise
from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from growth import assert_linear, count_calls, stop_hang
from refold.core.outputs.kinds import recognise_kind
from refold.core.outputs.line_plan import LinePlan, cut_line, has_share
from refold.core.outputs.outcome import read_outcome
from refold.core.outputs.rank_runs import find_run
from refold.core.outputs.shrink import OutputPlan, shrink_output
from refold.core.tokens.estimate import estimate
from sample_sizes import few_or_all, sample

MARKER = re.compile(r"\[\.\.\. \d+ (?:line|character|item|key)s? left out[^\]]*\]")


def count(text):
    """Four characters make a token."""
    return -(-len(text) // 4)


def shrink(text, limit):
    """Shrink a text; the limit holds, and what is left is shorter."""
    shrunk = shrink_output(text, limit, count)
    assert count(shrunk) <= limit
    assert len(shrunk) < len(text)
    return shrunk


def assert_verbatim(shrunk, text):
    """Every line that is no marker stands in the input; a cut line is made of its ends."""
    lines = set(text.split("\n"))
    for line in shrunk.split("\n"):
        if line in lines or MARKER.fullmatch(line):
            continue
        head, marker, tail = re.sub(f"{MARKER.pattern}|…", "\0", line).partition("\0")
        assert marker, line
        assert any(known.startswith(head) and known.endswith(tail) for known in lines), line


def left_out(shrunk):
    """Numbers of lines that the markers stand for."""
    return [int(number) for number in re.findall(r"\[\.\.\. (\d+) lines? left out", shrunk)]


# -- laws ---------------------------------------------------------------------------------------------------

FRAGMENTS = [
    *(
        "ERROR: no such table",
        "Traceback (most recent call last):",
        '  File "a.py", line 3, in f',
        "    x = 1",
    ),
    *(
        "KeyError: 'a'",
        "    at run (/app/a.js:1:2)",
        "12:01:02 INFO served 4",
        "src/a.py:12: import os",
        "--",
    ),
    *(
        "src/a.py-13-x",
        "diff --git a/x b/x",
        "--- a/x",
        "+++ b/x",
        "@@ -1,2 +1,2 @@",
        "-old",
        "+new",
        " same",
    ),
    *(
        "def f(x):",
        "    return x",
        "class A:",
        "import os",
        "# comment",
        "     1\tdef f():",
        "     2\t    pass",
    ),
    *("tests/a.py::t PASSED [ 10%]", "FAILED tests/a.py::t - assert 1", "=== 1 failed, 2 passed in 0.1s ==="),
    *(
        "E       assert 1 == 2",
        "Ran 3 tests in 0.1s",
        "OK",
        "--- FAIL: T (0.1s)",
        "a,b,c",
        "1,2,3",
        "| a | b |",
    ),
    *(
        "./src/a.py",
        "src/b.py",
        "├── a",
        "-rw-r--r-- 1 r r 5 Jan 1 a.py",
        "./dir:",
        "total 8",
        "",
        "",
        "word",
    ),
    *(
        "<returncode>1</returncode>",
        "<output>",
        "</output>",
        "<warning>long</warning>",
        "Exit code 2",
        "\r\n",
    ),
    *(
        '{"a": [1, 2, {"error": "bad"}]}',
        "[",
        "]",
        "{",
        "}",
        "A sentence. Another one.",
        "## Heading",
        "x" * 300,
    ),
    *("é\u0301", "👨‍👩‍👧‍👦", "\ud83d", "\x1b[31mred\x1b[0m", "10%\r20%\r30%", "Zm9v" * 40, "deadbeef" * 20),
]
TEXTS = (
    st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=30), max_size=60).map("\n".join)
    | st.text(max_size=400)
    | st.tuples(st.sampled_from(FRAGMENTS), st.integers(1, 200)).map(lambda pair: (pair[0] + "\n") * pair[1])
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=60),
    lambda inner: st.lists(inner, max_size=12) | st.dictionaries(st.text(max_size=12), inner, max_size=12),
    max_leaves=60,
)
COUNTERS = [count, lambda text: len(text.encode("utf-8", "surrogatepass")), lambda text: len(text.split())]


class TestLaws:
    @given(TEXTS, st.integers(0, 120), st.sampled_from(COUNTERS))
    @settings(max_examples=few_or_all(20, 200))
    def test_never_over_the_limit_and_never_longer(self, text, limit, counter):
        shrunk = shrink_output(text, limit, counter)
        assert counter(shrunk) <= limit
        assert len(shrunk) <= len(text)
        assert shrink_output(text, limit, counter) == shrunk
        assert shrink_output(shrunk, limit, counter) == shrunk
        if counter(text) <= limit:
            assert shrunk is text
        else:
            shrunk.encode()

    @given(JSON, st.integers(0, 2), st.integers(1, 100))
    @settings(max_examples=few_or_all(12, 100))
    def test_json_is_never_over_the_limit(self, value, indent, limit):
        text = json.dumps(value, indent=indent or None)
        assert count(shrink_output(text, limit, count)) <= limit

    @given(
        st.lists(
            st.sampled_from([line for line in FRAGMENTS if line.isprintable()]), min_size=20, max_size=80
        )
    )
    def test_lines_are_kept_as_they_were(self, lines):
        text = "\n".join(lines)
        if recognise_kind(lines) != "json lines" and "<warning>" not in text:
            assert_verbatim(shrink_output(text, 80, count), text)

    @pytest.mark.few_values(3)
    @pytest.mark.parametrize("line", [line for line in FRAGMENTS if line])
    def test_twice_the_text_takes_twice_the_work(self, line):
        assert_linear(lambda size: lambda: shrink_output(f"{line}\n" * size, 30, count), 150)

    @pytest.mark.few_values(3)
    @pytest.mark.parametrize(
        "line", [*FRAGMENTS, "a" * 500, " " * 500, "-" * 500, "[" * 500, "a b " * 120, "1:" * 200]
    )
    def test_no_pattern_hangs(self, line):
        with stop_hang():
            shrink_output((line * 40 + "\n") * 40, 60, count)
            shrink_output(line * 2_000, 60, count)

    @pytest.mark.parametrize("size", [50, 5_000])
    def test_the_number_of_counts_does_not_depend_on_the_text(self, size):
        counted = []
        shrink_output(
            "\n".join(f"line {i} of {size}" for i in range(size)), 60, lambda t: counted.append(t) or count(t)
        )
        assert len(counted) <= 12

    def test_a_counter_that_jumps_is_obeyed(self):
        """A count that is always too large leaves nothing, and one that a single character decides is met."""
        assert not shrink_output("a\nb\nc" * 90, 5, lambda text: 9 if text else 0)
        assert len(shrink_output("word\n" * 90, 40, len)) <= 40

    def test_a_text_that_fits_comes_back_itself(self):
        text = "\x1b[31mred\ud800\n" * 3
        assert shrink_output(text, count(text), count) is text

    @pytest.mark.few_values(3)
    @pytest.mark.parametrize("limit", range(1, 12))
    def test_a_tiny_limit_leaves_the_head_of_the_best_line(self, limit):
        text = "\n".join(["fine"] * 400 + ["ERROR: the database is gone"] + ["fine"] * 400)
        shrunk = shrink_output(text, limit, count)
        assert "ERROR: the database is gone".startswith(shrunk.rstrip("…"))
        assert shrunk.endswith("…") or limit < 2  # one line of many does not look like all

    def test_the_best_line_alone_says_how_many_others_there_were(self):
        text = "\n".join([*(f"step {n} was done" for n in range(40)), "ERROR: the database is gone"])
        assert shrink(text, 15) == "ERROR: the database is gone\n[... 40 lines left out]"

    def test_a_text_that_is_shrunk_again_counts_all_lines(self):
        text = "\n".join(f"step {n}: part-{n * n} was made of {n % 7} pieces" for n in range(90))
        shrunk = shrink(shrink(shrink(text, 200), 80), 40)
        shown = [line for line in shrunk.split("\n") if line in text.split("\n")]
        assert sum(int(number) for number in re.findall(r"\[\.\.\. (\d+) lines? left", shrunk)) == 90 - len(
            shown
        )


# -- logs ---------------------------------------------------------------------------------------------------


def log_lines(number):
    return [f"12:00:{i % 60:02d} INFO request {i} took {i % 7} ms" for i in range(number)]


class TestLogs:
    @pytest.mark.parametrize("limit", [40, 60])
    def test_the_state_of_a_service_that_failed_stays(self, limit):
        status = """catalogue-import.service - nightly import of catalogue records
     Loaded: loaded (/etc/systemd/system/catalogue-import.service; enabled)
     Active: failed (Result: exit-code) since Mon 2025-03-03 02:41:07 UTC; 6h ago
    Process: 20417 ExecStart=/opt/catalogue/bin/import (code=exited, status=3)
   Main PID: 20417 (code=exited, status=3)"""
        assert recognise_kind(status.split("\n")) == "log"
        assert "     Active: failed (Result: exit-code)" in shrink(status, limit)

    @pytest.mark.each_value
    @pytest.mark.parametrize("place", sample([0, 1, 7, 1_499, 2_500, 2_998, 2_999], 2))
    @pytest.mark.parametrize("limit", [12, 40, 150])
    @pytest.mark.parametrize("noise", ["log", "prose", "code", "names"])
    @pytest.mark.slow
    def test_a_lone_error_survives_wherever_it_stands(self, place, limit, noise):
        lines = {
            "log": log_lines(3_000),
            "prose": ["The step was done and the next one came."] * 3_000,
            "code": ["    value = compute(value)"] * 3_000,
            "names": [f"src/file{i}.py" for i in range(3_000)],
        }[noise]
        lines[place] = "12:00:01 ERROR disk full"
        assert "ERROR disk full" in shrink("\n".join(lines), limit)

    def test_repeated_lines_are_counted(self):
        lines = log_lines(500)
        lines[200] = "12:00:01 WARN slow answer of db-3"
        shrunk = shrink("\n".join(lines), 60)
        assert "WARN slow answer of db-3" in shrunk
        assert re.search(r'\[\.\.\. \d+ lines left out, \d+ like "INFO request took ms"\]', shrunk)
        assert shrunk.startswith(lines[0])
        assert shrunk.endswith(lines[-1])
        assert sum(left_out(shrunk)) + shrunk.count("\n") + 1 - len(left_out(shrunk)) == 500

    def test_lines_around_the_failure_stay(self):
        lines = [f"step {chr(97 + i % 26)}{chr(97 + i // 26)} of the plan" for i in range(300)]
        lines[150] = "error: step ended"
        shrunk = shrink("\n".join(lines), 100)
        assert "\n".join(lines[149:152]) in shrunk

    def test_the_last_lines_come_before_repeats_around_a_failure(self):
        lines = log_lines(60)
        lines[31] = "12:00:31 ERROR could not reach smtp.example.com: connection refused"
        lines += ["12:01:00 INFO received SIGTERM", "12:01:01 INFO draining jobs", "12:01:02 INFO bye", ""]
        shrunk = shrink("\n".join(lines), 100)
        assert "INFO received SIGTERM\n12:01:01 INFO draining jobs\n12:01:02 INFO bye" in shrunk
        assert f"{lines[30]}\n{lines[31]}\n[... " in shrunk

    def test_the_first_of_many_failures_leads(self):
        lines = [f"gcc -c f{i}.c" for i in range(200)]
        lines += ["f9.c:14:5: error: 'foo' undeclared", "make: *** [Makefile:12: f9.o] Error 1"]
        assert "'foo' undeclared" in shrink("\n".join(lines), 40)

    def test_a_python_trace_keeps_the_exception_and_the_innermost_own_frame(self):
        frames = [
            f'  File "/app/mod{i}.py", line {i}, in call{i}\n    return call{i + 1}()' for i in range(30)
        ]
        frames += [
            '  File "/usr/lib/python3.11/json/decoder.py", line 9, in decode\n    raise JSONDecodeError("x")'
        ]
        text = "\n".join(
            [
                "starting",
                "Traceback (most recent call last):",
                *frames,
                "json.JSONDecodeError: Expecting value",
            ]
        )
        shrunk = shrink(text, 60)
        assert shrunk.endswith("json.JSONDecodeError: Expecting value")
        assert '  File "/app/mod29.py", line 29, in call29\n    return call30()' in shrunk
        assert "decoder.py" not in shrunk
        assert "Traceback (most recent call last):" in shrink(text, 120)

    def test_the_last_of_several_traces_leads(self):
        one = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    f()\n{}: bad\n\nDuring handling:\n'
        text = one.format("FirstError") + one.format("SecondError") + "x\n" * 200
        assert "SecondError: bad" in shrink(text, 40)
        assert "FirstError: bad" in shrink(text, 100)

    @pytest.mark.parametrize("end", ["", "\n\n", '\n  File "a.py", line 1, in f'])
    def test_a_trace_that_is_cut_off(self, end):
        text = "x = 1\n" * 90 + "Traceback (most recent call last):" + end
        assert "Traceback" in shrink(text, 40)

    def test_a_stack_of_javascript_keeps_the_message_and_own_frames(self):
        lines = ["/app/index.js:10", '  throw new TypeError("bad");', "  ^", "", "TypeError: bad input"]
        lines += ["    at next (/app/node_modules/x/y.js:1:2)", "    at parse (/app/lib/parse.js:22:9)"]
        lines += ["    at Module._compile (node:internal/modules/cjs/loader:1105:14)"] * 30
        shrunk = shrink("\n".join(lines), 60)
        assert "TypeError: bad input" in shrunk
        assert "    at parse (/app/lib/parse.js:22:9)" in shrunk

    def test_frames_without_an_exception_are_ordinary_lines(self):
        assert shrink("    at a (b.js:1:2)\n" * 90, 30).startswith("    at a (b.js:1:2)")

    def test_a_trace_behind_other_words_is_a_line_like_others(self):
        lines = log_lines(300)
        lines[100] = "web | Traceback (most recent call last):"
        lines[101] = "web | KeyError: 'a'"
        assert "KeyError: 'a'" in shrink("\n".join(lines), 60)

    def test_warnings_about_old_names_leave_first(self):
        old = "/app/lib{0}.py:3: DeprecationWarning: the name {0} is old\n  from lib import {0}"
        text = "\n".join([*(old.format(name) for name in "abcdefgh"), "Type of x: int", "Value of x: 3"])
        shrunk = shrink(text, 60)
        assert shrunk.endswith("Type of x: int\nValue of x: 3")
        assert "DeprecationWarning" not in shrink(text, 20)

    def test_hints_leave_before_what_git_says(self):
        named = ("src/api/orders.py", "src/api/prices.py", "tests/api/orders.py", "docs/orders.md")
        files = "\n".join(f"\tmodified:   {name}" for name in named)
        hints = """  (use "git add <file>..." to update what will be committed)
  (use "git restore <file>..." to discard changes in working directory)"""
        text = f"""On branch main
Your branch is up to date with 'origin/main'.

Changes not staged for commit:
{hints}
{files}

no changes added to commit (use "git add" and/or "git commit -a")
"""
        shrunk = shrink(text, 65)
        assert [name for name in named if name not in shrunk] == []
        assert "(use " not in shrunk

    def test_a_field_that_tells_a_state_stays(self):
        fields = [f"field_{at:02} | {chr(97 + at)} value" for at in range(20)]
        fields[11] = "status   | dunning"
        shrunk = shrink("-[ RECORD 1 ]-+----\n" + "\n".join(fields), 45)
        assert "status   | dunning" in shrunk

    def test_output_that_looks_like_code_keeps_its_failures(self):
        lines = ["Result:", "    x = f(y)", "    return x"] * 60
        lines[90] = "FAIL: Expected Eq(x, 1)"
        assert "FAIL: Expected Eq(x, 1)" in shrink("\n".join(lines), 40)

    def test_a_short_gap_is_shown_whole(self):
        """A marker for one short line would take as much room as the line."""
        lines = [f"==> package {name}\nCompiling\nGenerated {name}" for name in ("ab", "cd", "ef", "gh")]
        shrunk = shrink("\n".join([*lines, *["x " * 40] * 9]), 90)
        assert "[... 1 line left out]" not in shrunk

    def test_a_text_that_is_shortened_again_and_again_has_one_marker_for_a_gap(self):
        """A marker is no line that matters: it takes no room of one, and two beside each other become one."""
        text = "\n".join(f"{number}: word {'and another ' * (number % 7)}" for number in range(200))
        for limit in (600, 420, 300, 210, 150, 105, 70, 48, 33, 23):
            text = shrink(text, limit)
            markers = [place for place, line in enumerate(text.split("\n")) if MARKER.fullmatch(line)]
            assert not [pair for pair in pairwise(markers) if pair[1] - pair[0] == 1]
            assert sum(left_out(text)) + len(text.split("\n")) - len(markers) == 200
        assert len(markers) == 1

    def test_of_many_lines_only_the_first_in_order_are_looked_at(self):
        places = iter(range(10_000))
        plan = LinePlan([f"line number {place}" for place in range(10_000)], places)
        assert plan.render(400) == plan.render(400)
        assert next(places) < 100

    @pytest.mark.parametrize("end", ["\n", "\r\n"])
    def test_thousands_of_empty_lines_are_told_by_their_number(self, end):
        text = "\n".join(CALM[:30]) + end * 5_001 + "\n".join(CALM[30:60])
        assert "\n[... 5000 lines left out, all empty]\n" in shrink(text, 900)
        assert count_calls(lambda: shrink(end * 20_000, 100)) < 4 * 20_000

    def test_a_marker_alone_says_what_it_said(self):
        lines = ["a" * 50] * 3 + ["[... 5 lines left out, 3 warnings]"] + ["b" * 50] * 3
        assert LinePlan(lines, range(7)).render(1_000) == "\n".join(lines)

    def test_many_markers_take_linear_time(self):
        lines = [
            f"value {i} of the long run\n[... {i % 9 + 2} lines left out]"
            for i in range(few_or_all(10_000, 40_000))
        ]
        with stop_hang():
            shrink("\n".join(lines), 10 * len(lines))

    def test_no_failure_is_no_failure(self):
        lines = [f"compiled part {chr(97 + i % 26)}{i} with 0 errors" for i in range(200)]
        lines[90] = "could not read the cache"
        assert "could not read the cache" in shrink("\n".join(lines), 60)

    def test_colours_and_overwritten_progress_go_first(self):
        text = "\n".join(f"\x1b[32mok\x1b[0m {i}" for i in range(20)) + "\n10 %\r50 %\rdone\r\nend"
        assert shrink(text, 40) == "\n".join(f"ok {i}" for i in range(20)) + "\ndone\r\nend"

    LONE: ClassVar = {
        "gcc": ("m{0}.c:{0}:5: warning: unused variable 'x{0}'", "core.c:77:9: error: 'foo' undeclared"),
        "clang": ("a{0}.cpp:{0}:7: warning: unused 'x'", "core.cpp:9:1: fatal error: 'foo.h' file not found"),
        "mypy": (
            "src/a{0}.py:{0}: note: By default it is not checked",
            "src/b.py:7: error: Incompatible type",
        ),
        "tsc": (
            "src/a{0}.ts({0},5): warning TS6133: 'x' is declared",
            "src/b.ts(7,1): error TS2304: No 'foo'.",
        ),
        "eslint": ("/a/b{0}.js:{0}:1: 'x' is not used [Warning/no-unused]", "/a/c.js:7:1: No token [Error]"),
        "stylish": ("  {0}:1  warning  'x' is not used", "  7:1  error  'y' is not defined"),
        "yarn": ('warning " > p-{0}@1.0" has unmet "react@18".', 'error An unexpected one: "ENOSPC".'),
        "npm": ("npm WARN deprecated p-{0}@1.0: old", "npm ERR! code ERESOLVE"),
        "npm 10": ("npm warn deprecated p-{0}@1.0: old", "npm error code ERESOLVE"),
        "logfmt": ("level=info msg=served n={0}", "level=error msg=lost"),
        "json lines": ('{{"level": "info", "n": {0}}}', '{{"level": "error", "n": 7}}'),
    }

    @pytest.mark.each_value
    @pytest.mark.slow
    @pytest.mark.parametrize("number", [100, 1_000])
    @pytest.mark.parametrize(("usual", "error"), LONE.values(), ids=LONE)
    def test_a_lone_error_among_warnings_survives(self, usual, error, number):
        lines = [usual.format(i) for i in range(number)]
        lines[number // 2] = error = error.format()
        for limit in (35, 60, 200):
            assert error in shrink("\n".join(lines), limit)

    def test_code_between_warnings_does_not_hide_an_error(self):
        lines = []
        for i in range(300):
            lines += [
                f"src/m{i}.c: In function 'f{i}':",
                f"src/m{i}.c:{i}:5: warning: unused variable 'x{i}' [-Wunused]",
            ]
            lines += [f"  {i} |     int x{i};", "      |         ^~"]
        lines[600] = "core.c:77:9: error: 'foo' undeclared"
        assert lines[600] in shrink("\n".join([*lines, "make: *** [Makefile:12: core.o] Error 1"]), 60)

    def test_what_a_plan_destroys_survives(self):
        lines = [f"  # aws_iam_role.r{i // 2} will be updated in-place" for i in range(300)]
        lines[1::2] = ['  ~ tags = { env = "prod" -> "prd" }'] * 150
        lines[200] = "  # aws_db_instance.ledger will be destroyed"
        assert recognise_kind(lines) == "other"
        assert lines[200] in shrink("\n".join(lines), 100)

    def test_an_error_of_rust_is_no_code(self):
        lines = [
            "error[E0425]: cannot find value `x`",
            " --> src/main.rs:5:9",
            "  |",
            "5 |     x;",
            "  |     ^",
        ]
        assert recognise_kind([*["    let y = 1;"] * 30, *lines]) != "code"


# -- tests --------------------------------------------------------------------------------------------------

PYTEST = """============ test session starts ============
collected 120 items

{passed}
tests/test_cart.py ....F.... [100%]

================= FAILURES =================
_______________ test_total _______________

    def test_total():
        cart = Cart()
>       assert cart.total() == 3.0
E       assert 2.5 == 3.0

tests/test_cart.py:12: AssertionError
=============== short test summary info ===============
FAILED tests/test_cart.py::test_total - assert 2.5 == 3.0
============ 1 failed, 119 passed in 3.21s ============
""".format(passed="\n".join(f"tests/test_{i}.py ............ [ {i}%]" for i in range(10, 60)))
UNITTEST = """{passed}
======================================================================
FAIL: test_total (cart.tests.CartTest)
----------------------------------------------------------------------
Traceback (most recent call last):
  File "/app/cart/tests.py", line 12, in test_total
    self.assertEqual(cart.total(), 3.0)
AssertionError: 2.5 != 3.0

----------------------------------------------------------------------
Ran 60 tests in 0.412s

FAILED (failures=1)
""".format(passed="\n".join(f"test_{i} (cart.tests.CartTest) ... ok" for i in range(59)))
JEST = """PASS src/a.test.ts
FAIL src/c.test.ts
{passed}
    ✕ decrements (4 ms)

  ● Counter › decrements

    expect(received).toBe(expected) // Object.is equality

    Expected: -1
    Received: 1

      at Object.<anonymous> (src/c.test.ts:16:21)

Test Suites: 1 failed, 1 passed, 2 total
Tests:       1 failed, 40 passed, 41 total
""".format(passed="\n".join(f"    ✓ does thing {i} (1 ms)" for i in range(40)))
GO = "\n".join(f"=== RUN   TestA{i}\n--- PASS: TestA{i} (0.00s)" for i in range(50)) + (
    "\n=== RUN   TestB\n    b_test.go:21: got 3, want 4\n--- FAIL: TestB (0.00s)\nFAIL\nFAIL\texample.com/x\t0.004s\nFAIL"
)
CARGO = """running 41 tests
{passed}
test parser::case_x ... FAILED

failures:

---- parser::case_x stdout ----
thread 'parser::case_x' panicked at src/parser.rs:88:9:
assertion `left == right` failed
  left: 3
 right: 4

test result: FAILED. 40 passed; 1 failed; 0 ignored; finished in 0.01s
""".format(passed="\n".join(f"test parser::case_{i} ... ok" for i in range(40)))


class TestTests:
    @pytest.mark.parametrize(
        ("text", "kept"),
        [
            (PYTEST, ["test_cart.py::test_total", "assert cart.total() == 3.0", "1 failed, 119 passed"]),
            (
                UNITTEST,
                [
                    "FAIL: test_total",
                    "AssertionError: 2.5 != 3.0",
                    "line 12, in test_total",
                    "FAILED (failures=1)",
                ],
            ),
            (
                JEST,
                ["FAIL src/c.test.ts", "✕ decrements", "Expected: -1", "Tests:       1 failed, 40 passed"],
            ),
            (GO, ["--- FAIL: TestB", "got 3, want 4", "FAIL\texample.com/x"]),
            (CARGO, ["case_x ... FAILED", "panicked at src/parser.rs:88", "left: 3", "40 passed; 1 failed"]),
        ],
        ids=["pytest", "unittest", "jest", "go", "cargo"],
    )
    def test_summary_failed_tests_and_assertions_stay(self, text, kept):
        shrunk = shrink(text, 140)
        assert [line for line in kept if line not in shrunk] == []
        assert_verbatim(shrunk, text)
        assert recognise_kind(text.split("\n")) == "tests"

    def test_passed_tests_are_counted(self):
        assert ", 59 passed or skipped]" in shrink(UNITTEST, 100)

    def test_the_test_that_failed_is_the_last_to_go_else_the_summary(self):
        """How many failed says less than which one."""
        assert "FAILED tests/test_cart.py::test_total - assert 2.5 == 3.0" in shrink(PYTEST, 25)
        passed = "\n".join(f"tests/test_{place}.py ......... [ {place}%]" for place in range(40))
        assert shrink(f"{passed}\n360 passed in 3.2s", 12).startswith("360 passed in 3.2s")

    def test_warnings_about_old_names_take_no_room_of_what_failed(self):
        old = "/app/lib{0}.py:3: DeprecationWarning: the name {0} is old\n  from lib import {0}\n"
        reason = '  File "tests/test_x.py", line 83, in test_x\n    assert f(x) == 2\nAssertionError'
        run = f"app/tests/test_x.py[2] .F\n____ app/tests/test_x.py:test_x ____\n{reason}\n\n"
        end = "=== tests finished: 1 passed, 1 failed, in 0.23 seconds ===\n"
        shrunk = shrink("".join([*map(old.format, "abcdefgh"), run, end]), 60)
        assert reason in shrunk
        assert "DeprecationWarning" not in shrunk
        run = run.replace(reason, "E   DeprecationWarning: the name a is old")
        assert "E   DeprecationWarning: the name a" in shrink(
            "".join([*map(old.format, "bcdef"), run, end]), 40
        )

    def test_a_reason_that_many_tests_have_stands_once(self):
        """And before the code that was run, as in ExUnit."""
        below = """     test/shop_test.exs:12
     ** (RuntimeError) no :secret_key_base found
     Ensure that it is there.
     code: {:ok, view} = live(conn)
     stacktrace:
       lib/shop.ex:3: Shop.get/1

"""
        tests = "".join(
            f"  {at}) test page {at} shows its parts (ShopWeb.PageTest)\n{below}" for at in range(1, 9)
        )
        shrunk = shrink(f"{tests}12 tests, 8 failures\n", 110)
        assert "** (RuntimeError) no :secret_key_base" in shrunk
        assert "code: {:ok, view}" not in shrunk.partition("2) test")[2]
        assert shrunk.count(") test page") > 2

    def test_the_list_of_failed_tests_is_in_one_piece(self):
        listed = "\n".join(f"FAILED tests/test_x.py::test_{i} - assert {i} == 0" for i in range(40))
        text = PYTEST.replace("FAILED tests/test_cart.py::test_total - assert 2.5 == 3.0", listed)
        names = re.findall(r"^FAILED \S+_(\d+) ", shrink(text, 120), re.MULTILINE)
        assert names == [str(i) for i in range(40 - len(names), 40)]
        assert len(names) > 1

    def test_the_reason_stands_beside_the_name_in_little_room(self):
        assert "FAILED tests/test_cart.py::test_total - assert 2.5 == 3.0" in shrink(PYTEST, 50)


# -- JSON ---------------------------------------------------------------------------------------------------

REPLY = {
    "meta": {"page": 1, "total": 500},
    "items": [{"id": i, "name": f"item {i}", "text": "lorem ipsum " * 20, "ratio": 0.50} for i in range(500)],
    "status": "partial",
    "error": {"code": 17, "message": "upstream timed out"},
}


class TestJson:
    @pytest.mark.each_value
    @pytest.mark.slow
    @pytest.mark.parametrize("indent", [None, 2, 4])
    @pytest.mark.parametrize("limit", [60, 150, 400])
    def test_json_stays_json(self, indent, limit):
        shrunk = shrink(json.dumps(REPLY, indent=indent), limit)
        value = json.loads(shrunk)
        assert value["error"] == REPLY["error"]
        assert value["status"] == "partial"

    @pytest.mark.slow
    def test_keys_both_ends_of_a_list_and_a_count_stay(self):
        value = json.loads(shrink(json.dumps(REPLY), 100))
        assert list(value) == list(REPLY)
        assert value["items"][0]["name"] == "item 0"
        assert value["items"][-1]["name"] == "item 499"
        assert re.fullmatch(r"\[\.\.\. \d+ items left out\]", value["items"][-2])

    def test_an_item_that_differs_from_the_others_stays(self):
        events = [{"at": i, "where": "LEJ", "event": ("loaded", "sorted")[i % 2]} for i in range(60)]
        events[47] = {"at": 47, "where": "KS", "event": "label cannot be read"}
        value = json.loads(shrink(json.dumps({"events": events}), 90))
        assert events[47] in value["events"]
        assert events[0] in value["events"]
        assert events[59] in value["events"]

    def test_values_that_differ_everywhere_make_no_item_odd(self):
        value = json.loads(shrink(json.dumps([{"id": i, "hash": f"{i:x}" * 9} for i in range(60)]), 70))
        shown = [item["id"] for item in value if isinstance(item, dict)]
        assert shown == [*range(len(shown) - 1), 59]

    def test_an_item_that_failed_stays(self):
        items = [{"id": i, "status": "ok"} for i in range(400)]
        items[333] = {"id": 333, "status": "failed", "message": "disk full"}
        items[5] = {"id": 5, "error": None}
        value = json.loads(shrink(json.dumps(items), 60))
        assert items[333] in value
        assert {"id": 0, "status": "ok"} in value
        assert {"error": "x" * 9} in json.loads(shrink(json.dumps([{"error": "x" * 9}] * 90), 40))
        errors = [{"error": "e" * 9 if i == 70 else ""} for i in range(90)]
        assert {"error": "e" * 9} in json.loads(shrink(json.dumps(errors), 40))

    def test_keys_that_do_not_fit_are_named_or_counted(self):
        few = json.loads(shrink(json.dumps({"name": "n" * 100, "b": "x" * 900, "c": "y" * 900}), 45))
        assert "[... 2 keys left out, b, c]" in few
        many = json.loads(shrink(json.dumps({f"key {i}": "value" * 9 for i in range(90)}), 60))
        assert any(re.fullmatch(r"\[\.\.\. \d+ keys left out\]", key) for key in many)

    def test_no_marker_stands_for_what_is_no_longer_than_it(self):
        legs = [{"from": "DFW", "to": "ATL", "number": f"H{i}", "price": 100 + i} for i in range(40)]
        value = json.loads(shrink(json.dumps({"legs": legs, "paid": [{"card": "c1", "sum": 7}]}), 130))
        shown = [leg for leg in value["legs"] if isinstance(leg, dict)]
        assert shown
        assert all(leg in legs for leg in shown)
        assert value["paid"] == [{"card": "c1", "sum": 7}]
        few = json.loads(shrink(json.dumps(["x" * 200, 1, 2, "y" * 200]), 80))
        assert few[1:3] == [1, 2]

    def test_keys_whose_value_is_the_same_everywhere_come_last(self):
        texts = {"status": "available", "route": "over the northern line " * 5, "note": "nothing here " * 9}
        shrunk = shrink(json.dumps([{**texts, "number": f"HAT{i:03}"} for i in range(40)]), 26)
        assert shrunk.startswith('[{"number": "HAT000", "[... 3 keys left out')

    def test_an_object_keeps_its_name_before_its_state(self):
        flight = {"note": "x" * 90, "status": "available", "flightNumber": "HAT141", "valid": "yes" * 9}
        assert '"flightNumber": "HAT141"' in shrink(
            json.dumps({"found": [{**flight, "a": i} for i in range(3)]}), 40
        )

    def test_a_marker_names_what_it_stands_for_if_it_is_not_much(self):
        legs = [{"number": f"HAT{i}", "text": "word " * 30} for i in range(12)]
        assert json.loads(shrink(json.dumps(legs[:3]), 15)) == ["[... 3 items left out, HAT0, HAT1, HAT2]"]
        pairs = json.loads(shrink(json.dumps([legs[:2], legs[2:4]]), 20))
        assert pairs == [["[... 2 items left out, HAT0, HAT1]"], "[... 1 item left out, HAT2, HAT3]"]
        assert "left out, HAT0, HAT1, HAT2, HAT3, HAT4, HAT5, …]" in shrink(json.dumps(legs), 25)
        assert json.loads(shrink(json.dumps(legs * 9), 15)) == ["[... 108 items left out]"]
        odd = [{"id": f"[{i}]", "text": "word " * 30} for i in range(3)]
        assert json.loads(shrink(json.dumps(odd), 15)) == ["[... 3 items left out]"]

    def test_names_come_before_an_address(self):
        cards = {f"gift_card_{n}": {"source": "gift", "amount": n, "text": "word " * 9} for n in range(2)}
        home = {"street": "825 Laurel Lane", "city": "Houston", "country": "USA"}
        value = json.loads(shrink(json.dumps({"home": home, "cards": cards, "born": "1980-01-01"}), 30))
        assert value["cards"] == {"[... 2 keys left out, gift_card_0, gift_card_1]": None}
        assert "home" not in value

    def test_a_smaller_value_takes_the_room_that_a_larger_one_leaves(self):
        value = {"name": "Ada", "text": "word " * 90, "rank": "gold"}
        assert '"rank": "gold"' in shrink(json.dumps(value), 18)
        first = {"name": "Ada", "message": "word " * 90, "rank": "gold"}
        assert '"rank": "gold"' not in shrink(json.dumps(first), 18)

    def test_numbers_are_written_as_they_were(self):
        text = '{"a": 1.50, "b": 1e5, "c": 123456789012345678901234567890, "d": [' + "0.10, " * 400 + "NaN]}"
        shrunk = shrink(text, 60)
        assert '"a": 1.50, "b": 1e5, "c": 123456789012345678901234567890' in shrunk
        assert "0.10" in shrunk

    @pytest.mark.slow
    def test_compact_json_stays_compact(self):
        text = json.dumps(REPLY, separators=(",", ":"))
        assert '"status":"partial","error":{"code":17,' in shrink(text, 80)

    def test_a_tiny_limit_leaves_the_head_of_the_shortest_json(self):
        assert shrink(json.dumps(REPLY), 3) == '{"status"…'

    def test_empty_and_scalar_values(self):
        text = json.dumps({"a": [], "b": {}, "c": None, "d": True, "e": "x" * 900})
        assert shrink(text, 60).startswith('{"a": [], "b": {}, "c": null, "d": true, "e": "xx')

    def test_json_that_is_too_deep_is_text(self):
        deep = "[" * 100 + '"x"' * 1 + "]" * 100
        assert MARKER.search(shrink(deep * 1, 30))
        deeper = '{"a":' * 30_000 + "1" + "}" * 30_000
        assert shrink(deeper, 30).startswith('{"a":')

    def test_what_only_looks_like_json_is_text(self):
        assert shrink("{" + "a, " * 300 + "}", 40).startswith("{a,")

    def test_lines_of_json_are_shrunk_one_by_one(self):
        lines = [
            json.dumps({"time": i, "level": "info", "text": "x" * 500, "path": f"/a/{i}"}) for i in range(50)
        ]
        lines[20] = json.dumps({"time": 20, "level": "ERROR", "text": "y" * 500, "path": "/bad"})
        lines[21] = '{"time": 21}'
        shrunk = shrink("\n".join(lines), 150)
        assert lines[21] in shrunk
        values = [json.loads(line) for line in shrunk.split("\n") if not MARKER.fullmatch(line)]
        assert values[0]["path"] == "/a/0"
        assert "/bad" in [value.get("path") for value in values]

    def test_a_line_that_is_no_json_among_lines_of_json_is_cut(self):
        lines = ["{" + "word " * 100 + str(i) + "}" for i in range(50)]
        assert MARKER.search(shrink("\n".join(lines), 60))

    def test_an_object_is_ranked_once_for_all_sizes(self):
        """The longest of several renderings is looked for, and later folds render it again."""
        orders = [{"id": f"o{at}", "state": "open", "lines": [{"sku": at, "n": 1}] * 9} for at in range(30)]
        plan = OutputPlan.of(json.dumps(orders))
        first, again = (count_calls(lambda: plan.render(900)) for _ in range(2))
        assert again < first / 2


# -- diffs --------------------------------------------------------------------------------------------------


def diff_of(*paths, hunks=3, lines=4):
    text = []
    for path in paths:
        text += [f"diff --git a/{path} b/{path}", "index 123..456 100644", f"--- a/{path}", f"+++ b/{path}"]
        for hunk in range(hunks):
            text += [f"@@ -{hunk * 90},7 +{hunk * 90},7 @@ def part{hunk}():"]
            text += [f"     context {hunk} {i} of the file" for i in range(3)]
            text += [f"-    old {hunk} {i} in {path}" for i in range(lines)]
            text += [f"+    new {hunk} {i} in {path}" for i in range(lines)]
            text += [f"     context {hunk} {i} of the file" for i in range(3, 6)]
    return "\n".join(text)


class TestDiffs:
    def test_changes_stay_and_context_leaves(self):
        text = diff_of("src/a.py", hunks=2)
        shrunk = shrink(text, 160)
        assert all(
            line in shrunk for line in text.split("\n") if line.startswith(("-  ", "+  ", "@@", "+++"))
        )
        assert "context 0 0" not in shrunk

    def test_lines_that_repeat_the_name_of_a_file_leave_without_a_marker(self):
        shrunk = shrink(diff_of("src/a.py", hunks=1), 80)
        assert shrunk.startswith("+++ b/src/a.py\n@@")

    def test_every_file_is_named_and_what_is_left_out_is_counted(self):
        shrunk = shrink(diff_of("src/a.py", "src/b.py", "docs/c.md"), 80)
        assert [line for line in shrunk.split("\n") if line.startswith("+++")] == [
            *("+++ b/src/a.py", "+++ b/src/b.py", "+++ b/docs/c.md")
        ]
        assert re.search(r"left out, \+\d+ -\d+\]", shrunk)

    @pytest.mark.slow
    def test_many_files_in_one_gap(self):
        shrunk = shrink(diff_of(*(f"src/file{i}.py" for i in range(60))), 60)
        assert re.search(r"left out, \+\d+ -\d+ in \d+ files\]", shrunk)

    def test_the_commit_and_deleted_and_binary_files(self):
        head = "commit 12345\nAuthor: A\nDate: today\n\n    Message\n\n"
        gone = diff_of("src/gone.py").replace("+++ b/src/gone.py", "+++ /dev/null")
        binary = "diff --git a/x.png b/x.png\nBinary files a/x.png and b/x.png differ\n"
        shrunk = shrink(head + binary + gone, 90)
        assert shrunk.startswith("commit 12345")
        assert "--- a/src/gone.py" in shrunk
        assert "diff --git a/x.png b/x.png" in shrunk

    def test_removed_lines_that_look_like_headers(self):
        text = (
            "--- a/x.sql\n+++ b/x.sql\n@@ -1,3 +1,2 @@\n--- a comment\n+++ plus\n"
            + " same line of the file\n" * 60
        )
        assert "--- a comment" in shrink(text, 40)


# -- lists --------------------------------------------------------------------------------------------------


class TestLists:
    def test_folders_are_counted(self):
        text = "\n".join(f"./src/{folder}/mod_{i}.py" for folder in ("app", "core", "web") for i in range(60))
        shrunk = shrink(text, 60)
        assert "./src/app/mod_0.py" in shrunk
        assert (
            "left out, 60 in ./src/core" in shrunk
            or "59 in ./src/core" in shrunk
            or "all in ./src/core" in shrunk
        )
        assert re.search(r"\[\.\.\. \d+ lines left out, all in \./src/app\]", shrink(text, 100))

    def test_endings_are_counted_where_there_is_one_folder(self):
        names = [f"mod_{i}.py" for i in range(60)] + [f"page_{i}.html" for i in range(40)]
        assert re.search(r"left out, \d+ \.py, \d+ \.html\]", shrink("\n".join(names), 40))

    def test_long_listings_trees_and_headings(self):
        rows = ["total 8", *(f"-rw-r--r-- 1 root root 120 Jan 1 10:00 file{i}.txt" for i in range(60))]
        shrunk = shrink("\n".join(rows), 60)
        assert shrunk.startswith("total 8\n")
        assert re.search(r"left out, (?:file\d+\.txt ){8}…\]", shrunk)
        assert "left out, file0.txt file1.txt]" in shrink("\n".join(rows[:4]), 28)
        tree = "app\n" + "\n".join(
            f"├── d{i}\n" + "\n".join(f"│   ├── f{k}.ts" for k in range(20)) for i in range(5)
        )
        assert re.findall(r"├── d\d", shrink(tree, 100)) == [f"├── d{i}" for i in range(5)]
        headings = "\n\n".join(f"./dir{i}:\n" + "\n".join(f"file{k}" for k in range(30)) for i in range(5))
        assert re.findall(r"\./dir\d:", shrink(headings, 100)) == [f"./dir{i}:" for i in range(5)]

    def test_the_row_at_its_limit_survives(self):
        rows = [f"/dev/sd{chr(97 + at)}1   468G  201G  244G  46% /srv/{at}" for at in range(12)]
        rows[7] = "/dev/sdh1   468G  468G     0 100% /srv/spool"
        text = "\n".join(["Filesystem  Size  Used Avail Use% Mounted on", *rows])
        assert rows[7] in shrink(text, 40)

    def test_a_complaint_in_a_listing_survives(self):
        names = [f"./src/mod_{i}.py" for i in range(300)]
        names[200] = "find: './secret': Permission denied"
        assert names[200] in shrink("\n".join(names), 40)

    def test_hits_are_grouped_by_file(self):
        hits = [
            f"src/{file}.py:{i}:    value = compute_{i}(x)"
            for file in ("alpha", "beta")
            for i in range(10, 400, 7)
        ]
        shrunk = shrink("\n".join(hits), 100)
        assert "src/alpha.py:10:" in shrunk
        assert "src/beta.py:10:" in shrunk
        assert "54 lines left out, all in src/beta.py]" in shrunk

    def test_hits_that_name_an_error_are_hits(self):
        hits = [f'src/a.py:{i}:    raise ValueError("error: {i}")' for i in range(10, 400, 7)]
        assert recognise_kind(hits) == "search"

    def test_hits_without_numbers(self):
        hits = [f"src/{file}.py:    value = compute_{i}(x)" for file in ("alpha", "beta") for i in range(50)]
        assert recognise_kind(hits) == "search"
        assert "src/beta.py:    value = compute_0(x)" in shrink("\n".join(hits), 100)

    def test_hits_stay_before_their_context(self):
        lines = []
        for i in range(10, 400, 30):
            lines += [f"src/a.py-{i - 1}-before", f"src/a.py:{i}:the hit", f"src/a.py-{i + 1}-after", "--"]
        shrunk = shrink("\n".join(lines), 60)
        assert shrunk.count("the hit") > 2
        numbered = "\n".join(f"{i}:def function_{i}(self):" for i in range(10, 900, 9))
        assert shrink(numbered, 60).startswith("10:def")

    def test_clock_times_and_dates_are_no_hits(self):
        assert recognise_kind([f"12:00:{i:02d} started" for i in range(9)]) == "log"
        assert recognise_kind([f"{i},user{i},2024-01-0{i}" for i in range(9)]) == "table"

    @pytest.mark.parametrize(
        "rows",
        [
            ["id,name,amount", *(f"{i},user{i},{i * 3}" for i in range(90))],
            ["| id | name |", "|----|------|", *(f"| {i} | user{i} |" for i in range(90))],
            ["id\tname", *(f"{i}\tuser{i}" for i in range(90))],
            ["Package    Version", "---------- -------", *(f"package{i:<3}  {i}.1" for i in range(90))],
        ],
        ids=["csv", "markdown", "tabs", "columns"],
    )
    def test_tables_keep_header_first_and_last_rows(self, rows):
        assert recognise_kind(rows) == "table"
        shrunk = shrink("\n".join(rows), 40).split("\n")
        assert shrunk[:2] == rows[:2]
        assert shrunk[-1] == rows[-1]
        assert sum(bool(MARKER.fullmatch(line)) for line in shrunk) == 1

    def test_a_row_that_failed_survives(self):
        rows = ["job,state,seconds", *(f"job{i},ok,{i}" for i in range(300))]
        rows[200] = "job199,FAILED,7"
        assert "job199,FAILED,7" in shrink("\n".join(rows), 40)


# -- code and prose -----------------------------------------------------------------------------------------

CODE = [
    "# Licence: a long text",
    "# that nobody reads again",
    '"""Carts."""',
    "",
    "import os",
    "import sys",
    "",
]
for _name in ("load", "save", "total"):
    CODE += [f"def {_name}(cart, path):", f'    """Do {_name}."""']
    CODE += [f"    {_name}_{i} = compute(cart, {i})" for i in range(30)]
    CODE += ["    return cart", "", ""]


class TestCode:
    @pytest.mark.parametrize(
        "shape", ["{line}", "{number:6}\t{line}", "{number:6}→{line}", "{number}: {line}"]
    )
    def test_head_signatures_and_end_stay(self, shape):
        lines = [shape.format(number=number, line=line) for number, line in enumerate(CODE, 1)]
        shrunk = shrink("\n".join(lines), 130)
        assert recognise_kind(lines) == "code"
        for word in ("import os", "def load(cart, path):", "def save(cart, path):", "def total(cart, path):"):
            assert word in shrunk
        assert "return cart" in shrunk.split("def total")[1]
        assert "Licence" not in shrunk
        assert_verbatim(shrunk, "\n".join(lines))

    def test_pieces_are_in_one_piece(self):
        """Half of a piece of code is shown in few pieces: what is edited has to be seen with its neighbours."""
        lines = CODE[7:40]
        shrunk = shrink("\n".join(lines), count("\n".join(lines)) // 2)
        assert len(left_out(shrunk)) <= 2

    def test_classes_come_before_their_methods(self):
        lines = []
        for name in "ABCDEFGH":
            lines += [f"class Big{name}:", "    def run(self):", *["        self.value = compute(self)"] * 20]
            lines += ["        def inner(x):", "            return x"]
        shrunk = shrink("\n".join(lines), 130)
        assert shrunk.count("class Big") > 4

    def test_a_trace_in_a_document_does_not_make_it_a_log(self):
        lines = [
            *CODE[2:9],
            "    >>> f()",
            "    Traceback (most recent call last):",
            "    KeyError: 'a'",
            *CODE[9:],
        ]
        assert recognise_kind(lines) == "code"

    def test_only_comments(self):
        assert shrink("# a comment of a file\n" * 60, 40).startswith("# a comment")


class TestProse:
    def test_head_tail_and_headings_stay(self):
        parts = [
            f"## Part {i}\n\nThis part explains step {i}. It has some sentences. Here part {i} ends."
            for i in range(20)
        ]
        shrunk = shrink("# Guide\n\n" + "\n\n".join(parts), 150)
        assert shrunk.startswith("# Guide\n")
        assert shrunk.endswith("Here part 19 ends.")
        assert shrunk.count("## Part") > 3

    def test_one_paragraph_is_cut_between_words(self):
        shrunk = shrink("The harbour opened in eighteen ninety three. " * 90, 60)
        head, marker, tail = MARKER.sub("\0", shrunk).partition("\0")
        assert marker
        assert head.split()[-1] in "The harbour opened in eighteen ninety three."
        assert tail.split()[0] in ["The", "harbour", "opened", "in", "eighteen", "ninety", "three."]

    def test_blank_text(self):
        assert not shrink("\n" * 400, 5).strip()


# -- one line, frames ---------------------------------------------------------------------------------------


class TestLongLines:
    def test_encoded_data_says_what_it_is(self):
        digest = b"".join(hashlib.sha256(bytes([i])).digest() for i in range(200))
        assert re.search(
            r"\[\.\.\. \d+ characters left out, base64\]", shrink(base64.b64encode(digest).decode(), 60)
        )
        assert re.search(r"\[\.\.\. \d+ characters left out, hex\]", shrink(digest.hex(), 60))
        assert re.search(r"\[\.\.\. \d+ characters left out\]", shrink("function(){return 1};" * 200, 60))

    def test_both_ends_stay(self):
        shrunk = shrink("start," + "x," * 4_000 + "end", 60)
        assert shrunk.startswith("start,")
        assert shrunk.endswith("end")

    def test_a_long_line_does_not_push_out_the_others(self):
        shrunk = shrink("first\n" + "x, " * 4_000 + "\n" + "\n".join(f"line {i}" for i in range(9)), 60)
        assert shrunk.startswith("first\n")
        assert shrunk.endswith("line 8")

    def test_letters_are_not_split(self):
        family = "👨‍👩‍👧‍👦"
        shrunk = shrink(family * 400, 60)
        head, _, tail = MARKER.sub("\0", shrunk).partition("\0")
        assert set(head.split(family)) == set(tail.split(family)) == {""}


class TestFrames:
    @pytest.mark.parametrize(
        ("start", "end"),
        [
            ("<returncode>1</returncode>\n<output>\n", "\n</output>"),
            ("<returncode>1</returncode><output>", "</output>\n"),
            ("Exit code 1\n", ""),
            ("<stdout>\n", "\n</stdout>\n<exit_code>1</exit_code>"),
            ("", "\nProcess exited with code 1"),
            ("", "\nexit code: 1\n"),
        ],
    )
    def test_the_frame_is_kept_and_the_content_shrinks(self, start, end):
        shrunk = shrink(start + PYTEST + end, 100)
        assert shrunk.startswith(start)
        assert shrunk.endswith(end)
        assert "1 failed, 119 passed" in shrunk

    def test_two_streams_share_the_room(self):
        out = "\n".join(log_lines(300))
        text = f"<stdout>\n{out}\n</stdout>\n<stderr>\nwarning: slow\n</stderr>"
        shrunk = shrink(text, 100)
        assert "<stderr>\nwarning: slow\n</stderr>" in shrunk
        assert left_out(shrunk)

    def test_a_frame_that_is_too_large_is_reduced_to_the_exit_code(self):
        notice = "<warning>\nThe output was too long.\nUse head or tail.\n</warning>"
        parts = "<output_head>\n{0}\n</output_head>\n<elided_chars>\n99 characters elided\n</elided_chars>\n<output_tail>\n{0}\n</output_tail>"
        text = f"<returncode>2</returncode>\n{notice}" + parts.format("\n".join(log_lines(90)))
        small = shrink(text, 40)
        assert small.startswith("<returncode>2</returncode>")
        assert "elided" not in small
        large = shrink(text, 200)
        assert "99 characters elided" in large
        assert "Use head" not in large

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("first", "second"), [("stdout", "stderr"), ("output_head", "output_tail"), ("stderr", "stdout")]
    )
    @pytest.mark.parametrize("limit", [26, 35, 45, 50])
    def test_a_failure_stays_where_there_is_no_room_for_the_frame(self, first, second, limit):
        built = "\n".join(f"compiling unit {n} of 60" for n in range(60))
        failed = "ERROR: link failed: undefined symbol berth_lock"
        code = "<returncode>1</returncode>\n"
        text = f"{code}<{first}>\n{built}\n</{first}>\n<{second}>\n{failed}\n</{second}>"
        shrunk = shrink(text, limit)
        assert shrunk.startswith(code)
        assert shrunk.endswith(f"\n{failed}")
        shown = [line for line in shrunk.split("\n") if line in built.split("\n")]
        assert sum(left_out(shrunk)) + len(shown) == 60
        assert bool(shown) == (limit > 35)  # the room beside the failure is used

    def test_the_failure_alone_is_the_best_line_of_two_streams(self):
        out = "\n".join(log_lines(60))
        text = f"<stdout>\n{out}\n</stdout>\n<stderr>\nERROR: disk full\n</stderr>"
        assert shrink(text, 6).startswith("ERROR: disk full")

    def test_short_content_is_shown_rather_than_a_marker(self):
        text = f"<stdout>\n{'a word of it ' * 40}\n</stdout>\n<stderr>\nslow\n</stderr>\n<exit_code>0</exit_code>"
        assert shrink(text, 30).endswith("\nslow\n<exit_code>0</exit_code>")

    def test_a_frame_without_content(self):
        assert shrink("<output></output>" * 3, 3) == "<output>"
        assert shrink("<output></output>" * 12, 3) == "<output>"
        assert shrink("<returncode>0</returncode>\n<output>\n" + "\n" * 900 + "</output>", 20).startswith(
            "<returncode>"
        )

    def test_a_document_with_many_tags_is_content(self):
        document = "<result>\n" + "<output>text of a node</output>\n" * 60 + "</result>"
        shrunk = shrink(document, 60)
        assert shrunk.startswith("<result>\n")
        assert shrunk.endswith("</result>")
        assert left_out(shrunk)
        assert left_out(shrink("<result>a\n" + "<output>text of a node</output>\n" * 60, 60))

    def test_gaps_are_separated_by_kept_lines(self):
        shrunk = shrink("\n".join(log_lines(300)), 100).split("\n")
        assert not any(MARKER.fullmatch(a) and MARKER.fullmatch(b) for a, b in pairwise(shrunk))


@pytest.mark.slow
def test_the_names_of_other_items_do_not_push_out_the_first():
    books = [
        {"isbn": f"978-3-1623{number}-0", "title": f"Book {number}", "price": 31.7} for number in range(3)
    ]
    orders = [
        {"id": f"O-{number}", "customer": "C-2291", "state": "delivered", "items": books, "total": 95.1}
        for number in range(70_309, 70_321)
    ]
    text = json.dumps({"count": 12, "next": None, "orders": orders}, indent=2)
    for limit in range(60, 120):
        first, *_ = json.loads(shrink_output(text, limit, estimate))["orders"]
        assert first["id"] == "O-70309"


# -- one line of trouble in thousands, in the shapes in which harnesses and runners print it ------------------

CALM = [f"2026-11-15 10:00:{place % 60:02d} INFO request {place} ok" for place in range(3000)]
LOG = "\n".join([*CALM[:1500], "2026-11-15 10:22:01 ERROR db timeout at NEEDLE", *CALM[1500:]])
ENTRIES = {f"k{place}": {"id": place, "status": "ok", "tags": ["a", "b"]} for place in range(900)}


@pytest.mark.each_value
@pytest.mark.parametrize("limit", [5000, 1000, 300])
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(json.dumps({"stdout": LOG, "stderr": "", "exit_code": 0}), id="a value"),
        pytest.param(json.dumps({"result": {"data": {"output": LOG}}}, indent=2), id="deep"),
        pytest.param(json.dumps([{"type": "text", "text": LOG}]), id="a block"),
        pytest.param(json.dumps({"lines": LOG.split("\n")}), id="a list of lines"),
        pytest.param(json.dumps({**ENTRIES, "kx": {"id": 1, "error": "NEEDLE lost"}}), id="an entry"),
        pytest.param(
            "\n".join(f"{at:6d}\t{line}" for at, line in enumerate(LOG.split("\n"), 1)), id="cat -n"
        ),
        pytest.param(
            "\n".join(f"{at:6d}→{line}" for at, line in enumerate(LOG.split("\n"), 1)), id="a reader"
        ),
        pytest.param(LOG.replace("\n", "\r"), id="carriage returns"),
    ],
)
def test_the_only_error_of_a_log_stays_whatever_is_around_it(text, limit):
    shrunk = shrink(text, limit)
    assert "NEEDLE" in shrunk
    assert not text.startswith(("{", "[")) or json.loads(shrunk)


RUNNERS = {
    "pytest -v": (
        "tests/test_{0}.py::test_{0} PASSED   [ 12%]",
        "tests/test_9.py::test_NEEDLE FAILED   [ 50%]",
    ),
    "pytest -v, no share": ("tests/test_a.py::test_{0} PASSED", "tests/test_a.py::test_NEEDLE ERROR"),
    "mocha": ("    ✔ handles {0}", "    1) handles NEEDLE"),
    "jest": ("    ✓ handles {0} (1 ms)", "    ✕ handles NEEDLE (1 ms)"),
    "node --test": ("✔ handles {0} (0.3ms)", "✖ handles NEEDLE (0.3ms)"),
    "dotnet test": (
        "  Passed Ns.T{0} [2 ms]",
        "  Failed Ns.NEEDLE [< 1 ms]\n  Error Message:\n   Assert.Equal()",
    ),
    "swift test": (
        "Test Case '-[A t{0}]' passed (0.001 seconds).",
        "Test Case '-[A NEEDLE]' failed (0.1 seconds).",
    ),
    "maven": (
        "[INFO] Tests run: 3, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.01 s - in a.T{0}",
        "[ERROR] Tests run: 3, Failures: 1, Errors: 0, Skipped: 0, Time elapsed: 1 s <<< FAILURE! - in a.NEEDLE",
    ),
    "docker build": ("#{0} DONE 0.1s", "#1501 ERROR: NEEDLE did not complete successfully: exit code: 2"),
    "bazel test": ("//a:t{0}      (cached) PASSED in 0.1s", "//a:NEEDLE            FAILED in 0.1s"),
    "rspec": ("  handles {0}", "  handles NEEDLE (FAILED - 1)"),
}
ENDS = {
    "bazel test": "\n\nExecuted 3001 out of 3001 tests: 3000 tests pass and 1 fails locally.",
    "dotnet test": "\n\nTest Run Failed.\nTotal tests: 3001\n     Passed: 3000\n     Failed: 1\n Total time: 3.2 Seconds",
    "node --test": "\nℹ tests 3001\nℹ pass 3000\nℹ fail 1\nℹ duration_ms 33",
    "swift test": "\n\t Executed 3001 tests, with 1 failure (0 unexpected) in 3.2 (3.3) seconds",
}


@pytest.mark.few_values(3)
@pytest.mark.slow
@pytest.mark.parametrize("limit", [5000, 1000, 300])
@pytest.mark.parametrize("is_cut", [True, False])
@pytest.mark.parametrize("runner", RUNNERS)
def test_the_only_failed_test_of_thousands_stays(runner, is_cut, limit):
    passed, failed = RUNNERS[runner]
    lines = [passed.format(place) for place in range(3000)]
    lines.insert(1500, failed)
    assert "NEEDLE" in shrink("\n".join(lines) + ("" if is_cut else ENDS.get(runner, "")), limit)


def test_a_test_run_that_was_cut_off_tells_how_far_it_came():
    lines = [f"tests/test_a.py::test_{place} PASSED" for place in range(500)]
    assert "test_499 PASSED" in shrink("\n".join(lines), 200)


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        pytest.param(
            [f"src/a{place}.py:{place}: PASSED = 1" for place in range(20)], "search", id="numbered hits"
        ),
        pytest.param([f"src/a{place}.py:    PASSED" for place in range(20)], "search", id="hits"),
        pytest.param(
            [f"{place:4d}\t    raise ValueError('ERROR {place}')" for place in range(20)],
            "code",
            id="numbered code",
        ),
        pytest.param([f"{place:4d}\t" for place in range(20)], "code", id="numbered blank lines"),
        pytest.param(
            [f"{place:4d}\tThe run {place} ended with an ERROR, as it must." for place in range(20)],
            "code",
            id="numbered prose",
        ),
        pytest.param(
            [f"    self.fail({place})  # (FAILED - 1) is printed" for place in range(20)], "code", id="code"
        ),
    ],
)
def test_code_prose_and_hits_are_no_run(lines, kind):
    assert recognise_kind(lines) == kind


class TestFindRun:
    def test_the_run_is_found_between_the_words_with_its_traces(self):
        run = [
            *CALM[:50],
            "Traceback (most recent call last):",
            '  File "a.py", line 3, in f',
            "KeyError: 'a'",
        ]
        words = ["Here is my log:", "", *run, "", "What is wrong?"]
        assert find_run("\n".join(words)) == range(2, 2 + len(run))

    def test_words_between_two_runs_belong_to_none(self):
        words = [*CALM[:60], "and after the restart:", *CALM[60:140]]
        assert find_run("\n".join(words)) == range(61, 141)

    def test_lines_of_nothing_are_looked_at_together(self):
        assert count_calls(lambda: find_run("[\n" * 4_000)) < 10 * 4_000

    def test_a_test_run_is_one(self):
        run = [f"✔ handles {place}" for place in range(40)]
        assert find_run("\n".join(["It says", *run, "✖ handles all", "and so on"])) == range(1, 42)

    @pytest.mark.parametrize(
        "lines",
        [
            pytest.param([], id="nothing"),
            pytest.param(CALM[:39], id="a short log"),
            pytest.param([f"    x{place} = {place}" for place in range(60)], id="code"),
            pytest.param([f"The error: {place} is known." for place in range(60)], id="prose"),
        ],
    )
    def test_other_texts_have_none(self, lines):
        assert find_run("\n".join(lines)) == range(0)


def test_progress_that_is_overwritten_is_not_shown_and_lines_of_a_log_are():
    progress = "\r".join(f"{share} %" for share in range(100))
    shrunk = shrink(f"{progress}\n" * 30 + LOG.replace("\n", "\r\n"), 2000)
    assert "98 %" not in shrunk
    assert "NEEDLE" in shrunk
    assert "\r\r" not in shrunk


def test_a_long_value_of_many_lines_that_has_little_room_is_cut():
    shrunk = shrink(json.dumps({"stdout": LOG, "stderr": LOG}), 60)
    assert json.loads(shrunk)


def test_of_requests_that_failed_the_first_and_the_last_stay():
    """They look like those that went well, but for one number."""
    lines = [
        f'10.0.0.1 "GET /cart/{place} HTTP/1.1" {502 if place in (200, 340) else 200} 5'
        for place in range(500)
    ]
    shrunk = shrink("\n".join(lines), 120)
    assert "/cart/200 " in shrunk
    assert "/cart/340 " in shrunk


def test_a_package_that_passed_is_not_the_summary_of_a_run():
    race = ["WARNING: DATA RACE", "Write at 0x0 by goroutine 41:", "  lease.expire()"]
    lines = [
        *(["=== RUN   TestA"] * 90),
        *race,
        "--- FAIL: TestA (3.0s)",
        "FAIL\ta/lease\t3.6s",
        "ok  \ta/errors\t0.1s",
        "FAIL",
    ]
    shrunk = shrink("\n".join(lines), 60)
    assert all(line in shrunk for line in (race[0], lines[-4], lines[-3]))


def test_what_a_failure_leads_to_stays_with_it():
    text = "[ERROR] COMPILATION ERROR : \n[ERROR] /w/A.java:[91,17] cannot find symbol\n  symbol: X\n"
    shrunk = shrink(text + "  location: Y\n" * 30 + "[ERROR] Failed to execute goal: Compilation failure", 45)
    assert "cannot find symbol" in shrunk
    assert "Failed to execute" in shrunk


def test_a_long_name_at_a_cut_is_shown_in_part():
    trace = "Caused by: java.sql.SQLTransientConnectionException: the pool is empty, request timed out after 30000ms."
    assert cut_line(trace, 68).startswith("Caused by: java.sql.SQLTr")


def test_a_marker_has_no_bracket_in_it():
    """It would end there, for who counts what is left out and who puts a handle into it."""
    log = "\n".join(
        f"Mar 14 10:30:{place % 60:02} edge nginx[811]: {place}#0: reused" for place in range(200)
    )
    marker = MARKER.search(shrink(log, 60))
    assert marker
    assert marker[0].endswith('like "Mar :: edge nginx: : reu"]')


def test_a_row_of_a_table_comes_before_the_rule_below_its_header():
    rule = "-------+---------+--------------+---------"
    rows = ["44112 | active  | DataFileRead | 00:14:22", " 8812 | idle    | ClientRead   | 00:00:00"]
    table = "\n".join(("  pid  |  state  |  wait_event  | duration", rule, *rows, "(2 rows)"))
    shrunk = shrink(table, 32)
    assert rule not in shrunk
    assert rows[0] in shrunk
    plan = "\n".join(
        ("QUERY PLAN", rule * 3, *("  ->  Sort  (cost=1)" for _ in range(9)), " Execution Time: 2 ms")
    )
    assert rule not in shrink(plan, 40)


LONG = (
    "a_tanker_that_arrives_before_the_pilot_has_left_the_other_vessel_waits_for_the_whole_distance"
    + "_there" * 9
)
LONG_RUNS = {
    "exunit": (
        [
            *["." * 40] * 9,
            f"  1) test {LONG} (Harbour.ScheduleTest)",
            "     test/schedule_test.exs:112",
            "     Assertion with == failed",
            "     code:  assert conn.status == 403",
            "     left:  200",
            "     right: 403",
            "     stacktrace:",
            "       test/schedule_test.exs:127: (test)",
            *["." * 40] * 9,
            "Finished in 1.4 seconds",
            "58 tests, 1 failure",
        ],
        ("  1) test a_tanker", ".ScheduleTest)", "left:  200", "right: 403", "58 tests, 1 failure"),
    ),
    "mocha": (
        [
            *(f"    ✔ keeps case {number}" for number in range(20)),
            f"    1) {LONG}",
            "",
            "  20 passing (41ms)",
            "  1 failing",
            "",
            "  1) Checkout",
            f"       {LONG}:",
            "",
            "      AssertionError: expected 1900 to equal 2400",
            "      + expected - actual",
            "",
            "      at Context.<anonymous> (test/checkout.spec.js:88:31)",
        ],
        ("1) a_tanker", "expected 1900 to equal 2400", "1 failing"),
    ),
    "rust": (
        [
            *(f"test parser::tests::case_{number} ... ok" for number in range(30)),
            f"test parser::tests::{LONG} ... FAILED",
            "",
            "failures:",
            "",
            f"---- parser::tests::{LONG} stdout ----",
            f"thread 'parser::tests::{LONG}' panicked at src/parser.rs:412:9:",
            "assertion `left == right` failed",
            "  left: Span { start: 0, end: 41 }",
            " right: Span { start: 0, end: 42 }",
            "",
            "test result: FAILED. 30 passed; 1 failed; 0 ignored; finished in 0.01s",
        ],
        ("test parser::tests::a_", "end: 41", "end: 42", "test result: FAILED. 30 passed; 1 failed"),
    ),
    "go": (
        [
            "=== RUN   TestImport",
            *(f"=== RUN   TestImport/case_{number}" for number in range(20)),
            "--- FAIL: TestImport (0.02s)",
            f"    --- FAIL: TestImport/{LONG} (0.00s)",
            '        import_test.go:141: got "DE89", want "DE90"',
            *(f"    --- PASS: TestImport/case_{number} (0.00s)" for number in range(20)),
            "FAIL",
            "FAIL\texample.com/bank/importer\t0.035s",
        ],
        ("--- FAIL: TestImport/a_", 'got "DE89", want "DE90"', "FAIL\texample.com/bank/importer"),
    ),
    "maven": (
        [
            *["[INFO] Running com.example.PriceServiceTest"] * 9,
            f"[ERROR] com.example.ReservationTest.{LONG} -- Time elapsed: 0.2 s <<< FAILURE!",
            "org.opentest4j.AssertionFailedError: expected: <409> but was: <201>",
            "\tat org.junit.jupiter.api.AssertEquals.failNotEqual(AssertEquals.java:197)",
            f"\tat com.example.ReservationTest.{LONG}(ReservationTest.java:88)",
            *["[INFO]"] * 9,
            "[ERROR] Tests run: 23, Failures: 1, Errors: 0, Skipped: 0",
            "[INFO] BUILD FAILURE",
        ],
        ("[ERROR] com.example.Res", "expected: <409> but was: <201>", "Tests run: 23, Failures: 1"),
    ),
    "pytest": (
        [
            *["tests/test_store.py ....................          [ 50%]"] * 9,
            f"_______ test_{LONG} _______",
            "    schedule.add(first)",
            "E       AssertionError: assert 40 == 15",
            f"FAILED tests/test_schedule.py::test_{LONG} - AssertionError: assert 40 == 15",
            "=========== 1 failed, 40 passed in 0.92s ===========",
        ],
        ("FAILED tests/test_schedule.py", "assert 40 == 15", "1 failed, 40 passed"),
    ),
}


@pytest.mark.parametrize(("lines", "needed"), LONG_RUNS.values(), ids=LONG_RUNS)
def test_a_long_name_of_a_test_leaves_room_for_why_and_how_many(lines, needed):
    text = "\n".join(lines)
    shrunk = shrink(text, 75)
    assert [words for words in needed if words not in shrunk] == []
    said = read_outcome(text).line
    assert "a_tanker_that" in said
    assert needed[-1] in said.replace("FAIL example", "FAIL\texample")


def test_a_name_that_has_room_is_whole_and_its_reason_is_cut():
    run = [
        "collected 68 items",
        *(f"tests/test_{number}.py ....." for number in range(9)),
        "FAILED tests/test_ext_autodoc.py::test_autodoc - AssertionError: assert 'a warning' == ''",
        "=========== 1 failed, 67 passed, 42 warnings in 5.34s ===========",
    ]
    said = read_outcome("\n".join(run), 95).line
    assert said.endswith("; FAILED tests/test_ext_autodoc.py::test_autodoc - …")
    said = read_outcome("\n".join(run), 90).line  # the reason would have no letter
    assert said.endswith("; FAILED tests/test_ext_autodoc.py::test_autodoc")


def test_lines_around_a_failure_are_none_of_tests_that_passed():
    lines, _ = LONG_RUNS["go"]
    assert "--- PASS" not in shrink("\n".join(lines), 75)


def test_a_name_of_usual_length_is_not_cut():
    name = "FAILED tests/test_drying.py::test_a_vessel_that_takes_the_ground_may_stay_over_low_water"
    text = "\n".join(
        (*["tests/test_store.py ........ [ 50%]"] * 19, name, "== 1 failed, 3 passed in 0.9s ==")
    )
    assert name in shrink(text, 40)


def test_data_in_little_room_show_what_failed_and_no_empty_object():
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}}
    status = {"phase": "Running", "containerStatuses": [{"name": "web", "ready": False, "state": waiting}]}
    labels = {f"label{number}": "value" for number in range(9)}
    pod = {"kind": "Pod", "metadata": {"name": "web-7d", "labels": labels}, "status": status}
    assert "CrashLoopBackOff" in shrink(json.dumps(pod), 60)
    order = {"order": {"id": "W1", "status": "delivered", "lines": [labels] * 9}}
    assert "delivered" in shrink(json.dumps({"data": order}), 30)


@given(st.text("01", max_size=60), st.sampled_from([(1, 5), (3, 5), (9, 10)]))
def test_a_share_of_lines_is_what_counting_all_of_them_gives(lines, share):
    part, of = share
    others = lines.count("0")
    assert has_share(lines, "1".__eq__, part, of) == (others <= len(lines) * (of - part) // of)


def test_a_share_is_given_up_as_soon_as_too_many_lines_are_others():
    looked = []
    assert not has_share(["0"] * 100, looked.append, 4, 5)
    assert len(looked) == 21
