"""Files that grow, move, are compressed, or are none; the faults B14 to B17 of the catalogue."""

import json
import os
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from transcript_files import CLAUDE, EXAMPLES, LINES, database, lines, rules, user

from refold import transcripts
from refold.errors import FormatError, RefoldError
from refold.transcripts import files, opencode_database, zstd
from refold.transcripts.detect_agent import detect_agent, detect_agent_in_bytes

zstandard = pytest.importorskip("zstandard")


def untouched(path):
    about = path.stat()
    return path.read_bytes(), about.st_mtime_ns, about.st_size, about.st_mode


@pytest.mark.parametrize("example", sorted(EXAMPLES.iterdir()), ids=lambda path: path.name)
def test_reading_changes_nothing(example, tmp_path):
    """The bytes and the time of a file are those of before, and nothing is made beside it."""
    copy = tmp_path / example.name
    copy.write_bytes(example.read_bytes())
    os.utime(copy, ns=(1_000_000_000, 2_000_000_000))
    before = untouched(copy)
    transcript = transcripts.read(copy)
    assert untouched(copy) == before
    assert list(tmp_path.iterdir()) == [copy]
    assert transcript.path == copy
    assert transcript.changed_at == 2.0


def test_every_line_is_kept_byte_for_byte():
    assert list(transcripts.read(CLAUDE).raw) == LINES


def test_a_compressed_file_reads_as_the_plain_one(tmp_path):
    packed = tmp_path / "rollout.jsonl.zst"
    raw = (EXAMPLES / "codex.jsonl").read_bytes()
    half = len(raw) // 2
    machine = zstandard.ZstdCompressor()
    packed.write_bytes(machine.compress(raw[:half]) + machine.compress(raw[half:]))
    transcript = transcripts.read(packed)
    assert transcript.messages == transcripts.read(EXAMPLES / "codex.jsonl").messages
    assert detect_agent(packed) == "codex"


@pytest.mark.slow
def test_a_bomb_is_refused_before_it_fills_the_memory(tmp_path):
    """B14: 16 KB that would be 512 MB."""
    bomb = tmp_path / "bomb.jsonl.zst"
    bomb.write_bytes(zstandard.ZstdCompressor().compress(b"\0" * (512 << 20)))
    assert bomb.stat().st_size < 20_000
    code = (
        "from refold import transcripts\n"
        "try:\n"
        f"    transcripts.read({str(bomb)!r})\n"
        "except Exception as error:\n"
        "    print(type(error).__name__, error)\n"
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    told, peak = done.stdout.splitlines()
    assert told.startswith("FormatError unpacks to more than 50,331,648 bytes")
    assert int(peak) < (96 + 50) * 1024


def test_a_compressed_file_without_its_end_gives_what_came_before(tmp_path):
    """B14: a frame that was cut, and bytes that are none."""
    raw = b"".join(lines(user(number, os.urandom(600).hex())) for number in range(400))
    packed = zstandard.ZstdCompressor().compress(raw)
    path = tmp_path / "cut.jsonl.zst"
    path.write_bytes(packed[: len(packed) // 2])
    transcript = transcripts.read(path)
    assert 50 < len(transcript.messages) < 400
    assert "zstd" in rules(transcript)
    path.write_bytes(b"this is no zstd at all")
    with pytest.raises(FormatError):
        transcripts.read(path)
    assert detect_agent(path) is None


def test_without_the_extra_one_line_says_what_to_install(tmp_path, monkeypatch):
    packed = tmp_path / "a.jsonl.zst"
    packed.write_bytes(zstandard.ZstdCompressor().compress(lines(user(0))))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(RefoldError, match=r"pip install '\.\[zstd\]'"):
        transcripts.read(packed)


class OwnZstd:
    """Stands in for Python's own machine, with its way of being called."""

    ZstdError = zstandard.ZstdError

    class DecompressionParameter:
        """Knobs by name."""

        window_log_max = 100

    class ZstdDecompressor:
        """Gives at most so much at a time."""

        def __init__(self, options):
            assert options == {100: 27}
            self.frame = zstandard.ZstdDecompressor().decompressobj()
            self.waiting = b""

        def decompress(self, data, most):
            given = self.waiting + (self.frame.decompress(data) if data else b"")
            self.waiting = given[most:]
            return given[:most]

        @property
        def needs_input(self):
            return not self.waiting

        @property
        def eof(self):
            return self.frame.eof and not self.waiting

        @property
        def unused_data(self):
            return self.frame.unused_data


def test_pythons_own_machine_is_used_where_there_is_one():
    machine = zstandard.ZstdCompressor()
    packed = machine.compress(b"a" * 3_000_000) + machine.compress(b"b")
    assert b"".join(zstd.decompress_with_stdlib([packed[:9], packed[9:]], OwnZstd)) == b"a" * 3_000_000 + b"b"
    with pytest.raises(zstd.TruncatedFile):
        list(zstd.decompress_with_stdlib([packed[:-3]], OwnZstd))
    with pytest.raises(zstd.TruncatedFile):
        list(zstd.decompress_with_stdlib([b"no zstd"], OwnZstd))


def test_what_is_no_file_is_not_opened(tmp_path):
    """B15: a pipe nobody writes to, a socket, a folder, a device, links that lead round; none hangs."""
    pipe, loop, sock = tmp_path / "pipe", tmp_path / "loop", tmp_path / "sock"
    os.mkfifo(pipe)
    loop.symlink_to(loop)
    with closing(socket.socket(socket.AF_UNIX)) as server:
        server.bind(str(sock))
        for path in (pipe, sock, tmp_path, Path("/dev/zero"), loop):
            with pytest.raises(FormatError):
                transcripts.read(path)
    with pytest.raises(FileNotFoundError):
        transcripts.read(tmp_path / "nothing")
    with pytest.raises(FormatError):
        transcripts.read("/proc/self/status")


def test_a_file_that_becomes_a_pipe_meanwhile_is_not_read(tmp_path, monkeypatch):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    answers = iter([True, False])  # of the path, and of the open file
    monkeypatch.setattr(files.stat, "S_ISREG", lambda _mode: next(answers))
    with pytest.raises(FormatError, match="is no file"), files.open_transcript(pipe):
        pass


def test_a_file_that_grows_is_read_as_it_was_when_it_was_opened(tmp_path):
    """B16: the snapshot ends where the file ended."""
    path = tmp_path / "grows.jsonl"
    path.write_bytes(lines(user(0), user(1)))
    with files.open_transcript(path) as file:
        with path.open("ab") as writer:
            writer.write(lines(user(2)))
        assert b"".join(file.blocks()) == lines(user(0), user(1))
    stop = threading.Event()

    def write():
        number = 3
        with path.open("ab", buffering=0) as writer:
            while not stop.is_set():
                writer.write(lines(user(number)))
                number += 1
                time.sleep(0.001)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        counts = [len(transcripts.read(path).raw) for _ in range(10)]
    finally:
        stop.set()
        thread.join()
    assert counts == sorted(counts)


def test_a_file_that_was_just_compressed_is_found_under_its_other_name(tmp_path):
    """B16: codex packs cold files in place."""
    plain, packed = tmp_path / "rollout.jsonl", tmp_path / "rollout.jsonl.zst"
    packed.write_bytes(zstandard.ZstdCompressor().compress(lines(user(0))))
    assert transcripts.read(plain).path == packed
    packed.unlink()
    plain.write_bytes(lines(user(0)))
    assert transcripts.read(packed).path == plain


def test_the_database_of_opencode_is_read_as_the_export(tmp_path):
    path = tmp_path / "opencode.db"
    name = database(path)
    exported = transcripts.read(EXAMPLES / "opencode.json")
    transcript = transcripts.read(path)
    assert transcript.messages == exported.messages
    assert transcript.seen == exported.seen
    assert transcript.session == name
    assert transcripts.read(f"{path}#{name[:9]}").messages == exported.messages
    assert detect_agent(path) == "opencode"
    assert [one.name for one in tmp_path.iterdir()] == ["opencode.db"]


@pytest.mark.slow
def test_a_database_in_use_is_never_in_the_writers_way(tmp_path):
    """B17: no file is made, no write waits (with timeout=0 it would raise), and what was committed is seen."""
    path = tmp_path / "opencode.db"
    database(path)
    with closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("PRAGMA synchronous = NORMAL")
        writer.execute("UPDATE session SET title = 'live'")
        before = sorted(one.name for one in tmp_path.iterdir())
        stop, counts = threading.Event(), []

        def read():
            while not stop.is_set():
                counts.append(len(transcripts.read(path).raw))

        thread = threading.Thread(target=read)
        thread.start()
        try:
            for number in range(300):
                info = json.dumps({"role": "user"})
                session = "ses_0000000000000000000000001"
                writer.execute("INSERT INTO message VALUES (?, ?, ?)", (f"msg_9{number:025d}", session, info))
                time.sleep(0.001)
        finally:
            stop.set()
            thread.join()
        assert (
            sorted(one.name for one in tmp_path.iterdir())
            == before
            == ["opencode.db", "opencode.db-shm", "opencode.db-wal"]
        )
        assert len(transcripts.read(path).raw) == 1 + 14 + 300
    assert counts == sorted(counts)


def test_a_database_at_rest_gets_no_log_by_being_read(tmp_path):
    """B17: one that is in WAL mode and closed would get -wal and -shm from mode=ro alone."""
    path = tmp_path / "opencode.db"
    database(path)
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = WAL")
    before = untouched(path)
    transcripts.read(path)
    assert untouched(path) == before
    assert [one.name for one in tmp_path.iterdir()] == ["opencode.db"]


def test_a_database_that_changes_without_a_log_is_read_again(tmp_path, monkeypatch):
    path = tmp_path / "opencode.db"
    database(path)
    real, calls = opencode_database.connect, []

    def connect(where, *, immutable):
        calls.append(immutable)
        if len(calls) == 1:
            os.utime(path, ns=(5, 5))
        return real(where, immutable=immutable)

    monkeypatch.setattr(opencode_database, "connect", connect)
    assert len(opencode_database.list_sessions(path)) == 1
    assert calls == [True, True]
    monkeypatch.setattr(
        opencode_database,
        "connect",
        lambda where, immutable: (os.utime(path), real(where, immutable=immutable))[1],
    )
    with pytest.raises(FormatError, match="is being changed all the time"):
        opencode_database.list_sessions(path)


def test_databases_of_others_are_refused(tmp_path):
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE things (id TEXT)")
        db.commit()
    with pytest.raises(FormatError, match="no table of sessions"):
        transcripts.read(path)
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    with pytest.raises(FormatError, match="cannot be read as opencode's database"):
        transcripts.read(path)


def test_cells_and_tables_that_are_not_understood_are_told(tmp_path):
    path = tmp_path / "opencode.db"
    name = database(path)
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE message SET data = '{torn' WHERE id = (SELECT min(id) FROM message)")
        db.execute("UPDATE part SET data = CAST(data AS BLOB)")
        db.execute("UPDATE part SET data = 7 WHERE id = (SELECT min(id) FROM part)")
        db.execute("CREATE TABLE session_message (id TEXT)")
        db.execute("INSERT INTO session (id) VALUES ('ses_new')")
        db.commit()
    transcript = transcripts.read(f"{path}#{name}")
    assert rules(transcript) == ["json", "json"]
    assert len(transcript.messages) >= 20
    newer = transcripts.read(f"{path}#ses_new")
    assert rules(newer) == ["newer"]


def test_sessions_of_a_database_are_chosen_by_their_beginning(tmp_path):
    path = tmp_path / "opencode.db"
    database(path)
    with closing(sqlite3.connect(path)) as db:
        db.execute("INSERT INTO session VALUES ('ses_0000000000000000000000002', 'Two', '/', 5, NULL)")
        db.commit()
    with pytest.raises(FormatError, match="2 sessions that begin with 'ses_0'"):
        transcripts.read(f"{path}#ses_0")
    with pytest.raises(FormatError, match="no session that begins with 'x'"):
        transcripts.read(f"{path}#x")
    assert transcripts.read(f"{path}#0000000000000000000000001").title == "Late gauges"
    with pytest.raises(FormatError, match="has no session 'gone'"):
        opencode_database.read_records(path, "gone")
    with closing(sqlite3.connect(path)) as db:
        db.execute("DELETE FROM session")
        db.commit()
    with pytest.raises(FormatError, match="has no sessions"):
        transcripts.read(path)


def test_one_of_several_conversations_is_named_by_its_number(tmp_path):
    talk = {"messages": [{"role": "user", "content": "one"}]}
    other = {"messages": [{"role": "user", "content": "two"}]}
    path = tmp_path / "many.jsonl"
    path.write_bytes(lines(talk, other))
    assert transcripts.read(f"{path}#2").messages == ({"role": "user", "content": "two"},)
    assert detect_agent(f"{path}#2") == "plain"
    for name in (path, f"{path}#0", f"{path}#3", f"{path}#x"):
        with pytest.raises(FormatError, match="holds 2 conversations: name one of them, from FILE#1 to"):
            transcripts.read(name)
    whole = tmp_path / "many.json"
    whole.write_text(json.dumps([talk, other]))
    assert transcripts.read(f"{whole}#1").messages == ({"role": "user", "content": "one"},)
    assert detect_agent(f"{whole}#1") == "plain"
    whole.write_text(json.dumps([talk]))
    assert transcripts.read(whole).messages == ({"role": "user", "content": "one"},)
    odd = tmp_path / "a#1.jsonl"
    odd.write_bytes(lines(user(0)))
    assert len(transcripts.read(odd).messages) == 1


def test_one_value_over_many_lines_is_read_as_a_whole(tmp_path):
    path = tmp_path / "pretty.json"
    path.write_text(json.dumps({"messages": [{"role": "user", "content": "hi"}]}, indent=2))
    assert transcripts.read(path).messages == ({"role": "user", "content": "hi"},)
    path.write_text('{"messages":\n  [{"role": "user", "content": "hi"}]}')
    assert transcripts.read(path).messages == ({"role": "user", "content": "hi"},)
    path.write_text('{"role": "user", "content": "one\n two"}')
    assert transcripts.read(path).messages == ({"role": "user", "content": "one\n two"},)
    path.write_text('[{"role": "user", "content": "torn')
    with pytest.raises(FormatError, match="is not JSON"):
        transcripts.read(path)
    path.write_bytes(json.dumps([{"role": "user", "content": "hi"}]).encode("utf-16"))
    assert transcripts.read(path).messages == ({"role": "user", "content": "hi"},)


@pytest.mark.slow
@pytest.mark.parametrize(("mark", "encoding"), [(b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")])
@pytest.mark.parametrize("compressed", [False, True])
def test_a_transcript_in_utf_16_is_read(tmp_path, mark, encoding, compressed):
    """PowerShell writes it with `>`, and ends lines as Windows does."""
    plain = transcripts.read(CLAUDE)
    raw = mark + CLAUDE.read_text("utf-8").replace("\n", "\r\n").encode(encoding)
    path = tmp_path / ("copy.jsonl.zst" if compressed else "copy.jsonl")
    path.write_bytes(zstandard.ZstdCompressor().compress(raw) if compressed else raw)
    assert detect_agent(path) == detect_agent_in_bytes(raw) == "claude-code"
    assert transcripts.read(path).messages == transcripts.read_bytes(raw).messages == plain.messages
    assert transcripts.read(path).problems == plain.problems


def test_utf_16_may_end_anywhere():
    """Also inside a letter, and between the halves of a pair."""
    text = "\ufeffaé🚀".encode("utf-16-le")
    blocks = [b"", text[:1], *(text[at : at + 3] for at in range(1, len(text), 3))]
    assert b"".join(files.to_utf8(blocks)) == "aé🚀".encode()
    assert b"".join(files.to_utf8([text[:-1]])) == "aé\ufffd".encode()
    assert b"".join(files.to_utf8([])) == b""


def test_whose_bytes_they_are():
    assert detect_agent_in_bytes(CLAUDE.read_bytes()) == "claude-code"
    assert detect_agent_in_bytes((EXAMPLES / "opencode.json").read_bytes()) == "opencode"
    assert detect_agent_in_bytes(b'[{"role": "user", "content": "hi"}]') is None
    assert detect_agent_in_bytes(b'[{"parts": ') is None
    assert detect_agent(EXAMPLES / "sharegpt.json") is None
    assert transcripts.read_bytes((EXAMPLES / "opencode.json").read_bytes()).agent == "opencode"
