"""Lines as they are found on disks; the faults B01 to B06 and B11 to B13 of the catalogue."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transcript_files import CLAUDE, LINES, lines, rules, user

from refold import transcripts
from refold.errors import FormatError
from refold.transcripts import lenient_json
from refold.transcripts.lenient_json import find_objects, parse_or_none
from refold.transcripts.lines import Reader, split_rows
from sample_sizes import few_or_all

WHOLE = CLAUDE.read_bytes()


def records(raw, **knobs):
    reader = Reader(**knobs)
    found = list(reader.read([raw]))
    return found, [problem.rule for problem in reader.problems]


@pytest.mark.slow
def test_a_torn_end_costs_its_own_line_at_every_byte():
    """B01: whatever was whole before is there, and the position of the rest is told."""
    begin = len(b"\n".join(LINES[:-2])) + 1
    for cut in range(begin, len(WHOLE)):
        found, wrong = records(WHOLE[:cut])
        whole = WHOLE[:cut].count(b"\n") + (WHOLE[:cut].split(b"\n")[-1] in LINES)
        assert len(found) == whole
        last = WHOLE[:cut].split(b"\n")[-1]
        assert wrong == (["torn"] if last and last not in LINES else [])


def test_where_a_torn_line_is_stands_in_its_problem():
    reader = Reader()
    list(reader.read([WHOLE[:-40]]))
    (problem,) = reader.problems
    assert (problem.line, problem.offset) == (len(LINES), WHOLE.rindex(LINES[-1]))
    assert f"line {len(LINES)}" in problem.message


@pytest.mark.slow
def test_a_torn_line_glued_to_the_next_gives_the_next():
    """B02: at every place where it can be torn."""
    first, second = LINES[3], LINES[4]
    for cut in range(1, len(first)):
        found, wrong = records(LINES[2] + b"\n" + first[:cut] + second + b"\n" + LINES[5] + b"\n")
        assert [one.raw for one in found] == [LINES[2], second, LINES[5]], first[:cut]
        assert "torn" in wrong or "json" in wrong


def test_glued_records_come_out_with_their_own_bytes_and_places():
    found, wrong = records(LINES[1] + LINES[2] + b" " + LINES[3] + b"\n")
    assert [one.raw for one in found] == LINES[1:4]
    assert [one.offset for one in found] == [0, len(LINES[1]), len(LINES[1]) + len(LINES[2]) + 1]
    assert wrong == ["glued"]


def test_a_byte_in_place_of_a_newline_hides_nothing():
    found, _ = records(LINES[1] + b"X" + LINES[2] + b"\xff" + LINES[3] + b"\n")
    assert [one.raw for one in found] == LINES[1:4]


def test_a_run_of_nuls_is_skipped_and_counted():
    """B03: between lines, in a line, and instead of one."""
    hole = b"\0" * 4096
    found, wrong = records(
        LINES[1] + b"\n" + hole + LINES[2] + b"\n" + LINES[3] + hole + LINES[4] + b"\n" + hole
    )
    assert [one.value for one in found] == [json.loads(line) for line in LINES[1:5]]
    assert wrong == ["nul", "nul", "glued", "nul"]
    inside, wrong = records(LINES[1][:50] + hole + LINES[1][50:] + b"\n")
    assert [one.value for one in inside] == [json.loads(LINES[1])]
    assert "4,096 NUL bytes" in Reader_problem(LINES[1][:50] + hole + LINES[1][50:])


def Reader_problem(raw):  # noqa: N802  # reads as what it is
    reader = Reader()
    list(reader.read([raw]))
    return reader.problems[0].message


def test_bytes_that_are_no_utf8_are_replaced_and_kept_raw():
    """B04: the view has a mark for each, the raw line has the bytes."""
    raw = lines(user(0, "grün")).replace("ü".encode(), b"\xfc")
    transcript = transcripts.read_bytes(raw)
    assert transcript.messages[0]["content"] == "gr\ufffdn"
    assert transcript.raw == (raw.rstrip(b"\n"),)
    assert rules(transcript) == ["utf8"]


@given(st.lists(st.binary(max_size=60), max_size=4))
def test_any_bytes_between_two_records_leave_both(junk):
    """B04: whatever stands between them, on lines of its own."""
    raw = b"\n".join([LINES[1], *junk, LINES[2]])
    found, _ = records(raw)
    values = [one.value for one in found]
    assert values[0] == json.loads(LINES[1])
    assert json.loads(LINES[2]) in values


def test_a_raw_newline_in_a_string_is_joined():
    """B05: over two lines and over many; a line that stands alone is never swallowed."""
    for words in ("one\ntwo", "\n".join(["many"] * 50), 'a "quoted"}\n{ word', "ends }\n{\nbegins"):
        raw = (
            json.dumps(user(0, "MARK")).replace("MARK", json.dumps(words)[1:-1].replace("\\n", "\n")).encode()
        )
        found, wrong = records(raw + b"\n" + LINES[1] + b"\n")
        assert [one.value for one in found] == [user(0, words), json.loads(LINES[1])]
        assert wrong == ["newline"]
        assert found[0].raw == raw


def test_a_string_that_never_ends_gives_what_stands_behind_it():
    torn = b'{"type":"user","message":{"content":"no end'
    found, wrong = records(
        torn + b"\n" + LINES[1] + b"\n" + torn + b"\nwords }\n{broken\n" + LINES[2] + LINES[3] + b"\n"
    )
    assert [one.raw for one in found] == LINES[1:4]
    assert wrong == ["torn", "torn", "json", "torn", "glued"]


@pytest.mark.slow
def test_lines_are_not_joined_without_end(monkeypatch):
    torn = b'{"a":"no end\n'
    parsed = []
    monkeypatch.setattr(
        transcripts.lines, "parse_or_none", lambda text: parsed.append(len(text)) or parse_or_none(text)
    )
    found, wrong = records(torn * 3_000 + LINES[1])
    assert [one.raw for one in found] == [LINES[1]]
    assert "torn" in wrong
    found, _ = records(torn + (b"x" * 1_000_000 + b"}\n") * 40 + LINES[1])
    assert len(found) == 1
    assert sum(parsed) < 40_000_000, "each line again with all lines behind it would be 800,000,000"


def test_unknown_fields_and_types_are_carried_verbatim():
    """B06: they are in `raw`, byte for byte, and counted."""
    odd = {"type": "from-the-future", "uuid": "f", "parentUuid": "u0", "sessionId": "s", "new": {"deep": [1]}}
    raw = lines(user(0), odd)
    transcript = transcripts.read_bytes(raw)
    assert b"\n".join(transcript.raw) + b"\n" == raw
    assert transcript.carried["from-the-future"] == 1
    assert transcript.problems == ()


@pytest.mark.parametrize("opened", [b"[", b'{"a":'])
def test_nesting_without_end_is_told_not_followed(opened):
    """B11: a hundred thousand deep."""
    deep = b'{"type":"user","x":' + opened * 100_000
    found, wrong = records(LINES[1] + b"\n" + deep + b"\n" + LINES[2] + b"\n")
    assert [one.raw for one in found] == LINES[1:3]
    assert wrong == ["deep"]


def test_a_line_beyond_the_limit_is_passed_over_without_being_held():
    """B12, small: the lines around it are there."""
    raw = LINES[1] + b"\n" + b"x" * 5_000 + b"\n" + LINES[2] + b"\n" + b"y" * 5_000
    reader = Reader(max_line=2_000)
    found = list(reader.read([raw[at : at + 700] for at in range(0, len(raw), 700)]))
    assert [one.raw for one in found] == LINES[1:3]
    assert [(problem.rule, problem.line) for problem in reader.problems] == [("long", 2), ("long", 4)]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is told there")
def test_a_line_of_five_hundred_megabytes_costs_its_limit(tmp_path):
    """B12: skipped, told, and never more than the limit and 64 MB in memory; sparse on the disk."""
    path = tmp_path / "long.jsonl"
    with path.open("wb") as file:
        file.write(lines(user(0)))
        file.seek(500 << 20, 1)
        file.write(b"\n" + lines(user(1)))
    code = (
        "from refold import transcripts\n"
        f"t = transcripts.read({str(path)!r}, max_line=16 << 20)\n"
        "peak = next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM'))\n"
        "print(len(t.messages), [p.rule for p in t.problems], peak)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    *told, peak = done.stdout.split()
    assert told == ["2", "['long']"]
    assert int(peak) < (16 + 64) * 1024


def test_numbers_that_json_has_not_are_null_and_the_last_of_two_keys_counts():
    """B13: always the same way."""
    digits = "9" * 400
    raw = f'{{"type":"x","a":NaN,"b":-Infinity,"c":1e999,"d":{digits},"e":{"9" * 5000},"f":1,"f":2,"g":1.5e300}}\n'
    found, wrong = records(raw.encode())
    value = found[0].value
    assert [value[key] for key in "abce"] == [None] * 4
    assert value["d"] == int(digits)
    assert (value["f"], value["g"]) == (2, 1.5e300)
    assert wrong == []
    assert not any(isinstance(one, float) and math.isinf(one) for one in value.values())


def test_a_number_without_end_in_a_glued_line_is_no_end_of_all():
    found, _ = records(b'{"a":' + b"9" * 5_000 + b"}" + LINES[1] + b"\n")
    assert json.loads(LINES[1]) in [one.value for one in found]


def test_a_mark_before_the_first_line_and_carriage_returns_are_fine():
    found, wrong = records(b"\xef\xbb\xbf" + LINES[1] + b"\r\n\r\n" + LINES[2] + b"\r\n")
    assert [one.value for one in found] == [json.loads(line) for line in LINES[1:3]]
    assert wrong == []


def test_what_is_no_object_is_skipped_and_told():
    found, wrong = records(b'[1, {"a": 2}]\n"text"\n7\n' + LINES[1])
    assert [one.raw for one in found] == [LINES[1]]
    assert wrong == ["json", "json", "json"]


@pytest.mark.slow
def test_a_hostile_line_is_looked_at_a_bounded_number_of_times(monkeypatch):
    looks = []
    decode = lenient_json._decode_object

    def count(text, start):
        value, end, why = decode(text, start)
        looks.append(end - start)
        return value, end, why

    monkeypatch.setattr(lenient_json, "_decode_object", count)
    size = few_or_all(20_000, 100_000)
    for raw in (
        '{"a":' * 400 + "[" + '{"b":1},' * (size // 2),
        '{"a"' * (2 * size),
        '{"x":"' + '{\\"' * (2 * size),
        '{"a":1}' * (size // 2) + "x",
    ):
        looks.clear()
        find_objects(raw, lambda _value: True)
        assert sum(looks) <= 41 * len(raw) + 10_000


def test_rows_are_the_same_however_the_blocks_fall():
    raw = b"\n".join(LINES[:6]) + b"\n"
    whole = [(row.number, row.offset, row.raw) for row in split_rows([raw])]
    for size in (1, 7, 1000):
        cut = [raw[at : at + size] for at in range(0, len(raw), size)]
        assert [(row.number, row.offset, row.raw) for row in split_rows(cut)] == whole


def test_nothing_to_read_is_an_error_that_says_why():
    for raw, why in ((b"", "it is empty"), (b"\n\n", "it is empty"), (b'{"a', "line 1 has no end")):
        with pytest.raises(FormatError, match=why):
            transcripts.read_bytes(raw)
