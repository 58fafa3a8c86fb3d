"""The options that say how results are shown; every command has them, so that this loads nothing else."""

from argparse import ArgumentParser


def output(parser: ArgumentParser) -> None:
    """Add how results are shown."""
    add = parser.add_argument_group("the output").add_argument
    add("--json", action="store_true", help="one JSON object with every field")
    add("--no-color", action="store_true", help="no colours, also on a terminal")
