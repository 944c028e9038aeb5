"""CIFAR-10, six animals against four vehicles, β = 100. Needs all of CIFAR-10: `lossdial data fetch cifar10`.

    lossdial reproduce --study animal-vehicle --preset paper --accelerator cuda

288 runs of 500 epochs, which want a GPU and were not run here. The paper's AUC is 0.981 for VS, 0.983 for VS + LCT.
"""

from lossdial_studies.studies.base import Study

STUDY = Study("animal-vehicle", (("cifar10-animal-vehicle", 100),))
