"""Which samples choose λ and which certify, so that the page can promise a recall.

Where λ is chosen by looking at data, the same data cannot vouch for what was chosen. So some samples choose and the
positives of the others certify: the k-th lowest of their scores, accepted, keeps a floor on recall with the wanted
confidence, whatever the law of the scores. The page does it as `Dial.tune(confidence=…)` does, with the samples that
tuning sets aside for a recall of 0.95 at a confidence of 0.95; `static/js/certify.js` holds the rest.
"""

from dataclasses import dataclass

import numpy as np

from lossdial.dial.certificates.choice import parts
from lossdial.dial.certificates.evidence import NotCertified, one_of_each
from lossdial.dial.checks import BoolArray
from lossdial.dial.surface import Samples

FLOOR, CONFIDENCE = 0.95, 0.95
"""What samples are set aside for."""


@dataclass(frozen=True)
class Split:
    """Which samples (n,) choose λ, which certify, and which of these are the positives that count.

    Of a group one positive, drawn at random, counts. `refusal` says why none can certify.
    """

    choosing: BoolArray
    certifying: BoolArray
    counted: BoolArray
    refusal: str = ""


def split(samples: Samples, n_lams: int, seed: int = 0) -> Split:
    """The part of each sample."""
    labels, groups = samples.labels, samples.groups
    none, everyone = np.zeros(labels.size, dtype=np.bool_), np.ones(labels.size, dtype=np.bool_)
    if samples.weight is not None:
        return Split(none, none, none, "Rows with weights cannot certify: the guarantee counts rows, each as one.")
    choosing = none.copy()
    if n_lams > 1:
        try:
            choosing[_choosing(samples, seed)] = True
        except NotCertified as error:
            return Split(none, none, none, f"{str(error)[0].upper()}{str(error)[1:]}")
    certifying = everyone & ~choosing
    if groups is None:
        return Split(choosing, certifying, certifying & labels)
    index = np.flatnonzero(certifying)
    counted = none.copy()
    counted[index[one_of_each(groups[index], labels[index], seed)]] = True
    return Split(choosing, certifying, counted)


def _choosing(samples: Samples, seed: int) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    try:
        return parts(samples.labels, samples.groups, FLOOR, CONFIDENCE, seed)[0]
    except NotCertified:  # too few for that floor; halves may still do for a lower one
        return parts(samples.labels, samples.groups, None, CONFIDENCE, seed)[0]
