"""CIFAR-10 automobile against truck, β = 100: 5,000 automobiles and 50 trucks to train on, 1,000 of each to evaluate.

    lossdial reproduce --study auto-truck --preset frozen --rates 0.001 --jobs 2   # 5 minutes on two cores
    lossdial reproduce --study auto-truck --preset paper --accelerator cuda

There, expect AUC (held-out) of 0.951 for VS and 0.944 for VS + LCT on frozen features; the paper has 0.918 and 0.930.
"""

from lossdial_studies.studies.base import Study

STUDY = Study("auto-truck", (("cifar10-auto-truck", 100),))
