"""What each part of the method is worth, on CIFAR-10 automobile against truck, β = 100.

The six methods, LCT without FiLM (the paper's table), λ = γ or τ alone (its heat maps), FiLM's scale σ in place of 1+σ,
and one λ per sample in place of one per batch.

    lossdial reproduce --study ablations --preset frozen --jobs 2
    lossdial reproduce --study ablations --preset cpu --settings 4 --seeds 2 --jobs 2     # three hours on two cores

Expect an AUC (held-out) of 0.668 for VS + LCT and 0.613 without FiLM from scratch, 0.944 and 0.946 on frozen features;
the paper has 0.930 and 0.886. On frozen features it takes minutes.
"""

from lossdial.experiments.methods import ABLATIONS, METHODS
from lossdial.experiments.studies.base import Study

STUDY = Study("ablations", (("cifar10-auto-truck", 100),), (*METHODS, *ABLATIONS))
