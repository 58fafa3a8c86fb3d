"""Placeholders for tool results, and whether what they point to is still there."""

from refold import Message, Text
from refold.core.compaction.placeholders import (
    CLEARED,
    format_pointer,
    is_placeholder,
    is_whole,
    normalize_path,
    settle_pointers,
    undo_cuts,
)
from refold.core.messages.text_cutting import clip
from refold.testing import call, call_part, calls, result, result_part, user

POINTER = "[File src/index.ts - refer to latest read below]"


def read(number, path="src/index.ts", text="x = 1"):
    return [call("read_file", id=f"c{number}", path=path), result(f"c{number}", text)]


def texts(messages):
    return [part.text for message in messages for part in message.results]


def test_the_words_are_neurolinks():
    """NeuroLink, "Stage 1" and "Stage 2": the placeholder and the pointer, word for word."""
    assert CLEARED == "[Tool result cleared]"
    assert format_pointer("src/index.ts") == POINTER


def test_one_file_has_one_spelling():
    assert normalize_path("./a.py") == normalize_path("a.py") == "a.py"


def test_a_pointer_whose_read_is_gone_is_cleared():
    messages = [*read(1, text=POINTER), user("go on")]
    assert texts(settle_pointers(messages)) == [CLEARED]


def test_a_pointer_to_a_cleared_read_is_cleared():
    messages = [*read(1, text=POINTER), *read(2, text=CLEARED)]
    assert texts(settle_pointers(messages)) == [CLEARED, CLEARED]


def test_true_pointers_give_the_very_list():
    messages = [*read(1, text=POINTER), *read(2)]
    assert settle_pointers(messages) is messages
    plain = [user("hi")]
    assert settle_pointers(plain) is plain


def test_a_read_before_the_pointer_is_not_below():
    messages = [*read(1), *read(2, text=POINTER)]
    assert texts(settle_pointers(messages))[1] == CLEARED


def test_a_pointer_to_a_cut_read_says_so():
    """It says so as long as the read is cut, and leads to whole text again when there is some."""
    cut = "x = 1\n[... 212 lines left out; recall #7]"
    messages = [*read(1, text=POINTER), *read(2, text=cut)]
    once = settle_pointers(messages)
    assert texts(once) == ["[File src/index.ts - refer to cut version below]", cut]
    assert settle_pointers(once) is once
    assert texts(settle_pointers([*once, *read(3)])) == [POINTER, cut, "x = 1"]


def test_a_pointer_needs_a_read_of_its_piece():
    """A later read of another piece of the file does not show what the pointer stands for."""
    first, second = (
        [call("read_file", id=f"p{at}", path="a.py", offset=at), result(f"p{at}", format_pointer("a.py"))]
        for at in (1, 50)
    )
    below = [call("read_file", id="c", path="a.py", offset=50), result("c", "y")]
    assert texts(settle_pointers([*first, *second, *below])) == [CLEARED, format_pointer("a.py"), "y"]


def test_pointers_in_plain_transcripts():
    """Without tool calls the words of a tool are pointers, those of a user never."""
    cut = Message("tool", "cat src/index.ts\n[... 9 lines left out]\nend")
    said = [Message("tool", POINTER), user(POINTER), cut]
    assert [message.text for message in settle_pointers(said)[:2]] == [
        format_pointer("src/index.ts", cut=True),
        POINTER,
    ]


def test_only_the_stale_one_of_several_results_changes():
    both = Message(
        "user", (result_part("c1", format_pointer("a")), result_part("c2", format_pointer("b")), Text("so?"))
    )
    messages = [
        calls(call_part("read_file", path="a"), call_part("read_file", path="b")),
        both,
        *read(3, "b"),
    ]
    done = settle_pointers(messages)
    assert [part.text for part in done[1].parts] == [CLEARED, format_pointer("b"), "so?"]
    assert done[0] is messages[0]


def test_whole_and_placeholder():
    assert is_whole("x = 1\n")
    assert not is_whole(clip("x" * 999, max_bytes=300, keep="both").text)
    assert not is_whole("a\n[... 12 characters left out ...]\nb")
    assert not is_whole("a\n[... 212 lines left out, 3 warnings; recall #7]\nb")
    assert not is_whole("the beginning …")
    assert not is_whole("the beginning… [recall #12]")
    assert not is_placeholder("def error(): ...")
    assert not is_placeholder("[... 3 lines left out]\nx = 1")
    assert is_placeholder("[... 3 lines left out]\n")
    assert is_placeholder("Error: boom")


def test_cuts_are_undone_part_by_part():
    """A part that was cut is whole again; one that was replaced, or names the file of the whole, stays."""
    cut, saved = (
        "a\n[... 9 lines left out]",
        "[Output truncated from 9 bytes to 2 bytes] [Full output saved to /x]",
    )
    whole = Message("user", (*(result_part(f"c{n}", "a\nb\nc") for n in range(3)), Text("a\nb")))
    texts_now = (cut, CLEARED, saved)
    now = Message("user", (*(result_part(f"c{n}", text) for n, text in enumerate(texts_now)), Text("a\nb")))
    undone = undo_cuts(now, whole)
    assert undone.parts == (whole.parts[0], *now.parts[1:])
    assert undo_cuts(whole, whole) is whole
    assert undo_cuts(now, user("something else")) is now
    trimmed = call("write", id="c", text="a [... 9 characters left out]")
    assert undo_cuts(trimmed, call("write", id="c", text="all of it")) == call(
        "write", id="c", text="all of it"
    )
