"""The paper's heat maps: VS at one λ, over γ and τ, over γ alone, over τ alone, at the severest imbalance, β = 200.

The paper draws them for SIIM-ISIC Melanoma; HAM10000 stands in for it here.

    lossdial reproduce --study heat-maps --preset frozen --rates 0.001 --jobs 2   # 5 minutes on two cores
    lossdial figure heat-maps --data ham10000-melanoma --beta 200

Expect a best AUC of 0.698 for VS, 0.648 over γ and τ, 0.638 over γ, 0.639 over τ, on frozen features; the paper has
0.884, 0.911, 0.879 and 0.908.
"""

from lossdial_studies.studies.base import Study

STUDY = Study("heat-maps", (("ham10000-melanoma", 200),), ("vs", "vs+lct", "vs+lct:gamma", "vs+lct:tau"))
