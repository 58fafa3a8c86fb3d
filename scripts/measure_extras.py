"""Install each extra alone: its size, the time of its import, and the licences of its packages.

    python scripts/measure_extras.py                  every extra; needs the package index
    python scripts/measure_extras.py --only chat,mcp  these again, the others as they were
    python scripts/measure_extras.py --pages          the pages again, from the last results

Results go to bench/results/extras.json, the table into docs/install.md, the licences into
LICENSES-THIRD-PARTY.md. Sizes are those of the installed files on this platform, without compiled copies. The
time is the least processor time of several imports in fresh processes.
"""

import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import tomllib
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
RESULTS: Final = ROOT / "bench" / "results" / "extras.json"
PAGE: Final = ROOT / "docs" / "install.md"
LICENCES: Final = ROOT / "LICENSES-THIRD-PARTY.md"
BEGIN: Final = "<!-- begin: scripts/measure_extras.py -->"
END: Final = "<!-- end: scripts/measure_extras.py -->"
IMPORTS: Final = 5
"""Imports of which the quickest counts; the first one also compiles."""
EXTRAS: Final[Mapping[str, tuple[str, str]]] = {
    "chat": ("editing, history and Markdown in `refold chat`", "prompt_toolkit, rich.markdown"),
    "clients": ("models at providers and servers, by address", "httpx2, stamina"),
    "local": ("a small model on this machine", "xllamacpp"),
    "sqlite": ("a SQLite of today for the default store", "apsw"),
    "postgres": ("sessions in PostgreSQL", "psycopg"),
    "exact": ("exact o200k and cl100k counts", "splintr"),
    "redact": ("secrets taken out", "detect_secrets"),
    "serve": ("`refold serve`, the gateway", "aiohttp.web, msgspec, prometheus_client"),
    "mcp": ("`refold mcp`, sessions as tools", "mcp.server"),
    "otel": ("spans and metrics", "opentelemetry.trace, opentelemetry.metrics"),
    "zstd": ("compressed transcripts of Codex", "zstandard"),
    "evals": ("templates of `refold eval retention`", "yaml"),
    "openai": ("`refold.wrap(openai.OpenAI())`", "openai"),
    "anthropic": ("`refold.wrap(anthropic.Anthropic())`", "anthropic"),
    "langchain": ("LangChain, LangGraph, deepagents", "refold.adapters.langchain"),
    "openai-agents": ("OpenAI Agents SDK", "refold.adapters.openai_agents"),
    "pydantic-ai": ("Pydantic AI", "refold.adapters.pydantic_ai"),
    "google-adk": ("Google ADK", "refold.adapters.google_adk"),
    "agent-framework": ("Microsoft Agent Framework", "refold.adapters.agent_framework"),
    "strands": ("Strands Agents", "refold.adapters.strands"),
    "llama-index": ("LlamaIndex", "refold.adapters.llama_index"),
    "litellm": ("LiteLLM and its proxy", "refold.adapters.litellm"),
    "inspect-ai": ("Inspect AI", "refold.adapters.inspect_ai"),
}
"""What users install, with what it is for and what is imported once it is used."""
TRUSTED: Final = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
"""LiteLLM fetches a table of prices otherwise."""
_CLASSIFIER: Final = re.compile(r"License :: (?:OSI Approved :: )?(.+)")
_WORDS: Final = 60
"""Characters of a licence that are shown; some packages write the whole text into the field."""


def main() -> int:
    """Measure and write the pages."""
    parser = ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", metavar="NAMES", help="extras, with commas between them")
    parser.add_argument("--pages", action="store_true", help="measure nothing")
    args = parser.parse_args()
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    names = () if args.pages else args.only.split(",") if args.only else tuple(EXTRAS)
    for name in names:
        results[name] = measure(name)
        print(
            f"{name}: {results[name]['bytes'] / 1e6:,.1f} MB, {results[name]['import_ms']:,.0f} ms",
            flush=True,
        )
        RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    write_pages(results)
    return 0


def measure(extra: str) -> dict[str, Any]:
    """Install one extra into an empty folder and return what it brings and costs."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "installed"
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        where = ["--no-compile", "--target", str(folder)]
        subprocess.run([*install, *where, *_requirements(extra)], check=True)
        found = sorted(distributions(path=[str(folder)]), key=lambda each: each.metadata["Name"].lower())
        files = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        return {
            "bytes": sum(path.stat().st_size for path in files),
            "import_ms": _time_import(EXTRAS[extra][1], folder, Path(scratch)),
            "packages": {
                each.metadata["Name"]: {"version": each.version, "licence": find_licence(each)}
                for each in found
            },
            "python": platform.python_version(),
            "platform": f"{platform.system()} {platform.machine()}",
        }


def _requirements(extra: str) -> list[str]:
    """Return the packages of an extra, with those of extras that it names."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    listed: list[str] = []
    for requirement in extras[extra]:
        own = re.fullmatch(r"refold\[([\w,-]+)\]", requirement)
        listed += (
            [each for name in own[1].split(",") for each in _requirements(name)] if own else [requirement]
        )
    return listed


def _time_import(modules: str, folder: Path, home: Path) -> float:
    """Return the least processor time of the import, in milliseconds."""
    code = f"import time\nbegun = time.process_time()\nimport {modules}\nprint(time.process_time() - begun)"
    paths = os.pathsep.join([str(folder), str(ROOT / "src")])
    env = {**os.environ, **TRUSTED, "PYTHONPATH": paths, "HOME": str(home), "PYTHONWARNINGS": "ignore"}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-S", "-c", code]
    runs = (
        subprocess.run(command, env=env, capture_output=True, text=True, check=True) for _ in range(IMPORTS)
    )
    return round(1_000 * min(float(run.stdout.split()[-1]) for run in runs), 1)


def find_licence(distribution: Distribution) -> str:
    """Return the licence that a package names: the expression, a short text, or a classifier."""
    metadata: Any = distribution.metadata  # an email message, which its type does not say
    expression = metadata.get("License-Expression")
    if expression:
        return str(expression)
    named = (_CLASSIFIER.fullmatch(line) for line in metadata.get_all("Classifier") or [])
    classified = ", ".join(match[1] for match in named if match)
    text = " ".join((metadata.get("License") or "").split())
    named_short = text if len(text) <= _WORDS else ""
    return named_short or classified or text[:_WORDS] or _first_line(distribution) or "not named"


def _first_line(distribution: Distribution) -> str:
    """Return the first words of the licence that is packed with a package: its title, as a rule."""
    packed = (
        file for file in distribution.files or () if file.stem.upper() in ("LICENSE", "LICENCE", "COPYING")
    )
    texts = (file.read_text() for file in packed)
    lines = (line.strip() for text in texts if text for line in text.splitlines())
    return next((line[:_WORDS] for line in lines if line), "")


def write_pages(results: Mapping[str, Any]) -> None:
    """Write the table and the licences from the results."""
    page = PAGE.read_text(encoding="utf-8")
    head, tail = page.partition(BEGIN)[0], page.partition(END)[2]
    PAGE.write_text(f"{head}{BEGIN}\n\n" + "\n".join(_table(results)) + f"\n\n{END}{tail}", encoding="utf-8")
    LICENCES.write_text("\n".join(_licences(results)) + "\n", encoding="utf-8")


def _table(results: Mapping[str, Any]) -> Iterator[str]:
    yield "| extra | for | packages | size | import |"
    yield "|---|---|---:|---:|---:|"
    for name, (purpose, _) in EXTRAS.items():
        if name in results:
            one = results[name]
            size, took = f"{one['bytes'] / 1e6:,.1f} MB", f"{one['import_ms']:,.0f} ms"
            yield f"| `{name}` | {purpose} | {len(one['packages'])} | {size} | {took} |"
    machines = sorted({f"Python {one['python']} on {one['platform']}" for one in results.values()})
    yield ""
    yield f"Measured with {', '.join(machines)}; `make extras` measures again."


def _licences(results: Mapping[str, Any]) -> Iterator[str]:
    yield "# Licences of third parties"
    yield ""
    yield "Refold itself is under the [MIT licence](LICENSE), and its core needs no other package. An extra"
    yield "installs the packages below, which are not part of the distribution. The licence is what each"
    yield "package names. `make extras` makes this page."
    yield ""
    yield "| package | version | licence | extras |"
    yield "|---|---|---|---|"
    packages: dict[str, tuple[str, str]] = {}
    users: dict[str, list[str]] = {}
    for extra in EXTRAS:
        for name, about in results.get(extra, {}).get("packages", {}).items():
            packages[name] = (about["version"], about["licence"])
            users.setdefault(name, []).append(extra)
    for name in sorted(packages, key=str.lower):
        version, licence = packages[name]
        yield f"| {name} | {version} | {licence} | {', '.join(users[name])} |"
    yield ""
    yield "## Data in the package"
    yield ""
    yield "| data | from | licence |"
    yield "|---|---|---|"
    yield "| windows and prices of models | the registries of LiteLLM, models.dev and genai-prices | MIT |"
    yield "| kinds of blocks and items | the clients of OpenAI, Anthropic and Google | Apache-2.0, MIT |"


if __name__ == "__main__":
    sys.exit(main())
