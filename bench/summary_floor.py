"""How many good summaries of real models are asked for again because they tell too little.

    python -m bench.summary_floor record DATASET --model local:/path/to.gguf --answers answers.jsonl
    python -m bench.summary_floor record DATASET --reader /path/to.gguf --tokens 2000 --answers answers.jsonl
    python -m bench.summary_floor judge DATASET --answers answers.jsonl --json summary-floor.json

`record` lets models summarise stretches of recorded conversations, through the prompts of the default policy,
and keeps every answer with its case. A model is asked through a client (`--model`), or answers all cases
together on a GPU (`--reader`, needs PyTorch). `judge` gives the answers to the gate again, as often as it
changes, and counts what it says of them. Only counts are written: the conversations stay where they are.
"""

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import refold
from refold.clients import open_client
from refold.evals.datasets import read_dataset

TOKENS: Final = (500, 900, 1_600)
"""Sizes of stretches, in turn; a machine without a GPU reads a hundred tokens a second."""
ANSWER_TOKENS: Final = 220
SECONDS: Final = 3_600
"""For one answer: a busy machine may take long, and who let time run out is not asked again at once."""
THIN: Final = "it tells "
"""How the gate names what this measures."""
Wire = list[dict[str, Any]]


def find_all_cases(args: argparse.Namespace) -> dict[str, Wire]:
    """Return the stretches of all data sets by their names."""
    sizes = args.tokens or TOKENS
    return dict(case for data in args.dataset for case in find_cases(data, args.count, args.seed, sizes))


def find_cases(dataset: Path, count: int, seed: int, sizes: Sequence[int]) -> Iterator[tuple[str, Wire]]:
    """Yield stretches of conversations, each with the request that follows, and a name for each."""
    read = read_dataset(dataset, sample=count, seed=seed, progress=lambda *_: None)
    histories = [run.messages for run in (*read.runs, *read.transcripts)]
    histories += [talk.messages for talk in (*read.talks, *read.longmemeval)]
    chance = random.Random(seed)  # noqa: S311  # the same stretches for everybody
    chance.shuffle(histories)
    for number, history in enumerate(histories[:count]):
        messages = [message for message in history if message["role"] != "system"]
        size, stretch = sizes[number % len(sizes)], messages[:1]
        for message in messages[1:]:
            if refold.count(stretch) >= size and message["role"] in {"user", "assistant"}:
                break
            stretch.append(message)
        yield f"{dataset.name} {number}", [*stretch, {"role": "user", "content": "Please go on."}]


def fold(messages: Wire, ask: Any) -> refold.Outcome:
    """Fold a stretch with a summariser, whatever it says."""
    tokens = refold.count(messages)
    return refold.compact(
        messages,
        ask=ask,
        window=max(8_000, 2 * tokens),
        target=max(300, tokens // 3),
        force=True,
        ask_timeout=None,
    )


def record(args: argparse.Namespace) -> None:
    """Ask each model for a summary of each case, and append the answers to a file."""
    done = {(row["model"], row["case"]) for row in read_rows(args.answers)}
    for reader in args.reader:
        record_with_reader(args, reader)
    for address in args.model:
        client = open_client(address, max_tokens=ANSWER_TOKENS, threads=args.threads, total_seconds=SECONDS)
        for name, messages in find_all_cases(args).items():
            if (client.model, name) in done:
                continue
            answers: list[dict[str, Any]] = []

            def ask(
                question: refold.Ask, client: Any = client, answers: list[Any] = answers
            ) -> refold.Answer:
                answer: refold.Answer = client.ask(question)
                answers.append({"text": answer.text, "finish": answer.finish})
                return answer

            fold(messages, ask)
            if not answers:  # it failed, and is asked when this is run again
                continue
            with args.answers.open("a", encoding="utf-8") as file:
                row = {"model": client.model, "case": name, "answers": answers}
                file.write(json.dumps(row) + "\n")
            print(client.model, name, [len(answer["text"]) for answer in answers], flush=True)
        client.close()


def record_with_reader(args: argparse.Namespace, model: Path) -> None:
    """Let one reader answer the questions of all cases in batches, round after round."""
    from bench.surprise_model import ReaderModel
    from bench.surprise_summaries import ROUNDS, AnswerTable, FoldAsk

    reader, table = ReaderModel(model, args.cache), AnswerTable()
    cases = find_all_cases(args)
    for number in range(ROUNDS):
        for messages in cases.values():
            fold(messages, FoldAsk(table, reader.window))
        if not table.waiting:
            break
        asked = table.answer_waiting(reader)
        print(f"{reader.name}, round {number + 1}: {asked} answers", flush=True)
    with args.answers.open("a", encoding="utf-8") as file:
        for name, messages in cases.items():
            known = FoldAsk(AnswerTable(table.answers), reader.window)
            given: list[str] = []

            def ask(question: refold.Ask, known: FoldAsk = known, given: list[str] = given) -> str:
                given.append(known(question))
                return given[-1]

            fold(messages, ask)
            answers = [{"text": text, "finish": ""} for text in given]
            file.write(json.dumps({"model": reader.name, "case": name, "answers": answers}) + "\n")


def judge(args: argparse.Namespace) -> None:
    """Give the recorded answers to the gate, and count what it says."""
    cases = find_all_cases(args)
    table: dict[str, Counter[str]] = {}
    for row in read_rows(args.answers):
        # An answer at the limit of tokens is rejected for being cut off, which is not what is measured here.
        answers = iter([answer["text"] for answer in row["answers"]])
        questions: list[str] = []

        def ask(question: refold.Ask, answers: Iterator[str] = answers, asked: list[str] = questions) -> str:
            asked.append(question)
            return next(answers, "")

        outcome = fold(cases[row["case"]], ask)
        verdict = "accepted" if "summarize" in outcome.stages else "turned down for another reason"
        verdict = "told too little" if any(THIN in question for question in questions) else verdict
        table.setdefault(row["model"], Counter())[verdict if row["answers"] else "not asked"] += 1
        if args.list and verdict != "accepted":
            print(f"-- {row['model']}, {row['case']}: {outcome.reason[:200]}\n{row['answers']}\n")
    rows = {model: dict(counts) for model, counts in sorted(table.items())}
    print(json.dumps(rows, indent=2))
    if args.json:
        args.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Read the recorded answers; none if there is no file yet."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def main(words: Sequence[str] | None = None) -> int:
    """Record or judge."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("record", "judge"))
    parser.add_argument("dataset", type=Path, nargs="+")
    parser.add_argument("--model", action="append", default=[], help="address of a model; repeatable")
    parser.add_argument("--reader", action="append", default=[], type=Path, help="GGUF file; repeatable")
    parser.add_argument("--cache", type=Path, help="keep unpacked weights of readers here")
    parser.add_argument("--tokens", action="append", type=int, help="of a stretch; repeatable, in turn")
    parser.add_argument("--answers", type=Path, required=True)
    parser.add_argument("--count", type=int, default=12, help="stretches of each data set")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--list", action="store_true", help="print what was turned down")
    args = parser.parse_args(words)
    {"record": record, "judge": judge}[args.what](args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
