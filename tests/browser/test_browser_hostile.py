"""Sixty hostile texts wherever text of strangers is shown: no dialog, no violation, no request to anybody."""

import pytest
from hostile_texts import PAYLOADS, UNSEEN
from inspector_pages import has_text, run_inspector, wait_for_lines, wait_until
from seeded_stores import HOSTILE

import refold

VIOLATIONS = "window.violations = []; addEventListener('securitypolicyviolation', event => violations.push(event.violatedDirective));"
SECRET_MARKS = "[\\u202a-\\u202e\\u2066-\\u2069\\u200b-\\u200f\\ufeff\\u0000-\\u0008\\u001b\\u00ad]"


@pytest.fixture
def hostile(watch, inspector):
    seen = watch(inspector)
    seen.page.evaluate(VIOLATIONS)
    yield seen
    assert seen.page.evaluate("violations") == []
    assert seen.page.evaluate(f"!/{SECRET_MARKS}/.test(document.body.innerText)")
    assert (
        seen.page.evaluate(
            "document.querySelectorAll('iframe, object, embed, form[action], video, audio, script:not([src])').length"
        )
        == 0
    )


def scroll_through(page):
    """Show every row of the list once."""
    height = page.evaluate("document.querySelector('.rows').scrollHeight")
    for top in range(0, height, 300):
        page.evaluate("top => { document.querySelector('.rows').scrollTop = top; }", top)
        wait_for_lines(page)
        assert page.evaluate("document.querySelectorAll('.rows img, .rows svg, .rows script').length") == 0


def test_every_view_of_the_hostile_session(hostile):
    hostile.go("#/", ".sessions-table .row")
    assert hostile.page.locator(".row", has_text="name <svg onload=alert(1)>").count() == 1
    for rest in ("?view=said", ""):
        scroll_through(hostile.session(HOSTILE, rest))
    hostile.session(HOSTILE, "/window", ".biggest .row")
    page = hostile.session(HOSTILE, "/fold/F1", ".compare .put")
    page.locator("summary", has_text="receipt").click()
    hostile.go("#/recall?q=alert", ".row mark")


def test_plans_of_the_hostile_session(hostile):
    page = hostile.session(HOSTILE, "/fold/F1", ".compare .put")
    page.get_by_role("button", name="compare with another policy").click()
    wait_until(
        page, "![...document.querySelectorAll('.policies tbody td')].some(td => td.textContent === '…')"
    )
    page.locator(".policies").get_by_role("button", name="ripple").click()
    page.keyboard.press("Escape")
    page = hostile.session(HOSTILE, "/window", ".biggest .row")
    page.locator(".biggest").get_by_role("button", name="plan fold of this").first.click()
    page.locator(".planned p").first.wait_for()
    for words in page.locator(".planned summary").all():
        words.click()


def test_every_payload_opened_whole(hostile):
    """As the user's text, the tool's name and arguments, its output: each is on the page as it was written."""
    page = hostile.session(HOSTILE, "?view=said&m=1")
    page.locator("[data-active]").press("Enter")
    for number in range(1, 4 * len(PAYLOADS) + 1):
        wait_until(
            page,
            "number => document.querySelector('dialog h2')?.textContent === `Message #${number}` && document.querySelector('.parts')?.textContent",
            number,
        )
        payload = PAYLOADS[(number - 1) // 4]
        if payload not in UNSEEN:
            wait_until(
                page,
                "text => document.querySelector('.parts').textContent.replaceAll('\\\\\"', '\"').replaceAll('\\\\\\\\', '\\\\').includes(text)",
                payload,
            )
        page.get_by_role("button", name="next ›").click()


def test_what_cannot_be_seen_is_marked(hostile):
    page = hostile.go("#/recall?q=gnp.exe", ".row")
    page.locator(".row").first.press("Enter")
    page.locator(".unseen", has_text="U+202E").first.wait_for()
    assert page.locator(".unseen").first.get_attribute("title") == "right-to-left override"
    assert "\u202e" not in page.inner_text("body")


def test_images_are_drawn_on_a_click_and_never_fetched_from_elsewhere(hostile):
    number = 4 * len(PAYLOADS) + 1
    page = hostile.session(HOSTILE, f"?view=said&m={number}")
    wait_until(page, "document.querySelector('[data-active] .m-line')?.textContent.length > 1")
    page.locator("[data-active]").press("Enter")
    assert has_text(page, "not fetched: http://evil.invalid/pixel.png")
    assert has_text(page, "image/svg+xml")
    assert page.locator("dialog img").count() == 0
    page.get_by_role("button", name="show", exact=True).click()
    page.locator("dialog img").wait_for()
    assert page.locator("dialog img").get_attribute("src").startswith("blob:")
    wait_until(page, "document.querySelector('dialog img').naturalWidth === 1")


def test_sessions_whose_names_no_path_can_have(watch, tmp_path):
    address = f"sqlite:{tmp_path / 'odd.db'}"
    for name in ("good", "half \ud83d", ".", "..", "%u002e"):
        with refold.open(name, store=address) as session:
            session.say("hi")
    with run_inspector(address) as url:
        seen = watch(url)
        seen.go("#/", ".sessions-table .row")
        links = seen.page.locator(".sessions-table .row a")
        addresses = [link.get_attribute("href") for link in links.all()]
        assert len(addresses) == 5
        for each in addresses:
            seen.go(each, ".rows .row")
