"""CIFAR-10, six animals against four vehicles, β = 100. Needs all of CIFAR-10: `lossdial data fetch cifar10`.

lossdial reproduce --study animal-vehicle --preset paper
"""

from lossdial.experiments.studies.base import Study

STUDY = Study("animal-vehicle", (("cifar10-animal-vehicle", 100),))
