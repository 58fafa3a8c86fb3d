"""A summariser that is the same for everybody and needs no weights: the sentences that tell most.

    refold eval retention DATASET --ask 'python bench/extractive.py' --peer NAME=COMMAND

Reads a prompt on standard input and writes at most WORDS words of it: sentences ranked by how rare their
words are in the prompt, in their order. No model of language, so it misses what a good one would not; what
it is good for is that each system gets the very same one.
"""

import math
import re
import sys
from collections import Counter

WORDS = 220
SENTENCE = re.compile(r"[^.!?\n]{12,400}[.!?]?")
WORD = re.compile(r"[^\W_]{3,}")


def summary(prompt: str) -> str:
    """The sentences that tell most, in their order."""
    sentences = list(dict.fromkeys(one.strip() for one in SENTENCE.findall(prompt)))
    words = [WORD.findall(one.lower()) for one in sentences]
    seen = Counter(word for each in words for word in set(each))
    rare = {word: math.log(len(sentences) / times + 1) for word, times in seen.items()}
    ranked = sorted(range(len(sentences)), key=lambda at: -sum(rare[word] for word in set(words[at])))
    left, kept = WORDS, []
    for at in ranked:
        if len(words[at]) <= left:
            kept.append(at)
            left -= len(words[at])
    return " ".join(sentences[at] for at in sorted(kept)) or "Nothing was said."


if __name__ == "__main__":
    sys.stdout.write(summary(sys.stdin.read()))
