"""SIIM-ISIC Melanoma 2019 + 2020, β = 10, 100, 200. `lossdial data list` says where to get the images.

    lossdial reproduce --study melanoma --preset paper --backend ray --gpus-per-trial 1

864 runs of 10 epochs of ResNeXt50 at 256 px, which want GPUs and were not run here. The paper's AUC is 0.884 for VS
and 0.911 for VS + LCT at β = 200.
"""

from lossdial_studies.studies.base import Study

STUDY = Study("melanoma", (("melanoma", 10), ("melanoma", 100), ("melanoma", 200)))
