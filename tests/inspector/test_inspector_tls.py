"""TLS: the inspector and the gateway speak it themselves, with a certificate that the operator names."""

import asyncio
import shutil
import ssl
import subprocess

import aiohttp
import pytest
from inspector_serving import TOKEN, gatewaying, inspecting

from refold.errors import RefoldError
from refold.gateway import HistoryOptions

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "cert.pem", folder / "key.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run([*command, *names, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return str(certificate), str(key)


async def come(url, certificate):
    """Open the first address as a browser does, and ask for the list."""
    trusted = ssl.create_default_context(cafile=certificate)
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar, connector=aiohttp.TCPConnector(ssl=trusted)) as client:
        async with client.get(url, allow_redirects=False) as first:
            cookie = first.headers["Set-Cookie"]
        async with client.get(f"{url.partition('?')[0]}/api/about") as reply:
            return cookie, await reply.json()


def test_the_inspector_speaks_tls(files):
    certificate, key = files
    with inspecting("memory:", certificate=certificate, certificate_key=key) as served:
        url = served.server.url
        assert url.startswith("https://127.0.0.1:")
        cookie, about = asyncio.run(come(url, certificate))
    assert cookie.endswith("; Secure")
    assert about["address"].startswith("https://")


def test_the_gateway_speaks_tls(files):
    certificate, key = files
    options = {"tls_certificate": certificate, "tls_key": key}
    with gatewaying(HistoryOptions(store="memory:"), **options) as served:
        assert served.server.address.startswith("https://")
        _, about = asyncio.run(come(served.server.inspector_url, certificate))
    assert about["gateway"] is True


def test_a_certificate_that_cannot_be_used_is_one_clear_line(files, tmp_path):
    with (
        pytest.raises(RefoldError, match="cannot be used"),
        inspecting("memory:", certificate=str(tmp_path / "none.pem"), certificate_key=files[1], token=TOKEN),
    ):
        pass
