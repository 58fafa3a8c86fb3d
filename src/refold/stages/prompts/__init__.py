"""The summarisers' prompts: one Markdown file for each system, `<!-- occasion -->` before each part.

Sections: `system`, `initial`, `update` (there is an earlier summary), `merge` (parts of a long one),
`turn` (the beginning of a turn that goes on), `behind` (the last message of the conversation itself). Places
to fill in are written `{{name}}`; a line that holds nothing but an empty place goes away.
"""

import re
from functools import cache
from typing import Final

_PLACE: Final = re.compile(r"\{\{(\w+)\}\}")


@cache
def load(name: str) -> dict[str, str]:
    """The sections of a prompt file."""
    from importlib import resources  # pulls in much that a program without summaries never needs

    text = resources.files(__name__).joinpath(f"{name}.md").read_text(encoding="utf-8")
    sections = re.split(r"^<!-- (\w+) -->\n", text, flags=re.MULTILINE)
    return dict(zip(sections[1::2], (body.strip() for body in sections[2::2]), strict=True))


def fill(template: str, **values: str) -> str:
    """Fill the places of a template; values are data and are not searched for places themselves."""
    lines = [line for line in template.split("\n") if not _is_empty_place(line, values)]
    return _PLACE.sub(lambda place: values.get(place[1], ""), "\n".join(lines)).strip()


def _is_empty_place(line: str, values: dict[str, str]) -> bool:
    place = _PLACE.fullmatch(line.strip())
    return place is not None and not values.get(place[1], "")
