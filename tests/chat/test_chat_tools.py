"""The tools of a chat: confined to one folder, bounded, and nothing is written without a yes."""

import os

import pytest
from chat_builders import ScriptedUser, make_conversation, say

from refold.chat import tools
from refold.clients import RequestedCall


def use(chat, name, broken=False, **arguments):
    return tools.run_tool(chat, RequestedCall("1", name, arguments, "", broken))


@pytest.fixture
def chat(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    (tmp_path / "secret").write_text("outside")
    return make_conversation(folder=folder)


def test_a_file_is_read_in_stretches(chat):
    (chat.settings.folder / "a.txt").write_text("".join(f"line {number}\n" for number in range(1, 11)))
    assert use(chat, "read_file", path="a.txt")[0].splitlines()[-1] == "line 10"
    text, failed = use(chat, "read_file", path="a.txt", first_line="3", lines=2)
    assert (text, failed) == ("line 3\nline 4\n[lines 3-4 of 10; read on with first_line=5]", False)


def test_what_is_long_is_bounded_by_the_room(chat):
    (chat.settings.folder / "long.txt").write_text("0123456789\n" * 100_000)
    text, failed = use(chat, "read_file", path="long.txt")
    assert not failed
    assert len(text) < chat.session.budget().room + 100
    assert "of 100000; read on" in text
    (chat.settings.folder / "one.txt").write_text("x" * 1_000_000)
    assert len(use(chat, "read_file", path="one.txt")[0]) < 10_000


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("../secret", "outside"),
        ("/etc/passwd", "outside"),
        ("link", "outside"),
        ("linked/secret", "outside"),
        ("none.txt", "No such file"),
        (".", "no file"),
        ("pipe", "no file"),
        ("data.bin", "no text"),
        ("a\0b", "inside the working folder"),
        ("", "inside the working folder"),
    ],
)
def test_what_cannot_be_read_is_told(chat, path, told):
    folder = chat.settings.folder
    (folder / "link").symlink_to(folder.parent / "secret")
    (folder / "linked").symlink_to(folder.parent)
    (folder / "data.bin").write_bytes(b"\x00\x01" * 50)
    os.mkfifo(folder / "pipe")
    text, failed = use(chat, "read_file", path=path)
    assert failed
    assert told in text


def test_a_link_inside_the_folder_is_followed(chat):
    (chat.settings.folder / "a.txt").write_text("inside")
    (chat.settings.folder / "b.txt").symlink_to("a.txt")
    assert use(chat, "read_file", path="b.txt") == ("inside", False)


def test_a_folder_is_listed(chat):
    assert use(chat, "list_dir") == ("(an empty folder)", False)
    (chat.settings.folder / "sub").mkdir()
    (chat.settings.folder / "a.txt").write_text("x")
    (chat.settings.folder / "gone").symlink_to("nowhere")
    assert use(chat, "list_dir", path=".")[0] == "sub/\na.txt  1 bytes\ngone"
    assert use(chat, "list_dir", path="a.txt") == ("This is no folder.", True)
    for number in range(500):
        (chat.settings.folder / "sub" / f"{number:03}").touch()
    assert use(chat, "list_dir", path="sub")[0].splitlines()[-1] == "[and 100 more]"


def test_a_file_is_written_only_after_a_yes(chat):
    chat.ui = ScriptedUser("no", "yes", "yes")
    path = chat.settings.folder / "sub" / "a.txt"
    wish = {"path": "sub/a.txt", "content": "hi"}
    assert use(chat, "write_file", **wish) == ("The person said no; nothing was written.", True)
    assert not path.exists()
    assert use(chat, "write_file", **wish) == ("2 bytes written to sub/a.txt.", False)
    assert path.read_text() == "hi"
    path.chmod(0o640)
    use(chat, "write_file", **wish)
    assert path.stat().st_mode & 0o777 == 0o640
    assert [question for question, _ in chat.ui.asked] == [
        "make sub/a.txt with 2 bytes?",
        "make sub/a.txt with 2 bytes?",
        "replace sub/a.txt (2 bytes) with 2 bytes?",
    ]
    assert "+hi" in chat.ui.text
    assert "(the same text)" in chat.ui.text
    assert all(answers == ("no", "yes") for _, answers in chat.ui.asked)


def test_who_decides_on_a_change_is_told_that_a_line_goes_on(agreeing):
    use(agreeing, "write_file", path="a.sh", content="make # " + "x" * 200 + "; rm -r .\n" + "y" * 199 + "\n")
    assert f"+make # {'x' * 192} [and 17 more characters]\n" in agreeing.ui.text
    assert agreeing.ui.text.endswith(f"+{'y' * 199}")


@pytest.mark.parametrize(
    "wish", [{"path": "../a", "content": "x"}, {"path": "."}, {"path": "a"}, {"path": ".", "content": "x"}]
)
def test_a_wrong_wish_to_write_asks_nobody(chat, wish):
    chat.ui = ScriptedUser("yes")
    assert use(chat, "write_file", **wish)[1]
    assert chat.ui.asked == []


def test_what_is_no_tool_or_has_no_arguments_is_told(chat):
    assert use(chat, "rm_rf") == (
        "There is no tool 'rm_rf'; there are: read_file, list_dir, recall, write_file.",
        True,
    )
    assert use(chat, "read_file", broken=True) == ("The arguments are no JSON object.", True)
    assert use(chat, "read_file", path=3)[1]


def test_recall_gives_what_was_said(chat):
    say(chat, "the password of the harbour is swordfish")
    assert "swordfish" in use(chat, "recall", query="harbour")[0]
    assert "swordfish" in use(chat, "recall", handle="#1")[0]


def test_an_empty_file_says_so(chat):
    (chat.settings.folder / "empty").touch()
    assert use(chat, "read_file", path="empty") == ("(an empty file)", False)


# -- hostile arguments: links in circles, endless numbers, files that are no files ---------------------------


@pytest.fixture
def agreeing(tmp_path):
    """A chat whose user agrees to one write."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("one\ntwo\nthree\n")
    return make_conversation(folder=folder, ui=ScriptedUser("yes"))


@pytest.mark.parametrize("name", ["read_file", "list_dir", "write_file"])
def test_a_link_that_leads_to_itself_is_told(agreeing, name):
    (agreeing.settings.folder / "loop").symlink_to("loop")
    text, failed = use(agreeing, name, path="loop/x", content="x")
    assert failed
    assert "loop" in text
    assert agreeing.ui.asked == []


def test_a_folder_with_such_a_link_is_listed(agreeing):
    (agreeing.settings.folder / "loop").symlink_to("loop")
    assert use(agreeing, "list_dir") == ("a.txt  14 bytes\nloop", False)


def test_a_name_that_is_no_text_is_listed_as_text(agreeing):
    """A provider takes no halves of characters, and a name has one line."""
    with open(os.path.join(os.fsencode(agreeing.settings.folder), b"b\xff\nc"), "w"):  # noqa: PTH123, PTH118
        pass
    text, failed = use(agreeing, "list_dir")
    assert not failed
    assert text.encode("utf-8").decode() == "a.txt  14 bytes\nb\ufffd\\nc  0 bytes"


@pytest.mark.parametrize("number", [float("inf"), float("nan"), "1e999", [], {}])
def test_a_number_that_is_none_is_passed_over(agreeing, number):
    assert use(agreeing, "read_file", path="a.txt", first_line=number, lines=number) == (
        "one\ntwo\nthree\n",
        False,
    )


def test_behind_the_last_line_there_is_nothing_to_read_on(agreeing):
    """A model that does as it is told would ask for ever."""
    assert use(agreeing, "read_file", path="a.txt", first_line=2) == ("two\nthree\n[lines 2-3 of 3]", False)
    assert use(agreeing, "read_file", path="a.txt", first_line=4) == ("(the file ends with line 3)", False)
    assert use(agreeing, "read_file", path="a.txt", first_line=10**30)[0] == "(the file ends with line 3)"


def test_what_is_no_file_is_not_replaced(agreeing):
    os.mkfifo(agreeing.settings.folder / "pipe")
    assert use(agreeing, "write_file", path="pipe", content="x") == ("This is no file; name another.", True)
    assert agreeing.ui.asked == []


def test_a_folder_that_becomes_a_link_while_one_is_asked_is_not_followed(agreeing, tmp_path):
    folder = agreeing.settings.folder / "sub"
    folder.mkdir()
    (tmp_path / "outside").mkdir()

    class Swaps(ScriptedUser):
        def choose(self, question, answers, about=None, **more):
            folder.rmdir()
            folder.symlink_to(tmp_path / "outside")
            return super().choose(question, answers, about, **more)

    agreeing.ui = Swaps("yes")
    text, failed = use(agreeing, "write_file", path="sub/a.txt", content="x")
    assert failed
    assert "outside" in text
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_large_change_is_shown_in_no_time(agreeing):
    old = "".join(f"{number % 700}\n" for number in range(40_000))
    (agreeing.settings.folder / "a.txt").write_text(old)
    use(agreeing, "write_file", path="a.txt", content=old[::-1])
    assert len(agreeing.ui.text) < 5_000
    assert "too large to be shown line by line" in agreeing.ui.text


# -- files that look like secrets are read only after a yes ----------------------------------------------------

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
    ".aws/credentials.dist",
    "secrets/db-default.yaml",
    "secrets/prod.dist.json",
    ".ssh/deploy.default",
    ".ssh/tool.py",
    ".env.default.local",
    ".env.example.local",
    ".env~",
    ".env.bak",
    "#.env#",
    ".netrc.bak",
    ".id_rsa.swp",
    "server.default.key",
    "client_secret_123.apps.googleusercontent.com.json",
    "prod-credentials.json",
    "application_default_credentials.json",
    "db-secrets.yaml",
    "access_token.txt",
)
HARMLESS = (
    ".env.example",
    ".env.example~",
    ".env.local.example",
    ".env.defaults",
    "credentials.example.json",
    ".ssh/id_rsa.pub",
    "reset-password.tsx",
    "special_tokens.json",
    "tokens.py.bak",
    "environment.py",
    "tokens.py",
    "secrets.md",
    "id_rsa.pub",
    "keys.txt",
    "monkey.txt",
)


def asked_chat(folder, *answers):
    return make_conversation(folder=folder, ui=ScriptedUser(*answers))


def put(folder, name, text="PASSWORD=hunter2"):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize("name", SECRETS)
def test_a_file_with_secrets_is_not_read_without_a_yes(tmp_path, name):
    put(tmp_path, name)
    chat = asked_chat(tmp_path)  # who says nothing says no
    text, failed = use(chat, "read_file", path=name)
    assert failed
    assert "hunter2" not in text
    assert chat.ui.asked == [(f"let the model read {name}, which may hold secrets?", ("no", "yes"))]


@pytest.mark.parametrize("name", HARMLESS)
def test_nobody_is_asked_about_other_files(tmp_path, name):
    put(tmp_path, name)
    chat = asked_chat(tmp_path)
    assert use(chat, "read_file", path=name) == ("PASSWORD=hunter2", False)
    assert chat.ui.asked == []


def test_a_yes_holds_for_this_file_and_this_chat(tmp_path):
    put(tmp_path, ".env")
    put(tmp_path, ".envrc")
    chat = asked_chat(tmp_path, "yes", "no")
    assert [use(chat, "read_file", path=name)[1] for name in (".env", ".env", ".envrc")] == [
        False,
        False,
        True,
    ]
    assert len(chat.ui.asked) == 2


def test_a_key_is_known_by_its_first_line(tmp_path):
    put(tmp_path, "notes.txt", "-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n")
    text, failed = use(asked_chat(tmp_path), "read_file", path="notes.txt")
    assert failed
    assert "abc" not in text


def test_a_link_is_judged_by_both_names(tmp_path):
    put(tmp_path, ".env")
    put(tmp_path, "plain.txt")
    (tmp_path / "innocent.txt").symlink_to(tmp_path / ".env")
    (tmp_path / ".env.local").symlink_to(tmp_path / "plain.txt")
    chat = asked_chat(tmp_path)
    assert use(chat, "read_file", path="innocent.txt")[1]
    assert use(chat, "read_file", path=".env.local")[1]


def test_another_line_than_an_answer_is_a_no_and_is_not_lost(tmp_path):
    """A person who types ahead meets a question that was not there yet."""
    put(tmp_path, ".env")
    chat = asked_chat(tmp_path, "what about the README?")
    assert use(chat, "read_file", path=".env")[1]
    assert chat.next_line == "what about the README?"
    chat = asked_chat(tmp_path, "put it into src/ instead")
    write = {"path": "a.txt", "content": "x"}
    assert use(chat, "write_file", **write)[1]
    assert chat.next_line == "put it into src/ instead"
    assert not (tmp_path / "a.txt").exists()
