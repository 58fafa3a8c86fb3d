"""What `make dist` finds wrong with a distribution, and what `make extras` reads from packages."""

import io
import sys
import tarfile
import zipfile
from email.message import Message
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import dist  # noqa: E402
import measure_extras  # noqa: E402

PACKAGE = [
    path.relative_to(ROOT / "src").as_posix()
    for path in (ROOT / "src" / "refold").rglob("*")
    if path.is_file() and "__pycache__" not in path.parts
]
ABOUT = "Name: refold\nVersion: 0.1.0\nProvides-Extra: chat\nRequires-Dist: rich>=14; extra == 'chat'\n"
FOLDER = "refold-0.1.0.dist-info"


def wheel(tmp_path, names, about=ABOUT, extra=("entry_points.txt", "licenses/LICENSE")):
    path = tmp_path / "refold-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{FOLDER}/METADATA", about)
        for name in (*names, *(f"{FOLDER}/{each}" for each in extra)):
            archive.writestr(name, "")
    return path


def test_a_complete_wheel_has_nothing_wrong(tmp_path):
    assert list(dist.check_wheel(wheel(tmp_path, PACKAGE))) == []


def test_what_a_wheel_lacks_or_has_too_much_is_named(tmp_path):
    rest = [name for name in PACKAGE if name != "refold/py.typed"]
    made = wheel(tmp_path, [*rest, "tests/conftest.py"], extra=("entry_points.txt",))
    assert list(dist.check_wheel(made)) == [
        "the wheel lacks refold/py.typed",
        "the wheel has tests/conftest.py",
        "the wheel lacks licenses/LICENSE",
    ]


def test_the_core_needs_no_other_package(tmp_path):
    about = "Name: refold\nVersion: 0.1.0\nRequires-Dist: rich\nProvides-Extra: chat\n"
    made = wheel(tmp_path, PACKAGE, about)
    assert list(dist.check_wheel(made)) == ["the wheel needs another package without an extra"]


def test_what_a_source_distribution_lacks_or_has_too_much_is_named(tmp_path):
    path = tmp_path / "refold-0.1.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in ("src/refold/__init__.py", "tests/__pycache__/a.pyc", "docs/index.md", "pyproject.toml"):
            archive.addfile(tarfile.TarInfo(f"refold-0.1.0/{name}"), io.BytesIO())
    problems = list(dist.check_source(path))
    assert "the source distribution lacks SECURITY.md" in problems
    assert "the source distribution lacks examples/" in problems
    assert "the source distribution has tests/__pycache__/a.pyc" in problems
    assert not any("pyproject" in problem or "docs/" in problem for problem in problems)


@pytest.mark.parametrize(
    ("fields", "licence"),
    [
        ([("License-Expression", "MIT"), ("License", "see file")], "MIT"),
        ([("License", "BSD-3-Clause")], "BSD-3-Clause"),
        (
            [
                ("License", "Permission is hereby granted " * 9),
                ("Classifier", "License :: OSI Approved :: MIT License"),
            ],
            "MIT License",
        ),
        ([], "Apache License"),
        ([], "not named"),
    ],
)
def test_a_licence_is_read_where_a_package_names_it(fields, licence):
    metadata = Message()
    for name, value in fields:
        metadata[name] = value
    file = SimpleNamespace(stem="LICENSE", read_text=lambda: "\n   Apache License\n  Version 2.0")
    files = [file] if licence == "Apache License" else None
    assert measure_extras.find_licence(SimpleNamespace(metadata=metadata, files=files)) == licence
