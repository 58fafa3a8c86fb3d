"""Write docs/data/views.md: what a model sees after a fold, before and after the default policy was rebuilt.

    python scripts/make_views_page.py            write the page; say which views changed
    python scripts/make_views_page.py --check    say whether the page is up to date
    python scripts/make_views_page.py --before   write docs/views/before with the code that is on the path

The views before were written once, with the code of commit 7f83070 on PYTHONPATH. What is said about each
example in docs/views/judged is written by hand: read it again where a view changed.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any, Final

from view_examples import EXAMPLES_OF_VIEWS, Example, View

import refold

DOCS: Final = Path(__file__).resolve().parent.parent / "docs"
PAGE: Final = DOCS / "data" / "views.md"
BEFORE: Final = DOCS / "views" / "before"
JUDGED: Final = DOCS / "views" / "judged"
LONGEST_SYSTEM: Final = 1_200
"""Characters of a system prompt that is shown as a whole; it is the same in every view."""
INTRODUCTION: Final = """\
# Ten views, before and after

The details behind [the short page](../views.md).

Ten invented conversations, folded by the default policy without a model (example 8 has one). *Before* is the
view that the code of commit 7f83070 made, *after* is the view of this version for the same target. Below each
pair stands what is there and what is missing, written by hand by a reader who has to go on from the view.

`python scripts/make_views_page.py` makes this page, and `--check` compares it with the code.
[Another page](../view-quality.md) measures views with a real model.
[Refold's own default](../systems/refold.md) explains the stages.

| sign | meaning |
|---|---|
| `── user` | the role of a message; what follows is its text, word for word |
| `▸ name {...}` | a tool call in it |
| `◂ c12` | a tool result, with the id of its call |
| `⟨...⟩` | a remark of this page: a long system prompt is shown by its first words |
"""


def make_page() -> str:
    """Make the text of the page."""
    return INTRODUCTION + "".join(
        _format_example(number, example) for number, example in enumerate(EXAMPLES_OF_VIEWS, 1)
    )


def _format_example(number: int, example: Example) -> str:
    history = example.history()
    size = f"{refold.count(history):,} tokens in {len(history)} messages"
    before = _read(BEFORE, number)
    after = format_view(example.fold(history))
    judged = _read(JUDGED, number)
    return f"""
## {number}. {example.title}

{example.about}. The conversation has {size}; it is folded to {example.target}.

{_format_block("Before", before)}

{_format_block("After", after)}

{judged}
"""


def _format_block(title: str, view: str) -> str:
    """Format a view that opens on a click; its first line tells its size."""
    size, _, text = view.partition("\n")
    return f"<details>\n<summary>{title}: {size}</summary>\n\n~~~~text\n{text}\n~~~~\n\n</details>"


def _read(folder: Path, number: int) -> str:
    path = folder / f"{number:02}.txt"
    return path.read_text(encoding="utf-8").rstrip("\n") if path.exists() else "Not written yet."


# -- views as text ------------------------------------------------------------------------------------------


def format_view(view: View) -> str:
    """Format a view as text, its size in the first line."""
    folds = f" after {view.folds} folds" if view.folds > 1 else ""
    lines = [f"{view.tokens:,} tokens in {len(view.messages)} messages{folds}"]
    for message in view.messages:
        lines += ["", f"── {message['role']}", *_format_message(message)]
    return "\n".join(line.rstrip() for text in lines for line in text.split("\n"))


def _format_message(message: dict[str, Any]) -> list[str]:
    content = message.get("content") or ""
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if message["role"] == "tool":
        return [f"◂ {message['tool_call_id']}", content]
    lines = [_format_content(block, message["role"]) for block in blocks]
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    lines += [f"▸ {call['name']} {call['arguments']}" for call in calls]
    return [line for line in lines if line]


def _format_content(block: dict[str, Any], role: str) -> str:
    if block["type"] == "tool_use":
        return f"▸ {block['name']} {json.dumps(block['input'], ensure_ascii=False)}"
    if block["type"] == "tool_result":
        return f"◂ {block['tool_use_id']}\n{_result_text(block['content'])}"
    if block["type"] == "thinking":
        return f"(thinking) {block['thinking']}"
    text: str = block["text"]
    if role == "system" and len(text) > LONGEST_SYSTEM:
        return f"{text[:300]}\n⟨and {len(text) - 300:,} more characters, unchanged⟩"
    return text


def _result_text(content: Any) -> str:
    return content if isinstance(content, str) else "\n".join(block.get("text", "") for block in content)


# -- the program --------------------------------------------------------------------------------------------


def main() -> None:
    """Write the page, or only compare it; `--before` writes the old views instead."""
    if "--before" in sys.argv:
        BEFORE.mkdir(parents=True, exist_ok=True)
        for number, example in enumerate(EXAMPLES_OF_VIEWS, 1):
            text = format_view(example.fold(example.history()))
            (BEFORE / f"{number:02}.txt").write_text(f"{text}\n", encoding="utf-8")
        return
    page = make_page()
    old = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    changed = _find_changed(old, page)
    if "--check" in sys.argv:
        if old != page:
            sys.exit(f"docs/data/views.md is not up to date ({changed}): run scripts/make_views_page.py")
        return
    PAGE.write_text(page, encoding="utf-8")
    if old != page:
        print(f"changed: {changed}; read what docs/views/judged says about it again")


def _find_changed(old: str, new: str) -> str:
    """Name the examples that differ."""
    known = set(_HEADING.split(old))
    names = [part.split("\n")[0] for part in _HEADING.split(new) if part not in known]
    return ", ".join(names) or "an example left"


_HEADING: Final = re.compile(r"^## (?=\d+\. )", re.MULTILINE)


if __name__ == "__main__":
    main()
