"""SIIM-ISIC Melanoma 2019 + 2020, β = 10, 100, 200. `lossdial data list` says where to get the images.

lossdial reproduce --study melanoma --preset paper
"""

from lossdial.experiments.studies.base import Study

STUDY = Study("melanoma", (("melanoma", 10), ("melanoma", 100), ("melanoma", 200)))
