"""Plans in the page: another policy beside a fold or beside the present, a fold of some messages; nothing changes."""

import re

import pytest
from inspector_pages import has_text, run_refold, wait_until
from seeded_stores import LONG_TASK

import refold

READ_ALL = "![...document.querySelectorAll('.policies tbody td')].some(cell => cell.textContent === '…')"


@pytest.fixture
def seen(watch, inspector, capsys, seeded):
    """A page, and a log that is the same afterwards."""
    log = ("show", LONG_TASK, "--log", "--store", seeded)
    before = run_refold(capsys, *log)
    yield watch(inspector)
    assert run_refold(capsys, *log) == before


def read_rows(page):
    """The words of each row of the table, by policy."""
    wait_until(page, READ_ALL)
    rows = page.locator(".policies tbody tr")
    return {
        re.split(",| as", row.locator("th").inner_text())[0]: row.locator("td").all_inner_texts()
        for row in rows.all()
    }


def test_a_fold_beside_other_policies(seen):
    page = seen.session(LONG_TASK, "/fold/F2", ".compare .put")
    after = page.locator(".tile", has_text="after").locator("b").inner_text()
    page.get_by_role("button", name="compare with another policy").click()
    rows = read_rows(page)
    assert set(rows) == {"▼ F2", *refold.presets.PRESETS}
    assert rows["▼ F2"][0] == after
    assert all(len(cells) == 6 for cells in rows.values())  # each of them would have folded
    page.locator(".policies").get_by_role("button", name="opal").click()
    assert has_text(page, "keeps what F2 takes out")
    assert re.search(r"takes out what F2 keeps: \d+ messages", page.inner_text(".difference"))
    questions = rows["opal"][3]
    page.get_by_role("checkbox").click()
    wait_until(page, "document.querySelector('.policies tbody').textContent.includes('…')")
    assert read_rows(page)["opal"][3] != questions
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")


def test_the_window_beside_other_policies(seen):
    page = seen.session(LONG_TASK, "/window", ".plan .big")
    big = page.inner_text(".plan .big")
    page.get_by_role("button", name="compare with another policy").click()
    rows = read_rows(page)
    assert rows["refold"][0] == big.split("→")[1].replace("tokens", "").strip()
    page.locator(".policies").get_by_role("button", name="thrifty").click()
    assert has_text(page, "thrifty beside refold")


def test_a_fold_of_one_message_is_planned_by_the_pointer_and_by_a_key(seen):
    page = seen.session(LONG_TASK, "/window", ".biggest .row")
    handle = page.inner_text(".biggest [data-active] .m-number")
    page.locator(".biggest [data-active]").get_by_role("button", name="plan fold of this").click()
    page.get_by_role("dialog", name=f"Plan: fold of {handle}").locator(".big").wait_for()
    assert has_text(page, "A call and its result leave together")
    assert "nothing was changed" in page.inner_text("dialog")
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    page.keyboard.press("f")
    page.get_by_role("dialog", name=f"Plan: fold of {handle}").locator(".big").wait_for()


def test_messages_that_were_selected_are_planned(seen):
    page = seen.session(LONG_TASK)
    page.fill("#find", "#1100–#1140")
    page.press("#find", "Enter")
    page.get_by_role("button", name="plan fold of these").click()
    page.get_by_role("dialog", name="Plan: fold of #1100–#1140").locator(".big").wait_for()
    page.keyboard.press("Escape")
    page.locator("[data-active]").press("Enter")
    page.get_by_role("dialog", name="Message #1100").get_by_role("button", name="plan fold of this").click()
    page.get_by_role("dialog", name="Plan: fold of #1100").wait_for()


def test_what_is_folded_already_is_said_so(seen):
    page = seen.session(LONG_TASK)
    page.fill("#find", "#40–#50")
    page.press("#find", "Enter")
    page.get_by_role("button", name="plan fold of these").click()
    page.get_by_role("dialog").get_by_role("alert").wait_for()
    assert "it is not in the view" in page.inner_text("dialog")
    seen.problems[:] = [problem for problem in seen.problems if "422" not in problem]
