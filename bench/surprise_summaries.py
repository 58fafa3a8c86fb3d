"""Views with a summary that the reader itself writes: ours, and a plain summary with a tail.

A fold asks in the middle of its work. To write many summaries together, folds are tried in rounds: a question
without an answer fails, is written down, and all questions of a round are answered in batches.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bench.processes import map_in_processes
from bench.surprise_cases import Case, Wire, count_messages, find_system, message_text, speaker
from bench.surprise_model import ChatPrompt, Reader, TokenCounter
from bench.surprise_views import fold_to_target, keep_tail, name_session, play_session

import refold

SUMMARY_AND_TAIL, REFOLD_SUMMARY = "summary and tail", "refold with summary"
SUMMARY_METHODS: Final = (REFOLD_SUMMARY, SUMMARY_AND_TAIL)
SUMMARY_TOKENS: Final = 400
SUMMARY_SHARE: Final = 0.4
"""Most of a small budget that a summary takes; the tail has the rest."""
ROUNDS: Final = 6
"""A fold asks again when its target was lowered, or when it asks for several parts; a session folds again."""
PROMPT_TOKENS: Final = 200
"""Of the instructions around a conversation that is summarised."""
SYSTEM: Final = "You are a helpful assistant that summarises conversations."
PROMPT: Final = (
    "Summarise the conversation below so that another engineer can go on with the work: task and rules of "
    "the user, decisions, files and code touched with paths and names, errors and their fixes, current "
    "state and next step. Be complete and concrete, at most {words} words."
    "\n\n<conversation>\n{talk}\n</conversation>"
)


@dataclass(slots=True)
class AnswerTable:
    """Answers to the questions that were asked so far, and questions that wait for one."""

    answers: dict[ChatPrompt, str] = field(default_factory=dict)
    waiting: dict[ChatPrompt, None] = field(default_factory=dict)

    def answer_waiting(self, reader: Reader) -> int:
        """Let the reader answer what waits; return the number of questions."""
        prompts = list(self.waiting)
        self.waiting.clear()
        self.answers.update(zip(prompts, reader.write(prompts, SUMMARY_TOKENS), strict=True))
        return len(prompts)


@dataclass(slots=True)
class FoldAsk:
    """The summariser of one fold: answers from a table, and fails where the answer is not there yet."""

    table: AnswerTable
    window: int
    is_waiting: bool = False

    def __call__(self, question: Any) -> str:
        """Return the answer from the table."""
        prompt = ChatPrompt(question.system or "", question.text)
        if prompt not in self.table.answers:
            if not self.is_waiting:  # what a fold asks after a failure depends on the answer it did not get
                self.table.waiting[prompt] = None
            self.is_waiting = True
            raise refold.RefoldError("the answer is not written yet")
        return self.table.answers[prompt]

    def try_ask(self, question: refold.Ask) -> str:
        """Return the answer, or nothing while it is not written."""
        prompt = ChatPrompt(question.system or "", question.text)
        if prompt not in self.table.answers:
            self.table.waiting[prompt] = None
        return self.table.answers.get(prompt, "")


@dataclass(frozen=True, slots=True)
class SummaryRounds:
    """Views whose questions are answered together, round after round."""

    reader: Reader
    jobs: int
    progress: Callable[[str], None]

    def make_views(self, keys: Sequence[Any], make: Callable[[Any, FoldAsk], Wire]) -> dict[Any, Wire]:
        """Make the view of each key; those that wait for an answer are made again in the next round."""
        table, left = AnswerTable(), list(keys)
        views: dict[Any, Wire] = {}
        for number in range(ROUNDS + 1):

            def try_key(key: Any) -> tuple[Wire, list[ChatPrompt]]:
                ask = FoldAsk(AnswerTable(table.answers), self.reader.window)
                return make(key, ask), list(ask.table.waiting)

            made = list(map_in_processes(try_key, left, self.jobs))
            views |= {key: view for key, (view, _) in zip(left, made, strict=True)}
            left = [key for key, (_, waiting) in zip(left, made, strict=True) if waiting]
            if not left or number == ROUNDS:
                break
            table.waiting = {prompt: None for _, waiting in made for prompt in waiting}
            asked = table.answer_waiting(self.reader)
            self.progress(f"round {number + 1}: {asked} summaries written for {len(left)} views")
        return views


def make_summary_view(counter: TokenCounter, case: Case, budget: int, method: str, ask: FoldAsk) -> Wire:
    """Return one view with a summary; an unfinished one while its question waits."""
    if method == REFOLD_SUMMARY:
        return fold_to_target(counter, case.prefix, budget, ask)
    return keep_summary_and_tail(counter, case.prefix, budget, ask)


def keep_summary_and_tail(counter: TokenCounter, messages: Wire, budget: int, ask: FoldAsk) -> Wire:
    """Summarise what does not fit, and keep as much of the end as fits beside the summary."""
    system = find_system(messages)
    room = min(SUMMARY_TOKENS, int(budget * SUMMARY_SHARE))
    tail = keep_tail(counter, messages, budget - room, system)
    left = messages[len(system) : len(messages) - len(tail) + len(system)]
    parts = split_messages(counter, left, ask.window - room - PROMPT_TOKENS)
    summaries = [ask.try_ask(summary_question(part, room // len(parts))) for part in parts]
    summary = cut_text(counter, "\n".join(summaries), room)
    text = f"Summary of the conversation so far:\n{summary}"
    first = [*system, {"role": "user", "content": text}]
    return keep_tail(counter, [*first, *messages[len(system) :]], budget, first)


def split_messages(counter: TokenCounter, messages: Wire, most: int) -> list[Wire]:
    """Split messages into parts that the reader takes, in order."""
    parts: list[Wire] = []
    tokens = most
    for message in messages:
        size = count_messages(counter, [message])
        if tokens + size > most:
            parts.append([])
            tokens = 0
        parts[-1].append(message)
        tokens += size
    return parts


def summary_question(messages: Wire, room: int) -> refold.Ask:
    """Return the question for a plain summary; 100 tokens are about 70 words."""
    talk = "\n\n".join(f"[{speaker(message)}] {message_text(message)}" for message in messages)
    return refold.Ask(PROMPT.format(words=int(room * 0.7), talk=talk), system=SYSTEM)


def cut_text(counter: TokenCounter, text: str, most: int) -> str:
    """Cut a text at its end until it has at most so many tokens."""
    while (tokens := counter.count(text)) > most:
        text = text[: int(len(text) * most / tokens * 0.98)]
    return text


def make_summary_views(
    rounds: SummaryRounds,
    cases: Sequence[Case],
    shares: Sequence[float],
    windows: Sequence[int],
    methods: Sequence[str],
) -> dict[tuple[int, str], Wire]:
    """Return the views with summaries, by the number of the case and the name of the view."""
    named = {f"{method}, {share:.0%}": (share, method) for share in shares for method in methods}
    sessions = {f"{REFOLD_SUMMARY}, {name_session(window)}": window for window in windows}
    names = [*named, *(sessions if REFOLD_SUMMARY in methods else ())]

    def make(key: tuple[int, str], ask: FoldAsk) -> Wire:
        case, name = cases[key[0]], key[1]
        if name in sessions:
            return play_session(case.prefix, sessions[name], ask)
        share, method = named[name]
        return make_summary_view(rounds.reader, case, int(case.tokens * share), method, ask)

    views = rounds.make_views([(number, name) for number in range(len(cases)) for name in names], make)
    # A session that did not fold has nothing to show.
    return {
        (number, name): view
        for (number, name), view in views.items()
        if name in named or count_messages(rounds.reader, view) < cases[number].tokens
    }
