"""CIFAR-10 automobile against truck, β = 100: 5,000 automobiles and 50 trucks to train on, 1,000 of each to evaluate.

lossdial reproduce --study auto-truck --preset frozen --jobs 2
lossdial reproduce --study auto-truck --preset cpu --epochs EPOCHS --settings 4 --seeds 2 --jobs 2
lossdial reproduce --study auto-truck --preset paper     # on a GPU
"""

from lossdial.experiments.studies.base import Study

STUDY = Study("auto-truck", (("cifar10-auto-truck", 100),))
