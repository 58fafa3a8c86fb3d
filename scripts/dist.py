"""Build the wheel and the source distribution, check what is in them, and try the wheel alone.

    python scripts/dist.py                   every interpreter from 3.11 to 3.14 that this machine has
    python scripts/dist.py --python python3.12

The wheel is built from the source distribution, so that both are complete. Each environment gets the wheel
and nothing else. From an empty folder the demo, the program and the library run there. Nothing is published.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
DIST: Final = ROOT / "dist"
VERSIONS: Final = ("3.11", "3.12", "3.13", "3.14")
UNWANTED: Final = ("__pycache__", ".envs", ".venv", ".hypothesis", ".git", "mutants", "site")
"""Folders that are made by tools and belong into no distribution."""
MOST_WHEEL_BYTES: Final = 2_500_000
MOST_SOURCE_BYTES: Final = 25_000_000
"""About twice what they have: a file that slipped in is noticed, and growth is not in the way."""
SMOKE: Final = """
import refold, sys
from refold.testing import Provider
assert "site-packages" in refold.__file__, refold.__file__
messages = [{"role": ("user", "assistant")[n % 2], "content": f"step {n}: found. " * 90} for n in range(80)]
outcome = refold.compact(messages, window=8_000)
assert outcome.compacted and outcome.fits, outcome.reason
session = refold.open("smoke", window=8_000, store="sqlite:smoke.db")
ready = session.prepare(messages)
assert len(ready.messages) < len(messages)
assert "step 3" in session.original(session.recall("step 3 found")[0].handle)[0]["content"]
assert session.unfold()
loaded = {name.partition(".")[0] for name in sys.modules}
assert not loaded & {"httpx2", "aiohttp", "rich", "apsw", "splintr"}, loaded
print("smoke: ok on", sys.version.split()[0])
"""
"""What a first program does, with nothing installed but the wheel."""


def main() -> int:
    """Build, check and try; returns the exit status."""
    parser = ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", action="append", metavar="PROGRAM", help="an interpreter; repeatable")
    chosen = parser.parse_args().python
    found = {name: name for name in chosen} if chosen else find_interpreters()
    wheel, source = build(DIST)
    problems = [*check_wheel(wheel), *check_source(source)]
    for problem in problems:
        print(f"wrong: {problem}")
    for path in (source, wheel):
        print(f"{path.name}: {path.stat().st_size:,} bytes")
    failed = [version for version, python in found.items() if not try_wheel(python, wheel)]
    missing = [] if chosen else [version for version in VERSIONS if version not in found]
    if missing:
        print(f"not tried: this machine has no Python {', '.join(missing)}")
    return 1 if problems or failed or not found else 0


def find_interpreters() -> dict[str, str]:
    """Return the interpreters of this machine by version: on the path, and those that pyenv keeps."""
    found: dict[str, str] = {}
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for version in VERSIONS:
        candidates = [
            *filter(None, [shutil.which(f"python{version}")]),
            *sorted(map(str, kept.glob(f"{version}.*/bin/python{version}"))),
        ]
        python = next((python for python in candidates if _works(python)), None)
        if python is not None:
            found[version] = python
    return found


def _works(python: str) -> bool:
    """True if this interpreter starts and can make environments; a shim of pyenv may do neither."""
    return (
        subprocess.run([python, "-c", "import ensurepip, venv"], capture_output=True, check=False).returncode
        == 0
    )


def build(folder: Path) -> tuple[Path, Path]:
    """Build both distributions into an empty folder; returns the wheel and the source distribution."""
    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory() as scratch:
        python = make_environment(Path(scratch), sys.executable, "build")
        subprocess.run(
            [python, "-m", "build", "--outdir", folder, ROOT], check=True, stdout=subprocess.DEVNULL
        )
    return next(folder.glob("*.whl")), next(folder.glob("*.tar.gz"))


def make_environment(folder: Path, interpreter: str, *packages: str) -> str:
    """Make an environment with these packages; returns its interpreter."""
    if interpreter == sys.executable:
        venv.create(folder, with_pip=True)
    else:
        subprocess.run([interpreter, "-m", "venv", folder], check=True)
    python = str(folder / ("Scripts" if sys.platform == "win32" else "bin") / "python")
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]
    subprocess.run(install, check=True)
    return python


def check_wheel(wheel: Path) -> Iterator[str]:
    """Yield what is wrong with the contents of the wheel: it has every file of the package, and no other."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        about = archive.read(metadata).decode()
    expected = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src" / "refold").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    packed = {name for name in names if ".dist-info/" not in name}
    yield from (f"the wheel lacks {name}" for name in sorted(expected - packed))
    yield from (f"the wheel has {name}" for name in sorted(packed - expected))
    folder = metadata.partition("/")[0]
    for needed in ("entry_points.txt", "licenses/LICENSE"):
        if f"{folder}/{needed}" not in names:
            yield f"the wheel lacks {needed}"
    if "\nRequires-Dist: " in about.partition("\nProvides-Extra: ")[0]:
        yield "the wheel needs another package without an extra"
    if wheel.stat().st_size > MOST_WHEEL_BYTES:
        yield f"the wheel is larger than {MOST_WHEEL_BYTES:,} bytes"


def check_source(source: Path) -> Iterator[str]:
    """Yield what is wrong with the source distribution: it has all that builds, tests and explains it."""
    with tarfile.open(source) as archive:
        names = {str(PurePosixPath(*PurePosixPath(name).parts[1:])) for name in archive.getnames()}
    needed = (
        "pyproject.toml",
        "Makefile",
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "LICENSE",
    )
    folders = ("src/refold/", "tests/", "docs/", "examples/", "scripts/")
    yield from (f"the source distribution lacks {name}" for name in needed if name not in names)
    yield from (f"the source distribution lacks {name}" for name in folders if not _has_folder(names, name))
    unwanted = (name for name in sorted(names) if not set(PurePosixPath(name).parts).isdisjoint(UNWANTED))
    yield from (f"the source distribution has {name}" for name in unwanted)
    if source.stat().st_size > MOST_SOURCE_BYTES:
        yield f"the source distribution is larger than {MOST_SOURCE_BYTES:,} bytes"


def _has_folder(names: Iterable[str], folder: str) -> bool:
    return any(name.startswith(folder) for name in names)


def try_wheel(interpreter: str, wheel: Path) -> bool:
    """Install the wheel into an empty environment and use it from an empty folder; True if all works."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        python = make_environment(folder / "env", interpreter, str(wheel))
        (folder / "empty").mkdir()
        program = str(Path(python).with_name("refold"))
        home = {"HOME": scratch, "XDG_DATA_HOME": scratch, "XDG_CONFIG_HOME": scratch}
        ours = ("REFOLD_", "PYTHON")
        env = {name: value for name, value in os.environ.items() if not name.startswith(ours)} | home
        commands = (
            [python, "-W", "ignore", "-c", SMOKE],
            [program, "--version"],
            [program, "quickstart"],
            [program, "demo"],
            [program, "sessions", "--store", "sqlite:smoke.db"],
            [program, "models", "gpt-4o"],
            [python, "-m", "pip", "check"],
        )
        for command in commands:
            done = subprocess.run(
                command, cwd=folder / "empty", env=env, capture_output=True, text=True, check=False
            )
            if done.returncode:
                said = f"{done.stdout[-500:]}{done.stderr[-1000:]}"
                print(f"wrong: {interpreter}: {command[-1][:60]!r}: {said}")
                return False
    print(f"{interpreter}: the wheel installs alone; demo, program and library run")
    return True


if __name__ == "__main__":
    sys.exit(main())
