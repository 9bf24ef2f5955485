"""Stores example runs under the names that pages use: what reads runs finds the same on every machine."""

from msgspec import structs

from laptime.store import files
from laptime.testing import conformance

bench = conformance.runs(["bench"])["trusted"]
cases = [
    structs.replace(case, target="timm:resnet18", key=case.key.replace("torchvision:", "timm:"))
    for case in bench.cases
]
files.save(structs.replace(bench, id="20260701-000000-000-000001", cases=cases))
for number, name in enumerate(("before", "baseline", "after", "train", "newest")):
    files.save(structs.replace(bench, id=f"20260801-00000{number}-000-000002", name=name))
