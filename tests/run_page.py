"""Run the Python examples of one page in a process of their own, as on a machine with only what the page names.

    python run_page.py PAGE MODULE,MODULE...                 the modules that are to be missing
    python run_page.py PAGE MODULE,... PAGE MODULE,... ...   each page in a fork of a process that has imported refold

The process that forks imports refold with all modules missing that any of the pages misses.

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

    def __init__(self, names: str) -> None:
        self.names = frozenset(filter(None, names.split(",")))

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Refuse the packages; leave all others to Python."""
        if fullname.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return None


def main() -> None:
    """Run the page, or each of several."""
    pages = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=True))
    sys.meta_path.insert(0, Missing(",".join(pages.values())))
    import refold

    warnings.simplefilter("error")
    warnings.filterwarnings("default", category=refold.RefoldWarning)
    is_forked = len(pages) > 1
    if is_forked:
        for name in refold.__all__:
            getattr(refold, name)
        gc.freeze()  # pages that no collection touches stay shared
        pages = fork_for_each(pages)
    for page, missing in pages.items():
        sys.meta_path[0] = Missing(missing)
        namespace = {"__name__": "example"}
        for block in BLOCK.findall(Path(page).read_text(encoding="utf-8")):
            exec(compile(block, page, "exec"), namespace)
        if is_forked:
            leave_quickly(0)


def fork_for_each(pages: dict[str, str]) -> dict[str, str]:
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
        return {page: pages[page]}
    return {}


if __name__ == "__main__":
    main()
