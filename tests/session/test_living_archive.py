"""The archive that a session keeps with each fold: Ripple's document, "Originals are preserved"."""

import asyncio
import json
from pathlib import Path

import pytest
from talks import opened, reply, user

import refold

GIST = "They spoke of moorings, pilots and the tide at the northern quay."


def talk(start, turns=8):
    said = []
    for number in range(start, start + turns):
        said += [user(f"question {number} " + "x" * 400), reply(f"answer {number} " + "y" * 400)]
    return said


def kept(folder, name="s", policy="ripple", ask=GIST, **options):
    return opened(name, policy=policy, window=2_000, ask=lambda _: ask, archive=folder, **options)


def files(folder):
    return {path.relative_to(folder).as_posix(): path for path in Path(folder).rglob("*") if path.is_file()}


def lines(folder, name):
    return [json.loads(line) for line in (Path(folder) / name).read_text().splitlines()]


def same_view(folder, session):
    """True if the archive, read back, shows what the session shows, and lacks nothing that was said."""
    with opened("copy", policy="ripple") as copy:
        said = copy.import_from(str(folder))
        return copy.view() == session.view() and said == session.stats().said


def test_each_fold_writes_its_part(tmp_path):
    """One part file per round, the summary names the folder, and summaries are tagged in the files."""
    folder = tmp_path / "archive"
    with kept(folder) as session:
        assert not folder.exists()
        for number in range(3):
            session.say(talk(8 * number))
            assert session.compact().compacted
            assert [f"history/part-{n}.jsonl" in files(folder) for n in range(1, 4)] == [
                n <= number + 1 for n in range(1, 4)
            ]
            summary = session.view()[0]
            pointer = f"The original messages are kept in {folder}/history/, one part file per compaction."
            assert summary["content"].count(pointer) == 1
            assert same_view(folder, session)
        live = lines(folder, "messages.jsonl")
        assert [message.get("source") for message in live[:3]] == ["summarization", "summarization", None]
        assert "source" not in summary  # the provider gets no such field
        parts = [lines(folder, f"history/part-{n}.jsonl") for n in (1, 2, 3)]
        assert [message for part in parts for message in part] + live[2:] == session.original("#1-#48")
    assert {path.stat().st_mode & 0o777 for path in files(folder).values()} == {0o600}


def test_parts_that_are_there_are_not_written_again(tmp_path):
    with kept(tmp_path) as session:
        session.say(talk(0))
        session.compact()
        first = files(tmp_path)["history/part-1.jsonl"].stat()
        session.say(talk(8))
        session.compact()
        again = files(tmp_path)["history/part-1.jsonl"].stat()
        assert (first.st_ino, first.st_mtime_ns) == (again.st_ino, again.st_mtime_ns)


def test_a_compaction_that_fails_writes_nothing(tmp_path):
    """A failed or no-op compaction leaves the history untouched and creates no part file."""
    with kept(tmp_path / "a", ask="") as session:
        session.say(talk(0))
        assert not session.compact().compacted
    assert not (tmp_path / "a").exists()


def test_without_an_archive_the_summary_names_none(tmp_path):
    """The brief's case 14: no archive, no pointer sentence."""
    with kept(None) as session:
        session.say(talk(0))
        session.compact()
        assert "kept in" not in session.view()[0]["content"]


@pytest.mark.parametrize("store", ["jsonl:talks", "sqlite:talks.db"])
def test_without_an_archive_the_summary_of_a_lasting_store_names_recall(store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with kept(None, store=store) as session:
        for number in (0, 8):
            session.say(talk(number))
            assert session.compact().compacted
            pointer = "The original messages are kept in the log of the session, where `recall` finds them."
            assert session.view()[0]["content"].count(pointer) == 1
        assert session.recall("question 0")[0].folded
        session.export(str(tmp_path / "out"))
        assert same_view(tmp_path / "out", session)


def test_an_undone_fold_leaves_the_archive(tmp_path):
    """Its part is set aside, never deleted: the live messages and the parts hold each message once."""
    with kept(tmp_path) as session:
        for number in range(2):
            session.say(talk(8 * number))
            session.compact()
        session.unfold()
        assert {"history/part-1.jsonl", "history/part-2.jsonl.old"} <= files(tmp_path).keys()
        assert "history/part-2.jsonl" not in files(tmp_path)
        assert same_view(tmp_path, session)


def test_the_default_policy_keeps_one_too(tmp_path):
    with kept(tmp_path, policy="refold") as session:
        session.say(talk(0, turns=30))
        session.compact(target=1_500)
        assert same_view(tmp_path, session)
        assert str(tmp_path) not in str(session.view())


def test_an_event_loop_keeps_one_too(tmp_path):
    async def main():
        options = {"policy": "ripple", "window": 2_000, "store": "memory:", "archive": tmp_path}
        session = refold.aopen("s", ask=lambda _: GIST, **options)
        await session.say(talk(0))
        await session.compact()
        return await session.view()

    view = asyncio.run(main())
    assert view[0]["content"] == lines(tmp_path, "messages.jsonl")[0]["content"]


@pytest.mark.parametrize("archive", ["others", "file"])
def test_a_folder_that_is_not_ours_is_refused_at_once(archive, tmp_path):
    with kept(tmp_path / "others", name="first") as session:
        session.say(talk(0))
        session.compact()
    (tmp_path / "file").write_text("text")
    before = {name: path.read_bytes() for name, path in files(tmp_path).items()}
    with pytest.raises(refold.StoreError, match=r"session 'first', not of 'second'|is a file"):
        kept(tmp_path / archive, name="second")
    assert {name: path.read_bytes() for name, path in files(tmp_path).items()} == before


def test_an_archive_is_a_folder():
    with pytest.raises(refold.RefoldError, match="archive=3: expected text, or a path, or none"):
        kept(3)


def test_a_fold_stands_where_its_archive_cannot_be_written(tmp_path):
    """Somebody else's folder came in between: it is left alone, and people are told."""
    heard = []
    with kept(tmp_path / "a") as session:
        session.subscribe(heard.append)
        session.say(talk(0))
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / "notes.txt").write_text("mine")
        with pytest.warns(refold.RefoldWarning, match="the archive was not written"):
            assert session.compact().compacted
        assert len(session.folds()) == 1
        assert files(tmp_path / "a").keys() == {"notes.txt"}
        (reason,) = [event.reason for event in heard if event.kind == "context_warning" and event.reason]
        assert "holds other files" in reason
        (tmp_path / "a" / "notes.txt").unlink()
        session.say(talk(8))
        session.compact()
        assert same_view(tmp_path / "a", session)


@pytest.mark.parametrize("renames", range(4))
def test_what_a_crash_left_out_is_written_later(renames, tmp_path, monkeypatch):
    """Killed before any of the renames: the log has the fold, and the next process writes the archive."""
    store = f"jsonl:{tmp_path}/store"
    session = kept(tmp_path / "a", store=store)
    session.say(talk(0))
    session.compact()
    session.say(talk(8))
    left = [renames]
    replace = Path.replace

    def break_off(self, target):
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        return replace(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", break_off)
        if renames < 3:
            with pytest.raises(KeyboardInterrupt):
                session.compact()
        else:
            session.compact()
    session.close()
    with kept(tmp_path / "a", store=store) as session:
        assert len(session.folds()) == 2
        assert same_view(tmp_path / "a", session)
        assert len(files(tmp_path / "a")) == 4
