"""The short form of bench/torture/interleavings.py, and that its checker sees a stale summary and a lost update."""

from dataclasses import replace

import pytest
from bench.torture import interleavings

import refold
from refold import open_store
from refold.session.steps import install_fold
from sample_sizes import few_or_all


@pytest.mark.parametrize("seed", range(few_or_all(1, 2)))
def test_turns_and_compactions_in_any_order_lose_nothing(seed):
    found = interleavings.campaign(seed=seed, count=few_or_all(15, 30))
    assert found["faults"] == []
    assert found["acts"]["compact"] > 0


@pytest.mark.parametrize(("seed", "case"), [(3, 822), (5, 1797), (5, 2077), (5, 2649), (11, 2506)])
def test_what_a_campaign_once_found_stays_mended(seed, case, tmp_path):
    """3/822: somebody went back to before the only checkpoint while a model summarised what followed it.

    The others: the checker took for a summary's own what stands behind it as facts (1797), in a digest beside
    it (2077), and in an earlier summary that was cut beside it (2649). 11/2506: somebody went back to before
    older messages were cut off, while a model was shown the mark in their place.
    """
    assert interleavings.case_of(seed, case, tmp_path / "case")[1] == []


@pytest.mark.campaign
def test_a_fold_that_is_installed_on_another_branch_is_found_out(monkeypatch):
    def careless(*_):
        return ""
        yield

    monkeypatch.setattr(install_fold, "_find_obstacle", careless)
    assert interleavings.campaign(seed=2, count=25)["wrong"] > 0


def test_a_store_that_does_not_compare_is_found_out(monkeypatch):
    memory = type(open_store("memory:"))
    append = memory.append

    def careless(self, session, entries, *, expect, at=None, fence=None):
        return append(self, session, entries, expect=self.head(session), at=at, fence=fence)

    monkeypatch.setattr(memory, "append", careless)
    assert interleavings.campaign(seed=1, count=15)["wrong"] > 0


def test_a_cut_summary_is_judged_by_each_answer_that_it_can_be_of(monkeypatch):
    answers = []

    def tell_what_is_seen(question):
        seen = sorted(set(interleavings._TOKEN.findall(question.text)))
        answers.append(interleavings._SAW + " ".join(seen))
        return answers[-1]

    with refold.open(interleavings.SESSION, store="memory:", window=3_000, ask=tell_what_is_seen) as session:
        for turn in range(40):
            role = "assistant" if turn % 2 else "user"
            session.say({"role": role, "content": f"m1x{turn} {'and so it goes ' * 30}"})
        session.compact()
        path = session.log()

    def cut(fold):
        (put,) = fold_messages(fold)
        rest = answers[-1][100:]
        parts = tuple(replace(part, text=part.text.replace(rest, "…")) for part in put.parts)
        return [replace(put, parts=parts, meta={"text": f"{begin}…"})]

    fold_messages, begin = interleavings.fold_messages, answers[-1][:100]
    monkeypatch.setattr(interleavings, "fold_messages", cut)
    longer = begin + " m9x9" * 99
    assert list(interleavings._folds_wrong(path, [*answers, longer])) == []
    assert "had not seen" in next(interleavings._folds_wrong(path, [longer]))
