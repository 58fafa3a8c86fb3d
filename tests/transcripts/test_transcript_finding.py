"""Where sessions are, how they are listed and named; the faults B15 and B20 of the catalogue."""

import json
import multiprocessing
import os
import socket
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from transcript_files import CLAUDE, EXAMPLES, database, lines, user

from refold import transcripts
from refold.errors import RefoldError
from refold.transcripts import find_sessions, session_cache
from refold.transcripts.session_files import list_session_files, session_file, session_roots

UUID = "0b5d7a1e-1111-4222-8333-444444444444"
OTHER = "0b5dffff-1111-4222-8333-444444444444"


def at(path, when):
    os.utime(path, (when, when))


def put(home, name, source, when):
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes((EXAMPLES / source).read_bytes())
    at(path, when)
    return path


@pytest.fixture
def home(tmp_path):
    """A home folder in which every agent has been used."""
    put(tmp_path, f".claude/projects/-work/{UUID}.jsonl", "claude-code.jsonl", 5000)
    put(tmp_path, f".claude/projects/-work/{UUID}/subagents/agent-a1.jsonl", "claude-code.jsonl", 5001)
    put(tmp_path, ".claude/projects/-work/agent-old.jsonl", "claude-code.jsonl", 5002)
    put(tmp_path, f".codex/sessions/2026/03/02/rollout-2026-03-02T09-00-00-{UUID}.jsonl", "codex.jsonl", 4000)
    put(tmp_path, f".codex/archived_sessions/rollout-2026-03-01T09-00-00-{OTHER}.jsonl", "codex.jsonl", 3000)
    put(tmp_path, f".pi/agent/sessions/--work--/2026-03-02T09-00-00_{UUID}.jsonl", "pi.jsonl", 2000)
    put(tmp_path, ".gemini/tmp/7d5c/chats/session-2026-03-02T09-00-00000004.jsonl", "gemini-cli.jsonl", 1000)
    put(tmp_path, ".gemini/tmp/7d5c/logs/session-2026-03-02T09-00-00000005.jsonl", "gemini-cli.jsonl", 1001)
    (tmp_path / ".local/share/opencode").mkdir(parents=True)
    database(tmp_path / ".local/share/opencode/opencode.db")
    return tmp_path


def test_every_agents_sessions_are_found_newest_first(home):
    found = list(transcripts.find(home=home))
    assert [one.agent for one in found] == ["opencode", "claude-code", "codex", "codex", "pi", "gemini-cli"]
    claude = found[1]
    assert claude.name == f"claude-code:{UUID}"
    assert claude.title == "Late gauges"
    about = claude.about
    assert (about.messages, about.tokens, about.compactions, about.model) == (
        24,
        2454,
        1,
        "claude-sonnet-4-5",
    )
    assert about.cwd == "/srv/tidewatch"
    opencode = found[0]
    assert (opencode.about.messages, opencode.about.compactions, opencode.about.tokens) == (14, 1, 2454)
    assert opencode.path.endswith(f"opencode.db#{opencode.session}")
    assert [one.agent for one in transcripts.find("codex", home)] == ["codex", "codex"]
    assert len(list(transcripts.find("all", home, limit=2))) == 2


def test_variables_say_where_they_are(tmp_path):
    env = {"CLAUDE_CONFIG_DIR": "/c", "CODEX_HOME": "/x", "XDG_DATA_HOME": "/d", "PI_CODING_AGENT_DIR": "/p"}
    assert session_roots("claude-code", tmp_path, env) == [Path("/c/projects")]
    assert session_roots("codex", tmp_path, env) == [Path("/x/sessions"), Path("/x/archived_sessions")]
    assert session_roots("opencode", tmp_path, env) == [Path("/d/opencode/opencode.db")]
    assert session_roots("opencode", tmp_path, {"OPENCODE_DB": "/o.db"}) == [Path("/o.db")]
    assert session_roots("pi", tmp_path, env) == [Path("/p/sessions")]
    assert session_roots("gemini-cli", tmp_path, env) == [tmp_path / ".gemini" / "tmp"]
    with pytest.raises(ValueError, match="nobody"):
        list(list_session_files("nobody", tmp_path, {}))


def test_sessions_are_named_by_their_beginning(home):
    assert transcripts.locate(f"claude-code:{UUID[:6]}", home).endswith(f"{UUID}.jsonl")
    assert "sessions/2026" in transcripts.locate("codex:latest", home)
    assert "sessions/2026" in transcripts.locate("codex:", home)
    assert transcripts.locate(f"codex:{OTHER[:8]}", home).endswith(f"{OTHER}.jsonl")
    assert transcripts.locate(f"pi:{UUID}", home).endswith(".jsonl")
    assert transcripts.locate("opencode:0000", home).endswith("#ses_0000000000000000000000001")
    assert transcripts.locate("gemini-cli:00000004", home).endswith("00000004.jsonl")
    assert transcripts.locate("somebody:else", home) is None
    assert transcripts.locate("plain", home) is None
    with pytest.raises(RefoldError, match="2 sessions of codex begin with '0b5d'"):
        transcripts.locate("codex:0b5d", home)
    with pytest.raises(RefoldError, match="no session of pi begins with 'zzz'"):
        transcripts.locate("pi:zzz", home)
    with pytest.raises(RefoldError, match="there are no sessions of pi"):
        transcripts.locate("pi:x", home / "nowhere")
    with pytest.raises(RefoldError, match="no agent is named 'nobody'"):
        list(transcripts.find("nobody", home))


def test_a_whole_name_is_enough_where_others_begin_with_it(home):
    put(home, f".claude/projects/-work/{UUID}-more.jsonl", "claude-code.jsonl", 6000)
    assert transcripts.locate(f"claude-code:{UUID}", home).endswith(f"{UUID}.jsonl")


def test_traps_in_the_folders_are_passed_over(home):
    """B15: none is opened, none is waited for."""
    folder = home / ".claude/projects/-work"
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "loop").symlink_to(folder)
    (folder / "link.jsonl").symlink_to("/dev/zero")
    (folder / "proc.jsonl").symlink_to("/proc/self/mem")
    (folder / "empty.jsonl").touch()
    (folder / "folder.jsonl").mkdir()
    with closing(socket.socket(socket.AF_UNIX)) as server:
        old = Path.cwd()
        os.chdir(folder)  # a socket's name may not be long
        server.bind("sock.jsonl")
        os.chdir(old)
        assert len(list(transcripts.find("claude-code", home))) == 1


def test_a_folder_that_may_not_be_read_hides_only_itself(home, monkeypatch):
    real = os.scandir
    monkeypatch.setattr(
        os,
        "scandir",
        lambda path: (_ for _ in ()).throw(PermissionError()) if path.endswith("03") else real(path),
    )
    assert len(list(transcripts.find("codex", home))) == 1


def test_a_file_that_goes_while_it_is_looked_at_is_passed_over(home):
    class Gone:
        name, path = f"{UUID}.jsonl", f"/x/{UUID}.jsonl"

        def is_file(self, follow_symlinks):
            return True

        def stat(self, follow_symlinks):
            raise FileNotFoundError

    assert session_file("claude-code", Gone()) is None
    assert list(list_session_files("opencode", home / "nowhere", {})) == []


def test_a_compressed_file_counts_only_when_the_plain_one_is_gone(home):
    folder = home / ".codex/sessions/2026/03/02"
    plain = next(folder.iterdir())
    packed = plain.with_name(plain.name + ".zst")
    packed.write_bytes(b"x")
    assert [one.path for one in transcripts.find("codex", home) if "2026/03" in one.path] == [str(plain)]
    plain.unlink()
    found = [one for one in transcripts.find("codex", home) if "2026/03" in one.path]
    assert [one.path for one in found] == [str(packed)]
    assert found[0].about.problems == 1


def test_files_are_read_once(home, monkeypatch):
    """B20: only what changed is read again."""
    first = list(transcripts.find("claude-code", home))
    cache = home / ".cache" / "refold" / "transcripts.json"
    assert cache.stat().st_mode & 0o777 == 0o600
    monkeypatch.setattr(
        find_sessions, "_read_overview", lambda session: pytest.fail(f"read again: {session.path}")
    )
    assert list(transcripts.find("claude-code", home)) == first
    monkeypatch.undo()
    at(Path(first[0].path), 7777)
    assert next(transcripts.find("claude-code", home)).changed == 7777.0


@pytest.mark.parametrize("kept", ['{"version": 99}', "torn{", "[]", '{"version": 1, "files": {"x": 3}}'])
def test_a_cache_of_another_time_is_begun_anew(home, kept):
    cache = home / ".cache" / "refold" / "transcripts.json"
    cache.parent.mkdir(parents=True)
    cache.write_text(kept)
    assert next(transcripts.find("claude-code", home)).about.messages == 24


def test_a_cache_with_other_fields_is_read_anew(home):
    first = next(transcripts.find("claude-code", home))
    cache = home / ".cache" / "refold" / "transcripts.json"
    kept = json.loads(cache.read_text())
    kept["files"][first.path][2]["strange"] = 1
    cache.write_text(json.dumps(kept))
    assert next(transcripts.find("claude-code", home)).about == first.about


def test_a_session_without_messages_is_listed_alike_from_the_cache(tmp_path):
    folder = tmp_path / ".claude" / "projects" / "-work"
    folder.mkdir(parents=True)
    (folder / "empty.jsonl").write_text('{"type": "summary", "summary": "none", "leafUuid": "x"}\n')
    (read,) = transcripts.find(home=tmp_path)
    assert read.about.messages == 0
    assert list(transcripts.find(home=tmp_path)) == [read]


def test_a_session_that_is_gone_leaves_nothing_in_the_cache(home):
    sessions = list(transcripts.find(home=home))
    cache = session_cache.cache_folder(home, {}) / session_cache.FILE_NAME
    gone = next(session for session in sessions if session.agent == "claude-code")
    kept = {session.path for session in sessions if session.agent not in ("claude-code", "opencode")}
    Path(gone.path).unlink()
    list(transcripts.find("codex", home=home))
    assert gone.path in json.loads(cache.read_text())["files"], "nobody looked into its folder"
    list(transcripts.find("claude-code", home=home))
    files = json.loads(cache.read_text())["files"]
    assert gone.path not in files
    assert kept <= set(files)


def test_a_cache_that_cannot_be_written_costs_only_time(home, monkeypatch):
    monkeypatch.setattr(
        session_cache.tempfile, "mkstemp", lambda **_: (_ for _ in ()).throw(PermissionError())
    )
    assert len(list(transcripts.find("claude-code", home))) == 1
    monkeypatch.undo()
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError()))
    assert len(list(transcripts.find("claude-code", home))) == 1
    assert list((home / ".cache" / "refold").iterdir()) == []


def test_the_cache_is_where_the_platform_wants_it(tmp_path, monkeypatch):
    assert session_cache.cache_folder(tmp_path, {"XDG_CACHE_HOME": "/c"}) == Path("/c/refold")
    assert (
        session_cache.cache_folder(tmp_path, {"XDG_CACHE_HOME": "relative"}) == tmp_path / ".cache" / "refold"
    )
    monkeypatch.setattr(session_cache.sys, "platform", "darwin")
    assert session_cache.cache_folder(tmp_path, {}) == tmp_path / "Library" / "Caches" / "refold"
    monkeypatch.setattr(session_cache.sys, "platform", "win32")
    assert session_cache.cache_folder(tmp_path, {"LOCALAPPDATA": "/l"}) == Path("/l/refold/Cache")


def test_a_file_too_large_for_a_list_is_listed_by_its_name(home, monkeypatch):
    monkeypatch.setattr(find_sessions, "MAX_READ", 10)
    found = next(transcripts.find("claude-code", home))
    assert (found.session, found.about.messages) == (UUID, None)


def test_a_database_that_cannot_be_read_hides_only_itself(home):
    (home / ".local/share/opencode/opencode.db").write_bytes(b"SQLite format 3\0" + b"x" * 9000)
    assert [one.agent for one in transcripts.find(home=home)].count("opencode") == 0
    with closing(sqlite3.connect(":memory:")) as db:
        assert db.execute("SELECT 1").fetchone() == (1,)


def test_without_a_home_the_users_own_is_meant(home, monkeypatch):
    monkeypatch.setenv("HOME", str(home))
    for name in ("CLAUDE_CONFIG_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert len(list(transcripts.find("claude-code"))) == 1
    assert list(transcripts.find("claude-code", environment={"CLAUDE_CONFIG_DIR": "/nowhere"})) == []


@pytest.mark.campaign
@pytest.mark.slow
def test_thousands_of_sessions_are_read_once(tmp_path, monkeypatch):
    """B20, a fiftieth of it: 2,000 files; bench/index_transcripts.py measures the time of 100,000."""
    monkeypatch.setattr(find_sessions, "_SAVE_EVERY", 700)
    folder = tmp_path / ".claude" / "projects" / "-many"
    folder.mkdir(parents=True)
    raw = lines(*(user(number) for number in range(8)))
    for number in range(2_000):
        (folder / f"{number:08x}-1111-4222-8333-444444444444.jsonl").write_bytes(raw)
    opened = []
    read = find_sessions._read_overview
    monkeypatch.setattr(
        find_sessions, "_read_overview", lambda session: opened.append(session.path) or read(session)
    )
    assert len(list(transcripts.find(home=tmp_path))) == 2_000
    assert len(list(transcripts.find(home=tmp_path))) == 2_000
    assert len(opened) == len(set(opened)) == 2_000


@pytest.mark.slow
def test_very_many_files_are_read_by_several_processes(tmp_path, monkeypatch):
    folder = tmp_path / ".claude" / "projects" / "-many"
    folder.mkdir(parents=True)
    for number in range(60):
        (folder / f"{number:08x}.jsonl").write_bytes(lines(user(0, f"title {number}")))
    monkeypatch.setattr(find_sessions, "_PARALLEL_FROM", 50)
    monkeypatch.setattr(find_sessions, "_SAVE_EVERY", 25)
    monkeypatch.setattr(find_sessions.threading, "active_count", lambda: 1)
    assert {one.title for one in transcripts.find(home=tmp_path)} == {
        f"title {number}" for number in range(60)
    }
    monkeypatch.setattr(multiprocessing, "get_all_start_methods", lambda: ["spawn"])
    (tmp_path / ".cache" / "refold" / "transcripts.json").unlink()
    assert len(list(transcripts.find(home=tmp_path))) == 60


def test_the_example_is_the_one_that_is_documented():
    assert CLAUDE.exists()
