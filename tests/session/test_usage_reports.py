"""Reports teach how far estimates of what is new are off, apart from what stands at the front."""

import functools

import pytest
from talks import opened, talk, user

import refold
from refold.core.log.entries import ROOT, make_entry
from refold.core.tokens.usage import Usage
from refold.session.state.accounting import Doubted, UsageReport
from refold.session.steps.read_entries import read_doubt, usage_report


def report(context, estimate, **more):
    return UsageReport(usage=Usage(input=context), estimate=estimate, **more)


def test_growth_is_summed_from_report_to_report():
    first = report(1_000, 1_000)
    second = report(1_600, 1_400).after(first)
    third = report(2_200, 1_800).after(second)
    assert (first.grown, second.grown, third.grown) == ((0, 0), (600, 400), (1_200, 800))
    assert first.scale == 1.0
    assert third.ratio < third.scale < 1.5


@pytest.mark.parametrize(
    "last", [None, report(900, 900, holds=False), report(900, 900, model="another")], ids=str
)
def test_what_was_measured_otherwise_teaches_nothing(last):
    assert report(1_600, 1_400).after(last).grown == (0, 0)


def test_a_request_that_did_not_grow_teaches_nothing_and_forgets_nothing():
    last = report(1_000, 1_000, grown=(60, 50))
    assert report(900, 1_100).after(last).grown == (60, 50)
    assert report(1_100, 900).after(last).grown == (60, 50)


def test_what_was_long_ago_counts_less():
    assert report(1_100, 1_100).after(report(1_000, 1_000, grown=(80_000, 60_000))).grown == (40_100, 30_100)


def test_tools_that_were_counted_before_they_were_named_teach_nothing():
    last = report(11_000, 100, fixed=0, grown=(60, 50))
    assert report(11_400, 11_400, fixed=11_000).after(last).grown == (60, 50)
    assert report(22_300, 11_400, fixed=11_000).after(last).grown == (11_360, 11_350)
    assert report(11_400, 400, fixed=0).after(last).grown == (460, 350)


def test_a_size_that_no_text_has_lies_in_parts_that_were_not_named():
    """New messages do not grow by it."""
    assert (report(4_000, 1_000).ratio, report(4_001, 1_000).ratio) == (4.0, 1.0)
    # A hidden prompt of a few words, or a tokenizer that makes more of them.
    assert (report(160, 100).ratio, report(390, 100).ratio) == (1.6, pytest.approx(1 / 0.6))
    assert report(11_000, 100).scale == 1.0


@pytest.mark.parametrize(("value", "read"), [([3, 4], (3, 4)), (None, (0, 0)), ([1], (0, 0)), ("ab", (0, 0))])
def test_growth_is_read_from_the_log_with_care(value, read):
    entry = make_entry("usage", {}, parent=ROOT, said=1, about={"grown": value})
    assert usage_report(entry).grown == read


def test_a_reply_counts_as_the_provider_counted_it():
    """Its tokens were reported when it was written; only what came since is estimated."""
    with refold.open("counting", store="memory:", window=100_000) as session:
        session.say("Hello. " * 200)
        session.prepare()
        usage = {
            "prompt_tokens": 400,
            "completion_tokens": 1_000,
            "completion_tokens_details": {"reasoning_tokens": 100},
        }
        session.observe({"usage": usage})
        session.say({"role": "assistant", "content": "A short reply."})
        assert session.budget().used == 1_300
        session.say({"role": "user", "content": "And now? " * 50})
        assert 1_300 < session.budget().used < 1_600


def test_the_size_of_a_reply_survives_reopening(tmp_path):
    """A process that was killed folds no earlier than one that went on."""
    address = f"sqlite:{tmp_path / 'log.db'}"
    reply = {"role": "assistant", "content": "A short reply."}
    used = []
    for name in ("went-on", "reopened"):
        session = refold.open(name, store=address, window=100_000)
        session.say("Hello. " * 200)
        session.prepare()
        details = {"reasoning_tokens": 100}
        usage = {"prompt_tokens": 400, "completion_tokens": 1_000, "completion_tokens_details": details}
        session.observe({"usage": usage})
        if name == "reopened":
            session.close()
            session = refold.open(name, store=address, window=100_000)
        session.say(reply)
        used.append(session.budget().used)
        session.close()
    assert used == [1_300, 1_300]


@pytest.mark.parametrize("way", ["rewind", "edit", "another beginning"])
def test_how_a_provider_counts_survives_reopening_on_another_branch(tmp_path, way):
    address, history = f"sqlite:{tmp_path / 'one.db'}", talk(6)
    session = opened(store=address, window=30_000)
    for number in (5, 9, 13):
        sent = session.prepare(history[:number]).messages
        session.observe({"usage": {"prompt_tokens": refold.count(sent) * 3 // 2, "completion_tokens": 9}})
    if way == "rewind":
        session.rewind("#3")
    else:
        session.prepare([*history[:3], user("no")] if way == "edit" else [user("hello"), *history])
    used = session.budget().used
    assert used > 1.4 * refold.count(session.view())
    again = opened(store=address, window=30_000)
    assert again.budget().used == used
    assert (again.stats().spent, again.stats().totals) == (session.stats().spent, session.stats().totals)


def test_growth_survives_reopening(tmp_path):
    address = f"sqlite:{tmp_path / 'log.db'}"
    with refold.open("counting", store=address, window=100_000) as session:
        for tokens in (500, 900):
            session.say("Tell me more. " * 40)
            session.prepare()
            session.observe({"usage": {"prompt_tokens": tokens, "completion_tokens": 10}})
        used = session.budget().used
        grown = session.state.accounting.report.grown
    with refold.open("counting", store=address, window=100_000) as again:
        assert again.budget().used == used
        assert again.state.accounting.report.grown == grown != (0, 0)


def observe_low_counts(address, choose):
    """Return which reports of half our estimate are not believed; `choose` gives the session of a turn."""
    history, doubted = [], []
    for turn in range(6):
        history.append({"role": "user", "content": f"{turn}: " + "Look at the next file. " * 60})
        session = choose(turn, address)
        ready = session.prepare(list(history))
        usage = {"prompt_tokens": refold.count(ready.messages) // 2, "completion_tokens": 9}
        doubted.append("not all of it was counted" in session.observe({"usage": usage}).reason)
        history.append({"role": "assistant", "content": f"{turn}: " + "It is fine. " * 60})
    return doubted


@pytest.mark.parametrize("processes", [1, 2, 6])
def test_a_low_count_is_confirmed_by_whoever_reports_next(tmp_path, processes):
    """A program that opens its session for each turn believes a provider as soon as one that goes on."""

    @functools.cache
    def opened(name, process, address):
        return refold.open(name, store=address, window=100_000)

    address = f"sqlite:{tmp_path / 'log.db'}"
    expected = observe_low_counts(address, lambda _, at: opened("one", 0, at))
    assert (expected[0], expected[-1]) == (True, False)
    assert observe_low_counts(address, lambda turn, at: opened("more", turn % processes, at)) == expected


@pytest.mark.parametrize("numbers", [None, [1, 2], "abcd", [1, 2, 3, None]], ids=str)
def test_a_doubted_report_is_read_from_the_log_with_care(numbers):
    entry = make_entry("usage", {"model": "m"}, parent=ROOT, said=1, about={"doubted": numbers})
    assert read_doubt(entry, "m") is None


def test_a_doubted_report_of_another_model_confirms_nothing():
    entry = make_entry("usage", {"model": "m"}, parent=ROOT, said=1, about={"doubted": [1, 2, 3, 4]})
    assert (read_doubt(entry, "m"), read_doubt(entry, "n")) == (Doubted(1, 2, 3, 4), None)
