"""Run the Python examples of one page in a process of their own, as on a machine with only what the page names.

    python run_page.py PAGE MODULE,MODULE...        the modules that are to be missing
    python run_page.py PAGE,PAGE MODULE,MODULE...   each page in a fork of a process that has imported refold

The examples run in order, in one namespace. Warnings are errors, but for those that refold gives to its users.
A fork has the folder `0`, `1`, ... here to itself as its home; its output is in the file `said` there, and one
line for each page tells its status.
"""

import gc
import os
import re
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from forked_program import leave_quickly

BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


class Missing(MetaPathFinder):
    """Packages that are not installed."""

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Refuse the packages; leave all others to Python."""
        if fullname.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return None


def main() -> None:
    """Run the page, or each of several."""
    pages, missing = sys.argv[1].split(","), frozenset(filter(None, sys.argv[2].split(",")))
    sys.meta_path.insert(0, Missing(missing))
    import refold

    warnings.simplefilter("error")
    warnings.filterwarnings("default", category=refold.RefoldWarning)
    is_forked = len(pages) > 1
    if is_forked:
        for name in refold.__all__:
            getattr(refold, name)
        gc.freeze()  # pages that no collection touches stay shared
        pages = fork_for_each(pages)
    for page in pages:
        namespace = {"__name__": "example"}
        for block in BLOCK.findall(Path(page).read_text(encoding="utf-8")):
            exec(compile(block, page, "exec"), namespace)
        if is_forked:
            leave_quickly(0)


def fork_for_each(pages: list[str]) -> list[str]:
    """In a child: the one page that it is to run. In the parent, after all of them: none."""
    for number, page in enumerate(pages):
        child = os.fork()
        if child:
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            os.write(1, b"%d\n" % status)
            continue
        home = Path(str(number)).resolve()
        home.mkdir()
        os.chdir(home)
        os.environ |= dict.fromkeys(("HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"), str(home))
        with Path("said").open("wb") as said:
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
        return [page]
    return []


if __name__ == "__main__":
    main()
