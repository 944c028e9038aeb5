"""CIFAR-10 automobile against deer, β = 100.

    lossdial reproduce --study auto-deer --preset frozen --rates 0.001 --jobs 2   # 5 minutes on two cores

Expect an AUC of 0.998 and more on frozen features for all but Focal (0.978); the paper has 0.980 to 0.988.
"""

from lossdial_studies.studies.base import Study

STUDY = Study("auto-deer", (("cifar10-auto-deer", 100),))
