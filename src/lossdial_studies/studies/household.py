"""CIFAR-100, furniture against household electronics, β = 100. Needs CIFAR-100: `lossdial data fetch cifar100`.

    lossdial reproduce --study household --preset paper --accelerator cuda

288 runs of 500 epochs, which want a GPU and were not run here. The paper's AUC is 0.710 for VS, 0.705 for VS + LCT.
"""

from lossdial_studies.studies.base import Study

STUDY = Study("household", (("cifar100-household", 100),))
