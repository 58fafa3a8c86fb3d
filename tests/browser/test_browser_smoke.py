"""A short walk through the page in a real browser: every view opens, and a fold is undone and seen to be."""

from gateway_clients import ask_claude, run_gateway
from inspector_pages import has_text
from seeded_stores import LOST, play_task

import refold

VIEWS = {
    "#/": ".sessions-table .row",
    "#/s/task": ".rows .row",
    "#/s/task/window": ".stack",
    "#/s/task/fold/F1": ".compare .row",
    "#/recall?q=harbor-17": ".row mark",
    "#/traffic": ".traffic-table .row",
}


def test_the_views_open_and_a_fold_is_undone(watch, tmp_path):
    store = f"sqlite:{tmp_path}/task.db"
    play_task(store, "task", turns=8, window=32_000)
    with run_gateway(store) as (_, gateway, url, _):
        assert ask_claude(gateway, 1) == 200  # the first request of a conversation belongs to no session yet
        seen = watch(url)
        assert "token" not in seen.page.url
        for address, sign in VIEWS.items():
            seen.go(address, sign)
            assert address[:8] != "#/recall" or LOST[:40] in seen.page.inner_text("main")
        fold = seen.go("#/s/task", ".card").locator(".card b").first.inner_text().split()[-1]
        seen.page.locator(".card button", has_text="unfold").first.click()
        assert "window grows to" in seen.page.inner_text("dialog")
        seen.page.get_by_role("button", name=f"Unfold {fold}").click()
        assert has_text(seen.page, f"{fold} is undone")
        seen.page.locator(".card b", has_text=fold).wait_for(state="detached")
        with refold.open("task", store=store) as session:
            assert [made.standing for made in session.folds()].count(False) == 1
