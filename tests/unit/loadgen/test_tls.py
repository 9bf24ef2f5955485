"""Certificates of one's own: refused with a word, trusted where the environment names their CA."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

pytest.importorskip("h11")
if shutil.which("openssl") is None:
    pytest.skip("openssl makes the certificate", allow_module_level=True)

from laptime.loadgen.connection import Broken, Pool, request


def certificate(folder: Path) -> Path:
    """A self-signed one of 127.0.0.1, with its key in the same file."""
    pem = folder / "own.pem"
    words = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=own"
    words += f" -addext subjectAltName=IP:127.0.0.1 -keyout {folder / 'key'} -out {pem}"
    subprocess.run(words.split(), check=True, capture_output=True)
    pem.write_text(pem.read_text() + (folder / "key").read_text())
    return pem


async def asked(pem: Path, *, verify: bool = True) -> int:
    """Status of a request to a server with this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    url = urlsplit(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    pool = Pool(url, time.perf_counter, verify=verify)
    try:
        return (await pool.answer(request("GET", url, [], b""), 5.0)).status
    finally:
        pool.close()
        server.close()


def test_a_certificate_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pem = certificate(tmp_path)
    with pytest.raises(Broken, match="self-signed") as refused:
        asyncio.run(asked(pem))
    assert refused.value.kind == "tls"
    assert asyncio.run(asked(pem, verify=False)) == 200
    monkeypatch.setenv("SSL_CERT_FILE", str(pem))
    assert asyncio.run(asked(pem)) == 200
