"""Numbers as people write and say them ("128k", "200,000", "1 message"); knows no model and no provider."""

import math
import re
from typing import Final

from refold.errors import FormatError

_SETTING: Final = r"([0-9][0-9_,]{0,17})(?:\.([0-9]{1,9}))?\s*([kKmM]?)(?:\s*[tT]okens?)?"
_GROUPED: Final = r"[0-9]{1,3}(?:[_,][0-9]{3})*|[0-9]+"
_SCALE: Final = {"": 1, "k": 1_000, "m": 1_000_000}


def parse_tokens(setting: str | float) -> int:
    """Read a number of tokens as a person writes it.

    >>> tokens("128k"), tokens("1m"), tokens("200,000"), tokens(32_768)
    (128000, 1000000, 200000, 32768)
    """
    size = _written(setting) if isinstance(setting, str) else _plain(setting)
    if size is None or size < 1:
        raise FormatError(
            f"{_shown(setting)} is not a number of tokens: write 128000, 128_000, 128k or 1m, and more than 0"
        )
    return size


def format_count(number: int, word: str) -> str:
    """A number with its word.

    >>> plural(1, "message"), plural(1_200, "message")
    ('1 message', '1,200 messages')
    """
    return f"{number:,} {word}{'s' * (number != 1)}"


def _written(setting: str) -> int | None:
    match = re.fullmatch(_SETTING, setting.strip()) if len(setting) <= 64 else None
    if match is None or not re.fullmatch(_GROUPED, match[1]):
        return None
    fraction, scale = match[2] or "", _SCALE[match[3].lower()]
    size = int(match[1].replace("_", "").replace(",", "")) * scale
    part, rest = divmod(int(fraction or "0") * scale, 10 ** len(fraction))
    return None if rest else size + part


def _plain(setting: float) -> int | None:
    if isinstance(setting, bool) or not isinstance(setting, int | float):
        return None
    if isinstance(setting, float) and not (math.isfinite(setting) and setting.is_integer()):
        return None
    return int(setting)


def _shown(setting: object) -> str:
    if isinstance(setting, str):
        return repr(setting if len(setting) <= 40 else f"{setting[:37]}...")
    if isinstance(setting, int | float) and abs(setting) < 10**20:
        return repr(setting)
    return f"a {type(setting).__name__} like this"
