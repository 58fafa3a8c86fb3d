"""The files of the page: nothing that makes markup of data, no inline script or style, modules a person can read."""

import re
from importlib.resources import files
from pathlib import Path

import pytest

STATIC = Path(str(files("refold"))) / "inspector" / "static"
OURS = sorted(
    path
    for path in STATIC.rglob("*")
    if path.suffix in (".js", ".css", ".html") and "vendor" not in path.parts
)
MODULES = [path for path in OURS if path.suffix == ".js"]
MARKUP_MAKERS = (
    "innerHTML", "outerHTML", "insertAdjacentHTML", "dangerouslySetInnerHTML", "document.write", "DOMParser", "createContextualFragment",
    "srcdoc", "setHTML", "eval(", "new Function", "javascript:", "setAttribute", "trustedTypes", "localStorage", "document.cookie",
)  # fmt: skip
MAX_LINES = 150


def name(path):
    return str(path.relative_to(STATIC))


@pytest.mark.parametrize("path", OURS, ids=name)
def test_no_file_makes_markup_of_data(path):
    text = path.read_text()
    assert [word for word in MARKUP_MAKERS if word in text] == []


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_a_module_is_short_and_says_what_it_is(path):
    lines = path.read_text().splitlines()
    assert len(lines) <= MAX_LINES
    assert re.match(r"// [A-Z].*[.:;]$", lines[0])
    assert not [line for line in lines if len(line) > 160]


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_a_module_imports_files_that_are_there_and_nothing_else(path):
    """No address of another host, no package: the browser fetches from the folder of the page alone."""
    assert "import(" not in path.read_text()
    for target in re.findall(r"from '([^']+)'", path.read_text()):
        assert target.startswith(("./", "../"))
        assert (path.parent / target).is_file()


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_a_module_gives_what_its_importers_ask_for(path):
    for names, target in re.findall(r"import \{([^}]+)\} from '([^']+)'", path.read_text()):
        given = (path.parent / target).resolve().read_text()
        for wanted in (word.strip() for word in names.split(",")):
            assert re.search(rf"export (async )?(function|const|class) {wanted}\b|\bas {wanted}\b", given), (
                wanted
            )


def test_the_page_has_no_inline_script_or_style():
    text = (STATIC / "index.html").read_text()
    assert re.findall(r"<script(?![^>]*\bsrc=)[^>]*>|<style|\bstyle=|\bon\w+=", text) == []
    assert re.findall(r"(?:src|href)=\"([^\"]+)\"", text)
    assert all(
        address.startswith("/inspect/assets/@/") for address in re.findall(r"(?:src|href)=\"([^\"]+)\"", text)
    )


def test_styles_name_no_other_address():
    for path in OURS:
        if path.suffix == ".css":
            assert re.findall(r"url\(|@import|expression\(", path.read_text()) == []


def test_every_vendored_file_is_listed_with_its_licence():
    import tomllib

    listed = tomllib.loads((STATIC / "VENDORED.toml").read_text())["file"]
    code = {name(path) for path in (STATIC / "vendor").iterdir() if not path.name.startswith("LICENSE")}
    assert {entry["path"] for entry in listed} == code
    assert all((STATIC / entry["licence_file"]).read_text().strip() for entry in listed)
