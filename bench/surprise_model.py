"""A real model that reads: counts tokens, says how likely a continuation is, and writes. Needs PyTorch.

A model is a Hugging Face folder or a GGUF file. Weights are used as they are on disk; nothing is downloaded.
They are loaded at the first question that needs them: counting needs the tokenizer alone. The first load of
a GGUF file unpacks it, which takes a minute; a cache folder keeps the unpacked weights.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final, Protocol

DEFAULT_WINDOW: Final = 32_768
"""The window of the small Qwen models, for readers that do not say theirs."""
LOGIT_ROWS: Final = 2_048
"""Places whose likelihood is computed at once; 152,000 words in 32 bits take 1.2 GB for so many."""
BATCH_BYTES: Final = 150_000
"""Memory for each token of prompts that are answered together; 1.5B models use 28 kB for keys and values, and
about 60 kB while they read."""
BATCH_TOKENS: Final = 600_000
MOST_IN_BATCH: Final = 32


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of text behind a context, and if its tokens are scored."""

    text: str
    is_scored: bool


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """A question to the reader."""

    system: str
    text: str


class TokenCounter(Protocol):
    """What views are cut by: the reader's own tokenizer."""

    def count(self, text: str) -> int:
        """Count the tokens of a text."""
        ...


class Reader(TokenCounter, Protocol):
    """A model that reads; tests have one that only counts words."""

    @property
    def window(self) -> int:
        """Tokens that the reader takes."""
        ...

    def surprise(self, context: Sequence[str], pieces: Sequence[Piece]) -> list[float]:
        """Return the negative log likelihood of each piece in nats; 0 for those that are not scored."""
        ...

    def write(self, prompts: Sequence[ChatPrompt], most: int) -> list[str]:
        """Answer each prompt with at most so many tokens."""
        ...


class ReaderModel:
    """A causal language model with its tokenizer, on a GPU if there is one."""

    def __init__(self, model: Path, cache: Path | None = None) -> None:
        self.name = model.stem
        self._place, self._options = (
            (model.parent, {"gguf_file": model.name}) if model.is_file() else (model, {})
        )
        self._cache = cache / model.stem if cache else None
        self._tokens = lru_cache(maxsize=50_000)(self._encode)

    @cached_property
    def device(self) -> str:
        """Where the weights are."""
        import torch

        return "cuda" if torch.cuda.is_available() else "cpu"

    @cached_property
    def window(self) -> int:
        """Tokens that the reader takes."""
        return int(getattr(self._model.config, "max_position_embeddings", 0) or DEFAULT_WINDOW)

    @cached_property
    def _tokenizer(self) -> Any:
        from transformers import AutoTokenizer

        if self._is_saved:
            return AutoTokenizer.from_pretrained(self._cache)
        return AutoTokenizer.from_pretrained(self._place, **self._options)

    @cached_property
    def _model(self) -> Any:
        import torch

        # The cache holds weights that this program wrote itself.
        saved = self._cache / "weights.pt" if self._cache and self._is_saved else None
        model = torch.load(saved, weights_only=False) if saved else self._unpack()
        return model.to(self.device).eval()

    @property
    def _is_saved(self) -> bool:
        return self._cache is not None and (self._cache / "weights.pt").exists()

    def _unpack(self) -> Any:
        import torch
        from transformers import AutoModelForCausalLM

        # bf16 halves memory and is exact enough for sums of log likelihoods; CPUs are slow with it
        dtype = torch.bfloat16 if self.device == "cuda" else torch.float32
        model = AutoModelForCausalLM.from_pretrained(self._place, dtype=dtype, **self._options)
        if self._cache is not None:
            tokenizer = self._tokenizer
            self._cache.mkdir(parents=True, exist_ok=True)
            tokenizer.save_pretrained(self._cache)
            torch.save(model, self._cache / "weights.pt")
        return model

    def _encode(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def load(self) -> None:
        """Load the weights now."""
        _ = self._model

    def count(self, text: str) -> int:
        """Count the tokens of a text."""
        return len(self._tokens(text))

    def surprise(self, context: Sequence[str], pieces: Sequence[Piece]) -> list[float]:
        """Return the negative log likelihood of each piece in nats, given what stands before it."""
        ids: list[int] = [token for text in context for token in self._tokens(text)]
        places: list[int] = []
        spans: list[tuple[int, int]] = []
        for piece in pieces:
            tokens, begin = self._tokens(piece.text), len(places)
            if piece.is_scored:
                places.extend(range(max(1, len(ids)), len(ids) + len(tokens)))
            ids.extend(tokens)
            spans.append((begin, len(places)))
        losses = self._losses(ids, places) if places else []
        return [sum(losses[begin:end]) for begin, end in spans]

    def _losses(self, ids: Sequence[int], places: Sequence[int]) -> list[float]:
        """Return the surprise at the token at each place."""
        import torch

        losses: list[float] = []
        with torch.no_grad():
            batch = torch.tensor([ids], device=self.device)
            hidden = self._model.model(batch, use_cache=False).last_hidden_state[0]
            # Only scored places need the large output layer; all of them would not fit into memory.
            for begin in range(0, len(places), LOGIT_ROWS):
                where = torch.tensor(places[begin : begin + LOGIT_ROWS], device=self.device)
                logits = self._model.lm_head(hidden[where - 1]).float()
                loss = torch.nn.functional.cross_entropy(logits, batch[0][where], reduction="none")
                losses += loss.tolist()
        return losses

    def write(self, prompts: Sequence[ChatPrompt], most: int) -> list[str]:
        """Answer each prompt greedily with at most so many tokens; prompts of one length go together."""
        ids = [list(self._tokens(format_prompt(prompt))) for prompt in prompts]
        answers = [""] * len(prompts)
        for part in make_batches([len(each) for each in ids], self._batch_tokens()):
            for at, text in zip(part, self._answer_batch([ids[at] for at in part], most), strict=True):
                answers[at] = text
        return answers

    def _batch_tokens(self) -> int:
        """Return how many tokens of prompts are answered together, by the memory that is free."""
        import torch

        self.load()
        if self.device == "cpu":
            return 4_000
        return min(BATCH_TOKENS, int(torch.cuda.mem_get_info()[0] // BATCH_BYTES))

    def _answer_batch(self, ids: Sequence[list[int]], most: int) -> list[str]:
        """Answer prompts together.

        Shorter prompts begin with newlines, and nothing is masked: a mask is ten times slower.
        """
        import torch

        tokenizer, longest = self._tokenizer, max(map(len, ids))
        newline = self._encode("\n")[-1]
        rows = [[newline] * (longest - len(each)) + each for each in ids]
        ends = [tokenizer.convert_tokens_to_ids("<|im_end|>"), tokenizer.eos_token_id]
        with torch.no_grad():
            batch = torch.tensor(rows, device=self.device)
            made = self._model.generate(
                input_ids=batch,
                attention_mask=torch.ones_like(batch),
                max_new_tokens=most,
                do_sample=False,
                repetition_penalty=1.05,  # small models repeat themselves without it
                pad_token_id=ends[0],
                eos_token_id=ends,
            )
        texts = tokenizer.batch_decode(made[:, longest:], skip_special_tokens=True)
        return [str(text).strip() for text in texts]


def format_prompt(prompt: ChatPrompt) -> str:
    """Return a question in the reader's chat template."""
    turns = [("system", prompt.system), ("user", prompt.text)]
    said = "".join(f"<|im_start|>{role}\n{text}<|im_end|>\n" for role, text in turns if text)
    return f"{said}<|im_start|>assistant\n"


def make_batches(sizes: Sequence[int], most_tokens: int) -> list[list[int]]:
    """Put prompts of similar size together.

    >>> make_batches([10, 500, 12, 490], 1_000)
    [[0, 2], [3, 1]]
    """
    batches: list[list[int]] = []
    for at in sorted(range(len(sizes)), key=lambda at: sizes[at]):
        last = batches[-1] if batches else []
        # a row is as long as the longest; prompts of very different size would be mostly newlines
        is_similar = bool(last) and sizes[at] <= 1.25 * sizes[last[0]] + 8
        if is_similar and len(last) < MOST_IN_BATCH and (len(last) + 1) * sizes[at] <= most_tokens:
            last.append(at)
        else:
            batches.append([at])
    return batches
