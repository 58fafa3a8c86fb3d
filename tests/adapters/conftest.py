"""Which checks of the conformance suite run: all of them with REFOLD_ADAPTERS=full, as in `make adapters`.

Else only the fast ones, and of a module with several cases (one for each wire) only those of the first.
Where `make adapters` runs one client library, the cases of the other one are left out.
"""

import gc
import os
import sys
import warnings
from importlib.util import find_spec

import pytest

pytest.register_assert_rewrite("conformance", "conformance_case", "conformance_running")


def pytest_configure(config):
    config.addinivalue_line("markers", "full: a check of the conformance suite that runs in `make adapters`")


def pytest_collection_modifyitems(config, items):
    chosen = [item for item in items if _belongs_here(item)]
    if os.environ.get("REFOLD_ADAPTERS") != "full":
        first = {}
        chosen = [item for item in chosen if not item.get_closest_marker("full") and _is_first(item, first)]
    kept = set(chosen)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = chosen


def _belongs_here(item):
    """False for a case of another adapter than the one that is run; a case without a package is of any."""
    package = getattr(getattr(getattr(item, "cls", None), "case", None), "package", "")
    return package in ("", os.environ.get("REFOLD_ADAPTER", package))


def _is_first(item, first):
    """True for what is no case, and for the first case of its module."""
    case = getattr(item, "cls", None)
    if not hasattr(case, "case"):
        return True
    return first.setdefault(item.path, case) is case


@pytest.fixture(scope="session", autouse=True)
def _one_authority(tmp_path_factory):
    """Let clients trust one authority: to read all takes 50 ms for each client, and these speak plain HTTP."""
    if find_spec("certifi") is None:  # clients without it read the system's own
        yield
        return
    import certifi

    end = "-----END CERTIFICATE-----\n"
    file = tmp_path_factory.mktemp("tls") / "authority.pem"
    file.write_text(certifi.contents().partition(end)[0] + end, encoding="ascii")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SSL_CERT_FILE", str(file))
        yield


def is_plain(value):
    """True for what JSON has words for; no field of the requests here has another name in the SDK."""
    if isinstance(value, dict):
        return all(map(is_plain, value.values()))
    return (
        all(map(is_plain, value)) if isinstance(value, list) else isinstance(value, str | int | float | None)
    )


@pytest.fixture(scope="session", autouse=True)
def _plain_requests():
    """Let the SDKs send plain values as they are: to look up the type of each is a third of the time of these tests.

    What is not plain is turned into JSON as always, and in `make adapters` everything is looked at.
    """
    with pytest.MonkeyPatch.context() as patched:
        for name in ("openai", "anthropic") if os.environ.get("REFOLD_ADAPTERS") != "full" else ():
            if (module := sys.modules.get(f"{name}._utils._transform")) is not None:
                patched.setattr(module, "_transform_recursive", pass_plain(module._transform_recursive))
                transform = apass_plain(module._async_transform_recursive)
                patched.setattr(module, "_async_transform_recursive", transform)
        yield


def pass_plain(transform):
    return lambda data, **types: data if is_plain(data) else transform(data, **types)


def apass_plain(transform):
    async def transform_rest(data, **types):
        return data if is_plain(data) else await transform(data, **types)

    return transform_rest


@pytest.fixture(scope="module")
def collect_clients():
    """Collect clients that a framework leaves open here: Python would tell of them at the end of all tests."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()
