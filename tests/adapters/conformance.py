"""The conformance suite: what must hold for Refold inside every framework, with the real framework.

An adapter's test module brings a `Case` (conformance_case.py) and inherits the checks:

    class TestLangChain(Conformance):
        case = LangChainCase()

`make test` runs a talk of nine turns and the checks 1, 3, 4, 5, 7 and 12, `make torture` also 11 and all
of 1 and 5. `make adapters`, or `REFOLD_ADAPTERS=full`, runs 40 turns and all twelve. The number in a test's
name is that of the check.
"""

import asyncio
import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from conformance_case import PDF, WINDOW, Case, outline
from conformance_overhead import measure_turns
from conformance_running import (
    FULL,
    LEAST_FOLDS,
    TURNS,
    Child,
    Running,
    Talked,
    find_causes,
    first_result,
    has_overflow,
    provider_apart,
    read_request,
    run_talk,
    secret,
    write_note,
    write_turn,
)

import refold
from refold.testing import PIXEL, Provider

ROOT = Path(__file__).parents[2]
HUGE = 10_000_000
"""A window that nothing fills."""
ROOMY = 16_000
"""A window in which a document fits: without being read it counts as 3,000 tokens."""
OFF = "umwelten"
"""A policy that folds only when it is asked to."""
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
FRAGMENT = re.compile(r"^```py\n(.*?)^```", re.MULTILINE | re.DOTALL)
"""An example that needs something around it: names that it does not define, or another library."""

full = pytest.mark.full


@pytest.mark.filterwarnings("ignore:SQLite")  # an old SQLite takes a slower journal
@pytest.mark.filterwarnings("error::refold.RefoldWarning")
@pytest.mark.filterwarnings("ignore")  # frameworks warn about their own libraries
class Conformance:
    """The checks; a subclass says for which case."""

    case: Case

    def skip_if(self, *checks: str) -> None:
        """Leave out a check that the framework makes impossible; its reason is told."""
        for check in checks:
            if check in self.case.skips:
                pytest.skip(f"{check}: {self.case.skips[check]}")

    @pytest.fixture(scope="class")
    def talked(self, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Talked:
        """The long talk; several checks look at it."""
        return run_talk(request.cls.case, tmp_path_factory.mktemp("talk"))

    @pytest.fixture
    def provider(self):
        """A provider whose requests must all be valid."""
        with Provider(limit=WINDOW) as running:
            yield running
        assert running.problems == []

    @pytest.fixture
    def running(self, provider, tmp_path):
        """An agent with Refold."""
        with Running(self.case, provider, tmp_path / "agent") as opened:
            yield opened

    @pytest.fixture
    def plain(self, tmp_path):
        """The same agent without Refold, at a provider of its own."""
        with (
            Provider(limit=HUGE) as provider,
            Running(self.case, provider, tmp_path / "plain", with_refold=False) as opened,
        ):
            yield opened

    # -- 1: the long talk ----------------------------------------------------------------------------------

    def test_01_every_request_is_valid_and_fits(self, talked, record_property):
        for name in ("name", "wire", "page", "package"):
            record_property(name, getattr(self.case, name) or "")
        record_property("modes", " ".join(self.case.modes))
        record_property("requests", len(talked.requests))
        record_property("invalid", len(talked.problems))
        record_property("folds", len(talked.folds))
        assert talked.problems == []
        assert max(request.used for request in talked.requests) <= WINDOW
        assert len(talked.folds) >= LEAST_FOLDS
        assert [request.outcome for request in talked.requests] == ["answered"] * len(talked.requests)

    def test_01_every_word_of_the_user_is_in_the_log(self, talked):
        users = [line.text for line in talked.log if line.role == "user"]
        assert users == talked.said

    def test_01_the_log_is_the_framework_s_history(self, talked):
        """The last answer comes into the log with the next turn."""
        assert talked.log in (talked.lines, talked.lines[:-1])

    def test_01_tools_stay_the_same(self, talked):
        """A tool that comes and goes would break the cached prefix."""
        assert all(request.tools == talked.requests[0].tools for request in talked.requests)

    @pytest.mark.campaign
    def test_01_a_call_with_long_arguments_stays_valid(self, tmp_path):
        """Where it is shortened, what hangs on it goes or stays with it: signatures, reasoning, ids."""
        with (
            Provider(limit=WINDOW, answer=write_note) as provider,
            Running(self.case, provider, tmp_path / "notes") as running,
        ):
            running.talk("k", 1, 8)
            assert running.session("k").folds()
        assert provider.problems == []
        assert max(request.used for request in provider.requests) <= WINDOW
        sent = json.dumps(provider.requests[-1].messages)
        assert "Line 50 of note 1 " not in sent
        assert "Line 50 of note 8 " in sent

    # -- 2: the summariser ---------------------------------------------------------------------------------

    def test_02_no_question_is_asked_twice(self, talked):
        assert talked.asked
        assert len(set(talked.asked)) == len(talked.asked)
        assert len(talked.asked) == sum(fold.spent.calls for fold in talked.folds), "an answer was not used"

    @full
    def test_02_a_long_turn_folds_inside_itself(self, running):
        self.skip_if("long_turn")
        running.turn("long", f"STEPS 25 The password is {secret(1)}.")
        (turn,) = [line for line in running.outline("long") if line.role == "user"]
        assert secret(1) in turn.text
        assert len(running.provider.requests) == 26
        assert max(request.used for request in running.provider.requests) <= WINDOW
        assert running.session("long").folds()

    # -- 3: the framework's history ------------------------------------------------------------------------

    def test_03_the_history_equals_that_of_a_run_without_refold(self, talked, plain):
        self.skip_if("history")
        plain.talk("main", 1, TURNS)
        assert plain.history("main") == talked.history
        assert plain.outline("main") == talked.lines

    # -- 4: usage ------------------------------------------------------------------------------------------

    def test_04_usage_of_every_answer_is_counted(self, talked, record_property):
        self.skip_if("usage")
        totals = talked.totals
        record_property("usage", f"{totals.requests} of {len(talked.costs)}")
        assert totals.requests == len(talked.costs)
        assert totals.input == sum(cost.input for cost in talked.costs)
        assert totals.output == sum(cost.output for cost in talked.costs)
        assert totals.cache_read == sum(cost.cached for cost in talked.costs) > 0

    # -- 5: refusals and errors ----------------------------------------------------------------------------

    def test_05_a_refusal_at_the_call_is_answered(self, running):
        self.skip_if("refusal_at_call")
        self._recover(running, self.case.modes[0])

    @pytest.mark.campaign
    @pytest.mark.parametrize("in_stream", [False, True], ids=["status", "event"])
    def test_05_a_refusal_at_the_first_chunk_is_answered(self, running, in_stream):
        streamed = [mode for mode in self.case.modes if mode in {"stream", "astream"}]
        self.skip_if("refusal_in_stream", *(["refusal_event"] if in_stream else []))
        if not streamed:
            pytest.skip("the framework does not stream")
        running.provider.refuse_in_stream = in_stream
        self._recover(running, streamed[0])

    def _recover(self, running: Running, mode: str) -> None:
        running.talk("k", 1, 4)
        running.provider.refuse_next = 1
        assert "Answer " in running.turn("k", write_turn(7), mode)
        at = [request.outcome for request in running.provider.requests].index("refused")
        refused, again = running.provider.requests[at : at + 2]
        assert len(running.provider.refused) == 1
        assert again.used < refused.used
        assert secret(7) in json.dumps(again.messages)
        assert running.session("k").folds()

    def test_05_a_second_refusal_is_the_framework_s_own_error(self, running, plain):
        self.skip_if("second_refusal")
        plain.provider.refuse_next = 1
        with pytest.raises(Exception) as expected:  # each framework has its own
            plain.turn("k", write_turn(1))
        running.talk("k", 1, 4)
        running.provider.refuse_next = 5
        with pytest.raises(type(expected.value)) as refused:
            running.turn("k", write_turn(7))
        assert has_overflow(refused.value)
        assert refold.overflow(refused.value) is not None
        assert len(running.provider.refused) == 2
        running.provider.refuse_next = 0
        assert "Answer " in running.turn("k", write_turn(8))

    def test_05_another_error_passes_as_it_is(self, running, plain):
        self.skip_if("other_error")
        raised = []
        for opened in (plain, running):
            opened.talk("k", 1, 2)
            before = len(opened.provider.requests)
            opened.provider.fail_next(403)
            with pytest.raises(Exception) as error:  # each framework has its own
                opened.turn("k", write_turn(3))
            raised.append([(type(cause), _mask_port(str(cause))) for cause in find_causes(error.value)])
            assert len(opened.provider.requests) == before + 1
        assert raised[0] == raised[1]

    # -- 6: kill and resume --------------------------------------------------------------------------------

    @full
    def test_06_a_killed_process_goes_on_as_if_nothing_had_happened(self, running, tmp_path):
        self.skip_if("resume")
        turns = [write_turn(turn, parallel="parallel_calls" not in self.case.skips) for turn in range(1, 17)]
        for text in turns:
            running.turn("main", text)
        with Provider(limit=WINDOW) as provider:
            for text in turns:  # killed after each of them, so that every turn is the first of a process
                child = Child(type(self), tmp_path / "killed", provider.url)
                try:
                    child.turn("main", text)
                finally:
                    child.kill()
        assert [read_request(request) for request in provider.requests] == [
            read_request(request) for request in running.provider.requests
        ]
        assert provider.problems == []
        assert running.session("main").folds()

    # -- 7: recall, unfold, pin ----------------------------------------------------------------------------

    def test_07_the_model_recalls_what_was_folded(self, talked):
        self.skip_if("recall")
        _, call, result, answer = talked.recalled
        assert [name for name, _ in call.calls] == ["recall"]
        assert first_result(talked.lines)[:40] in result.results[0]
        assert answer.text.startswith("It was said: ")
        assert talked.recall_tools[-1] == "recall", "a tool behind the others keeps the cached prefix"

    def test_07_unfold_shows_in_the_next_request(self, running):
        self.skip_if("unfold")
        running.talk("k", 1, 4)
        session = running.session("k")
        assert session.compact(keep=2).compacted
        running.turn("k", f"{write_turn(6)} NOTOOL")
        assert len(self._sent(running)) < len(running.outline("k")) - 1
        assert session.unfold()
        running.turn("k", f"{write_turn(7)} NOTOOL")
        assert self._sent(running) == running.outline("k")[:-1]

    def test_07_a_pinned_message_stays(self, running):
        self.skip_if("pin")
        running.talk("k", 1, 5)
        session, first = running.session("k"), running.outline("k")[0]
        lines = running.outline("k")
        answer = next(index for index, line in enumerate(lines) if line.text.startswith("Answer "))
        session.pin(f"#{_number_of(session, lines[answer].text)}")
        assert session.compact(keep=2).compacted
        running.turn("k", f"{write_turn(6)} NOTOOL")
        sent = self._sent(running)
        assert set(lines) - set(sent), "nothing is folded"
        assert lines[answer] in sent
        assert first.role == "user"

    def _sent(self, running: Running) -> list[Any]:
        return outline(running.provider.requests[-1].messages, self.case.wire)

    # -- 8: modes, and several at once ---------------------------------------------------------------------

    @full
    def test_08_every_mode_answers_and_counts(self, running):
        for mode in self.case.modes:
            before = len(running.provider.requests)
            for turn in range(1, 4):
                assert "Answer " in running.turn(mode, write_turn(turn), mode)
            assert running.read_log(mode) in (running.outline(mode), running.outline(mode)[:-1])
            if "usage" not in self.case.skips:
                totals = running.session(mode).stats().totals
                assert totals.requests == len(running.provider.requests) - before

    @full
    @pytest.mark.parametrize("mode", ["sync", "async"], ids=["threads", "tasks"])
    def test_08_two_conversations_at_once_do_not_mix(self, running, mode):
        self.skip_if("threads" if mode == "sync" else "tasks")
        if mode not in self.case.modes:
            pytest.skip(f"the framework is not {mode}")
        together = [("a", range(1, 9)), ("b", range(11, 19))]
        jobs = [(key, [write_turn(turn) for turn in turns]) for key, turns in together]
        _run_at_once(running, mode, jobs)
        for key, turns in together:
            users = [line.text for line in running.read_log(key) if line.role == "user"]
            assert users == [write_turn(turn) for turn in turns]
            assert running.read_log(key) in (running.outline(key), running.outline(key)[:-1])

    @full
    def test_08_two_turns_at_once_on_one_conversation_lose_no_word(self, running):
        self.skip_if("one_key")
        running.talk("k", 1, 3)
        mode = "async" if "async" in self.case.modes else "sync"
        _run_at_once(running, mode, [("k", [write_turn(4)]), ("k", [write_turn(6)])])
        running.turn("k", write_turn(7))
        session = running.session("k")
        for turn in (1, 2, 3, 4, 6, 7):
            assert any(secret(turn) in hit.text for hit in session.recall(secret(turn)))

    # -- 9: edits of the framework -------------------------------------------------------------------------

    @full
    def test_09_a_rewind_is_a_branch(self, running):
        self.skip_if("rewind")
        running.talk("k", 1, 6)
        kept = running.outline("k")
        running.finish(running.agent.rewind("k", 2))
        shorter = running.outline("k")
        assert shorter == kept[: len(shorter)]
        assert [line.text for line in shorter if line.role == "user"][-1] == write_turn(4)
        running.turn("k", write_turn(7))
        request = json.dumps(running.provider.requests[-1].messages)
        assert secret(4) in request
        assert secret(6) not in request
        assert secret(7) in request
        session = running.session("k")
        assert running.read_log("k") in (running.outline("k"), running.outline("k")[:-1])
        assert any(secret(6) in hit.text for hit in session.recall(secret(6)))

    # -- 10: what must stay whole --------------------------------------------------------------------------

    @full
    def test_10_signed_reasoning_comes_back_whole_or_not_at_all(self, talked):
        """The provider checks the signatures; here only that some came back."""
        self.skip_if("signatures")
        if self.case.wire == "openai":
            pytest.skip("chat completions have no signed reasoning")
        field = {
            "anthropic": '"signature"',
            "responses": '"encrypted_content"',
            "gemini": '"thoughtSignature"',
        }
        raw = [
            request.raw.decode().replace("thought_signature", "thoughtSignature")
            for request in talked.requests
        ]
        assert sum(field[self.case.wire] in text for text in raw) > len(raw) // 2

    @full
    def test_10_an_empty_answer_disturbs_nothing(self, running):
        self.skip_if("empty_answer")
        running.turn("k", "Turn 1: EMPTY")
        assert "Answer " in running.turn("k", write_turn(2))

    @full
    def test_10_a_failed_tool_is_told_to_the_model(self, running):
        self.skip_if("failed_tool")
        assert "Answer " in running.turn("k", 'Turn 1: CALL look {"n": -1}')
        assert "no box -1" in json.dumps(running.provider.requests[-1].messages)
        assert "Answer " in running.turn("k", write_turn(2))

    @full
    def test_10_a_picture_is_sent_whole(self, running):
        self.skip_if("image")
        assert "Answer " in running.finish(
            running.agent.show_image("k", "Turn 1: what is this? NOTOOL", PIXEL)
        )
        assert PIXEL in _read_base64(running.provider.requests[-1])
        running.talk("k", 2, 4)
        assert PIXEL in _read_base64(running.provider.requests[-1])

    @full
    def test_10_a_document_is_sent_whole(self, tmp_path):
        self.skip_if("document")
        with (
            Provider(limit=ROOMY) as provider,
            Running(self.case, provider, tmp_path / "agent", window=ROOMY) as running,
        ):
            question = "Turn 1: what does it say? NOTOOL"
            assert "Answer " in running.finish(running.agent.show_document("k", question, PDF))
            assert PDF in _read_base64(provider.requests[-1])
            running.talk("k", 2, 4)
            assert PDF in _read_base64(provider.requests[-1])
            running.session("k").compact(keep=2)
            running.turn("k", write_turn(6))
        for request in provider.requests:  # a fold may take it out, but never a part of it
            sent = _read_base64(request)
            assert PDF in sent or PDF[:40] not in sent
        assert provider.problems == []

    @full
    def test_10_a_call_without_a_result_is_repaired_or_left_out(self, running):
        self.skip_if("interrupt")
        running.finish(running.agent.interrupt("k", write_turn(1)))
        running.talk("k", 2, 4)
        assert secret(1) in json.dumps(running.provider.requests[-1].messages)

    # -- 11: off, and what Refold costs --------------------------------------------------------------------

    @pytest.mark.campaign
    def test_11_a_policy_that_is_off_changes_no_request(self, plain, tmp_path):
        self.skip_if("off")
        with (
            Provider(limit=HUGE) as provider,
            Running(self.case, provider, tmp_path / "off", window=HUGE, policy=OFF) as running,
        ):
            for opened in (plain, running):
                opened.talk("k", 1, 6)
        assert [r.messages for r in provider.requests] == [r.messages for r in plain.provider.requests]
        assert [r.system for r in provider.requests] == [r.system for r in plain.provider.requests]
        assert running.summariser.asked == []

    @full
    def test_11_what_refold_adds_to_a_turn(self, monkeypatch, tmp_path, record_property):
        """CPU time of a turn at 200 messages; published, not judged here."""
        with provider_apart(HUGE, 20) as url:
            measured = measure_turns(self.case, url, tmp_path, monkeypatch)
        for name, milliseconds in measured.items():
            record_property(name, milliseconds)
        assert measured["overhead_ms"] > 0

    # -- 12: the documentation -----------------------------------------------------------------------------

    def test_12_the_examples_of_the_documentation_run(self, monkeypatch, tmp_path):
        if self.case.page is None:
            pytest.skip("no page of the documentation shows it")
        run_page(ROOT / self.case.page, monkeypatch, tmp_path)


def run_page(page: Path, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Run the Python examples of a page in order, as they are printed, against a provider on this machine."""
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    assert blocks, f"{page} has no Python example"
    monkeypatch.chdir(folder)
    monkeypatch.setenv("REFOLD_STORE", f"sqlite:{folder / 'refold.db'}")
    with Provider() as provider:
        for name in ("OPENAI", "ANTHROPIC", "GEMINI", "GOOGLE"):
            monkeypatch.setenv(f"{name}_API_KEY", "none")
        for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE"):
            monkeypatch.setenv(name, provider.url)
        for name in ("ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL", "GEMINI_BASE_URL", "GEMINI_API_BASE"):
            monkeypatch.setenv(name, provider.root)
        namespace: dict[str, Any] = {"__name__": "example"}
        for block in blocks:
            exec(compile(block, str(page), "exec"), namespace)
        assert provider.problems == []
        assert provider.answered, "the examples asked no model"


def run_fragment(page: str, words: str, around: dict[str, Any]) -> dict[str, Any]:
    """Run the one fragment of a page that has these words, as it is printed; return its names."""
    text = (ROOT / page).read_text(encoding="utf-8")
    (fragment,) = [block for block in FRAGMENT.findall(text) if words in block]
    namespace = {"__name__": "example", **around}
    exec(compile(fragment, page, "exec"), namespace)
    return namespace


def _run_at_once(running: Running, mode: str, jobs: list[tuple[str, list[str]]]) -> None:
    """Run the turns of each conversation in a task or a thread of its own, all at once."""
    agent = running.agent

    async def atalk(key: str, texts: list[str]) -> None:
        for text in texts:
            await agent.arun(key, text)

    async def gather() -> None:
        await asyncio.gather(*(atalk(key, texts) for key, texts in jobs))

    def talk(key: str, texts: list[str]) -> None:
        for text in texts:
            agent.run(key, text)

    if mode == "async":
        running.finish(gather())
        return
    with ThreadPoolExecutor(len(jobs)) as threads:
        for ended in [threads.submit(talk, *job) for job in jobs]:
            ended.result()


def _mask_port(text: str) -> str:
    return re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1", text)


def _read_base64(request: Any) -> str:
    """Return a request in which the base64 for addresses, as Gemini's client writes it, is the plain one."""
    return str(request.raw.decode().replace("-", "+").replace("_", "/"))


def _number_of(session: Any, text: str) -> int:
    """Return the number of a message in the log."""
    return next(entry.said for entry in session.log(kinds=["said"]) if text in entry.text)


__all__ = ["FULL", "Conformance", "run_fragment", "run_page"]
