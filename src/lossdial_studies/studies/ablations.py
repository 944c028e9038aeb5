"""What each part of the method is worth, on CIFAR-10 automobile against truck, β = 100.

The six methods, LCT without FiLM (the paper's table), λ = γ or τ alone (its heat maps), FiLM's scale σ in place of 1+σ,
one λ per sample in place of one per batch, and the polynomial head.

    lossdial reproduce --study ablations --preset frozen --rates 0.001 --jobs 2
    lossdial reproduce --study ablations --preset cpu --settings 4 --seeds 2 --jobs 2     # three hours on two cores

Expect an AUC (held-out) of 0.944 for VS + LCT and 0.946 without FiLM on frozen features at a learning rate of 1e-3; the
paper has 0.930 and 0.886. From scratch, `--study scratch` has both at one setting.
"""

from lossdial_studies.methods import ABLATIONS, METHODS
from lossdial_studies.studies.base import Study

STUDY = Study("ablations", (("cifar10-auto-truck", 100),), (*METHODS, *ABLATIONS))
