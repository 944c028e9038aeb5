"""CIFAR-100, furniture against household electronics, β = 100. Needs CIFAR-100: `lossdial data fetch cifar100`.

lossdial reproduce --study household --preset paper
"""

from lossdial.experiments.studies.base import Study

STUDY = Study("household", (("cifar100-household", 100),))
