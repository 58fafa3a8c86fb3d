"""A session gives what it gave at every step, for threads and for event loops."""

import pytest
import surface_sessions
from surface_frozen import failure_text, read_frozen
from surface_values import differences

NAMES = [setting.name for setting in surface_sessions.SETTINGS]


@pytest.mark.parametrize("name", NAMES)
def test_a_session_goes_as_it_went(name):
    """Views, budgets, folds, hits, events, exports and the names of all entries; names within values are masked."""
    now = surface_sessions.session_rows(surface_sessions.setting_by_name(name)).steps
    found = [
        f"{name}: step {line.lstrip('.')}" for line in differences(now, read_frozen("sessions.json")[name])
    ]
    assert not found, failure_text(found, "sessions", f"session {name}")


@pytest.mark.few_values(2)
@pytest.mark.parametrize("name", NAMES[::3])
def test_a_session_of_an_event_loop_goes_the_same_way(name):
    """`AsyncSession` gives what `Session` gives."""
    now = surface_sessions.session_rows(surface_sessions.setting_by_name(name), asynchronous=True).steps
    found = [
        f"{name}: step {line.lstrip('.')}" for line in differences(now, read_frozen("sessions.json")[name])
    ]
    assert not found, failure_text(found, "sessions", f"session {name}")
