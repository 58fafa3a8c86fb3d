"""The prompts of summarisers: Markdown files with `<!-- occasion -->` before each section.

Sections: `system`, `initial`, `update` (there is an earlier summary), `merge` (parts of a long one),
`turn` (the beginning of a turn that goes on), `behind` (one more turn of the conversation itself). Places to
fill in are written `{{name}}`; a line that holds only an empty place is removed.
"""

import re
from functools import cache
from pkgutil import get_data
from typing import Final

_PLACE: Final = re.compile(r"\{\{(\w+)\}\}")


@cache
def load(name: str) -> dict[str, str]:
    """Return the sections of a prompt: `refold`, or `package:path` for one of another package."""
    package, _, path = name.rpartition(":")
    text = (get_data(package or __name__, path if package else f"{path}.md") or b"").decode("utf-8")
    sections = re.split(r"^<!-- (\w+) -->\n", text, flags=re.MULTILINE)
    return dict(zip(sections[1::2], (body.strip() for body in sections[2::2]), strict=True))


def fill(template: str, **values: str) -> str:
    """Fill the places of a template; values are data and are not searched for places themselves."""
    lines = []
    for line in template.split("\n"):
        place = _PLACE.fullmatch(line.strip())
        if place is None or values.get(place[1], ""):
            lines.append(line)
    return _PLACE.sub(lambda place: values.get(place[1], ""), "\n".join(lines)).strip()
