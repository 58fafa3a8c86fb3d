"""Every Python example in the documents runs with what its page names, and passes a strict type checker."""

import os
import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path
from types import CodeType

import pytest

import refold
from postgres_server import server
from run_page import BLOCK

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = [page for page in PAGES if BLOCK.search(page.read_text(encoding="utf-8"))]
WITH_PROVIDER = ROOT / "docs" / "adapters"
"""Pages whose examples need a framework and a provider: tests/adapters runs them."""
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "optional-dependencies"
]
RUNNER = Path(__file__).parent / "run_page.py"


def name_page(page):
    return str(page.relative_to(ROOT))


def find_extras(text):
    """The extras that a page names: `pip install '.[chat,local]'`, or: the extra `postgres`."""
    lists = re.findall(r"'\.\[([a-z,-]+)\]'", text) + re.findall(r"extras? `([a-z-]+)`", text)
    return {name for names in lists for name in names.split(",")}


@cache
def needs(requirement):
    """The distributions that a requirement brings, with theirs; extras of ours included."""
    name = re.match(r"[\w.-]+", requirement)[0].lower().replace("_", "-")
    if name == "refold":
        inner = re.search(r"\[([^\]]*)\]", requirement)
        extras = inner[1].split(",") if inner else ()
        return frozenset({name}).union(*(needs(one) for extra in extras for one in EXTRAS[extra]))
    try:
        further = [one for one in requires(name) or () if "extra ==" not in one]
    except PackageNotFoundError:
        return frozenset({name})
    return frozenset({name}).union(*(needs(one) for one in further))


find_owners = cache(packages_distributions)


def find_missing(text):
    """The modules that somebody does not have who installed only the extras that this page names."""
    there = needs(f"refold[{','.join(sorted(find_extras(text) & EXTRAS.keys()))}]".replace("[]", ""))
    return sorted(
        module
        for module, owners in find_owners().items()
        if module.isidentifier() and not there & {owner.lower().replace("_", "-") for owner in owners}
    )


RUN = [page for page in EXAMPLES if page.parent != WITH_PROVIDER]
WITH_SERVER = ROOT / "docs" / "start" / "team.md"
"""The page that needs a server of PostgreSQL."""


@pytest.fixture(scope="module")
def ran_pages(tmp_path_factory):
    """How the examples of the pages went: they run in forks of one process."""
    pages = [page for page in RUN if page != WITH_SERVER]
    folder = tmp_path_factory.mktemp("pages")
    ran = run_pages(pages, folder)
    assert ran.returncode == 0, ran.stderr[-3_000:]
    said = [(folder / str(number) / "said").read_text(encoding="utf-8") for number in range(len(pages))]
    return dict(zip(pages, zip(map(int, ran.stdout.split()), said, strict=True), strict=True))


@pytest.mark.parametrize("page", RUN, ids=name_page)
def test_examples_run_with_what_the_page_names(page, ran_pages, tmp_path):
    """In a process without any package that the page does not name, and with an empty home."""
    if page == WITH_SERVER:
        with server() as address:
            ran = run_pages([page], tmp_path, {"REFOLD_STORE": address})
        assert ran.returncode == 0, ran.stderr[-3_000:]
    else:
        status, said = ran_pages[page]
        assert status == 0, said[-3_000:]


def run_pages(pages, folder, more=()):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("REFOLD_")}
    environment |= dict.fromkeys(("HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"), str(folder)) | dict(more)
    command = [sys.executable, str(RUNNER)]
    for page in pages:
        command += [str(page), ",".join(find_missing(page.read_text(encoding="utf-8")))]
    return run(command, folder, environment)


def run(command, folder, environment):
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False
    )


@pytest.mark.campaign
def test_examples_pass_a_strict_type_checker(tmp_path):
    """Frameworks that are not installed count as untyped, as in mypy's settings for the adapters."""
    files = []
    for page in EXAMPLES:
        file = tmp_path / (re.sub(r"\W", "_", name_page(page)) + ".py")
        file.write_text("".join(BLOCK.findall(page.read_text(encoding="utf-8"))), encoding="utf-8")
        files.append(str(file))
    words = [
        "--strict",
        "--config-file",
        str(ROOT / "pyproject.toml"),
        "--cache-dir",
        str(ROOT / ".mypy_cache"),
    ]
    environment = os.environ | {"MYPYPATH": str(ROOT / "plugins" / "llm-refold")}
    ran = run([sys.executable, "-m", "mypy", *words, *files], ROOT, environment)
    assert ran.returncode in {0, 1}, ran.stderr
    assert [line for line in ran.stdout.splitlines() if "_md.py:" in line] == []


def test_the_library_page_has_examples():
    assert len(BLOCK.findall((ROOT / "docs" / "library.md").read_text(encoding="utf-8"))) >= 6


def test_the_examples_of_every_adapter_run_in_its_own_tests():
    tests = "".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "tests" / "adapters").glob("test_*.py")
    )
    pages = [page for page in WITH_PROVIDER.glob("*.md") if BLOCK.search(page.read_text(encoding="utf-8"))]
    assert [page.name for page in pages if page.name not in tests] == []


def test_a_page_without_extras_has_no_optional_package():
    """The check of the examples can fail: what is not named is missing."""
    assert {"psycopg", "httpx2", "mypy"} <= set(find_missing("pip install ."))
    assert "psycopg" not in find_missing("pip install '.[postgres]'")
    assert "refold" not in find_missing("")


def test_every_public_error_is_in_the_troubleshooting_page():
    text = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    errors = [
        name
        for name in refold.__all__
        if isinstance(value := getattr(refold, name), type)
        and issubclass(value, refold.RefoldError | refold.RefoldWarning)
    ]
    assert len(errors) > 12
    assert [name for name in errors if f"| `{name}` |" not in text] == []


def test_every_refusal_of_the_gateway_is_in_its_troubleshooting_page():
    text = (ROOT / "docs" / "troubleshooting-gateway.md").read_text(encoding="utf-8")
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src/refold/gateway").rglob("*.py"))
    codes = set(re.findall(r"Refusal\(\s*\d{3},\s*\"([a-z-]+)\"", source))
    assert len(codes) > 8
    assert sorted(code for code in codes if f"`{code}`" not in text) == []


OTHERS_SAY = ("command not found", "No matching distribution")
"""Messages of a shell and of pip."""


def read_literals():
    """Every text in the source, the fixed parts of f-strings included: the constants of the compiled code."""
    files = [SourceFileLoader(path.stem, str(path)) for path in (ROOT / "src" / "refold").rglob("*.py")]
    left = [file.get_code(file.name) for file in files]
    while left:
        value = left.pop()
        if isinstance(value, CodeType):
            left += value.co_consts
        elif isinstance(value, tuple | frozenset):
            left += value
        elif isinstance(value, str):
            yield value


def test_every_message_of_the_troubleshooting_page_is_one_that_refold_says():
    text = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    cells = [row.split("|")[1] for row in text.splitlines() if row.startswith("| `")]
    messages = [found for cell in cells for found in re.findall(r"`([^`]+)`", cell) if " " in found]
    said = "\n".join(read_literals())
    wrong = []
    for message in messages:
        parts = re.split(r"\.\.\.|\bNAME\b|'[^']*'|[\w.,$]*\d[\w.,]*|: |\w*_API_KEY|expected ", message)
        fixed = max((part.strip(" :;=?'") for part in parts), key=len)
        if fixed not in said and not any(other in message for other in OTHERS_SAY):
            wrong.append(f"{message}: nothing says {fixed!r}")
    assert len(messages) > 15
    assert wrong == []
