"""The keyboard alone reaches everything; what has the focus is seen; every control has a name; text can be read."""

import pytest
from inspector_pages import has_text, wait_until
from seeded_stores import LONG_TASK

VIEWS = {
    "sessions": ("#/", ".sessions-table .row"),
    "session": (f"#/s/{LONG_TASK}", ".card"),
    "window": (f"#/s/{LONG_TASK}/window", ".plan .big"),
    "fold": (f"#/s/{LONG_TASK}/fold/F4", ".put"),
    "recall": ("#/recall?q=harbor-17", ".row mark"),
}
FOCUS_RING = """() => {
  const style = getComputedStyle(document.activeElement);
  return style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2;
}"""
NAMELESS = """() => [...document.querySelectorAll('a, button, input, select, [role=grid], dialog, nav, [role=img], [role=radiogroup]')]
  .filter(node => !(node.getAttribute('aria-label') || node.labels?.length || (node.matches('a, button') && node.textContent.trim())))
  .map(node => node.outerHTML.slice(0, 120))"""
# text against what is behind it, by the formula of WCAG 2.2; colours behind are laid over one another
LOW_CONTRAST = """() => {
  const read = (text) => { const v = text.match(/[\\d.]+/g).map(Number); return [v[0], v[1], v[2], v[3] ?? 1]; };
  const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const light = (c) => { const [r, g, b] = c.slice(0, 3).map(v => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = (node) => { const layers = []; for (let n = node; n; n = n.parentElement) layers.push(read(getComputedStyle(n).backgroundColor));
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]); };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !node.checkVisibility() || node.closest('.sr, noscript, option, :disabled')) continue;
    const style = getComputedStyle(node), ground = behind(node), ink = over(read(style.color), ground);
    const [a, b] = [light(ink), light(ground)].sort((x, y) => y - x);
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < (large ? 3 : 4.5)) found.push(`${ratio.toFixed(2)} ${node.className} ${walker.currentNode.textContent.slice(0, 40)}`);
  }
  return found;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_every_view_can_be_read(watch, inspector, scheme, width):
    seen = watch(inspector, scheme=scheme, width=width, height=844)
    for name, (address, sign) in VIEWS.items():
        page = seen.go(address, sign)
        assert page.evaluate(LOW_CONTRAST) == [], name
        assert page.evaluate(NAMELESS) == [], name
        assert page.locator("h1").count() == 1
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_every_plan_can_be_read_and_fits(watch, inspector, scheme, width):
    seen = watch(inspector, scheme=scheme, width=width, height=844)
    for view, button, sign in (
        ("fold", "compare with another policy", ".policies tbody tr:last-child .number"),
        ("window", "plan fold of this", ".planned .big"),
    ):
        page = seen.go(*VIEWS[view])
        page.get_by_role("button", name=button).first.click()
        page.locator(sign).first.wait_for()
        assert page.evaluate(LOW_CONTRAST) == [], view
        assert page.evaluate(NAMELESS) == [], view
        box = page.locator("dialog").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
        assert page.evaluate(
            "(inner => inner.scrollWidth <= inner.clientWidth)(document.querySelector('.dialog-inner'))"
        )
        page.keyboard.press("Escape")
        page.get_by_role("dialog").wait_for(state="detached")


def test_from_the_list_to_an_unfolded_message_by_keys(watch, inspector):
    """No pointer: filter, open, find the fold, read it, ask to unfold, go back, open a message."""
    seen = watch(inspector)
    page = seen.go("#/", ".sessions-table .row")
    page.keyboard.press("/")
    page.keyboard.type(LONG_TASK)
    wait_until(page, "document.querySelectorAll('.sessions-table .row').length === 1")
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")
    page.locator(".card").first.wait_for()
    place = int(page.locator(".row", has=page.locator(".card")).first.get_attribute("aria-rowindex"))
    page.keyboard.press("Home")
    for _ in range(place):
        page.keyboard.press("j")
    page.keyboard.press("k")
    assert page.evaluate(FOCUS_RING)
    assert int(page.evaluate("document.activeElement.getAttribute('aria-rowindex')")) == place
    page.keyboard.press("u")
    page.get_by_role("dialog").wait_for()
    assert "window grows to" in page.inner_text("dialog")
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    page.keyboard.press("Enter")
    page.locator(".compare .row").first.wait_for()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.get_by_role("dialog").wait_for()
    assert page.evaluate("document.querySelector('dialog').contains(document.activeElement)")
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")


def test_a_word_that_names_no_session_is_searched_in_what_was_said(watch, inspector):
    page = watch(inspector).go("#/", ".sessions-table .row")
    page.keyboard.press("/")
    page.keyboard.type("harbor-17")
    assert has_text(page, "No session is named so")
    assert page.get_by_role("link", name="Search everything said for “harbor-17”").count() == 1
    page.keyboard.press("Enter")
    page.locator(".row mark").first.wait_for()
    assert page.url.endswith("#/recall?q=harbor-17")
    page.go_back()
    assert has_text(page, "No session is named so")


def test_an_address_that_differs_in_its_parameters_alone_is_gone_to(watch, inspector):
    """By a link, by a step back, and by a click that takes the filter away."""
    seen = watch(inspector)
    active = "number => document.querySelector('[data-active] .m-number')?.textContent === number"
    page = seen.session(LONG_TASK, "?m=7")
    wait_until(page, active, "#7")
    seen.session(LONG_TASK, "?m=95")
    wait_until(page, active, "#95")
    page.go_back()
    wait_until(page, active, "#7")
    seen.go("#/", ".sessions-table .row")
    page.fill("[data-search]", "harbor-17")
    assert has_text(page, "No session is named so")
    page.get_by_role("link", name="Refold").click()
    page.locator(".sessions-table .row").first.wait_for()
    assert (page.input_value("[data-search]"), page.url.endswith("#/")) == ("", True)


def test_enter_before_the_list_is_filtered_searches_as_well(watch, inspector):
    page = watch(inspector).go("#/", ".sessions-table .row")
    page.keyboard.press("/")
    page.keyboard.insert_text("harbor-17")
    page.keyboard.press("Enter")
    page.locator(".row mark").first.wait_for()
    page.keyboard.press("s")
    page.locator(".sessions-table .row").first.wait_for()
    page.keyboard.press("/")
    page.keyboard.insert_text(LONG_TASK)
    page.keyboard.press("Enter")
    wait_until(page, "document.querySelectorAll('.sessions-table .row').length === 1")
    assert "#/recall" not in page.url


def test_tab_reaches_every_control_and_shows_where_it_is(watch, inspector):
    seen = watch(inspector)
    for name, (address, sign) in VIEWS.items():
        page = seen.go(address, sign)
        page.evaluate("document.activeElement.blur()")
        wanted = page.evaluate(
            "() => [...document.querySelectorAll('a[href], button, input, select, summary, [tabindex=\"0\"]')].filter(n => n.tabIndex >= 0 && !n.disabled && n.checkVisibility() && !n.closest('details:not([open]) > :not(summary)')).length"
        )
        reached = set()
        for _ in range(wanted + 8):
            page.keyboard.press("Tab")
            reached.add(
                page.evaluate(
                    "() => { const all = [...document.querySelectorAll('*')]; return all.indexOf(document.activeElement); }"
                )
            )
            if page.evaluate("document.activeElement !== document.body"):
                assert page.evaluate(FOCUS_RING), (
                    name,
                    page.evaluate("document.activeElement.outerHTML.slice(0, 200)"),
                )
        assert (
            len(reached - {page.evaluate("[...document.querySelectorAll('*')].indexOf(document.body)")})
            >= wanted
        ), name


def test_help_names_the_keys_and_letters_lead_to_views(watch, inspector):
    seen = watch(inspector)
    page = seen.go("#/", ".sessions-table .row")
    page.keyboard.press("?")
    assert has_text(page, "unfold the fold of this row")
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    page.keyboard.press("r")
    page.locator("main.recall").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("s")
    page.locator("main.sessions .row").first.wait_for()
    page.keyboard.press("End")
    wait_until(
        page,
        "document.querySelector('[data-active]').getAttribute('aria-rowindex') === document.querySelector('[role=grid]').getAttribute('aria-rowcount')",
    )


def test_a_drag_on_the_meter_selects_messages(watch, inspector):
    seen = watch(inspector)
    page = seen.go(*VIEWS["session"])
    page.get_by_role("radio", name="everything said").click()
    box = page.locator(".u-over").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 40, steps=5)
    page.mouse.up()
    chip = page.get_by_role("button", name="selected #")
    chip.wait_for()
    first, last = (
        int(word) for word in chip.inner_text().replace("selected #", "").replace(" ✕", "").split("–#")
    )
    assert 500 < first < 680 < last < 800
    page.locator(".row .m-state", has_text="selected").first.wait_for()
    chip.click()
    chip.wait_for(state="detached")
