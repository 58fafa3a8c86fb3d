"""Cases A, B and I: loops, requests to the summariser that do not fit, and prefixes that move."""

from bench.matrix.checks import wrong
from bench.matrix.scripts import Script, fails, too_large
from bench.matrix.subjects import BUDGET, WINDOW, NotApplicable, Subject, case, words
from bench.matrix.talks import SYSTEM, TASK, agent_talk, assistant, step, steps, text, user


@case(
    "A1",
    "The fixed part alone is too big",
    "A system prompt larger than the budget, three short turns: no model is asked, the last words stay.",
    "kimi-code#2498",
    "gemini-cli#15225",
)
def fixed_part(subject: Subject) -> str:
    """The fixed part alone is too big."""
    subject.start()
    view = subject.turn([{"role": "system", "content": text(4_500, 1)}, TASK])
    for number in range(3):
        view = subject.turn([assistant(f"Step {number}."), user(f"Go on, {number}.")])
    if subject.calls:
        return f"asked the model {subject.calls} times"
    return "" if "Go on, 2." in words(view) else "the last user message is gone"


@case(
    "A2",
    "The summary never helps",
    "Every summary is larger than what it replaces, ten turns: at most one call a turn, the last"
    " view in budget.",
    "OpenHands#8630",
    "goose#5255",
    "claude-code#94481",
)
def never_helps(subject: Subject) -> str:
    """The summary never helps."""
    subject.needs_model()
    model = too_large(60_000)
    subject.start()
    view = subject.turn(agent_talk(40), model=model)
    for number in range(9):
        view = subject.turn([assistant(f"Step {number}."), user(f"Go on, {number}.")], model=model)
    if subject.calls > 10:
        return f"{subject.calls} calls in ten turns"
    return subject.within(view) or wrong(view)


@case(
    "A3",
    "The last exchange alone is too big",
    "A last result larger than the budget, five turns: at most one call a turn, a valid view each time.",
    "OpenHands#10873",
    "goose#4635",
)
def last_exchange(subject: Subject) -> str:
    """The last exchange alone is too big."""
    subject.start()
    view = subject.turn([*agent_talk(10), *step("last", 4_500)])
    for number in range(4):
        view = subject.turn(step(f"more_{number}", 10))
        if problem := wrong(view):
            return problem
    return f"{subject.calls} calls in five turns" if subject.calls > 5 else ""


@case(
    "A4",
    "Twice in a row",
    "A view that was just made is folded again: it stays as it is, and no model is asked.",
    "amplifier#352",
)
def twice(subject: Subject) -> str:
    """Twice in a row."""
    view = subject.fold(agent_talk())
    if subject.within(view):
        raise NotApplicable("the first view is over the budget already")
    before = subject.calls
    again = subject.fold(view)
    if subject.calls > before:
        return f"asked the model {subject.calls - before} more times"
    return "" if [m.get("role") for m in again] == [m.get("role") for m in view] else "the view changed again"


@case(
    "A5",
    "Tool results weigh",
    "All of the weight is in tool results: the view is inside the budget and valid.",
    "openclaw#99386",
)
def results_weigh(subject: Subject) -> str:
    """Tool results weigh."""
    view = subject.fold([SYSTEM, TASK, *steps(30, 400)])
    return subject.within(view) or wrong(view)


@case(
    "B1",
    "The history is six times the summariser's window",
    "Every request to the summariser fits its window of 4,000 tokens.",
    "opencode#15849",
    "codex#29319",
    "zed#61373",
)
def request_fits(subject: Subject) -> str:
    """The history is six times the summariser's window."""
    subject.needs_model()
    view = subject.fold(agent_talk(130), window=4_000)
    return _too_long(subject, 4_000) or wrong(view)


def _too_long(subject: Subject, window: int) -> str:
    largest = max((len(request) // 4 for request in subject.requests), default=0)
    return f"a request of {largest:,} tokens to a window of {window:,}" if largest > window * 1.1 else ""


@case(
    "B2",
    "One huge message",
    "An old result of 20,000 tokens: every request fits the summariser's 8,000 tokens, the view the budget.",
    "zed#64560",
    "goose#8642",
    "harness-sdk#981",
)
def huge_message(subject: Subject) -> str:
    """One huge message."""
    view = subject.fold([*agent_talk(8), *step("huge", 16_000), *steps(8, prefix="late")], window=8_000)
    return _too_long(subject, 8_000) or subject.within(view) or wrong(view)


@case(
    "B3",
    "The summariser refuses for size",
    "The summariser always says that the request is too long: the view is inside the budget all the same.",
    "codex#24732",
    "gemini-cli#14766",
)
def refuses_for_size(subject: Subject) -> str:
    """The summariser refuses for size."""
    subject.needs_model()
    view = subject.fold(agent_talk(), model=fails("overflow"))
    return subject.within(view) or wrong(view)


@case(
    "B4",
    "The summariser is down",
    "The summariser only fails: the view is inside the budget all the same, after at most four calls.",
    "deepagents#5913",
)
def down(subject: Subject) -> str:
    """The summariser is down."""
    subject.needs_model()
    view = subject.fold(agent_talk(), model=fails("server"))
    return subject.within(view) or wrong(view) or (f"{subject.calls} calls" if subject.calls > 4 else "")


@case(
    "B5",
    "The summariser hangs",
    "The summariser times out every time: the view is inside the budget all the same.",
    "claude-code#93732",
)
def hangs(subject: Subject) -> str:
    """The summariser hangs."""
    subject.needs_model()
    view = subject.fold(agent_talk(), model=fails("timeout"))
    return subject.within(view) or wrong(view)


@case(
    "I1",
    "The prefix stays between folds",
    "Ten short turns after a fold: each view begins with the whole of the one before, but for two at most.",
    "headroom#2438",
    "stella#3690",
)
def prefix_stays(subject: Subject) -> str:
    """The prefix stays between folds."""
    subject.start()
    view = subject.turn(agent_talk())
    if subject.within(view):
        raise NotApplicable("the first view is over the budget already")
    moved = 0
    for number in range(10):
        before = view
        view = subject.turn(step(f"next_{number}", 10))
        moved += view[: len(before)] != before
    return f"the prefix moved in {moved} of 10 turns" if moved > 2 else ""


@case(
    "I2",
    "Folds come in batches",
    "Forty turns of 200 tokens each with a budget of 4,000: the prefix moves in at most ten of them.",
    "iterate#1888",
    "cline#14329",
)
def batches(subject: Subject) -> str:
    """Folds come in batches."""
    subject.start()
    view = subject.turn([SYSTEM, TASK, *steps(4)])
    moved = 0
    for number in range(40):
        before = view
        view = subject.turn(step(f"next_{number}", 150))
        moved += view[: len(before)] != before
    if subject.within(view):
        return subject.within(view)
    return f"the prefix moved in {moved} of 40 turns" if moved > 10 else ""


@case(
    "K1",
    "Something is said while the summary is made",
    "A message that arrives while the model thinks is in the next view.",
    "opencode#27359",
    "claude-code#93732",
    "pi#2206",
)
def meanwhile(subject: Subject) -> str:
    """Something is said while the summary is made."""
    if not subject.ours:
        raise NotApplicable("works between turns; nothing can be said meanwhile")
    subject.start()
    late = user("One more thing: the release is on Thursday.")
    told = {"messages": agent_talk(), "budget": BUDGET, "window": WINDOW, "meanwhile": [late]}
    subject.peer.call("turn", model=Script(), **told)
    asked = len(subject.peer.asked)
    if not asked:
        raise NotApplicable("asked no model here")
    view = subject.turn([assistant("Noted."), user("Go on.")])
    return "" if "release is on Thursday" in words(view) else "the message is gone"
