"""scripts/adapters.py: versions, reports and the matrix; environments and frameworks are for `make adapters`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import adapter_results as results  # noqa: E402

import adapters  # noqa: E402

REPORT = """<?xml version="1.0"?>
<testsuites><testsuite name="pytest">
<testcase classname="tests.adapters.test_x.TestX" name="test_01_every_request_is_valid_and_fits">
  <properties><property name="requests" value="80"/><property name="name" value="x"/>
  <property name="wire" value="openai"/><property name="modes" value="sync stream"/></properties></testcase>
<testcase classname="tests.adapters.test_x.TestX" name="test_01_tools_stay_the_same"/>
<testcase classname="tests.adapters.test_x.TestX" name="test_05_a_refusal[status]"><failure message="no"/></testcase>
<testcase classname="tests.adapters.test_x.TestX" name="test_07_unfold"><error message="broken"/></testcase>
<testcase classname="tests.adapters.test_x.TestX" name="test_09_a_rewind_is_a_branch"><skipped message="rewind: no way back"/></testcase>
<testcase classname="tests.adapters.test_x.TestX" name="test_11_what"><properties><property name="overhead_ms" value="0.84"/></properties></testcase>
<testcase classname="tests.adapters.test_x_adapter" name="test_issue_38352"/>
</testsuite></testsuites>
"""


def run(checks, **figures):
    return {
        "version": "1.4",
        "cases": {"TestX": {"name": "x", "wire": "openai", "checks": checks, **figures}},
        "other_tests": {"passed": 0, "failed": [], "skipped": []},
    }


def test_the_range_of_a_package_is_read_from_its_extra():
    found = [
        adapters.find_range([text], "pydantic-ai-slim")
        for text in ("pydantic_ai_slim[openai]>=2.50,<3", "pydantic-ai-slim", "other>=1")
    ]
    assert found == [("2.50", "3"), (None, None), (None, None)]


def test_versions_are_released_ones_below_the_range():
    printed = "x (2.1.0)\nAvailable versions: 2.1.0, 2.0.0rc1, 1.10.0, 1.9.3, 1.9.3.dev1, 0.9\n"
    assert adapters.select_versions(printed, "2") == ["0.9", "1.9.3", "1.10.0"]
    assert adapters.select_versions(printed, "2", since="1") == ["1.9.3", "1.10.0"]
    assert adapters.select_versions("nothing") == []


@pytest.mark.parametrize("first", range(9))
def test_the_oldest_version_is_found_with_few_runs(first):
    versions = [f"1.{number}" for number in range(9)]
    tried = []

    def passes(version):
        tried.append(version)
        return versions.index(version) >= first

    assert adapters.find_oldest(versions, passes) == versions[first]
    assert len(tried) <= 5


def test_no_version_is_found_where_the_newest_fails():
    assert adapters.find_oldest(["1", "2"], lambda version: False) is None
    assert adapters.find_oldest([], lambda version: True) is None


def test_a_report_is_read_by_case_and_check():
    read = results.read_report(REPORT)
    case = read["cases"]["TestX"]
    assert (case["requests"], case["modes"], case["overhead_ms"]) == (80, "sync stream", 0.84)
    assert case["checks"]["1"] == {"passed": 2, "failed": [], "skipped": []}
    assert case["checks"]["5"]["failed"] == ["a_refusal"]
    assert case["checks"]["7"]["failed"] == ["unfold"]
    assert case["checks"]["9"]["skipped"] == [
        {"test": "a_rewind_is_a_branch", "reason": "rewind: no way back"}
    ]
    assert read["other_tests"]["passed"] == 1
    assert results.sum_up(read) == "4 passed, 2 failed, 1 skipped (a_refusal, unfold)"
    assert not results.has_passed(read)


def test_a_run_without_checks_has_not_passed():
    nothing = {"passed": 0, "failed": [], "skipped": []}
    assert not results.has_passed({"cases": {}, "other_tests": nothing})
    assert results.has_passed(
        {"cases": {"TestX": {"checks": {"1": {**nothing, "passed": 1}}}}, "other_tests": nothing}
    )
    skipped = {"cases": {"TestX": {"checks": {"1": nothing}}}, "other_tests": {**nothing, "passed": 3}}
    assert not results.has_passed(skipped)


def test_the_matrix_names_versions_and_reasons():
    fine = {"passed": 1, "failed": [], "skipped": []}
    skipped = {"passed": 0, "failed": [], "skipped": [{"test": "t", "reason": "rewind: no way back"}]}
    broken = {"passed": 1, "failed": ["t"], "skipped": []}
    checks = {"1": fine, "2": broken, "9": skipped, "10": {**skipped, "passed": 2}}
    newest = {"newest": run(checks, modes="sync"), "oldest": {**run({}), "version": "1.2"}}
    cost = {"version": "1.4", "load": 1.5, "overhead_ms": 0.84, "store_ms": 0.31}
    text = results.write_matrix({"x": {**newest, "costs": {"TestX": cost}}})
    row = next(line for line in text.splitlines() if line.startswith("| x "))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[:5] == ["x (openai)", "1.2 to 1.4", "yes", "no", "-"]
    assert cells[10:] == ["no (1)", "yes (1)", "-", "sync", "0.8 ms (0.3)"]
    assert text.endswith("1. rewind: no way back")
    assert "0.8 ms" not in results.write_matrix({"x": newest})
    linked = run(checks, page="docs/adapters/x.md")
    assert "| [x](../adapters/x.md) (openai) |" in results.write_matrix({"x": {"newest": linked}})


FINE = {"passed": 1, "failed": [], "skipped": []}


def test_a_cost_that_was_measured_alone_takes_the_place_of_the_old_one():
    whole = run({"1": FINE, "11": FINE}, overhead_ms=0.9, requests=80, load=2.0)
    alone = run({"11": FINE}, overhead_ms=0.5, load=0.3)
    merged = adapters.merge({}, "x", whole, adapters.read_options([]))
    assert "0.9 ms" in results.write_matrix(merged)
    merged = adapters.merge(merged, "x", alone, adapters.read_options(["--overhead"]))
    case = merged["x"]["newest"]["cases"]["TestX"]
    assert (case["requests"], list(case["checks"])) == (80, ["1", "11"])
    assert "0.5 ms" in results.write_matrix(merged)


def test_a_run_on_a_busy_machine_keeps_the_costs_of_an_idle_one():
    """What is published then says with which version and at which load it was measured."""
    known = adapters.merge({}, "x", run({"11": FINE}, overhead_ms=0.5, load=0.3), adapters.read_options([]))
    assert results.write_matrix(known).endswith("| 0.5 ms |")
    later = {**run({"1": FINE, "11": FINE}, overhead_ms=5.0, load=9.0), "version": "1.5"}
    busy = adapters.merge(known, "x", later, adapters.read_options([]))
    assert busy["x"]["costs"] == {"TestX": {"version": "1.4", "overhead_ms": 0.5, "load": 0.3}}
    row, _, note = results.write_matrix(busy).splitlines()[2:]
    assert row.split("|")[2].strip() == "1.5"
    assert row.endswith("| 0.5 ms, see 1 |")
    assert note == "1. measured with version 1.4, at a load of 0.3"
    idle = {**run({"1": FINE, "11": FINE}, overhead_ms=0.6, load=3.9), "version": "1.5"}
    again = adapters.merge(busy, "x", idle, adapters.read_options([]))
    assert results.write_matrix(again).endswith("| 0.6 ms |")


def test_a_cost_that_was_measured_on_a_busy_machine_is_not_published():
    later = run({"11": FINE}, overhead_ms=5.0, load=9.0)
    for arguments in ([], ["--overhead"]):
        known = {"x": {"newest": run({"1": FINE})}}
        merged = adapters.merge(known, "x", later, adapters.read_options(arguments))
        assert "5.0" not in json.dumps(merged)
        assert "5.0" not in results.write_matrix(merged)


def test_a_run_of_the_oldest_version_leaves_the_costs_of_the_newest():
    known = adapters.merge({}, "x", run({"11": FINE}, overhead_ms=0.5, load=0.3), adapters.read_options([]))
    old = adapters.merge(
        known, "x", {**run({"1": FINE}), "version": "1.2"}, adapters.read_options(["--oldest"])
    )
    assert results.write_matrix(old).endswith("| 0.5 ms |")


def test_a_cost_is_measured_with_the_newest_version_only(capsys):
    with pytest.raises(SystemExit):
        adapters.read_options(["--overhead", "--oldest"])
    assert "--overhead goes with" in capsys.readouterr().err


def test_a_row_is_written_from_the_run_of_its_own_library():
    """One test module has the cases of both client libraries, and each run has another version of one."""
    both = {
        "TestChat": {"name": "chat", "package": "openai", "checks": {}},
        "TestMessages": {"name": "messages", "package": "anthropic", "checks": {}},
    }
    runs = {name: {"newest": {"version": f"{name}-1", "cases": both}} for name in ("openai", "anthropic")}
    rows = [line.split("|")[1:3] for line in results.write_matrix(runs).splitlines()[2:]]
    assert [[cell.strip() for cell in row] for row in rows] == [
        ["chat ()", "openai-1"],
        ["messages ()", "anthropic-1"],
    ]


def test_the_matrix_replaces_what_stands_between_the_markers():
    page = f"# Adapters\n\n{results.MARKERS[0]}\nold\n{results.MARKERS[1]}\n\nEnd.\n"
    new = results.replace_between(page, "| new |")
    assert "old" not in new
    assert new.endswith("\n\nEnd.\n")
    assert results.replace_between(new, "| new |") == new
    with pytest.raises(RuntimeError, match="has no lines"):
        results.replace_between("# Adapters", "| new |")


def test_results_are_merged_and_written_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(adapters, "RESULTS", tmp_path / "results" / "adapters.json")
    monkeypatch.setattr(adapters, "PAGE", tmp_path / "index.md")
    adapters.PAGE.write_text("\n".join(results.MARKERS), encoding="utf-8")
    adapters.save({"strands": {"newest": run({})}, "langchain": {"newest": run({})}})
    assert list(json.loads(adapters.RESULTS.read_text(encoding="utf-8"))) == ["langchain", "strands"]
    assert "x (openai)" in adapters.PAGE.read_text(encoding="utf-8")
    assert not list(tmp_path.rglob("*.part"))


def test_every_adapter_has_tests_and_its_requirements_name_the_extra():
    extras = adapters.read_extras((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for adapter in adapters.ADAPTERS:
        wanted = adapters.list_requirements(adapter, {**extras, adapter.name: []}, "1.2")
        assert f"{adapter.package}==1.2" in wanted
        assert f"{ROOT}[clients,sqlite,{adapter.name}]" in wanted


def test_old_versions_and_the_newest_have_libraries_of_their_own():
    adapter = adapters.Adapter("x", "x", "x", ("both",), newest=("new",), oldest=("other<2",))
    assert adapters.list_requirements(adapter, {}, "1.2")[2:5] == ["both", "other<2", "x==1.2"]
    assert adapters.list_requirements(adapter, {}, None)[2:5] == ["both", "new", "x"]


def test_the_range_of_a_distribution_of_its_own_is_read_there(tmp_path, monkeypatch):
    monkeypatch.setattr(adapters, "ROOT", tmp_path)
    (tmp_path / "plugin").mkdir()
    for folder, text in (("", "optional-dependencies.x = ['y']"), ("plugin", "dependencies = ['llm>=0.32']")):
        (tmp_path / folder / "pyproject.toml").write_text(f"[project]\n{text}\n", encoding="utf-8")
    plugin = adapters.Adapter("x", "llm", "llm", ("./plugin",))
    assert adapters.read_requirements(plugin) == ["y", "llm>=0.32"]


def test_an_environment_that_was_not_finished_is_taken_away(tmp_path, monkeypatch):
    monkeypatch.setattr(adapters, "ENVIRONMENTS", tmp_path)

    def stop(command, **_):
        (tmp_path / "langchain-1.2").mkdir(exist_ok=True)
        raise KeyboardInterrupt

    monkeypatch.setattr(adapters.subprocess, "run", stop)
    with pytest.raises(KeyboardInterrupt):
        adapters.make_environment(adapters.ADAPTERS[2], "1.2")
    assert list(tmp_path.iterdir()) == []


def test_an_environment_that_is_ready_is_used_again(tmp_path, monkeypatch):
    monkeypatch.setattr(adapters, "ENVIRONMENTS", tmp_path)
    commands = []

    def run_command(command, **_):
        commands.append(command)
        (tmp_path / "strands-1.62").mkdir(exist_ok=True)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(adapters.subprocess, "run", run_command)
    strands = next(adapter for adapter in adapters.ADAPTERS if adapter.name == "strands")
    for fresh in (False, False, True):
        adapters.make_environment(strands, "1.62", fresh=fresh)
    assert len(commands) == 4


@pytest.mark.parametrize(("status", "is_taken"), [(0, True), (1, True), (2, False), (-9, False)])
def test_a_run_that_was_stopped_gives_no_result(monkeypatch, status, is_taken):
    def run_command(command, **_):
        for argument in command:
            if argument.startswith("--junitxml=") and status >= 0:
                Path(argument.partition("=")[2]).write_text(REPORT, encoding="utf-8")
        return subprocess.CompletedProcess(command, status if "pytest" in command else 0, "1.0", "")

    monkeypatch.setattr(adapters.subprocess, "run", run_command)
    strands = next(adapter for adapter in adapters.ADAPTERS if adapter.name == "strands")
    if is_taken:
        assert adapters.run_suite(strands, Path("python"), full=False)["cases"]
    else:
        with pytest.raises(RuntimeError, match="did not run to their end"):
            adapters.run_suite(strands, Path("python"), full=False)


def test_unknown_names_are_refused(capsys):
    with pytest.raises(SystemExit):
        adapters.read_options(["--only", "langchain,crew"])
    assert "unknown: crew" in capsys.readouterr().err


def test_names_are_taken_as_modules_spell_them():
    options = adapters.read_options(["--only", "openai_agents, llama-index"])
    assert options.only == ["openai-agents", "llama-index"]
    assert adapters.read_options([]).only == []
