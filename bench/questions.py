"""Questions about long talks, answered by a real model from a folded view.

    python -m bench.questions DATA --model qwen.gguf --questions 120 --json bench/results/questions.json

The questions of LoCoMo and LongMemEval are answered by the same small model from

    whole talk             the talk, or its newest part where the reader takes no more
    whole talk and recall  the same, then the best hits of a search for the question
    tail                   the newest messages
    summary and tail       a summary by the same model of what is older, then the newest messages
    refold                 the folded view
    refold and recall      a smaller folded view, then the best hits of `session.recall(question)`

All but the first two have the same tokens: a share of the talk, counted by the reader's own tokenizer, and at
most what the reader takes. Each message begins with its day, where the data tell it. Answers are short and
greedy. *F1* is the overlap of words with the right answer, as LoCoMo scores it: in small letters, without
articles and punctuation. *Answered* counts answers with an F1 of at least 0.5, and those that contain the
right answer. Intervals are bootstrapped over talks.
"""

import argparse
import os
import random
import re
import string
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from bench.processes import map_in_processes
from bench.questions_views import (
    METHODS,
    SUMMARY,
    WHOLE_METHODS,
    WHOLE_RECALL,
    TalkViews,
    TextCounter,
    join_messages,
    prepare_talk,
    talk_budget,
)
from bench.surprise import show_progress
from bench.surprise_cases import Wire
from bench.surprise_model import ChatPrompt, Reader, ReaderModel, TokenCounter
from bench.surprise_summaries import FoldAsk, SummaryRounds, keep_summary_and_tail
from bench.surprise_table import format_markdown, measure_share, print_rows, write_json, write_markdown

from refold.evals.datasets import Dataset, Question, Talk, read_dataset

Progress = Callable[[str], None]
SHARES: Final = (0.1, 0.25)
MOST_TOKENS: Final = 30_000
"""Of a context: a small reader's window of 32k, less the instructions, the question and the answer."""
ANSWER_TOKENS: Final = 48
ANSWERED_F1: Final = 0.5
SYSTEM: Final = "You answer questions about earlier conversations. You answer in a few words."
PROMPT: Final = (
    "What follows is what is remembered of earlier conversations.\n\n<memory>\n{memory}\n</memory>\n\n"
    "Answer the question from the memory with a short phrase, not a sentence; use its exact words, and dates "
    "where it has them.\n\nQuestion: {question}\nShort answer:"
)
_ARTICLES: Final = re.compile(r"\b(?:a|an|the|and)\b")
_MARKS: Final = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True, slots=True)
class Asked:
    """A question about a talk."""

    kind: str
    talk: Talk
    question: Question


@dataclass(slots=True)
class Answered:
    """What the reader answered from one view."""

    kind: str
    talk: str
    question: str
    right: str
    method: str
    size: str
    said: str
    f1: float
    is_right: bool
    tokens: int
    talk_tokens: int


def normalize_answer(text: str) -> list[str]:
    """Return the words of an answer as LoCoMo compares them.

    >>> normalize_answer("The 7 May, 2023")
    ['7', 'may', '2023']
    """
    return _ARTICLES.sub(" ", text.lower().translate(_MARKS)).split()


def score_f1(said: str, right: str) -> float:
    """Return the overlap of words between an answer and the right one.

    >>> score_f1("on 7 May", "7 May 2023")
    0.6666666666666666
    """
    mine, wanted = normalize_answer(said), normalize_answer(right)
    shared = sum((Counter(mine) & Counter(wanted)).values())
    if not shared:
        return 0.0
    precision, recall = shared / len(mine), shared / len(wanted)
    return 2 * precision * recall / (precision + recall)


def contains_answer(said: str, right: str) -> bool:
    """True if the words of the right answer stand in an answer, in order.

    >>> contains_answer("It was 7 May 2023, I think", "7 May 2023")
    True
    """
    wanted = " ".join(normalize_answer(right))
    return bool(wanted) and f" {wanted} " in f" {' '.join(normalize_answer(said))} "


def date_talk(talk: Talk) -> Talk:
    """Write its day before each message: a hit of a search stands alone."""
    if len(talk.dates) != len(talk.messages):
        return talk
    messages = [
        {**message, "content": f"[{date}] {message['content']}"}
        for message, date in zip(talk.messages, talk.dates, strict=True)
    ]
    return replace(talk, messages=messages)


def choose_questions(dataset: Dataset, most: int, seed: int, kinds: Sequence[str]) -> list[Asked]:
    """Choose questions by the seed, as many from each collection."""
    chosen: list[Asked] = []
    chance = random.Random(seed)  # noqa: S311  # the same questions for everybody
    for kind, talks in dataset.asked():
        dated = [date_talk(talk) for talk in talks]
        found = [Asked(kind, talk, question) for talk in dated for question in talk.questions]
        chosen += chance.sample(found, min(most, len(found))) if kind in kinds else []
    return chosen


def prepare_talks(
    counter: TokenCounter, asked: Sequence[Asked], options: argparse.Namespace, progress: Progress
) -> dict[str, TalkViews]:
    """Prepare the talks of all questions, in several processes."""
    talks = list({talk_key(each): each.talk for each in asked}.items())
    counter.count("")  # loads the tokenizer before processes are forked

    def prepare(number: int) -> tuple[int, Mapping[int, Wire], Mapping[str, Sequence[str]]]:
        made = prepare_talk(counter, talks[number][1], options)
        return made.tokens, made.folded, made.hits

    views = {}
    for number, made in enumerate(map_in_processes(prepare, range(len(talks)), options.jobs)):
        key, talk = talks[number]
        views[key] = TalkViews(counter, talk, *made)
        progress(f"{number + 1} of {len(talks)} talks prepared")
    return views


def talk_key(asked: Asked) -> str:
    """Return the name of a talk among all collections."""
    return f"{asked.kind} {asked.talk.name}"


def dated_question(question: Question) -> str:
    """Return a question with the day on which it is asked."""
    return f"{question.text} (asked on {question.date})" if question.date else question.text


def list_sizes(method: str, shares: Sequence[float]) -> Sequence[float]:
    """Return the sizes of a method: the whole talk has one."""
    return (1.0,) if method in WHOLE_METHODS else shares


@dataclass(frozen=True, slots=True)
class Memory:
    """What the reader gets for one question by one method."""

    asked: Asked
    method: str
    size: str
    text: str
    talk_tokens: int

    @property
    def prompt(self) -> ChatPrompt:
        """The question to the reader."""
        question = dated_question(self.asked.question)
        return ChatPrompt(SYSTEM, PROMPT.format(memory=self.text, question=question))


def make_memories(
    views: Mapping[str, TalkViews],
    summaries: Mapping[tuple[str, float], Wire],
    asked: Sequence[Asked],
    options: argparse.Namespace,
) -> Iterator[Memory]:
    """Yield what the reader gets, for each question, method and size."""
    for each in asked:
        made = views[talk_key(each)]
        for method in options.methods:
            for share in list_sizes(method, options.share):
                if method == SUMMARY:
                    text = join_messages(summaries[talk_key(each), share])
                else:
                    is_all = method == WHOLE_RECALL
                    budget = options.most_tokens if is_all else talk_budget(made.tokens, share, options)
                    text = made.make_memory(method, budget, each.question.text)
                yield Memory(each, method, f"{share:.0%}", text, made.tokens)


def write_summaries(
    reader: Reader, views: Mapping[str, TalkViews], options: argparse.Namespace, progress: Progress
) -> dict[tuple[str, float], Wire]:
    """Return the views with a plain summary by the reader, by talk and share."""
    keys = [(name, share) for name in views for share in options.share if SUMMARY in options.methods]

    def make(key: tuple[str, float], ask: FoldAsk) -> Wire:
        made, asks = views[key[0]], replace(ask, window=options.most_tokens)
        budget = talk_budget(made.tokens, key[1], options)
        return keep_summary_and_tail(made.counter, made.talk.messages, budget, asks)

    return SummaryRounds(reader, 1, progress).make_views(keys, make) if keys else {}


def answer_questions(reader: Reader, memories: Sequence[Memory], progress: Progress) -> list[Answered]:
    """Let the reader answer every question from every view."""
    answers: list[Answered] = []
    # prompts of one size go together, so that a batch is not mostly padding
    ordered = sorted(memories, key=lambda memory: len(memory.text))
    for begin in range(0, len(ordered), GROUP):
        part = ordered[begin : begin + GROUP]
        said = reader.write([memory.prompt for memory in part], ANSWER_TOKENS)
        answers += [judge(memory, text, reader) for memory, text in zip(part, said, strict=True)]
        progress(f"{len(answers)} of {len(memories)} answers")
    return answers


GROUP: Final = 200
"""Prompts between two lines of progress; they are sorted by size and answered in batches."""


def judge(memory: Memory, said: str, counter: TokenCounter) -> Answered:
    """Compare an answer with the right one."""
    said = said.splitlines()[0] if said else ""
    asked = memory.asked
    right = asked.question.answer
    f1 = score_f1(said, right)
    return Answered(
        kind=asked.kind,
        talk=asked.talk.name,
        question=asked.question.text,
        right=right,
        method=memory.method,
        size=memory.size,
        said=said,
        f1=f1,
        is_right=f1 >= ANSWERED_F1 or contains_answer(said, right),
        tokens=counter.count(memory.text),
        talk_tokens=memory.talk_tokens,
    )


def make_rows(answers: Sequence[Answered]) -> list[dict[str, Any]]:
    """Return the table: one row for each collection, method and size."""
    rows: list[dict[str, Any]] = []
    for kind, method, size in dict.fromkeys((each.kind, each.method, each.size) for each in answers):
        here = [each for each in answers if (each.kind, each.method, each.size) == (kind, method, size)]
        tokens = sum(each.tokens for each in here) / sum(each.talk_tokens for each in here)
        rows.append(
            {
                "kind": kind,
                "method": method,
                "size": size,
                "F1": measure_share((each.talk, (each.f1, 1.0)) for each in here),
                "answered": measure_share((each.talk, (float(each.is_right), 1.0)) for each in here),
                "tokens": round(tokens, 4),
                "questions": len(here),
                "talks": len({each.talk for each in here}),
            }
        )
    return sorted(rows, key=lambda row: (row["kind"], size_order(row["size"]), METHODS.index(row["method"])))


def size_order(size: str) -> float:
    """Return where a size stands in the table: the whole talk first."""
    return 0.0 if size == "100%" else float(size.rstrip("%"))


def parse_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("data", type=Path, help="a folder with LoCoMo or LongMemEval")
    add("--model", type=Path, action="append", required=True, help="a GGUF file or a Hugging Face folder")
    add("--cache", type=Path, help="keep unpacked weights here")
    add("--questions", type=int, default=120, help="questions of each collection at most")
    add("--kind", choices=("locomo", "longmemeval"), action="append", help="both by default")
    add("--methods", help=f"names with commas between them; all by default: {', '.join(METHODS)}")
    add("--share", type=float, action="append", help="tokens of a view; 0.1 and 0.25 by default")
    add("--most-tokens", type=int, default=MOST_TOKENS, help="of a context that the reader takes")
    add("--seed", type=int, default=3)
    add("--jobs", type=int, default=os.cpu_count() or 1, help="processes that fold talks")
    add("--json", type=Path, help="write the tables and every answer to this file")
    add("--markdown", type=Path, help="write the tables to this file, or between its markers")
    options = parser.parse_args()
    options.methods = [name.strip() for name in options.methods.split(",")] if options.methods else METHODS
    options.share, options.kind = options.share or SHARES, options.kind or ("locomo", "longmemeval")
    return options


def main() -> None:
    """Measure, print the tables, write them."""
    options = parse_options()
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    asked = choose_questions(read_dataset(options.data), options.questions, options.seed, options.kind)
    command, shares = "python -m bench.questions DATA --model FILE", ("F1", "answered")
    results, tables = [], []
    readers = [ReaderModel(model, options.cache) for model in options.model]
    views = prepare_talks(TextCounter(readers[0]), asked, options, show_progress)
    for reader in readers:
        began = time.monotonic()
        summaries = write_summaries(reader, views, options, show_progress)
        memories = list(make_memories(views, summaries, asked, options))
        answers = answer_questions(reader, memories, show_progress)
        rows = make_rows(answers)
        print_rows(rows, shares, "kind")
        result = {"model": reader.name, "device": reader.device, "seconds": round(time.monotonic() - began)}
        results.append({**result, "rows": rows, "answers": [asdict(each) for each in answers]})
        write_json(options.json, {"command": command, "seed": options.seed, "readers": results})
        for kind in options.kind:
            mine = [row for row in rows if row["kind"] == kind]
            title = f"{kind}, read by {reader.name}"
            tables.append(format_markdown(title, mine, shares, ("questions", "talks")))
    write_markdown(options.markdown, "questions", command, tables)


if __name__ == "__main__":
    main()
