"""How much of what a conversation still needs is in the view after a fold without a model.

python bench/retention.py DATA_FOLDER [--json FILE] [--only reuse|answers|constraints]

Three measures, each for the house's policy and for two plain ways of the same size. *Re-use*: paths,
identifiers and values that were seen before the cut and that the agent writes after it without having seen
them again. *Answers*: words of an answer that the evidence holds, counted as kept only where they still
stand beside a neighbour from the evidence. *Constraints*: rules of a user, planted once, after 1, 3 and 10
folds. What is in the system prompt and in the first message counts for nobody: it is in every view.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import refold
from refold import presets
from refold.core.estimate import estimate
from refold.stages.clamp import Clamp
from refold.stages.slide import Slide

Wire = list[dict[str, Any]]
View = Callable[[Wire, int], Wire]
"""A history and the tokens it may have, to what the model sees."""

ENTITY = re.compile(
    r"https?://[^\s\"'<>()\[\]`\\]{4,200}"
    r"|(?<![\w/.-])[~.]{0,2}/?(?:[\w.@-]{1,80}/){1,15}[\w.@-]{1,80}"
    r"|(?<![\w/.-])[\w-]{1,60}\.(?:py|pyi|js|jsx|ts|tsx|go|rs|java|rb|c|h|cpp|ex|exs|md|rst|json|jsonl|toml|ya?ml|sql|sh|txt|html|css|lock|cfg|ini)\b"
    r"|\b[A-Za-z]\w{0,60}_\w{1,60}\b"
    r"|\b[A-Z][a-z0-9]{1,30}(?:[A-Z][a-z0-9]{0,30}){1,6}\b"
    r"|\b[a-z]{2,30}(?:[A-Z][a-z0-9]{1,30}){1,6}\b"
    r"|\b[0-9a-f]{7,40}\b"
    r"|\b[A-Za-z]{2,12}-\d{1,7}\b"
    r"|\bv?\d{1,4}\.\d{1,4}(?:\.\d{1,6})?\b|\b\d{4,10}\b"
)
"""Written for the measure alone; the ledger has patterns of its own."""
CUTS = (0.4, 0.6, 0.8)
"""Where histories are cut, as shares of their messages."""


def texts(value: Any) -> Iterator[str]:
    """Every string that a model would read in a wire message or a list of them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in {"role", "type", "id", "tool_use_id", "tool_call_id", "signature", "data"}:
                yield from texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)


def shown(messages: Sequence[Any]) -> str:
    """A view as one text; arguments that travel as JSON text are opened."""
    return "\n".join(_opened(text) for text in texts(list(messages)))


def _opened(text: str) -> str:
    if text.startswith("{"):
        try:
            return "\n".join(texts(json.loads(text)))
        except ValueError:
            return text
    return text


def entities(text: str) -> set[str]:
    """Paths, identifiers and values of a text."""
    return {found.rstrip(".,:;-") for found in ENTITY.findall(text)}


def tokens(messages: Sequence[Any]) -> int:
    """Tokens of a history, by the same estimate for everybody."""
    return sum(estimate("\n".join(texts(message))) + 4 for message in messages)


# -- the ways ----------------------------------------------------------------------------------------------


def by_refold(history: Wire, budget: int) -> Wire:
    """The house's policy without a model."""
    return _compacted(history, budget, presets.get("refold"))


def by_slide(history: Wire, budget: int) -> Wire:
    """A sliding window: the oldest leave, a marker says so."""
    slide = Slide(fraction=None, keep_first=0, least=1, role="user")
    policy = replace(
        presets.get("refold"),
        stages=(slide, Clamp()),
        guards=frozenset({"system", "pins", "last user", "first user", "open calls"}),
    )
    return _compacted(history, budget, policy)


def by_tail(history: Wire, budget: int) -> Wire:
    """The head, and as much of the end as fits."""
    head = head_of(history)
    left = budget - tokens(history[:head])
    kept: Wire = []
    for message in reversed(history[head:]):
        left -= tokens([message])
        if left < 0:
            whole = "\n".join(texts(message))
            share = max(0, len(whole) + left * len(whole) // max(1, tokens([message])))
            kept.append({"role": "user", "content": whole[len(whole) - share :]})
            break
        kept.append(message)
    return [*history[:head], *reversed(kept)]


WAYS: dict[str, View] = {"refold": by_refold, "tail": by_tail, "slide": by_slide}


def _compacted(history: Wire, budget: int, policy: Any) -> Wire:
    window = max(8_000, tokens(history) * 2)
    done = refold.compact(history, policy=policy, window=window, target=budget, force=True)
    return list(done.messages)


def head_of(history: Wire) -> int:
    """How many messages are in every view: the system prompt and the first request."""
    for index, message in enumerate(history):
        if message["role"] == "user":
            return index + 1
    return 0


# -- re-use ------------------------------------------------------------------------------------------------


def trajectories(folder: Path) -> Iterator[tuple[str, Wire]]:
    """Agent runs in OpenAI shape: commands in fences, observations as user messages."""
    for path in sorted((folder / "swe-bench-trajectories").glob("*.traj.json")):
        found = json.loads(path.read_text())["messages"]
        yield path.name, [{"role": one["role"], "content": one["content"]} for one in found]


def sessions(folder: Path) -> Iterator[tuple[str, Wire, int | None]]:
    """Claude Code transcripts in Anthropic shape, with the place of the real compaction."""
    for path in sorted((folder / "claude-code").glob("*.jsonl")):
        messages: Wire = []
        last, boundary, told = "", None, 0
        for line in path.read_text().splitlines():
            record = json.loads(line)
            if record.get("type") not in {"user", "assistant"} or record.get("isSidechain"):
                continue
            if record.get("isCompactSummary"):
                boundary, told = len(messages), tokens([record["message"]])
                continue
            if record.get("isMeta"):
                continue
            message = record["message"]
            content = message["content"]
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            same = message.get("id") and message.get("id") == last
            if messages and (same or (messages[-1]["role"] == message["role"] == "user")):
                messages[-1]["content"] += blocks
            else:
                messages.append({"role": message["role"], "content": list(blocks)})
            last = message.get("id") or ""
        if len(messages) > 40:
            yield path.name, messages, boundary
            if boundary:
                print(f"  ({path.name}: real summary of {told:,} tokens)", file=sys.stderr)


def reused(history: Wire, cut: int) -> set[str]:
    """What was seen before the cut and is written after it before it is seen again."""
    head = entities(shown(history[: head_of(history)]))
    seen = entities(shown(history[:cut])) - head
    again: set[str] = set()
    found: set[str] = set()
    for message in history[cut:]:
        here = entities(shown([message])) & seen
        if message["role"] == "assistant":
            found |= here - again
        again |= here
    return found


@dataclass
class Tally:
    """Kept of all, over many cases; and the share of tokens it took."""

    kept: int = 0
    all: int = 0
    tokens: int = 0
    of: int = 0

    @property
    def share(self) -> float:
        """Kept of all."""
        return self.kept / max(1, self.all)

    @property
    def size(self) -> float:
        """Tokens of all."""
        return self.tokens / max(1, self.of)


def _has(view: str, entity: str) -> bool:
    at = view.find(entity)
    while at >= 0:
        before, after = view[at - 1 : at], view[at + len(entity) : at + len(entity) + 1]
        if not (before.isalnum() or before == "_") and not (after.isalnum() or after == "_"):
            return True
        at = view.find(entity, at + 1)
    return False


def reuse(
    cases: Sequence[tuple[str, Wire, int]], share: float, lost: dict[str, list[str]] | None = None
) -> dict[str, Tally]:
    """Tallies of each way over histories and their cuts, at a share of the tokens behind the head."""
    done = {way: Tally() for way in WAYS}
    for name, history, cut in cases:
        before = history[:cut]
        head = head_of(before)
        wanted = reused(history, cut)
        size = tokens(before[head:])
        fixed = tokens(before[:head])
        for way, view in WAYS.items():
            made = view(before, fixed + int(size * share))
            text = shown(made)
            missing = [entity for entity in wanted if not _has(text, entity)]
            done[way].kept += len(wanted) - len(missing)
            done[way].all += len(wanted)
            done[way].tokens += tokens(made) - fixed
            done[way].of += size
            if lost is not None and way == "refold":
                lost[f"{name}@{cut}"] = sorted(missing)
    return done


def trajectory_cases(folder: Path) -> list[tuple[str, Wire, int]]:
    """Each run at each cut, on an assistant's turn."""
    return [
        (name, history, _at_assistant(history, int(len(history) * cut)))
        for name, history in trajectories(folder)
        for cut in CUTS
        if len(history) >= 20
    ]


def session_cases(folder: Path) -> list[tuple[str, Wire, int]]:
    """Each session at its real compaction, where it has one, and at the other cuts."""
    return [
        (name, history, _at_assistant(history, at))
        for name, history, boundary in sessions(folder)
        for at in [*([boundary] if boundary else []), *(int(len(history) * cut) for cut in CUTS)]
    ]


def _at_assistant(history: Wire, at: int) -> int:
    while at < len(history) - 1 and history[at]["role"] != "assistant":
        at += 1
    return at


# -- answers -----------------------------------------------------------------------------------------------

WORD = re.compile(r"\w+(?:[.,:'’-]\w+)*")


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


COMMON = _set(
    "the a an and or of to in on at for with by from is are was were be been it its this that i my me "
    "you your he she they we his her their our as not no yes so than then would could should may "
    "might also like such which who what when where how do does did have has had about more most some "
    "any all will can user prefer responses"
)


@dataclass
class Question:
    """An answer, and the turns that hold it."""

    history: Wire
    answer: str
    evidence: list[str]


def longmemeval(folder: Path) -> Iterator[list[Question]]:
    """One history with one question each."""
    for path in sorted((folder / "longmemeval").glob("*.json")):
        found = json.loads(path.read_text())
        turns = [turn for session in found["haystack_sessions"] for turn in session]
        evidence = [turn["content"] for turn in turns if turn.get("has_answer")]
        history = [{"role": turn["role"], "content": turn["content"]} for turn in turns]
        yield [Question(history, str(found["answer"]), evidence)]


def locomo(folder: Path) -> Iterator[list[Question]]:
    """Three long dialogues of two people, with many questions each."""
    for found in json.loads((folder / "locomo" / "locomo-3.json").read_text()):
        talk = found["conversation"]
        turns: dict[str, str] = {}
        history: Wire = []
        number = 1
        while f"session_{number}" in talk:
            for turn in talk[f"session_{number}"]:
                turns[turn["dia_id"]] = turn["text"]
                history.append({"role": "user", "content": f"{turn['speaker']}: {turn['text']}"})
            number += 1
        yield [
            Question(history, str(one["answer"]), [turns[id_] for id_ in one["evidence"] if id_ in turns])
            for one in found["qa"]
            if "answer" in one
        ]


def in_context(answer: str, evidence: Sequence[str]) -> list[list[str]]:
    """For each word of an answer that the evidence holds: the pairs of words it stands in there."""
    wanted = {word.lower() for word in WORD.findall(answer)} - COMMON
    pairs: dict[str, list[str]] = {}
    for text in evidence:
        words = [word.lower() for word in WORD.findall(text)]
        for at, word in enumerate(words):
            if word in wanted:
                around = words[max(0, at - 1) : at + 1], words[at : at + 2]
                pairs.setdefault(word, []).extend(" ".join(two) for two in around if len(two) == 2)
    return list(pairs.values())


def answers(groups: Iterator[list[Question]], share: float, ways: Sequence[str]) -> dict[str, Tally]:
    """Answer words of the evidence that still stand in their context."""
    done = {way: Tally() for way in ways}
    for group in groups:
        history = group[0].history
        size = tokens(history)
        for way in ways:
            view = WAYS[way](history, int(size * share))
            said = " " + " ".join(word.lower() for word in WORD.findall(shown(view))) + " "
            done[way].tokens += tokens(view)
            done[way].of += size
            for question in group:
                for pairs in in_context(question.answer, question.evidence):
                    done[way].all += 1
                    done[way].kept += any(f" {pair} " in said for pair in pairs)
    return done


# -- constraints -------------------------------------------------------------------------------------------

# The ledger's words for rules were adjusted until these were kept: what they show is no measure of rules
# that nobody has seen. OTHER_RULES were written afterwards and nothing was adjusted to them; adjust to them
# and they show nothing either.
RULES = (
    "Never push to the branch release/2.4 without asking me first.",
    "All dates in the report must be written as ISO 8601.",
    "Please don't use the library moment.js anywhere.",
    "Keep the response time of /api/search under 250 ms.",
    "Only Dr. Okonkwo may approve changes to the dosage table.",
    "Use four spaces, never tabs, in generated SQL.",
    "I prefer short answers without bullet points.",
    "The budget for the Lisbon trip is 3,400 euros, not more.",
    "Do not email customers from the staging system.",
    "Always run the linter before you say that something is done.",
    "My daughter is allergic to hazelnuts, so no pralines.",
    "We must support Python 3.9 until March.",
    "No, not port 8080: the service listens on 9443.",
    "Make sure every query has a timeout of 5 seconds.",
    "Avoid changing files under vendor/legacy at all costs.",
    "Call the project Blue Heron in everything customers can see.",
    "You should ask before you delete any table.",
    "The deadline is Thursday at 17:00 Lisbon time.",
    "Write commit messages in the imperative, at most 60 characters.",
    "Under no circumstances log the patient's name.",
)

OTHER_RULES = (
    "Whatever happens, leave the production database alone.",
    "Invoices go to Marta in accounting and to nobody else.",
    "I can't have gluten, so pick restaurants with that in mind.",
    "Nothing may be published before the embargo lifts on 4 June.",
    "Stick to the metric system throughout.",
    "Our style guide bans the Oxford comma.",
    "It has to run on a Raspberry Pi with 512 MB.",
    "Refunds above 200 dollars need my sign-off.",
    "Please refrain from renaming public functions.",
    "Every function needs a docstring.",
    "The client is called Kestrel Foods, spelled with two words.",
    "Two reviewers have to agree before you merge.",
    "Don't touch anything in the migrations folder.",
    "Answers longer than 100 words annoy me.",
    "We are frozen on Node 18 for this quarter.",
    "Keep customer addresses out of the logs.",
    "Tests come first, then the code.",
    "The meeting room is booked until 15:30 only.",
    "Never assume a time zone; ask.",
    "Leave the header colour at #1a2b3c.",
)


def folds(folder: Path, rounds: Sequence[int], planted: Sequence[str] = RULES) -> dict[str, dict[int, Tally]]:
    """Plant rules into real talk, fold again and again with new talk between, and look for them."""
    talks = json.loads((folder / "tau-bench" / "gpt-4o-airline-100.json").read_text())
    pool = [_plain(talk["traj"]) for talk in talks]
    done = {way: {count: Tally() for count in rounds} for way in WAYS}
    for way, view in WAYS.items():
        for start in range(4):
            history: Wire = [{"role": "user", "content": "Hello, let us work through today's list."}]
            rules = planted[start * 5 : start * 5 + 5]
            for number in range(1, max(rounds) + 1):
                talk = [one for at in range(4) for one in pool[(start * 40 + number * 4 + at) % len(pool)]]
                if number == 1:
                    for at, rule in enumerate(rules):
                        talk.insert(
                            3 + at * len(talk) // 6, {"role": "user", "content": f"By the way. {rule}"}
                        )
                history = view([*history, *talk], 2_500)
                if number in rounds:
                    text = shown(history)
                    done[way][number].kept += sum(_tells(text, rule) for rule in rules)
                    done[way][number].all += len(rules)
                    done[way][number].tokens += tokens(history)
    return done


def _plain(talk: Wire) -> Wire:
    """A talk in which nobody calls tools by wire: what tools said is told by the assistant."""
    return [
        {"role": "user" if one["role"] == "user" else "assistant", "content": one["content"]}
        for one in talk
        if one["role"] != "system" and one.get("content")
    ]


def _tells(text: str, rule: str) -> bool:
    """Whether a text has a rule near word for word: nine in ten of its words, close together."""
    words = WORD.findall(rule.lower())
    lines = text.lower().split("\n")
    return any(sum(word in line for word in words) >= 0.9 * len(words) for line in lines)


# -- all of it ---------------------------------------------------------------------------------------------


def row(measure: str, way: str, tally: Tally) -> dict[str, Any]:
    """One line of the table."""
    return {
        "measure": measure,
        "way": way,
        "kept": round(tally.share, 4),
        "of": tally.all,
        "tokens": round(tally.size, 4),
    }


def measured(folder: Path, only: str | None) -> Iterator[dict[str, Any]]:  # noqa: C901  # one loop a measure
    """Every figure."""
    if only in {None, "reuse"}:
        runs, talks = trajectory_cases(folder), session_cases(folder)
        for name, cases, shares in (
            ("trajectories", runs, (0.08, 0.1)),
            ("claude code", talks, (0.05, 0.08)),
        ):
            for share in shares:
                for way, tally in reuse(cases, share).items():
                    yield row(f"re-use, {name}, {share:.0%}", way, tally)
    if only in {None, "answers"}:
        for name, source in (("longmemeval", longmemeval), ("locomo", locomo)):
            for share in (0.05, 0.1):
                for way, tally in answers(source(folder), share, list(WAYS)).items():
                    yield row(f"answers, {name}, {share:.0%}", way, tally)
    if only in {None, "constraints"}:
        for name, planted in (("adjusted to", RULES), ("held out", OTHER_RULES)):
            for way, counted in folds(folder, (1, 3, 10), planted).items():
                for number, tally in counted.items():
                    yield row(f"constraints ({name}), {number} folds", way, tally)


def main() -> None:
    """Measure, print a table, and write it as JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", choices=["reuse", "answers", "constraints"])
    options = parser.parse_args()
    rows = []
    print("| measure | way | kept | of | tokens |\n|---|---|---|---|---|")
    for one in measured(options.folder, options.only):
        rows.append(one)
        size = f"{one['tokens']:.1%}" if one["tokens"] < 1 else ""
        print(f"| {one['measure']} | {one['way']} | {one['kept']:.1%} | {one['of']:,} | {size} |", flush=True)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
