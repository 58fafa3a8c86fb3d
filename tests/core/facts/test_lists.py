"""What an assistant listed in its answers: names, and nothing but names."""

import refold
from refold.core.facts.extraction import find_facts
from refold.core.facts.ledger import Fact, Ledger
from refold.core.facts.lists import ListAnswer, fill_lists, find_listed_names, may_hold_list
from refold.core.facts.page import LISTED, Page
from refold.core.facts.read_page import read_page
from refold.testing import assistant, call_part, user

SHOPS = """Gladly! Lisbon is sweet. Here are dessert shops near the harbour:

1. The Copper Spoon - A shop located at Ferry Square that sells giant waffles.
2. **Manteigaria**: pastries all day.
3. Ask around (people know more than pages).
"""
TIPS = "Some tips for sleep:\n- Go to bed early: it helps.\n- Dark Room: use a dark room.\n- Less coffee"


def count(text):
    return -(-len(text) // 4)


def told(*answers):
    return [
        (fact.text, fact.about, fact.at)
        for fact in find_listed_names([ListAnswer(at, text) for at, text in answers])
    ]


class TestFinding:
    def test_names_with_their_place_and_what_the_list_was_about(self):
        assert told((7, SHOPS)) == [
            ("The Copper Spoon (Ferry Square)", "dessert shops harbour lisbon", 7),
            ("Manteigaria", "dessert shops harbour lisbon", 7),
        ]

    def test_topics_are_no_names(self):
        assert told((0, TIPS)) == []

    def test_two_lines_are_no_list(self):
        assert told((0, "Look:\n- Manteigaria\n- Nicola")) == []

    def test_what_gives_orders_is_no_name(self):
        assert told((0, "Look:\n- Manteigaria\n- Nicola\n- System Override\n")) == [
            ("Manteigaria", "", 0),
            ("Nicola", "", 0),
        ]

    def test_lists_of_names_weigh_more(self):
        mixed, pure = (
            list(find_listed_names([ListAnswer(0, text)])) for text in (SHOPS, "A:\n- Xu\n- Bo\n- Jo")
        )
        assert mixed[0].weight < pure[0].weight

    def test_only_what_is_said_is_read(self):
        assert may_hold_list(SHOPS)
        assert not may_hold_list("no - list")
        there = [
            fact.text for fact in find_facts([user("Where?"), assistant(SHOPS)]) if fact.kind == "listed"
        ]
        assert there == ["The Copper Spoon (Ferry Square)", "Manteigaria"]
        beside_a_call = assistant(SHOPS, call_part("look", id="a"))
        assert not [fact for fact in find_facts([beside_a_call]) if fact.kind == "listed"]


class TestTelling:
    FACTS = Ledger((Fact("listed", "Nicola", "cafés", 3, 1.8), Fact("listed", "Long; Name", "", 5, 1.2)))

    def page(self, budget, **fields):
        page = Page(count, 1_000, **fields)
        fill_lists(page, self.FACTS, budget)
        return page

    def test_a_line_for_each_list_and_back(self):
        text = self.page(100).text
        assert text == f"## {LISTED}\n- #3 cafés: Nicola\n- #5 a list: Long, Name"
        assert [(fact.text, fact.about, fact.at) for fact in read_page(text).of("listed")] == [
            ("Nicola", "cafés", 3),
            ("Long, Name", "a list", 5),
        ]

    def test_names_of_pure_lists_come_first(self):
        assert self.page(20).text == f"## {LISTED}\n- #3 cafés: Nicola"

    def test_no_room_no_heading(self):
        page = self.page(9)
        assert page.text == ""
        assert page.left == 1_000

    def test_what_is_shown_already_is_not_told(self):
        assert "Nicola" not in self.page(100, seen={"Nicola"}).text

    def test_a_digest_tells_them(self):
        talk = [user("Where do I get dessert in Lisbon?"), assistant(SHOPS)]
        talk += [user("And then? " * 40), assistant("Then you rest a while. " * 60)] * 12
        view = refold.compact([message_of(one) for one in talk], window=9_000, target=1_800, force=True)
        assert "The Copper Spoon (Ferry Square); Manteigaria" in str(view.messages)


def message_of(message):
    return {"role": message.role, "content": message.text}
