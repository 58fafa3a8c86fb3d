"""Habits of the project: the lock file, the hooks, the pages and the templates are as they promise."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
PINNED = re.compile(r"(?m)^([\w.-]+)==([^\s;]+)")


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_lock_file_pins_everything_that_development_needs():
    """And names no index: who installs it chooses one."""
    text = read("requirements-dev.txt")
    pinned = {name.lower().replace("_", "-") for name, _ in PINNED.findall(text)}
    wanted = [*EXTRAS["dev"], *EXTRAS["docs"]]
    names = {re.match(r"[\w-]+", requirement)[0].lower().replace("_", "-") for requirement in wanted}
    assert names - pinned == {"refold"}
    assert "://" not in text
    assert "--index" not in text
    assert "--find-links" not in text


def test_hooks_fetch_nothing():
    hooks = read(".pre-commit-config.yaml")
    assert re.findall(r"repo: (\S+)", hooks) == ["local"]
    assert "://" not in hooks
    assert set(re.findall(r"language: (\S+)", hooks)) == {"system"}
    for program in re.findall(r"entry: \.venv/bin/(\S+)", hooks):
        assert program in ("ruff", "mypy", "lint-imports", "python")


def test_the_changelog_keeps_its_form():
    """Keep a changelog: the newest section is the unreleased one, and every line has a kind."""
    text = read("CHANGELOG.md")
    assert re.findall(r"(?m)^## (.*)$", text)[0] == "[Unreleased]"
    kinds = re.findall(r"(?m)^### (.*)$", text)
    order = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
    assert kinds == [kind for kind in order if kind in kinds]
    body = text.partition("\n### ")[2]
    assert [
        line for line in body.splitlines()[1:] if line and not line.startswith(("- ", "  ", "### ", "## "))
    ] == []


@pytest.mark.parametrize(
    "word", ["dist", "extras", "lock", "hooks", "setup", "demo", "check", "test", "docs"]
)
def test_a_word_of_the_makefile_is_explained_to_contributors(word):
    assert re.search(rf"(?m)^{word}:", read("Makefile"))
    assert f"make {word}" in read("CONTRIBUTING.md")


def test_every_extra_for_users_is_in_the_table():
    """Those of developers are in pyproject.toml alone."""
    listed = set(re.findall(r"(?m)^\| `([\w-]+)` \|", read("docs/install.md")))
    developers = {
        "adapters-test",
        "browser",
        "dev",
        "docs",
        "postgres-server",
        "registries",
        "surprise",
        "torture",
    }
    assert listed == set(EXTRAS) - developers


def test_every_package_of_an_extra_has_its_licence_listed():
    rows = re.findall(
        r"(?m)^\| ([\w.-]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", read("LICENSES-THIRD-PARTY.md")
    )
    listed = {name.lower().replace("_", "-").replace(".", "-") for name, *_ in rows}
    for extra in set(re.findall(r"(?m)^\| `([\w-]+)` \|", read("docs/install.md"))):
        for requirement in EXTRAS[extra]:
            name = re.match(r"[\w-]+", requirement)[0].lower().replace("_", "-")
            assert name in listed or name == "refold", (extra, name)
    assert [row for row in rows if row[2].strip() in ("", "not named")] == []


def test_a_weakness_has_a_way_to_be_reported():
    assert "Report a vulnerability" in read("SECURITY.md")
    for template in (
        "ISSUE_TEMPLATE/bug.md",
        "ISSUE_TEMPLATE/wish.md",
        "PULL_REQUEST_TEMPLATE.md",
        "RELEASE_TEMPLATE.md",
    ):
        assert read(f".github/{template}").strip()
