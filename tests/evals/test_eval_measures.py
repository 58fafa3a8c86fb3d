"""The measures of retention: each can fail, and each sees what it should see."""

import eval_data
import pytest

from refold.evals.datasets import Dataset, Question, Run, Talk, read_dataset
from refold.evals.measures import answers, planted_facts, reuse, templates
from refold.evals.methods import Comparison, Method, count_tokens, fold_to_tail, open_methods
from refold.evals.peers import PeerFailed, PeerLate
from refold.evals.tables import Tally, bootstrap_interval, make_row

KEEP = Method("all", lambda history, _budget, _ask: history)
NONE = Method("nothing", lambda history, _budget, _ask: history[:1])


def contest(*ways, ask=None):
    return Comparison(ways, ask, lambda *_: None)


def kept(rows):
    return {(one["measure"], one["way"]): one["kept"] for one in rows}


def test_what_is_used_again_is_what_was_seen_before_the_cut_and_not_since():
    history = eval_data.run()
    assert reuse.find_reused(history, 50) == {"src/paint_1.py", "paint_1_3", "src/tiles_5.py"}
    history[55] = {"role": "user", "content": "paint_1_3 again"}
    assert "paint_1_3" not in reuse.find_reused(history, 50)


def test_a_name_counts_as_a_whole_word_only():
    assert reuse.has_name("see paint_1_3.", "paint_1_3")
    assert not reuse.has_name("see paint_1_33 and xpaint_1_3", "paint_1_3")


def test_reuse_is_full_with_everything_and_none_with_nothing():
    run = Run("r", eval_data.run())
    found = kept(reuse.measure_reuse("runs", [run], contest(KEEP, NONE), (0.1,)))
    assert found == {("re-use, runs, 10%", "all"): 1.0, ("re-use, runs, 10%", "nothing"): 0.0}


def test_a_transcript_is_measured_beside_its_own_summary(tmp_path):
    (run,) = read_dataset(eval_data.write_all(tmp_path) / "code").transcripts
    rows = list(reuse.measure_reuse("transcripts", [run], contest(KEEP, *open_methods(["refold"])), (0.1,)))
    own = {one["way"]: one for one in rows if one["measure"].endswith("their own compactions")}
    assert 0 < own[reuse.OWN]["kept"] < 1
    assert own["all"]["kept"] == 1.0
    assert set(own) == {reuse.OWN, "all", "refold", "tail", "sliding window"}


def test_an_answer_word_counts_beside_its_neighbour_only():
    talk = Talk("t", [{"role": "user", "content": "I paid 840 euros for it."}], (Question("?", "840", (0,)),))
    assert answers.find_answer_pairs(talk.questions[0], talk) == {"840": ["paid 840", "840 euros"]}


def test_an_answer_word_counts_plainly_wherever_it_stands():
    talk = Talk("t", [{"role": "user", "content": "I paid 840 euros for it."}], (Question("?", "840", (0,)),))
    far = Method("far", lambda *_: [{"role": "user", "content": "Bus 840 leaves, 8400 stays."}])
    near = Method("near", lambda *_: [{"role": "user", "content": "paid 840 for it"}])
    kinds = (answers.ANYWHERE, answers.WORDS)
    rows = list(answers.measure_answers("t", [talk], contest(far, near, NONE), (0.1,), kinds))
    assert kept(rows) == {
        ("answer words, t, 10%", "far"): 1.0,
        ("answer words, t, 10%", "near"): 1.0,
        ("answer words, t, 10%", "nothing"): 1.0,
        ("answers, t, 10%", "far"): 0.0,
        ("answers, t, 10%", "near"): 1.0,
        ("answers, t, 10%", "nothing"): 1.0,
    }


def test_answers_with_recall_find_what_the_view_lost(tmp_path):
    talks = read_dataset(eval_data.write_all(tmp_path) / "lme").longmemeval
    found = kept(answers.measure_answers("lme", talks, contest(KEEP, NONE), (0.1,)))
    assert found["answers, lme, 10%", "all"] == 1.0
    assert found["answers, lme, 10%", "nothing"] == 0.0
    assert found["answers with recall, lme, 10%", "nothing"] == 1.0


def broken(failure):
    def fold(*_):
        raise failure("it is out of order")

    return Method("broken", fold)


def test_where_one_way_fails_the_others_are_measured_and_it_is_said(tmp_path):
    run, talks = Run("r", eval_data.run()), read_dataset(eval_data.write_all(tmp_path) / "lme").longmemeval
    pool = planted_facts.collect_talks(Dataset(), 0)
    ways = contest(KEEP, broken(PeerFailed))
    for rows in (
        list(reuse.measure_reuse("runs", [run], ways, (0.1,))),
        list(answers.measure_answers("lme", talks, ways, (0.1,), (answers.WORDS,))),
        list(planted_facts.measure_planted("facts", planted_facts.make_facts(5, 0), pool, ways, (1, 2))),
    ):
        whole, failed = rows[0], [one for one in rows if one["way"] == "broken"]
        assert whole["kept"] == 1.0
        assert "failed" not in whole
        assert all(one["failed"] == one["folds_tried"] > 0 and not one["of"] for one in failed)
        assert {one["why"] for one in failed} == {"it is out of order"}


def test_whoever_is_late_again_and_again_is_given_up_until_the_next_measure():
    ways = contest(broken(PeerLate))
    tried = [ways.trial(ways.methods[0], [], 1).why for _ in range(4)]
    assert tried[:2] == ["it is out of order"] * 2
    assert tried[2:] == ["given up after 2 folds that ended late"] * 2
    ways.begin()
    assert ways.trial(ways.methods[0], [], 1).why == "it is out of order"


def test_a_row_tells_what_was_asked_and_what_was_allowed():
    asking = Method("asking", lambda history, _budget, ask: [ask("?"), ask("?")] and history)
    (found,) = reuse.measure_reuse("runs", [Run("r", eval_data.run())], contest(asking, ask=str), (0.1,))
    assert found["asks"] == 2
    assert found["tokens"] == 1.0
    assert found["of_budget"] > 5


def test_a_model_that_reads_the_view_is_judged_by_words(tmp_path):
    talks = read_dataset(eval_data.write_all(tmp_path) / "lme").longmemeval

    def model(question):
        return "It was 840 euros." if "840 euros" in question else "The memory does not tell."

    found = kept(answers.measure_answers("lme", talks, contest(KEEP, NONE, ask=model), (0.1,)))
    assert found["answered by the model, lme, 10%", "all"] == 1.0
    assert found["answered by the model, lme, 10%", "nothing"] == 0.0


def test_recall_is_measured_in_a_real_session(tmp_path):
    talks = read_dataset(eval_data.write_all(tmp_path) / "loc").locomo
    (found,) = answers.measure_recall("locomo", talks, lambda *_: None)
    assert (found["kept"], found["of"]) == (1.0, 2)


def test_planted_rules_decay_with_a_tail_and_stay_with_everything():
    planted = [
        planted_facts.PlantedFact(f"Never open gate {n} at night.", (f"gate {n}", "never")) for n in range(5)
    ]
    pool = planted_facts.collect_talks(Dataset(), 0)
    rows = list(
        planted_facts.measure_planted(
            "rules", planted, pool, contest(KEEP, Method("tail", fold_to_tail)), (1, 3)
        )
    )
    found = kept(rows)
    assert found["rules, 1 fold", "all"] == found["rules, 3 folds", "all"] == 1.0
    assert found["rules, 3 folds", "tail"] == 0.0
    assert [one["folds"] for one in rows] == [1, 1, 3, 3]


def test_the_sets_of_rules_are_there_and_share_none():
    sets = [planted_facts.read_rules(name) for name in planted_facts.SETS]
    assert all(len(rules) >= 20 for rules in sets)
    every = [one for rules in sets for one in rules]
    assert len({one.text for one in every}) == len(every)
    assert all(one.stands_in(one.text) for one in every)
    assert not any(one.stands_in("Some other line.") for one in every)


def test_planted_facts_are_the_same_for_the_same_seed():
    assert (
        planted_facts.make_facts(12, 1) == planted_facts.make_facts(12, 1) != planted_facts.make_facts(12, 2)
    )
    assert all(fact.stands_in(fact.text) for fact in planted_facts.make_facts(30, 0))


def test_a_template_becomes_a_talk_and_what_is_asked_about_it(tmp_path):
    (template,) = read_dataset(eval_data.write_all(tmp_path) / "cb").templates
    case = templates.make_case(template, 1)
    assert case == templates.make_case(template, 1)
    assert case.items[0].values[0] in case.turns[0]["content"]
    assert templates.has_item(case.items[0], case.turns[0]["content"].upper())
    assert not templates.has_item(case.items[1], case.turns[0]["content"])
    found = kept(
        templates.measure_templates(
            [template], planted_facts.collect_talks(Dataset(), 0), contest(KEEP, NONE), (1,)
        )
    )
    assert found == {("templates, 1 fold", "all"): 1.0, ("templates, 1 fold", "nothing"): 0.0}


def test_a_template_with_a_model_is_judged_by_its_own_checks(tmp_path):
    (template,) = read_dataset(eval_data.write_all(tmp_path) / "cb").templates
    pool = planted_facts.collect_talks(Dataset(), 0)
    rows = templates.measure_templates(
        [template], pool, contest(KEEP, ask=lambda _question: "I cannot tell."), (1,)
    )
    assert kept(rows)["templates answered, 1 fold", "all"] == 0.5


def test_the_interval_is_seeded_and_holds_the_share():
    cases = [(1, 2), (2, 2), (0, 1), (3, 4)] * 10
    low, high = bootstrap_interval(cases)
    assert bootstrap_interval(cases) == (low, high)
    assert low < 0.75 * 0.95 < high
    assert bootstrap_interval([]) == (0.0, 0.0)


def test_a_tally_counts_only_cases_in_which_something_was_wanted():
    tally = Tally()
    tally.add(0, 0, tokens=5, of=50)
    tally.add(1, 2)
    made = make_row("m", "w", tally, folds=3)
    assert (made["kept"], made["of"], made["cases"], made["tokens"], made["folds"]) == (0.5, 2, 1, 0.1, 3)


def test_every_way_stays_within_the_budget():
    history = eval_data.run()
    for way in open_methods(["refold", "opal"]):
        assert count_tokens(way.fold(history, 1_500, None)) <= 1_500 * 1.1, way.name


@pytest.mark.parametrize("said", ["840 Euros", "they paid 840 euros"])
def test_an_answer_is_right_with_enough_of_its_words(said):
    assert answers.is_right_answer(said, "840 euros")
    assert not answers.is_right_answer("a violin", "840 euros")
