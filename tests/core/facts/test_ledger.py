"""Facts and the ledger: what is one fact, what is superseded, what fits, what a text has."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth import count_calls
from refold.core.facts.ledger import FAILED, KINDS, Fact, FactReport, Ledger, rank_value, report_kept


def ledger(*facts):
    return Ledger().merge(facts)


class TestPatched:
    def test_the_newest_value_wins(self):
        """`port = 8080`, then `port = 9090`."""
        found = ledger(Fact("value", "8080", "port", 1), Fact("value", "9090", "Port", 5))
        assert [(fact.text, fact.at, fact.uses) for fact in found.facts] == [("9090", 5, 2)]

    def test_patches_over_folds_are_one_ledger(self):
        first = ledger(Fact("value", "8080", "port", 1), Fact("constraint", "Never deploy.", at=2, weight=5))
        second = first.merge([Fact("value", "9090", "port", 8)])
        assert {fact.text for fact in second.facts} == {"9090", "Never deploy."}
        assert first.of("value")[0].text == "8080"

    def test_a_todo_that_is_done(self):
        found = ledger(
            Fact("todo", "Write the docs", "open", 1, 3.6), Fact("todo", "write the docs", "done", 4)
        )
        assert [(fact.about, fact.uses, fact.weight) for fact in found.facts] == [("done", 2, 1.0)]

    def test_a_new_plan_replaces_the_one_before_as_a_whole(self):
        first = [Fact("todo", text, "pending", 3, 3.6) for text in ("Read", "Write", "Test")]
        box = Fact("todo", "Call Ada", "open", 1, 3.6)
        anew = Fact("plan", "written anew", at=7)
        second = [Fact("todo", "Read", "completed", 7, 1.5), Fact("todo", "Ship", "in_progress", 7, 3.6)]
        found = ledger(box, *first).merge([anew, *second])
        assert [(fact.text, fact.about, fact.weight) for fact in found.of("todo")] == [
            ("Call Ada", "open", 3.6),
            ("Read", "completed", 1.5),
            ("Ship", "in_progress", 3.6),
        ]
        ticked = found.merge([Fact("todo", "Ship", "done", 9, 1.5), Fact("todo", "Rest", "open", 9, 3.6)])
        texts = ["Call Ada", "Read", "Ship", "Rest"]
        assert [fact.text for fact in ticked.of("todo")] == texts
        assert not found.merge([Fact("plan", "written anew", at=12)]).of("todo")[1:]

    def test_a_plan_of_a_later_summary_replaces_that_of_an_earlier_one(self):
        later = ledger(Fact("plan", "written anew", at=9), Fact("todo", "Ship", "pending", 9, 3.6))
        stored = Ledger.from_json(later.to_json())
        found = ledger(Fact("todo", "Read", "pending", 3, 3.6)).merge(stored.facts)
        assert [fact.text for fact in found.of("todo")] == ["Ship"]
        assert sum(report_kept("", later).counts) == 1

    def test_an_item_that_a_later_fold_names_by_its_id(self):
        found = ledger(Fact("plan", "written anew", at=3), Fact("todo", "Read (id 1)", "pending", 3, 3.6))
        (item,) = found.merge([Fact("todo", "(id 1)", "completed", 8, 1.5)]).of("todo")
        assert (item.text, item.about, item.at, item.weight) == ("Read (id 1)", "completed", 8, 1.5)
        assert not ledger(Fact("todo", "(id 1)", "pending", 8))

    def test_an_open_call_is_open_in_the_newest_patch_only(self):
        assert not ledger(Fact("open call", "bash make")).merge([])

    def test_equal_words_join_whatever_their_kind(self):
        found = ledger(
            Fact("request", "Use tabs!", at=1, weight=1), Fact("constraint", "use tabs", at=3, weight=5)
        )
        (only,) = found.facts
        assert (only.kind, only.uses, only.weight, only.at) == ("constraint", 2, 5, 3)

    def test_a_file_that_was_changed_stays_changed(self):
        found = ledger(Fact("file", "a.py", "changed", 1), Fact("file", "a.py", "read", 2))
        assert found.facts[0].about == "changed"
        found = ledger(Fact("file", "a.py", "read", 1), Fact("file", "a.py", "changed", 2))
        assert found.facts[0].about == "changed"

    def test_the_number_of_a_changed_file_is_that_of_the_change(self):
        found = ledger(Fact("file", "a.py", "changed", 5), Fact("file", "a.py", "read", 9))
        assert (found.facts[0].about, found.facts[0].at) == ("changed", 5)
        assert found.merge([Fact("file", "a.py", "changed", 12)]).facts[0].at == 12

    def test_a_file_that_was_removed_is_not_changed(self):
        changed, removed = Fact("file", "a.py", "changed", 2), Fact("file", "a.py", "removed", 5)
        assert [(fact.about, fact.at) for fact in ledger(changed, removed).facts] == [("removed", 5)]
        again = Fact("file", "a.py", "changed", 7)
        assert ledger(changed, removed, again).facts[0].about == "changed"

    def test_a_name_stays_with_the_file_it_came_from(self):
        found = ledger(Fact("name", "get_user", "a.py", 1), Fact("name", "get_user", "b.py", 2))
        assert found.facts[0].about == "a.py"
        assert ledger(Fact("name", "x_y", "", 1), Fact("name", "x_y", "b.py", 2)).facts[0].about == "b.py"

    def test_a_correction_lets_what_it_names_leave(self):
        found = ledger(
            Fact("value", "8080", "port", 1),
            Fact("decision", "We use `moment`, as agreed.", at=1),
            Fact("constraint", "Never 8080.", at=1),
            Fact("correction", "Use 9443 instead of 8080, and not moment.", at=4),
            Fact("value", "8080", "later port", 9),
        )
        assert [fact.text for fact in found.facts] == [
            "Never 8080.",
            "Use 9443 instead of 8080, and not moment.",
            "8080",
        ]

    def test_an_error_leaves_when_its_command_goes_well(self):
        error = Fact("error", "1 failed", "pytest", 2)
        assert ledger(error, Fact("done", "pytest", "5 passed", 4)).of("error") == []
        assert ledger(error, Fact("done", "pytest", FAILED + "1 failed", 4)).of("error") == [error]
        assert ledger(Fact("done", "pytest", "ok", 1), error).of("error") == [error]

    def test_a_file_that_is_written_again_is_told_once(self):
        found = ledger(
            Fact("done", "cat > a.py (3 lines)", "ok", 1), Fact("done", "cat > a.py (1 line)", "ok", 4)
        )
        assert [(fact.text, fact.at) for fact in found.facts] == [("cat > a.py (1 line)", 4)]

    @pytest.mark.parametrize(
        ("failed", "later", "settles"),
        [
            ("git push 2>&1", Fact("done", "git push --set-upstream origin inv", "ok", 4), True),
            ("git push", Fact("done", "bd sync && git push 2>&1", "ok", 4), True),
            ("git commit -m a && git push", Fact("done", "git commit -m b", "ok", 4), False),
            ("bd sync && git push", Fact("done", "git push -f", "ok", 4), False),
            ("git push", Fact("done", "git push -f", f"{FAILED}fatal", 4), False),
            ("git push", Fact("done", "git push -f", "ok", 1), False),
            ("make", Fact("done", "make clean", "ok", 4), False),
            ("python try.py", Fact("file", "try.py", "removed", 4), True),
            ("python try.py", Fact("file", "try.py", "changed", 4), False),
            ("make > try.log", Fact("file", "try.log", "removed", 4), False),
            ("git push", Fact("done", "git commit -m 'a b' && git push", "ok", 4), True),
            ("git push origin a", Fact("done", "git push -f origin a 2>&1 | tail -3", "ok", 4), True),
            ("git push origin a", Fact("done", "grep -rn 'git push origin a' docs/", "1 hit", 4), False),
            ("git push origin a", Fact("done", "git push --dry-run origin a", "ok", 4), False),
            ("git push origin a", Fact("done", "git push backup dev", "ok", 4), False),
            ("git push", Fact("done", "git push backup dev", "ok", 4), False),
            ("git push", Fact("done", "git commit -m 'a; git push'", "ok", 4), False),
            ("git push", Fact("done", "cd ../other && git push", "ok", 4), False),
            ("git push", Fact("done", "git push || true", "ok", 4), False),
            ("git push", Fact("done", "git push | tail -1", "error: failed to push some refs", 4), False),
            ("git push && make deploy", Fact("done", "git push", "ok", 4), False),
            ('git commit -m "a long …', Fact("done", 'git commit -m "b c"', "ok", 4), False),
            ("git rebase main", Fact("done", "git rebase --abort", "ok", 4), False),
            (".venv/bin/python try.py -v 2>&1", Fact("file", "try.py", "removed", 4), True),
            ("python try.py && make", Fact("file", "try.py", "removed", 4), False),
            ("python build.py -o dist.zip", Fact("file", "dist.zip", "removed", 4), False),
            ("gcc -o try try.c", Fact("file", "try", "removed", 4), False),
        ],
    )
    def test_an_error_leaves_with_its_script_or_when_the_repository_goes_on(self, failed, later, settles):
        error = Fact("error", "fatal: no", failed, 2)
        assert ledger(error, later).of("error") == ([] if settles else [error])

    @pytest.mark.parametrize(
        ("later", "outcome", "settles"),
        [
            ("git add -A && GIT_EDITOR=true git rebase --continue", "Successfully rebased", True),
            ("git cherry-pick --continue", "[main 9d0e417] a", True),
            ("git commit -m a", "[main 9d0e417] a", True),
            ("git rebase --continue", "CONFLICT (content): Merge conflict in b.go", False),
            ("git rebase --abort", "ok", False),
            ("git push", "ok", False),
        ],
    )
    def test_a_conflict_leaves_when_git_goes_on(self, later, outcome, settles):
        error = Fact("error", "CONFLICT (content): Merge conflict in a.go", "git pull --rebase origin a", 2)
        assert ledger(error, Fact("done", later, outcome, 4)).of("error") == ([] if settles else [error])

    def test_a_step_settles_whatever_was_done_behind_it(self):
        error, step = Fact("error", "fatal: no", "git push", 2), Fact("done", "git push -f", "ok", 4)
        assert (
            ledger(error, step, *(Fact("done", f"ls {n}", "ok", 5 + n) for n in range(50))).of("error") == []
        )

    @pytest.mark.parametrize(
        ("trouble", "failed", "later", "settles"),
        [
            (
                "timed out",
                "kubectl rollout status d/x --timeout=9s",
                "kubectl scale d/x; kubectl rollout status d/x",
                True,
            ),
            ("timed out", "kubectl rollout status d/x -v 2>&1 | tail -3", "kubectl rollout status d/x", True),
            ("timed out", "kubectl rollout status d/x", "kubectl rollout status d/y", False),
            ("timed out", "kubectl rollout status d/x", "kubectl rollout status d/x || true", False),
            ("boom", "cd a && make", "cd a && make --quiet", True),
            ("boom", "cd a && make", "cd b && make", False),
            ("boom", "make a long … &&  x", "make a long y", False),
            (
                "timed out",
                "kubectl rollout status d/x --wait=9s",
                "kubectl scale d/x; kubectl rollout status d/x …",
                False,
            ),
            ("boom", "cd a && make", "ls; cd a && make && ls", True),
            ("boom", "make", "make; ls", False),
            ("boom", "make 2>&1 | tail -3", "make | cat", True),
            ("denied", "cat a.sql | psql prod", "cat a.sql | wc", False),
            ("boom", "make", "make | head -2", False),
            ("boom", 'grep "a|b" f', 'grep "a|c" g', False),
            ("boom", "gh pr merge --force 12", "gh pr merge --force 13", False),
            ("no seat", "run(code=book(1))", "run(code=print(1))", False),
            ("syntax error", "db(sql=delete from a)", "db(sql=select 1)", False),
            ("Warning: no annotation", "kubectl apply -f a", "kubectl get pods", False),
            ("NameError: inv", "python(code=print(inv))", "python(code=inv = 1; …)", True),
            ("no seat", "book(id=1)", "book(id=2)", False),
            ("warning: no such module", "mix gen it", "mix compile", True),
            ("warning: no such module", "python gen.py it", "python other.py", False),
            ("no such module", "mix gen it", "mix compile", False),
        ],
    )
    def test_a_failure_is_over_when_the_same_went_well_with_more_patience(
        self, trouble, failed, later, settles
    ):
        error = Fact("error", trouble, failed, 2)
        assert ledger(error, Fact("done", later, "well", 4)).of("error") == ([] if settles else [error])
        for outcome in ("2 failed", "waiting for approval", ""):
            worse = Fact("done", later, outcome, 4)
            assert ledger(error, worse).of("error") == [error]

    def test_an_edit_that_went_wrong_is_settled_by_another_of_the_file(self):
        wrong = Fact("error", "not found", 'edit a.py: "x" -> "y"', 1)
        assert ledger(wrong, Fact("done", 'edit a.py: "z" -> "y"', "ok", 3)).of("error") == []
        assert ledger(wrong, Fact("done", 'edit b.py: "z" -> "y"', "ok", 3)).of("error") == [wrong]

    def test_a_command_with_data_is_no_edit(self):
        wrong = Fact("error", "404", """curl -d '{"a": "x"}' /users""", 1)
        assert ledger(wrong, Fact("done", """curl -d '{"a": "y"}' /login""", "ok", 3)).of("error") == [wrong]

    def test_of_two_errors_of_one_command_the_newer_holds(self):
        old, new = Fact("error", "NameError: a", "pytest", 2), Fact("error", "TypeError: b", "pytest", 6)
        assert ledger(old, new).of("error") == [new]
        of_nobody = [Fact("error", "a b", at=2), Fact("error", "c d", at=6)]
        assert ledger(*of_nobody).of("error") == of_nobody

    @pytest.mark.parametrize(
        ("command", "outcome", "settles"),
        [
            ("run pytest -v", "25 passed in 0.8s", True),
            ("run pytest -q tests/test_a.py | tail -3", "5 passed in 0.8s", True),
            ("run pytest -v", "1 failed, 24 passed in 0.8s", False),
            ("run pytest -v", "Tests run: 31, Failures: 0, Errors: 0, Skipped: 1", True),
            ("run pytest -v", "Tests run: 31, Failures: 1, Errors: 0, Skipped: 1", False),
            ("run pytest -v", "100% tests passed, 0 tests failed out of 9", True),
            ("run pytest -v", "67% tests passed, 2 tests failed out of 6", False),
            ("run pytest -v", "[ FAIL 0 | WARN 0 | SKIP 0 | PASS 20 ]", True),
            ("run pytest -v", "# pass 1, # fail 1; a", False),
            ("run pytest -v", "00:03 +2 -1: Some tests failed.", False),
            ("run pytest tests/test_b.py", "25 passed in 0.8s", False),
            ("run ls", "3 entries: a, b, c", False),
        ],
    )
    def test_an_error_leaves_when_the_same_tests_or_more_pass(self, command, outcome, settles):
        error = Fact("error", "NameError: a", "run pytest -x tests/test_a.py", 2)
        left = ledger(error, Fact("done", command, outcome, 4)).of("error")
        assert left == ([] if settles else [error])
        assert ledger(Fact("done", command, outcome, 1), error).of("error") == [error]

    def test_without_words_the_text_itself_is_the_key(self):
        assert len(ledger(Fact("request", "!!!"), Fact("request", "???"))) == 2


class TestSize:
    def test_the_heaviest_fit(self):
        rule = Fact("constraint", "Never deploy on a Friday.", at=1, weight=5)
        found = ledger(rule, *(Fact("request", f"word{n} " * 20, at=n) for n in range(50)))
        assert rule in found.fit_to(40).facts
        assert len(found.fit_to(400)) < 51
        assert not found.fit_to(0)

    def test_names_that_were_only_seen_rank_by_how_new_they_are(self):
        old, new = Fact("name", "aa_b", "x", 1, 1.0, 9), Fact("name", "cc_d", "x", 90, 1.0)
        assert rank_value(new, 90) > rank_value(old, 90)
        said = Fact("name", "ee_f", "x", 1, 2.4)
        assert ledger(old, new, said).by_rank()[0] is said

    def test_a_users_rule_does_not_age(self):
        assert (
            rank_value(Fact("constraint", "x", at=0), 10_000)
            > rank_value(Fact("constraint", "x", at=0), 0) - 0.11
        )

    def test_an_empty_ledger(self):
        assert Ledger().by_rank() == []
        assert not Ledger()


class TestData:
    def test_there_and_back(self):
        found = ledger(Fact("value", "8080", "port", 1, 2.0, 3), Fact("name", "a_b", "a.py", 2, 2.5))
        assert Ledger.from_json(json.loads(json.dumps(found.to_json()))) == found

    @pytest.mark.parametrize(
        "data",
        [
            None,
            3,
            "x",
            {},
            [None],
            [[]],
            [["name", "x", "", 1, 1.0]],
            [["nonsense", "x", "", 1, 1.0, 1]],
            [["name", 3, "", 1, 1.0, 1]],
            [["name", "x", "", "1", 1.0, 1]],
            [["name", "x", "", True, 1.0, 1]],
            [["name", " ", "", 1, 1.0, 1]],
            [["name", "x", "", 1, float("nan"), 1]],
        ],
    )
    def test_what_is_no_fact_is_passed_over(self, data):
        """Metadata that was read from somewhere may hold anything."""
        assert Ledger.from_json(data) == Ledger()

    def test_data_cannot_claim_any_weight_or_length(self):
        (only,) = Ledger.from_json([["request", "x" * 9_000, "", 1, 1e9, -4]]).facts
        assert (len(only.text), only.weight, only.uses) == (2_000, 9.0, 1)

    @given(st.lists(st.tuples(st.sampled_from(sorted(KINDS)), st.text(), st.text(), st.integers(0, 99))))
    def test_any_facts_give_a_ledger_that_comes_back(self, rows):
        found = ledger(*(Fact(kind, text[:50] or "x", about, at) for kind, text, about, at in rows))
        again = Ledger.from_json(found.to_json())
        assert len(again) <= len(found)
        assert again.merge(again.facts).to_json() is not None


class TestKept:
    LEDGER = ledger(
        Fact("constraint", "Never deploy the billing service on Fridays.", at=1, weight=5),
        Fact("name", "get_user", "a.py", 2, 2.5),
        Fact("value", "8080", "port", 3, 2),
        Fact("request", "Hm", at=4),
    )

    def test_kept_repaired_reachable(self):
        text = "Billing: never deploy that service on Fridays. See get_user."
        report = report_kept(text, self.LEDGER, 6)
        assert [fact.text for fact in report.kept] == [self.LEDGER.facts[0].text, "get_user"]
        assert report.counts == (2, 1, 1)
        assert report_kept(text, self.LEDGER, 0).counts == (2, 0, 2)

    def test_a_sentence_that_stands_there_word_for_word(self):
        assert report_kept("hm", self.LEDGER, 0).counts == (1, 0, 3)

    def test_a_sentence_between_letters_is_there_word_for_word(self):
        cut = ledger(Fact("listed", "pine nuts", at=1), Fact("listed", "oak tree house", at=2))
        assert report_kept("spine nutshell", cut, 0).counts == (1, 0, 1)

    def test_the_share_of_weighty_facts(self):
        assert report_kept("nothing", self.LEDGER, 0).weighty_share == 0
        assert report_kept("nothing", self.LEDGER, 99).weighty_share == 1
        assert FactReport().weighty_share == 1


def test_the_newest_value_of_what_somebody_names_wins():
    """`My code is ...` again, with another value: the older one leaves."""
    ledger = Ledger().merge(
        [
            Fact("standing", "My booking code is QX7T2P.", at=1),
            Fact("standing", "My dog is old and tired.", at=2),
            Fact("standing", "Sure, my booking code is now ZZ9A1B.", at=3),
        ]
    )
    assert [fact.at for fact in ledger.facts] == [2, 3]


def test_actions_are_read_for_what_they_settle_once_and_only_where_something_failed():
    """A ledger is merged twice in each fold."""
    actions = [Fact("done", f"cd app && git push origin b{at} 2>&1 | tail -3", "ok", at) for at in range(200)]
    failed = Fact("error", "error: rejected", "cd app && git push origin none", 0)
    calm, first, again = (
        count_calls(lambda facts=facts: Ledger().merge(facts))
        for facts in (actions, [failed, *actions], [failed, *actions])
    )
    assert calm < again < first / 2


@pytest.mark.parametrize("names", [3, 400])
def test_names_are_found_to_the_letter_however_many_there_are(names):
    """Many names are looked for by their ends first; a short one, and one in the middle of a word, is found."""
    text = "Changed src/harbour_master.py and `id`: the pier is closed."
    known = ["arbour_mast", "id", "pier"]
    absent = ["harbour_mistress", "src/arbour_mast", "ode", *(f"name_{number}" for number in range(names))]
    report = report_kept(text, Ledger(tuple(Fact("name", name) for name in (*known, *absent))), 0)
    assert [fact.text for fact in report.kept] == known
