"""Run the Python examples of one page in a process of their own, as on a machine with only what the page names.

    python run_page.py PAGE MODULE,MODULE...    the modules that are to be missing

The examples run in order, in one namespace. Warnings are errors, but for those that refold gives to its users.
"""

import re
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

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
    """Run the page."""
    page, missing = Path(sys.argv[1]), frozenset(filter(None, sys.argv[2].split(",")))
    sys.meta_path.insert(0, Missing(missing))
    import refold

    warnings.simplefilter("error")
    warnings.filterwarnings("default", category=refold.RefoldWarning)
    namespace = {"__name__": "example"}
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        exec(compile(block, str(page), "exec"), namespace)


if __name__ == "__main__":
    main()
