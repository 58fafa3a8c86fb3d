"""A reader without a model: a word is a token, and a word it has not seen surprises it."""

from dataclasses import dataclass, field


@dataclass
class WordReader:
    """Is surprised by every scored word that its context does not have; answers with what `reply` gives."""

    window: int = 32_000
    reply: object = None
    name: str = "words"
    device: str = "none"
    prompts: list = field(default_factory=list)

    def load(self):
        pass

    def count(self, text):
        return len(text.split())

    def surprise(self, context, pieces):
        known, losses = set(" ".join(context).split()), []
        for piece in pieces:
            words = piece.text.split()
            losses.append(float(sum(word not in known for word in words)) if piece.is_scored else 0.0)
            known.update(words)
        return losses

    def write(self, prompts, most):
        self.prompts += prompts
        return [self.reply(prompt) for prompt in prompts]
