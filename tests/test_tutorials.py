"""The tutorials run from start to end, as a reader would run them."""

import re
from pathlib import Path
from typing import Any

import pytest

TUTORIALS = Path(__file__).parents[1] / "docs" / "tutorials"


@pytest.mark.parametrize("name", ["fraud", "moles"])
def test_a_tutorial_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "moles":
        pytest.importorskip("efficientnet_lite_pytorch", reason="the extra vision is not installed")
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```", (TUTORIALS / f"{name}.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) > 4
    for block in blocks:
        exec(compile(block, f"{name}.md", "exec"), namespace)
    assert namespace["point"].certificate is not None
