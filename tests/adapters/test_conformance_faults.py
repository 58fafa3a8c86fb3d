"""The conformance suite finds faults: a broken agent fails the check that is about it; a sound one passes it."""

import inspect
import json
from contextlib import ExitStack, closing

import pytest
from conformance import HUGE, Conformance
from conformance_case import WINDOW, Case
from conformance_running import Running, run_talk
from plain_agent import PlainAgent, openai

from refold.testing import Provider

pytestmark = pytest.mark.filterwarnings("ignore")


class LosesUsage(PlainAgent):
    """Does not ask for the usage of streams."""

    def call_model(self, messages, tools, stream):
        if not stream:
            return super().call_model(messages, tools, stream)
        model = "gpt-4o"
        return self.client.chat.completions.create(model=model, messages=messages, tools=tools, stream=True)


class ChangesHistory(PlainAgent):
    """Saves Refold's view in place of the history."""

    def save(self, key, history):
        is_folded = self.sessions is not None and self.session(key).folds()
        super().save(key, self.session(key).view() if is_folded else history)


class ChangesOneWord(PlainAgent):
    """Changes one message of the framework in place."""

    def call_model(self, messages, tools, stream):
        if self.sessions is not None:
            messages[-1]["content"] += " "
        return super().call_model(messages, tools, stream)


class DropsResults(PlainAgent):
    """Sends calls without their results."""

    def call_model(self, messages, tools, stream):
        return super().call_model([each for each in messages if each["role"] != "tool"], tools, stream)


class NeverFolds(PlainAgent):
    """Asks the model past Refold."""

    def ask(self, key, history, stream):
        answer = self.call_model(history, self.list_tools(key), stream=False)
        return answer.choices[0].message.model_dump(exclude_none=True)


class ChangesTools(PlainAgent):
    """Offers `recall` late."""

    def list_tools(self, key):
        return super().list_tools(key)[: 1 if len(self.load(key)) < 8 else 2]


class HidesRecall(PlainAgent):
    """Answers recall with nothing."""

    def _call_tool(self, key, name, arguments):
        return "Nothing was found." if name == "recall" else super()._call_tool(key, name, arguments)


class Mixes(PlainAgent):
    """Has one session for all conversations."""

    def session(self, key):
        return super().session("all")


class Retries(PlainAgent):
    """Tries again whatever the error was."""

    def call_model(self, messages, tools, stream):
        try:
            return super().call_model(messages, tools, stream)
        except Exception:
            if self.sessions is None:
                raise
            return super().call_model(messages, tools, stream)


class RenamesErrors(PlainAgent):
    """Raises an error of its own."""

    def run(self, key, text, *, stream=False):
        try:
            return super().run(key, text, stream=stream)
        except Exception as error:
            if self.sessions is None:
                raise
            raise RuntimeError("the model failed") from error


class TrimsTheList(PlainAgent):
    """Changes the list although the policy is off."""

    def ask(self, key, history, stream):
        return super().ask(key, history if self.sessions is None else history[-6:], stream)


class FaultyCase(Case):
    """A case around any class of agents."""

    modes = ("sync", "stream")

    def __init__(self, agent):
        self.agent = agent

    def open(self, setup):
        return self.agent(setup)


FAULTS = [
    (LosesUsage, "test_04_usage_of_every_answer_is_counted"),
    (ChangesHistory, "test_03_the_history_equals_that_of_a_run_without_refold"),
    (ChangesOneWord, "test_03_the_history_equals_that_of_a_run_without_refold"),
    (DropsResults, "test_01_every_request_is_valid_and_fits"),
    (NeverFolds, "test_01_every_word_of_the_user_is_in_the_log"),
    (NeverFolds, "test_05_a_refusal_at_the_call_is_answered"),
    (ChangesTools, "test_01_tools_stay_the_same"),
    (HidesRecall, "test_07_the_model_recalls_what_was_folded"),
    (Mixes, "test_08_two_conversations_at_once_do_not_mix"),
    (Retries, "test_05_another_error_passes_as_it_is"),
    (RenamesErrors, "test_05_another_error_passes_as_it_is"),
    (RenamesErrors, "test_05_a_second_refusal_is_the_framework_s_own_error"),
    (TrimsTheList, "test_11_a_policy_that_is_off_changes_no_request"),
]


def run_check(agent, check, folder):
    """Run one check of the suite for a class of agents, with the fixtures that it names."""
    suite = Conformance()
    suite.case = FaultyCase(agent)
    names = inspect.signature(getattr(suite, check)).parameters
    with ExitStack() as stack:

        def start(name, limit, **choices):
            provider = stack.enter_context(Provider(limit=limit))
            return stack.enter_context(Running(suite.case, provider, folder / name, **choices))

        made = {
            "talked": lambda: run_talk(suite.case, folder / "talk"),
            "running": lambda: start("agent", WINDOW),
            "plain": lambda: start("plain", HUGE, with_refold=False),
            "tmp_path": lambda: folder,
            "record_property": lambda: lambda *_: None,
            "mode": lambda: "sync",
        }
        getattr(suite, check)(**{name: made[name]() for name in names})


def test_a_sound_agent_passes_in_this_harness(tmp_path):
    """The other checks pass for it in test_plain_conformance."""
    run_check(PlainAgent, "test_08_two_conversations_at_once_do_not_mix", tmp_path)


@pytest.mark.few_values(3)
@pytest.mark.parametrize(
    ("agent", "check"), FAULTS, ids=lambda each: getattr(each, "__name__", str(each)[:7])
)
def test_a_broken_agent_is_found(agent, check, tmp_path):
    """By an assertion, by an error that did not come, or by one that should not have come."""
    with pytest.raises((AssertionError, pytest.fail.Exception, openai.BadRequestError, RuntimeError)):
        run_check(agent, check, tmp_path)


def test_a_history_is_written_whole(tmp_path):
    """A turn that reads while another one writes has the old history, and not the beginning of the new one."""
    case = FaultyCase(PlainAgent)
    with Provider(limit=HUGE) as provider, closing(Running(case, provider, tmp_path)) as running:
        running.turn("k", "NOTOOL")
        before = (tmp_path / "k.json").read_text()
        with (tmp_path / "k.json").open() as reader:
            running.turn("k", "NOTOOL")
            assert reader.read() == before
        assert len(json.loads((tmp_path / "k.json").read_text())) > len(json.loads(before))
