"""Which of a user's sentences are told where there is no room for all of them."""

import json
from importlib.resources import files

import pytest

import refold
from refold.core.facts.entities import entity_kind
from refold.core.facts.ledger import Fact, Ledger
from refold.core.facts.page import Page, fill_names, words_and_names
from refold.core.facts.read_page import read_page
from refold.core.facts.sentences import classify_sentence
from refold.core.facts.user_statements import (
    choose_rules,
    choose_statements,
    fill_statements,
    weigh_statements,
)
from refold.core.facts.words import capitalised_words, content_words, shorten_sentence, split_words
from refold.core.messages.speakers import find_speaker_names
from refold.testing import assistant, user


def count(text):
    return -(-len(text) // 4)


def said(*texts):
    return [
        Fact(*classify_sentence(text)[:1], text, "", at, classify_sentence(text)[1])
        for at, text in enumerate(texts)
    ]


class TestWords:
    def test_a_sentence_in_brief(self):
        assert shorten_sentence("By the way, I just got a really good racket.") == "got good racket"
        assert shorten_sentence("The") == "The"
        assert shorten_sentence("Refund 120 euros, I approve it.") == "Refund 120 euros, I approve it"
        assert shorten_sentence("The ") == "The "

    @pytest.mark.parametrize(
        ("said", "brief"),
        [
            ("I'll delete the staging database myself.", "I'll delete staging database myself"),
            ("I'd cancel the contract with Hansen.", "I'd cancel contract with Hansen"),
            ("I need a lamp.", "I need lamp"),
            ("I chose plan A over plan B.", "I chose plan A over plan B"),
            ("So far I added 3.", "So far added 3"),
        ],
    )
    def test_what_somebody_does_himself_is_told_as_no_order(self, said, brief):
        assert shorten_sentence(said) == brief

    def test_telling_words(self):
        assert content_words("I saw 4 of the old cranes, old cranes") == ["saw", "4", "old", "cranes"]
        assert content_words("我住在北京") == ["我住在北京", "我住", "住在", "在北", "北京"]
        assert split_words("Don’t go") == ["don't", "go"]
        assert capitalised_words("The man met Ada in Rome") == ["Ada", "Rome"]

    def test_what_a_name_is(self):
        assert entity_kind("UserStore") == "classes"
        assert [entity_kind(name) for name in ("MF-2025-41870", "PP5-88213-C", "s/engine_version")] == [
            "ids"
        ] * 2 + ["functions and variables"]
        assert entity_kind("plain") == ""

    def test_what_stands_in_a_text(self):
        assert {"src/a/b.py", "a/b.py", "b.py", "run_it"} <= set(words_and_names("see src/a/b.py. run_it()"))


HOLDS = (
    "The kitchen closes at nine.",
    "You can skip the greetings.",
    "Reports go to Maria, not Tom.",
    "My mother can't climb stairs.",
    "Nobody but Lena signs.",
    "Die Daten bleiben in Frankfurt.",
    "请用简体中文回答。",
    "When in doubt, the older contract wins.",
    "Leave the comments as they are.",
    "One question at a time, please.",
    "We decided against Kubernetes for good.",
    "Ines from the vendor is our contact, her extension is 18.",
)
PASSES = (
    "I'd like to book a flight on May 20.",
    "I'm looking for a new chair.",
    "That sounds great!",
    "Keep it up!",
    "She must have been tired.",
    "Could you check the weather?",
    "I bought two chairs yesterday.",
    "I like the idea of a daily walk.",
    "I'll tell you which one was my favourite.",
    "Next, I'm actually planning to paint every wall.",
    "Additionally, I plan to walk every day.",
    "Speaking of which, I recently applied all the decals.",
    "Maybe it could all be cheaper.",
    "if (f.has_default() and",
    "% Call the solver for each value.",
    "Here's the list of all my cards.",
    "When I was there I saw all of it.",
    "By the way.",
    "Yes",
)


@pytest.mark.parametrize("sentence", HOLDS)
def test_what_holds_beyond_the_moment(sentence):
    assert classify_sentence(sentence)[0] in {"constraint", "standing", "preference"}


@pytest.mark.parametrize("sentence", PASSES)
def test_what_passes_with_the_moment(sentence):
    assert classify_sentence(sentence)[0] in {"statement", "request"}


def test_a_rule_without_content_words_is_kept_too():
    assert choose_rules(weigh_statements([Fact("constraint", "Do not.", weight=4.5)]))


class TestChoice:
    def test_rare_rules_come_first_and_each_once(self):
        facts = said(
            "Never book the morning flight.",
            "Never book the late flight.",
            "Never book the flight.",
            "Never wake grandmother.",
        )
        assert [fact.text for fact in choose_rules(weigh_statements(facts))] == [
            "Never wake grandmother.",
            "Never book the late flight.",
            "Never book the morning flight.",
        ]

    def test_the_name_of_a_speaker_adds_nothing(self):
        """Everybody in a talk is named again and again, so that a name tells nothing of a sentence."""
        greeting = Fact("statement", "Thanks Ada", "Ben", 0, 2.6)
        other = Fact("statement", "Thanks Rome", "Ada", 1, 2.6)
        values = weigh_statements([greeting, other]).value_words()
        assert values["ada"] == 0.0
        assert values["rome"] > 0.0

    def test_sentences_that_add_most_win(self):
        facts = said(
            "I bought 4 chairs in Lisbon.",
            "I bought 4 chairs in Lisbon again and again and so on and on.",
            "Could you help me with some chairs?",
            "I adopted a cat called Muffin.",
        )
        kept = choose_statements(weigh_statements(facts), [], lambda fact: count(fact.text), 16)
        assert [fact.at for fact in kept] == [0, 3]

    def test_what_has_no_telling_word_is_worth_nothing(self):
        facts = said("So it was.", "I adopted a cat called Muffin.")
        assert [
            fact.at for fact in choose_statements(weigh_statements(facts), facts[1:], lambda _: 3, 9)
        ] == [0]


class TestPeople:
    TALK = ["Ada: I moved to Lisbon in 2019 with my dog Rex.", "Ben: I paint boats in Porto on weekends."] + [
        "Ada: I like that so very much, it is good.",
        "Ben: That is so nice of you, my friend.",
    ] * 3

    def test_names_in_front_are_speakers(self):
        assert find_speaker_names([user(text) for text in self.TALK]) == {"Ada", "Ben"}
        assert (
            find_speaker_names([user("Note: a"), user("Note: b"), user("Note: c"), *[user("so")] * 9])
            == set()
        )

    def test_each_speaks_in_a_line_and_is_read_back(self):
        """Grouped by who spoke, each piece with the number of its message."""
        facts = [
            Fact("statement", text.partition(": ")[2], text.partition(": ")[0], at, 2.6)
            for at, text in enumerate(self.TALK)
        ]
        page = Page(count, 44)
        fill_statements(page, Ledger().merge(facts), 44)
        assert page.text == (
            "## What was told, in brief\n- Ada: #0 moved to Lisbon in 2019 with my dog Rex\n"
            "- Ben: #1 I paint boats in Porto on weekends"
        )
        assert [(fact.about, fact.at) for fact in read_page(page.text).facts] == [("Ada", 0), ("Ben", 1)]

    @pytest.mark.parametrize("beside", [[], [Fact("answer", "It rained in Porto.", "", 11, 2.0)]])
    def test_kindness_has_no_share_of_the_rules(self, beside):
        """Where people talk to each other what seems to hold is worth what it tells.

        A recorded talk may give one of the two the role of the assistant.
        """
        kind = [Fact("standing", f"No worries at all, friend {at}.", "Ada", at, 3.9) for at in range(9)]
        told = Fact("statement", "I moved to Lisbon in 2019 with my dog Rex.", "Ben", 9, 2.6)
        rule = Fact("constraint", "Never wake me before nine, I work nights.", "Ben", 10, 5.0)
        page = Page(count, 420)
        fill_statements(page, Ledger().merge([*kind, told, rule, *beside]), 60)
        assert "Ben: #9 moved to Lisbon" in page.text
        assert "No worries" not in page.text.partition("## What was told")[0]

    def test_what_people_say_to_a_model_may_be_a_rule_for_it(self):
        said = [
            Fact("standing", f"Reports of team {at} are weekly.", "Ada" if at % 2 else "Ben", at, 3.9)
            for at in range(9)
        ]
        done = Fact("done", "make all", "built", 10, 2.0)
        page = Page(count, 420)
        fill_statements(page, Ledger().merge([*said, done]), 70)
        assert "Ada: Reports of team" in page.text.partition("## What was told")[0]

    def test_rules_may_have_more_than_the_rest(self):
        """What they may have in any case does not let others have more."""
        facts = [Fact("constraint", f"Never wake number {at} before nine.", "", at, 5.0) for at in range(4)]
        told = [
            Fact("statement", f"I moved to town {at} in 2019 with my dog.", "", at, 2.6) for at in range(9)
        ]
        page = Page(count, 420)
        fill_statements(page, Ledger().merge([*facts, *told]), 24, rules_budget=70)
        assert page.text.count("Never wake") == 4
        assert "moved" not in page.text

    def test_several_pieces_of_one_message(self):
        text = "## What was told, in brief\n- #3 one thing … another … #9 third … "
        assert [(fact.text, fact.at) for fact in read_page(text).facts] == [
            ("one thing", 3),
            ("another", 3),
            ("third", 9),
        ]

    def test_a_rule_of_somebody_is_told_with_the_name(self):
        page = Page(count, 90)
        fill_statements(page, Ledger().merge([Fact("constraint", "Never wake me.", "Ada", 4, 5.0)]), 90)
        assert page.text.endswith("- #4 Ada: Never wake me.")


class TestNames:
    def test_one_line_tells_a_path_and_what_ends_it(self):
        page = Page(count, 500)
        facts = [
            Fact("file", "a/b.py", "changed", 4, 3.2),
            Fact("file", "/src/a/b.py", "read", 9, 2.7),
            Fact("name", "b.py", "files", 9, 2.7),
            Fact("name", "load_it", "a/b.py", 9, 1.0),
            Fact("name", "seen_only", "other/c.py", 9, 1.0),
        ]
        fill_names(page, Ledger().merge(facts), 500)
        assert page.text == (
            "## Files\n- /src/a/b.py (changed #4): load_it\n\n"
            "## Names and values\n- functions and variables: seen_only"
        )

    def test_a_file_that_was_changed_stays_changed(self):
        page = Page(count, 500)
        facts = [
            Fact("file", "/home/u/src/b.py", "read", 1, 2.7),
            Fact("file", "src/b.py", "changed", 4, 3.2),
        ]
        fill_names(page, Ledger().merge(facts), 500)
        assert page.text == "## Files\n- changed: /home/u/src/b.py #4"

    @pytest.mark.parametrize(
        ("other", "changed"),
        [
            (Fact("file", "packages/core/index.ts", "read", 1, 2.7), "index.ts"),
            (Fact("file", "packages/core/index.ts", "read", 1, 2.7), "core/index.ts"),
            (Fact("name", "/home/u/old/src/b.py", "paths", 1, 2.7), "src/b.py"),
        ],
    )
    def test_a_file_is_not_told_under_the_path_of_another(self, other, changed):
        page = Page(count, 500)
        fill_names(page, Ledger().merge([other, Fact("file", changed, "changed", 4, 3.2)]), 500)
        assert f"- changed: {changed} #4" in page.text

    def test_what_is_shown_is_not_told(self):
        page = Page(count, 500, seen={"load_it"})
        fill_names(page, Ledger().merge([Fact("name", "load_it", "x", 9, 1.0)]), 500)
        assert page.text == ""


SMALL_TALK = (
    "Thanks, that looks right to me. Could you move item {n} to the other list?",
    "I'd like to change the booking {n} to the day after. What would that cost me?",
    "Great, go ahead with option {n}. I was thinking about lunch earlier.",
    "I paid invoice {n} yesterday, and the courier came at noon. Is that all?",
    "Sounds good! I'm looking for {n} chairs that fit under the desk in my room.",
)


@pytest.mark.slow
def test_rules_in_any_words_last_ten_folds():
    """Nine in ten of the developing set, planted once, with small talk before and after each fold."""
    rows = json.loads(files("refold.evals").joinpath("data/constraints.json").read_text("utf-8"))["develop"]
    kept = 0
    for start in range(0, len(rows), 14):
        group = rows[start : start + 14]
        history = [user("Hello, let us begin."), *(user(row["rule"]) for row in group)]
        for fold in range(10):
            talk = [SMALL_TALK[n % 5].format(n=fold * 40 + n) for n in range(40)]
            history += [said for text in talk for said in (user(text), assistant("All right. " * 12))]
            outcome = refold.compact(history, policy="refold", window=40_000, target=1_500, force=True)
            history = list(outcome.messages)
        lines = "\n".join(message.text for message in history).lower().split("\n")
        kept += sum(
            any(all(word.lower() in line for word in row["probe"]) for line in lines) for row in group
        )
    assert kept >= 0.9 * len(rows)
