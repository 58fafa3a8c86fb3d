"""A real model that reads: counts tokens, and says how likely a given continuation is. Needs PyTorch.

A model is a Hugging Face folder or a GGUF file. Weights are used as they are on disk; nothing is downloaded.
The first load of a GGUF file unpacks it, which takes a minute; `--cache FOLDER` keeps the unpacked weights.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of text behind a context, and if its tokens are scored."""

    text: str
    is_scored: bool


class ReaderModel:
    """A causal language model with its tokenizer, on a GPU if there is one."""

    def __init__(self, model: Path, cache: Path | None = None) -> None:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self._torch = torch
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        # bf16 halves memory and is exact enough for sums of log likelihoods; CPUs are slow with it
        dtype = torch.bfloat16 if self.device == "cuda" else torch.float32
        saved = cache / "weights.pt" if cache else None
        if saved is not None and saved.exists():
            self._tokenizer = AutoTokenizer.from_pretrained(cache)
            self._model = torch.load(saved, weights_only=False)
        else:
            place, options = (model.parent, {"gguf_file": model.name}) if model.is_file() else (model, {})
            self._tokenizer = AutoTokenizer.from_pretrained(place, **options)
            self._model = AutoModelForCausalLM.from_pretrained(place, dtype=dtype, **options)
            if cache is not None and saved is not None:
                cache.mkdir(parents=True, exist_ok=True)
                torch.save(self._model, saved)
                self._tokenizer.save_pretrained(cache)
        self._model = self._model.to(self.device).eval()
        self._tokens = lru_cache(maxsize=50_000)(self._encode)

    def _encode(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def count(self, text: str) -> int:
        """Count the tokens of a text."""
        return len(self._tokens(text))

    def surprise(self, context: Sequence[str], pieces: Sequence[Piece]) -> float:
        """Return the negative log likelihood of the scored pieces in nats, given what stands before each."""
        torch = self._torch
        ids: list[int] = [token for text in context for token in self._tokens(text)]
        scored: list[int] = []
        for piece in pieces:
            tokens = self._tokens(piece.text)
            if piece.is_scored:
                scored.extend(range(max(1, len(ids)), len(ids) + len(tokens)))
            ids.extend(tokens)
        if not scored:
            return 0.0
        with torch.no_grad():
            batch = torch.tensor([ids], device=self.device)
            hidden: Any = self._model.model(batch, use_cache=False).last_hidden_state[0]
            where = torch.tensor(scored, device=self.device)
            # Only scored places need the large output layer; all of them would not fit into memory.
            logits = self._model.lm_head(hidden[where - 1]).float()
            return float(torch.nn.functional.cross_entropy(logits, batch[0][where], reduction="sum"))
