"""Schedules against naive formulas."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossdial.training import Cosine, Flat, Steps, Triangle

EPOCHS = st.integers(1, 500)


@given(st.floats(0, 500), EPOCHS)
def test_flat(epoch, epochs):
    assert Flat()(epoch, epochs) == 1


@given(st.floats(0, 1), EPOCHS, st.floats(0, 1))
def test_cosine(done, epochs, floor):
    expected = floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * done))
    assert Cosine(floor=floor)(done * epochs, epochs) == pytest.approx(expected, abs=1e-12)


def test_cosine_ends():
    schedule = Cosine(floor=0.1)
    assert schedule(0, 10) == 1
    assert schedule(10, 10) == pytest.approx(0.1)
    assert schedule(12, 10) == pytest.approx(0.1)  # and stays there


@given(st.floats(0, 20), st.lists(st.floats(0, 20), max_size=4), st.floats(0.01, 1))
def test_steps(epoch, milestones, factor):
    expected = 1.0
    for milestone in milestones:
        if epoch >= milestone:
            expected *= factor
    assert Steps(milestones=tuple(milestones), factor=factor)(epoch, 20) == pytest.approx(expected)


@given(st.floats(0.5, 10), st.floats(0, 20))
def test_warm_up_rises_linearly_to_the_schedule(warmup, epoch):
    expected = epoch / warmup if epoch < warmup else 1.0
    assert Flat(warmup=warmup)(epoch, 20) == pytest.approx(expected)
    assert Cosine(warmup=warmup)(epoch, 20) == pytest.approx(expected * Cosine()(epoch, 20))


def test_the_first_step_of_a_warm_up_has_no_rate():
    assert Steps(warmup=5, milestones=(1,))(0, 20) == 0


def test_wrong_arguments():
    with pytest.raises(ValueError, match="warmup must be at least 0 epochs; got -1"):
        Cosine(warmup=-1)
    with pytest.raises(ValueError, match="factor must be greater than 0; got 0"):
        Steps(milestones=(1,), factor=0)
    with pytest.raises(ValueError, match=r"floor must lie in \[0, 1\].*; got 1.5"):
        Cosine(floor=1.5)


@given(st.floats(0, 1), EPOCHS, st.floats(0.01, 0.99), st.floats(0, 1))
def test_triangle(done, epochs, peak, floor):
    expected = np.interp(done, [0, peak, 1], [floor, 1, floor])
    assert Triangle(peak=peak, floor=floor)(done * epochs, epochs) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("wrong", [{"peak": 0.0}, {"peak": 1.0}, {"floor": -0.1}, {"floor": 2.0}])
def test_triangle_refuses(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Triangle(**wrong)
