"""The terminal program: the room that reads files, prints, and turns errors into one line and a status.

`program` is where it starts. Each command is one module with `arguments` and `run`; it is loaded only when
it is asked for. What a command shows stands in a module of its own, so that it can be read without the rest.
"""

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program with these arguments, or with those of the process; give its exit status."""
    from refold.cli.program import run

    return run(argv)
