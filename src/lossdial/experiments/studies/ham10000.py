"""HAM10000, melanoma against other lesions, β = 10, 100, 200. It stands in for SIIM-ISIC Melanoma, of which it is part.

lossdial reproduce --study ham10000 --preset frozen --jobs 2
"""

from lossdial.experiments.studies.base import Study

STUDY = Study("ham10000", (("ham10000-melanoma", 10), ("ham10000-melanoma", 100), ("ham10000-melanoma", 200)))
