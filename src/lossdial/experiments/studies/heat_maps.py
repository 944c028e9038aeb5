"""The paper's heat maps: VS at one λ, over γ and τ, over γ alone, over τ alone, at the severest imbalance, β = 200.

The paper draws them for SIIM-ISIC Melanoma; HAM10000 stands in for it here.

    lossdial reproduce --study heat-maps --preset frozen --jobs 2
    lossdial figure heat-maps --data ham10000-melanoma --beta 200
"""

from lossdial.experiments.studies.base import Study

STUDY = Study("heat-maps", (("ham10000-melanoma", 200),), ("vs", "vs+lct", "vs+lct:gamma", "vs+lct:tau"))
