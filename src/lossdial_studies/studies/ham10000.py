"""HAM10000, melanoma against other lesions, β = 10, 100, 200. It stands in for SIIM-ISIC Melanoma, of which it is part.

    lossdial reproduce --study ham10000 --preset frozen --rates 0.001 --jobs 2   # 18 minutes on two cores

Expect an AUC (held-out) of 0.802, 0.739 and 0.698 for VS, 0.799, 0.681 and 0.646 for VS + LCT, on frozen features of
64 px images. The paper's figures are of another test set and a network trained at 256 px.
"""

from lossdial_studies.studies.base import Study

STUDY = Study("ham10000", (("ham10000-melanoma", 10), ("ham10000-melanoma", 100), ("ham10000-melanoma", 200)))
