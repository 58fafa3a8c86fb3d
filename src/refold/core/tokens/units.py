"""Read and write numbers as people do ("128k", "200,000", "1 message"); knows no model and no provider."""

import math
import re
from typing import Final

from refold.arguments import LARGEST
from refold.errors import FormatError

_SETTING: Final = r"([0-9][0-9_,]{0,17})(?:\.([0-9]{1,9}))?\s*([kKmM]?)(?:\s*[tT]okens?)?"
_GROUPED: Final = r"[0-9]{1,3}(?:[_,][0-9]{3})*|[0-9]+"
_SCALE: Final = {"": 1, "k": 1_000, "m": 1_000_000}


def parse_tokens(setting: str | float, path: str = "") -> int:
    """Read a number of tokens as a person writes it; an error names the path.

    >>> parse_tokens("128k"), parse_tokens("1m"), parse_tokens("200,000"), parse_tokens(32_768)
    (128000, 1000000, 200000, 32768)
    """
    size: int | None = None
    if isinstance(setting, str):
        size = _parse_text(setting)
    elif isinstance(setting, int | float) and not isinstance(setting, bool):
        is_whole = isinstance(setting, int) or (math.isfinite(setting) and setting.is_integer())
        size = int(setting) if is_whole else None
    if size is None or size < 1:
        hint = "write 128000, 128_000, 128k or 1m, and more than 0"
        raise FormatError(f"{_quote(setting)} is not a number of tokens: {hint}", path=path)
    if size > LARGEST:
        raise FormatError(f"{_quote(setting)} is too large: {LARGEST:,} tokens are the most", path=path)
    return size


def parse_window(setting: str | float) -> int:
    """Read the size of a context window; an error says that it is about the window.

    >>> parse_window("32k")
    32000
    """
    try:
        return parse_tokens(setting)
    except FormatError as error:
        raise FormatError(f"window={error}") from None


def format_count(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> format_count(1, "message"), format_count(1_200, "message")
    ('1 message', '1,200 messages')
    """
    return f"{number:,} {noun}{'s' * (number != 1)}"


def _parse_text(setting: str) -> int | None:
    match = re.fullmatch(_SETTING, setting.strip()) if len(setting) <= 64 else None
    if match is None or not re.fullmatch(_GROUPED, match[1]):
        return None
    fraction, scale = match[2] or "", _SCALE[match[3].lower()]
    size = int(match[1].replace("_", "").replace(",", "")) * scale
    # Integers only: 1.1 * 1,000 as floats is 1100.0000000000002.
    part, rest = divmod(int(fraction or "0") * scale, 10 ** len(fraction))
    return None if rest else size + part


def _quote(setting: object) -> str:
    """Return a short form for an error message, however long the value is."""
    if isinstance(setting, str):
        return repr(setting if len(setting) <= 40 else f"{setting[:37]}...")
    if isinstance(setting, int | float) and abs(setting) < 10**20:
        return repr(setting)
    return f"a {type(setting).__name__} like this"
