"""The questions a stage asks, watched: each is weighed against what may be spent, noted and priced.

Tokens are those that the provider reports; where it reports none they are our estimate and marked as such. A
call that failed counts with its question: a provider that broke off in the middle bills what it has read, and
a cap that is reached too early is better than one that is passed.
"""

from dataclasses import dataclass

from refold.core.compaction.flow import Ask, Asks, Failed, Flow, Reply
from refold.core.compaction.task import Proposal, Step, Task
from refold.core.models.prices import Spent, cost, price_at
from refold.core.models.spending_limits import together
from refold.core.models.window_table import Price
from refold.core.tokens.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One question that was asked, and what became of it."""

    purpose: str
    prompt_tokens: int
    """All that was read, cached or not."""
    answer_tokens: int
    failed: str = ""
    model: str = ""
    cache_read: int = 0
    cache_write: int = 0
    estimated: bool = False
    """Whether the tokens are our estimate, because nobody reported them."""
    dollars: float | None = None
    """What it cost; None where no price is known."""
    prefixed: bool = False
    """Whether it was asked behind the conversation's own prefix."""

    @property
    def spent(self) -> Spent:
        """What it took."""
        return Spent(
            calls=1,
            input=self.prompt_tokens,
            output=self.answer_tokens,
            cache_read=self.cache_read,
            cache_write=self.cache_write,
            dollars=self.dollars,
            unpriced=int(self.dollars is None),
        )


def watched(proposal: Proposal, task: Task, calls: list[Call], before: Spent) -> Flow[Step]:
    """Pass a stage's questions on as long as they may be paid for, and note them.

    before   what the stages before it have spent
    """
    if isinstance(proposal, Step):
        return proposal
    replies: tuple[Reply, ...] | None = None
    while True:
        try:
            asks = proposal.send(replies)  # type: ignore[arg-type]  # None starts a generator
        except StopIteration as stop:
            step: Step = stop.value
            return step
        if why := _refusal(task, asks, together([before, *(call.spent for call in calls)])):
            proposal.close()
            return Step(note=f"no model is asked: {why}", failed=True, capped=True)
        replies = yield asks
        calls += [_call(ask, reply, task) for ask, reply in zip(asks, replies, strict=True)]


def _refusal(task: Task, asks: Asks, spent: Spent) -> str:
    """Why these questions may not be asked, or ""."""
    if task.allowance is None:
        return ""
    price = _price(task, "", "")
    expected = together(Spent.of(_expected(ask, task, ask.max_tokens or 0), price) for ask in asks)
    return task.allowance.refusal(spent, expected)


def _expected(ask: Ask, task: Task, output: int, *, prefixed: bool = True) -> Usage:
    """What a question is expected to take."""
    if ask.prefix is not None and prefixed:
        return ask.prefix.usage(task.counter.plain(ask.closing), output)
    return Usage(input=task.counter.plain(ask.system) + task.counter.plain(ask.text), output=output)


def _call(ask: Ask, reply: Reply, task: Task) -> Call:
    if isinstance(reply, Failed):
        why = f"{type(reply.error).__name__}: {reply.error}"
        price = _price(task, "", "")
        return _noted(ask, _expected(ask, task, 0), price, failed=why[:500], estimated=True)
    written = task.counter.plain(reply.text)
    told = _expected(ask, task, written, prefixed=reply.prefixed)
    estimated = reply.input_tokens is None or reply.output_tokens is None
    if reply.input_tokens is not None:
        told = Usage(
            input=reply.input_tokens,
            output=written if reply.output_tokens is None else reply.output_tokens,
            cache_read=reply.cache_read,
            cache_write=reply.cache_write,
        )
    elif reply.output_tokens is not None:
        told = Usage(input=told.input, output=reply.output_tokens)
    price = _price(task, reply.provider, reply.model)
    return _noted(ask, told, price, model=reply.model, estimated=estimated, prefixed=reply.prefixed)


def _noted(
    ask: Ask,
    usage: Usage,
    price: Price | None,
    *,
    estimated: bool,
    failed: str = "",
    model: str = "",
    prefixed: bool = False,
) -> Call:
    return Call(
        purpose=ask.purpose,
        prompt_tokens=usage.input,
        answer_tokens=usage.output,
        failed=failed,
        model=model,
        cache_read=usage.cache_read,
        cache_write=usage.cache_write,
        estimated=estimated,
        dollars=None if price is None else cost(usage, price),
        prefixed=prefixed,
    )


def _price(task: Task, provider: str, model: str) -> Price | None:
    """The price of whoever answered, or else of whoever was asked."""
    return (price_at(provider, model) if model else None) or task.ask_price
