"""Is one training over a distribution of λ as good as the best of a search? Whole networks, from scratch.

CIFAR-10 automobile against truck, β = 100. VS at all 16 settings against LCT over one density, γ ~ L(0, 0.3, 0) and
τ ~ L(0, 3, 0.33), trained once: with λ drawn for each sample, and for each batch as in the paper; with FiLM, with the
polynomial head, and without telling the network λ.

    lossdial reproduce --study scratch --preset cpu --jobs 2   # 154 trainings, 90 s each
    lossdial table one-against-search                          # the differences, with bounds

Expect an AUC (held-out) of 0.872 for the best of 16, and of one training 0.868 with FiLM and λ for each sample, not
worse by more than 0.01; with λ for each batch 0.862. Cross entropy has 0.855.
"""

from lossdial_studies.studies.base import Part, Study

STUDY = Study(
    "scratch",
    (("cifar10-auto-truck", 100),),
    parts=(
        Part(("vs+lct:per-sample",), settings=(1,), seeds=7),
        Part(("vs",), seeds=7),
        Part(("vs+lct:polynomial-per-sample", "vs+lct:no-film-per-sample"), settings=(1,), seeds=7),
        Part(("vs+lct", "vs+lct:polynomial", "vs+lct:no-film"), settings=(1,), seeds=7),
    ),
)
