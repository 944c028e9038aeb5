"""The paper's results, to print beside ours: six tables and the FiLM ablation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lossdial.dial.metrics.registry import as_metric


@dataclass(frozen=True)
class Column:
    """A data set at an imbalance, how a table heads it, and the data set of the paper that it is compared with."""

    data: str
    beta: float
    heading: str
    paper_data: str

    @property
    def stand_in(self) -> bool:
        """Whether the data differ from the paper's."""
        return self.data != self.paper_data


_PAPER: Final = (
    ("cifar10-auto-deer", 100.0, "CIFAR-10 auto/deer"),
    ("cifar10-auto-truck", 100.0, "CIFAR-10 auto/truck"),
    ("cifar10-animal-vehicle", 100.0, "CIFAR-10 animal/vehicle"),
    ("cifar100-household", 100.0, "CIFAR-100 household"),
    ("melanoma", 10.0, "Melanoma β=10"),
    ("melanoma", 100.0, "Melanoma β=100"),
    ("melanoma", 200.0, "Melanoma β=200"),
    ("aptos", 100.0, "APTOS β=100"),
    ("aptos", 200.0, "APTOS β=200"),
)

#: the paper's nine in its order, then HAM10000, one source of ISIC 2019 and so of the paper's Melanoma, in its stead
COLUMNS: Final[tuple[Column, ...]] = (
    *(Column(data, beta, heading, data) for data, beta, heading in _PAPER),
    *(Column("ham10000-melanoma", beta, f"HAM10000 β={beta:g}", "melanoma") for beta in (10.0, 100.0, 200.0)),
)

# metric -> method -> the nine columns
_RESULTS: Final[dict[str, dict[str, tuple[float, ...]]]] = {
    "auc": {
        "focal": (0.985, 0.929, 0.982, 0.699, 0.951, 0.905, 0.891, 0.985, 0.982),
        "focal+lct": (0.985, 0.927, 0.981, 0.714, 0.951, 0.910, 0.902, 0.987, 0.984),
        "vs": (0.980, 0.918, 0.981, 0.710, 0.954, 0.905, 0.884, 0.980, 0.980),
        "vs+lct": (0.983, 0.930, 0.983, 0.705, 0.954, 0.914, 0.911, 0.983, 0.984),
        "vs+sam": (0.985, 0.923, 0.988, 0.709, 0.938, 0.895, 0.892, 0.613, 0.582),
        "vs+sam+lct": (0.988, 0.934, 0.987, 0.708, 0.893, 0.650, 0.831, 0.715, 0.622),
    },
    "average_precision": {
        "focal": (0.987, 0.937, 0.979, 0.731, 0.760, 0.602, 0.545, 0.987, 0.986),
        "focal+lct": (0.987, 0.936, 0.978, 0.744, 0.749, 0.613, 0.564, 0.989, 0.986),
        "vs": (0.983, 0.929, 0.979, 0.738, 0.763, 0.614, 0.550, 0.983, 0.983),
        "vs+lct": (0.986, 0.938, 0.980, 0.730, 0.762, 0.638, 0.595, 0.984, 0.985),
        "vs+sam": (0.987, 0.931, 0.985, 0.741, 0.682, 0.521, 0.507, 0.644, 0.623),
        "vs+sam+lct": (0.990, 0.942, 0.984, 0.733, 0.502, 0.209, 0.278, 0.715, 0.624),
    },
    "brier": {
        "focal": (0.122, 0.256, 0.103, 0.397, 0.036, 0.047, 0.052, 0.140, 0.192),
        "focal+lct": (0.113, 0.230, 0.094, 0.283, 0.037, 0.046, 0.050, 0.117, 0.177),
        "vs": (0.057, 0.137, 0.059, 0.282, 0.041, 0.054, 0.062, 0.063, 0.071),
        "vs+lct": (0.049, 0.164, 0.047, 0.361, 0.036, 0.048, 0.053, 0.115, 0.114),
        "vs+sam": (0.044, 0.119, 0.049, 0.303, 0.043, 0.073, 0.075, 0.269, 0.263),
        "vs+sam+lct": (0.038, 0.134, 0.042, 0.278, 0.063, 0.074, 0.076, 0.248, 0.248),
    },
    "max_f1": {
        "focal": (0.948, 0.854, 0.925, 0.685, 0.691, 0.558, 0.514, 0.963, 0.948),
        "focal+lct": (0.949, 0.858, 0.922, 0.686, 0.679, 0.562, 0.532, 0.964, 0.951),
        "vs": (0.945, 0.848, 0.927, 0.689, 0.695, 0.566, 0.513, 0.949, 0.943),
        "vs+lct": (0.947, 0.860, 0.929, 0.685, 0.689, 0.582, 0.544, 0.958, 0.953),
        "vs+sam": (0.949, 0.851, 0.938, 0.685, 0.611, 0.499, 0.482, 0.784, 0.790),
        "vs+sam+lct": (0.958, 0.866, 0.934, 0.685, 0.577, 0.455, 0.432, 0.730, 0.692),
    },
    "max_balanced_accuracy": {
        "focal": (0.949, 0.857, 0.938, 0.660, 0.879, 0.826, 0.811, 0.962, 0.947),
        "focal+lct": (0.949, 0.860, 0.934, 0.671, 0.879, 0.828, 0.819, 0.963, 0.947),
        "vs": (0.946, 0.850, 0.938, 0.664, 0.883, 0.819, 0.799, 0.949, 0.943),
        "vs+lct": (0.947, 0.862, 0.940, 0.662, 0.885, 0.832, 0.827, 0.958, 0.952),
        "vs+sam": (0.950, 0.853, 0.948, 0.675, 0.862, 0.807, 0.806, 0.622, 0.625),
        "vs+sam+lct": (0.958, 0.868, 0.945, 0.671, 0.808, 0.640, 0.764, 0.684, 0.608),
    },
    "precision_at_recall@0.99": {
        "focal": (0.746, 0.582, 0.641, 0.511, 0.155, 0.107, 0.104, 0.746, 0.741),
        "focal+lct": (0.750, 0.584, 0.644, 0.506, 0.156, 0.111, 0.118, 0.767, 0.746),
        "vs": (0.697, 0.557, 0.634, 0.509, 0.148, 0.118, 0.104, 0.675, 0.725),
        "vs+lct": (0.725, 0.585, 0.647, 0.506, 0.158, 0.125, 0.126, 0.733, 0.761),
        "vs+sam": (0.737, 0.568, 0.721, 0.507, 0.149, 0.132, 0.132, 0.513, 0.518),
        "vs+sam+lct": (0.790, 0.591, 0.713, 0.504, 0.124, 0.098, 0.110, 0.512, 0.510),
    },
}

# AUC of LCT without FiLM on CIFAR-10 auto/truck at β = 100
_NO_FILM: Final = {"vs+lct:no-film": 0.886, "vs+sam+lct:no-film": 0.908, "focal+lct:no-film": 0.926}


def published(metric: str, method: str, column: Column) -> float | None:
    """What the paper reports, to three decimals; None where it reports nothing."""
    name = as_metric(metric).name
    if name == "auc" and column == COLUMNS[1] and method in _NO_FILM:
        return _NO_FILM[method]
    figures = _RESULTS.get(name, {}).get(method)
    places = [i for i, (data, beta, _) in enumerate(_PAPER) if (data, beta) == (column.paper_data, column.beta)]
    return figures[places[0]] if figures is not None and places else None
