"""Markdown of the reference from the code: signatures, fields, options, settings, events and errors."""

import ast
import inspect
import re
import textwrap
from argparse import Action
from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any, Final, cast, get_args

import refold
from refold.cli.program import COMMANDS, make_parsers
from refold.config.serve_settings import SERVE_SETTINGS
from refold.config.values import SETTINGS
from refold.session import events

LINE: Final = 96
"""Characters of a signature on one line; a longer one has a line for each parameter."""
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


def read_function(value: Any) -> FunctionNode:
    """Return the definition of a function as its source has it."""
    source = textwrap.dedent(inspect.getsource(inspect.unwrap(value)))
    return cast("FunctionNode", ast.parse(source).body[0])


def read_class(value: type) -> ast.ClassDef:
    """Return the definition of a class as its source has it."""
    return cast("ast.ClassDef", ast.parse(textwrap.dedent(inspect.getsource(value))).body[0])


def format_signature(node: FunctionNode, name: str, *, bound: bool = False) -> str:
    """Return a signature as it is written, without the first parameter of a method."""
    args = node.args
    if bound and (args.posonlyargs or args.args):
        (args.posonlyargs or args.args).pop(0)
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    head = "async def " if isinstance(node, ast.AsyncFunctionDef) else "def "
    flat = f"{head}{name}({', '.join(split_parameters(args))}){returns}"
    if len(flat) <= LINE:
        return flat
    return f"{head}{name}(\n" + "".join(f"    {one},\n" for one in split_parameters(args)) + f"){returns}"


def split_parameters(args: ast.arguments) -> Iterator[str]:
    """Yield each parameter with its type and its default."""
    positional = [*args.posonlyargs, *args.args]
    missing: list[ast.expr | None] = [None] * (len(positional) - len(args.defaults))
    for arg, default in zip(positional, [*missing, *args.defaults], strict=True):
        yield _format_parameter(arg, default)
        if args.posonlyargs and arg is args.posonlyargs[-1]:
            yield "/"
    if args.vararg:
        yield f"*{ast.unparse(args.vararg)}"
    elif args.kwonlyargs:
        yield "*"
    for arg, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        yield _format_parameter(arg, default)
    if args.kwarg:
        yield f"**{ast.unparse(args.kwarg)}"


def _format_parameter(arg: ast.arg, default: ast.expr | None) -> str:
    return ast.unparse(arg) + (f" = {ast.unparse(default)}" if default else "")


def format_docstring(value: Any) -> str:
    """Return the first paragraph as text, and what follows as it is laid out."""
    first, _, rest = inspect.cleandoc(value.__doc__ or "").partition("\n\n")
    text = " ".join(first.split())
    return f"{text}\n\n```text\n{rest.strip()}\n```" if rest.strip() else text


# -- the library --------------------------------------------------------------------------------------------


def format_function(name: str, value: Any) -> str:
    """Return a function: heading, signature, what it does."""
    signature = format_signature(read_function(value), name)
    return f"### {name}\n\n```py\n{signature}\n```\n\n{format_docstring(value)}\n"


def format_class(name: str, value: type) -> str:
    """Return a class: what it is, its fields, its calls."""
    parts = [f"### {name}", format_docstring(value)]
    has_fields = is_dataclass(value) or hasattr(value, "_fields")
    fields = list(find_fields(read_class(value))) if has_fields else []
    properties = find_properties(value)
    if fields or properties:
        rows = "".join(f"| `{one}` | {_cell(kind)} | {_escape(text)} |\n" for one, kind, text in fields)
        rows += "".join(f"| `{one}` | | {_escape(text)} |\n" for one, text in properties)
        parts.append(f"| field | type | meaning |\n|---|---|---|\n{rows.rstrip()}")
    calls = "\n\n".join(_format_method(method, found) for method, found in find_methods(value))
    return "\n\n".join(part for part in (*parts, calls) if part) + "\n"


def find_fields(node: ast.ClassDef) -> Iterator[tuple[str, str, str]]:
    """Yield name, type and meaning of each public field."""
    for statement, after in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            name = statement.target.id
            if not name.startswith("_"):
                yield name, ast.unparse(statement.annotation), _read_text(after)


def _read_text(statement: ast.stmt | None) -> str:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return " ".join(str(statement.value.value).split())
    return ""


def find_properties(value: type) -> list[tuple[str, str]]:
    """Return name and meaning of each public property."""
    found = inspect.getmembers(value, lambda one: isinstance(one, property))
    return [(name, _first(one.__doc__)) for name, one in found if not name.startswith("_")]


def find_methods(value: type) -> list[tuple[str, Any]]:
    """Return the public calls that refold itself defines."""
    found = inspect.getmembers(value, inspect.isfunction)
    own = [
        (name, one)
        for name, one in found
        if not name.startswith("_") and (one.__module__ or "").startswith("refold") and one.__doc__
    ]
    return sorted(own, key=lambda pair: inspect.unwrap(pair[1]).__code__.co_firstlineno)


def _format_method(name: str, value: Any) -> str:
    signature = format_signature(read_function(value), name, bound=True)
    return f"```py\n{signature}\n```\n\n{format_docstring(value)}"


def _first(text: str | None) -> str:
    return " ".join(inspect.cleandoc(text or "").partition("\n\n")[0].split())


def _cell(code: str) -> str:
    return f"`{code}`".replace("|", "\\|")


def _escape(text: str) -> str:
    return text.replace("|", "\\|")


# -- the terminal, settings, events, errors -----------------------------------------------------------------


def format_commands() -> str:
    """Return every command with its arguments and options."""
    return "\n".join(_format_command(name, words) for name, words in COMMANDS.items())


def _format_command(name: str, words: str) -> str:
    _, parser, _ = make_parsers(name)
    rows = [
        f"| {_name_action(action)} | {_escape(' '.join((action.help or '').split()))} |"
        for action in parser._actions  # noqa: SLF001  # argparse has no public way to list them
        if "--help" not in action.option_strings
    ]
    table = "| argument | meaning |\n|---|---|\n" + "\n".join(rows) + "\n" if rows else ""
    return f"## refold {name}\n\n{words[0].upper()}{words[1:]}.\n\n{table}"


def _name_action(action: Action) -> str:
    metavar = action.metavar if isinstance(action.metavar, str) else " ".join(action.metavar or ())
    value = "" if action.nargs == 0 else f" {metavar or action.dest.upper()}"
    if not action.option_strings:
        return f"`{value.strip()}`"
    return ", ".join(f"`{option}{value}`" for option in action.option_strings)


def format_settings() -> str:
    """Return the settings of the program and of the gateway."""
    tables = ""
    for title, settings, variable in (
        ("Settings", SETTINGS, "REFOLD_"),
        ("The gateway, in the table `[serve]`", SERVE_SETTINGS, "REFOLD_SERVE_"),
    ):
        rows = "".join(
            f"| `{name}` | `{variable}{name.upper()}` | {_escape(info.default)} | {_escape(info.words)} |\n"
            for name, info in settings.items()
        )
        head = "| in `refold.toml` | variable | default | what it sets |\n|---|---|---|---|\n"
        tables += f"## {title}\n\n{head}{rows}\n"
    return tables.rstrip() + "\n"


def format_events() -> str:
    """Return every event with its fields."""
    parts = []
    for value in get_args(events.Event):
        kind = value.__dataclass_fields__["kind"].default
        rows = "".join(
            f"| `{name}` | {_cell(type_)} | {_escape(text)} |\n"
            for name, type_, text in find_fields(read_class(value))
            if name != "kind"
        )
        table = f"| field | type | meaning |\n|---|---|---|\n{rows}" if rows else ""
        parts.append(f"## {kind}\n\n{_first(value.__doc__)}\n\n{table}")
    return "\n".join(parts)


def find_errors() -> list[type]:
    """Return every public error and warning, in the order of their definition."""
    names = [name for name in refold.__all__ if isinstance(getattr(refold, name), type)]
    found = [getattr(refold, name) for name in names]
    errors = [one for one in found if issubclass(one, refold.RefoldError | refold.RefoldWarning)]
    return sorted(errors, key=lambda one: inspect.getsourcelines(one)[1])


def format_errors() -> str:
    """Return every error: what it is, what it inherits from, its attributes."""
    parts = []
    for value in find_errors():
        parents = ", ".join(f"`{parent.__name__}`" for parent in value.__bases__)
        source = inspect.getsource(value)
        names = list(dict.fromkeys(re.findall(r"self\.([a-z_]+)\s*(?::[^=\n]+)?=", source)))
        held = f"\n\nAttributes: {', '.join(f'`{name}`' for name in names)}." if names else ""
        parts.append(f"## {value.__name__}\n\n{_first(value.__doc__)} A kind of {parents}.{held}\n")
    return "\n".join(parts)
