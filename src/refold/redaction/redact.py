"""Replaces secrets in texts and wire messages; signed and encrypted blocks are never touched.

    redact_text("key sk-ant-...")              the text with `[redacted:anthropic-key]`, and a count
    redact_item({"role": ...})                 the same for a message in any wire shape
    make_redactor("export").on_export(value)   as a policy says, at one of its two borders

What a provider signed or encrypted must come back to it as it was: a thinking block with its signature,
`encrypted_content`, a Gemini part with its `thoughtSignature`. Pictures, files and ids are left alone as
well. Everything else is text that somebody may have put a secret into, the keys of objects included.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from refold.core.messages.message import read_json
from refold.errors import RefoldError
from refold.redaction import Mode
from refold.redaction.detect import find_secrets, is_secret_name, is_secret_value, load_library

_MODES: Final = ("off", "export", "storage")
_PASSES: Final = 8
"""Passes at most (decision 10). A secret that only shows when its neighbour is gone is found in the next one;
the limit bounds the time that hostile text takes."""
_FREE: Final = frozenset({"input", "args", "arguments", "response"})
"""Fields with the arguments or the answer of a tool: nothing in them is a provider's own block."""
_MEDIA: Final = frozenset({"media_type", "mimeType", "mime_type", "format"})
"""Fields of which one is beside the data of a picture or file."""
_NAMED: Final = "named-secret"
_PART: Final = 8
"""Characters from which a part of a known secret is a secret itself; fewer would hide common words."""
_SHORTEST: Final = 6
_STEP: Final = _PART - _SHORTEST + 1
"""Of a secret every third part of six characters is known; each part of eight has one of them."""
_FEW: Final = 100
"""Secrets that are looked for one by one; of more, at each place of a text those that begin as it goes on."""
_PIECE: Final = re.compile(r"[^\s\"'`<>()\[\]{},;|\\]{8,4000}")
"""A run that might be a secret or a part of one."""


class Redacted(NamedTuple):
    """A value without its secrets."""

    value: Any
    secrets: int
    """Number of secrets that were replaced; if 0, the value is the original object."""


@dataclass(frozen=True, slots=True)
class Redactor:
    """Redaction in one of its modes, at the two borders that a value can cross."""

    mode: Mode = "off"

    def on_storage(self, value: Any) -> Any:
        """Redact a message or text on its way into a store."""
        return redact_item(value).value if self.mode == "storage" else value

    def on_export(self, value: Any) -> Any:
        """Redact a message or text on its way out: an exported part, a summary, a receipt, an event."""
        return value if self.mode == "off" else redact_item(value).value


def make_redactor(mode: str = "off") -> Redactor:
    """Return the redactor of a mode; raises `RefoldError` if the extra is needed and missing."""
    known = next((name for name in _MODES if name == mode), None)
    if known is None:
        raise RefoldError(f"no redaction is named {mode!r}: use one of {', '.join(_MODES)}")
    if known != "off":
        load_library()
    return Redactor(known)


def redact_text(text: str) -> Redacted:
    """Replace each secret in a text by `[redacted:KIND]`."""
    return _redact_text(text, set())


def _redact_text(text: str, values: set[str]) -> Redacted:
    """Redact a text and add its secrets to the values."""
    count = 0
    for _ in range(_PASSES):
        secrets = find_secrets(text)
        if not secrets:
            break
        pieces: list[str] = []
        at = 0
        for secret in secrets:
            values.add(text[secret.start : secret.end])
            pieces += [text[at : secret.start], f"[redacted:{secret.kind}]"]
            at = secret.end
        text = "".join(pieces) + text[at:]
        count += len(secrets)
    return Redacted(text, count)


def redact_item(value: Any) -> Redacted:
    """Replace each secret in a wire message, or in any JSON value."""
    return _copy_redacted(value, _Walk())


def _copy_redacted(value: Any, walk: "_Walk") -> Redacted:
    """Return a copy of a value without secrets; the value itself if there are none."""
    box: list[Any] = [value]
    walk.into(box, 0, value, "", free=False)
    while walk.waiting:
        walk.step(*walk.waiting.pop())
    return Redacted(box[0] if walk.count else value, walk.count)


class SecretMemory:
    """Redaction of one conversation: a secret that was found once is replaced wherever it comes up again.

    Often only the words around a secret give it away, and a fact or a name that was taken out of a text has
    lost them.
    """

    def __init__(self) -> None:
        self._values: set[str] = set()
        self._lines: list[str] = []
        self._joined = ""
        self._sizes: dict[str, set[int]] = {}
        self._parts: set[str] = set()

    def __call__(self, value: Any) -> Any:
        """Return the value without its secrets and without those that were found in other values before."""
        before = len(self._values)
        done = _copy_redacted(value, _Walk(self._values)).value
        if len(self._values) > before:
            self._index()
        return _copy_redacted(done, _Known(self)).value if self._values else done

    def _index(self) -> None:
        """Take in new secrets; each line of one, such as of a private key, stands for itself."""
        known = set(self._lines)
        self._joined = "\n".join(sorted(self._values, key=len, reverse=True))
        self._lines = self._joined.split("\n")
        for line in set(self._lines) - known:
            self._sizes.setdefault(line[:_SHORTEST], set()).add(len(line))
            self._parts.update(line[at : at + _SHORTEST] for at in range(0, len(line), _STEP))

    def knows(self, word: str) -> bool:
        """Return True if a word is a secret or a long part of one."""
        may_know = any(word[at : at + _SHORTEST] in self._parts for at in range(_STEP))
        return may_know and len(word) >= _PART and word in self._joined

    def find(self, text: str) -> Iterable[str]:
        """Return the secrets that may stand in a text, the longest first; of many no others."""
        if len(self._lines) <= _FEW:
            return self._lines
        starts = ((at, self._sizes.get(text[at : at + _SHORTEST], ())) for at in range(len(text)))
        found = {text[at : at + size] for at, sizes in starts for size in sizes}
        return [line for line in self._lines if line in found] if found else ()


class _Walk:
    """Copies a value part by part; a list of what is left to do replaces recursion, so depth is no limit."""

    def __init__(self, values: set[str] | None = None) -> None:
        self.waiting: list[tuple[Any, Any, bool]] = []
        self.count = 0
        self.values: set[str] = set() if values is None else values
        """The secrets that were found."""

    def step(self, old: Any, new: Any, free: bool) -> None:  # noqa: FBT001  # as `into` has it
        """Fill one copied object or list."""
        if isinstance(old, list):
            for index, value in enumerate(old):
                self.into(new, index, value, "", free=free)
            return
        for key, value in old.items():
            name = self._key(key, new)
            new[name] = value
            if free or not _is_kept(old, key, value):
                self.into(new, name, value, key, free=free or key in _FREE)

    def into(self, target: Any, place: Any, value: Any, name: Any, *, free: bool) -> None:
        """Put the copy of a value at its place."""
        if isinstance(value, str):
            target[place] = self._text(value, name)
        elif isinstance(value, list):
            target[place] = list(value)
            self.waiting.append((value, target[place], free))
        elif isinstance(value, Mapping) and (free or not _is_sealed(value)):
            target[place] = {}
            self.waiting.append((value, target[place], free))

    def _key(self, key: Any, new: Mapping[Any, Any]) -> Any:
        if not isinstance(key, str):
            return key
        redacted = self._bare(key)
        self.count += redacted.secrets
        name, number = redacted.value, 2
        while redacted.secrets and name in new:
            name, number = f"{redacted.value} {number}", number + 1
        return name

    def _text(self, text: str, name: Any) -> str:
        if isinstance(name, str) and is_secret_name(name) and is_secret_value(text):
            self.values.add(text)
            self.count += 1
            return f"[redacted:{_NAMED}]"
        if name == "arguments" and (arguments := self._arguments(text)) is not None:
            self.count += arguments.secrets
            return str(arguments.value)
        redacted = self._bare(text)
        self.count += redacted.secrets
        return str(redacted.value)

    def _bare(self, text: str) -> Redacted:
        return _redact_text(text, self.values)

    def _arguments(self, text: str) -> Redacted | None:
        """Redact a call's arguments, which must still be JSON afterwards; None if they are no JSON."""
        value = read_json(text)
        if not isinstance(value, (dict, list)):
            return None
        done = _copy_redacted({"arguments": value}, self.fresh())
        return Redacted(json.dumps(done.value["arguments"]) if done.secrets else text, done.secrets)

    def fresh(self) -> "_Walk":
        """Return another walk with the same rules."""
        return _Walk(self.values)


class _Known(_Walk):
    """Replaces secrets that are known already, and long parts of them."""

    def __init__(self, memory: SecretMemory) -> None:
        super().__init__()
        self.memory = memory

    def _bare(self, text: str) -> Redacted:
        count = 0

        def hide(run: re.Match[str]) -> str:
            nonlocal count
            word = run[0].rstrip(".,:;!?")
            is_part = len(word) >= _PART and not word.isalpha()
            if not is_part or not (self.memory.knows(word) or self.memory.knows(word.rstrip("="))):
                return run[0]
            count += 1
            return f"[redacted:known]{run[0][len(word) :]}"

        done = _PIECE.sub(hide, text)
        for value in self.memory.find(done):
            if len(value) >= _SHORTEST and value in done:
                count += 1
                done = done.replace(value, "[redacted:known]")
        return Redacted(done, count)

    def fresh(self) -> _Walk:
        return _Known(self.memory)


def _is_sealed(block: Mapping[str, Any]) -> bool:
    """Return True if a provider signed or encrypted this block."""
    kind = block.get("type", block.get("kind"))
    if kind == "redacted_thinking" or _has_text(block, "encrypted_content"):
        return True
    if _has_text(block, "thoughtSignature") or _has_text(block, "thought_signature"):
        return True
    thinks = isinstance(kind, str) and kind.startswith(("thinking", "reasoning"))
    return thinks and any(_has_text(block, key) for key in ("signature", "redacted", "data"))


def _has_text(block: Mapping[str, Any], key: str) -> bool:
    return isinstance(block.get(key), str) and bool(block[key])


def _is_kept(block: Mapping[str, Any], key: Any, value: Any) -> bool:
    """Return True if a field is an id, a picture, a file or a provider's cipher."""
    if not isinstance(key, str) or not isinstance(value, str):
        return False
    if key == "id" or key.endswith("_id") or key.startswith("encrypted_"):
        return True
    if key == "data":
        return block.get("type") != "text" and not _MEDIA.isdisjoint(block)
    if key == "result":
        return block.get("type") == "image_generation_call"
    return value.startswith("data:") and ";base64," in value[:200]
