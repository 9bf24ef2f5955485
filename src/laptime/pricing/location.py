"""Where am I: the shape of this machine, from what its mainboard told, or, asked to, from the cloud itself.

The metadata services answer at one address that leads no further than the hypervisor. They are asked with
`--detect` only, all at once, for 0.3 s at most, past any proxy.

Source: the providers' pages on instance metadata (IMDS v2 of OCI and AWS, IMDS of Azure, computeMetadata of
GCP).
"""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress

ADDRESS = "http://169.254.169.254"
LIMIT = 0.3
_MOST_BYTES = 1 << 16


def detect(address: str = ADDRESS, limit: float = LIMIT) -> str | None:
    """`oci:VM.Standard.E3.Flex:16:32` by asking the cloud's metadata service; None where nothing answers."""
    answers: dict[str, str] = {}
    threads = []
    for provider, ask in _ASK.items():

        def work(provider: str = provider, ask: Callable[[str, float], str] = ask) -> None:
            # Whatever comes back from an address that may be anybody's: not the shape means no shape.
            with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
                if shape := ask(address, limit):
                    answers[provider] = shape

        threads.append(threading.Thread(target=work, daemon=True))
    for thread in threads:
        thread.start()
    end = time.monotonic() + limit
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    found = dict(answers)
    return next((f"{provider}:{found[provider]}" for provider in _ASK if provider in found), None)


def is_whole(cloud: str | None) -> bool:
    """Whether it names a shape, not the provider alone."""
    return cloud is not None and bool(cloud.partition(":")[2])


def _get(url: str, limit: float, *, method: str = "GET", **headers: str) -> str:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, headers=named, method=method)  # noqa: S310 (a fixed http address)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=limit) as answer:
        text: str = answer.read(_MOST_BYTES).decode("utf-8")
    return text


def _oci(address: str, limit: float) -> str:
    instance = json.loads(_get(f"{address}/opc/v2/instance/", limit, Authorization="Bearer Oracle"))
    shape, size = str(instance["shape"]), instance.get("shapeConfig") or {}
    if not shape.endswith(".Flex"):
        return shape
    return f"{shape}:{float(size['ocpus']):g}:{float(size['memoryInGBs']):g}"


def _aws(address: str, limit: float) -> str:
    life = {"X_aws_ec2_metadata_token_ttl_seconds": "60"}
    token = _get(f"{address}/latest/api/token", limit, method="PUT", **life)
    base = f"{address}/latest/meta-data"
    shape = _get(f"{base}/instance-type", limit, X_aws_ec2_metadata_token=token).strip()
    region = _get(f"{base}/placement/region", limit, X_aws_ec2_metadata_token=token).strip()
    return f"{shape}@{region}" if region else shape


def _azure(address: str, limit: float) -> str:
    url = f"{address}/metadata/instance/compute?api-version=2021-02-01"
    compute = json.loads(_get(url, limit, Metadata="true"))
    return f"{compute['vmSize']}@{compute['location']}"


def _gcp(address: str, limit: float) -> str:
    base, flavor = f"{address}/computeMetadata/v1/instance", {"Metadata_Flavor": "Google"}
    shape = _get(f"{base}/machine-type", limit, **flavor).strip().rpartition("/")[2]
    zone = _get(f"{base}/zone", limit, **flavor).strip().rpartition("/")[2]
    return f"{shape}@{zone.rpartition('-')[0]}" if zone else shape


_ASK: dict[str, Callable[[str, float], str]] = {"oci": _oci, "aws": _aws, "azure": _azure, "gcp": _gcp}
