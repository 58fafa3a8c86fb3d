"""Texts of every kind, to measure counting with: made from a seed, or found on the machine it runs on.

Nothing is fetched. What is found differs between machines (the standard library's sources and manual are
always there; translations, headers and logs where a system has them); what is made is the same everywhere.
Used by `scripts/calibrate_estimate.py`, `bench/count.py` and the tests of the estimate.
"""

import ast
import base64
import gettext
import json
import random
import sys
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final

MOST: Final = 600_000
"""Characters taken from one source, so that none outweighs the others."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A text, what kind it is of, and where it comes from."""

    kind: str
    source: str
    text: str


# --- made -----------------------------------------------------------------------------------------------

_WORDS = (
    "the of and to in is that for it with as on was at by this from not are but have an which be or one all "
    "new release build failed deploy done check value status path count total error module function time "
    "result size input output type user project file line message request response session token window"
)
_KEYS = (
    "id name type status value items createdAt updated_at user_id email path line message error code data "
    "result tags enabled price count url title description start_date isActive parentId total_tokens"
)
_EMOJI = "😀 😂 😊 😍 🤔 👍 👎 🙏 🎉 🔥 ✨ 💡 🚀 ✅ ❌ 💔 👀 🙌 😭 😅 🥳 🤖 🐛 📦 📝 🔧 🔍 ⏳ 🌍 🍕 ☕ 🎵 🏆"
_SYMBOLS = "→ ← ✓ ✗ • – — … “ ” ‘ ’ ≤ ≥ × ± ° € £ © § · ▶ ■ □ ● ○ ★ ⏺ ⎿ ❯ │ █ ░ ∑ √ ∞ α β π λ Δ Ω ∈"
WORDS: Final = _WORDS.split()
KEYS: Final = _KEYS.split()
SYMBOLS: Final = _SYMBOLS.split()
COMMON_EMOJI: Final = _EMOJI.split()
RARE_EMOJI: Final = [chr(code) for code in (*range(0x1F300, 0x1F6C6), *range(0x1F900, 0x1FA00))]
JOINED_EMOJI: Final = ["👨\u200d👩\u200d👧\u200d👦", "👩🏽\u200d💻", "🏳\ufe0f\u200d🌈", "❤\ufe0f", "🇩🇪", "🇯🇵"]


def made(kind: str, rng: random.Random, characters: int) -> str:
    """Make a text of a kind, about this long; a style is chosen by chance."""
    parts: list[str] = []
    length = 0
    maker, separator = MAKERS[kind](rng)
    while length < characters:
        parts.append(maker())
        length += len(parts[-1]) + len(separator)
    return separator.join(parts)[:characters]


def _clock(rng: random.Random) -> str:
    return f"{rng.randint(0, 23):02d}:{rng.randint(0, 59):02d}:{rng.randint(0, 59):02d}"


def _date(rng: random.Random) -> str:
    return f"20{rng.randint(20, 29)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"


def _phrase(rng: random.Random, most: int = 8) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(1, most)))


def _log_line(rng: random.Random, style: int) -> str:
    level = rng.choice(["INFO", "WARN", "ERROR", "DEBUG"])
    part = f"{rng.choice(WORDS)}.{rng.choice(WORDS)}"
    address = ".".join(str(rng.randint(1, 254)) for _ in range(4))
    number = rng.randrange(1 << 32)
    match style:
        case 0:
            return (
                f"{_date(rng)}T{_clock(rng)}.{number % 1000:03d}Z {level:5} [{part}] {_phrase(rng)} "
                f"id={number:08x} took={number % 9999}ms"
            )
        case 1:
            return (
                f'{address} - - [{rng.randint(1, 28):02d}/Mar/2026:{_clock(rng)} +0000] "GET /api/v1/'
                f'{part.replace(".", "/")}/{number % 99999} HTTP/1.1" {rng.choice([200, 404, 500])} '
                f'{number % 70000} "-" "Mozilla/5.0 (X11; Linux x86_64)"'
            )
        case 2:
            return (
                f"Mar {rng.randint(1, 28):2d} {_clock(rng)} host-{number % 20} {part}[{number % 9999}]: "
                f"{level.lower()}: {_phrase(rng)} from {address}:{number % 65535}"
            )
        case 3:
            colour = f"\x1b[{31 + number % 6}m"
            return f"[{_clock(rng)}] {colour}{level}\x1b[0m {part} - {_phrase(rng)} ({number % 5}/5)"
        case _:
            return (
                f'  File "/usr/lib/{part.replace(".", "/")}.py", line {number % 2000}, '
                f"in {rng.choice(WORDS)}\n"
                f"    {rng.choice(WORDS)}({rng.choice(WORDS)}, {rng.choice(KEYS)}={number % 100})"
            )


def _json_value(rng: random.Random, depth: int) -> Any:
    shape = rng.random()
    if depth < 3 and shape < 0.3:
        return {key: _json_value(rng, depth + 1) for key in rng.sample(KEYS, rng.randint(2, 6))}
    if depth < 3 and shape < 0.45:
        return [_json_value(rng, depth + 1) for _ in range(rng.randint(1, 5))]
    leaves: list[Callable[[], Any]] = [
        lambda: rng.randint(0, 10 ** rng.randint(1, 7)),
        lambda: round(rng.random() * 1000, rng.randint(1, 6)),
        lambda: rng.choice([True, False, None]),
        lambda: _phrase(rng),
        lambda: rng.choice(WORDS),
        lambda: f"{rng.randrange(1 << 64):016x}",
        lambda: f"{_date(rng)}T{_clock(rng)}Z",
        lambda: f"https://example.com/{rng.choice(WORDS)}/{rng.randint(1, 9999)}",
        lambda: f"src/{rng.choice(WORDS)}/{rng.choice(WORDS)}_{rng.choice(WORDS)}.py",
    ]
    return rng.choice(leaves)()


def _table(rng: random.Random) -> str:
    frame = rng.choice(["┌┬┐├┼┤└┴┘─│", "╔╦╗╠╬╣╚╩╝═║", "╭┬╮├┼┤╰┴╯─│", "+++++++++-|"])
    widths = [rng.randint(6, 20) for _ in range(rng.randint(2, 5))]

    def rule(left: str, middle: str, right: str) -> str:
        return left + middle.join(frame[9] * (width + 2) for width in widths) + right

    def row() -> str:
        return (
            frame[10]
            + frame[10].join(f" {rng.choice(WORDS):{width}.{width}} " for width in widths)
            + frame[10]
        )

    rows = [row() for _ in range(rng.randint(2, 9))]
    return "\n".join([rule(*frame[:3]), rows[0], rule(*frame[3:6]), *rows[1:], rule(*frame[6:9])])


def _symbols(rng: random.Random) -> str:
    makers: list[Callable[[], str]] = [
        lambda: _table(rng),
        lambda: " ".join(rng.choice(SYMBOLS if rng.random() < 0.4 else WORDS) for _ in range(40)),
        lambda: rng.choice("─━═-=#*_.~") * rng.randint(10, 100),
        lambda: "\n".join(f"{'│   ' * rng.randint(0, 2)}├── {rng.choice(KEYS)}.py" for _ in range(9)),
        lambda: f"{rng.choice(WORDS)}: 40%|{'█' * rng.randint(1, 30)}{' ' * 12}| {rng.randint(1, 99)}it/s",
    ]
    return rng.choice(makers)()


def _numbers(rng: random.Random) -> str:
    row = [f"{rng.gauss(0, 100):.{rng.randint(0, 6)}f}", str(rng.randrange(10 ** rng.randint(1, 9)))]
    return ",".join(rng.choice(row) for _ in range(rng.randint(3, 9)))


def _emoji_maker(rng: random.Random) -> Callable[[], str]:
    share = rng.choice([0.1, 0.3, 0.6, 1.0])
    kinds = rng.choice([(COMMON_EMOJI,), (COMMON_EMOJI, RARE_EMOJI), (COMMON_EMOJI, JOINED_EMOJI)])

    def one() -> str:
        if rng.random() >= share:
            return rng.choice(WORDS)
        return rng.choice(rng.choice(kinds)) * rng.choice([1, 1, 2, 3])

    return one


def _hex_maker(rng: random.Random) -> Callable[[], str]:
    def group(size: int) -> str:
        return rng.randbytes(size).hex()

    return rng.choice(
        [
            lambda: group(32),
            lambda: group(20).upper(),
            lambda: " ".join(group(1) for _ in range(16)),
            lambda: "-".join(group(size) for size in (4, 2, 2, 2, 6)),
            lambda: f"0x{group(8)},",
        ]
    )


def _log_maker(rng: random.Random) -> Callable[[], str]:
    style = rng.randrange(5)
    return lambda: _log_line(rng, style)


def _json_maker(rng: random.Random) -> Callable[[], str]:
    indent = rng.choice([None, None, 2, 4])
    return lambda: json.dumps({key: _json_value(rng, 1) for key in rng.sample(KEYS, 5)}, indent=indent)


Maker = tuple[Callable[[], str], str]
MAKERS: Final[dict[str, Callable[[random.Random], Maker]]] = {
    "base64": lambda rng: (lambda: base64.b64encode(rng.randbytes(57)).decode(), rng.choice(["", "\n"])),
    "hex": lambda rng: (_hex_maker(rng), rng.choice(["\n", " ", ""])),
    "logs": lambda rng: (_log_maker(rng), "\n"),
    "json": lambda rng: (_json_maker(rng), rng.choice(["\n", ", "])),
    "csv": lambda rng: (lambda: _numbers(rng), "\n"),
    "emoji": lambda rng: (_emoji_maker(rng), rng.choice(["", " "])),
    "symbols": lambda rng: (lambda: _symbols(rng), "\n"),
}


# --- found ----------------------------------------------------------------------------------------------

LOCALES: Final = {
    "chinese": ("zh_CN", "zh_TW"),
    "japanese": ("ja",),
    "korean": ("ko",),
    "cyrillic": ("ru", "uk", "bg"),
    "arabic": ("ar",),
    "hindi": ("hi",),
    "european": ("de", "fr", "es", "pl", "sv", "it", "pt_BR", "nl", "cs", "hu", "fi", "ro"),
    "indic": ("bn", "ta", "te", "ml", "kn", "gu", "mr", "pa", "ne"),
    "scripts": ("el", "he", "th", "vi", "tr", "fa", "ka", "hy"),
}
FILES: Final = {
    "code": "/usr/include/*.h",
    "html": "/usr/share/doc/*/*.html",
    "logs": "/var/log/*.log",
    "prose": "/usr/share/doc/*/copyright",
    "shell": "/etc/init.d/*",
    "config": "/etc/*.conf",
}


def found(most: int = MOST) -> Iterator[Sample]:
    """Give what this machine has: sources, manual, docstrings, translations, system files."""
    library = Path(sysconfig.get_paths()["stdlib"])
    sources = [_read(path) for path in sorted(library.glob("*.py" if most <= MOST else "*/*.py"))]
    yield Sample("python", "stdlib", _some(sources, most))
    docstrings = _some([text for source in sources for text in _docstrings(source)], most)
    for source, text in (("docstrings", docstrings), ("manual", _manual())):
        yield Sample("prose", source, text)
        yield Sample("capitals", source, text.upper())
    for kind, languages in LOCALES.items():
        for language in languages:
            yield Sample(kind, f"locale-{language}", _translations(language))
    for kind, pattern in FILES.items():
        yield Sample(kind, pattern, _some([_read(path) for path in sorted(Path("/").glob(pattern[1:]))]))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")[:60_000]
    except OSError:
        return ""


def _some(texts: list[str], most: int = MOST) -> str:
    random.Random(len(texts)).shuffle(texts)  # noqa: S311  # a choice of samples
    return "\n".join(texts)[:most]


def _docstrings(source: str) -> list[str]:
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return []
    places = (
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module)
    )
    return [text for node in places if (text := ast.get_docstring(node))]


def _manual() -> str:
    try:
        from pydoc_data.topics import topics
    except ImportError:
        return ""
    return _some(sorted(topics.values()))


def _translations(language: str) -> str:
    texts: list[str] = []
    for folder in (Path(sys.prefix) / "share/locale", Path("/usr/share/locale")):
        for path in sorted((folder / language / "LC_MESSAGES").glob("*.mo")):
            try:
                with path.open("rb") as file:
                    catalog: dict[Any, str] = gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined]  # noqa: SLF001
            except (OSError, UnicodeError, ValueError):
                continue
            texts.extend(text for key, text in catalog.items() if key and len(text) > 30)
    return _some(texts)


# --- given ----------------------------------------------------------------------------------------------


def given(folder: Path) -> Iterator[Sample]:
    """Read texts sorted into folders: `KIND/SOURCE.txt`."""
    for path in sorted(folder.glob("*/*.txt")):
        yield Sample(path.parent.name, path.stem, path.read_text(encoding="utf-8", errors="replace")[:MOST])


def conversations(folder: Path) -> Iterator[Sample]:
    """Read recorded conversations (JSON, JSONL): what was said as `chat` or `agent`, the files as `json`."""
    for path in sorted(chain(folder.rglob("*.json"), folder.rglob("*.jsonl"))):
        raw = path.read_text(encoding="utf-8", errors="replace")
        try:
            values = (
                [json.loads(line) for line in raw.splitlines()]
                if path.suffix == ".jsonl"
                else [json.loads(raw)]
            )
        except ValueError:
            continue
        said = [text for text in _strings(values) if len(text) >= 200]
        kind = "agent" if "tool_use" in raw or "returncode" in raw else "chat"
        yield Sample(kind, path.stem, _some(said))
        yield Sample("json", path.stem, raw[:MOST])


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
