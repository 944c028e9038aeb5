"""CIFAR-10 automobile against deer, β = 100.

lossdial reproduce --study auto-deer --preset frozen --jobs 2
"""

from lossdial.experiments.studies.base import Study

STUDY = Study("auto-deer", (("cifar10-auto-deer", 100),))
