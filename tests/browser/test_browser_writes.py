"""Changes from the page are verbs of the session: the log says the same as by the library, a second tab follows."""

import pytest
from inspector_pages import has_text, run_inspector, wait_until
from seeded_stores import LOST, MODEL, play_task

import refold

WINDOW = 32_000
NAME = "small task"


@pytest.fixture
def store(tmp_path):
    address = f"sqlite:{tmp_path}/small.db"
    play_task(address, NAME, turns=8, window=WINDOW)
    return address


@pytest.fixture
def url(store):
    with run_inspector(store) as url:
        yield url


def marks(store):
    """Kinds of the marks of a session's log, in order."""
    with refold.open(NAME, store=store, model=MODEL, window=WINDOW) as session:
        return [entry.kind for entry in session.log() if entry.kind not in ("said", "usage", "system")]


def view(store):
    with refold.open(NAME, store=store, model=MODEL, window=WINDOW) as session:
        return session.view()


def confirm(page, verb):
    page.locator("dialog.box button", has_text=verb).click()
    page.locator("dialog.box").wait_for(state="detached")


def test_unfold_rewind_and_fold_again(watch, url, store, tmp_path):
    """The same verbs by the library, on a copy, give the same marks and the same view."""
    copy = f"sqlite:{tmp_path}/copy.db"
    play_task(copy, NAME, turns=8, window=WINDOW)
    assert marks(copy) == marks(store)
    seen = watch(url)
    page = seen.session(NAME, wait=".card")
    other = seen.second_tab()
    other.evaluate("hash => { location.hash = hash; }", "#/s/small%20task")
    other.wait_for_selector(".card")
    label = page.locator(".card b").first.inner_text().split()[-1]

    page.locator(".card").first.get_by_role("button", name="unfold").click()
    assert "The window grows to" in page.inner_text("dialog")
    confirm(page, "Unfold")
    assert has_text(page, f"{label} is undone")
    assert has_text(other, f"{label} undone")

    page.fill("#find", "#100")
    page.press("#find", "Enter")
    page.locator("[data-active]").press("Enter")
    page.get_by_role("button", name="rewind to here").click()
    confirm(page, "Rewind")
    assert has_text(page, "The session stands at #100")
    page.keyboard.press("Escape")
    wait_until(other, "document.querySelector('.branches')?.textContent.includes('2 branches')")

    seen.session(NAME, "/window", ".plan")
    page.get_by_role("button", name="fold now").click()
    confirm(page, "Fold now")
    assert has_text(page, "Folded:")

    with refold.open(NAME, store=copy, model=MODEL) as session:  # the window is not in the log
        session.unfold(session.folds()[int(label[1:]) - 1].name)
        session.rewind("#100")
        session.compact()
    assert marks(store) == marks(copy)
    assert view(store) == view(copy)


def test_a_lost_message_is_found_and_brought_back(watch, url, store):
    """As somebody who has never seen the page: search, read, bring back, see it in what the model sees."""
    assert LOST not in str(view(store))
    seen = watch(url)
    page = seen.session(NAME)
    page.keyboard.press("/")
    page.keyboard.type("licence server")
    page.keyboard.press("Enter")
    page.locator(".row mark").first.wait_for()
    hit = page.locator(".row", has_text="harbor-17")
    assert "folded in F" in hit.inner_text()
    hit.get_by_role("button", name="bring back").click()
    assert has_text(page, "is pinned: the model sees it from now on")
    page.locator(".row", has_text="harbor-17").locator(".h-state", has_text="in the window").wait_for()
    assert LOST in str(view(store))
    page.locator(".row", has_text="harbor-17").get_by_role("button", name="open").click()
    page.get_by_role("link", name="in the conversation").click()
    page.locator(".row", has_text="harbor-17").locator(".m-state", has_text="pinned").wait_for()


def test_pin_and_checkpoint(watch, url, store):
    seen = watch(url)
    page = seen.session(NAME, "?view=said&m=5")
    wait_until(page, "document.querySelector('[data-active] .m-number')?.textContent === '#5'")
    page.get_by_role("button", name="pin", exact=True).click()
    page.get_by_role("button", name="unpin").wait_for()
    page.get_by_role("button", name="checkpoint").click()
    assert has_text(page, "is set")
    assert marks(store)[-2:] == ["pin", "checkpoint"]
    page.get_by_role("button", name="unpin").click()
    page.get_by_role("button", name="pin", exact=True).wait_for()


def test_a_refused_write_says_why(watch, url, store):
    """The fold is gone by the time the question is answered: one sentence, and nothing changes."""
    seen = watch(url)
    page = seen.session(NAME, wait=".card")
    page.locator(".card").first.get_by_role("button", name="unfold").click()
    page.get_by_role("dialog").wait_for()
    with refold.open(NAME, store=store, model=MODEL, window=WINDOW) as session:
        session.rewind("#3")
    page.get_by_role("dialog").get_by_role("button", name="Unfold").click()
    page.locator("dialog [role=alert]").wait_for()
    seen.problems[:] = [problem for problem in seen.problems if "status of 4" not in problem]


def test_read_only_hides_what_changes(watch, store):
    with run_inspector(store, "--inspect-read-only") as url:
        seen = watch(url)
        page = seen.session(NAME, wait=".card")
        assert "read-only" in page.inner_text(".top")
        for words in ("unfold", "checkpoint", "pin"):
            assert page.get_by_role("button", name=words, exact=True).count() == 0
        page.keyboard.press("u")
        assert page.get_by_role("dialog").count() == 0
        seen.session(NAME, "/window", ".plan .big, .plan p")
        assert page.get_by_role("button", name="fold now").count() == 0
        answer = page.evaluate(
            """async () => (await fetch('/inspect/api/sessions/small%20task/checkpoint', {method: 'POST',
            headers: {'content-type': 'application/json', 'x-refold-inspect': '1'}, body: '{"name": "x"}'})).status"""
        )
        assert answer == 403
        seen.problems[:] = [problem for problem in seen.problems if "403" not in problem]
