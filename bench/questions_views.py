"""What each method makes of a talk: the text that a reader answers questions from."""

import argparse
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.surprise_cases import Wire, count_messages, message_text
from bench.surprise_model import TokenCounter
from bench.surprise_views import fold_to_target, keep_tail

import refold
from refold.evals.datasets import Talk

WHOLE, WHOLE_RECALL, TAIL = "whole talk", "whole talk and recall", "tail"
SUMMARY, REFOLD, REFOLD_RECALL = "summary and tail", "refold", "refold and recall"
METHODS: Final = (WHOLE, WHOLE_RECALL, TAIL, SUMMARY, REFOLD, REFOLD_RECALL)
WHOLE_METHODS: Final = (WHOLE, WHOLE_RECALL)
RECALL_METHODS: Final = frozenset({WHOLE_RECALL, REFOLD_RECALL})
RECALL_SHARE: Final = 0.4
"""Share of the tokens that the hits of a search get; the view has the rest."""
WHOLE_SHARE: Final = 0.85
"""A talk of at most so much of what the reader takes stays whole beside the hits."""
HITS: Final = 50
"""Hits of a search, if there is room for them."""
_TEMPLATE: Final = re.compile(r"<\|im_start\|>\w+\n|<\|im_end\|>")
LEAST_HIT: Final = 20
"""Tokens that are worth another hit."""


@dataclass(frozen=True, slots=True)
class TextCounter:
    """Counts messages without the chat template: the reader gets a memory as one text."""

    reader: TokenCounter

    def count(self, text: str) -> int:
        """Count the tokens of a text."""
        return self.reader.count(_TEMPLATE.sub("", text))


@dataclass(frozen=True, slots=True)
class TalkViews:
    """What the methods make of one talk; folded views serve every question about it."""

    counter: TokenCounter
    talk: Talk
    tokens: int
    folded: Mapping[int, Wire]
    """Folded views by their budget."""
    hits: Mapping[str, Sequence[str]]
    """The texts that a session finds for each question, the best first."""

    def make_memory(self, method: str, budget: int, question: str) -> str:
        """Return the text that the reader gets, for the methods that need no model."""
        if method not in RECALL_METHODS:
            return join_messages(self.folded[budget] if method == REFOLD else self.keep_newest(budget))
        is_whole = method == WHOLE_RECALL and self.tokens <= budget * WHOLE_SHARE
        room = self.tokens if is_whole else recall_room(budget)
        view = join_messages(self.folded[room] if method == REFOLD_RECALL else self.keep_newest(room))
        found = self.take_hits(question, budget - self.counter.count(view))
        return f"{view}\n\nFound for this question:\n{found}"

    def keep_newest(self, budget: int) -> Wire:
        """Return the newest part that fits."""
        return keep_tail(self.counter, self.talk.messages, budget, [])

    def take_hits(self, question: str, most: int) -> str:
        """Return the best hits within so many tokens; the last one is cut."""
        taken: list[str] = []
        for hit in self.hits[question]:
            left = most - self.counter.count("\n".join(taken))
            if left <= LEAST_HIT:
                break
            # four characters a token: talks are prose
            taken.append(hit[: left * 4])
        return "\n".join(taken)


def recall_room(budget: int) -> int:
    """Return the tokens of the view beside the hits of a search."""
    return int(budget * (1 - RECALL_SHARE))


def talk_budget(tokens: int, share: float, options: argparse.Namespace) -> int:
    """Return the tokens of a view: a share of the talk, but not more than the reader takes."""
    return min(int(tokens * share), int(options.most_tokens))


def prepare_talk(counter: TokenCounter, talk: Talk, options: argparse.Namespace) -> TalkViews:
    """Fold a talk to every size that is compared, and search it for every question."""
    tokens = count_messages(counter, talk.messages)
    budgets: set[int] = set()
    for share in options.share:
        budget = talk_budget(tokens, share, options)
        budgets |= {budget} if REFOLD in options.methods else set()
        budgets |= {recall_room(budget)} if REFOLD_RECALL in options.methods else set()
    folded = {budget: fold_to_target(counter, talk.messages, budget) for budget in sorted(budgets)}
    hits = search_talk(talk) if RECALL_METHODS & set(options.methods) else {}
    return TalkViews(counter, talk, tokens, folded, hits)


def search_talk(talk: Talk) -> dict[str, list[str]]:
    """Say a talk in a session and search for each question."""
    with (
        tempfile.TemporaryDirectory() as folder,
        refold.open("talk", store=f"sqlite:{Path(folder) / 'log.db'}") as session,
    ):
        session.say(talk.messages)
        return {
            question.text: [hit.text for hit in session.recall(question.text, limit=HITS)]
            for question in talk.questions
        }


def join_messages(messages: Wire) -> str:
    """Return a view as text; speakers of a talk between people stand in the text itself."""
    return "\n".join(message_text(message) for message in messages)
