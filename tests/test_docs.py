"""Every Python example in the documents runs, in order, one namespace a document."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


WITH_PROVIDER = ROOT / "docs" / "adapters"
"""Pages whose examples need a framework and a provider: tests/adapters runs them."""


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.parent != WITH_PROVIDER],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_examples_run(page, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "example"}
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        exec(compile(block, str(page), "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_the_library_page_has_examples():
    assert len(BLOCK.findall((ROOT / "docs" / "library.md").read_text(encoding="utf-8"))) >= 6


def test_the_examples_of_every_adapter_run_in_its_own_tests():
    tests = "".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "tests" / "adapters").glob("test_*.py")
    )
    pages = [page for page in WITH_PROVIDER.glob("*.md") if BLOCK.search(page.read_text(encoding="utf-8"))]
    assert [page.name for page in pages if page.name not in tests] == []
