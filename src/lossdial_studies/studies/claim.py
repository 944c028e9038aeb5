"""Is one training over a distribution of λ better than the best of sixteen? The paper's claim, where networks learn.

CIFAR-10 automobile against truck, and against deer, β = 100. VS at its 16 settings, with the plain network of the
paper's baseline and, as the control, with FiLM's block told that one λ; VS + LCT over its 16 densities. Then the other
methods of the paper, LCT without FiLM, λ for each sample, the polynomial head, and γ or τ alone.

    lossdial reproduce --study claim --preset fast --store runs/claim --jobs 2   # 25 s of one core a training
    lossdial table claim --store runs/claim                                      # the differences, with bounds

Seeds come one after the other, each with all of its trainings, so that a sweep that is stopped anywhere can be read.
Sixteen seeds of the first comparison and five of everything else, settled before any of them ran: docs/differences.md.
"""

from lossdial_studies.methods import METHODS
from lossdial_studies.studies.base import Part, Study

_TRUCK, _DEER = ("cifar10-auto-truck", 100.0), ("cifar10-auto-deer", 100.0)
_FIRST = ("vs", "vs:block", "vs+lct")
_ALL = (1, 0, *range(2, 16))  # the density that stands for one training comes first
_ONE = (1,)  # γ ~ L(0, 0.3, 0), τ ~ L(0, 3, 0.33): the density that stands for one training

STUDY = Study(
    "claim",
    (_TRUCK, _DEER),
    parts=(
        Part(_FIRST, _ALL, seeds=5, cells=(_TRUCK,)),
        Part(("vs+lct:per-sample", "vs+lct:no-film", "vs+lct:polynomial"), settings=_ONE, seeds=5, cells=(_TRUCK,)),
        Part(_FIRST, _ALL, seeds=5, cells=(_DEER,)),
        Part(("vs", "vs:block"), seeds=16, cells=(_TRUCK,)),
        Part(("vs+lct", "vs+lct:per-sample", "vs+lct:no-film"), settings=_ONE, seeds=16, cells=(_TRUCK,)),
        Part(tuple(name for name in METHODS if name not in _FIRST), seeds=5),
        Part(("vs+lct:no-film", "focal+lct:no-film", "vs+sam+lct:no-film"), seeds=5),
        Part(
            (
                *("vs+lct:per-sample", "vs+lct:no-film-per-sample", "vs+lct:polynomial"),
                *("vs+lct:polynomial-per-sample", "vs+lct:gamma", "vs+lct:tau"),
            ),
            seeds=5,
        ),
    ),
)
