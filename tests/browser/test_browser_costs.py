"""Cost per day in the page: the sum of its bars is that of `refold sessions`."""

import re
import time
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from gateway_clients import ask_claude, run_gateway
from inspector_pages import run_inspector, run_refold

import refold

DAY = 86_400


def spend(store, name, days_ago, requests, model="claude-sonnet-4-5"):
    now = time.time() - days_ago * DAY
    with refold.open(name, store=store, model=model, window=200_000, now=lambda: now) as session:
        for turn in range(requests):
            session.say({"role": "user", "content": f"question {turn}"})
            session.prepare()
            session.observe({"usage": {"input_tokens": 40_000, "output_tokens": 1_000}})
            session.say({"role": "assistant", "content": "answer"})


def read_money(page, words):
    text = page.locator(".days figcaption span", has_text=words).locator("b").inner_text()
    return float(re.sub(r"[^\d.]", "", text))


@pytest.mark.parametrize("width", [1280, 390])
def test_the_days_of_all_sessions(watch, tmp_path, capsys, width):
    store = f"sqlite:{tmp_path}/costs.db"
    for name, days_ago, requests in (("old", 9, 3), ("older", 2, 5), ("new", 0, 2)):
        spend(store, name, days_ago, requests)
    spend(store, "unpriced", 0, 1, "my-own-model")
    with run_inspector(store) as url:
        page = watch(url, width=width).go("#/", ".day-bars")
        assert page.locator(".day").count() == 14
        rows = run_refold(capsys, "sessions", "--store", store)["sessions"]
        dollars = {row["name"]: row["spent"]["dollars"] for row in rows}
        assert read_money(page, "14 days") == pytest.approx(sum(d or 0 for d in dollars.values()), abs=0.006)
        assert read_money(page, "today") == pytest.approx(dollars["new"], abs=0.006)
        title = page.locator(".day").last.get_attribute("title")
        assert title.endswith("3 requests in 2 sessions, 1 request without a price")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        boxes = [bar.bounding_box() for bar in page.locator(".day").all()]
        frame = page.locator(".days").bounding_box()
        assert max(box["x"] + box["width"] for box in boxes) <= frame["x"] + frame["width"]


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Pago_Pago"])
def test_a_day_has_the_date_of_the_reader(watch, tmp_path, zone):
    """There noon is the day before in Greenwich, or the same day."""
    store = f"sqlite:{tmp_path}/costs.db"
    spend(store, "new", 0, 1)
    with run_inspector(store) as url:
        page = watch(url, timezone_id=zone).go("#/", ".day-bars")
        today = datetime.now(ZoneInfo(zone)).date().isoformat()
        assert page.locator(".day").last.get_attribute("title").startswith(f"{today}: ")


def test_the_days_stand_over_the_traffic(watch, tmp_path):
    with run_gateway(f"sqlite:{tmp_path}/gateway.db") as (_, gateway, url, _):
        for turns in range(1, 5):
            assert ask_claude(gateway, turns) == 200
        page = watch(url).go("#/traffic", ".day-bars")
        assert re.search(r"\d requests? in 1 session", page.locator(".day").last.get_attribute("title"))
