"""Facts that must not be lost, as typed values, and the ledger that is updated with them at every fold.

A fact says what it is (`kind`, `about`), what it says (`text`) and which message said it (`at`, the number
behind `#`). Facts with the same key are one fact: the newest wins, the older leaves. The ledger is stored
in a summary's metadata as plain data and merged with newer facts, so that nothing is reworded and nothing
decays from fold to fold. Knows neither how facts are found nor how they are shown.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, cast

from refold.core.facts.words import assigned_name, split_names
from refold.core.messages.quick_init import quick_init
from refold.core.outputs.outcome import TURN
from refold.core.outputs.trouble import TEST_SUMMARY, is_failure
from refold.core.tokens.counting import ESTIMATE_COUNTER
from refold.core.tokens.findings import Findings
from refold.patterns import read_pattern

RULE_KINDS: Final = frozenset({"constraint", "correction", "preference", "standing"})
"""Kinds that hold beyond the moment: rules, and facts and habits that nobody has to repeat (`standing`)."""
USER_KINDS: Final = RULE_KINDS | {"statement", "request"}
"""Kinds that only come from a user's own words."""
KINDS: Final = USER_KINDS | {
    *("answer", "decision", "promise", "plan", "todo", "open call", "done", "error", "file", "name", "value"),
    *("listed", "quoted", "file rule"),
}
WEIGHTY: Final = 4.0
"""From this weight on a summary must keep a fact: the user's rules, corrections and firm preferences."""
LEDGER_TOKENS: Final = 1_500
"""Tokens of facts behind a summary in a view (docs/decisions/0012-facts.md); more crowds out the tail."""
LEDGER_SHARE: Final = 0.12
"""The same as a share of what leaves: a fold of little must not be repaired into a copy of it."""
STORED_TOKENS: Final = 12_000
"""Tokens of the ledger as stored data. It costs no window there; what is not shown now may be shown later."""
TEXT_CHARS: Final = 2_000
"""A longer text is no fact; one that is read back from data is cut here."""
LISTED_WEIGHT: Final = 1.2
"""Weight of a name that a model listed in an answer: less than what people did or said about themselves."""
FILE_RULE_WEIGHT: Final = 3.6
"""Weight of a rule in a file for agents: less than what the user says, as anybody may have written it."""
SEEN_ONLY: Final = 2.0
"""A lighter name was only seen in a tool's output; 1 % of those are used again (decision 0012)."""
FAILED: Final = "failed: "
"""Beginning of the outcome of a command that went wrong."""

SETTLED: Final = frozenset({"completed", "done", "dropped", "cancelled", "canceled", "skipped", "closed"})
"""States of todo items that are no longer open."""
_OWN_STATES: Final = frozenset({"open", "in progress", "done", "dropped"})
"""States of the items of a user's own list; the others are those of a plan, which is written anew."""
_ITEM_ID: Final = re.compile(r" ?(\(id [^()]{1,40}\))\Z")
"""The id of an item of a plan, behind its text. A call that changes the item may name nothing else."""

_WORD: Final = re.compile(r"\w+")
_REPLACED_WORD: Final = re.compile(r"\b(?:instead of|rather than|no longer|not) [\"'`]?([\w.:/@-]{2,60})")
_REPLACEABLE: Final = frozenset({"value", "decision", "preference"})
_TESTS_FAILED: Final = re.compile(
    r"\b(?!0 )\d{1,7} (?:tests? )?(?:failed|failures?|failing|fails|errors?)\b|not ok|tests failed\."
    r"|FAIL(?!(?:ED)?:? 0\b)|(?i:\b(?:fail(?:ures?|ed)?|errors?):? {0,9}[1-9])"
)
_STEP: Final = read_pattern(__package__, "step")
"""What brings a repository on: where it goes well with the same operands, an earlier failure is over."""
_CONFLICT: Final = re.compile(r"CONFLICT \(|error: could not apply |Automatic merge failed")
_RESOLVES: Final = frozenset({"commit", "merge", "rebase", "pull", "cherry-pick"})
"""Steps that git refuses while a conflict is open."""
_PATIENCE: Final = read_pattern(__package__, "patience")
"""What differs when a command is tried again with more patience, and what only reads its output."""
_RUNS_CODE: Final = re.compile(r"(\w{1,60})\((?:code|script|source)=")
_MISTAKE: Final = re.compile(r"(?:Name|Syntax|Indentation)Error\b")
"""What a program that was written for one call gets wrong: it is written anew at once, with other words."""
_BUILDS: Final = (" compile", " build", " check", " test")
"""Ends of commands that go over a whole program, so that a warning which is left would come again."""
_PROGRAM: Final = re.compile(r"((?:cd [^:]{1,200}: )?\S+).*")
_WARNS: Final = re.compile(r"\W{0,4}warn(?:ing)?\b", re.IGNORECASE)
_QUOTED: Final = re.compile(r"\"[^\"…]{0,2000}\"?|'[^'…]{0,2000}'?")
_SCRIPT: Final = re.compile(
    r"\A(?:\S{0,200}/)?(?:python|node|ruby|perl|bash|sh)[\d.]{0,5} (\S{1,300})(?!\S|.{0,2000}(?:&&|;|\|\|))"
)
"""The script that a command runs, where nothing runs behind it that may have failed instead."""
MOST_PASSED: Final = 20
"""Test runs that are compared with each error; bounds the work, and only the newest tell what holds now."""
_HALF_LIFE: Final = 400
"""Messages after which recency counts half; a tie-breaker among facts of one weight, no more."""
_SEEN_HALF_LIFE: Final = 12
"""The same for names that were only seen: of those only the newest are used again (same measurement)."""
_ENOUGH: Final = 0.8
"""Share of a sentence's longer words that a text must have to count as having it; lower misses losses."""
_ROW_TOKENS: Final = 4
"""Tokens of a stored fact beside its texts, about."""
_EXACT: Final = frozenset({"name", "file", "value"})
"""Kinds that must stand in a text letter by letter."""
_PIECE: Final = 4
"""Letters at each end of a name that are looked up first; most texts have any two or three in a row."""
_MANY_NAMES: Final = 300
"""Names from which on all pieces of that length are taken out of a text first. For a digest of 17,000
characters that takes as long as to search it for 250 names."""
_WRITTEN_LINES: Final = re.compile(r" \(\d{1,9} lines?\)")
"""How many lines an action wrote."""


class _Effect(NamedTuple):
    """What an action that went well settles: errors of the same steps, of the same tries, of fewer tests."""

    steps: Sequence[frozenset[str]]
    tries: Sequence[str]
    tests: Sequence[frozenset[str]]


@quick_init
@dataclass(frozen=True, slots=True)
class Fact:
    """One fact that a compaction must not lose."""

    kind: str
    text: str
    about: str = ""
    """The name of a value, the state of a todo, the outcome of a command, the file of a name, the speaker."""
    at: int = 0
    """The number of the message that said it."""
    weight: float = 1.0
    uses: int = 1
    """Number of times it was said."""
    _key: tuple[str, str] | None = field(default=None, init=False, repr=False, compare=False)
    _tokens: int | None = field(default=None, init=False, repr=False, compare=False)
    _longer_words: list[str] | None = field(default=None, init=False, repr=False, compare=False)
    _effect: _Effect | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def key(self) -> tuple[str, str]:
        """Facts with the same key are one fact."""
        # A fold merges the same facts into several ledgers.
        if self._key is None:
            object.__setattr__(self, "_key", self._find_key())
        return cast("tuple[str, str]", self._key)

    @property
    def has_failed(self) -> bool:
        """True for an action of which nothing came."""
        return self.about.startswith(FAILED)

    @property
    def effect(self) -> _Effect:
        """What an action that went well settles."""
        if self._effect is None:
            has_passed = not _TESTS_FAILED.search(self.about)
            went_well = has_passed and not is_failure(self.about)
            # A pipe hides how a step ended; its output does not.
            steps = [step for step in _find_steps(self.text) if step and went_well]
            is_sure = went_well and not TURN.search(self.about)
            names = _name_tries(self.text, is_done=True) if is_sure else []
            names += [f"{name.rpartition(' ')[0]} *" for name in names if name.endswith(_BUILDS)]
            tests = [_find_operands(self.text)] if has_passed and TEST_SUMMARY.match(self.about) else []
            object.__setattr__(self, "_effect", _Effect(steps, names, tests))
        return cast("_Effect", self._effect)

    @property
    def tokens(self) -> int:
        """Tokens of its texts, estimated."""
        if self._tokens is None:
            # Facts that are joined anew have mostly been counted before.
            object.__setattr__(self, "_tokens", ESTIMATE_COUNTER.text(f"{self.text} {self.about}"))
        return cast("int", self._tokens)

    def _find_key(self) -> tuple[str, str]:
        if self.kind == "value":
            return "value", self.about.lower()
        if self.kind in USER_KINDS:
            name = assigned_name(self.text)
            return ("slot", f"{self.about} {name}") if name else ("said", self._join_words(f"{self.about} "))
        if self.kind in {"name", "file"}:
            return self.kind, self.text
        if self.kind == "done":  # a file that is written again has other lines
            return "done", _WRITTEN_LINES.sub("", self.text)
        return self.kind, self._join_words()  # items of a plan with other ids are others, whatever they say

    def _join_words(self, before: str = "") -> str:
        """Join the words of its text behind others, and note the longer ones, which are looked for."""
        words = split_names(self.text)
        object.__setattr__(self, "_longer_words", [word for word in words if len(word) > 3 or word.isdigit()])
        return " ".join([*split_names(before), *words]) or before + self.text

    def join(self, old: "Fact") -> "Fact":
        """Give this fact the weight and the uses of an older, equal one too."""
        about, at = self.about or old.about, self.at
        if self.kind == "file" and old.about == "changed" and self.about == "read":
            about, at = old.about, old.at  # the number belongs to the change
        if self.kind == "name" and old.about != self.about:
            about = old.about or self.about
        text, weight = self.text, max(old.weight, self.weight)
        if self.kind == "todo":
            text = old.text if _ITEM_ID.fullmatch(text) else text
            text = text if _ITEM_ID.search(text) else f"{text} {_find_item_id(old)}".rstrip()
            if old.about in _OWN_STATES and about not in _OWN_STATES:  # the item stays the user's
                about = "done" if about in SETTLED else "in progress" if about == "in_progress" else "open"
            weight = self.weight  # that of its state
        return Fact(self.kind, text, about, at, weight, old.uses + self.uses)

    def is_in(self, text: str, low: str, words: set[str], pieces: set[str]) -> bool:
        """True if a text has this fact; `low` and `words` are the text in small letters and its words.

        pieces   all runs of `_PIECE` letters in the text, or none where they are not known
        """
        if self.kind in _EXACT:
            if (
                pieces
                and len(name := self.text) >= _PIECE
                and not pieces.issuperset((name[:_PIECE], name[-_PIECE:]))
            ):
                return False  # as most names of a long history
            return text.rfind(self.text) >= 0  # names stand at the end of a page
        if self._longer_words is None:
            self._join_words()
        longer = cast("list[str]", self._longer_words)
        there = sum(map(words.__contains__, longer))
        if longer and there >= _ENOUGH * len(longer):
            return True
        # A text that has it letter by letter has all its words, but for the first and the last: they may be
        # pieces of longer ones there. Words are compared much faster.
        return len(longer) - there <= 2 and self.text.lower() in low

    @classmethod
    def from_json(cls, row: Any) -> "Fact | None":
        """Read a fact from plain data; None if the data is no fact, since a stored log may hold anything."""
        if not isinstance(row, list | tuple) or len(row) != 6:
            return None
        kind, text, about, at, weight, uses = row
        are_texts = all(isinstance(value, str) for value in (kind, text, about))
        are_numbers = all(type(value) in (int, float) for value in (at, weight, uses))
        if not (are_texts and are_numbers and kind in KINDS and text.strip() and math.isfinite(weight)):
            return None
        weight, uses = min(9.0, max(0.0, weight)), max(1, int(uses))
        return Fact(kind, text[:TEXT_CHARS], about[:TEXT_CHARS], int(at), weight, uses)


def _read_row(row: Any, found: Findings) -> Fact | None:
    """Read a fact from plain data; most rows were in the summary before, and their facts know their keys."""
    try:
        return found.find(Fact.from_json, row)
    except TypeError:  # no row of ours has a value without a hash
        return Fact.from_json(row)


@dataclass(frozen=True, slots=True)
class Ledger:
    """Facts, each once, in the order of the messages that said them last."""

    facts: tuple[Fact, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.facts)

    def __len__(self) -> int:
        return len(self.facts)

    def merge(self, new: Iterable[Fact]) -> "Ledger":
        """Add newer facts: the newest wins, equal facts are joined, facts that became untrue leave."""
        # An open call is only true at the cut it was found at; the next fold finds it again or not.
        known = {fact.key: fact for fact in self.facts if fact.kind != "open call"}
        todos = [fact for fact in known.values() if fact.kind == "todo"]
        items = {name: fact.key for fact in todos for name in _find_item_names(fact)}
        for fact in new:
            item, key, is_other, is_item = "", fact.key, False, fact.kind == "todo"
            if is_item:
                item = _find_item_id(fact)
                if item in items or key not in known:  # it may be named by its words alone, or by its id
                    key = next((items[name] for name in _find_item_names(fact) if name in items), key)
                is_other = item != "" and _find_item_id(known.get(key)) not in {"", item}
            old = None if is_other else known.pop(key, None)
            if old is None and fact.text == item:  # of a plan that is not known
                continue
            joined = fact if old is None else fact.join(old)
            known[joined.key] = joined
            if is_item:
                items.update((name, joined.key) for name in _find_item_names(joined))
            elif fact.kind == "plan":  # it gives its ids anew
                items.clear()
        corrected = _find_corrected(known.values())
        # A file of rules that was read again has the rules of the last time.
        read = {fact.about: fact.at for fact in known.values() if fact.kind == "file rule"}
        # A plan is written anew as a whole; the user's own items stay.
        plan = max((fact.at for fact in known.values() if fact.kind == "plan"), default=0)
        left = _drop_settled_errors(
            fact
            for fact in known.values()
            if not (corrected and _is_corrected(fact, corrected))
            and (fact.kind != "file rule" or fact.at >= read[fact.about])
            and (fact.kind != "todo" or fact.at >= plan or fact.about in _OWN_STATES)
        )
        return Ledger(tuple(sorted(left, key=lambda fact: fact.at)))

    def of(self, *kinds: str) -> list[Fact]:
        """Return the facts of some kinds, in order."""
        return [fact for fact in self.facts if fact.kind in kinds]

    def by_rank(self) -> list[Fact]:
        """Return the facts, the most important first."""
        newest = max([fact.at for fact in self.facts], default=0)
        ranked = [
            (-rank_value(fact, newest), fact.at, fact.text, place) for place, fact in enumerate(self.facts)
        ]
        ranked.sort()
        return [self.facts[place] for *_, place in ranked]

    def fit_to(self, tokens: int) -> "Ledger":
        """Return the most important facts within a budget of tokens."""
        # No text has more than two tokens a character, so most ledgers fit without being counted.
        chars = sum([len(fact.text) + len(fact.about) for fact in self.facts])
        if chars * 2 + 8 * len(self.facts) <= tokens:
            return self
        kept: list[Fact] = []
        for fact in self.by_rank() if tokens > _ROW_TOKENS else ():
            cost = fact.tokens + _ROW_TOKENS
            if cost <= tokens:
                kept.append(fact)
                tokens -= cost
                if tokens <= _ROW_TOKENS:
                    break
        return Ledger(tuple(sorted(kept, key=lambda fact: fact.at)))

    def to_json(self) -> list[list[Any]]:
        """Return the ledger as plain data."""
        return [
            [fact.kind, fact.text, fact.about, fact.at, round(fact.weight, 2), fact.uses]
            for fact in self.facts
        ]

    @classmethod
    def from_json(cls, data: Any, found: Findings | None = None) -> "Ledger":
        """Read a ledger from plain data; rows that are no facts are skipped; `found`: those read before."""
        rows = data if isinstance(data, list | tuple) else ()
        facts = map(Fact.from_json, rows) if found is None else (_read_row(row, found) for row in rows)
        return Ledger().merge(fact for fact in facts if fact is not None)


def _find_item_id(fact: Fact | None) -> str:
    """Return the id of an item of a plan; "" for none."""
    found = _ITEM_ID.search(fact.text) if fact is not None and fact.kind == "todo" else None
    return found[1] if found else ""


def _find_item_names(fact: Fact) -> tuple[str, ...]:
    """Return the names of an item of a plan: its id, if it has one, and its words."""
    text = _ITEM_ID.sub("", fact.text)
    return tuple(filter(None, (_find_item_id(fact), " ".join(split_names(text)) or text)))


def rank_value(fact: Fact, newest: int) -> float:
    """Rank a fact by its weight, how often it was said and how new it is."""
    # The factors only order facts of about one weight. How often a user says something counts for nothing: a
    # rule is said once (docs/decisions/0012-facts.md).
    age = max(0, newest - fact.at)
    if fact.kind in USER_KINDS:
        return fact.weight + 0.1 * _HALF_LIFE / (_HALF_LIFE + age)
    uses = math.log2(max(1, fact.uses))
    if fact.kind == "name" and fact.weight < SEEN_ONLY:
        return fact.weight + 0.05 * uses + 0.9 * _SEEN_HALF_LIFE / (_SEEN_HALF_LIFE + age)
    return fact.weight + 0.25 * uses + 0.5 * _HALF_LIFE / (_HALF_LIFE + age)


def _find_corrected(facts: Iterable[Fact]) -> dict[str, int]:
    """Find words that a correction replaced, each with the message of the correction."""
    corrected: dict[str, int] = {}
    for fact in facts:
        if fact.kind == "correction":
            for word in _REPLACED_WORD.findall(fact.text.lower()):
                corrected[word.strip(".:")] = max(fact.at, corrected.get(word.strip(".:"), 0))
    return corrected


def _is_corrected(fact: Fact, corrected: dict[str, int]) -> bool:
    """True if a correction made a fact untrue."""
    if fact.kind not in _REPLACEABLE:
        return False
    words = f"{fact.text} {fact.about}".lower().replace(",", " ").replace("`", " ").split()
    return any(corrected.get(word.strip(".:"), -1) > fact.at for word in words)


def _drop_settled_errors(facts: Iterable[Fact]) -> list[Fact]:
    """Drop the errors of commands that went well later or failed in another way, and of removed scripts."""
    left = list(facts)
    errors = [fact for fact in left if fact.kind == "error"]
    if not errors:
        return left
    oldest = min(fact.at for fact in errors)
    # What stands before the first fact that is newer than the oldest error settles none.
    start = next((place for place, fact in enumerate(left) if fact.at > oldest), len(left))
    settled: dict[str, int] = {}
    passed: list[tuple[frozenset[str], int]] = []
    taken: list[tuple[frozenset[str], int]] = []
    tried: dict[str, int] = {}
    removed = {fact.text: fact.at for fact in left if fact.kind == "file" and fact.about == "removed"}
    for fact in (*errors, *left[start:]):
        is_done = fact.kind == "done" and fact.about != "" and not fact.has_failed
        if is_done or fact.kind == "error":
            action = _name_action(fact.text if is_done else fact.about)
            settled[action] = max(fact.at, settled.get(action, -1))
        if is_done:
            taken += [(step, fact.at) for step in fact.effect.steps]
            tried |= {name: max(fact.at, tried.get(name, -1)) for name in fact.effect.tries}
            passed += [(operands, fact.at) for operands in fact.effect.tests]

    def is_settled(error: Fact) -> bool:
        # A later run of the same tests, or of more, names no more than the one that failed.
        operands = _find_operands(error.about)
        covers = (at > error.at and wider <= operands for wider, at in passed[-MOST_PASSED:])
        later = [step for step, at in taken[-MOST_PASSED:] if at > error.at]
        steps = _find_steps(error.about)
        went_on = all(step and any(step <= other for other in later) for step in steps)
        resolved = _CONFLICT.match(error.text) and any(step & _RESOLVES for step in later)
        gone = resolved or any(removed.get(script, -1) > error.at for script in _SCRIPT.findall(error.about))
        # The same again, with more patience; of a warning, a whole build by the same program since.
        name_try = "\\1 *" if _WARNS.match(error.text) else "\\g<0>"
        tries = [_PROGRAM.sub(name_try, name) for name in _name_tries(error.about)]
        is_own = _MISTAKE.search(error.text) or not _RUNS_CODE.match(error.about)
        again = tries and is_own and all(tried.get(name, -1) > error.at for name in tries)
        is_over = settled[_name_action(error.about)] > error.at or went_on or again or gone or any(covers)
        return error.about != "" and is_over

    return [fact for fact in left if fact.kind != "error" or not is_settled(fact)]


def _name_action(text: str) -> str:
    """Return an action without what differs when it is tried again: the lines of an edit, their number."""
    name = _WRITTEN_LINES.sub("", text)
    return name.partition(': "')[0] if name.startswith("edit ") else name


def _name_tries(command: str, *, is_done: bool = False) -> list[str]:
    """Return the parts of a command without what differs between tries; [] where nobody knows how it goes on.

    `is_done`: only the parts that went well if the command did.
    """
    if tool := _RUNS_CODE.match(command):
        return [tool[1]]
    names, where = list[str](), ""
    for part in re.split("&&|(?=;)", command) if "||" not in command and "…" not in command else ():
        names = [] if is_done and part[:1] == ";" else names  # how a step before it ended, nobody knows
        name = " ".join(_PATIENCE.sub("", part.lstrip(";")).split())
        if name.startswith("cd "):
            where = f"{name}: "
        elif name:
            names.append(where + name)
    return names


def _find_steps(command: str) -> list[frozenset[str]]:
    """Return the operands of each part of a command, with `origin` for none; empty for no sure step."""
    # A text in quotes with blanks is a message, whatever it says; behind `cd` may be another repository.
    plain = _QUOTED.sub(lambda quoted: "" if " " in quoted[0] else quoted[0], command)
    parts = re.split("&&|;", re.split(r"\bcd ", plain)[0])
    found = [_find_operands(part) if _STEP.match(part) else frozenset[str]() for part in parts]
    return [words | {"origin"} if len(words) == 2 else words for words in found]


def _find_operands(command: str) -> frozenset[str]:
    """Return the words of a command without its options and without the programs that read its output."""
    return frozenset(word for word in command.partition("|")[0].split() if not word.startswith(("-", "2>")))


# -- kept, repaired, reachable ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class FactReport:
    """The fate of each fact of a ledger."""

    kept: tuple[Fact, ...] = ()
    """Facts that a text has."""
    repaired: tuple[Fact, ...] = ()
    """Facts that were put behind it."""
    reachable: tuple[Fact, ...] = ()
    """Facts that only the number of their message leads to."""

    @property
    def counts(self) -> tuple[int, int, int]:
        """Numbers of facts that were kept, repaired, and are reachable by handle."""
        return len(self.kept), len(self.repaired), len(self.reachable)

    @property
    def weighty_share(self) -> float:
        """The share of weighty facts that are in the view; 1 where there are none."""
        in_view = sum(fact.weight >= WEIGHTY for fact in (*self.kept, *self.repaired))
        lost = sum(fact.weight >= WEIGHTY for fact in self.reachable)
        return in_view / (in_view + lost) if in_view + lost else 1.0


def report_kept(text: str, ledger: Ledger, tokens: int = LEDGER_TOKENS) -> FactReport:
    """Report for each fact whether a text has it, else whether it can be repaired within a budget."""
    low = text.lower()
    runs = set(low.split())
    words = {run for run in runs if run.isalnum()}  # a search for each takes longer
    words.update(_WORD.findall(" ".join(runs - words)))
    names = sum(fact.kind in _EXACT for fact in ledger.facts)
    places = range(len(text) - _PIECE + 1) if names > _MANY_NAMES else ()
    pieces = {text[at : at + _PIECE] for at in places}
    kept: list[Fact] = []
    missing: list[Fact] = []
    for fact in ledger.facts:
        if fact.kind == "plan":  # it only dates the items
            continue
        (kept if fact.is_in(text, low, words, pieces) else missing).append(fact)
    repaired = Ledger(tuple(missing)).fit_to(tokens).facts
    known = {id(fact) for fact in repaired}
    lost = tuple(fact for fact in missing if id(fact) not in known)
    return FactReport(kept=tuple(kept), repaired=repaired, reachable=lost)
