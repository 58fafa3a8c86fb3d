"""The example transcripts are what the script makes."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import make_transcripts  # noqa: E402


def test_the_files_are_what_the_script_makes():
    for name, text in make_transcripts.written().items():
        assert (ROOT / "examples" / "transcripts" / name).read_text(encoding="utf-8") == text


def test_it_writes_them_and_tells_when_they_differ(tmp_path, monkeypatch):
    monkeypatch.setattr(make_transcripts, "FOLDER", tmp_path / "made")
    monkeypatch.setattr(sys, "argv", ["make_transcripts.py"])
    make_transcripts.main()
    assert len(list((tmp_path / "made").iterdir())) == 6
    monkeypatch.setattr(sys, "argv", ["make_transcripts.py", "--check"])
    make_transcripts.main()
    (tmp_path / "made" / "pi.jsonl").write_text("other", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"pi\.jsonl is not what this script writes"):
        make_transcripts.main()
