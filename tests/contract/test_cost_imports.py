"""What a price passes: `laptime cost` reads stored runs, and imports nothing that measures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from fixtures import costs
from laptime.store import files

ENGINES = (
    "laptime.backends",
    "laptime.instrument",
    "laptime.launch",
    "laptime.loadgen",
    "laptime.measure",
    "laptime.process",
    "laptime.targets",
    "laptime.trace",
    "laptime.tuning",
    "laptime.verbs.bench",
    "laptime.verbs.load",
)
SCRIPT = """
import sys
from laptime.apps.cli.main import main
try:
    main()
except SystemExit as done:
    print(done.code, file=sys.stderr)
    print(*sorted(name for name in sys.modules if name.startswith("laptime.")), file=sys.stderr)
"""


def modules(folder: Path, *arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, "cost", *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        check=True,
    )
    code, loaded = done.stderr.splitlines()[-2:]
    assert code in ("0", "None"), done.stderr
    assert "USD" in done.stdout
    return loaded.split()


def test_a_cost_imports_nothing_of_the_engines(tmp_path: Path) -> None:
    for made in (costs.run(costs.case(0.025)), costs.run(costs.level(20.0, 0.5), verb="load")):
        path = files.save(made, tmp_path)
        loaded = modules(tmp_path, str(path), "--usd-per-hour", "4")
        assert "laptime.verbs.cost.run" in loaded
        assert not [name for name in loaded if name.startswith(ENGINES)]
