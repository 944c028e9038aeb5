"""Is one training over a distribution of λ as good as the best of a search? Whole networks, from scratch.

CIFAR-10 automobile against truck, β = 100. VS at all 16 settings, three seeds each, against LCT over one density,
γ ~ L(0, 0.3, 0) and τ ~ L(0, 3, 0.33), five seeds each: with the polynomial head, with FiLM, and without telling the
network λ.

    lossdial reproduce --study scratch --preset cpu --jobs 2   # 63 trainings, 90 s each
    lossdial table one-against-search                          # the differences, with bounds

Expect an AUC (held-out) of 0.862 for the best of 16, and of one training 0.857 with FiLM, 0.854 with the polynomial
head, 0.853 without telling λ: 'not worse by more than 0.01' is missed by all three. Cross entropy has 0.849.
"""

from lossdial.experiments.studies.base import Part, Study

STUDY = Study(
    "scratch",
    (("cifar10-auto-truck", 100),),
    parts=(
        Part(("vs+lct:per-sample",), settings=(1,), seeds=7),
        Part(("vs",), seeds=7),
        Part(("vs+lct:polynomial-per-sample", "vs+lct:no-film-per-sample"), settings=(1,), seeds=7),
        Part(("vs+lct", "vs+lct:polynomial", "vs+lct:no-film"), settings=(1,), seeds=5),
    ),
)
