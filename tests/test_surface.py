"""The public surface: complete, sorted, cheap to import, and without side effects."""

import ast
import inspect
import json
import subprocess
import sys
from importlib.resources import files

import pytest

import refold
from refold import errors

PROMISED = {
    "measure",
    "compact",
    "acompact",
    "plan",
    "validate",
    "repair",
    "overflow",
    "window",
    "clip",
    "count",
    "fit_text",
    "fit_files",
    "presets",
    "register_strategy",
    "list_strategies",
    "Message",
    "Policy",
    "Ask",
    "Budget",
    "Outcome",
    "Plan",
    "Problem",
    "Repaired",
    "OverflowInfo",
    "Window",
    "Clipped",
}
"""What the page of the promised surface names for the calls on plain data."""


def child(program, *flags):
    """What a fresh interpreter prints, as JSON."""
    command = [sys.executable, "-B", *flags, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


# -- names -------------------------------------------------------------------------------------------------


def test_public_names_are_sorted_and_none_is_there_twice():
    assert refold.__all__ == sorted(set(refold.__all__))


@pytest.mark.parametrize("name", refold.__all__)
def test_every_public_name_is_there(name):
    assert getattr(refold, name) is not None


def test_every_promised_name_is_public():
    assert set(refold.__all__) >= PROMISED


def test_every_error_is_public():
    raised = {
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, Exception)
    }
    assert raised <= set(refold.__all__)
    assert all(getattr(refold, name) is getattr(errors, name) for name in raised)


def imported():
    """The names that a type checker sees in the package."""
    tree = ast.parse(files(refold).joinpath("__init__.py").read_text(encoding="utf-8"))
    checked = [node for node in tree.body if isinstance(node, ast.If)]
    return [
        alias.asname or alias.name
        for node in ast.walk(checked[0])
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]


def test_a_type_checker_sees_the_names_that_a_program_gets():
    assert sorted(imported()) == refold.__all__


def test_nothing_public_is_missing():
    named = {name for name in dir(refold) if not name.startswith("_")}
    modules = {name for name in named if inspect.ismodule(getattr(refold, name))}
    assert named - modules - {"TYPE_CHECKING", "Any", "Final", "import_module"} == set(refold.__all__) - {
        "presets"
    }
    assert set(refold.__all__) <= set(dir(refold))


def test_a_name_is_the_thing_itself_in_its_module():
    for name in refold.__all__:
        value = getattr(refold, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert getattr(sys.modules[value.__module__], value.__name__) is value


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'refold' has no attribute 'nobody'"):
        refold.nobody  # noqa: B018  # looking is the point


def test_everything_public_says_what_it_is():
    for name in refold.__all__:
        value = getattr(refold, name)
        assert value.__doc__, name
        assert value.__doc__.strip(), name


def test_the_version_is_told():
    assert refold.__version__.count(".") == 2


def test_types_ship_with_the_package():
    assert files(refold).joinpath("py.typed").is_file()


# -- the price of an import --------------------------------------------------------------------------------

MOST_MODULES = {
    "import refold": 40,
    "import refold; refold.compact, refold.measure, refold.plan, refold.overflow": 330,
    "import refold; refold.open('a', store='memory:').prepare([{'role': 'user', 'content': 'hi'}])": 325,
}
"""Modules that a statement may load beyond those of a bare interpreter; the time an import takes grows with them.
Issue 2 asks for `import refold` under 120 CPU-milliseconds; the benchmarks measure that."""


@pytest.mark.parametrize("statement", MOST_MODULES)
def test_an_import_and_a_first_use_load_few_modules(statement):
    """Names are loaded when they are first used; that must not only move the price."""
    program = f"import sys; before = set(sys.modules); {statement}; import json; print(json.dumps(len(set(sys.modules) - before)))"
    assert child(program) <= MOST_MODULES[statement]


def test_a_turn_without_a_fold_loads_nothing_that_only_folds_need():
    """Facts, digests, tool output by kind, and the search for secrets."""
    program = """
import json, sys, refold
session = refold.open("a", store="memory:")
session.prepare([{"role": "user", "content": "hi"}])
session.observe({"usage": {"prompt_tokens": 9, "completion_tokens": 1}})
rooms = ("refold.core.facts.", "refold.core.outputs.", "refold.redaction.", "refold.stages.digest")
print(json.dumps([name for name in sys.modules if name.startswith(rooms)]))
"""
    assert child(program) == []


HEAVY = [
    "asyncio",
    "httpx",
    "httpx2",
    "stamina",
    "sqlite3",
    "socket",
    "ssl",
    "subprocess",
    "uuid",
    "urllib.request",
    "splintr",
]


@pytest.fixture(scope="module")
def first_use():
    """What a process sees that imports all names and uses the calls: the names, what it loaded, what it opened."""
    program = f"""
import sys, json
seen = []
def hook(event, arguments):
    if event.split(".")[0] in ("socket", "subprocess") or event in ("os.mkdir", "os.rename", "os.remove", "os.system"):
        seen.append(event)
    if event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
        seen.append(f"open {{arguments[0]}}")
sys.addaudithook(hook)
before = set(dir())
from refold import *
names = sorted(set(dir()) - before - {{"before"}})
import refold
messages = [{{"role": "user", "content": "hi " * 900}} for _ in range(30)]
refold.measure(messages, model="gpt-4o")
refold.compact(messages, window=4000, ask=lambda ask: "It was about greetings.")
refold.plan(messages, window=4000)
refold.repair(messages), refold.validate(messages), refold.clip("x" * 99999), refold.overflow("prompt is too long")
heavy = [name for name in {HEAVY!r} if name in sys.modules]
print(json.dumps({{"names": names, "heavy": heavy, "opened": seen}}))
"""
    return child(program)


def test_a_star_import_gives_the_public_names(first_use):
    assert first_use["names"] == refold.__all__


def test_nothing_heavy_is_loaded_by_an_import_or_by_a_first_use(first_use):
    assert first_use["heavy"] == []


def test_a_use_opens_no_socket_starts_no_process_and_writes_no_file(first_use):
    assert first_use["opened"] == []
