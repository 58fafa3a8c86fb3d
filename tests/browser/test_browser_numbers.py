"""What the page shows is what the terminal program says about the same store."""

import re

import pytest
from inspector_pages import has_text, print_refold, run_inspector, run_refold, wait_for_lines, wait_until
from seeded_stores import HOSTILE, LONG_TALK, LONG_TASK, LOST

import refold


@pytest.fixture
def refold_says(capsys, seeded):
    return lambda *arguments: run_refold(capsys, *arguments, "--store", seeded)


def number(text):
    return int(re.sub(r"\D", "", text))


def test_the_list_of_sessions(watch, inspector, refold_says):
    page = watch(inspector).go("#/", ".sessions-table .row")
    rows = {row["name"]: row for row in refold_says("sessions")["sessions"]}
    shown = page.locator(".sessions-table .row")
    assert shown.count() == len(rows)
    for place in range(shown.count()):
        row = shown.nth(place)
        name = row.locator(".c-name").get_attribute("title")
        assert number(row.locator(".c-messages").inner_text()) == rows[name]["said"]
    assert page.inner_text(".tools").endswith(f"{len(rows)} of {len(rows)} shown")
    assert {LONG_TASK, LONG_TALK} <= set(rows)


def test_a_meter_without_sizes_says_why(watch, tmp_path):
    """An upstream that always reports 100 tokens: its reports cannot be the sizes of the requests."""
    store = f"sqlite:{tmp_path}/talk.db"
    with refold.open("talk", store=store, model="claude-sonnet-4-5") as session:
        for turn in range(3):
            session.say({"role": "user", "content": f"question {turn} " + "about the parser " * 400})
            session.prepare()
            session.observe({"usage": {"input_tokens": 90, "output_tokens": 10}})
            session.say({"role": "assistant", "content": "an answer"})
    with run_inspector(store) as url:
        page = watch(url).session("talk")
        assert has_text(page, "3 reports so far, 3 of them cannot be the size of the request")


def test_the_meter_numbers_whole_requests(watch, tmp_path):
    store = f"sqlite:{tmp_path}/talk.db"
    with refold.open("talk", store=store, model="claude-sonnet-4-5", window="20k") as session:
        for turn in range(50):
            session.say({"role": "user", "content": f"question {turn} " + "about the parser " * 40})
            used = session.prepare().budget.used
            session.observe({"usage": {"input_tokens": used, "output_tokens": 10}})
            session.say({"role": "assistant", "content": "an answer"})
    keep = """
        const canvas = CanvasRenderingContext2D.prototype, draw = canvas.fillText;
        window.drawn = [];
        canvas.fillText = function (text, ...more) { drawn.push(text); draw.call(this, text, ...more); };
    """
    with run_inspector(store) as url:
        seen = watch(url)
        seen.context.add_init_script(keep)
        seen.page.reload()
        page = seen.session("talk")
        wait_until(page, "drawn.includes('10')")
        assert [text for text in page.evaluate("drawn") if re.fullmatch(r"\d+\.\d+", text)] == []


def test_what_the_model_sees(watch, inspector, refold_says):
    """Row by row as `refold show`: handles in order, folds at their places."""
    said = refold_says("show", LONG_TASK)
    seen = watch(inspector, height=20_000)
    page = seen.session(LONG_TASK)
    wait_until(page, "document.querySelectorAll('.row .m-line').length > 150")
    wait_for_lines(page)
    shown = [text.split("\n")[0] for text in page.locator(".rows .row").all_inner_texts()]
    assert number(page.get_by_role("grid").get_attribute("aria-rowcount")) == len(shown)
    shown = [line for line in shown if not line.startswith("⋯")]  # what left between two messages
    assert len(shown) == said["seen"] == len(said["messages"])
    for line, item in zip(shown, said["messages"], strict=True):
        if item["handle"].startswith("#"):
            assert line == item["handle"]
        else:
            assert re.match(r"▼ F4|#\d+", line)


def test_everything_said(watch, inspector, refold_says):
    said = refold_says("show", LONG_TASK, "--all")["messages"]
    seen = watch(inspector)
    page = seen.session(LONG_TASK, "?view=said&m=80")
    row = page.locator(".row", has_text=LOST[:40])
    row.wait_for()
    entry = next(one for one in said if one["handle"] == "#80")
    assert row.locator(".m-number").inner_text() == "#80"
    assert entry["folded"]
    assert row.locator(".m-state").inner_text().startswith("▼ in F")
    assert number(page.get_by_role("grid").get_attribute("aria-rowcount")) == len(said)


def test_what_fills_the_window(watch, inspector, refold_says, tmp_path, capsys, seeded):
    """The kinds of `refold measure` on the view, and the same sum."""
    seen = watch(inspector)
    page = seen.session(LONG_TASK, "/window", ".kinds tr")
    rows = page.locator(".kinds tr")
    kinds = {
        rows.nth(n).locator("th").inner_text(): number(rows.nth(n).locator(".number").get_attribute("title"))
        for n in range(rows.count())
    }
    view = tmp_path / "view.json"
    view.write_text(print_refold(capsys, "show", LONG_TASK, "--format", "anthropic", "--store", seeded))
    measured = run_refold(
        capsys, "measure", str(view), "--model", "claude-sonnet-4-5", "--format", "anthropic"
    )
    words = {"tool results": "tool_results", "tool calls": "tool_calls", "summaries": "summary"}
    assert {words.get(kind, kind): tokens for kind, tokens in kinds.items()} == {
        kind: tokens for kind, tokens in measured["history"].items() if tokens
    }


def test_a_fold_before_and_after(watch, inspector, refold_says):
    """As `refold diff`: the numbers, the messages that left, the text that stands there."""
    folds = refold_says("folds", LONG_TASK)["folds"]
    assert ["summarize" in fold["stages"] for fold in folds] == [False, True, True, True]
    for place, fold in enumerate(folds, start=1):
        diff = refold_says("diff", LONG_TASK, fold["name"])
        page = watch(inspector).session(LONG_TASK, f"/fold/F{place}", ".compare")
        tiles = page.locator(".tile b").all_inner_texts()
        assert tiles[:2] == [short(diff["tokens_before"]), short(diff["tokens_after"])]
        texts = [side["text"] for change in diff["changes"] for side in change["put"] if not side["handle"]]
        summary = next((text for text in texts if "<refold-summary" in text), "")
        heads = re.findall(r"^## .+$", summary, re.MULTILINE)
        assert bool(heads) == ("summarize" in fold["stages"])
        assert page.locator(".put.summary .line-head").all_inner_texts() == heads
        left = {
            side["handle"]
            for change in diff["changes"]
            for side in change["took"]
            if (side["handle"] or "").startswith("#")
        }
        assert number(page.locator(".before [role=grid]").get_attribute("aria-rowcount")) >= len(left)


def short(tokens):
    return f"{tokens / 1000:.1f} k" if tokens < 9_950 else f"{round(tokens / 1000)} k"


def test_recall(watch, inspector, refold_says):
    hits = refold_says("recall", LONG_TASK, "harbor-17", "--limit", "50")["hits"]
    page = watch(inspector).go(f"#/recall?q=harbor-17 session:{LONG_TASK}", ".row mark")
    assert page.locator(".row").count() == len(hits) == 1
    assert f"{LONG_TASK} {hits[0]['handle']}" in page.inner_text(".row .h-where")
    assert has_text(page, "1 hit")


def test_a_search_over_all_sessions_names_each(watch, inspector):
    page = watch(inspector).go("#/recall?q=evil", ".row mark")
    assert HOSTILE in page.inner_text(".rows")


def test_a_name_that_is_not_there_is_said_so(watch, inspector):
    seen = watch(inspector)
    page = seen.session("nobody", wait="[role=alert]")
    assert "Not found" in page.inner_text("main")
    seen.problems[:] = [problem for problem in seen.problems if "404" not in problem]
