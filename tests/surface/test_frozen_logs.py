"""Logs that were written before the redesign are read as they were, and can be gone on with."""

import pytest
import surface_logs
from surface_frozen import failure_text, read_frozen
from surface_values import differences

CASES = [(kind, setting) for kind in surface_logs.STORES for setting in surface_logs.SETTINGS]


@pytest.mark.parametrize(
    ("kind", "setting"), CASES, ids=[f"{kind}-{setting.wire}-{setting.policy}" for kind, setting in CASES]
)
def test_a_golden_log_tells_what_it_told(kind, setting, tmp_path):
    """View, log, folds, recall, originals and stats; then unfold, fold, rewind, and look again."""
    store = surface_logs.copy_store(kind, tmp_path)
    try:
        now = surface_logs.read(store, setting).steps
    finally:
        store.close()
    case = f"{kind} {surface_logs.session_name(setting)}"
    found = [f"{case}: step {line.lstrip('.')}" for line in differences(now, read_frozen("logs.json")[case])]
    assert not found, failure_text(found, "logs")


@pytest.mark.parametrize("kind", ["jsonl", "sqlite"])
def test_a_golden_log_is_sound(kind, tmp_path):
    """The store's own check finds nothing wrong, every session is listed, and a note is kept."""
    store = surface_logs.copy_store(kind, tmp_path)
    try:
        assert [trouble.what for trouble in store.check()] == []
        assert store.note("surface") == "kept"
        listed = {info.name for info in store.sessions()}
    finally:
        store.close()
    assert listed == {surface_logs.session_name(setting) for setting in surface_logs.SETTINGS}
