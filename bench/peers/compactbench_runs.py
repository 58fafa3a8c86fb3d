"""One method through CompactBench's own runner, in the environment that has it; prints figures as JSON.

python bench/peers/compactbench_runs.py '{"method": ..., "folder": ..., "cases": 3, "cycles": 2, ...}'

Started by `bench/compactbench.py`. Two methods are bounds for the others: `Nothing` keeps nothing, and scores
what CompactBench gives to whoever says nothing wrong; `Whole` keeps the talk as it was.
"""

import asyncio
import json
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any, ClassVar

from compactbench import runner
from compactbench.compactors import Compactor
from compactbench.contracts import CompactionArtifact
from compactbench.dsl import DifficultyLevel
from compactbench.providers import CompletionResponse, MockProvider, Provider
from compactbench.runner import run as running
from compactbench.runner.persistence import to_run_result
from compactbench.scoring import compression

import refold

FIGURES = (
    "overall_score",
    "drift_resistance",
    "constraint_retention",
    "contradiction_rate",
    "compression_ratio",
)
ANSWER_TOKENS = 400
"""Most that a model may say; the answers asked for are a sentence, and small models find no end."""


class Nothing(Compactor):
    """Keeps nothing."""

    name: ClassVar[str] = "nothing"
    version: ClassVar[str] = "1.0.0"

    async def compact(self, transcript: Any, config: Any = None, previous_artifact: Any = None) -> Any:
        """An empty artifact."""
        del transcript, config, previous_artifact
        return CompactionArtifact()


class Whole(Compactor):
    """Keeps everything, as far as an artifact holds it."""

    name: ClassVar[str] = "whole"
    version: ClassVar[str] = "1.0.0"

    async def compact(self, transcript: Any, config: Any = None, previous_artifact: Any = None) -> Any:
        """The talk, a line for each turn."""
        del config, previous_artifact
        lines = [f"{turn.role.value.upper()}: {turn.content}" for turn in transcript.turns]
        return CompactionArtifact(summaryText="\n".join(lines)[-8_000:])


class Counted:
    """Counts for CompactBench where the tokenizer's ranks cannot be fetched."""

    def encode(self, text: str) -> range:
        """As many things as there are tokens."""
        return range(refold.count(text, model="gpt-4"))


class Asked(Provider):
    """A model behind a server that speaks OpenAI chat; JSON is asked for where a method wants JSON."""

    key: ClassVar[str] = "refold-asked"

    def __init__(self, address: str) -> None:
        url, _, self.model = address.partition("#")
        self.url, self.headers = url, {}
        if address.startswith("local"):
            from refold.clients import open_client

            self.local = open_client(address)  # kept, for the server ends with it
            server, _ = self.local.connect()
            self.url, self.model = f"{server.url}/v1", self.local.model
            self.headers = {"Authorization": f"Bearer {server.key}"}

    async def complete(self, request: Any) -> Any:
        """What the model says."""
        import httpx

        told = [{"role": "system", "content": request.system}] if request.system else []
        body = {
            "model": self.model,
            "messages": [*told, {"role": "user", "content": request.prompt}],
            "max_tokens": min(request.max_tokens, ANSWER_TOKENS),
            "temperature": request.temperature,
        }
        if request.response_format:
            body["response_format"] = request.response_format
        async with httpx.AsyncClient(timeout=600) as client:
            said = await client.post(f"{self.url}/chat/completions", json=body, headers=self.headers)
        said.raise_for_status()
        text = said.json()["choices"][0]["message"]["content"] or ""
        return CompletionResponse(text=text, prompt_tokens=0, completion_tokens=0, model=self.model)


def provider(address: str) -> Any:
    """Who answers: the stand-in, CompactBench's mock, or a model."""
    from refold.evals.compactbench import Reader

    return {"reader": Reader, "mock": MockProvider}.get(address, lambda: Asked(address))


def figures(file: Path) -> dict[str, Any]:
    """The figures of a run: CompactBench's own, and the means for each kind of item and each template."""
    result = to_run_result(file)
    kinds: dict[str, list[float]] = defaultdict(list)
    families: dict[str, list[float]] = defaultdict(list)
    for case in result.cases:
        families[case.template_key].append(case.case_score)
        for cycle in case.cycles:
            for item in cycle.scorecard.item_scores:
                kinds[f"{item.item_type}, {item.check_type}"].append(item.score)
    means = (
        {key: round(sum(of) / len(of), 4) for key, of in sorted(group.items())} for group in (kinds, families)
    )
    told = {name: round(getattr(result, name), 4) for name in FIGURES}
    return {**told, **dict(zip(("kinds", "templates"), means, strict=True))}


def main() -> None:
    """Run it."""
    try:
        compression._encoder()  # noqa: SLF001  # there is no other way to know
    except Exception:  # noqa: BLE001  # whatever the network says
        compression._ENCODER_CACHE["cl100k_base"] = Counted()  # noqa: SLF001
    args = json.loads(sys.argv[1])
    running.get_provider_cls = lambda _key: provider(args["ask"])
    folder = Path(args["folder"])
    with tempfile.TemporaryDirectory() as place:
        asked = runner.RunArgs(
            method_spec=args["method"],
            suite_key=folder.name,
            provider_key="refold",
            model=args["ask"],
            difficulty=DifficultyLevel("hard"),
            drift_cycles=args["cycles"],
            case_count_per_template=args["cases"],
            seed_group="default",
            benchmarks_dir=folder.parent,
            output_path=Path(place) / "results.jsonl",
            resume=False,
        )
        print(json.dumps(figures(asyncio.run(runner.run_experiment(asked)))))


if __name__ == "__main__":
    main()
