"""Cases C, D, H and J: pairs, thinking, who speaks next, and counting."""

import base64
import random

from bench.matrix.checks import emptied, refused, thoughts, wrong
from bench.matrix.subjects import Messages, NotApplicable, Subject, case, words
from bench.matrix.talks import SYSTEM, TASK, agent_talk, assistant, call, result, step, steps, text, user

BUDGETS = (600, 1_000, 1_500, 2_000, 2_500, 3_000, 3_500, 4_000, 5_000, 6_000)


def parallel(number: int) -> Messages:
    """Three calls at once and their results, in another order."""
    names = [f"p{number}_{letter}" for letter in "abc"]
    results = [result(name, text(60, 7 * number + place)) for place, name in enumerate(names)]
    return [assistant(f"Three at once, {number}.", *(call(name) for name in names)), *reversed(results)]


@case(
    "C1",
    "Parallel calls under every budget",
    "Three calls at once with results out of order, ten budgets: every view is valid.",
    "openclaw#8525",
    "langmem#126",
    "langchain#38352",
    "openai-agents-python#4322",
)
def parallel_calls(subject: Subject) -> str:
    """Parallel calls under every budget."""
    talk = [SYSTEM, TASK, *(message for number in range(30) for message in parallel(number))]
    for budget in BUDGETS:
        if problem := wrong(subject.fold(talk, budget=budget)):
            return f"{problem} (budget {budget:,})"
    return ""


@case(
    "C2",
    "An open call at the end",
    "A fold comes while a call waits for its result, which comes in the next turn: the next view has both and"
    " is valid.",
    "adk-python#4740",
    "langchain#34282",
)
def open_call(subject: Subject) -> str:
    """An open call at the end."""
    subject.start()
    waiting = assistant("Now the tests.", call("open_call", "bash", command="make test"))
    subject.turn([*agent_talk(), waiting])
    view = subject.turn([result("open_call", "3 passed")])
    calls = [told["id"] for message in view for told in message.get("tool_calls", ())]
    return wrong(view) or ("" if "open_call" in calls else "the open call is gone")


@case(
    "C3",
    "A call that never got its result",
    "An old call was interrupted and the user spoke: what arrives broken is mended or folded, the"
    " view is valid.",
    "openclaw#93320",
    "openclaw#4739",
)
def dead_call(subject: Subject) -> str:
    """A call that never got its result."""
    dead = [assistant("I look.", call("dead")), user("Stop. Look at the tests first.")]
    for place in (6, 40, -6):
        talk = agent_talk(30)
        cut = place if talk[place]["role"] == "assistant" else place + 1
        talk = [*talk[:cut], *dead, *talk[cut:]]
        if problem := _mended(talk, subject.fold(talk)):
            return problem
    return ""


def _mended(talk: Messages, view: Messages) -> str:
    """What is wrong with a view of a broken conversation; to leave it as broken as it came is no fault."""
    problem = wrong(view)
    if problem and problem == wrong(talk):
        raise NotApplicable(f"does not claim to mend what arrives broken: {problem}, as it came")
    return problem


@case(
    "C4",
    "A result without its call",
    "Somebody cut the history before and left a result behind: it is mended or folded, the view is valid.",
    "openai-agents-python#4827",
    "Codewhale#6119",
)
def orphan(subject: Subject) -> str:
    """A result without its call."""
    talk = [SYSTEM, result("lost", "An old result."), *agent_talk(30)[1:]]
    return _mended(talk, subject.fold(talk))


@case(
    "C5",
    "The same ids again and again",
    "Every step calls its call `call_0`, as some providers do, ten budgets: every view is valid.",
    "mini-swe-agent#888",
)
def same_ids(subject: Subject) -> str:
    """The same ids again and again."""
    talk = [SYSTEM, TASK, *(m for number in range(40) for m in step("call_0", 80, 50 + number))]
    for budget in BUDGETS:
        if problem := refused(subject.fold(talk, budget=budget)):
            return f"{problem} (budget {budget:,})"
    return ""


def thinking(number: int) -> list[dict[str, str]]:
    """What a model thought, with its signature."""
    return [
        {"type": "thinking", "thinking": f"Step {number}: {text(40, number)}", "signature": f"sig{number}=="},
        {"type": "text", "text": f"I look at file {number}."},
    ]


def thoughtful(count: int = 40) -> Messages:
    """An agent's work with extended thinking, in the middle of a loop of calls."""
    made: Messages = [SYSTEM, TASK]
    for number in range(count):
        made += [assistant(thinking(number), call(f"t{number}")), result(f"t{number}", text(90, number))]
    return made


@case(
    "D1",
    "Thinking is verbatim or absent",
    "Signed thinking in every step, ten budgets: each block of a view is one of the conversation's,"
    " to the letter.",
    "claude-code#24087",
    "opencode#41738",
)
def thinking_verbatim(subject: Subject) -> str:
    """Thinking is verbatim or absent."""
    if subject.name.startswith("autogen"):
        raise NotApplicable("its messages have no place for signed thinking")
    talk = thoughtful()
    known = thoughts(talk)
    for budget in BUDGETS[2:]:
        view = subject.fold(talk, budget=budget)
        if changed := [block for block in thoughts(view) if block not in known]:
            return f"changed: {str(changed[0])[:60]}"
        if problem := refused(view):
            return f"{problem} (budget {budget:,})"
    return ""


@case(
    "D2",
    "The thinking of the running loop stays",
    "A provider with extended thinking wants it with the calls of the running turn: the last call"
    " has its own.",
    "claude-code#63448",
    "openclaw#85717",
    "inspect_ai#4420",
)
def thinking_of_the_loop(subject: Subject) -> str:
    """The thinking of the running loop stays."""
    if subject.name.startswith("autogen"):
        raise NotApplicable("its messages have no place for signed thinking")
    talk = thoughtful()
    view = subject.fold(talk)
    last = next((message for message in reversed(view) if message.get("tool_calls")), None)
    if last is None:
        return "the running call is gone"
    return "" if thoughts([last]) == thoughts(talk[-2:-1]) else "the thinking is gone and its call is there"


@case(
    "H1",
    "The user said to wait",
    "The user's last words are to wait: the view ends with them, nothing that makes a model go on"
    " stands behind.",
    "opencode#18794",
    "opencode#16073",
    "pi#4274",
)
def waits(subject: Subject) -> str:
    """The user said to wait."""
    question = assistant("Both ways are possible. Shall I delete the old tables, or keep them?")
    wait = user("Let me think about it. Do nothing until I say so.")
    view = subject.fold([*agent_talk(), question, wait])
    if not view or view[-1].get("role") != "user":
        return f"the view ends with {view[-1].get('role') if view else 'nothing'}"
    return "" if words(view[-1:]) == wait["content"] else "something stands behind the user's last words"


@case(
    "H2",
    "The last request stays the last request",
    "The user's last request came before a long loop of calls, and the summary does not mention it: it is in"
    " the view, word for word, and the view inside the budget.",
    "pi#4274",
    "codex#25792",
)
def last_request(subject: Subject) -> str:
    """The last request stays the last request."""
    request = user("Rename the class Tokenizer to Lexer, but leave the file name as it is.")
    view = subject.fold([*agent_talk(20), assistant("Yes?"), request, *steps(40, prefix="late")])
    return subject.keeps(view, "the request", request["content"])


@case(
    "J1",
    "Chinese",
    "A conversation in Chinese: the view has no more tokens (o200k, exact) than the budget.",
    "openclaw#70052",
    "pi#2562",
)
def chinese(subject: Subject) -> str:
    """Chinese."""
    rng = random.Random(3)  # noqa: S311  # a seeded text
    letters = (
        "的一是不了人我在有他这中大来上国个到说们为子和你地出道也时年得就那要下以生会自着去之过家学对可她里后"
    )
    talk: Messages = [SYSTEM, user("请把解析器移植过来，并让测试通过。")]
    for number in range(60):
        talk += [
            assistant("我看一下。", call(f"z{number}")),
            result(f"z{number}", "".join(rng.choices(letters, k=400))),
        ]
    view = subject.fold(talk)
    return subject.counted(view) or emptied(view)


@case(
    "J2",
    "Base64 in results",
    "Tools that give base64 back: the view has no more tokens (o200k, exact) than the budget.",
    "tau#452",
)
def encoded(subject: Subject) -> str:
    """Base64 in results."""
    rng = random.Random(5)  # noqa: S311  # seeded bytes
    talk: Messages = [SYSTEM, TASK]
    for number in range(40):
        data = base64.b64encode(rng.randbytes(450)).decode()
        talk += [assistant("I fetch it.", call(f"b{number}")), result(f"b{number}", data)]
    view = subject.fold(talk)
    return subject.counted(view) or emptied(view)


@case(
    "J3",
    "Arguments weigh",
    "All of the weight is in the arguments of calls: the view has no more tokens (o200k, exact) than"
    " the budget.",
    "neurolink#1281",
)
def arguments_weigh(subject: Subject) -> str:
    """Arguments weigh."""
    talk: Messages = [SYSTEM, TASK]
    for number in range(40):
        written = call(f"w{number}", "write_file", path=f"src/f{number}.py", text=text(250, number))
        talk += [assistant("I write it.", written), result(f"w{number}", "ok")]
    view = subject.fold(talk)
    return subject.counted(view) or emptied(view)
