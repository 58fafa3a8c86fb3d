"""NeuroLink: its document ("Context Compaction"), section by section, and every pure case of its page.

Its section "Error Detection", with cases 22 and 23, is in tests/core/overflow/test_detect.py.

The page's numbers were computed with a later counter than the document's; `LATER` is that counter, passed as
`count`, as the page's decisions say.
"""

import json
import math
from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from printed_tables import NEUROLINK_DEFAULTS, NEUROLINK_MODELS

import refold
from chat_messages import assistant, call, find_problems, result, user
from growth import assert_linear
from refold import Message, Opaque, Text, ToolCall, ToolResult, presets
from refold.testing import Scripted
from sample_sizes import few_or_all

MARKER = "[Earlier conversation history was truncated to fit within context limits]"
CLEARED = "[Tool result cleared]"
HEADER = "[Previous conversation summary]"
SECTIONS = [
    "Primary Request and Intent",
    "Key Technical Concepts",
    "Files and Code Sections",
    "Problem Solving",
    "Pending Tasks",
    "Task Evolution",
    "Current Work",
    "Next Step",
    "Required Files",
    "Constraints and Established Rules",
]


def later(factor=1.0, chars_per_token=4):
    """The program's later counter: ceil(base * factor + base * 0.05), base = ceil(characters / 4)."""

    def count(text):
        base = -(-len(text) // chars_per_token)
        return math.ceil(base * factor + base * 0.05)

    return count


LATER = later()
PROSE = "and so it goes on with the work, step by step. " * 200


def talk(count, size=500):
    return [
        (user if n % 2 == 0 else assistant)(f"m{n} " + PROSE[: size - len(f"m{n} ")]) for n in range(count)
    ]


def tool_turns(count, size=5_000, tool="sh"):
    """Turns of a question, a call, its result and an answer."""
    messages = []
    for n in range(count):
        messages += [
            user(f"q{n}"),
            call(f"c{n}", tool),
            result(f"c{n}", f"{n} ".ljust(size, "r")),
            assistant(f"a{n}"),
        ]
    return messages


def compact(messages, *, ask=None, count=LATER, target=None, force=False, window=None, model=None, **knobs):
    policy = presets.get("neurolink", **knobs)
    return refold.compact(
        messages, policy=policy, ask=ask, count=count, target=target, force=force, window=window, model=model
    )


ONLY_SLIDE = {"enable_prune": False, "enable_deduplicate": False, "enable_summarize": False}
NO_STAGE = {**ONLY_SLIDE, "enable_truncate": False}


def roles(outcome):
    return [message["role"] for message in outcome.messages]


def contents(outcome):
    return [message["content"] for message in outcome.messages]


class TestCounting:
    """Document, "Token Estimation"; cases 1 to 3."""

    @pytest.mark.parametrize(
        ("provider", "tokens"),
        [
            (None, 288),
            ("openai", 288),
            ("azure", 288),
            ("ollama", 288),
            ("litellm", 288),
            ("huggingface", 288),
            ("sagemaker", 288),
            ("nobody", 288),
            ("anthropic", 354),
            ("bedrock", 354),
            ("vertex", 340),
            ("google-ai", 340),
            ("mistral", 363),
        ],
    )
    def test_provider_multipliers(self, provider, tokens):
        """Section "Provider Multipliers", cases 1 and 2: 1000 characters are 250 * factor * 1.15, rounded up."""
        assert refold.count("x" * 1_000, policy="neurolink", provider=provider) == tokens

    @pytest.mark.parametrize(
        ("factor", "tokens"),
        [(1.0, 263), (1.23, 320), (1.18, 308), (1.26, 328)],
        ids=["none", "anthropic", "vertex", "mistral"],
    )
    def test_later_counter(self, factor, tokens):
        """Case 1: the later counter, given as `count`, gives the page's numbers."""
        budget = refold.measure([], policy="neurolink", prompt="x" * 1_000, count=later(factor))
        assert budget.breakdown.prompt == tokens
        assert budget.count_source == "given"

    @pytest.mark.parametrize("policy_or_later", ["neurolink", None])
    def test_hello_world(self, policy_or_later):
        """Case 1: nothing is 0; "Hello, world!" is 5, for Anthropic 6, with either counter."""
        if policy_or_later:
            assert refold.count("", policy="neurolink") == 0
            assert refold.count("Hello, world!", policy="neurolink") == 5
            assert refold.count("Hello, world!", policy="neurolink", provider="anthropic") == 6
        else:
            assert [LATER(""), LATER("Hello, world!"), later(1.23)("Hello, world!")] == [0, 5, 6]

    def test_code(self):
        """Section "Constants": code has 3 characters a token; case 1: 1000 are 351 with the later counter."""
        assert refold.count("x" * 1_000, policy="neurolink", code=True) == math.ceil(334 * 1.15) == 385
        assert later(chars_per_token=3)("x" * 1_000) == 351

    def test_overheads(self):
        """Section "Constants", case 3: 4 a message, 24 a conversation, nothing for no messages."""
        assert refold.count([], policy="neurolink") == 0
        assert refold.count([user("")], policy="neurolink") == 28
        assert refold.count([user(""), assistant("")], policy="neurolink") == 32

    def test_images_are_flat(self):
        """Section "Constants": an image is 1024 tokens, whatever its size."""
        picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 9_000}}
        message = {"role": "user", "content": [{"type": "text", "text": ""}, picture, picture]}
        assert refold.count([message], policy="neurolink") == 24 + 4 + 2 * 1_024

    def test_the_model_tells_the_provider(self):
        """Section "Provider Multipliers": where only the model is known, its maker's factor holds."""
        claude = refold.measure([user("x" * 1_000)], policy="neurolink", model="claude-sonnet-4-20250514")
        assert claude.breakdown.history == 354 + 4 + 24

    def test_large_tool_arguments_are_counted(self):
        """Page, faults: a write of 39,000 characters is no 28 tokens."""
        size = refold.count([call("c", "write", text="x" * 39_000)], policy="neurolink")
        assert size > 39_000 / 4 * 1.15
        assert refold.count([call("c", "write", path="a.py")], policy="neurolink") == 28

    @given(st.text(max_size=400), st.integers(1, 60))
    def test_fit_text_is_never_over(self, text, limit):
        """Section "truncateToTokenBudget"; page, faults: the three dots are part of the budget."""
        fitted = refold.fit_text(text, limit, policy="neurolink", provider="anthropic")
        assert refold.count(fitted, policy="neurolink", provider="anthropic") <= limit
        assert fitted == text or fitted == "" or fitted.endswith("...")

    def test_fit_text_cuts_at_a_sentence_or_word(self):
        """Section "truncateToTokenBudget": at a sentence where one ends near, else at a word; dots only where cut."""
        assert refold.fit_text("short", 100, policy="neurolink") == "short"
        sentences = refold.fit_text("One sentence here. " * 40, 50, policy="neurolink")
        assert sentences.endswith("here....")
        words = refold.fit_text("word " * 200, 50, policy="neurolink")
        assert words.endswith("word...")

    @pytest.mark.parametrize("limit", [10, 100])
    def test_a_limit_of_100_is_not_101(self, limit):
        """Page, faults: the original gives 101 or 102 tokens for a limit of 100."""
        for provider in ("openai", "anthropic"):
            fitted = refold.fit_text("x" * 5_000, limit, policy="neurolink", provider=provider)
            assert limit * 0.9 <= refold.count(fitted, policy="neurolink", provider=provider) <= limit


class TestWindows:
    """Document, "Context Window Registry" and "Provider Support"; cases 4 and 5."""

    @pytest.mark.parametrize(("provider", "model", "size"), NEUROLINK_MODELS)
    def test_every_row(self, provider, model, size):
        """Section "MODEL_CONTEXT_WINDOWS": each model of each provider."""
        budget = refold.measure([], policy=presets.get("neurolink", provider=provider), model=model)
        assert (budget.window, budget.window_source) == (size, "table")

    @pytest.mark.parametrize(("provider", "size"), NEUROLINK_DEFAULTS)
    def test_provider_defaults(self, provider, size):
        """Section "Provider Support", case 5: an unknown model has its provider's window."""
        assert refold.measure([], policy="neurolink", model=f"{provider}:some-model").window == size
        assert refold.measure([], policy=presets.get("neurolink", provider=provider)).window == size

    def test_unknown_provider(self):
        """Section "Constants", case 4: 128,000 where nothing is known; 83,200 of them for input."""
        budget = refold.measure([], policy=presets.get("neurolink", provider="nobody"))
        assert (budget.window, budget.room) == (128_000, 83_200)

    @pytest.mark.parametrize(
        ("window", "reserve", "room"),
        [
            (200_000, 64_000, 136_000),
            (1_000_000, 64_000, 936_000),
            (8_192, 2_868, 5_324),
            (32_000, 11_200, 20_800),
            (128_000, 44_800, 83_200),
        ],
    )
    def test_output_reserve(self, window, reserve, room):
        """Section "getOutputReserve", case 4: min(64,000, 35 %); the rest is for input."""
        budget = refold.measure([], policy="neurolink", window=window)
        assert (budget.reserve, budget.room) == (reserve, room)

    def test_explicit_max_tokens(self):
        """Section "getOutputReserve", case 4: an explicit maximum wins."""
        budget = refold.measure([], policy=presets.get("neurolink", max_tokens=8_192), window=200_000)
        assert (budget.reserve, budget.room) == (8_192, 191_808)

    @pytest.mark.parametrize(
        ("model", "size"),
        [
            ("gpt-4", 8_192),
            ("gpt-4o-2024-08-06", 128_000),
            ("o1-mini-2024-09-12", 128_000),
            ("o1-2024-12-17", 200_000),
        ],
    )
    def test_prefixes(self, model, size):
        """Section "getContextWindowSize", page, faults: the longest known prefix wins, not the first in the table."""
        assert refold.measure([], policy="neurolink", model=model).window == size

    def test_the_documents_numbers_are_the_presets_alone(self):
        """Issue 2, item 5: gpt-5 has 1,047,576 in the document; the house knows the true number."""
        assert refold.measure([], policy="neurolink", model="gpt-5").window == 1_047_576
        assert refold.window("gpt-5").tokens == 400_000


class TestBudget:
    """Document, "BudgetCheckResult" and "BudgetCheckParams"; cases 6 to 9."""

    def test_nothing(self):
        """Case 6: nothing is 0 tokens, ratio 0, no compaction."""
        budget = refold.measure([], policy="neurolink", model="gpt-4o")
        assert (budget.used, budget.ratio, budget.should_compact, budget.level) == (0, 0.0, False, "none")

    def test_five_hundred_messages(self):
        """Case 7: 500 * 1000 characters for Anthropic are 162,024 tokens, 1.19 of the room."""
        messages = [(user if n % 2 == 0 else assistant)("x" * 1_000) for n in range(500)]
        budget = refold.measure(
            messages, policy="neurolink", model="anthropic:claude-sonnet-4-20250514", count=later(1.23)
        )
        assert budget.used == 162_024
        assert round(budget.ratio, 2) == 1.19
        assert budget.should_compact
        own = refold.measure(messages, policy="neurolink", model="anthropic:claude-sonnet-4-20250514")
        assert own.used == 500 * (354 + 4) + 24

    def test_breakdown_adds_up(self):
        """Case 8: each part is counted for itself, and the parts add up to the total."""
        tool = {"name": "read", "description": "Read a file", "parameters": {"type": "object"}}
        parts = {
            "system": "be kind " * 40,
            "prompt": "what now? " * 20,
            "tools": [tool, tool],
            "files": [{"content": "y" * 400}],
        }
        budget = refold.measure(talk(4), policy="neurolink", **parts)
        breakdown = budget.breakdown
        assert breakdown.system == refold.count(parts["system"], policy="neurolink")
        assert breakdown.prompt == refold.count(parts["prompt"], policy="neurolink")
        assert breakdown.files == refold.count("y" * 400, policy="neurolink")
        assert breakdown.history == refold.count(talk(4), policy="neurolink")
        assert sum(breakdown.as_dict().values()) == breakdown.total == budget.used

    def test_tools_cost_their_json(self):
        """Section "BudgetCheckResult", case 8: JSON as JavaScript writes it, four characters a token; no JSON is 200."""
        tool = {"name": "read", "description": "Read a file"}
        text = '{"name":"read","description":"Read a file"}'
        assert refold.measure([], policy="neurolink", tools=[tool]).breakdown.tools == refold.count(
            text, policy="neurolink"
        )
        assert refold.measure(
            [], policy="neurolink", tools=[object(), tool]
        ).breakdown.tools == 200 + refold.count(text, policy="neurolink")

    def test_a_system_prompt_raises_the_total(self):
        """Case 8: by exactly its own entry."""
        bare, more = (refold.measure(talk(4), policy="neurolink", system=text) for text in (None, "s" * 400))
        assert more.used - bare.used == more.breakdown.system == 115

    def test_threshold(self):
        """Case 9: on the same 20 pairs 0.1 fires and 0.99 does not (gpt-4o)."""
        messages = talk(40, size=1_000)
        low, high = (
            refold.measure(messages, policy=presets.get("neurolink", threshold=t), model="gpt-4o")
            for t in (0.1, 0.99)
        )
        assert low.should_compact
        assert not high.should_compact

    @pytest.mark.parametrize(("used", "fires"), [(799, False), (800, True), (801, True)])
    def test_the_threshold_is_a_share_of_the_room(self, used, fires):
        """Section "SDK Configuration", `threshold`: from exactly 0.80 of the available input on."""
        budget = refold.measure(
            [], policy=presets.get("neurolink", max_tokens=1_000), window=2_000, prompt="x" * used, count=len
        )
        assert (budget.room, budget.should_compact) == (1_000, fires)

    @pytest.mark.parametrize(
        ("used", "level"),
        [
            (600, "none"),
            (601, "notice"),
            (799, "notice"),
            (800, "warning"),
            (950, "warning"),
            (2_000, "warning"),
        ],
    )
    def test_warnings(self, used, level):
        """Section "CLI Session Warnings": informational over 60 %, a warning from 80 % on, no third level."""
        budget = refold.measure(
            [], policy=presets.get("neurolink", max_tokens=1_000), window=2_000, prompt="x" * used, count=len
        )
        assert budget.level == level


class TestStage1:
    """Document, "Stage 1: Tool Output Pruning"; cases 11 and 19 (the stage itself: tests/stages/test_prune.py)."""

    def test_old_results_are_cleared(self):
        """Newest first, 40,000 tokens stay; what is older is cleared if that saves 20,000."""
        messages = tool_turns(40, size=8_000)
        outcome = compact(messages, target=70_000)
        assert outcome.stages == ("prune",)
        assert outcome.messages_after == 160
        texts = [message["content"] for message in outcome.messages if message["role"] == "tool"]
        kept = [text for text in texts if text != CLEARED]
        assert len(kept) == 20  # 2,100 tokens each: the twentieth crosses 40,000
        assert texts == [CLEARED] * 20 + kept
        assert find_problems(outcome.messages) == []

    def test_untouched_messages_are_the_same(self):
        """Case 11: messages that are no tool results come back as the objects that went in."""
        messages = tool_turns(40, size=8_000)
        outcome = compact(messages, target=70_000)
        assert all(
            new is old for new, old in zip(outcome.messages, messages, strict=True) if old["role"] != "tool"
        )

    def test_the_skill_tool_is_never_pruned(self):
        """Case 11: a result of `skill` with 50,000 characters stays."""
        messages = [user("go"), call("s", "skill"), result("s", "k" * 50_000), *tool_turns(40, size=8_000)]
        outcome = compact(messages, target=80_000)
        assert "prune" in outcome.stages
        assert outcome.messages[2]["content"] == "k" * 50_000

    def test_savings_below_the_minimum(self):
        """Case 11: where too little would be saved the list is unchanged."""
        messages = tool_turns(20, size=8_000)
        assert "prune" not in compact(messages, target=35_000, **(NO_STAGE | {"enable_prune": True})).stages
        assert compact(
            messages, target=35_000, prune_minimum_savings=500, prune_protect_tokens=1_000
        ).stages == ("prune",)

    def test_tool_heavy(self):
        """Case 19: 30 turns with 5000 characters, protect 5000, target 5000: every call keeps its result."""
        outcome = compact(tool_turns(30), target=5_000, prune_protect_tokens=5_000)
        assert outcome.stages == ("prune", "truncate")
        assert outcome.fits
        assert outcome.met_target
        assert outcome.tokens_after <= 5_000
        assert find_problems(outcome.messages) == []
        for position, message in enumerate(outcome.messages):
            if message.get("tool_calls"):
                assert outcome.messages[position + 1]["tool_call_id"] == message["tool_calls"][0]["id"]

    def test_parallel_calls_are_one_unit(self):
        """Page, decisions: pairs are matched by id; the original's repair damaged parallel calls."""
        both = call("a")
        both["tool_calls"] += call("b")["tool_calls"]
        messages = [user("go"), both, result("b", "B" * 9_000), result("a", "A" * 9_000), *talk(30)]
        for target in (500, 1_000, 2_000, 4_000):
            assert find_problems(compact(messages, target=target, prune_minimum_savings=1).messages) == []


class TestStage2:
    """Document, "Stage 2: File Read Deduplication"; case 12 (the stage itself: tests/stages/test_dedupe.py)."""

    def reads(self, *paths, size=5_000):
        messages = [user("go")]
        for n, path in enumerate(paths):
            messages += [call(f"c{n}", "read_file", path=path), result(f"c{n}", f"{n}".ljust(size, "x"))]
        return messages

    def test_two_reads(self):
        """Case 12: the first read is replaced by the document's words, the last is intact."""
        outcome = compact(self.reads("src/index.ts", "src/index.ts"), target=2_000)
        assert outcome.stages == ("deduplicate",)
        assert outcome.messages[2]["content"] == "[File src/index.ts - refer to latest read below]"
        assert outcome.messages[4]["content"] == "1".ljust(5_000, "x")

    def test_three_reads(self):
        """Case 12: the first two are replaced."""
        outcome = compact(self.reads("a", "a", "a"), target=2_000)
        assert [m["content"][:1] for m in outcome.messages if m["role"] == "tool"] == ["[", "[", "2"]

    def test_different_files_and_small_reads(self):
        """Case 12: different files, and reads that would save less than 30 %, are unchanged."""
        knobs = NO_STAGE | {"enable_deduplicate": True}
        assert not compact(self.reads("a", "b"), target=100, **knobs).compacted
        assert not compact(self.reads("a", "a", size=20), target=10, **knobs).compacted

    def test_plain_transcript(self):
        """Section "File read detection": without tool calls the document's pattern is the fallback, on tool results."""
        text = "read_file 'src/index.ts'\n"
        messages = [
            Message("user", "go"),
            Message("tool", text + "a" * 5_000),
            Message("assistant", "ok"),
            Message("tool", text + "b" * 5_000),
        ]
        outcome = compact(messages, target=2_000)
        assert [message.text[:50] for message in outcome.messages] == [
            "go",
            "[File src/index.ts - refer to latest read below]",
            "ok",
            (text + "b" * 25)[:50],
        ]

    def test_prose_is_not_replaced(self):
        """Page, faults: what the assistant says is never taken for a file read."""
        messages = [
            user("go"),
            assistant("I read the docs. " * 300),
            user("and?"),
            assistant("I read the docs. " * 300),
        ]
        assert not compact(messages, target=100, **(NO_STAGE | {"enable_deduplicate": True})).compacted


class TestStage3:
    """Document, "Stage 3: LLM Summarization"; cases 26, 31 and 32."""

    @pytest.mark.parametrize(("count", "kept"), [(5, 4), (10, 4), (14, 5), (20, 6), (50, 15)])
    def test_without_a_target(self, count, kept):
        """Case 31: max(4, 30 % rounded up) messages are kept behind the summary."""
        outcome = compact(talk(count), ask=Scripted("S"), force=True)
        assert outcome.stages == ("summarize",)
        assert outcome.messages_after == kept + 1
        assert outcome.messages[1:] == talk(count)[-kept:]

    def test_four_messages(self):
        """Case 31, "Behavior": four or fewer are not summarised."""
        model = Scripted("S")
        assert not compact(talk(4), ask=model, force=True).compacted
        assert model.asked == []

    def test_with_a_target(self):
        """Case 31: 20 * 500 characters into 2000: 16 are summarised, 4 kept, within 30 % of the target."""
        messages = [(user if n % 2 == 0 else assistant)("x" * 500) for n in range(20)]
        outcome = compact(messages, ask=Scripted("S"), target=2_000)
        assert outcome.messages_after == 5
        assert outcome.receipt.stages[-1].reason == "16 messages summarised"

    def test_the_summary_message(self):
        """Section "Behavior": a system message, marked as a summary, before the recent messages."""
        messages = [Message(("user", "assistant")[n % 2], f"m{n}".ljust(500)) for n in range(20)]
        outcome = compact(messages, ask=Scripted("The gist."), force=True)
        first = outcome.messages[0]
        assert (first.role, first.is_summary, first.source) == ("system", True, "summarization")
        assert first.text == f"{HEADER}\n\nThe gist."
        assert outcome.summary == "The gist."

    def test_the_system_prompt_stays_in_front(self):
        """A leading system message is no history."""
        outcome = compact([{"role": "system", "content": "rules"}, *talk(20)], ask=Scripted("S"), force=True)
        assert roles(outcome)[:3] == ["system", "system", "user"]
        assert contents(outcome)[:2] == ["rules", f"{HEADER}\n\nS"]

    def test_initial_prompt(self):
        """Case 26: nine sections and the tenth, its carry-over rule, N/A for what is empty, role and text."""
        model = Scripted("S")
        compact([user("please, a parser"), assistant("sure"), *talk(20)], ask=model, force=True)
        (ask,) = model.asked
        places = [ask.index(f"### {number}. {title}") for number, title in enumerate(SECTIONS, 1)]
        assert places == sorted(places)
        assert "carried over in full" in ask
        assert '"N/A"' in ask
        assert "user: please, a parser\n\nassistant: sure" in ask
        assert "Existing summary" not in ask

    def test_incremental_prompt(self):
        """Case 26: the old summary stands in it once, it says MERGE, and section 10 is carried over."""
        model = Scripted(["OLD GIST", "NEW GIST"])
        once = compact(talk(20), ask=model, force=True)
        twice = compact(once.messages + talk(20), ask=model, force=True)
        ask = model.asked[1]
        assert "MERGE" in ask
        assert ask.count("OLD GIST") == 1
        assert "---\n<previous-summary>\nOLD GIST\n</previous-summary>\n---" in ask
        assert all(title in ask for title in SECTIONS)
        assert "always carried over in full unless the user revokes" in ask
        assert contents(twice)[0] == f"{HEADER}\n\nNEW GIST"
        assert sum(HEADER in str(text) for text in contents(twice)) == 1

    def test_file_block_only_with_files(self):
        """Case 26: files that were read and changed are named where there are any."""
        model = Scripted("S")
        compact(talk(20), ask=model, force=True)
        work = [
            user("go"),
            call("1", "read_file", path="a.py"),
            result("1", "x"),
            call("2", "write_file", path="b.py"),
            result("2", "ok"),
        ]
        compact(work + talk(20), ask=model, force=True)
        assert "Files Read" not in model.asked[0]
        assert "Files Read: a.py\nFiles Modified: b.py" in model.asked[1]

    @pytest.mark.parametrize(
        "failure",
        [RuntimeError("down"), TimeoutError("120 s"), "", "   ", refold.Answer(text="half", finish="length")],
    )
    def test_a_failed_summary_falls_through(self, failure):
        """Case 32, "Behavior": error, time-out, empty or cut off: the window slides instead, and it succeeds."""
        model = Scripted(failure)
        outcome = compact(talk(20), ask=model, target=2_000)
        assert len(model.asked) == 1
        assert outcome.stages == ("truncate",)
        assert outcome.fits
        assert outcome.met_target
        assert outcome.receipt.calls[0].purpose == "initial"

    def test_requests_fit_the_summariser(self):
        """Page, faults: the summariser's input is bounded by its own window."""
        model = Scripted("S", window=8_192)
        outcome = compact(talk(60, size=4_000), ask=model, force=True)
        assert outcome.stages == ("summarize",)
        assert len(model.asked) > 1
        assert all(refold.count(ask.text) < 8_192 for ask in model.asked)


class TestStage4:
    """Document, "Stage 4: Sliding Window Truncation"; cases 13 and 17 (tests/stages/test_slide.py, test_clamp.py)."""

    @pytest.mark.parametrize(("count", "left"), [(4, 4), (5, 4), (6, 5), (20, 13)])
    def test_counts(self, count, left):
        """Case 13: 20 messages, 0.5: 8 removed, 13 left; 6: 5 left; 5: 4 left; 4: unchanged."""
        outcome = compact(
            talk(count), force=count == 4, window=None if count == 4 else count * 260, **ONLY_SLIDE
        )
        assert outcome.messages_after == left
        assert outcome.compacted is (count > 4)

    def test_marker(self):
        """Section "Behavior": the first two stay, the marker is third and a system message."""
        outcome = compact(talk(20), window=5_000, **ONLY_SLIDE)
        assert outcome.messages[:2] == talk(20)[:2]
        assert outcome.messages[2] == {"role": "system", "content": MARKER}
        assert outcome.messages[3:] == talk(20)[10:]

    def test_one_marker_after_many_rounds(self):
        """A second removal does not leave a second marker."""
        messages = talk(20)
        for _ in range(5):
            messages = compact([*messages, *talk(10)], window=4_000, **ONLY_SLIDE).messages
        assert [message["content"] for message in messages].count(MARKER) == 1

    @pytest.mark.few_values(1)
    @pytest.mark.parametrize("first", [200, 201])
    @pytest.mark.slow
    def test_long_histories_fill_the_target(self, first):
        """Of 200 to 4,000 (in `make torture` 20,000) messages of one size at least 85 % of the target stay, of more never less.

        Within one parity: the document removes an even number, so an odd history ends one message off.
        """
        sizes = []
        for count in (
            first,
            first + 30,
            first + 400,
            first + 2_100,
            10 * first,
            few_or_all(20 * first - 18 * (first % 2), 100 * first - 98 * (first % 2)),
        ):
            messages = [(user if n % 2 == 0 else assistant)(f"m{n} ".ljust(2_000, "x")) for n in range(count)]
            outcome = refold.compact(messages, policy="neurolink", model="gpt-4o")
            assert outcome.receipt.goal_tokens == 0.80 * 83_200 - 1
            assert 0.85 * 66_559 <= outcome.tokens_after <= 66_559
            assert outcome.messages[:2] == messages[:2]
            assert outcome.messages[-1] == messages[-1]
            sizes.append(outcome.tokens_after)
        assert sizes == sorted(sizes)

    @given(
        st.integers(200, 400), st.lists(st.integers(1, 3_000), min_size=1, max_size=7), st.integers(10, 60)
    )
    @settings(max_examples=few_or_all(10, 20))
    def test_no_more_leaves_than_the_share_or_the_target(self, count, lengths, share):
        """Whatever the sizes: more than half leaves only where the rest would be over the target."""
        messages = [
            (user if n % 2 == 0 else assistant)("x" * lengths[n % len(lengths)]) for n in range(count)
        ]
        before = refold.count(messages, policy="neurolink")
        target = before * share // 100
        outcome = refold.compact(messages, policy="neurolink", target=target, window=2_000_000)
        left = outcome.messages_after - 1
        half = (count - 2) // 2
        removed = count - left
        assert outcome.tokens_after <= target or removed == count - 3
        two_more = sum(
            math.ceil(-(-lengths[n % len(lengths)] // 4) * 1.15) + 4 for n in (removed, removed + 1)
        )
        assert removed == half - half % 2 or outcome.tokens_after + two_more > target

    def test_long_histories_take_linear_time(self):
        """Twice the messages are twice the work."""

        def make_work(count):
            messages = talk(count, size=400)
            return lambda: refold.compact(messages, policy="neurolink", window=8_000)

        assert_linear(make_work, 1_000)

    def test_contents_are_cut_where_messages_are_few(self):
        """Case 17: two messages of 4000 characters, 2132 tokens, into 1000: 1675 characters each, 912 tokens."""
        outcome = compact([user("x" * 4_000), assistant("x" * 4_000)], target=1_000)
        assert (outcome.tokens_before, outcome.tokens_after) == (2_132, 912)
        assert [len(text) for text in contents(outcome)] == [1_675, 1_675]
        assert outcome.stages == ("truncate",)

    def test_little_room_is_used_and_said(self):
        """Case 17 gives up on little room with an empty history; the last user message is in every view here."""
        messages = [user("x" * 4_000), assistant("x" * 4_000)]
        tight = compact(messages, target=100)
        assert tight.fits
        assert tight.met_target
        assert tight.tokens_after <= 100
        none = refold.compact(messages, policy="neurolink", window=769, system="s" * 2_400, count=LATER)
        assert none.budget.room < none.breakdown.system
        assert not none.fits
        assert "alone" in none.reason


class TestPipeline:
    """Document, "The 4-Stage Pipeline" and "Quick Start"; case 18."""

    def test_under_the_target(self):
        """Case 18: not compacted, no stages, the same messages."""
        messages = talk(10)
        outcome = compact(messages, target=10_000)
        assert (outcome.compacted, outcome.stages, outcome.tokens_saved) == (False, (), 0)
        assert all(new is old for new, old in zip(outcome.messages, messages, strict=True))

    def test_all_stages_disabled(self):
        """Case 18: with every stage off nothing changes, and it says that it does not fit."""
        messages = tool_turns(30)
        outcome = compact(messages, target=5_000, **NO_STAGE)
        assert not outcome.compacted
        assert outcome.messages == messages
        assert not outcome.met_target

    @pytest.mark.parametrize(
        ("target", "stages"),
        [
            (200_000, ()),
            (70_000, ("prune",)),
            (43_000, ("prune", "deduplicate")),
            (30_000, ("prune", "deduplicate", "summarize")),
        ],
    )
    def test_stages_stop_as_soon_as_the_target_is_met(self, target, stages):
        """Section "The 4-Stage Pipeline": each stage runs only if the ones before did not bring it under the target."""
        messages = tool_turns(40, size=8_000)
        for n in range(2):
            messages += [
                call(f"r{n}", "read_file", path="big.py"),
                result(f"r{n}", f"{n}".ljust(12_000, "f")),
                assistant("seen"),
            ]
        model = Scripted("S")
        outcome = compact(messages, target=target, ask=model, window=1_000_000)
        assert outcome.stages == stages
        assert len(model.asked) == ("summarize" in stages)
        assert outcome.tokens_after <= target

    def test_all_four(self):
        """The last stage runs where three were not enough; tokens saved are tokens before less after."""
        messages = tool_turns(40, size=8_000)
        outcome = compact(messages, target=1_000, ask=Scripted("summary " * 700))
        assert outcome.stages == ("prune", "summarize", "truncate")
        assert outcome.fits
        assert outcome.met_target
        assert outcome.tokens_saved == outcome.tokens_before - outcome.tokens_after > 0

    def test_no_dead_zone(self):
        """Page, decisions: between 80 % and 100 % of the room it acts, and ends below the trigger."""
        for size in (0.80, 0.85, 0.95, 1.5):
            messages = talk(100, size=round(83_200 * size / 100 * 4 / 1.05) + 4)
            budget = refold.measure(messages, policy="neurolink", model="gpt-4o", count=LATER)
            assert budget.should_compact
            outcome = compact(messages, model="gpt-4o")
            assert outcome.compacted
            after = refold.measure(outcome.messages, policy="neurolink", model="gpt-4o", count=LATER)
            assert not after.should_compact

    def test_the_fixed_part_counts(self):
        """Page, faults: stages compared the history alone with the budget; here what else fills it counts."""
        messages = talk(100, size=2_000)
        outcome = refold.compact(
            messages, policy="neurolink", model="gpt-4o", count=LATER, system="s" * 120_000
        )
        assert outcome.compacted
        assert outcome.breakdown.total < 0.8 * 83_200

    def test_below_the_threshold_nothing_happens(self):
        outcome = compact(talk(20), model="gpt-4o")
        assert (outcome.compacted, outcome.reason) == (False, "not yet: 2,744 of 66,560 tokens")

    def test_a_second_call_asks_nobody(self):
        """Law 4: what is within its target is left alone."""
        model = Scripted("S")
        once = compact(talk(600, size=800), ask=model, model="gpt-4o")
        asked = len(model.asked)
        twice = compact(once.messages, ask=model, model="gpt-4o")
        assert asked == 1
        assert len(model.asked) == 1
        assert twice.messages == once.messages

    @pytest.mark.parametrize("tokens", [145_000, 200_000, 2_000_000])
    def test_histories_far_over_the_window(self, tokens):
        """Case 30: 145k, 200k and 2M tokens fit a window of 128k afterwards, with no model at all."""
        messages = talk(1_000, size=tokens * 4 // 1_000)
        outcome = compact(messages, model="gpt-4o")
        assert outcome.fits
        assert outcome.met_target
        assert outcome.breakdown.total < 66_560

    def test_a_prompt_that_cannot_fit(self):
        """Case 29: a prompt of 200k tokens against 128k, no history: a typed error with numbers, nobody asked."""
        model = Scripted("S")
        wishes = {
            "policy": "neurolink",
            "model": "gpt-4o",
            "prompt": "x" * 800_000,
            "count": LATER,
            "ask": model,
        }
        outcome = refold.compact([], **wishes)
        assert not outcome.fits
        with pytest.raises(refold.DoesNotFit) as refused:
            refold.compact([], must_fit=True, **wishes)
        assert (refused.value.tokens, refused.value.room) == (210_000, 83_200)
        assert refused.value.breakdown == {
            "system": 0,
            "history": 0,
            "prompt": 210_000,
            "tools": 0,
            "files": 0,
        }
        assert model.asked == []

    def test_the_plan_asks_nobody_and_agrees(self):
        """Surface, `plan`: the same stages, what leaves and why."""
        messages = talk(600, size=800)
        plan = refold.plan(messages, policy="neurolink", model="gpt-4o", count=LATER)
        assert plan.would_compact
        assert plan.stages == ("summarize",)
        assert [leaving.index for leaving in plan.leaves] == list(range(420))


class TestRepair:
    """Document, "Tool Pair Repair"; case 20."""

    def test_valid_pairs(self):
        """Case 20: the very list comes back, nothing counted."""
        messages = [user("go"), call("a"), result("a", "x"), assistant("done")]
        repaired = refold.repair(messages)
        assert repaired.messages is messages
        assert (repaired.fixed_calls, repaired.fixed_results) == (0, 0)

    def test_call_without_result(self):
        """Case 20: the result is put right behind the call, three messages become four."""
        repaired = refold.repair([user("go"), call("a"), user("and?")])
        assert len(repaired.messages) == 4
        assert repaired.messages[2] == result("a", "[Tool result unavailable - conversation was compacted]")
        assert (repaired.fixed_calls, repaired.fixed_results) == (1, 0)

    def test_result_without_call(self):
        """Case 20: a call is put before it that names the tool and says why."""
        repaired = refold.repair([user("go"), {**result("a", "x"), "name": "read"}, assistant("ok")])
        assert len(repaired.messages) == 4
        (made,) = repaired.messages[1]["tool_calls"]
        assert made["id"] == "a"
        assert "[Tool call for read - conversation was compacted]" in made["function"]["arguments"]
        assert (repaired.fixed_calls, repaired.fixed_results) == (0, 1)
        assert find_problems(repaired.messages) == []

    def test_two_orphan_calls(self):
        """Case 20: both are mended; an empty list stays one."""
        repaired = refold.repair([user("go"), call("a"), user("x"), call("b"), user("y")])
        assert repaired.fixed_calls == 2
        assert find_problems(repaired.messages) == []
        assert refold.repair([]).messages == []

    def test_by_id_and_not_by_neighbour(self):
        """Page, decisions: parallel calls whose results come in another order are whole."""
        both = call("a")
        both["tool_calls"] += call("b")["tool_calls"]
        messages = [user("go"), both, result("b", "B"), result("a", "A"), assistant("ok")]
        assert refold.repair(messages).messages is messages

    def test_compaction_repairs_what_came_in_broken(self):
        """Section "Tool Pair Repair" runs after compaction; page, faults: its result was thrown away."""
        messages = [result("gone", "x"), *talk(20), call("dead"), *talk(3)]
        outcome = compact(messages, force=True, ask=Scripted("S"))
        assert find_problems(outcome.messages) == []
        dead = next(n for n, message in enumerate(outcome.messages) if message.get("tool_calls"))
        assert "unavailable" in outcome.messages[dead + 1]["content"]


class TestToolOutputLimits:
    """Document, "Tool Output Limits"; case 27 (all of it: tests/core/test_texts.py)."""

    def test_constants(self):
        """Section "Constants": 51,200 bytes and 2,000 lines."""
        assert not refold.clip("x" * 51_200).clipped
        assert refold.clip("x" * 51_201).clipped
        assert not refold.clip("x\n" * 2_000).clipped
        assert refold.clip("x\n" * 2_001).clipped

    def test_notice(self):
        """Section "truncateToolOutput": the tail is kept, and a notice tells both sizes."""
        clipped = refold.clip("a" * 20_000 + "b" * 60_000)
        assert clipped.original_bytes == 80_000
        assert clipped.text.startswith("b")
        kept = clipped.text.index("\n")
        assert clipped.text.endswith(f"[Output truncated from 80000 bytes to {kept} bytes]")

    def test_direction(self):
        """Section "TruncateOptions", `direction`: which end is kept."""
        assert refold.clip("head" + "x" * 60_000, keep="head").text.startswith("head")
        assert refold.clip("x" * 60_000 + "tail", keep="tail").text.partition("\n")[0].endswith("tail")

    def test_preview(self):
        """Case 27: small is unchanged; 100 KB is cut with both ends; of 3000 lines first and last are there."""
        assert refold.clip("small", keep="both").text == "small"
        large = refold.clip("x" * 102_400, keep="both")
        assert "bytes omitted" in large.text
        assert large.original_bytes == 102_400
        lines = refold.clip(
            "\n".join(f"Line {n}" for n in range(3_000)), max_lines=100, keep="both"
        ).text.split("\n")
        assert "Line 0" in lines
        assert "Line 2999" in lines

    def test_saving(self, tmp_path):
        """Section "TruncateOptions", `saveToDisk` and `saveDir`: the full output is kept in the folder."""
        clipped = refold.clip("x" * 60_000, save_to=tmp_path)
        (saved,) = tmp_path.iterdir()
        assert saved.read_text(encoding="utf-8") == "x" * 60_000
        assert str(saved) == clipped.saved_to
        assert clipped.saved_to in clipped.text

    def test_on_arrival(self):
        """Section "Tool Output Limits": outside the four stages, so also below the threshold and when switched off."""
        messages = [user("go"), call("a"), result("a", "L\n" * 3_000), *talk(10)]
        for knobs in ({}, {"enabled": False}, {"threshold": 0.1}, NO_STAGE):
            outcome = compact(messages, window=100_000, **knobs)
            text = outcome.messages[2]["content"]
            assert len(text.splitlines()) == 2_000  # with the notice
            assert text.endswith("\nL\n[Output truncated from 6000 bytes to 3998 bytes]")
            assert (outcome.stages, outcome.tier) == (("clip",), 0)
            assert outcome.messages[3:] == messages[3:]
            assert "clip: 1 output clipped" in outcome.reason

    def test_a_forced_run_goes_on_to_the_summary(self):
        """A limit on arrival is not what somebody asked for who forces a compaction, however much it saves."""
        for size in (3_000, 900_000):
            messages = [user("go"), call("a"), result("a", "L\n" * size), *talk(30)]
            outcome = compact(messages, window=100_000, force=True, ask=Scripted("### 1. Summary"))
            assert outcome.stages == ("clip", "summarize")
            assert outcome.tier == 4

    def test_in_the_pipeline(self):
        """A tool output over the limits is cut where the conversation has to shrink, before all stages."""
        messages = [user("go"), call("a"), result("a", "x" * 200_000), assistant("ok")]
        outcome = compact(messages, target=20_000)
        assert outcome.stages == ("clip",)
        assert len(outcome.messages[2]["content"]) <= 51_200
        assert "Output truncated from 200000 bytes" in outcome.messages[2]["content"]


class TestFiles:
    """Document, "File Token Budget" (all of it: tests/core/test_files.py)."""

    def test_aggregate(self):
        """Section "enforceAggregateFileBudget": five files of 2.8 MB on the first message stay in 60 % of what is left."""
        files = [{"content": f"{n}" * 560_000, "path": f"{n}.log"} for n in range(5)]
        fitted = refold.fit_files(files, policy="neurolink", model="gpt-4o", max_tokens=8_000)
        assert (
            sum(refold.count(file.content, policy="neurolink") for file in fitted) <= (128_000 - 8_000) * 0.6
        )
        assert [file.path for file in fitted] == [f"{n}.log" for n in range(5)]


class TestKnobs:
    """Document, "SDK Configuration", "CompactionConfig", "PruneConfig", "CLI Flags": each does what it says."""

    def test_defaults(self):
        """The numbers the document prints."""
        policy = presets.get("neurolink")
        assert (policy.trigger.fraction, policy.trigger.enabled, policy.file_fraction) == (0.80, True, 0.60)
        assert [stage.name for stage in policy.stages] == [
            "clip",
            "prune",
            "deduplicate",
            "summarize",
            "truncate",
            "truncate",
        ]
        clip, prune, _, summarize, slide, _ = policy.stages
        assert (clip.max_bytes, clip.max_lines, clip.keep, clip.save_to) == (51_200, 2_000, "tail", None)
        assert (prune.protect_tokens, prune.least_savings, prune.protected_tools) == (
            40_000,
            20_000,
            {"skill"},
        )
        assert (summarize.keep.share, summarize.keep.least, summarize.role) == (0.3, 4, "system")
        assert slide.fraction == 0.5
        assert policy.summariser == "vertex:gemini-2.5-flash"

    @pytest.mark.parametrize("knobs", [{"enabled": False}, {"disable_compaction": True}])
    def test_switched_off(self, knobs):
        """`enabled`, `--disable-compaction`: never by itself, but by hand."""
        messages = talk(600, size=800)
        assert compact(messages, model="gpt-4o").compacted
        off = compact(messages, model="gpt-4o", **knobs)
        assert (off.compacted, off.reason) == (False, "not yet: compaction is switched off")
        assert compact(messages, model="gpt-4o", force=True, **knobs).compacted

    @pytest.mark.parametrize("name", ["threshold", "compaction_threshold", "compact_threshold"])
    def test_threshold(self, name):
        """`threshold`, `compactionThreshold`, `--compact-threshold`: trigger and target."""
        messages = talk(200, size=1_000)
        assert not compact(messages, model="gpt-4o").compacted
        outcome = compact(messages, model="gpt-4o", **{name: 0.5})
        assert outcome.compacted
        assert outcome.breakdown.total < 0.5 * 83_200

    def test_token_threshold(self):
        """Section "Environment Variables", NEUROLINK_TOKEN_THRESHOLD: a number of tokens in place of the share."""
        messages = talk(100, size=1_000)
        assert (
            refold.measure(
                messages, policy=presets.get("neurolink", token_threshold=10_000), model="gpt-4o", count=LATER
            ).trigger_tokens
            == 10_000
        )
        outcome = compact(messages, model="gpt-4o", token_threshold=10_000)
        assert outcome.compacted
        assert outcome.breakdown.total < 10_000
        late = presets.get("neurolink", token_threshold=80_000)
        assert refold.measure([], policy=late, model="gpt-4o").trigger_tokens == 80_000
        never_over_the_room = presets.get("neurolink", token_threshold=10**9)
        assert refold.measure([], policy=never_over_the_room, model="gpt-4o").trigger_tokens == 83_200

    @pytest.mark.parametrize("name", ["enable_pruning", "enable_prune"])
    def test_enable_pruning(self, name):
        knobs = NO_STAGE | {"enable_prune": True}
        assert compact(tool_turns(40, size=8_000), target=70_000, **knobs).stages == ("prune",)
        assert compact(tool_turns(40, size=8_000), target=70_000, **(knobs | {name: False})).stages == ()

    @pytest.mark.parametrize("name", ["enable_deduplication", "enable_deduplicate"])
    def test_enable_deduplication(self, name):
        messages = TestStage2().reads("a", "a")
        knobs = NO_STAGE | {"enable_deduplicate": True}
        assert compact(messages, target=2_000, **knobs).stages == ("deduplicate",)
        assert compact(messages, target=2_000, **(knobs | {name: False})).stages == ()

    @pytest.mark.parametrize("name", ["enable_summarization", "enable_summarize", "summarization_enabled"])
    def test_enable_summarization(self, name):
        model = Scripted("S")
        assert compact(talk(20), target=2_000, ask=model).stages == ("summarize",)
        assert compact(talk(20), target=2_000, ask=model, **{name: False}).stages == ("truncate",)
        assert len(model.asked) == 1

    @pytest.mark.parametrize("name", ["enable_sliding_window", "enable_truncate"])
    def test_enable_sliding_window(self, name):
        assert compact(talk(20), target=2_000).stages == ("truncate",)
        assert compact(talk(20), target=2_000, **{name: False}).stages == ()

    @pytest.mark.parametrize("name", ["max_tool_output_bytes", "max_bytes"])
    def test_max_tool_output_bytes(self, name):
        messages = [user("go"), call("a"), result("a", "x" * 9_000), assistant("ok")]
        outcome = compact(messages, target=1_000, **(NO_STAGE | {name: 2_000}))
        assert len(outcome.messages[2]["content"]) <= 2_000
        assert not compact(messages, target=1_000, **NO_STAGE).compacted

    @pytest.mark.parametrize("name", ["max_tool_output_lines", "max_lines"])
    def test_max_tool_output_lines(self, name):
        messages = [user("go"), call("a"), result("a", "line\n" * 500), assistant("ok")]
        outcome = compact(messages, target=100, **(NO_STAGE | {name: 50}))
        assert outcome.messages[2]["content"].count("line") == 49  # and the notice

    @pytest.mark.parametrize(("direction", "kept"), [("head", "AAA"), ("tail", "ZZZ")])
    def test_direction(self, direction, kept):
        messages = [user("go"), call("a"), result("a", "AAA" + "x" * 60_000 + "ZZZ"), assistant("ok")]
        outcome = compact(messages, target=13_500, direction=direction)
        assert kept in outcome.messages[2]["content"]

    def test_save_to_disk(self, tmp_path, monkeypatch):
        """`saveToDisk`, `saveDir`: off by default; a folder of the document's name unless one is given."""
        messages = [user("go"), call("a"), result("a", "x" * 60_000), assistant("ok")]
        assert "saved" not in compact(messages, target=14_000).messages[2]["content"]
        named = compact(messages, target=14_000, save_to_disk=True, save_dir=str(tmp_path / "mine"))
        assert f"[Full output saved to {tmp_path / 'mine'}" in named.messages[2]["content"]
        monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
        compact(messages, target=14_000, save_to_disk=True)
        (saved,) = (tmp_path / "neurolink-tool-output").iterdir()
        assert saved.read_text(encoding="utf-8") == "x" * 60_000
        refold.plan(
            messages,
            policy=presets.get("neurolink", save_to_disk=True, save_dir=str(tmp_path / "dry")),
            target=14_000,
            count=LATER,
        )
        assert not (tmp_path / "dry").exists()  # a plan stores nothing
        kept = []
        own = compact(messages, target=14_000, save_to_disk=lambda text: kept.append(text) or "shelf 7")
        assert "[Full output saved to shelf 7]" in own.messages[2]["content"]
        assert kept == ["x" * 60_000]

    def test_file_read_budget_percent(self):
        files = [{"content": "word " * 100_000, "path": "a"}]
        sizes = [
            refold.fit_files(
                files,
                policy=presets.get("neurolink", file_read_budget_percent=share),
                model="gpt-4o",
                max_tokens=8_000,
            )[0].tokens
            for share in (0.2, 0.6)
        ]
        assert sizes[0] <= 24_000 < sizes[1] <= 72_000

    @pytest.mark.parametrize("name", ["prune_protect_tokens", "protect_tokens"])
    def test_prune_protect_tokens(self, name):
        outcome = compact(tool_turns(40, size=8_000), target=83_000, **{name: 10_000})
        kept = [
            message
            for message in outcome.messages
            if message["role"] == "tool" and message["content"] != CLEARED
        ]
        assert len(kept) == 5

    @pytest.mark.parametrize("name", ["prune_minimum_savings", "minimum_savings"])
    def test_prune_minimum_savings(self, name):
        messages = tool_turns(40, size=8_000)
        knobs = NO_STAGE | {"enable_prune": True}
        assert compact(messages, target=70_000, **knobs, **{name: 41_000}).stages == ("prune",)
        assert compact(messages, target=70_000, **knobs, **{name: 42_000}).stages == ()

    @pytest.mark.parametrize("name", ["prune_protected_tools", "protected_tools"])
    def test_prune_protected_tools(self, name):
        knobs = NO_STAGE | {"enable_prune": True}
        assert compact(tool_turns(40, size=8_000), target=70_000, **knobs, **{name: ["sh"]}).stages == ()
        assert compact(
            tool_turns(40, size=8_000, tool="skill"), target=70_000, **knobs, **{name: ["sh"]}
        ).stages == ("prune",)

    def test_keep_recent_ratio(self):
        assert compact(talk(20), force=True, ask=Scripted("S"), keep_recent_ratio=0.5).messages_after == 11
        assert compact(talk(20), force=True, ask=Scripted("S"), keep_recent_ratio=0.1).messages_after == 5

    @pytest.mark.parametrize("name", ["truncation_fraction", "fraction"])
    def test_truncation_fraction(self, name):
        assert compact(talk(20), window=5_000, **ONLY_SLIDE, **{name: 0.25}).messages_after == 17
        assert compact(talk(20), window=5_000, **ONLY_SLIDE, **{name: 0.75}).messages_after == 9

    def test_provider(self):
        """`provider`: the multiplier and the window."""
        budget = refold.measure([user("x" * 1_000)], policy=presets.get("neurolink", provider="Mistral"))
        assert (budget.window, budget.breakdown.history) == (128_000, 363 + 28)

    def test_is_code(self):
        """`isCode` of `estimateTokens`."""
        assert (
            refold.measure([], policy=presets.get("neurolink", is_code=True), prompt="x" * 1_000).used == 385
        )

    def test_summarization_model(self):
        """`summarizationProvider`, `summarizationModel`: requests fit the named model's window."""
        assert (
            presets.get("neurolink", summarization_provider="openai", model="gpt-4").summariser
            == "openai:gpt-4"
        )
        wide, small = Scripted("S"), Scripted("S")
        messages = talk(60, size=4_000)
        compact(messages, force=True, ask=wide, model="gpt-4o")
        compact(
            messages,
            force=True,
            ask=small,
            model="gpt-4o",
            summarization_provider="openai",
            summarization_model="gpt-4",
        )
        assert len(wide.asked) == 1
        assert len(small.asked) > 1
        assert all(refold.count(ask.text) < 8_192 for ask in small.asked)

    def test_an_unknown_summariser_is_no_obstacle(self):
        model = Scripted("S")
        assert compact(
            talk(20), force=True, ask=model, summarization_provider="mine", summarization_model="own"
        ).compacted

    def test_summary_role(self):
        """Page, decisions: `system` by default."""
        assert roles(compact(talk(20), force=True, ask=Scripted("S")))[0] == "system"
        assert roles(compact(talk(20), force=True, ask=Scripted("S"), summary_role="user"))[0] == "user"
        assert roles(compact(talk(20), force=True, summary_role="user"))[2] == "user"

    def test_a_wrong_name_is_told(self):
        with pytest.raises(refold.RefoldError, match="did you mean prune_protect_tokens"):
            presets.get("neurolink", prune_protect_token=1)


def anthropic(count=12, size=3_000):
    """A conversation in Anthropic's shape, with calls and results."""
    messages = []
    for n in range(count):
        use = {"type": "tool_use", "id": f"t{n}", "name": "sh", "input": {"command": "ls"}}
        back = {"type": "tool_result", "tool_use_id": f"t{n}", "content": f"{n}".ljust(size, "r")}
        messages += [
            {"role": "user", "content": f"question {n}"},
            {"role": "assistant", "content": [{"type": "text", "text": f"look {n}"}, use]},
            {"role": "user", "content": [back]},
            {"role": "assistant", "content": f"answer {n}"},
        ]
    return messages


def gemini(count=12, size=3_000):
    messages = []
    for n in range(count):
        messages += [
            {"role": "user", "parts": [{"text": f"question {n}"}]},
            {"role": "model", "parts": [{"functionCall": {"name": "sh", "args": {"command": "ls"}}}]},
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"name": "sh", "response": {"output": f"{n}".ljust(size, "r")}}}
                ],
            },
            {"role": "model", "parts": [{"text": f"answer {n}"}]},
        ]
    return messages


def responses(count=12, size=3_000):
    messages = []
    for n in range(count):
        messages += [
            {"role": "user", "content": f"question {n}"},
            {"type": "function_call", "call_id": f"f{n}", "name": "sh", "arguments": "{}"},
            {"type": "function_call_output", "call_id": f"f{n}", "output": f"{n}".ljust(size, "r")},
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": f"answer {n}"}],
            },
        ]
    return messages


class TestOtherShapes:
    """The same policy on every wire shape; what comes back is what that provider takes."""

    @pytest.mark.parametrize(
        ("make", "wire"), [(anthropic, "anthropic"), (gemini, "gemini"), (responses, "responses")]
    )
    @pytest.mark.parametrize("ask", [None, "The gist."], ids=["no model", "model"])
    @pytest.mark.parametrize("target", [500, 2_000, 5_000])
    def test_valid(self, make, wire, ask, target):
        messages = make()
        assert find_problems(messages, wire) == []
        outcome = compact(
            messages,
            target=target,
            ask=Scripted(ask) if ask else None,
            prune_protect_tokens=1_000,
            prune_minimum_savings=1_000,
        )
        assert outcome.compacted
        assert outcome.fits
        assert outcome.met_target
        assert find_problems(outcome.messages, wire) == []

    def test_anthropic_has_no_system_message_inside(self):
        """Page, decisions: where a system message is not accepted in mid-history it is a user message."""
        outcome = compact(anthropic(), force=True, ask=Scripted("The gist."))
        assert {message["role"] for message in outcome.messages} == {"user", "assistant"}
        assert f"{HEADER}\n\nThe gist." in json.dumps(outcome.messages[0], ensure_ascii=False).replace(
            "\\n", "\n"
        )

    def test_an_anthropic_summary_is_updated(self):
        """A summary is known again by its text alone, whatever its role."""
        model = Scripted(["OLD GIST", "NEW GIST"])
        once = compact(anthropic(), force=True, ask=model)
        compact(once.messages + anthropic(4), force=True, ask=model)
        assert "---\n<previous-summary>\nOLD GIST\n</previous-summary>\n---" in model.asked[1]
        assert model.asked[1].count("OLD GIST") == 1

    def test_canonical_messages(self):
        """Lists of `Message` values work as well, and what is not understood is carried."""
        odd = Message("assistant", (Opaque("future", {"x": 1}), Text("kept")))
        messages = [Message("user", "x" * 900), odd]
        for n in range(8):
            messages += [
                Message("assistant", (ToolCall(f"{n}", "sh", {}),)),
                Message("tool", (ToolResult(f"{n}", (Text("r" * 3_000),)),)),
            ]
        outcome = compact(messages, target=3_500, prune_protect_tokens=1_000, prune_minimum_savings=1_000)
        assert outcome.stages == ("prune",)
        assert outcome.messages[1] is odd


class TestHostile:
    """What an outsider tries."""

    def test_null_contents(self):
        messages = [{"role": "user", "content": None}, {"role": "assistant", "content": None}] * 6
        outcome = compact(messages, force=True, ask=Scripted("S"))
        empty = [{"role": "user", "content": ""}, {"role": "assistant", "content": ""}] * 2
        assert outcome.messages[1:] == empty  # OpenAI refuses null where no call stands beside it
        assert outcome.tokens_after <= outcome.tokens_before

    def test_system_messages_only(self):
        messages = [{"role": "system", "content": "x" * 4_000} for _ in range(8)]
        outcome = compact(messages, target=100, ask=Scripted("S"))
        assert (outcome.compacted, outcome.met_target) == (False, False)

    def test_the_last_user_message_and_pins_stay(self):
        """Law 13: both are in every view."""
        messages = [*talk(10), user("the last word of the user"), *(assistant("y" * 500) for _ in range(20))]
        outcome = refold.compact(messages, policy="neurolink", target=600, count=LATER, pins=[3])
        assert messages[3] in outcome.messages
        assert messages[10] in outcome.messages

    def test_an_open_call_stays(self):
        messages = [*talk(20), call("now")]
        outcome = compact(messages, target=900)
        assert outcome.messages[-1] == call("now")

    @given(
        st.lists(st.sampled_from(["user", "assistant", "call", "result", "system"]), max_size=24),
        st.integers(60, 3_000),
    )
    def test_any_history_any_target(self, kinds, target):
        """Law 1 and 3: valid, never larger, within the target or said to be over."""
        messages = []
        for n, kind in enumerate(kinds):
            if kind == "call":
                messages.append(call(f"c{n}"))
            elif kind == "result":
                messages.append(result(f"c{n - 1}", "r" * 900))
            else:
                messages.append({"role": kind, "content": f"{n} " + "w" * 700})
        outcome = compact(messages, target=target, ask=Scripted("S"))
        assert find_problems(outcome.messages) == []
        assert outcome.met_target is (outcome.tokens_after <= target)
        if outcome.compacted:
            assert (
                outcome.tokens_after
                < refold.measure(refold.repair(messages).messages, policy="neurolink", count=LATER).used
            )


class TestTaggedLists:
    """Document, "ChatMessage Compaction Fields" and "Non-Destructive History"; case 25, on a caller's list."""

    HIDDEN = ({**user("first"), "condenseParent": "c"}, {**assistant("second"), "condenseParent": "c"})
    GIST = "Ships.\n\nBerths."
    SUMMARY: ClassVar = {
        "role": "system",
        "content": GIST,
        "condenseId": "c",
        "metadata": {"isSummary": True},
    }

    def test_only_the_effective_history_counts(self):
        given = [*self.HIDDEN, self.SUMMARY, user("third")]
        budget = refold.measure(given, policy="neurolink", window=9_000)
        assert budget.messages == 2
        assert budget == refold.measure(given[2:], policy="neurolink", window=9_000)
        assert refold.compact(given, policy="neurolink").messages == given[2:]
        assert refold.measure(given, window=9_000).messages == 4  # tags mean nothing to other policies

    def test_a_list_without_tags_comes_back_itself(self):
        given = talk(6)
        assert all(
            one is two
            for one, two in zip(refold.compact(given, policy="neurolink").messages, given, strict=True)
        )

    def test_a_tagged_summary_is_merged(self):
        """Section "Stage 3": any previous summary is found, by its tag alone, and told whole and once."""
        model = Scripted("NEW GIST")
        outcome = compact([*self.HIDDEN, self.SUMMARY, *talk(20)], ask=model, force=True)
        assert model.asked[0].purpose == "update"
        assert model.asked[0].count(self.GIST) == 1
        assert outcome.messages_before == 21
        assert [message["role"] for message in outcome.messages].count("system") == 1

    def test_a_tagged_marker_is_replaced(self):
        marker = {"role": "system", "content": MARKER, "truncationId": "t", "isTruncationMarker": True}
        hidden = [{**message, "truncationParent": "t"} for message in talk(4)]
        outcome = compact([*talk(2), *hidden, marker, *talk(20)], window=5_000, **ONLY_SLIDE)
        assert [message["content"] for message in outcome.messages].count(MARKER) == 1

    def test_pins_are_positions_in_the_given_list(self):
        given = [*self.HIDDEN, *talk(2), user("PIN"), *talk(20)]
        for pin in (4, -21, given[4]):
            outcome = refold.compact(given, policy="neurolink", pins=pin, target=1_200)
            assert user("PIN") in outcome.messages
            assert outcome.messages_after < 23
        with pytest.raises(refold.RefoldError, match="no message of this conversation"):
            refold.compact(given, policy="neurolink", pins=0)


# Belongs to sessions: retry loop and time-outs ("Non-Retryable Error Handling"), recovery at 0.7 of the room
# ("Post-Failure Compaction Passthrough"), events and their phases (case 29), requests sent (case 30), the
# watermark for each session (case 33), tags that are set and removed (case 25, "Non-Destructive History"),
# stored sessions (NEUROLINK_MEMORY_ENABLED, NEUROLINK_MEMORY_MAX_SESSIONS), the notice and the warning of
# the terminal loop.
