"""Files that look like secrets are read only after a yes; a person at no terminal has not said yes."""

import pytest
from chat_builders import ScriptedUser, make_conversation

from refold.chat import tools
from refold.clients import RequestedCall

SECRETS = (
    ".env",
    ".env.production",
    "deploy/prod.env",
    ".envrc",
    ".ssh/config",
    ".aws/credentials",
    "id_ed25519",
    "server.key",
    "server.PEM",
    ".netrc",
    ".npmrc",
    "secrets.yaml",
    "secrets/db.txt",
    "credentials.json",
    "service-account-prod.json",
    "terraform.tfstate",
)
HARMLESS = (
    ".env.example",
    "environment.py",
    "tokens.py",
    "secrets.md",
    "id_rsa.pub",
    "keys.txt",
    "monkey.txt",
)


def read(chat, path):
    return tools.run_tool(chat, RequestedCall("1", "read_file", {"path": path}, "", False))


def make_chat(folder, *answers):
    return make_conversation(folder=folder, ui=ScriptedUser(*answers))


def put(folder, name, text="PASSWORD=hunter2"):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize("name", SECRETS)
def test_a_file_with_secrets_is_not_read_without_a_yes(tmp_path, name):
    put(tmp_path, name)
    chat = make_chat(tmp_path)  # who says nothing says no
    text, failed = read(chat, name)
    assert failed
    assert "hunter2" not in text
    assert chat.ui.asked == [(f"let the model read {name}, which may hold secrets?", ("no", "yes"))]


@pytest.mark.parametrize("name", HARMLESS)
def test_nobody_is_asked_about_other_files(tmp_path, name):
    put(tmp_path, name)
    chat = make_chat(tmp_path)
    assert read(chat, name) == ("PASSWORD=hunter2", False)
    assert chat.ui.asked == []


def test_a_yes_holds_for_this_file_and_this_chat(tmp_path):
    put(tmp_path, ".env")
    put(tmp_path, ".envrc")
    chat = make_chat(tmp_path, "yes", "no")
    assert [read(chat, name)[1] for name in (".env", ".env", ".envrc")] == [False, False, True]
    assert len(chat.ui.asked) == 2


def test_a_key_is_known_by_its_first_line(tmp_path):
    put(tmp_path, "notes.txt", "-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n")
    text, failed = read(make_chat(tmp_path), "notes.txt")
    assert failed
    assert "abc" not in text


def test_a_link_is_judged_by_both_names(tmp_path):
    put(tmp_path, ".env")
    put(tmp_path, "plain.txt")
    (tmp_path / "innocent.txt").symlink_to(tmp_path / ".env")
    (tmp_path / ".env.local").symlink_to(tmp_path / "plain.txt")
    chat = make_chat(tmp_path)
    assert read(chat, "innocent.txt")[1]
    assert read(chat, ".env.local")[1]


def test_another_line_than_an_answer_is_a_no_and_is_not_lost(tmp_path):
    """A person who types ahead meets a question that was not there yet."""
    put(tmp_path, ".env")
    chat = make_chat(tmp_path, "what about the README?")
    assert read(chat, ".env")[1]
    assert chat.next_line == "what about the README?"
    chat = make_chat(tmp_path, "put it into src/ instead")
    write = {"path": "a.txt", "content": "x"}
    assert tools.run_tool(chat, RequestedCall("1", "write_file", write, "", False))[1]
    assert chat.next_line == "put it into src/ instead"
    assert not (tmp_path / "a.txt").exists()
