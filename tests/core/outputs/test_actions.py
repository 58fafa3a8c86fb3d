"""One line for an action, and whether it changed something."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth import stop_hang
from refold.core.outputs.actions import describe_action, judge_action, name_tool


class TestCommands:
    @pytest.mark.parametrize(
        ("command", "said"),
        [
            ("ls -la src", "ls -la src"),
            ("cd /app && make\n", "cd /app && make"),
            ("# look\nls;\n\ngit status", "ls; git status"),
            ("# only a comment", "# only a comment"),
            ("sed -i 's/a/b/' \\\n  src/a.py", "sed -i 's/a/b/'   src/a.py"),
            ("cat > src/a.py <<'EOF'\nx = 1\ny = 2\nEOF", "cat > src/a.py (2 lines)"),
            ("cat <<EOF >> notes.md\nx\nEOF\npython a.py", "cat >> notes.md (1 line); python a.py"),
            ("cat <<EOF\nx\nEOF", "cat (1 line)"),
            ("python - <<'PY'\nprint(1)\nprint(2)", "python - (2 lines)"),
            ("echo $((1 << N))\nrm a.py", "echo $((1 << N)); rm a.py"),
            ("wc -l <<< word\nrm a.py", "wc -l <<< word; rm a.py"),
            ("# one\n# two", "# one"),
        ],
    )
    def test_the_command_itself(self, command, said):
        assert describe_action("bash", {"command": command}) == said
        assert describe_action("bash", json.dumps({"command": command})) == said

    def test_commands_as_lists_and_plain_text(self):
        assert describe_action("shell", {"command": ["bash", "-lc", "ls src"]}) == "ls src"
        assert describe_action("shell", {"cmd": ["ls", "src"]}) == "ls src"
        assert describe_action("shell", {"command": ["ls", 3]}) == "shell(command=['ls', 3])"
        assert describe_action("shell", "ls src") == "ls src"
        assert describe_action("shell", "[1, 2]") == "shell()"

    def test_a_long_command_is_cut_before_the_word_that_does_not_fit(self):
        command = "pytest tests/unit/test_alpha.py tests/unit/test_beta.py tests/unit/test_gamma.py"
        assert (
            describe_action("bash", {"command": command}, 60)
            == "pytest tests/unit/test_alpha.py tests/unit/test_beta.py …"
        )
        assert describe_action("bash", {"command": "x" * 90}, 20) == "x" * 18 + "…"

    def test_a_tiny_limit_holds(self):
        assert [
            len(describe_action("bash", {"command": "make all the things"}, limit)) for limit in range(6)
        ] == [0, 1, 1, 2, 3, 4]

    def test_a_program_is_named_by_what_it_does(self):
        code = "import pandas as pd\nfrom x import y\nt.to_csv('/data/out.csv')"
        assert describe_action("python", {"code": code}) == "python(code=t.to_csv('/data/out.csv'))"
        assert (
            describe_action("note", {"text": "import fails; see log"}) == "note(text=import fails; see log)"
        )
        assert describe_action("python", {"code": "import pandas"}) == "python(code=import pandas)"

    @pytest.mark.parametrize(
        ("text", "tool"),
        [
            ("kubectl --context a -n shop set env deploy/web A=1", "kubectl set"),
            ("kubectl --namespace=shop get pods", "kubectl get"),
            ("book_flight(id=7, card=c)", "book_flight"),
            ("git push origin", "git push"),
        ],
    )
    def test_a_tool_is_named_without_the_place(self, text, tool):
        assert name_tool(text) == tool


class TestFileTools:
    @pytest.mark.parametrize(
        ("name", "arguments", "said"),
        [
            ("Read", {"file_path": "src/app.py"}, "read src/app.py"),
            ("Read", {"file_path": "src/app.py", "offset": 1, "limit": 80}, "read src/app.py 1-80"),
            ("Read", {"file_path": "src/app.py", "limit": 5}, "read src/app.py 1-5"),
            ("read_file", {"path": "a.py", "start_line": 3, "end_line": 9}, "read a.py 3-9"),
            ("read_file", {"path": "a.py", "end_line": 9}, "read a.py 1-9"),
            ("read_file", {"path": "a.py", "offset": 30}, "read a.py 30-"),
            ("read_files", {"paths": ["a.py", "b.py"]}, "read a.py, b.py"),
            (
                "str_replace_editor",
                {"command": "view", "path": "a.py", "view_range": [1, 40]},
                "read a.py 1-40",
            ),
            ("Write", {"file_path": "a.py", "content": "x\ny\n"}, "write a.py (2 lines)"),
            (
                "str_replace_editor",
                {"command": "create", "path": "a.py", "file_text": "x"},
                "write a.py (1 line)",
            ),
            (
                "str_replace_editor",
                {"command": "insert", "path": "a.py", "insert_line": 3, "insert_text": "x\ny"},
                "insert into a.py (2 lines)",
            ),
            (
                "Edit",
                {"file_path": "a.py", "old_string": "x = 1", "new_string": "x = 2"},
                'edit a.py: "x = 1" -> "x = 2"',
            ),
            (
                "Edit",
                {
                    "file_path": "a.py",
                    "old_string": "def f():\n    return 1\n",
                    "new_string": "def f():\n    return 2\n",
                },
                'edit a.py: "return 1" -> "return 2"',
            ),
            (
                "MultiEdit",
                {"file_path": "a.py", "edits": [{"old_string": "a", "new_string": "b"}, {"old_string": "c"}]},
                'edit a.py: "a" -> "b" and 1 more',
            ),
            *(
                ("Edit", {"file_path": "a.py", "old_string": old, "new_string": new}, f"edit a.py: {told}")
                for old, new, told in (
                    ("lock()\nwork()", "lock()\ncheck()\nwork()", 'add "check()"'),
                    ("x = 1\ny = 2\nz = 3", "x = 1\nz = 3", 'remove "y = 2"'),
                    ("a\n  end", "a\n\n  b\n  end", 'add "b"'),
                    ("a\na", "a", 'remove "a"'),
                    ("a", "a\n", "blank lines"),
                )
            ),
            ("apply_patch", {"input": "*** Update File: a.py\n@@\n-x\n+y"}, "edit a.py"),
            ("delete_file", {"path": "a.py"}, "remove a.py"),
        ],
    )
    def test_file_and_what_was_done(self, name, arguments, said):
        assert describe_action(name, arguments) == said

    def test_other_tools_show_their_arguments(self):
        arguments = {"pattern": "x" * 100, "deep": {"a": 1}, "none": None, "text": "two\nlines"}
        assert (
            describe_action("Grep", arguments)
            == f"Grep(pattern={'x' * 58}…, deep={{'a': 1}}, none=null, text=two lines)"
        )
        assert describe_action("now", {}) == "now()"
        assert describe_action("now", "") == "now()"

    @given(
        st.text(max_size=20),
        st.dictionaries(st.text(max_size=9), st.text(max_size=60), max_size=4),
        st.integers(4, 90),
    )
    def test_one_line_within_the_limit(self, name, arguments, limit):
        said = describe_action(name, arguments, limit)
        assert len(said) <= limit
        assert len(said.splitlines()) <= 1


class TestJudgement:
    @pytest.mark.parametrize(
        "text",
        [
            "find_and_replace(text=a)",
            "getOrCreateUser(id=7)",
            *("create_refund(id=1)", "cancelOrder(id=1)", "mcp__hub__create_list(x=1)", "ship(id=4)"),
            *("update_status(id=1)", "change_plan(plan=pro)", "order(action=cancel, id=1)", "reset()"),
            *(
                "kubectl(args=-n pay patch deploy web)",
                "kubectl(args=['delete', 'pod', 'x'])",
                "delete pod x",
            ),
            *(
                "run_sql(query=insert into t values (1))",
                "db_query(sql=UPDATE t SET a = 1)",
                "INSERT INTO t SELECT 1",
            ),
            *('psql -c "DELETE FROM t"', "curl -s -X POST http://x", "http(method=DELETE, url=/a)"),
            *(
                "cd /x && git add . && git push",
                "git -C /x push",
                "sudo systemctl restart nginx",
                "npm publish",
            ),
            *(
                "terraform apply -auto-approve",
                "aws ec2 terminate-instances --ids i-1",
                "heroku config:set A=b",
            ),
            *("kubectl --context a -n b scale deploy/x --replicas=0", "aws rds restore-db-instance --db x"),
            *(
                "kubectl --context a -n b set env deploy/x A=1",
                "bd close web-7",
                "systemctl --user restart x",
            ),
            *("kubectl rollout restart deploy/x", "gh pr merge 12", "helm upgrade x y", "make deploy"),
        ],
    )
    def test_a_change_is_known_by_name_and_arguments(self, text):
        assert judge_action(text) == "change"

    @pytest.mark.parametrize(
        "text",
        [
            *("get_order(id=1)", "mcp__hub__get_issue(x=1)", "order_details(id=1)", "track_parcel(id=1)"),
            *("refund_status(id=1)", "web_search(query=delete from list)", "query_db(sql=select 1)"),
            *("think(thought=Cancel it)", "book_get(id=1)", "list()"),
        ],
    )
    def test_a_lookup_is_known_by_its_name(self, text):
        assert judge_action(text) == "lookup"

    @pytest.mark.parametrize(
        "text",
        [
            "load_rows_into_table(name=t)",
            *(
                "open_page(url=x)",
                "update_plan(plan=[])",
                "Task(description=Create tests)",
                "TodoWrite(todos=[])",
            ),
            *("kubectl --context a -n pay get pods", "kubectl --namespace pay logs deploy/x"),
            *("kubectl(args=get deploy web)", "kubectl rollout status deploy/x", "kubectl logs deploy/x"),
            *("run_sql(query=select 1)", 'psql -c "SELECT 1"', "aws ec2 describe-instances", "gh pr list"),
            *("kubectl apply -f a.yaml --dry-run=client", "terraform plan", "git status", "git commit -m x"),
            *('grep -rn "git push" docs', 'edit a.sql: "x" -> "DELETE FROM y"', "write a.py (3 lines)"),
            *(
                "insert into src/x.py (3 lines)",
                "remove a.py",
                "patch -p1 < x.diff",
                "set -e; ls",
                "npm install",
            ),
            *("check_in_guest(id=1)", "docker run x", "sed -i 's/a/b/' x.py", "python manage.py test", ""),
        ],
    )
    def test_nothing_is_said_of_other_actions(self, text):
        assert judge_action(text) == ""

    def test_hostile_text_takes_no_time(self):
        with stop_hang():
            for piece in ("a_", "book_", "git -a ", "kubectl a ", "psql '", "= ", "curl ", "ssh a "):
                assert judge_action(piece * 2_000) in {"", "lookup"}
