"""A conversation of any length: few elements, little memory, any place at once."""

import itertools

import pytest
from inspector_pages import run_inspector, wait_for_lines, wait_until
from seeded_stores import LONG_TALK, talk_long

from sample_sizes import few_or_all

MEGABYTE = 1024 * 1024
NODES = "document.querySelectorAll('*').length"


def heap(page):
    """Bytes of the page's heap after a collection."""
    return page.evaluate("() => { globalThis.gc?.(); return performance.memory.usedJSHeapSize; }")


def jump(page, number):
    page.fill("#find", f"#{number}")
    page.press("#find", "Enter")
    page.locator(".row .m-number", has_text=f"#{number}").filter(has_text=f"#{number}").first.wait_for()
    wait_until(
        page,
        "number => document.querySelector('[data-active] .m-number')?.textContent === `#${number}`",
        number,
    )
    wait_for_lines(page)


def test_ten_thousand_messages(watch, inspector):
    """At most 300 elements and 50 MB, at the start, in the middle and at the end."""
    seen = watch(inspector)
    page = seen.session(LONG_TALK)
    assert page.get_by_role("grid").get_attribute("aria-rowcount") == "10000"
    assert page.evaluate(NODES) <= 300
    for number, line in (
        (5003, "question 5003 of many"),
        (10_000, "answer 9999 of many"),
        (1, "question 1 of many"),
    ):
        jump(page, number)
        assert page.inner_text("[data-active] .m-line") == line
        assert page.evaluate(NODES) <= 300
    page.keyboard.press("End")
    wait_until(page, "document.querySelector('[data-active]').getAttribute('aria-rowindex') === '10000'")
    assert heap(page) <= 50 * MEGABYTE


def test_scrolling_through_all_of_it_keeps_few_pages(watch, inspector):
    page = watch(inspector).session(LONG_TALK)
    for part in range(1, 41):
        page.evaluate(
            "part => { const list = document.querySelector('.rows'); list.scrollTop = list.scrollHeight * part / 40; }",
            part,
        )
        wait_for_lines(page)
        assert page.evaluate(NODES) <= 300
    wait_until(
        page, "document.querySelector('.row:last-child .m-line').textContent === 'answer 9999 of many'"
    )
    assert heap(page) <= 50 * MEGABYTE


def test_a_list_longer_than_a_browser_can_draw(watch, tmp_path):
    """Rows are placed by arithmetic: the last of very many is reached, and the memory does not follow the length."""
    count = few_or_all(120_000, 1_000_000)
    store = f"sqlite:{tmp_path}/long.db"
    talk_long(store, count, "very-long")
    with run_inspector(store) as url:
        page = watch(url).session("very-long")
        for number in (count // 2 + 1, count, 3):
            jump(page, number)
            assert page.inner_text("[data-active] .m-line").endswith(
                f"{number if number % 2 else number - 1} of many"
            )
        assert page.evaluate(NODES) <= 300
        assert heap(page) <= 200 * MEGABYTE


@pytest.mark.parametrize("width", [1280, 390])
def test_rows_do_not_overlap(watch, inspector, width):
    page = watch(inspector, width=width, height=844).session("fix-parser")
    boxes = page.evaluate(
        "() => [...document.querySelectorAll('.rows .row')].map(row => { const box = row.getBoundingClientRect(); return [box.top, box.bottom]; })"
    )
    assert len(boxes) > 5
    assert all(abs(above[1] - below[0]) < 1 for above, below in itertools.pairwise(boxes))
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
