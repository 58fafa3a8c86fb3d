"""Files that a conversation read and changed."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth import stop_hang
from refold.core.facts.rules_files import find_rules_reads
from refold.core.messages.file_operations import (
    COMMON_TOOLS,
    FileOps,
    FileRead,
    find_file_reads,
    find_files,
    format_file_tags,
    is_refusal,
    merge_files,
    read_listed_files,
    read_summary_files,
)
from refold.core.messages.message import SUMMARY, Message, Text, ToolCall, ToolResult
from refold.policies.systems.opal import OPAL_TOOLS


def calls(*pairs, ident="c"):
    """An assistant message with calls given as (tool, arguments)."""
    return Message(
        "assistant", tuple(ToolCall(f"{ident}{n}", tool, args) for n, (tool, args) in enumerate(pairs))
    )


def result(call_id, text="content", **more):
    return Message("tool", (ToolResult(call_id, (Text(text),), **more),))


def one(tool, arguments, vocabulary=COMMON_TOOLS):
    return find_files([calls((tool, arguments))], vocabulary=vocabulary)


READ_A, CHANGED_A = FileOps(read=("a",)), FileOps(modified=("a",))


class TestOpal:
    """Opal, "File operations" and case 15."""

    def test_read_write_edit(self):
        """Case 15: read foo, write bar, edit baz."""
        messages = [
            calls(("read_file", {"path": "foo"})),
            result("c0"),
            calls(("write_file", {"path": "bar"}), ("edit_file", {"path": "baz"})),
        ]
        assert find_files(messages, vocabulary=OPAL_TOOLS) == FileOps(read=("foo",), modified=("bar", "baz"))

    def test_duplicates_once(self):
        """Case 15: a file that is read twice is listed once, where it came first."""
        messages = [calls(*(("read_file", {"path": path}) for path in "abac"))]
        assert find_files(messages, vocabulary=OPAL_TOOLS).read == ("a", "b", "c")

    def test_other_tools_are_ignored(self):
        """Case 15: the shell is ignored, and so are tools that only the house knows."""
        messages = [calls(("shell", {"command": "cat foo", "path": "foo"}), ("Read", {"path": "foo"}))]
        assert not find_files(messages, vocabulary=OPAL_TOOLS)

    @pytest.mark.parametrize(
        "arguments",
        [
            {},
            {"path": None},
            {"path": 3},
            {"path": ""},
            {"path": "  "},
            {"file_path": "a"},
            {"path": {"x": 1}},
            "",
            "[]",
            "3",
        ],
    )
    def test_missing_path_is_ignored(self, arguments):
        """Case 15: a call without a path names no file."""
        assert one("read_file", arguments, OPAL_TOOLS) == FileOps()

    def test_words_of_users_and_tools_are_ignored(self):
        """Case 15: only calls count."""
        messages = [Message("user", "read_file foo"), result("c9", '{"path": "foo"}')]
        assert find_files(messages, vocabulary=OPAL_TOOLS) == FileOps()

    def test_nothing_gives_nothing(self):
        """Case 15: [] gives empty lists."""
        assert find_files([], vocabulary=OPAL_TOOLS) == FileOps((), ())

    @pytest.mark.parametrize("vocabulary", [OPAL_TOOLS, COMMON_TOOLS])
    def test_coding_session(self, vocabulary):
        """Case 17: read and later edited is only changed; read only stays read; what was written is changed."""
        messages = [
            Message("user", "Add a metrics page"),
            calls(("read_file", {"path": "lib/router.ex"}), ("read_file", '{"path": "lib/collector.ex"}')),
            result("c0"),
            result("c1"),
            calls(("write_file", {"path": "lib/metrics_page.ex", "content": "..."})),
            result("c0"),
            calls(("edit_file", {"path": "lib/router.ex"})),
            result("c0"),
            calls(("read_file", {"path": "test/page_test.exs"})),
            result("c0"),
            calls(("write_file", {"path": "test/metrics_test.exs"}), ("shell", {"command": "mix test"})),
            result("c0"),
            Message("assistant", "Done."),
        ]
        assert len(messages) == 13
        ops = find_files(messages, vocabulary=vocabulary)
        assert ops.read == ("lib/collector.ex", "test/page_test.exs")
        assert ops.modified == ("lib/metrics_page.ex", "lib/router.ex", "test/metrics_test.exs")


class TestMerge:
    def test_rounds(self):
        """Opal, "File operations": earlier first, unique, and read-then-changed promoted."""
        earlier = FileOps(read=("a", "b"), modified=("x",))
        later = FileOps(read=("c", "a", "x"), modified=("b", "y", "x"))
        assert merge_files(earlier, later) == FileOps(read=("a", "c"), modified=("x", "b", "y"))

    @given(*[st.builds(FileOps, *[st.lists(st.sampled_from("abcdef")).map(tuple)] * 2)] * 3)
    def test_laws(self, one, two, three):
        """Merging is associative and idempotent, loses no file, and keeps the lists apart."""
        both = merge_files(one, two)
        assert merge_files(both, three) == merge_files(one, merge_files(two, three))
        assert merge_files(both, both) == both
        assert merge_files(both, FileOps()) == merge_files(FileOps(), both) == both
        assert not set(both.read) & set(both.modified)
        assert set(both.read) | set(both.modified) == {*one.read, *one.modified, *two.read, *two.modified}
        assert set(both.modified) == {*one.modified, *two.modified}

    def test_gather_finds_summaries_anywhere(self):
        """Opal, known fault: lists were lost when the summary was not the first message."""
        summary = Message("user", format_file_tags(FileOps(("r",), ("m",))), source=SUMMARY)
        messages = [
            Message("system", "s"),
            calls(("read_file", {"path": "first"})),
            summary,
            calls(("edit_file", {"path": "r"})),
        ]
        assert find_files(messages) == FileOps(read=("first",), modified=("m", "r"))
        assert find_files([]) == FileOps()


class TestHouse:
    @pytest.mark.parametrize(
        ("tool", "arguments"),
        [
            ("Read", {"file_path": "a"}),
            ("read", {"filePath": "a"}),
            ("read", {"path": "a"}),
            ("read_file", {"absolute_path": "a"}),
            ("read_file", {"target_file": "a"}),
            ("readFile", {"filename": "a"}),
            ("ReadFile", {"path": "a"}),
            ("read-file", {"path": "a"}),
            ("mcp__filesystem__read_text_file", {"path": "a"}),
            ("functions.read_file", {"path": "a"}),
            ("read_many_files", {"paths": ["a"]}),
            ("read_file", {"files": [{"path": "a"}]}),
            ("fs_read", {"operations": [{"mode": "Line", "path": "a"}]}),
            ("view", {"path": "a"}),
            ("str_replace_based_edit_tool", {"command": "view", "path": "a"}),
            ("str_replace_editor", '{"command": "view", "path": "a", "view_range": [1, 2]}'),
            ("read_file", {"path": None, "file_path": "a"}),
        ],
    )
    def test_readers(self, tool, arguments):
        assert one(tool, arguments) == READ_A

    @pytest.mark.parametrize(
        ("tool", "arguments"),
        [
            ("Write", {"file_path": "a", "content": "path"}),
            ("Edit", {"replace_all": False, "file_path": "a"}),
            ("MultiEdit", {"file_path": "a", "edits": [{"old_string": "x"}]}),
            ("NotebookEdit", {"notebook_path": "a"}),
            ("replace", {"file_path": "a"}),
            ("write_to_file", {"path": "a"}),
            ("insert_edit_into_file", {"filePath": "a"}),
            ("multi_replace_string_in_file", {"replacements": [{"filePath": "a"}, {"filePath": "a"}]}),
            ("str_replace_based_edit_tool", {"command": "create", "path": "a"}),
            ("str_replace_based_edit_tool", {"command": "str_replace", "path": "a"}),
            ("str_replace_editor", {"command": "insert", "path": "a"}),
            ("apply_patch", "*** Begin Patch\n*** Update File: a\n@@\n-x\n+y\n*** End Patch"),
            ("apply_patch", json.dumps({"input": "*** Begin Patch\r\n*** Add File: a\r\n+x\r\n"})),
            ("apply_patch", {"patch": "*** Delete File: a \n"}),
        ],
    )
    def test_writers(self, tool, arguments):
        assert one(tool, arguments) == CHANGED_A

    @pytest.mark.parametrize(
        ("tool", "arguments"),
        [
            ("bash", {"command": "cat a", "path": "a"}),
            ("Grep", {"pattern": "x", "path": "a"}),
            ("list_directory", {"path": "a"}),
            ("thread", {"path": "a"}),
            ("str_replace_based_edit_tool", {"path": "a"}),
            ("str_replace_based_edit_tool", {"command": "dance", "path": "a"}),
            ("Read", {"offset": 3}),
            ("Read", {"file_path": "x" * 5_000}),
            ("Read", {"files": [{"name": 1}, {}, 7]}),
            ("apply_patch", {}),
            ("apply_patch", {"input": 7}),
            ("apply_patch", "no patch"),
            ("apply_patch", ["odd"]),
            ("Read", ["a"]),
            ("Read", None),
            ("", {"path": "a"}),
        ],
    )
    def test_neither(self, tool, arguments):
        assert one(tool, arguments) == FileOps()

    def test_a_patch_may_move_and_touch_several(self):
        patch = "*** Begin Patch\n*** Update File: old.py\n*** Move to: new.py\n*** Add File: b c.py\n*** End Patch"
        assert one("apply_patch", {"input": patch}).modified == ("old.py", "new.py", "b c.py")

    @pytest.mark.parametrize("cut", ["/home/a/lib/live/s…", "src/[... 30 characters left out]x.py"])
    def test_what_a_shortened_call_left_of_a_path_names_no_file(self, cut):
        assert one("write_file", {"path": cut, "content": "x"}) == FileOps()
        paths = {"paths": ["a", cut, "[... 3 items left out]"]}
        assert one("read_multiple_files", paths).read == ("a",)
        patch = f"*** Begin Patch\n*** Update File: {cut}\n*** Add File: b.py\n*** End Patch"
        assert one("apply_patch", {"input": patch}).modified == ("b.py",)

    def test_several_files_in_one_read(self):
        assert one("read_multiple_files", {"paths": ["b", "a", "b", 3]}).read == ("b", "a")

    @pytest.mark.parametrize(
        ("broken", "path"),
        [
            ('{"path": "a/b.py", "content": "cut o', "a/b.py"),
            ('{"file_path": "tab\\tbed", oops}', "tab\tbed"),
            (r'{"path": "C:\Users\x.py", }', r"C:\Users\x.py"),
            ('{"content": "say \\"path\\": \\"no\\"", "path": "yes", ', "yes"),
            ("{'path': \"x\"", None),
            ('{"path": "never closed', None),
            ("[" * 100_000, None),
        ],
    )
    def test_broken_arguments_are_salvaged(self, broken, path):
        """A call that was cut off still names its file when the path came first."""
        assert one("write_file", broken).modified == ((path,) if path else ())

    def test_salvage_knows_the_command(self):
        assert one("str_replace_editor", '{"command": "view", "path": "a", "x": ') == READ_A

    @pytest.mark.slow
    def test_hostile_arguments_do_not_hang(self):
        nested = {}
        for _ in range(100_000):
            nested = {"path": nested, "files": [nested]}
        with stop_hang():
            for hostile in (
                '"a":"' * 100_000,
                '"path" ' * 100_000,
                "\\" * 500_000,
                '{"path":"' + "\\\\" * 200_000,
                nested,
            ):
                one("read_file", hostile)
                one("apply_patch", hostile)
            one("apply_patch", "*** Update File: " * 100_000)

    @given(
        st.sampled_from(["read_file", "Write", "apply_patch", "str_replace_editor", "shell"]),
        st.text()
        | st.dictionaries(
            st.sampled_from(["path", "file_path", "command", "files", "x"]),
            st.recursive(
                st.none() | st.booleans() | st.text(),
                lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
            ),
        ),
    )
    def test_any_arguments_are_survived(self, tool, arguments):
        """Whatever a model writes as arguments, the lists hold paths that say something."""
        written = [arguments] if isinstance(arguments, str) else [arguments, json.dumps(arguments)]
        found = {one(tool, each) for each in written}
        assert len(found) == 1
        ops = found.pop()
        assert all(path.strip() for path in (*ops.read, *ops.modified))


PATHS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip),
    st.sampled_from(
        [
            "None",
            "n/a",
            "-",
            "- a",
            "* a",
            "`a`",
            '"a"',
            "</read-files>",
            "<read-files>",
            "a\nb",
            "a\r",
            " a",
            "a ",
            "\\",
            "&lt;",
            "\udc80",
        ]
    ),
)


class TestSummary:
    def test_tags(self):
        """Opal, "Summary sections": two tags with one path a line; an empty list has no tag."""
        assert format_file_tags(FileOps(("a", "b c"), ("d",))) == (
            "<read-files>\na\nb c\n</read-files>\n\n<modified-files>\nd\n</modified-files>"
        )
        assert format_file_tags(FileOps(modified=("d",))) == "<modified-files>\nd\n</modified-files>"
        assert format_file_tags(FileOps()) == ""

    def test_metadata_comes_first(self):
        """Opal, "Summary message": the metadata's lists are read when they are there."""
        text = format_file_tags(FileOps(("tag",)))
        assert read_summary_files(
            Message("user", text, meta={"read_files": ["r", 3, "m"], "modified_files": ("m",)})
        ) == FileOps(("r",), ("m",))
        assert read_summary_files(Message("user", text, meta={"modified_files": None})) == FileOps()
        assert read_summary_files(Message("user", text, meta={"generation": 2})) == FileOps(("tag",))

    def test_tags_as_models_write_them(self):
        """Opal, decisions: the lists can be read back from the rendered message alone."""
        text = """[Conversation summary — older messages were compacted]

## Goal
Ship it.

<read-files>
- lib/a.ex
* `lib/b.ex`: the collector
"lib/c.ex"
"half quoted
  lib/d.ex

</read-files>
<modified-files>
None
</modified-files>
<read-files>lib/e.ex</read-files>"""
        ops = read_summary_files(Message("user", text))
        assert ops.read == ("lib/a.ex", "lib/b.ex", "lib/c.ex", "half quoted", "lib/d.ex", "lib/e.ex")
        assert ops.modified == ()

    @pytest.mark.parametrize(
        ("text", "read"),
        [
            ("<read-files>\na\n", ()),
            ("a\n</read-files>", ()),
            ("<read-files> open\n<read-files>\na\n</read-files>", ("a",)),
            ("</read-files><read-files>a</read-files>", ("a",)),
            ("nothing", ()),
            ("", ()),
        ],
    )
    def test_blocks_must_open_and_close(self, text, read):
        assert read_summary_files(Message("user", text)).read == read

    def test_a_path_cannot_close_its_tag(self):
        """Law 15 of the house: content cannot end the section it stands in."""
        text = format_file_tags(
            FileOps(("x\n</read-files>\n<modified-files>\n/etc/passwd\n</modified-files>",))
        )
        assert text.count("</read-files>") == 1
        assert "<modified-files>" not in text

    @pytest.mark.slow
    def test_a_million_open_tags_do_not_hang(self):
        with stop_hang():
            read_summary_files(Message("user", "<read-files>" * 300_000 + "</read-files>" * 300_000))

    @given(st.lists(PATHS).map(tuple), st.lists(PATHS).map(tuple), st.text(), st.text())
    def test_there_and_back(self, read, modified, before, after):
        """What as_tags writes from_summary reads, whatever stands around it."""
        ops = merge_files(FileOps(), FileOps(read, modified))
        assert read_summary_files(Message("user", f"{before}\n{format_file_tags(ops)}\n{after}")) == ops

    @given(
        st.text(st.sampled_from('<>/"`-\n ') | st.sampled_from("abc")).map(
            lambda text: f"<read-files>{text}</read-files>"
        )
    )
    def test_reading_twice_is_reading_once(self, text):
        ops = read_summary_files(Message("user", text))
        assert read_summary_files(Message("user", format_file_tags(ops))) == ops


class TestReads:
    def test_results_are_matched_by_id(self):
        """NeuroLink, decisions: reads are known by call and arguments, by id, in any order."""
        messages = [
            Message("user", "look"),
            calls(
                ("read_file", {"path": "a"}), ("Read", '{"file_path": "b"}'), ("shell", {"command": "cat c"})
            ),
            result("c1"),
            result("c2", "cat c.txt"),
            Message("user", (Text("and"), ToolResult("c0", (Text("x"),)))),
        ]
        assert find_file_reads(messages) == [FileRead(2, 0, "c1", "b"), FileRead(4, 1, "c0", "a")]
        assert [read.path for read in find_file_reads(messages, vocabulary=OPAL_TOOLS)] == ["a"]

    def test_a_piece_is_not_the_whole(self):
        """What "refer to latest read below" may claim depends on which piece was read."""
        asked = [
            {"file_path": "a"},
            {"file_path": "a", "offset": None, "limit": None},
            {"limit": 5, "offset": 10, "file_path": "a"},
            {"file_path": "a", "offset": 10, "limit": 5},
            {"file_path": "a", "view_range": [1, 20]},
        ]
        messages = [calls(*(("Read", each) for each in asked)), *(result(f"c{n}") for n in range(5))]
        extents = [read.extent for read in find_file_reads(messages)]
        assert extents[:2] == ["", ""]
        assert extents[2] == extents[3] == '{"limit": 5, "offset": 10}'
        assert extents[4] == '{"view_range": [1, 20]}'

    @pytest.mark.parametrize(
        ("tool", "arguments", "more"),
        [
            ("read_file", {"path": "a"}, {"is_error": True}),
            ("read_file", '{"path": "a", "offset": 3', {}),
            ("read_file", {"path": "a", "offset": {1, 2}}, {}),
            ("read_multiple_files", {"paths": ["a", "b"]}, {}),
            ("write_file", {"path": "a"}, {}),
            ("read_file", {}, {}),
        ],
    )
    def test_results_that_do_not_show_one_file(self, tool, arguments, more):
        assert find_file_reads([calls((tool, arguments)), result("c0", "content", **more)]) == []

    def test_an_id_used_again_belongs_to_the_nearest_call(self):
        """Fault C04: the nearest call before the result is meant."""
        messages = [
            result("c0"),
            calls(("read_file", {"path": "a"})),
            result("c0"),
            calls(("read_file", {"path": "b"})),
            result("c0"),
        ]
        assert [(read.message, read.path) for read in find_file_reads(messages)] == [(2, "a"), (4, "b")]

    @pytest.mark.parametrize(
        ("text", "path"),
        [
            ("read_file 'src/index.ts'\n" + "x" * 5_000, "src/index.ts"),
            ('readFile "src/index.ts"', "src/index.ts"),
            ("read_file(src/index.ts)", "src/index.ts"),
            ("Read file 'config.json'", "config.json"),
            ("Read file config.json:", "config.json"),
            ("Read the file `my notes.txt` now", "my notes.txt"),
            ("Read file: Makefile.am", "Makefile.am"),
            ("read 'Makefile'", "Makefile"),
            ("\n\n  Reading src/a.py...\n1 import os", "src/a.py"),
            ("$ cat /etc/hosts", "/etc/hosts"),
            ("cat .env", ".env"),
            ("I read the docs and then read lib\\x.py.", "lib\\x.py"),
        ],
    )
    def test_plain_transcripts(self, text, path):
        """NeuroLink, case 12 and known faults: the pattern finds the path, never the word `file`."""
        assert find_file_reads([Message("user", "go"), result("t1", text)]) == [FileRead(1, 0, "t1", path)]
        assert find_file_reads([Message("tool", text)]) == [FileRead(0, 0, "", path)]

    @pytest.mark.parametrize(
        "text",
        [
            "I read the docs",
            "thread safety",
            "We concat strings",
            "I have read 3.5 books",
            "read https://example.org/x.html",
            "already read 'all of it'",
            "readme.md",
            "spread a/b",
            "Read file",
            "read",
            "result\nread_file 'late.txt'",
            "",
        ],
    )
    def test_prose_is_not_a_read(self, text):
        """NeuroLink, known fault "Dedup regex": words are not paths."""
        assert find_file_reads([Message("tool", text)]) == []

    @pytest.mark.parametrize("role", ["user", "assistant", "system"])
    def test_only_tools_are_believed(self, role):
        """NeuroLink, known fault "Dedup regex": whole assistant messages could be replaced."""
        assert find_file_reads([Message(role, "read_file 'a.py'")]) == []

    def test_the_pattern_is_not_used_where_there_are_calls(self):
        """NeuroLink, decisions: only for transcripts without tool calls; failed reads never."""
        messages = [calls(("shell", {"command": "x"})), result("c0", "read_file 'a.py'")]
        assert find_file_reads(messages) == []
        assert find_file_reads([result("c0", "read_file 'a.py'", is_error=True)]) == []

    @pytest.mark.slow
    def test_hostile_lines_do_not_hang(self):
        with stop_hang():
            for hostile in (
                "read " * 400_000,
                "read '" * 400_000,
                "read" + " " * 2_000_000,
                "read " + "a" * 2_000_000,
                "cat (" * 400_000,
            ):
                find_file_reads([Message("tool", hostile)])


class TestRulesFiles:
    @pytest.mark.parametrize(
        ("tool", "arguments", "path"),
        [
            ("read_file", {"path": "docs/AGENTS.md"}, "docs/AGENTS.md"),
            ("read_file", '{"path": "CLAUDE.md"}', "CLAUDE.md"),
            ("bash", {"command": "cd /repo && cat ./AGENTS.md"}, "./AGENTS.md"),
            ("bash", {"command": "grep main AGENTS.md"}, None),
            ("bash", {"cmd": ["cat", "AGENTS.md"]}, None),
            ("read_file", {"path": "CLAUDE.md", "offset": 20}, None),
            ("read_file", {"path": "AGENTS.md.orig"}, None),
            ("read_file", {"path": "README.md"}, None),
            ("write_file", {"path": "AGENTS.md", "content": "x"}, None),
        ],
    )
    def test_which_calls_show_rules(self, tool, arguments, path):
        found = find_rules_reads([calls((tool, arguments)), result("c0")])
        assert [(read.message, read.path) for read in found] == ([(1, path)] if path else [])

    def test_a_failed_read_shows_none(self):
        assert not find_rules_reads([calls(("read", {"path": "AGENTS.md"})), result("c0", is_error=True)])

    def test_an_agent_without_tools_prints_them(self):
        said = Message("assistant", (Text("First the rules.\n```bash\ncat AGENTS.md\n```"),))
        output = Message("user", (Text("Never commit to main."),))
        found = find_rules_reads(
            [said, output, output, Message("assistant", (Text("cat AGENTS.md"),)), output]
        )
        assert found == [FileRead(1, 0, "", "AGENTS.md")]


# What tools say of edits that changed nothing: texts of common agents, and the same in other languages.
REFUSED = [
    "apply_patch verification failed: Failed to find expected lines in a.py:\n    import os",
    '{"output": "apply_patch verification failed: Failed to find expected lines", "metadata": {"exit_code": 1}}',
    "No replacement was performed, old_str `import os` did not appear verbatim in a.py.",
    "No replacement was performed. Multiple occurrences of old_str `x` in lines [3, 9]. Please ensure it is unique",
    "<tool_use_error>String to replace not found in file.\nString: import os</tool_use_error>",
    "Error: Failed to edit, could not find the string to replace.",
    "Failed to edit, 0 occurrences found for old_string in a.py. No edits made.",
    "The string to replace was not found in the file.",
    "The edit was rejected by the user.",
    "EACCES: permission denied, open '/repo/a.py'",
    "The user doesn't want to proceed. The tool use was rejected, the new_string was NOT written to the file",
    "错误:在 a.py 中找不到要替换的文本",
    "Fehler: Text nicht gefunden in a.py",
    "エラー: a.py に置換対象の文字列が見つかりません",
    "Error: no se encontró el texto en a.py",
    "Échec : texte introuvable dans a.py",
    '{"success": false, "message": "old text not found"}',
    '{"ok": false, "error": "conflict"}',
    "File has not been read yet. Read it first before writing to it.",
    "<tool_use_error>File has been modified since read, either by the user or by a linter.",
    "Found 3 matches of the string to replace, but replace_all is false.",
    "No changes to make: old_string and new_string are exactly the same.",
    "File already exists at: /a/b.py. Cannot overwrite files using command `create`.",
    "The path a.py does not exist. Please provide a valid path.",
    "ERROR:\nNo replacement was performed, old_str `a` did not appear verbatim",
    "patch rejected by user",
    "User rejected the changes to the file.",
    "The user denied this operation.",
    "[Operation Cancelled] Reason: User did not allow tool call",
    "The tool execution failed with the following error:\n<error>\nThe SEARCH block does not match</error>",
    "Unable to apply diff to file: a.py",
    "oldString not found in content",
    "Could not find exact match for edit:\nimport os",
    "Access denied - path outside allowed directories: /etc",
    "[Errno 13] Permission denied: 'cli.py'",
    "Traceback (most recent call last):\n  File",
    "PermissionError: [Errno 13] Permission denied",
    "Permission to use Edit has been denied.",
    "Claude requested permissions to write to /a/b.py, but you haven't granted it yet.",
    "Your proposed edit has introduced new syntax error(s). Please read this error message carefully",
    "[Request interrupted by user for tool use]",
    '{"error": "ENOENT: no such file"}',
    '{"status": "rejected", "reason": "policy"}',
    "Error executing tool replace: x",
    "❌ Failed to write file",
    "Invalid Context 0:\n    import os",
    "Cannot edit a.py: file is read-only",
    "Edit failed: no match for the search text",
    "Ошибка: текст не найден",
    '{"status":"error"}',
    "<error>no match</error>",
    "Hunk #1 FAILED at 3.",
    "Can't write to a.py",
    "Validation failed: todos[0].status",
    "The arguments provided to the tool are invalid",
    "No such tool available: TodoWrite",
    "Todos were not updated",
    "The plan was not accepted",
    "Only one todo can be in_progress at a time.",
    "Could not find exact match. Please read the updated file and try again.",
    "Edit failed: no match. The file may have been changed, re-read it.",
    "Error: file not found. Was it moved or deleted?",
    "Edit rejected by the user. They said: use the updated helper instead",
    "The user denied the edit, the file was reverted to the version that was saved before.",
    "Error: the edit was not applied because the file has been changed",
    "new_str equals old_str",
    "File has been unexpectedly modified. Read it again before attempting to write it.",
    "No edit history found for /repo/a.py.",
    "The SEARCH section must exactly match an existing block of lines",
    "The edit was not applied: the file changed on disk",
    "Tool call timed out after 30 seconds",
    "Interrupted by user",
    "You do not have permission to edit this file.",
    "File is too large to be edited",
    "Nothing to change: the new text equals the old text",
    "old_string is not unique in the file",
    "Missing required parameter 'new_string'",
    "MCP error -32602: Invalid arguments for tool edit_file",
    "文件不存在",
    "写入失败：磁盘已满",
    "Datei nicht gefunden: a.py",
    "Zugriff verweigert",
    "Impossible d'écrire le fichier a.py",
    "L'utilisateur a refusé la modification",
    "No se encontró el texto a reemplazar",
    "Permiso denegado",
    "O usuário rejeitou a alteração",
    "L'utente ha rifiutato la modifica",
    "Доступ запрещён",
    "ファイルが見つかりません",
    "変更は適用されませんでした",
    "사용자가 변경을 거부했습니다",
    "Nie udało się zapisać pliku",
    "Bestand niet gevonden",
    "old_string found 3 times in src/a.py; pass replace_all=True to replace all, or make old_string unique.",
    "The edit was NOT applied: the project changed in the editor while this call ran.",
    "Missing file_path",
    "The replacement was not made because the search text occurs twice",
    "No match for the given context at line 12",
    "Operation not permitted",
    "Blocked: editing .env is not allowed",
    "You must read the file before editing it",
    "File unchanged: new content is identical",
    "The diff does not apply cleanly; nothing was written",
    "PreToolUse:Edit hook returned blocking error",
    "Syntax error in the new content, change discarded",
    "Changes reverted: lint failed",
    "Disk quota exceeded while writing a.py",
    "Der Text wurde nicht gefunden",
    "Schreiben fehlgeschlagen: kein Speicherplatz",
    "Texte introuvable dans a.py",
    "La edición fue rechazada por el usuario",
    "Nessuna modifica apportata",
    "Изменения не применены",
    "修改失败",
    "편집에 실패했습니다",
    "Tekst bulunamadı",
    "The snippet you gave doesn't match anything in a.py",
    "0 matches for pattern",
    "Replacement skipped: nothing matched",
    "This path is outside the sandbox",
    "The file is locked by another process",
    "Unexpected argument: replace_al",
    "The edit would leave the file empty; not written",
    "a.py was not changed",
    "a.py: Permission denied",
    "User said no",
    "Declined by user",
    "Timeout while waiting for approval",
    "Datei ist schreibgeschützt",
    "Accès refusé : a.py",
    "Operación cancelada por el usuario",
    "Permesso negato",
    "没有权限修改该文件",
    "권한이 없습니다",
]

# What they say of edits that did, with the words of failures in names, in the file and in what follows.
ACCEPTED = [
    "ok",
    "",
    "Done!",
    "The file a.py has been edited. A snippet:\n     1\traise ValueError('not found')\n     2\tError: failed",
    "The file src/errors.py has been updated successfully.",
    "File created successfully at: docs/failed_jobs.md",
    "Success. Updated the following files:\nM src/not_found.py",
    "Successfully modified file: access_denied.py (1 replacements).",
    "Edit applied successfully.\n\nLSP errors detected in this file, please fix:\nERROR [3:4] Cannot find name 'x'",
    "\n\nThis file has errors, please fix\n<file_diagnostics>\nERROR [1:2] x not found\n</file_diagnostics>",
    "The content was successfully saved to x.py.\n\nNew problems detected after saving the file:\n- [eslint Error] Line 3: 'a' is not defined",
    "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-Error: not found\n+    raise Failed('denied')",
    '{"success": true, "message": "Error: not found replaced"}',
    '{"ok": true, "error": null, "errors": []}',
    '{"status": "ok", "diff": "-Error: failed"}',
    '{"error": null, "path": "a"}',
    "Error handling added to src/x.py",
    "Wrote 120 bytes to error_handler.py",
    "Failed tests in test_x.py are now marked as skipped",
    "     1\tError: failed\n     2\tdenied",
    "Updated README.md: the section 'Error: not found'",
    "Replaced 3 occurrences of 'not found' in x.py",
    "File x.py updated: text 'not found' replaced by 'missing'",
    "Applied edit to x.py (the string 'access denied' changed)",
    "1 file changed, 3 insertions(+), 2 deletions(-) in failed.py",
    "The file not_found.html has been created.",
    "Added a handler for requests that are rejected",
    "Plan saved. Errors: 0, failed: 0",
    "[main 3ab1] Fix: error when a file is not found",
    "No errors. File saved.",
    "0 errors, 2 warnings after edit",
    "Edited src/x.py; tests failed: 3",
    "The user table was updated: rows where access was denied are skipped",
    "文件已更新: 错误处理",
    "Datei gespeichert. Fehler: 0",
    "Fichier modifié (gestion des erreurs : échec)",
    "No changes to imports; 3 lines updated.",
    "class NotFoundError(Exception):\n    pass",
    "The patch was applied, with 1 hunk rejected",
    "Invalid entries removed from data.csv",
    "Cancelled orders are now handled in x.py",
    "The following edits were made to error.py:\n- raise Error: denied",
    "errors.ts | 4 ++--",
    "Exception classes moved to exceptions.py",
    "a.py already exists and was overwritten",
    "File saved. Warning: 3 lint errors found",
    "Could not format a.py, but the file was saved",
    "Could not run prettier; a.py was written unformatted.",
    "Failed to format a.py with black: invalid syntax. The file was saved anyway.",
    "Failed to start the language server, diagnostics are unavailable. a.py updated.",
    "Unable to run lint after edit. Edit applied.",
    "Cannot resolve import 'foo' (pyright). File a.py saved.",
    "File already exists, overwritten: a.py",
    "Directory already exists. Wrote a.py.",
    "The file a.py didn't exist, creating it.",
    "错误处理已添加到 a.py",
    "错误信息已更新，文件 a.py 已保存",
    "无法格式化 a.py，但文件已保存",
    "未找到的情况已在 a.py 中处理",
    "Edit succeeded, hook failed: pre-commit exit 1",
    "Unable to find exact match, used fuzzy match: edit applied",
    "Could not find an exact match; the closest match was replaced.",
    "Access denied page added to routes.py",
    "Permission denied errors are now caught in a.py",
    "Invalid path check added to a.py",
    "Invalid arguments are now rejected by a.py",
    "Invalid line endings converted in a.py; file saved",
    "Found 2 matches, but replace_all was set: replaced both.",
    "Fehler: Formatierung fehlgeschlagen. Datei wurde gespeichert.",
    "Не удалось отформатировать a.py, но файл сохранён",
    "Cannot-edit flag removed from a.py",
    "Did not reformat a.py (no formatter configured). Saved.",
    "Could not detect encoding of a.py, assumed utf-8. File updated.",
    "Could not reach the LSP server, but your edit to a.py went through",
    "No such file existed, created a.py",
    "Path does not exist yet, creating parent folders... done. Wrote a.py",
    "Could not connect to the formatter daemon. Changes have been written to disk.",
    "Failed to notify watchers; src/a.py has been updated",
    "Cannot verify checksum, file written",
    "Unable to determine line endings, used LF. Wrote /repo/a.py",
    "Error while formatting: black crashed. The edit itself was applied.",
    "Unable to sync with the remote, local copy saved",
    "Could not acquire lock within 1s, retried, then wrote a.py",
    "Didn't find a trailing newline, added one",
    "Couldn't keep the BOM. a.py was saved without it.",
    "Your plan was recorded. Items not named stay.",
]


class TestResultsOfEdits:
    @pytest.mark.parametrize("text", REFUSED, ids=range(len(REFUSED)))
    def test_an_edit_that_failed_or_was_refused_is_no_change(self, text):
        edit = calls(("edit", {"path": "a", "old_string": "import os", "new_string": "import json"}))
        assert find_files([edit, result("c0", text)]) == FileOps()

    @pytest.mark.slow
    @pytest.mark.parametrize("text", ACCEPTED, ids=range(len(ACCEPTED)))
    def test_an_edit_whose_result_mentions_a_failure_is_a_change(self, text):
        edit = calls(("edit", {"path": "a", "old_string": "import os", "new_string": "import json"}))
        assert find_files([edit, result("c0", text)]) == CHANGED_A

    def test_what_an_edit_wrote_is_no_failure(self):
        write = calls(("write_file", {"path": "a", "content": "Error: not found\nWhat to do"}))
        assert find_files([write, result("c0", "Error: not found\nWhat to do")]) == CHANGED_A
        assert find_files([write, result("c0", "Error: no room")]) == FileOps()

    def test_each_call_has_its_own_result(self):
        """An id used again belongs to the nearest call before it, and a file may tell of errors."""
        messages = [
            calls(("edit", {"path": "a"}), ("edit", {"path": "b"}), ("read", {"path": "c"})),
            result("c1", "Error: no match"),
            result("c0", "ok"),
            result("c2", "Error: the text of a file"),
            calls(("edit", {"path": "d"})),
            calls(("bash", {"command": "make"}), ("read", {"path": "e"})),
            result("c0", "Error: no target"),
            result("c1", "no such file", is_error=True),
            result("c9", "Error: of no call"),
        ]
        assert find_files(messages) == FileOps(read=("c",), modified=("a", "d"))

    def test_a_change_stays_where_a_later_edit_of_the_file_fails(self):
        edit = calls(("edit", {"path": "a"}))
        assert find_files([edit, result("c0", "ok"), edit, result("c0", "x", is_error=True)]) == CHANGED_A

    @pytest.mark.parametrize("text", ["<a>" * 100_000, "the " * 100_000, "a." * 100_000, "{" * 100_000])
    def test_hostile_results_hang_no_pattern(self, text):
        with stop_hang():
            assert find_files([calls(("edit", {"path": "a"})), result("c0", text)]) == CHANGED_A


def test_files_that_a_digest_tells_are_read_back():
    """Other sections and other lines name files as well, but not their state; a removed one was changed."""
    text = (
        "## Files\n- changed: of/a/request.py #1\n\n## What was done\n- changed: not/here.py #1\n\n"
        "## Files\n- src/a.py (changed #9): run, stop\n- docs/\n- b (x).py (read #2)\n- changed: the end of it\n"
        f"- changed: c, d.py #7, e.py #3, {'f' * 5_000} #4\n- removed: f.py #8\n- read: g.py #1, h\n\n"
        "## Names and values\n- h.py (read #5)"
    )
    found = FileOps(("b (x).py",), ("e.py", "c, d.py", "f.py", "src/a.py"))
    assert read_listed_files(text) == read_listed_files(f"x\n{text}") == found
    assert read_listed_files("- changed: a #1\n\nno such heading") == FileOps()
    tags = format_file_tags(FileOps(("z.py",), ("g.py",)))
    told = Message("user", f"Words.\n\n{text}\n\n{tags}", meta={"files": "listed"})
    assert read_summary_files(told) == FileOps(("b (x).py", "z.py"), (*found.modified, "g.py"))
    written = Message("user", told.text)  # by a model, perhaps
    assert read_summary_files(written) == FileOps(("z.py",), ("g.py",))


@pytest.mark.slow
def test_hostile_lines_of_files_take_linear_time():
    with stop_hang():
        read_listed_files("## Files\n- changed: " + " #" * 500_000 + "1")
        read_listed_files("## Files\n- changed: " + "a" * 1_000_000 + " #1")
        read_listed_files("## Files\n- changed: " + "a, " * 500_000 + " #1")


@pytest.mark.parametrize(
    ("said", "is_refused"),
    [
        ("Error: the linter failed, but the file was updated.", False),
        ("Error: the file was not updated.", True),
        ("The file was updated.", False),
    ],
)
def test_a_failure_beside_a_change_refuses_nothing(said, is_refused):
    """What failed behind the edit leaves the file changed."""
    assert is_refusal(said) == is_refused
