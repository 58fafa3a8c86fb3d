"""How the window table is built: which number holds, and what a person has to look at."""

import importlib.util
import json
import pathlib
import sys

import pytest

PATH = pathlib.Path(__file__).resolve().parents[2] / "scripts/build_windows.py"
SPEC = importlib.util.spec_from_file_location("build_windows", PATH)
build = importlib.util.module_from_spec(SPEC)
sys.modules["build_windows"] = build
SPEC.loader.exec_module(build)
Said = build.Said


@pytest.mark.parametrize(
    ("name", "said", "context", "cap", "letters"),
    [
        ("agreed", {"m": Said(128_000), "l": Said(None, 128_000), "g": Said(128_000)}, 128_000, None, "mlg"),
        (
            "split",
            {"m": Said(400_000, 272_000, 128_000), "l": Said(None, 272_000, 128_000)},
            400_000,
            272_000,
            "m",
        ),
        ("untold split", {"l": Said(None, 922_000, 128_000), "g": Said(1_050_000)}, 1_050_000, 922_000, "g"),
        ("rounded", {"l": Said(None, 1_048_576), "g": Said(1_000_000)}, 1_048_576, None, "lg"),
        ("alias-latest", {"m": Said(262_144), "l": Said(None, 128_000)}, 128_000, None, "l"),
        (
            "alias-latest",
            {"m": Said(64_000), "l": Said(None, 128_000), "g": Said(128_000)},
            64_000,
            None,
            "m",
        ),
        ("pinned-1", {"m": Said(64_000), "l": Said(None, 128_000), "g": Said(128_000)}, 128_000, None, "lg"),
        ("pinned-1", {"m": Said(64_000), "l": Said(None, 128_000), "g": Said(64_000)}, 64_000, None, "mg"),
        ("copied cap", {"m": Said(256_000), "l": Said(None, 128_000, 128_000)}, 128_000, None, "l"),
        ("only prices", {"g": Said(32_000)}, 32_000, None, "g"),
    ],
)
def test_which_window_holds_where_registries_differ(name, said, context, cap, letters):
    row = build.merge(name, said)
    assert (row.context, row.input, row.from_["context"]) == (context, cap, letters)


def test_a_model_of_which_nobody_knows_the_window_has_no_row():
    assert build.merge("x", {"g": Said(None, price=(1.0, 2.0, None, None))}) is None


def test_the_smaller_output_cap_holds_and_one_source_gives_the_price():
    row = build.merge(
        "x",
        {
            "m": Said(200_000, None, 64_000, (3.0, 15.0, None, None)),
            "l": Said(None, 200_000, 128_000, (4.0, 16.0, 1.0, None)),
        },
    )
    assert row.output == 64_000
    assert row.price == (4.0, 16.0, 1.0, None)
    assert row.as_json()["from"] == "ml - m l"


def test_models_with_the_same_caps_have_the_same_window():
    known = build.merge("a", {"m": Said(400_000), "l": Said(None, 272_000, 128_000)})
    snapshot = build.merge("a-2031-01-01", {"l": Said(None, 272_000, 128_000)})
    other = build.merge("b", {"l": Said(None, 272_000, 64_000)})
    made = build.siblings({"a": known, "a-2031-01-01": snapshot, "b": other})
    assert (made["a-2031-01-01"].context, made["a-2031-01-01"].input) == (400_000, 272_000)
    assert made["b"].context == 272_000


def test_a_family_that_is_listed_only_by_dates_gets_its_smallest_snapshot():
    rows = {
        "x-20250101": build.merge("", {"m": Said(200_000, None, 8_000)}),
        "x-20260101": build.merge("", {"m": Said(100_000, None, 4_000)}),
        "y": build.merge("", {"g": Said(128_000)}),
        "y-2024-01-01": build.merge("", {"m": Said(128_000, None, 16_000)}),
    }
    made = build.families(rows)
    assert (made["x"].context, made["x"].output) == (100_000, 4_000)
    assert made["y"].output == 16_000


def test_a_dated_edition_takes_no_more_input_than_its_alias():
    """The alias has a cap, or a smaller window; four digits may be another model."""
    capped = build.merge("", {"m": Said(400_000, 272_000), "l": Said(None, 272_000, 128_000)})
    open_ = build.merge("", {"l": Said(None, 400_000)})
    rows = {"a": capped, "a-2031-01-01": open_, "a-0613": open_}
    rows |= {
        "b": build.merge("", {"m": Said(32_000)}),
        "b-20310101": open_,
        "b-2603": open_,
        "c-20310101": open_,
    }
    made = build.cap_editions(rows)
    assert {name: build.input_room(row) for name, row in made.items()} == {
        "a": 272_000,
        "a-2031-01-01": 272_000,
        "a-0613": 272_000,
        "b": 32_000,
        "b-20310101": 32_000,
        "b-2603": 400_000,
        "c-20310101": 400_000,
    }
    assert made["a-2031-01-01"].as_json() == {"context": 400_000, "input": 272_000, "from": "l ml - -"}


def test_a_dated_edition_with_more_input_than_its_alias_fails_the_check():
    wrong = json.loads(table(**{"o/x": 400_000, "o/x-2031-01-01": 400_000}))
    wrong["models"]["o/x"]["input"] = 272_000
    told = "o/x-2031-01-01: 400,000 tokens go in, and 272,000 into its alias"
    assert build.gate(json.dumps(wrong), json.dumps(wrong), check=True, accept=True) == [told]
    assert build.larger_editions(json.loads(build.TABLE.read_text(encoding="utf-8"))) == []


def table(**windows):
    models = {name: {"context": size, "from": "m - - -"} for name, size in windows.items()}
    return json.dumps({"models": models})


def test_a_known_window_that_moves_by_more_than_a_tenth_stops_the_build():
    old = table(a=100_000, b=100_000, c=100_000, d=100_000)
    new = table(a=110_000, b=110_001, c=89_000, e=5)
    found = build.gate(old, new, check=False, accept=False)
    assert [each.split(":")[0] for each in found] == ["b", "c", "d"]


def test_somebody_may_accept_what_moved():
    assert build.gate(table(a=100), table(a=500), check=False, accept=True) == []


def test_a_check_fails_where_the_table_on_disk_is_not_what_the_registries_give():
    assert build.gate(table(a=100), table(a=100), check=True, accept=False) == []
    assert build.gate(table(a=100), table(a=101), check=True, accept=False) != []
    assert build.gate(table(a=100), table(a=500), check=True, accept=True) != []


def test_the_first_build_has_nothing_to_compare_with():
    assert build.gate("", table(a=100), check=False, accept=False) == []


def test_everything_kept_by_hand_has_its_reason_and_is_in_the_table():
    kept = build.overlay()
    listed = json.loads(build.TABLE.read_text(encoding="utf-8"))
    for name, each in kept["models"].items():
        assert len(each["why"]) > 10
        assert listed["models"][name]["context"] == each["context"]
    for name, each in kept["defaults"].items():
        assert each["why"]
        assert listed["defaults"][name] == each["context"]


def test_the_table_on_disk_is_written_as_the_script_writes_it():
    text = build.TABLE.read_text(encoding="utf-8")
    assert build.dumps(json.loads(text)) == text
