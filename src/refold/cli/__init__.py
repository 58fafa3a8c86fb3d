"""The terminal program: reads files, prints, and turns each error into one line and a status.

`program` is where it starts. Each command is one module of `commands`, loaded only when it is called.
Imports go one way: commands, chat -> options -> input -> output.
"""

import gc
import sys


def main(argv: list[str] | None = None) -> int:
    """Run the program with these arguments, or those of the process; returns its exit status."""
    gc.disable()  # until the command is loaded: nothing of that is garbage, and the search takes 15 ms
    try:  # until here nothing is loaded that takes time
        from refold.cli.program import run

        return run(argv)
    except KeyboardInterrupt:  # while the program is loaded; later `run` heeds it
        print("refold: interrupted", file=sys.stderr)
        return 130
