"""The tutorial runs from its first line to its last, and its script tells a fault from an answer."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tutorial() -> ModuleType:
    spec = importlib.util.spec_from_file_location("scripts_tutorial", ROOT / "scripts/tutorial.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PAGE = """# T

```python
# a.py
print("real")
```

```sh
python a.py
```

```text
old
```

<!-- shown only -->
```sh
exit 9
```
"""


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("python a.py", 0),
        ("exit 3", 1),  # an answer, but the page shows an output and there is none
        ("echo x; exit 2", 1),
        ("echo x -o missing.html", 1),
    ],
)
def test_a_page_is_run_and_its_faults_are_counted(
    tutorial: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: str, fault: int
) -> None:
    page = tmp_path / "tutorial.md"
    page.write_text(PAGE.replace("```sh\npython a.py", f"```sh\n{line}"), encoding="utf-8")
    monkeypatch.setattr(tutorial, "PAGE", page)
    assert tutorial.main("--write") == fault
    assert ("```text\nreal\n```" in page.read_text(encoding="utf-8")) == (line == "python a.py")


def test_the_page_has_files_and_an_output_of_each_measurement(tutorial: ModuleType) -> None:
    text = tutorial.PAGE.read_text(encoding="utf-8")
    assert dict(tutorial.FILE.findall(text)).keys() == {"model.py", "train.py"}
    steps = [step for step in tutorial.STEP.finditer(text) if not step["skipped"]]
    assert len(steps) >= 8
    assert sum(step["output"] is not None for step in steps) >= 5


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.timeout(2400)
def test_the_whole_tutorial_runs(tutorial: ModuleType) -> None:
    assert tutorial.main() == 0
