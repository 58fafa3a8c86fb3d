"""Run the conformance suite of each adapter with its real framework, in an environment of its own.

    python scripts/adapters.py                          every adapter, the newest version
    python scripts/adapters.py --only langchain,strands
    python scripts/adapters.py --oldest                 the oldest version that the extra allows
    python scripts/adapters.py --find-oldest langchain --since 1    look for the oldest version that passes
    python scripts/adapters.py --only litellm --fresh   build its environment anew
    python scripts/adapters.py --overhead               measure only what a turn costs, on an idle machine

Environments are kept in bench/.envs/adapters. Results go to bench/results/adapters.json, and the support
matrix into docs/data/adapters.md. Both are written after each adapter, whole or not at all.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, Final

from adapter_results import (
    choose_costs,
    has_passed,
    read_report,
    replace_between,
    split_costs,
    sum_up,
    write_matrix,
)

ROOT: Final = Path(__file__).resolve().parent.parent
ENVIRONMENTS: Final = ROOT / "bench" / ".envs" / "adapters"
RESULTS: Final = ROOT / "bench" / "results" / "adapters.json"
PAGE: Final = ROOT / "docs" / "data" / "adapters.md"
TOOLS: Final = ("pytest>=8.4,<9", "hypothesis>=6.150")
"""What every environment needs to run the tests."""
STAMP: Final = "ready"
"""The file that an environment has once everything is installed."""
OVERHEAD: Final = "what_refold_adds_to_a_turn"
"""The check that measures: several hundred turns, whose figures are published for the newest version."""
VARIABLES: Final = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # LiteLLM fetches a table of prices otherwise
    "OTEL_SDK_DISABLED": "true",
    "DO_NOT_TRACK": "1",
    "PYTHONDONTWRITEBYTECODE": "",
}


@dataclass(frozen=True, slots=True)
class Adapter:
    """One adapter: what it is tested with, and where its tests are."""

    name: str
    """The extra of pyproject.toml, too."""
    package: str
    """The framework's distribution; its version is what the matrix names."""
    tests: str
    """What the names of its test modules begin with, behind `test_`."""
    also: tuple[str, ...] = ()
    """What the tests need beside the extra; `./folder` is a distribution of this repository."""
    newest: tuple[str, ...] = ()
    """The same, where an old version of the framework would not go with it."""
    oldest: tuple[str, ...] = ()
    """The same for old versions alone: libraries of their day, where those of today are too new for them."""


ADAPTERS: Final = (
    Adapter("openai", "openai", "clients", ("anthropic",)),
    Adapter("anthropic", "anthropic", "clients", ("openai",)),
    Adapter(
        "langchain",
        "langchain",
        "langchain",
        ("langchain-openai", "langchain-anthropic", "langgraph-checkpoint-sqlite", "aiosqlite"),
        newest=("deepagents>=0.7",),
    ),
    Adapter("openai-agents", "openai-agents", "openai_agents"),
    Adapter("pydantic-ai", "pydantic-ai-slim", "pydantic_ai", ("pydantic-ai-slim[openai,anthropic]",)),
    Adapter(
        "google-adk", "google-adk", "google_adk", ("sqlalchemy", "aiosqlite", "greenlet", "litellm", "mcp")
    ),
    Adapter(
        "agent-framework", "agent-framework-core", "agent_framework", ("agent-framework-openai", "openai")
    ),
    Adapter("strands", "strands-agents", "strands", ("strands-agents[openai,anthropic]",)),
    Adapter(
        "litellm",
        "litellm",
        "litellm",
        ("litellm[proxy]", "mcp", "openai"),
        newest=("smolagents", "dspy<3.5"),  # CrewAI wants libraries of its own; its test is skipped
    ),
    Adapter("llama-index", "llama-index-core", "llama_index", ("llama-index-llms-openai",)),
    Adapter("inspect-ai", "inspect-ai", "inspect_ai", ("openai", "anthropic"), oldest=("anthropic<2",)),
    Adapter(
        "llm-refold",
        "llm",
        "llm",
        ("./plugins/llm-refold", "llm-anthropic", "pexpect"),
        oldest=("anthropic<1",),  # of llm-anthropic
    ),
)


# -- versions ----------------------------------------------------------------------------------------------


def read_extras(text: str) -> dict[str, list[str]]:
    """Return the requirements of each extra in a pyproject.toml."""
    extras: dict[str, list[str]] = tomllib.loads(text)["project"].get("optional-dependencies", {})
    return extras


def read_requirements(adapter: Adapter) -> list[str]:
    """Return what an adapter's extra requires, or the distribution of its own that it is."""
    own = [ROOT / other / "pyproject.toml" for other in adapter.also if other.startswith("./")]
    extras = read_extras(_read(ROOT / "pyproject.toml"))
    required = [tomllib.loads(_read(path))["project"]["dependencies"] for path in own if path.exists()]
    return [*extras.get(adapter.name, ()), *(each for listed in required for each in listed)]


def find_range(requirements: Iterable[str], package: str) -> tuple[str | None, str | None]:
    """Return the lowest version that requirements allow of a package, and the first that they do not.

    >>> find_range(["langchain>=1.2,<2", "langgraph"], "langchain")
    ('1.2', '2')
    """
    for requirement in requirements:
        found = re.match(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*(.*)", requirement)
        if found and found[1].lower().replace("_", "-") == package:
            least = re.search(r">=\s*([\w.]+)", found[2])
            below = re.search(r"<\s*([\w.]+)", found[2])
            return (least[1] if least else None), (below[1] if below else None)
    return None, None


def sort_key(version: str) -> tuple[int, ...]:
    """Return what versions are sorted by; they are compared number by number.

    >>> sort_key("1.10.2") > sort_key("1.9")
    True
    """
    return tuple(int(part) for part in version.split("."))


def select_versions(text: str, below: str | None = None, *, since: str = "0") -> list[str]:
    r"""Return the released versions in what `pip index versions` prints, oldest first.

    >>> select_versions("x (2.0)\nAvailable versions: 2.0, 1.10, 1.9, 1.9rc1", below="2")
    ['1.9', '1.10']
    """
    found = re.search(r"Available versions: (.*)", text)
    listed = [version.strip() for version in found[1].split(",")] if found else []
    released = [version for version in listed if re.fullmatch(r"\d+(\.\d+)*", version)]
    recent = [version for version in released if sort_key(version) >= sort_key(since)]
    known = [version for version in recent if below is None or sort_key(version) < sort_key(below)]
    return sorted(known, key=sort_key)


def find_oldest(versions: Sequence[str], passes: Callable[[str], bool]) -> str | None:
    """Return the oldest version that passes, if all newer ones do; None if not even the newest does.

    >>> find_oldest(["1", "2", "3", "4"], lambda version: version >= "3")
    '3'
    """
    if not versions or not passes(versions[-1]):
        return None
    failing, passing = -1, len(versions) - 1
    while passing - failing > 1:
        middle = (failing + passing) // 2
        if passes(versions[middle]):
            passing = middle
        else:
            failing = middle
    return versions[passing]


# -- environments ------------------------------------------------------------------------------------------


def list_requirements(adapter: Adapter, extras: Mapping[str, list[str]], version: str | None) -> list[str]:
    """Return what is installed for an adapter, as arguments of pip."""
    named = ["clients", "sqlite", *([adapter.name] if adapter.name in extras else [])]
    wanted = ["-e", f"{ROOT}[{','.join(named)}]"]
    for other in (*adapter.also, *(adapter.oldest if version else adapter.newest)):
        wanted += ["-e", str(ROOT / other)] if other.startswith("./") else [other]
    return [*wanted, f"{adapter.package}=={version}" if version else adapter.package, *TOOLS]


def make_environment(adapter: Adapter, version: str | None, *, fresh: bool = False) -> Path:
    """Return the Python of an adapter's environment; it is built where it is missing or was another one."""
    requirements = list_requirements(adapter, read_extras(_read(ROOT / "pyproject.toml")), version)
    folder = ENVIRONMENTS / f"{adapter.name}-{version or 'newest'}"
    mark = hashlib.sha256(json.dumps([requirements, sys.version]).encode()).hexdigest()
    stamp, python = folder / STAMP, folder / "bin" / "python"
    if not fresh and stamp.exists() and _read(stamp) == mark:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    try:
        _run([sys.executable, "-m", "venv", str(folder)])
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([*pip, *requirements])
        stamp.write_text(mark, encoding="utf-8")
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)  # a half-built one would be taken for a whole one
        raise
    return python


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[:4])} ... failed:\n{(done.stderr or done.stdout)[-2000:]}")
    return done.stdout


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


# -- tests ------------------------------------------------------------------------------------------------


def run_suite(adapter: Adapter, python: Path, *, full: bool, chosen: str = "") -> dict[str, Any]:
    """Run the tests of an adapter in its environment; return what they say.

    chosen   an expression of `pytest -k` for the tests to run
    """
    modules = sorted(str(path) for path in (ROOT / "tests" / "adapters").glob(f"test_{adapter.tests}_*.py"))
    plugins = [ROOT / other / "tests" for other in adapter.also if other.startswith("./")]
    modules += [str(path) for path in plugins if path.exists()]
    if not modules:
        raise RuntimeError(f"no test module begins with test_{adapter.tests}_")
    started = monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
        which = {
            "REFOLD_ADAPTER": adapter.name,
            **({"REFOLD_ADAPTERS": "full", "REFOLD_WHOLE": "1"} if full else {}),
        }
        done = subprocess.run(
            [*command, "--tb=short", "-k", chosen, *modules],
            cwd=ROOT,
            env={**os.environ, **VARIABLES, **which},
            text=True,
            capture_output=True,
            check=False,
        )
        # pytest ends with 0 or 1 if it ran all tests; a report of an interrupted run looks like a short one
        if not report.exists() or done.returncode > 1:
            raise RuntimeError(f"the tests did not run to their end:\n{(done.stdout + done.stderr)[-2000:]}")
        result = read_report(_read(report))
    version = _run(
        [str(python), "-c", f"import importlib.metadata as m; print(m.version('{adapter.package}'))"]
    )
    python_version, seconds = ".".join(map(str, sys.version_info[:2])), round(monotonic() - started)
    tail = done.stdout[-4000:] if done.returncode else ""
    load = round(os.getloadavg()[0], 1)
    about = {"version": version.strip(), "python": python_version, "seconds": seconds, "load": load}
    return {**about, **result, "tail": tail}


def merge(
    results: dict[str, Any], name: str, result: Mapping[str, Any], options: Namespace
) -> dict[str, Any]:
    """Put the result of a run in its place, its costs beside it, and return all results."""
    runs = results.setdefault(name, {})
    run, costs = split_costs(result)
    if not options.overhead:
        runs["oldest" if options.oldest else "newest"] = run
    runs["costs"] = choose_costs(runs.get("costs", {}), costs)
    return results


def save(results: Mapping[str, Any]) -> None:
    """Write the results and the matrix, each file whole or not at all."""
    order = [adapter.name for adapter in ADAPTERS]
    known = dict(sorted(results.items(), key=lambda each: order.index(each[0]) if each[0] in order else 99))
    _replace(RESULTS, json.dumps(known, indent=1) + "\n")
    if PAGE.exists():
        _replace(PAGE, replace_between(_read(PAGE), write_matrix(known)))


def _replace(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


# -- the program -------------------------------------------------------------------------------------------


def try_adapter(adapter: Adapter, version: str | None, options: Namespace) -> dict[str, Any]:
    """Test an adapter with one version of its framework."""
    say(f"{adapter.name} {version or 'newest'}: environment")
    python = make_environment(adapter, version, fresh=options.fresh)
    say(f"{adapter.name} {version or 'newest'}: tests")
    chosen = OVERHEAD if options.overhead else f"not {OVERHEAD}" if version else ""
    result = run_suite(adapter, python, full=not options.fast, chosen=chosen)
    say(f"{adapter.name} {result['version']}: {sum_up(result)}, {result['seconds']} s")
    if not has_passed(result):
        say(result["tail"])
    return result


def search_oldest(adapter: Adapter, options: Namespace) -> str | None:
    """Find the oldest version of a framework that passes; the fast part of the suite decides on the way."""
    _, below = find_range(read_requirements(adapter), adapter.package)
    printed = _run([sys.executable, "-m", "pip", "index", "versions", adapter.package])
    versions = select_versions(printed, below, since=options.since)
    say(f"{adapter.name}: {len(versions)} versions of {adapter.package}, {versions[0]} to {versions[-1]}")

    def passes(version: str) -> bool:
        try:
            python = make_environment(adapter, version, fresh=options.fresh)
            result = run_suite(adapter, python, full=False)
        except RuntimeError as error:  # it cannot be installed, or the adapter cannot be imported with it
            say(f"{adapter.name} {version}: {str(error).strip().splitlines()[-1]}")
            return False
        finally:
            shutil.rmtree(ENVIRONMENTS / f"{adapter.name}-{version}", ignore_errors=True)
        say(f"{adapter.name} {version}: {sum_up(result)}")
        return has_passed(result)

    return find_oldest(versions, passes)


def say(line: str) -> None:
    """Print progress; standard output stays for the results."""
    print(line, file=sys.stderr, flush=True)


def _read_names(text: str) -> list[str]:
    """Read names as the extras or as the modules spell them."""
    return [name.strip().replace("_", "-") for name in text.split(",") if name.strip()]


def read_options(arguments: Sequence[str] | None = None) -> Namespace:
    """Read the command line."""
    parser = ArgumentParser(description="Run the conformance suite of each adapter with its real framework.")
    parser.add_argument(
        "--only", type=_read_names, default="", metavar="NAMES", help="adapters, separated by commas"
    )
    parser.add_argument("--oldest", action="store_true", help="the oldest version that the extra allows")
    parser.add_argument("--find-oldest", metavar="NAME", help="find the oldest version that passes")
    parser.add_argument("--since", default="0", metavar="VERSION", help="older ones are not looked at")
    parser.add_argument("--fast", action="store_true", help="the part of the suite that `make test` runs")
    parser.add_argument("--overhead", action="store_true", help="only what a turn costs, newest versions")
    parser.add_argument("--fresh", action="store_true", help="build environments anew")
    parser.add_argument("--json", action="store_true", help="print the results")
    options = parser.parse_args(arguments)
    if unknown := {*options.only, options.find_oldest} - {None} - {adapter.name for adapter in ADAPTERS}:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(a.name for a in ADAPTERS)}")
    if options.overhead and (options.oldest or options.fast or options.find_oldest):
        parser.error("--overhead goes with --only and --fresh alone")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Test the adapters; 0 if all passed, 1 if not, 130 if stopped."""
    options = read_options(arguments)
    by_name = {adapter.name: adapter for adapter in ADAPTERS}
    if options.find_oldest:
        oldest = search_oldest(by_name[options.find_oldest], options)
        print(oldest or "no version passes")
        return 0 if oldest else 1
    names = options.only or list(by_name)
    results: dict[str, Any] = json.loads(_read(RESULTS)) if RESULTS.exists() else {}
    failed: list[str] = []
    for name in names:
        version = None
        if options.oldest:
            version = find_range(read_requirements(by_name[name]), by_name[name].package)[0]
        try:
            result = try_adapter(by_name[name], version, options)
        except RuntimeError as error:
            say(f"{name}: {error}")
            failed.append(name)
            continue
        except KeyboardInterrupt:
            say(f"stopped; what was finished before {name} is written")
            return 130
        failed += [] if has_passed(result) else [name]
        result.pop("tail")
        if not options.fast:
            save(merge(results, name, result, options))
    if options.json:
        print(json.dumps(results, indent=1))
    missed = f": not {', '.join(failed)}" if failed else ""
    say(f"{len(names) - len(failed)} of {len(names)} adapters passed{missed}")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
