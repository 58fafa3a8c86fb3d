"""How the table of wire kinds is built from types."""

import importlib.util
import json
import pathlib
import sys
from typing import Annotated, Any, Literal, NotRequired, Required, TypedDict

import pytest

PATH = pathlib.Path(__file__).resolve().parents[2] / "scripts/build_wire_kinds.py"
SPEC = importlib.util.spec_from_file_location("build_wire_kinds", PATH)
build = importlib.util.module_from_spec(SPEC)
sys.modules["build_wire_kinds"] = build
SPEC.loader.exec_module(build)


class Place(TypedDict, total=False):
    uri: str
    size: int


class Seen(TypedDict, total=False):
    type: Required[Literal["seen"]]
    places: Required[list[Place]]
    note: str


class Said(TypedDict):
    type: Literal["said"]
    text: str
    loud: bool
    inner: dict[str, Any]
    data: NotRequired[bytes]


def test_a_kind_has_its_required_fields_or_all_plain_ones():
    found = build.kinds_of(Annotated[Seen | Said | None, "a union"])
    assert found == {
        "seen": [{"type": "seen", "places": [{"uri": "uri"}]}],
        "said": [{"type": "said", "text": "text", "loud": True, "inner": {}}],
    }


def test_a_shape_of_the_service_model_has_its_required_members():
    shapes = {
        "Block": {
            "type": "structure",
            "required": ["name", "parts"],
            "members": {"name": {"shape": "Name"}, "parts": {"shape": "Parts"}, "more": {"shape": "Name"}},
        },
        "Name": {"type": "string"},
        "Parts": {"type": "list", "member": {"shape": "Part"}},
        "Part": {
            "type": "structure",
            "union": True,
            "members": {"bytes": {"shape": "Blob"}, "text": {"shape": "Name"}},
        },
        "Blob": {"type": "blob"},
    }
    assert build.sample_shape(shapes, "Block", "block") == {"name": "name", "parts": [{"bytes": "aGk="}]}


def test_the_table_on_disk_is_written_as_the_script_writes_it():
    text = build.TABLE.read_text(encoding="utf-8")
    table = json.loads(text)
    assert build.dumps(table) == text
    assert table["sources"] == {wire: " ".join(sdk) for wire, sdk in build.SDKS.items()}


def test_a_table_that_is_out_of_date_is_said_and_not_written(monkeypatch, tmp_path, capsys):
    table = json.loads(build.TABLE.read_text(encoding="utf-8"))
    target = tmp_path / "kinds.json"
    monkeypatch.setattr(build, "TABLE", target)
    monkeypatch.setattr(build, "build", lambda: table)
    assert build.main(["--check"]) == 1
    assert "out of date" in capsys.readouterr().err
    assert not target.exists()
    assert build.main([]) == 0
    assert "anthropic: 24 kinds" in capsys.readouterr().out
    assert build.main(["--check"]) == 0


def test_another_version_of_an_sdk_is_refused(monkeypatch):
    monkeypatch.setattr(build.metadata, "version", lambda package: "0.0.1")
    with pytest.raises(SystemExit, match=r"anthropic 0\.0\.1 is here, the table wants"):
        build.build()
