"""The model calls of a stage: each is checked against the spending limits, noted and priced.

Tokens are those that the provider reports; where it reports none they are our estimate and marked as such. A
failed call counts with its question: a provider that broke off in the middle bills what it has read, and a
limit that is reached too early is better than one that is passed.
"""

from dataclasses import dataclass

from refold.core.compaction.flow import Ask, Failed, Flow, Reply
from refold.core.compaction.task import Proposal, Step, Task
from refold.core.models.prices import Spent, find_client_price, request_cost
from refold.core.models.spending_limits import total_spent
from refold.core.overflow.detect import overflow
from refold.core.tokens.estimate import estimate
from refold.core.tokens.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """One call of a model and its result."""

    purpose: str
    prompt_tokens: int
    """Tokens of the whole input, cached or not."""
    answer_tokens: int
    failed: str = ""
    model: str = ""
    cache_read: int = 0
    cache_write: int = 0
    estimated: bool = False
    """True if the tokens are our estimate, because none were reported."""
    dollars: float | None = None
    """Its cost; None where no price is known."""
    prefixed: bool = False
    """True if it was asked behind the cached conversation."""
    next_window: int | None = None
    """The window that the next question has to fit, if this one was refused for its size."""

    @property
    def spent(self) -> Spent:
        """Its tokens and its cost, as a sum."""
        return Spent(
            calls=1,
            input=self.prompt_tokens,
            output=self.answer_tokens,
            cache_read=self.cache_read,
            cache_write=self.cache_write,
            dollars=self.dollars,
            unpriced=int(self.dollars is None),
        )


def watch_calls(proposal: Proposal, task: Task, calls: list[ModelCall], before: Spent) -> Flow[Step]:
    """Pass a stage's questions on as long as they may be paid for, and note each in `calls`.

    before   what earlier stages have spent
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
        if task.allowance is not None:
            spent = total_spent([before, *(call.spent for call in calls)])
            usages = (_estimate_usage(ask, task, ask.max_tokens or 0) for ask in asks)
            expected = total_spent(Spent.of(usage, task.ask_price) for usage in usages)
            if why := task.allowance.refusal(spent, expected):
                proposal.close()
                return Step(note=f"no model is asked: {why}", failed=True, capped=True)
        replies = yield asks
        calls += [
            _note_call(ask, reply, task)
            for ask, reply in zip(asks, replies, strict=True)
            if not isinstance(reply, Failed) or reply.asked
        ]


def find_next_window(ask: Ask, reply: Reply, window: int) -> int | None:
    """Return the window that the next question has to fit; None unless this one was refused for its size.

    window   the summariser's window as it was assumed; it is never raised

    >>> refused = Failed(RuntimeError("prompt is too long: 21938 tokens > 2500 maximum"))
    >>> find_next_window(Ask("word " * 20_000), refused, 32_768)
    1923
    """
    if not isinstance(reply, Failed):
        return None
    refusal = overflow(reply.error) or overflow(getattr(reply.error, "cause", None))
    if refusal is None:
        return None
    asked = estimate(ask.system) + estimate(ask.text)
    if ask.prefix is not None:
        asked = ask.prefix.tokens + estimate(ask.closing)
    size = asked + (ask.max_tokens or 0)
    limit = refusal.limit or window
    if refusal.requested:  # the provider may count more than we do; then less of our tokens fits
        limit = int(limit * min(1.0, size / refusal.requested))
    # A question that should have fitted was refused: only a much shorter one is another question.
    return min(window, limit if limit < size else size // 2)


def _estimate_usage(ask: Ask, task: Task, output: int, *, prefixed: bool = True) -> Usage:
    """Estimate the usage of a question, with an answer of this many tokens."""
    if ask.native is not None:
        return Usage(input=ask.native.tokens, output=output)
    if ask.prefix is not None and prefixed:
        return ask.prefix.usage(task.counter.plain(ask.closing), output)
    return Usage(input=task.counter.plain(ask.system) + task.counter.plain(ask.text), output=output)


def _note_call(ask: Ask, reply: Reply, task: Task) -> ModelCall:
    """Note a question with its reply: reported tokens, else estimated ones."""
    failed = model = ""
    prefixed = False
    estimated = True
    price = task.ask_price
    if isinstance(reply, Failed):
        failed = reply.reason[:500]
        # A compaction of the provider's own costs what it reports, and one that failed reports nothing.
        usage = Usage(input=0) if ask.native is not None else _estimate_usage(ask, task, 0)
    else:
        model, prefixed = reply.model, reply.prefixed
        price = find_client_price(reply.provider, model, task.find_window) or price
        estimated = reply.input_tokens is None or reply.output_tokens is None
        output = task.counter.plain(reply.text) if reply.output_tokens is None else reply.output_tokens
        usage = _estimate_usage(ask, task, output, prefixed=prefixed)
        if reply.input_tokens is not None:
            usage = Usage(
                input=reply.input_tokens,
                output=output,
                cache_read=reply.cache_read,
                cache_write=reply.cache_write,
            )
        elif reply.output_tokens is not None:  # who reports its answer and no cache had none
            usage = Usage(input=usage.input, output=output)
    return ModelCall(
        purpose=ask.purpose,
        prompt_tokens=usage.input,
        answer_tokens=usage.output,
        failed=failed,
        model=model,
        cache_read=usage.cache_read,
        cache_write=usage.cache_write,
        estimated=estimated,
        dollars=None if price is None else request_cost(usage, price),
        prefixed=prefixed,
        next_window=find_next_window(ask, reply, task.ask_window),
    )
