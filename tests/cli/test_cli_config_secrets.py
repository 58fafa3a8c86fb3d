"""`refold config` is shown to others: no password in an address, wherever somebody wrote it."""

import pytest
from cli_running import run_cli


@pytest.mark.parametrize("form", [(), ("--json",), ("ask",), ("model",)])
def test_no_password_of_an_address_is_shown(monkeypatch, form):
    address = "http://somebody:pw123456@127.0.0.1:1/v1?key=AIzaSECRETKEY&model=x#m"
    monkeypatch.setenv("REFOLD_ASK", address)
    monkeypatch.setenv("REFOLD_MODEL", address)
    monkeypatch.setenv("REFOLD_STORE", "postgresql://somebody:hunter2@db/refold?sslpassword=hunter2")
    done = run_cli("config", *form)
    assert done.status == 0
    assert not any(secret in done.out + done.err for secret in ("pw123456", "AIzaSECRET", "hunter2"))
    assert "127.0.0.1:1/v1" in done.out


def test_an_address_without_secrets_is_shown_as_it_is(monkeypatch):
    monkeypatch.setenv("REFOLD_ASK", "http://127.0.0.1:8080/v1#m@1")
    assert run_cli("config", "ask").out == "http://127.0.0.1:8080/v1#m@1\n"
