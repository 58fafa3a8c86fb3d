"""A session that is used at random, beside a model of it in plain Python; without or with trouble around it."""

import json
import random

import refold
from refold import Message, Text, ToolCall, ToolResult

SHAPES = ("openai", "anthropic", "responses", "gemini")
POLICIES = ("refold", "ripple", "codebuddy", "umwelten", "neurolink", "opal")
SUMMARY = (
    "The user wants the parser ported to Rust, and the public API stays as it is. Files src/f1.py and src/f2.py "
    "were read, functions were found in the module, and the next files are to be looked at carefully. "
) * 2


class Talk:
    """A session that is used at random, and the messages of its branch in plain Python."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.shape = self.chance.choice(SHAPES)
        self.policy = self.chance.choice(POLICIES)
        ask = self.chance.choice([None, lambda _: SUMMARY])
        self.session = refold.open(
            "talk", store="memory:", window=6_000, policy=self.policy, ask=ask, format=self.shape
        )
        self.said = []
        self.pins = set()
        self.turns = 0

    def more(self):
        """One turn in the conversation's shape: words, or one to three calls at once and their results."""
        self.turns += 1
        chance, number = self.chance, self.turns
        if chance.random() < 0.4:
            made = [
                Message("user", f"go on {number} " + "please do it carefully. " * chance.randint(1, 10)),
                Message("assistant", f"step {number}: " + "found it in the module. " * chance.randint(2, 20)),
            ]
        else:
            calls = [
                ToolCall(f"c{number}_{place}", "read", {"path": f"src/f{chance.randint(0, 4)}.py"})
                for place in range(chance.choice([1, 1, 1, 2, 3]))
            ]
            lines = [
                "\n".join(f"{call.id} {line}: def f(x): return {chance.randint(0, 999)}" for line in range(n))
                for call in calls
                if (n := chance.randint(3, 60))
            ]
            results = [
                Message("tool", (ToolResult(call.id, (Text(text),), name="read"),))
                for call, text in zip(calls, lines, strict=True)
            ]
            made = [
                Message("user", f"look at part {number}"),
                Message("assistant", (Text(f"reading for {number}"), *calls)),
                *results,
                Message("assistant", f"part {number} is read"),
            ]
        return json.loads(json.dumps(refold.formats.get(self.shape).render(made)))

    def act(self):
        """Do one thing at random; return its name."""
        acts = [self.talk] * 4 + [self.pin] * 3 + [self.unfold] * 3 + [self.compact, self.unpin, self.rewind]
        done = self.chance.choice(acts)
        done()
        return done.__name__

    def talk(self):
        for _ in range(self.chance.randint(1, 4)):
            self.said += self.more()
        whole = self.chance.random() < 0.5
        given = self.said if whole else None
        if not whole:
            self.session.say(self.said[len(self.session.log(kinds=["said"])) :])
        self.check(self.session.prepare(given).messages)

    def compact(self):
        self.session.compact(
            strategy=self.chance.choice([None, *POLICIES]), target=self.chance.choice([None, 900])
        )

    def pin(self):
        if self.said:
            number = self.chance.randint(1, len(self.said))
            self.session.pin(f"#{number}")
            self.pins.add(number)

    def unpin(self):
        if self.pins:
            number = self.chance.choice(sorted(self.pins))
            self.session.unpin(f"#{number}")
            self.pins.discard(number)

    def unfold(self):
        standing = [fold for fold in self.session.folds() if fold.standing]
        if standing:
            self.session.unfold(self.chance.choice(standing).name)

    def rewind(self):
        if len(self.said) > 6:
            number = self.chance.randint(len(self.said) * 2 // 3, len(self.said))
            self.session.rewind(f"#{number}")
            del self.said[number:]
            self.pins = {pin for pin in self.pins if pin <= number}

    def check(self, view, also=()):
        problems = refold.validate(view, self.shape)
        # A rewind may end behind a call, and CodeBuddy's document cuts long arguments in words of its own.
        allowed = {"open-call", *also, *(["invalid-arguments"] if self.policy == "codebuddy" else [])}
        assert [problem for problem in problems if problem.rule not in allowed] == []

    def check_all(self):
        view = self.session.view()
        if all(problem.rule == "open-call" for problem in refold.validate(self.said, self.shape)):
            # Else a rewind ended behind a call. That is mended when something is sent, as is whose turn it is.
            self.check(view, ("first-not-user", "call-not-behind-user"))
        for pin in self.pins:
            assert view.count(self.said[pin - 1]) == 1, pin
        assert [
            item for n in range(1, len(self.said) + 1) for item in self.session.original(f"#{n}")
        ] == self.said


class Flaky:
    """A summariser that often fails, in many ways."""

    def __init__(self, chance):
        self.chance = chance
        self.asked = 0

    def __call__(self, question):
        self.asked += 1
        if self.chance.random() < 0.6:
            return f"{SUMMARY} Step {self.asked}."
        texts = ["...", "", None, b"x", 42, "```\n" * 500, SUMMARY * 200, f"\ud800 {SUMMARY}", str(question)]
        texts += [
            f"</refold-summary> {SUMMARY}",
            refold.Answer(text=SUMMARY, input_tokens=9, output_tokens=5),
        ]
        too_long = refold.AnswerFailed("prompt is too long: 9000 tokens > 2000 maximum")
        bad = self.chance.choice([*texts, RuntimeError("dead"), too_long])
        if isinstance(bad, Exception):
            raise bad
        return bad


class TroubledTalk(Talk):
    """The same with refusals, edited lists, absurd reports, restarts, and a store that fails now and then.

    store   has a field `fails` that names the way in which it fails, "" for none
    ways    in which it fails
    """

    def __init__(self, seed, store, ways):
        super().__init__(seed)
        self.store, self.ways, self.sent = store, ways, []
        self.model = Flaky(self.chance) if self.chance.random() < 0.75 else None
        self.window = self.chance.choice([4_000, 6_000, 12_000])
        self.reopen()

    def act(self):
        acts = [self.talk] * 6 + [self.report] * 3 + [self.refuse, self.pin, self.unfold, self.compact] * 2
        acts += [self.unpin, self.rewind, self.edit, self.reopen, self.fail_otherwise]
        done = self.chance.choice(acts + [self.turn_store] * 3 * bool(self.ways))
        done()
        return done.__name__

    @property
    def follows(self):
        """True if the store works and the session stands where the model of it stands."""
        if self.store.fails or self.session.unsaved:
            return False
        return [entry.value for entry in self.session.log(kinds=["said"])] == self.said

    def turn_store(self):
        self.store.fails = "" if self.store.fails else self.chance.choice(self.ways)

    def reopen(self):
        if not self.store.fails and not (self.said and self.session.unsaved):
            self.session = refold.open(
                "talk",
                store=self.store,
                window=self.window,
                policy=self.policy,
                ask=self.model,
                format=self.shape,
            )

    def talk(self):
        for _ in range(self.chance.randint(1, 4)):
            self.said += self.more()
        self.send()

    def send(self):
        """Send the whole list, which a store that fails must not prevent."""
        ready = self.session.prepare(self.said)
        self.check(ready.messages)
        json.dumps(ready.messages, ensure_ascii=False).encode()
        assert ready.outcome.fits == (ready.outcome.used_after <= ready.outcome.budget.room)
        self.sent = ready.messages

    def edit(self):
        """Begin a branch, as a program does that changes its list."""
        if len(self.said) > 8 and self.follows:
            cut = self.chance.randint(len(self.said) // 2, len(self.said) - 1)
            while cut < len(self.said) and self.is_broken(self.said[:cut]):
                cut += 1
            del self.said[cut:]
            self.pins = {pin for pin in self.pins if pin <= cut}
            self.talk()

    def is_broken(self, messages):
        return any(problem.rule != "open-call" for problem in refold.validate(messages, self.shape))

    def report(self):
        if self.sent:
            tokens = refold.count(self.sent)
            absurd = [0, -5, 10**12, tokens // 10, tokens * 3]
            used = tokens if self.chance.random() < 0.7 else self.chance.choice(absurd)
            self.session.observe({"usage": {"prompt_tokens": used, "completion_tokens": 3}})

    def refuse(self):
        if not self.sent:
            return
        self.send()
        sent = refold.count(self.sent)
        limit = int(sent / self.chance.choice([1.1, 1.5, 4.5]))
        named = (
            f"This model's maximum context length is {limit} tokens. However, you requested {sent} tokens."
        )
        words = self.chance.choice([named, "context_length_exceeded"])
        try:
            observed = self.session.observe(RuntimeError(words))
        except refold.Overflow:  # the second refusal of one turn
            return
        if observed.send_again:
            self.check(observed.messages)
            assert refold.count(observed.messages) < sent
            self.sent = observed.messages

    def fail_otherwise(self):
        if self.sent:
            assert not self.session.observe(ValueError("connection reset")).send_again

    def compact(self):
        self.try_to(super().compact)

    def pin(self):
        if self.follows:
            super().pin()

    def unpin(self):
        if self.follows:
            super().unpin()

    def rewind(self):
        if self.follows:
            super().rewind()

    def unfold(self):
        self.try_to(super().unfold)

    def try_to(self, act):
        """Do what a store that fails may prevent."""
        try:
            act()
        except refold.StoreError:
            assert self.store.fails

    def check_all(self):
        if self.follows:
            super().check_all()
