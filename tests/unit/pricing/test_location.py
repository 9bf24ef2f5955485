"""Where am I: the mainboard's name, and the four metadata services as they answer, played on loopback."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from fixtures.fake_root import FakeRoot
from laptime.pricing.location import detect, is_whole
from laptime.probes.machine import AZURE_TAG, cloud


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"sys_vendor": "Amazon EC2", "product_name": "c5.xlarge"}, "aws:c5.xlarge"),
        ({"bios_vendor": "Amazon EC2", "product_name": "m7g.metal"}, "aws:m7g.metal"),
        ({"sys_vendor": "QEMU", "chassis_asset_tag": "OracleCloud.com"}, "oci:"),
        ({"sys_vendor": "Microsoft Corporation", "chassis_asset_tag": AZURE_TAG}, "azure:"),
        ({"sys_vendor": "Microsoft Corporation", "product_name": "Virtual Machine"}, None),
        ({"sys_vendor": "Google", "product_name": "Google Compute Engine"}, "gcp:"),
        ({"sys_vendor": "LENOVO", "product_name": "20XW"}, None),
        ({}, None),
    ],
)
def test_the_mainboard_tells_the_cloud(tmp_path: Path, files: dict[str, str], told: str | None) -> None:
    root = FakeRoot(tmp_path)
    for name, text in files.items():
        root.put(f"sys/class/dmi/id/{name}", text + "\n")
    assert cloud(root.root) == told
    assert is_whole(told) is (told is not None and not told.endswith(":"))


class Service(BaseHTTPRequestHandler):
    """Answers as one provider does; refuses those who lack its header."""

    provider = ""
    delay = 0.0

    def log_message(self, *words: object) -> None:
        pass

    def _send(self, text: str, status: int = 200) -> None:
        time.sleep(self.delay)
        with suppress(ConnectionError):  # who asks does not wait for a slow answer
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

    def do_PUT(self) -> None:
        is_mine = self.provider == "aws" and self.path == "/latest/api/token"
        self._send("token", 200 if is_mine and self.headers["X-aws-ec2-metadata-token-ttl-seconds"] else 403)

    def do_GET(self) -> None:
        flex = {"shape": "VM.Standard.E4.Flex", "shapeConfig": {"ocpus": 2.0, "memoryInGBs": 16.0}}
        compute = {"vmSize": "Standard_D2s_v6", "location": "eastus"}
        pages = {
            ("oci", "/opc/v2/instance/", "Authorization", "Bearer Oracle"): json.dumps(flex),
            ("aws", "/latest/meta-data/instance-type", "X-aws-ec2-metadata-token", "token"): "g5.xlarge",
            ("aws", "/latest/meta-data/placement/region", "X-aws-ec2-metadata-token", "token"): "us-east-1",
            ("azure", "/metadata/instance/compute?api-version=2021-02-01", "Metadata", "true"): json.dumps(
                compute
            ),
            ("gcp", "/computeMetadata/v1/instance/machine-type", "Metadata-Flavor", "Google"): (
                "projects/1/machineTypes/g2-standard-4"
            ),
            (
                "gcp",
                "/computeMetadata/v1/instance/zone",
                "Metadata-Flavor",
                "Google",
            ): "projects/1/zones/us-east4-a",
            ("nonsense", self.path, "", ""): '{"shape": [1, 2], "vmSize": {}}',
        }
        for (provider, path, header, value), text in pages.items():
            if (
                provider == self.provider
                and path == self.path
                and (not header or self.headers[header] == value)
            ):
                self._send(text)
                return
        self._send("no", 404)


@pytest.fixture
def serve() -> Iterator[object]:
    servers = []

    def start(provider: str, delay: float = 0.0) -> str:
        handler = type("Handler", (Service,), {"provider": provider, "delay": delay})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("provider", "shape"),
    [
        ("oci", "oci:VM.Standard.E4.Flex:2:16"),
        ("aws", "aws:g5.xlarge@us-east-1"),
        ("azure", "azure:Standard_D2s_v6@eastus"),
        ("gcp", "gcp:g2-standard-4@us-east4"),
    ],
)
def test_each_metadata_service_tells_the_shape(serve: Any, provider: str, shape: str) -> None:
    assert detect(serve(provider), limit=5.0) == shape


def test_a_slow_service_is_not_waited_for(serve: Any) -> None:
    address = serve("oci", delay=2.0)
    began = time.monotonic()
    assert detect(address, limit=0.3) is None
    assert time.monotonic() - began < 1.0


def test_no_service_and_proxies_are_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert detect("http://127.0.0.1:9", limit=0.3) is None
