"""What goes through the gateway moves the page without a reload; a cut stream comes back without a hole."""

import pytest
from gateway_clients import ask_claude, ask_codex, post, run_gateway
from inspector_pages import has_text, run_inspector, wait_until

import refold

SESSION = "claude-code:0bcf04d6-5a0b-4099-a68d-6aa51693e8bd"
NOT_RELOADED = "window.sameDocument = true"


@pytest.fixture
def running(tmp_path):
    with run_gateway(f"sqlite:{tmp_path}/gateway.db", "--window", "30k") as running:
        yield running


def test_requests_appear_in_traffic_and_move_the_meter(watch, running):
    _, gateway, url, _ = running
    seen = watch(url)
    seen.page.evaluate(NOT_RELOADED)
    page = seen.go("#/traffic")
    assert has_text(page, "No request yet")
    assert ask_claude(gateway, 1) == 200
    page.locator(".row .t-path", has_text="/v1/messages").wait_for()
    assert has_text(page, "no session: it holds no answer of a model yet")
    assert ask_claude(gateway, 2) == 200
    page.locator(".row .t-session a").click()
    page.locator(".row .m-line", has_text="Turn 2").wait_for()
    for turns in (3, 4):
        assert ask_claude(gateway, turns) == 200
    page.locator("canvas").wait_for()
    assert has_text(page, "request 3")
    assert ask_claude(gateway, 5) == 200
    assert has_text(page, "request 4")
    page.locator(".row .m-line", has_text="Turn 5").wait_for()
    assert page.evaluate("sameDocument")


def test_a_fold_in_passing_is_seen(watch, running):
    _, gateway, url, _ = running
    seen = watch(url)
    page = seen.go("#/traffic")
    for turns in range(1, 12):
        assert ask_claude(gateway, turns, words=700) == 200
    page.locator(".row .t-fold", has_text="made").first.wait_for()
    page.locator(".row", has_text="made").first.locator(".t-path").click()
    assert has_text(page, "Phases")
    page.get_by_role("dialog").get_by_role("link", name="▼ F").wait_for()
    assert "x-api-key" not in page.inner_text("dialog")
    assert "sk-ant" not in page.content()
    page.keyboard.press("Escape")
    seen.go("#/", ".sessions-table .row")
    assert page.inner_text(".c-folds >> nth=1") != "0"


def test_filter_and_pause(watch, running):
    _, gateway, url, _ = running
    seen = watch(url)
    page = seen.go("#/traffic")
    assert ask_claude(gateway, 1) == 200
    assert ask_codex(gateway, 1) == 200
    assert post(gateway, "/v1/messages", {"model": "x"}) >= 400
    wait_until(page, "document.querySelectorAll('.traffic-table .row').length === 3")
    page.get_by_role("searchbox").fill("status:>=400")
    wait_until(page, "document.querySelectorAll('.traffic-table .row').length === 1")
    assert page.inner_text(".row .t-status").startswith("✕ 4")
    page.get_by_role("searchbox").fill("")
    page.get_by_role("button", name="pause").click()
    assert ask_claude(gateway, 2) == 200
    seen.go("#/", ".sessions-table .row")  # the request has been seen by the page by now
    page = seen.go("#/traffic", ".traffic-table .row")
    wait_until(page, "document.querySelectorAll('.traffic-table .row').length === 4")


def test_the_stream_is_cut_and_comes_back_without_a_hole(watch, tmp_path):
    """The server is stopped and started again at the same address: the page says so, and shows what came meanwhile."""
    store = f"sqlite:{tmp_path}/cut.db"
    with refold.open("talk", store=store) as session:
        session.say("before the cut")
    fixed = {"REFOLD_SERVE_INSPECT_TOKEN": "t" * 43}
    with run_inspector(store, **fixed) as url:
        seen = watch(url)
        page = seen.session("talk")
        page.evaluate(NOT_RELOADED)
        page.locator(".connection.live").wait_for()
        port = url.split(":")[2].split("/")[0]
    page.locator(".connection.reconnecting").wait_for()
    with refold.open("talk", store=store) as session:
        session.say("said while nobody listened")
    with run_inspector(store, port=port, **fixed):
        page.locator(".connection.live").wait_for()
        page.locator(".row", has_text="said while nobody listened").wait_for()
        with refold.open("talk", store=store) as session:
            session.say("said afterwards")
        page.locator(".row", has_text="said afterwards").wait_for()
        assert page.evaluate("sameDocument")
    seen.problems[:] = [problem for problem in seen.problems if "ERR_" not in problem]
