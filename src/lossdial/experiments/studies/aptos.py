"""APTOS 2019, no retinopathy against any, β = 100 and 200.

lossdial reproduce --study aptos --preset frozen --jobs 2
"""

from lossdial.experiments.studies.base import Study

STUDY = Study("aptos", (("aptos", 100), ("aptos", 200)))
