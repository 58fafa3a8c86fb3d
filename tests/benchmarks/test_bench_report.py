"""The page of figures is made from the results: delete them, measure again, and the tables come back."""

import json
import xml.etree.ElementTree as ET

from bench import report, report_peers, report_summary
from bench.drawing import plot


def speed():
    rows = []
    for size in (100, 1_000):
        for step, ours, theirs in (
            ("decide", 0.1, size / 100),
            ("act", size / 10, 5.0),
            ("estimate", 2.0, 1.0),
        ):
            refold = {"step": step, "messages": size, "subject": "refold", "ms": ours, "tokens": size * 98}
            rows.append({**refold, "first_ms": ours * 2} if step == "estimate" else refold)
            rows.append(
                {"step": step, "messages": size, "subject": "peer way", "ms": theirs, "tokens": size * 130}
            )
        rows.append({"step": "count", "messages": size, "subject": "refold", "ms": 1.0, "tokens": size * 100})
        rows.append({"step": "convert", "messages": size, "subject": "peer way", "ms": size / 100})
    rows.append({"step": "act", "messages": 1_000, "subject": "slow way", "note": "not run: about 700 s"})
    rows.append({"step": "act", "messages": 100, "subject": "slow way", "ms": 900.0})
    return {
        "command": "python -m bench.speed",
        "date": "2026-01-01T00:00",
        "machine": "2 cores",
        "python": "3.11",
        "runs": [
            {
                "steps": ["decide", "act"],
                "machine": "2 cores",
                "date": "2026-01-01",
                "load": 0.1,
                "note": "ended early",
            },
            {"steps": ["count"], "machine": "4 cores", "date": "2026-01-02", "load": 0.2},
        ],
        "seconds": 9,
        "versions": {"refold": ["this checkout"], "peer": ["peer==1.0"]},
        "left_out": {"gone": "could not be installed"},
        "rows": rows,
        "kinds": [{"name": "talk", "messages": 462, "kilobytes": 410.2}],
        "kind_rows": [
            {
                "step": "act",
                "messages": 462,
                "subject": "refold",
                "kind": "talk",
                "ms": 31.2,
                "first_ms": 64.0,
            },
            {
                "step": "act",
                "messages": 462,
                "subject": "slow way",
                "kind": "talk",
                "note": "the process ended",
            },
        ],
        "memory": [
            {"subject": "refold", "messages": 10_000, "mb": 12.4, "held_mb": 30.2},
            {"subject": "peer way", "messages": 10_000, "mb": None, "note": "the process ended"},
            {"subject": "slow way", "messages": 10_000, "mb": None, "note": "no answer in 120 s"},
        ],
        "weight": [{"name": "peer", "import_ms": 12.0, "names_ms": 812.0, "megabytes": 41.23}],
    }


def test_the_page_is_written_from_what_is_there(tmp_path):
    results, docs = tmp_path / "results", tmp_path / "docs"
    results.mkdir()
    docs.mkdir()
    (results / "speed.json").write_text(json.dumps(speed()))
    report.write(results, docs)
    text = (docs / "data" / "benchmarks-speed.md").read_text()
    assert "| refold | **0.1** | **0.1** | 0.0 |" in text
    assert "| peer way | 1.0 | 10.0 | 1.0 |" in text  # it grows with the conversation
    assert "| refold | 2.0 | 2.0 | 4.0 | 4.0 | 0.0 |" in text
    assert "talk: 462 messages, 410 kB" in text
    assert "| refold | 31.2 (64.0) |" in text
    first = "2 runs; decide, act: 2 cores, 2026-01-01, load 0.1 (ended early)"
    assert f"{first}; count: 4 cores, 2026-01-02, load 0.2." in text
    assert "| slow way | 900 | about 700 s |" in text
    better = "At 1,000 messages faster than `refold` to act: peer way (20.0 times); 0 are slower"
    assert f"{better}, 1 were not run at this size." in text
    assert "Error: refold -2%, peer way +30%." in text
    assert "| refold | 30 MB | 12 MB |" in text
    assert "| peer way | failed | failed |" in text
    assert "| slow way | over 120 s | over 120 s |" in text
    assert "| peer | 12 ms | 812 ms | 41.2 MB |" in text
    assert "gone (could not be installed)" in text
    assert {path.name for path in (docs / "plots").iterdir()} == {
        f"{step}.svg" for step in report_peers.WORDS
    }


def test_who_is_faster_than_the_way_of_ours_that_does_the_same():
    rows = [
        {"step": "decide", "messages": 100, "subject": "refold stateless", "ms": 4.0},
        {"step": "decide", "messages": 100, "subject": "peer way", "ms": 1.0},
    ]
    told = report_peers.faster(rows, "decide", report_peers.LIKE["decide"])
    assert (
        told
        == "At 100 messages faster than `refold stateless` to decide: peer way (4.0 times); 0 are slower.\n"
    )
    assert report_peers.faster(rows, "decide") == ""


def test_without_results_there_is_only_the_head(tmp_path):
    report.write(tmp_path, tmp_path)
    assert (tmp_path / "benchmarks.md").read_text() == report_summary.HEAD
    assert list((tmp_path / "data").iterdir()) == []


def test_the_first_page_has_one_figure_a_question_and_says_who_is_faster(tmp_path):
    (tmp_path / "speed.json").write_text(json.dumps(speed()))
    report.write(tmp_path, tmp_path)
    text = (tmp_path / "benchmarks.md").read_text()
    assert "a session decides in 0.1 ms at 1,000 messages; the others need 10.0 to 10.0 ms, 0 of 1" in text
    assert (
        "a fold without a model takes 100 ms at 1,000 messages; the others need 5.0 to 5.0 ms, 1 of 1" in text
    )
    assert text.count("(data/benchmarks-speed.md)") == 2


def test_the_committed_pages_are_those_of_the_committed_results(tmp_path):
    """After a new measurement: python bench/report.py."""
    report.write(report.RESULTS, tmp_path)
    for made in (tmp_path / "benchmarks.md", *(tmp_path / "data").iterdir()):
        kept = report.ROOT / "docs" / made.relative_to(tmp_path)
        assert made.read_text() == kept.read_text(), kept


def test_a_plot_is_sound_svg_with_every_name():
    text = plot(
        "A < B",
        {"one & only": [(100, 0.01), (20_000, 5)], "flat": [(100, 1), (1_000, 1)], "none": []},
        across="n",
        up="ms",
        first="flat",
    )
    root = ET.fromstring(text)
    told = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"A < B", "one & only", "flat", "100", "20,000"} <= set(told)
    assert "none" not in told
    assert plot("empty", {}, across="n", up="ms") == ""


def test_numbers_show_two_figures_that_count():
    assert [report_peers.number(value) for value in (0.0412, 0.5, 8.13, 1_234.5)] == [
        "0.041",
        "0.5",
        "8.1",
        "1,234",
    ]


def test_the_first_run_is_shown_with_the_conversion_that_it_needs():
    rows = [
        {"step": "estimate", "messages": 100, "subject": "refold", "ms": 2.0, "first_ms": 4.0},
        {"step": "estimate", "messages": 100, "subject": "peer way", "ms": 1.0, "first_ms": 1.5},
    ]
    converted = [{"step": "convert", "messages": 100, "subject": "peer other", "ms": 6.0}]
    lines = report_peers.table(rows, converted).splitlines()
    assert lines[0] == "| | 100 messages | first, 100 | from dicts, 100 |"
    assert lines[2:] == ["| refold | 2.0 | 4.0 | 4.0 |", "| peer way | **1.0** | 1.5 | 7.5 |"]


def test_memory_says_whether_modules_count():
    row = {"subject": "refold", "messages": 100, "mb": 1.0, "held_mb": 2.0}
    cold, warm = report_peers.tell_memory([row]), report_peers.tell_memory([{**row, "warm_messages": 40}])
    assert "first used count." in cold
    assert "held and cut 40 messages before" in warm
    assert cold.splitlines()[-1] == warm.splitlines()[-1] == "| refold | 2 MB | 1 MB |"
    assert report_peers.tell_memory([]) == ""
