"""Check the documentation: length of pages, length of sentences, links, plain words, reading order.

    python scripts/check_docs.py            print what is wrong; exit 1 if anything is
    python scripts/check_docs.py --table    also print words and median sentence of every page

A page for readers has at most 1,200 words. Reference, data and decision records may be longer, because nobody
reads them from top to bottom. `make docs` and the tests run this.
"""

import re
import sys
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
MOST_WORDS: Final = 1_200
MOST_MEDIAN: Final = 16
"""Words of the median sentence on a page."""
LONGEST_IN_README: Final = 30
"""Words of the longest sentence in the README: everybody reads it first."""
REFERENCE: Final = (
    "docs/reference/",
    "docs/data/",
    "docs/decisions/",
    "docs/cli.md",
    "docs/configuration.md",
    "docs/glossary.md",
)
"""Pages that are looked up, not read: beginnings of their paths."""
RECORDS: Final = ("docs/data/", "docs/decisions/")
"""Tables with their method, and decisions as they were made: their sentences are not counted."""
PLAIN_WORDS: Final = {
    "for want of better": "default",
    "as long as it may be": "the length limit",
    "rides the conversation": "reuses the prompt cache",
    "lease with a fence": "a lock that expires",
    "costs less than nothing": "negative cost",
    "your own overlay on top": "your own table",
    "behind your back": "in the background",
    "who comes later wins": "the later one wins",
    "leverage": "use",
    "utilize": "use",
    "seamless": "(leave it out)",
    "blazing": "(give a figure)",
    "state-of-the-art": "(give a figure)",
    "cutting-edge": "(leave it out)",
    "in order to": "to",
    "simply": "(leave it out)",
    "obviously": "(leave it out)",
    "needless to say": "(leave it out)",
    "etc.": "(name them)",
}
"""Words and phrases that a page may not have, and what to write instead."""

_FENCE: Final = re.compile(r"^(```|~~~+).*?^\1[`~]*[ \t]*$", re.MULTILINE | re.DOTALL)
_COMMENT: Final = re.compile(r"<!--.*?-->", re.DOTALL)
_LINK: Final = re.compile(r"!?\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]*)\)")
_CODE: Final = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
_HEADING: Final = re.compile(r"^#{1,6} +(.+?)[ #]*$", re.MULTILINE)
_END: Final = re.compile(r"(?<=[.!?])[\"')*_]*\s+(?=[\"'(*_]*[A-Z0-9`])")
_ITEM: Final = re.compile(r"^\s*(?:[-*+]|\d+\.)\s+|^>\s?")
_NAV_PAGE: Final = re.compile(r":\s+(\S+\.md)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is wrong on a page."""

    page: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}: {self.text}"


@dataclass(frozen=True, slots=True)
class Page:
    """One page, by its path from the root of the repository."""

    path: str
    text: str

    @property
    def is_reference(self) -> bool:
        """True if the page is looked up and not read."""
        return self.path.startswith(REFERENCE)

    @property
    def words(self) -> int:
        """All words, as `wc -w` counts them: tables and examples are read too."""
        return len(self.text.split())

    @property
    def sentences(self) -> list[int]:
        """The number of words of every sentence outside of tables, code and headings."""
        return [len(sentence.split()) for block in find_prose(self.text) for sentence in _END.split(block)]

    @property
    def median_sentence(self) -> float:
        """Words of the median sentence; 0 where there is none."""
        return median(self.sentences or [0])


def find_prose(text: str) -> Iterator[str]:
    """Yield paragraphs and list items without code, tables, headings and addresses."""
    text = _COMMENT.sub("", _FENCE.sub("", text))
    text = _LINK.sub(lambda found: found[1], _CODE.sub("CODE", text))
    for paragraph in re.split(r"\n\s*\n", text):
        block: list[str] = []
        for line in paragraph.splitlines():
            if line.lstrip().startswith(("|", "#", "<")) or line.startswith("    "):
                continue
            if _ITEM.match(line) and block:
                yield " ".join(block)
                block = []
            block.append(_ITEM.sub("", line))
        if " ".join(block).strip():
            yield " ".join(block).strip()


def find_anchors(text: str) -> set[str]:
    """Return the anchors of a page, as mkdocs makes them of its headings."""
    found: set[str] = set()
    for heading in _HEADING.findall(_FENCE.sub("", text)):
        base = name = slugify(_LINK.sub(lambda link: link[1], heading))
        number = 0
        while name in found:
            number += 1
            name = f"{base}_{number}"
        found.add(name)
    return found | set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text))


def slugify(heading: str) -> str:
    """Return the anchor of a heading; the rule of Python-Markdown."""
    plain = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


# -- checks -------------------------------------------------------------------------------------------------


def check_length(page: Page) -> Iterator[str]:
    """Say where a page or its sentences are too long."""
    if not page.is_reference and page.words > MOST_WORDS:
        yield f"{page.words:,} words, {MOST_WORDS:,} at most: split it, or move data to docs/data"
    if page.median_sentence > MOST_MEDIAN and not page.path.startswith(RECORDS):
        yield f"the median sentence has {page.median_sentence:g} words, {MOST_MEDIAN} at most"
    if page.path == "README.md" and max(page.sentences, default=0) > LONGEST_IN_README:
        yield f"a sentence has {max(page.sentences)} words, {LONGEST_IN_README} at most"


def check_words(page: Page) -> Iterator[str]:
    """Say where a page has words that are not plain."""
    prose = "\n".join(find_prose(page.text)).lower()
    for word, better in PLAIN_WORDS.items():
        if re.search(rf"(?<!\w){re.escape(word)}", prose):
            yield f"{word!r}: write {better!r}"


def check_links(page: Page, root: Path = ROOT) -> Iterator[str]:
    """Say which links lead to no file or to no heading."""
    for _, target in _LINK.findall(_CODE.sub("", _FENCE.sub("", page.text))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (root / page.path).parent / path if path else root / page.path
        if not file.exists():
            yield f"{target}: there is no such file"
        elif anchor and anchor not in _read_anchors(file):
            yield f"{target}: there is no such heading"


@cache
def _read_anchors(file: Path) -> set[str]:
    return find_anchors(file.read_text(encoding="utf-8"))


def check_navigation(pages: list[Page], config: str) -> Iterator[Problem]:
    """Say which pages the navigation lacks or invents; decision records come last."""
    listed = _NAV_PAGE.findall(config)
    there = [page.path.removeprefix("docs/") for page in pages if page.path.startswith("docs/")]
    for path in sorted(set(there) - set(listed)):
        yield Problem("mkdocs.yml", f"{path} is not in the navigation")
    for path in sorted(set(listed) - set(there)):
        yield Problem("mkdocs.yml", f"{path} does not exist")
    records = [number for number, path in enumerate(listed) if path.startswith("decisions/")]
    if records and records != list(range(records[0], len(listed))):
        yield Problem("mkdocs.yml", "decision records are not last")


def read_pages(root: Path = ROOT) -> list[Page]:
    """Read README, the other pages of the root, and everything under docs/."""
    files = [*sorted(root.glob("*.md")), *sorted((root / "docs").rglob("*.md"))]
    return [Page(str(file.relative_to(root)), file.read_text(encoding="utf-8")) for file in files]


def check(root: Path = ROOT) -> list[Problem]:
    """Return everything that is wrong."""
    pages = read_pages(root)
    found = list(check_navigation(pages, (root / "mkdocs.yml").read_text(encoding="utf-8")))
    for page in pages:
        found += [Problem(page.path, text) for text in check_links(page, root)]
        if page.path == "README.md" or page.path.startswith("docs/"):
            found += [Problem(page.path, text) for text in (*check_length(page), *check_words(page))]
    return found


def main() -> None:
    """Check, print, and fail where something is wrong."""
    if "--table" in sys.argv:
        for page in read_pages():
            kind = "reference" if page.is_reference else ""
            print(f"{page.words:>6,} words  {page.median_sentence:>5g}  {page.path}  {kind}".rstrip())
    problems = check()
    print(*problems, sep="\n")
    if problems:
        sys.exit(f"{len(problems)} problems in the documentation")


if __name__ == "__main__":
    main()
