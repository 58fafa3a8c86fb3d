"""`refold eval`: names, help, errors in one line, tables and JSON."""

import json
import sys
from pathlib import Path

import pytest
from cli_running import run_cli

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "evals"))
import eval_data  # the data of the evals' own tests

EVALS = ("retention", "injections", "secrets", "counts", "cost")
PEER = Path(__file__).resolve().parents[1] / "evals" / "peer_example.py"


@pytest.fixture
def data(tmp_path):
    return eval_data.write_all(tmp_path / "data")


def test_an_eval_must_be_named():
    done = run_cli("eval")
    assert done.status == 2
    assert done.err == f"refold: name an eval: {', '.join(EVALS)}\n"


@pytest.mark.parametrize("name", EVALS)
def test_each_has_a_help_with_examples(name):
    done = run_cli("eval", name, "--help")
    assert done.status == 0
    assert f"refold eval {name}" in done.out


def test_secrets_without_its_extra_say_at_once_what_to_install(monkeypatch):
    """Nothing is measured that would be half of a result."""
    for module in [name for name in sys.modules if name.partition(".")[0] == "detect_secrets"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "detect_secrets", None)
    for module in [
        name for name in sys.modules if name.startswith(("refold.redaction", "refold.evals.secrets"))
    ]:
        monkeypatch.delitem(
            sys.modules, module
        )  # the loaded library is remembered, and by whom it was imported
    done = run_cli("eval", "secrets", "--count", "2")
    assert (done.status, done.out) == (2, "")
    assert done.err == (
        "refold: redaction needs detect-secrets: pip install '.[redact]' in a copy of the repository\n"
    )


def test_retention_prints_a_table_and_writes_it(data, tmp_path):
    file = tmp_path / "out" / "r.json"
    done = run_cli("eval", "retention", data, "--share", 0.1, "--folds", 1, "--only", "reuse", "--only", "recall",
        "--peer", f"example={sys.executable} {PEER} late", "--json", file,
    )  # fmt: skip
    assert done.status == 0, done.err
    assert "re-use, agent runs, 10%" in done.out
    assert "recall, evidence in the first 10, locomo" in done.out
    told = json.loads(file.read_text())
    assert told["peers"]["example"]["version"] == "1.2"
    assert {one["way"] for one in told["rows"]} >= {"refold", "tail", "sliding window", "example"}
    assert all(one["low"] <= one["kept"] <= one["high"] for one in told["rows"])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["retention", "nowhere"], "there is no such file or folder"),
        (["retention", "{data}", "--share", "2"], "--share takes parts"),
        (["retention", "{data}", "--folds", "a"], "--folds takes numbers"),
        (["retention", "{data}", "--sample", "0"], "--sample takes"),
        (["retention", "{data}", "--peer-seconds", "0"], "--peer-seconds takes"),
        (["retention", "{data}", "--peer", "x"], "--peer takes NAME=COMMAND"),
        (["retention", "{data}", "--policy", "nope"], "nope"),
        (["injections", "--count", "0"], "--count takes"),
        (["secrets", "--count", "0"], "--count takes"),
        (["secrets", "--count", "10", "--json", "/proc/x/y.json"], "cannot be written"),
    ],
)
def test_what_is_wrong_is_one_line(data, words, told):
    done = run_cli("eval", *(word.format(data=data) for word in words))
    assert done.status in {1, 2}
    assert told in done.err
    assert done.err.count("\n") == 1


def test_json_without_a_file_is_printed_alone_as_by_every_other_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for args in (
        ("secrets", "--count", 2, "--json"),
        ("injections", "--count", 1, "--folds", 1, "--json", "-"),
    ):
        done = run_cli("eval", *args)
        assert (done.status, done.err) == (0, "")
        assert done.json["rows"]
    assert not list(tmp_path.iterdir())


def test_injections_and_secrets_pass_under_the_default_policy(tmp_path):
    done = run_cli("eval", "injections", "--count", 5, "--folds", 1, "--json", tmp_path / "i.json")
    assert done.status == 0
    assert "0 of 5 live on as instructions" in done.out
    assert {row["summariser"] for row in json.loads((tmp_path / "i.json").read_text())["rows"]} == {
        "none",
        "obedient",
        "hostile",
    }
    done = run_cli("eval", "secrets", "--count", 10, "--json", tmp_path / "s.json")
    assert done.status == 0
    assert json.loads((tmp_path / "s.json").read_text())["false_alarms"]["found"] == 0


def test_a_recorded_conversation_can_carry_the_injections(data):
    done = run_cli("eval", "injections", data / "runs", "--count", 3, "--folds", 1, "--list")
    assert done.status == 0
    assert "plain summary, summariser obedient" in done.out
