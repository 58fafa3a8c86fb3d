"""The page of a replay."""

import re
from html.parser import HTMLParser

from talks_to_replay import agent

from refold.replay import play
from refold.replay.html_page import render_page

RUNS = [play(agent(40), policy, window=12_000) for policy in ("none", "refold")]


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.seen = []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)


def test_a_page_is_whole_and_needs_nothing_else():
    html = render_page(RUNS, {"file": "talk.json", "messages": 80})
    tags = Tags()
    tags.feed(html)
    assert tags.seen.count("svg") == 2
    assert tags.seen.count("polyline") == 4
    assert not {"script", "link", "img", "iframe"} & set(tags.seen)
    assert not re.search(r"https?://|url\(|@import", html)


def test_everything_from_outside_is_escaped():
    html = render_page(RUNS, {"file": "<script>alert(1)</script>\"'", "model": "<b>"})
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert "<b>" not in html


def test_without_prices_there_is_no_plot_of_money():
    runs = [play(agent(10, model=None), policy, window=8_000) for policy in ("none", "refold")]
    assert render_page(runs, {}).count("<svg") == 1
