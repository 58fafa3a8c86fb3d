"""A small part of the campaign in bench/fuzz_transcripts.py."""

import pytest
from transcript_files import fuzz_transcripts


@pytest.mark.few_values(2)
@pytest.mark.slow
@pytest.mark.parametrize("name", fuzz_transcripts.FORMATS)
def test_damaged_files_neither_crash_nor_hang_and_give_what_is_whole(name):
    row = fuzz_transcripts.campaign(name, 60, seed=20)
    assert (row["crashes"], row["hangs"]) == ([], [])
    assert row["share"] >= 0.99
    assert row["intact"] > 500


def test_every_fault_is_one():
    """Each changes the file, and says so of the lines that it touched."""
    lines = fuzz_transcripts.example("codex")
    for name, fault in fuzz_transcripts.FAULTS.items():
        changed = set()
        for seed in range(20):
            file = fuzz_transcripts.start(lines)
            fault(file, fuzz_transcripts.Chance(seed))
            changed.add(file.raw)
            assert all(file.lines[at] in lines for at in file.whole), name
        assert len(changed) > 1, name
