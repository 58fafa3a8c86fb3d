"""Cases A, B and I: loops, requests to the summariser that do not fit, and prefixes that move."""

from bench.matrix.checks import emptied, wrong
from bench.matrix.scripts import Narrow, Script, fails, too_large
from bench.matrix.subjects import BUDGET, WINDOW, Messages, NotApplicable, Subject, Unfolded, case, words
from bench.matrix.talks import SYSTEM, TASK, agent_talk, assistant, step, steps, text, user


@case(
    "A1",
    "The fixed part alone is too big",
    "A system prompt larger than the budget, three short turns: no model is asked, the last words stay.",
    "kimi-code#2498",
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
    "gemini-cli#15225",
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
    "harness-sdk#981",
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
    "A view that was just made is folded three times more: it comes to rest, after one call more at most.",
    "goose#4635",
    "amplifier#352",
)
def twice(subject: Subject) -> str:
    """Twice in a row."""
    view = subject.fold(agent_talk())
    if subject.within(view):
        raise NotApplicable("the first view is over the budget already")
    before = subject.calls
    for _ in range(3):
        last, view = view, subject.fold(view)
    if subject.calls > before + 1:
        return f"asked the model {subject.calls - before} more times"
    roles = [[message.get("role") for message in each] for each in (last, view)]
    return "" if roles[0] == roles[1] else "the view changes each time"


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
    "The summariser takes 4,000 tokens and refuses more: the view is inside the budget all the same.",
    "zed#61373",
    "deepagents#5913",
    "opencode#15849",
    "codex#29319",
)
def request_fits(subject: Subject) -> str:
    """The history is six times the summariser's window."""
    subject.needs_model()
    talk = agent_talk(130)
    return _folded(subject, talk, subject.fold(talk, model=Narrow(window=4_000), window=4_000))


def _folded(subject: Subject, talk: Messages, view: Messages) -> str:
    """Whether a view is in budget and valid; one that is the conversation as it came is no damage."""
    if words(view) == words(talk) and subject.within(view):
        raise Unfolded
    return subject.within(view) or wrong(view)


@case(
    "B2",
    "One huge message",
    "An old result of 20,000 tokens, and a summariser that takes 8,000 and refuses more: the view is inside"
    " the budget all the same.",
    "zed#64560",
)
def huge_message(subject: Subject) -> str:
    """One huge message."""
    talk = [*agent_talk(8), *step("huge", 16_000), *steps(8, prefix="late")]
    return _folded(subject, talk, subject.fold(talk, model=Narrow(window=8_000), window=8_000))


@case(
    "B3",
    "The summariser refuses for size",
    "The summariser always says that the request is too long: the view is inside the budget all the same.",
    "goose#8642",
    "codex#24732",
    "gemini-cli#14766",
)
def refuses_for_size(subject: Subject) -> str:
    """The summariser refuses for size."""
    subject.needs_model()
    return _folded(subject, agent_talk(), subject.fold(agent_talk(), model=fails("overflow")))


@case(
    "B4",
    "The summariser is down",
    "The summariser only fails: the view is inside the budget all the same, after at most four calls.",
    "langchain#38867",
)
def down(subject: Subject) -> str:
    """The summariser is down."""
    subject.needs_model()
    view = subject.fold(agent_talk(), model=fails("server"))
    return _folded(subject, agent_talk(), view) or (f"{subject.calls} calls" if subject.calls > 4 else "")


@case(
    "B5",
    "The summariser hangs",
    "The summariser times out every time: the view is inside the budget all the same.",
    "claude-code#93732",
)
def hangs(subject: Subject) -> str:
    """The summariser hangs."""
    subject.needs_model()
    return _folded(subject, agent_talk(), subject.fold(agent_talk(), model=fails("timeout")))


@case(
    "I1",
    "The prefix stays between folds",
    "Ten short turns after a fold: each view begins with the whole of the one before, but for two at most.",
    "headroom#327",
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
    return f"the prefix moved in {moved} of 10 turns" if moved > 2 else emptied(view)


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
    if problem := subject.within(view) or emptied(view):
        return problem
    return f"the prefix moved in {moved} of 40 turns" if moved > 10 else ""


@case(
    "K1",
    "Something is said while the summary is made",
    "A message that arrives while the model thinks is in the next view.",
    "openai-agents-python#4679",
    "opencode#27359",
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
