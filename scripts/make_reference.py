"""Write docs/reference from the code: the library, the terminal program, settings, events, errors.

    python scripts/make_reference.py            write the pages
    python scripts/make_reference.py --check    say which pages are not up to date

After a change of a signature, a docstring, an option or a setting: run it, and commit what it wrote.
"""

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from reference_pages import (
    find_errors,
    format_class,
    format_commands,
    format_errors,
    format_events,
    format_function,
    format_settings,
)

import refold

REFERENCE: Final = Path(__file__).resolve().parent.parent / "docs" / "reference"
GROUPS: Final = {
    "Calls without state": (
        "measure compact acompact plan count clip fit_text fit_files validate repair overflow window"
    ),
    "Sessions": "open aopen wrap work Session AsyncSession Sessions",
    "What calls return": (
        "Outcome Plan Receipt Repaired Budget Breakdown Edit Ready Observed FoldMade Hit Checkpoint Rewound"
        " CompactionSegment Stats Spent FittedFile Clipped Problem OverflowInfo Window"
    ),
    "Messages": "Message Text ToolCall ToolResult Thinking Image Document File Opaque",
    "Models, stores, policies": (
        "Ask Answer CompactRequest Client open_client open_store Policy Strategy Thread register_strategy"
        " list_strategies"
    ),
}
"""The names of `import refold`, in the order in which a reader needs them."""
MODULES: Final = {
    "refold.presets": "Policies by name.",
    "refold.clients": "Models by address.",
    "refold.transcripts": "Transcripts of agents.",
    "refold.replay": "Recorded conversations, played again.",
    "refold.testing": "For tests of your own programs.",
    "refold.gateway": "The gateway, inside a program.",
}
"""Public modules beside `refold` itself."""
NOTE: Final = "Written by `python scripts/make_reference.py` from the code. Do not edit it by hand.\n"


def make_pages() -> dict[str, str]:
    """Return every page by the name of its file."""
    return {
        "api.md": make_api(),
        "modules.md": make_modules(),
        "cli.md": f"# Every command and option\n\n{NOTE}{CLI}{format_commands()}",
        "settings.md": f"# Every setting\n\n{NOTE}{SETTINGS}{format_settings()}",
        "events.md": f"# Events\n\n{NOTE}{EVENTS}{format_events()}",
        "errors.md": f"# Errors\n\n{NOTE}{ERRORS}{format_errors()}",
    }


CLI: Final = "\n[The terminal program by example](../cli.md) shows what they print.\n\n"
SETTINGS: Final = "\n[Configuration](../configuration.md) explains files, variables and their order.\n\n"
ERRORS: Final = "\n[Troubleshooting](../troubleshooting.md) says what to do about each.\n\n"
EVENTS: Final = """
Subscribe with `session.subscribe(callback)`. Each event is a frozen value with `session`, `at`, `kind` and
`as_dict()`. A callback that fails disturbs nobody. With the extra `otel` the same events become OpenTelemetry
spans and metrics, without any text of the conversation.

"""
LIBRARY: Final = """
Everything that `import refold` offers. [The guide](../library.md) shows it in use. Short names in signatures:

| name | stands for |
|---|---|
| `Tokens` | a number of tokens: `200000`, `"200k"`, `"1m"` |
| `TargetSize` | the same, or a pair: `(10000, 12000)`, `"10k-12k"` |
| `Count` | a callable from text to tokens, or `"exact"` |
| `AskTarget` | a callable from a prompt to a text, a client, an address, or a list of addresses |
| `Seconds` | a number of seconds above 0; `ASK_SECONDS` is 60 |
"""


def make_api() -> str:
    """Return the page of `import refold`."""
    parts = [f"# The library\n\n{NOTE}{LIBRARY}"]
    for title, names in GROUPS.items():
        links = ", ".join(f"[{name}](#{name.lower()})" for name in names.split())
        parts.append(f"## {title}\n\n{links}\n")
        parts += [format_value(name, getattr(refold, name)) for name in names.split()]
    return "\n".join(parts)


def make_modules() -> str:
    """Return the page of the other public modules."""
    parts = [f"# Other public modules\n\n{NOTE}"]
    for name, words in MODULES.items():
        module = import_module(name)
        parts.append(f"## {name}\n\n{words}\n")
        parts += [format_value(public, value) for public, value in find_public(module)]
    return "\n".join(parts)


def find_public(module: ModuleType) -> list[tuple[str, Any]]:
    """Return the functions and classes of a module that it names in `__all__`."""
    values = [(name, getattr(module, name)) for name in module.__all__]
    return [(name, value) for name, value in values if callable(value) and hasattr(value, "__module__")]


def format_value(name: str, value: Any) -> str:
    """Return a function or a class."""
    if isinstance(value, type):
        return format_class(name, value)
    return format_function(name, value) if callable(value) and hasattr(value, "__code__") else ""


def find_missing() -> set[str]:
    """Return public names that no page has; the list of groups is complete if there are none."""
    grouped = {name for names in GROUPS.values() for name in names.split()}
    return set(refold.__all__) - grouped - {one.__name__ for one in find_errors()} - {"presets"}


def main() -> None:
    """Write the pages, or only compare them."""
    if missing := find_missing():
        sys.exit(f"scripts/make_reference.py knows no group for {', '.join(sorted(missing))}")
    REFERENCE.mkdir(parents=True, exist_ok=True)
    for name, text in make_pages().items():
        file = REFERENCE / name
        if "--check" in sys.argv:
            if not file.exists() or file.read_text(encoding="utf-8") != text:
                sys.exit(f"docs/reference/{name} is not up to date: run scripts/make_reference.py")
        else:
            file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
