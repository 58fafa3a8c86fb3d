"""A real Chromium, a real server and a real store for the tests of the inspector.

`make test` runs the checks of the files and one short walk through the page. REFOLD_BROWSER=full, as in
`make browser`, runs everything. Without playwright or Chromium what needs them is skipped, with one line each.
"""

import os
import shutil
from pathlib import Path

import pytest
from inspector_pages import Watched, run_inspector
from seeded_stores import seed

ALWAYS = ("test_browser_smoke.py", "test_inspector_assets.py")
CHROMIUM = os.environ.get("REFOLD_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


def pytest_collection_modifyitems(config, items):
    if os.environ.get("REFOLD_BROWSER") == "full":
        return
    here = Path(__file__).parent
    left_out = [item for item in items if item.path.is_relative_to(here) and item.path.name not in ALWAYS]
    config.hook.pytest_deselected(items=left_out)
    gone = set(left_out)
    items[:] = [item for item in items if item not in gone]


@pytest.fixture(scope="module")
def chromium():
    """The browser; as root it needs to run without its sandbox.

    It ends with its module: while it runs, no other test of this process can start an event loop.
    """
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="the extra `browser` is not installed: no page is driven"
    )
    if not CHROMIUM:
        pytest.skip("Chromium is not installed (Debian: apt-get install chromium): no page is driven")
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=[*arguments, "--js-flags=--expose-gc", "--enable-precise-memory-info"],
        )
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def seeded(tmp_path_factory):
    """The address of a store with all seeded sessions; nobody writes into it."""
    address = f"sqlite:{tmp_path_factory.mktemp('seeded')}/sessions.db"
    seed(address)
    return address


@pytest.fixture(scope="session")
def inspector(seeded):
    """An inspector over the seeded store, in a process of its own."""
    with run_inspector(seeded) as url:
        yield url


@pytest.fixture
def watch(chromium):
    """Open pages that are watched: no dialog, no error, no violation, no request to anybody else."""
    opened = []

    def open_page(url, **options):
        opened.append(Watched(chromium, url, **options))
        return opened[-1]

    yield open_page
    for page in opened:
        page.close()
        assert page.problems == []
