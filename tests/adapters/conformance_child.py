"""What the conformance suite runs in a process of its own: an agent that is killed, or a provider.

python conformance_child.py agent FILE CLASS FOLDER URL      reads [key, text] a line, prints the answer
python conformance_child.py provider LIMIT WORDS             prints its address, ends with its input
"""

import json
import sys
import warnings
from importlib import import_module
from pathlib import Path


class There:
    """A provider in another process, as far as an agent needs it."""

    def __init__(self, url: str) -> None:
        self.url, self.root = url, url.removesuffix("/v1")


def run_agent(file: str, name: str, folder: str, url: str) -> None:
    """Run a turn for each line of the input."""
    from conformance_running import Running

    sys.path.insert(0, str(Path(file).parent))
    case = getattr(import_module(Path(file).stem), name).case
    answers, sys.stdout = sys.stdout, sys.stderr  # what a framework prints must not stand between answers
    running = Running(case, There(url), Path(folder))
    for line in sys.stdin:
        print(json.dumps(running.turn(*json.loads(line))), file=answers, flush=True)


def run_provider(limit: str, words: str) -> None:
    """Answer until the input ends."""
    from refold.testing import Provider

    with Provider(limit=int(limit), words=int(words)) as provider:
        print(provider.url, flush=True)  # noqa: T201  # the parent reads it
        sys.stdin.read()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    {"agent": run_agent, "provider": run_provider}[sys.argv[1]](*sys.argv[2:])
