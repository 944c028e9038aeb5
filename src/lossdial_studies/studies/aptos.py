"""APTOS 2019, no retinopathy against any, β = 100 and 200.

    lossdial reproduce --study aptos --preset frozen --rates 0.001 --jobs 2   # 4 minutes on two cores

Expect there an AUC of 0.965 and 0.944 for VS, 0.954 and 0.926 for VS + LCT, on frozen features of 64 px images.
The paper has 0.980 and 0.980, 0.983 and 0.984, with a ConvNeXt-tiny trained at 256 px.
"""

from lossdial_studies.studies.base import Study

STUDY = Study("aptos", (("aptos", 100), ("aptos", 200)))
