"""The keys that a request carries; a virtual one is replaced by the upstream's own before it goes on."""

import hmac
import re
from collections.abc import Mapping
from typing import Final, Protocol

from multidict import CIMultiDict

from refold.gateway.http.refusals import Refusal
from refold.gateway.virtual_keys import PREFIX, Upstream, VirtualKey, hash_key

_KEY_HEADERS: Final = ("Authorization", "x-api-key", "api-key", "x-goog-api-key")
"""Headers in which clients send their keys."""
_PAYERS: Final = ("OpenAI-Organization", "OpenAI-Project")
"""Headers that say who pays: with the operator's key that is not the caller's to choose."""
_WORD: Final = re.compile(rf"{PREFIX}[\w-]+")
"""What may be a virtual key inside of a value."""
_SENT_AS: Final[Mapping[Upstream, str]] = {
    "openai": "Authorization",
    "anthropic": "x-api-key",
    "gemini": "x-goog-api-key",
}


class Headers(Protocol):
    """Headers of a request, as far as keys are found in them."""

    def getall(self, key: str, default: list[str]) -> list[str]:
        """Return every value of a header."""


def find_sent_keys(headers: Headers) -> list[str]:
    """Return the different keys of a request, without the word before a bearer's."""
    sent = (value.strip() for header in _KEY_HEADERS for value in headers.getall(header, []))
    return sorted({key for value in sent if (key := _strip_scheme(value))})


def _strip_scheme(value: str) -> str:
    scheme, _, key = value.partition(" ")
    return key.strip() if scheme.lower() == "bearer" else value


def find_virtual_key(headers: Headers, known: tuple[VirtualKey, ...], secret: str) -> VirtualKey | None:
    """Return the virtual key of a request; None for a provider's own key. Refuses one that is not known."""
    # Behind whatever word: one that is not found goes on to the upstream.
    words = (word for key in find_sent_keys(headers) for word in key.split())
    sent = [word for word in words if word.startswith(PREFIX)]
    if not sent:
        return None
    digest = hash_key(sent[0], secret)
    # Each is compared, so that no time tells how far a guess has come.
    found = [key for key in known if hmac.compare_digest(key.digest, digest)]
    if len(sent) > 1 or not found:
        raise Refusal(401, "key", "this key is not known here")
    return found[0]


def remove_virtual_keys(headers: CIMultiDict[str], known: tuple[VirtualKey, ...], secret: str) -> None:
    """Take virtual keys out of every header, such as a cookie; what else stands there goes on."""
    found = [(name, value) for name, value in headers.items() if known and PREFIX in value]
    digests = {key.digest for key in known}
    keys = {word for _, value in found for word in _WORD.findall(value) if hash_key(word, secret) in digests}
    if not keys:
        return
    kept = [(name, _remove_all(value, keys)) for name, value in headers.items()]
    headers.clear()
    headers.extend(kept)


def _remove_all(text: str, words: set[str]) -> str:
    for word in sorted(words, key=len, reverse=True):  # one may be the beginning of another
        text = text.replace(word, "")
    return text


def replace_key(headers: CIMultiDict[str], key: VirtualKey, upstream: Upstream) -> None:
    """Put the upstream's key in the place of the virtual one."""
    own = get_upstream_key(key, upstream)
    for name in (*_KEY_HEADERS, *_PAYERS):
        headers.popall(name, None)
    headers[_SENT_AS[upstream]] = f"Bearer {own}" if upstream == "openai" else own


def get_upstream_key(key: VirtualKey, upstream: Upstream) -> str:
    """Return the key of an upstream; refuses one that is not for this caller."""
    if upstream not in key.keys:
        raise Refusal(403, "key", "this key is not for this upstream")
    return key.keys[upstream]
