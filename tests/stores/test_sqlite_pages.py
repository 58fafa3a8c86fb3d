"""Rows are read from the pages of a damaged SQLite file: every row on intact pages comes back, nothing else."""

import random
from contextlib import closing

import pytest
from logs import said

from refold.core.log.entries import ROOT
from refold.errors import LogCorrupt, StoreError
from refold.stores import open_store
from refold.stores.salvage import salvage
from refold.stores.sqlite.pages import Pages, RescuedRows
from sample_sizes import few_or_all

PAGE = 4096
SHARES = (0.2, 0.5, 0.9, 0.95)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.db"


def fill(path, count=60, words=300, sessions=("a", "b")):
    """Two sessions whose messages differ in size: of a few bytes, of most of a page, of several pages."""
    with closing(open_store(f"sqlite:{path}")) as store:
        heads = dict.fromkeys(sessions)
        for number in range(1, count + 1):
            for session, head in heads.items():
                text = f"{session} {number} " + "wört " * (words * (number % 4))
                entry = said(number, text, parent=head.name if head else ROOT, at=number / 2)
                heads[session] = store.append(session, [entry], expect=head)
        return {(session, place): entry for session, place, entry in store.salvage()}


def salvaged(path):
    with closing(open_store(f"sqlite:{path}")) as store:
        return {(session, place): entry for session, place, entry in store.salvage()}


def pages_of_rows(path):
    """For each id of an entry the pages that it is on."""
    found = {}
    pages = Pages(str(path))
    read = pages.read
    for page in range(1, pages.count + 1):
        touched = []
        pages.read = lambda number, touched=touched: touched.append(number) or read(number)
        cells = pages.read_cells(page)
        while True:
            before = len(touched)
            cell = next(cells, None)
            if cell is None:
                break
            _, number, values = cell
            if isinstance(values[1], int):
                found[number] = {page, *touched[before:]}
    return found


@pytest.mark.few_values(2)
@pytest.mark.parametrize("share", SHARES)
def test_every_row_of_a_file_that_was_cut_comes_back(path, share):
    held = fill(path)
    where = pages_of_rows(path)
    assert len(where) == len(held) == 120
    content = path.read_bytes()
    left = int(len(content) * share) // PAGE
    path.write_bytes(content[: int(len(content) * share)])
    due = {number for number, pages in where.items() if max(pages) <= left}
    assert due
    assert len(due) < 120 or share > 0.9  # the last pages are those of the search index
    found = salvaged(path)
    assert found.items() <= held.items()
    assert len(found) == len(due)


def test_rows_on_intact_pages_come_back_whatever_happens_to_the_others(path):
    held = fill(path, words=150)
    where = pages_of_rows(path)
    content = path.read_bytes()
    chance = random.Random(7)
    for _ in range(20):
        damaged = bytearray(content)
        lost = set(chance.sample(range(2, len(content) // PAGE + 1), 12))
        for page in lost:
            damaged[(page - 1) * PAGE : page * PAGE] = chance.randbytes(PAGE)
        path.write_bytes(damaged)
        found = salvaged(path)
        assert {*found.values()} <= {*held.values()}
        assert {session for session, _ in found} <= {
            "a",
            "b",
            *(f"session {n}, whose name is lost" for n in (1, 2)),
        }
        assert len(found) == sum(not pages & lost for pages in where.values())


def test_a_file_without_its_first_page_is_salvaged(path):
    """Not even SQLite's own mark is left; the rows tell that it is a store."""
    held = fill(path)
    content = path.read_bytes()
    path.write_bytes(bytes(PAGE) + content[PAGE:])
    assert salvaged(path) == held
    with closing(open_store(f"sqlite:{path}")) as store:
        (defect,) = store.check()
        assert "is not a SQLite database" in defect.what
        for use in (store.sessions, lambda: store.head("a"), lambda: store.put_note("a", "b")):
            with pytest.raises(LogCorrupt):
                use()
    with pytest.raises(StoreError, match="is closed"):
        store.salvage()


def test_rows_in_the_write_ahead_log_come_back(path, tmp_path):
    fill(path, count=4)
    copy = tmp_path / "copy.db"
    with closing(open_store(f"sqlite:{path}")) as store:
        head = store.head("a")
        store.append("a", [said(5, "only in the log", parent=head.name)], expect=head)
        copy.write_bytes(bytes(PAGE) + path.read_bytes()[PAGE:])
        log = path.with_name("store.db-wal").read_bytes()
        held = {(session, place): entry for session, place, entry in store.salvage()}
    copy.with_name("copy.db-wal").write_bytes(log)
    rows = RescuedRows(str(copy))
    assert rows.last_id == len(held) == 9
    assert rows.entry(9)[-2] == "only in the log"
    assert rows.session(1).version == 5
    copy.with_name("copy.db-wal").write_bytes(log[:-100])  # the last transaction never ended
    assert RescuedRows(str(copy)).last_id == 8


def test_a_cut_store_is_copied_into_a_new_one(path, tmp_path):
    fill(path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with (
        closing(open_store(f"sqlite:{path}")) as source,
        closing(open_store(f"sqlite:{tmp_path}/new.db")) as target,
    ):
        report = salvage(source, target)
        assert report.entries == len(list(source.salvage())) == len(list(target.salvage()))
        assert {copied.session for copied in report.sessions} == {"a", "b"}
        assert list(target.check()) == []
        assert [target.head(name).said > 10 for name in ("a", "b")] == [True, True]


def test_rows_of_others_and_nonsense_are_no_entries(path):
    chance = random.Random(3)
    for content in (b"", b"x", chance.randbytes(PAGE * 4), b"SQLite format 3\0" + bytes(PAGE * 2)):
        path.write_bytes(content)
        assert RescuedRows(str(path)).last_id == 0
    for _ in range(few_or_all(60, 200)):  # pages that say they are tables
        path.write_bytes(bytes(PAGE) + b"\x0d" + chance.randbytes(PAGE - 1) * 2)
        rows = RescuedRows(str(path))
        assert (rows.last_id, rows.entry(1), rows.session(1)) == (0, None, None)


def test_a_chain_of_pages_that_leads_into_a_circle_ends(path):
    held = fill(path, count=8, words=2_000)
    content = bytearray(path.read_bytes())
    for page in range(2, len(content) // PAGE + 1):
        if content[(page - 1) * PAGE] == 0:  # a page of a chain: let it follow itself
            content[(page - 1) * PAGE : (page - 1) * PAGE + 4] = page.to_bytes(4, "big")
    path.write_bytes(content)
    assert salvaged(path).items() <= held.items()
