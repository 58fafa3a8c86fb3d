"""A summariser that is the same for everybody and needs no weights: the sentences that tell most.

    refold eval retention DATASET --ask 'python bench/extractive.py' --peer NAME=COMMAND

Reads a prompt and writes at most WORDS words of it: sentences ranked by how rare their words are in the
prompt, in their order. No model of language, so it misses what a good one would not; what it is good for is
that each system gets the very same one. `bench.retention` keeps one in its own process, and lets it learn
first which sentences are a system's instructions: those it never takes for what was said.
"""

import json
import math
import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

WORDS = 220
LETTERS = 8
"""Letters that count as a word where a sentence is not made of words, so that none is free."""
SENTENCE = re.compile(r"[^.!?\n]{12,400}[.!?]?")
WORD = re.compile(r"[^\W_]{3,}")


def opened(prompt: str) -> tuple[str, str]:
    """A prompt's system part and the rest; adapters write a request's messages as JSON, a line each."""
    system: list[str] = []
    said: list[tuple[str, str]] = []
    for line in prompt.split("\n"):
        message = _message(line)
        if message is None:
            if said:
                said[-1] = (said[-1][0], f"{said[-1][1]}\n{line}")
            else:
                system.append(line)
        elif message["role"] == "system":
            system.append(_text(message))
        else:
            said.append((str(message["role"]), _text(message)))
    if not said:  # a plain text
        return "", prompt
    if len(said) == 1:
        return "\n".join(system).strip(), said[0][1]
    return "\n".join(system).strip(), "\n\n".join(f"{role}: {text}" for role, text in said)


def _message(line: str) -> dict[str, Any] | None:
    if not line.startswith('{"role"'):
        return None
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, list):
        content = "\n".join(str(block.get("text", "")) for block in content)
    calls = [json.dumps(call.get("function", call)) for call in message.get("tool_calls") or ()]
    return "\n".join([str(content), *calls])


def sentences(text: str) -> list[str]:
    """The sentences of a text, each once."""
    return list(dict.fromkeys(one.strip() for one in SENTENCE.findall(text)))


def summary(prompt: str, skip: frozenset[str] = frozenset()) -> str:
    """The sentences that tell most, in their order, without those to skip."""
    told = [one for one in sentences("\n".join(opened(prompt))) if one not in skip and WORD.search(one)]
    words = [WORD.findall(one.lower()) for one in told]
    seen = Counter(word for each in words for word in set(each))
    rare = {word: math.log(len(told) / times + 1) for word, times in seen.items()}
    ranked = sorted(range(len(told)), key=lambda at: -sum(rare[word] for word in set(words[at])))
    left, kept = WORDS, []
    for at in ranked:
        weight = max(len(words[at]), len(told[at]) // LETTERS)
        if weight <= left:
            kept.append(at)
            left -= weight
    return " ".join(told[at] for at in sorted(kept)) or "Nothing was said."


@dataclass
class Extractive:
    """The summariser in one process, and what it has learnt to skip."""

    skip: frozenset[str] = frozenset()
    heard: list[set[str]] | None = field(default_factory=list)
    """The sentences of each prompt since somebody took them; None: it has learnt enough."""

    def __call__(self, prompt: str) -> str:
        """Answer a prompt."""
        if self.heard is not None:
            self.heard.append(set(sentences("\n".join(opened(prompt)))))
        return summary(prompt, self.skip)

    def learn(self, one: Sequence[set[str]], other: Sequence[set[str]]) -> None:
        """Skip from now on what stands in prompts about one talk and in prompts about quite another."""
        self.skip |= set().union(*one) & set().union(*other)


if __name__ == "__main__":
    sys.stdout.write(summary(sys.stdin.read()))
