"""The paper's study and the scoreboard: methods and grids as data, sweeps over them, results, tables and figures.

`data_sets/` the paper's data by name; `studies` what one command runs; `scoreboard/` one training against its rivals;
`commands/` what this package adds to the `lossdial` command. The library never imports it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossdial.base.imports import lazily

if TYPE_CHECKING:
    from lossdial_studies.store import Store

__all__ = ["Store"]

__getattr__, __dir__ = lazily(__name__, {"store": "Store"})
