"""A machine by the name that people type, and where this program runs.

    aws:g5.xlarge    gcp:g2-standard-4@us-east4    oci:VM.Standard.E3.Flex:16:32 (16 OCPUs, 32 GB)

The shape of this machine comes from what its mainboard told, or, asked to, from the cloud itself: the
metadata services answer at one address that leads no further than the hypervisor. They are asked with
`--detect` only, all at once, for 0.3 s at most, past any proxy.

Source: the providers' pages on instance metadata (IMDS v2 of OCI and AWS, IMDS of Azure, computeMetadata of
GCP)."""

import json
import threading
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from difflib import get_close_matches

from laptime.kit.errors import UsageError
from laptime.pricing.machine_table import Table
from laptime.records.cost import FlexShape, Machine
from laptime.records.environment import Environment


def find(text: str, table: Table, environment: Environment | None = None) -> Machine:
    """The machine that is meant; if several regions have it, the cheapest of them.
    environment: of the run; a flexible shape without sizes takes its CPUs and memory.
    Raises UsageError: none has this name (the nearest are told), or a flexible shape is not sold in this
    size."""
    name, _, region = text.strip().partition("@")
    if (shape := table.flexible(name)) is not None:
        return table.find_contract(_size(shape, name.split(":")[2:], environment))
    rows = [row for row in table.machines if row.name.lower() == name.lower()]
    here = [row for row in rows if not region or row.region.lower() in ("", region.lower())]
    if here:
        return min(here, key=lambda row: row.usd_per_hour)
    if rows:
        regions = ", ".join(sorted({row.region for row in rows if row.region}))
        what = f"no price of {name} in {region!r} is known"
        raise UsageError(what, why=f"regions: {regions}", next=f"--machine {rows[0].name}@{rows[0].region}")
    names = {row.name for row in table.machines} | {shape.name for shape in table.flex}
    by_lower = {each: name for name in names for each in (name.lower(), name.lower().partition(":")[2])}
    wanted = text.partition("@")[0].lower()
    alike = get_close_matches(wanted, by_lower, n=6, cutoff=0.5)
    near = list(dict.fromkeys(by_lower[each] for each in alike))[:3]
    left_out = next((each for each in table.refused if each.name.lower() in ("", wanted)), None)
    why = f"nearest: {', '.join(near)}" if near else f"{len(names):,} are known, as PROVIDER:SHAPE"
    next_step = f"--machine {near[0]}   or --usd-per-hour 4" if near else "--usd-per-hour 4"
    if left_out is not None:
        why = f"{left_out.file}, line {left_out.line} was left out: {left_out.reason}"
        next_step = "correct that line and run the command again"
    raise UsageError(f"no machine is called {text!r}", why=why, next=next_step)


def _size(shape: FlexShape, texts: list[str], environment: Environment | None) -> Machine:
    example = f"--machine {shape.name}:16:32"
    if not texts and environment is not None and environment.vcpus and environment.memory:
        ocpus = max(1.0, round(environment.vcpus / shape.vcpus_per_ocpu))
        # A machine's memory is a little below what was rented: the kernel keeps some.
        return shape.size_to(ocpus, float(max(ocpus * shape.min_gb, round(environment.memory / 2**30))))
    try:
        ocpus, memory = (float(size) for size in texts)
    except ValueError:
        raise UsageError(
            f"{shape.name} is rented by OCPU and GB",
            why=f"{':'.join(texts) or 'no size'} does not say how many of each",
            next=f"{example}   for 16 OCPUs and 32 GB",
        ) from None
    if why := shape.why_not(ocpus, memory):
        raise UsageError(
            f"{shape.name} is not sold with {ocpus:g} OCPUs and {memory:g} GB", why=why, next=example
        )
    return shape.size_to(ocpus, memory)


# Where am I?

ADDRESS = "http://169.254.169.254"
LIMIT = 0.3
_MOST_BYTES = 1 << 16


def detect(address: str = ADDRESS, limit: float = LIMIT) -> str | None:
    """`oci:VM.Standard.E3.Flex:16:32` by asking the cloud's metadata service; None if nothing answers."""
    answers: dict[str, str] = {}

    def work(provider: str) -> None:
        # Whatever comes back from an address that may be anybody's: not the shape means no shape.
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            if shape := _ASK[provider](address, limit):
                answers[provider] = shape

    threads = [threading.Thread(target=work, args=(provider,), daemon=True) for provider in _ASK]
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
