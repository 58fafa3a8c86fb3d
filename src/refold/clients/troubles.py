"""What can go wrong between a question and its answer, in words, and what of it may pass by itself."""

import json
import re
from typing import Any, Final

from refold.core.overflow.detect import overflow
from refold.errors import Overflow

MOST_WORDS: Final = 200
"""Characters of a provider's own message that are told; more would bring whole pages into receipts."""
_PASSING: Final = frozenset({408, 409, 425, 429})
_NAMED: Final = {
    401: "refused the key",
    402: "wants to be paid",
    403: "refused access",
    404: "does not know this model or address",
    429: "is asked too often",
}
_UNSUPPORTED: Final = re.compile(
    r"unsupported|not supported|does not support|unrecognized|unrecognised|unknown|deprecated"
    r"|extra inputs|not permitted|not allowed|unexpected|only the default",
    re.IGNORECASE,
)
"""How a refusal of one parameter is worded, in OpenAI's, Anthropic's, Google's and pydantic's servers."""


class Trouble(Exception):
    """Why there is no answer; never leaves the room: it becomes an `AnswerFailed`."""

    def __init__(
        self,
        why: str,
        *,
        passing: bool = False,
        wait: float | None = None,
        late: bool = False,
        cause: Exception | None = None,
    ) -> None:
        super().__init__(why)
        self.why = why
        self.passing = passing
        """Whether asking again may help."""
        self.wait = wait
        """Seconds that the provider asked to wait for."""
        self.late = late
        """Whether time ran out."""
        self.cause = cause

    def clean(self, key: str) -> None:
        """Make it one line without the key, which a server may have repeated."""
        why = "".join(sign if sign.isprintable() else " " for sign in self.why)
        self.why = why.replace(key, "[key]") if key else why
        self.args = (self.why,)


def refusal(status: int, body: bytes, *, provider: str | None, wait: float | None, key: str) -> Trouble:
    """What a status other than 200 means; `key` is the variable that the key is read from."""
    if size := too_large({"status": status, "body": body}, provider):
        return size
    if 300 <= status < 400:
        return Trouble(f"redirects elsewhere ({status}), which is not followed: give the address it leads to")
    said = _NAMED.get(status, "failed" if status >= 500 else "refused the question")
    if status in (401, 403):  # what it says may quote the key
        return Trouble(f"{said} ({status}): check {key}")
    words = told(body)
    passing = status in _PASSING or 500 <= status <= 599
    return Trouble(f"{said} ({status})" + (f": {words}" if words else ""), passing=passing, wait=wait)


def too_large(value: Any, provider: str | None) -> Trouble | None:
    """The trouble with a question that is too large; None where something else is wrong."""
    found = overflow(value, provider=provider)
    if found is None:
        return None
    numbers = [
        f"{found.requested:,} tokens" if found.requested else "",
        f"limit {found.limit:,}" if found.limit else "",
    ]
    about = ", ".join(filter(None, numbers))
    cause = Overflow(found.provider, found.limit, found.requested)
    return Trouble("refused the question for its size" + (f" ({about})" if about else ""), cause=cause)


def reported(value: Any, provider: str | None) -> Trouble:
    """The trouble that an error inside an answer tells of."""
    words = told(value)
    return too_large(value, provider) or Trouble("failed while answering" + (f": {words}" if words else ""))


def unsupported(body: bytes, names: tuple[str, ...]) -> frozenset[str]:
    """The parameters of a request, of those that can be spared, to which a refusal objects."""
    words = body[:20_000].decode("utf-8", "replace")
    if not _UNSUPPORTED.search(words):
        return frozenset()
    return frozenset(name for name in names if re.search(rf"\b{name}\b", words))


def told(value: Any) -> str:
    """What a provider says is wrong, one short line; "" for a page of HTML or nothing."""
    if isinstance(value, bytes):
        text = value.decode("utf-8", "replace").strip()
        if text[:1] == "<":
            return ""
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = text
    for _ in range(5):
        if isinstance(value, list):
            value = value[0] if value else ""
        elif isinstance(value, dict):
            value = next((value[key] for key in ("error", "message", "detail", "msg") if value.get(key)), "")
    return " ".join(value.split())[:MOST_WORDS] if isinstance(value, str) else ""
