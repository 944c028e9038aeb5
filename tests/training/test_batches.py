"""In-memory batches: each epoch a partition of the data that any batch can be had from again."""

import itertools
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from lossdial.base.streams import Stream, stream
from lossdial.training.batches import ArrayBatches, Augment


def rows(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Row i holds i, so that a batch says which samples it has."""
    return torch.arange(n, dtype=torch.float32)[:, None], torch.arange(n) % 2


def images(n: int, height: int = 5, width: int = 4) -> torch.Tensor:
    """Pixels that occur only once, none of them 0."""
    return (
        torch.randperm(n * 2 * height * width, generator=torch.Generator().manual_seed(0))
        .reshape(n, 2, height, width)
        .float()
        + 1
    )


def naive(image: np.ndarray, padding: int, down: int, right: int, flips: tuple[bool, bool]) -> np.ndarray:
    """One image (c, h, w): zeros around it, a window cut out, the window turned over."""
    _, height, width = image.shape
    padded = np.zeros((image.shape[0], height + 2 * padding, width + 2 * padding), image.dtype)
    padded[:, padding : padding + height, padding : padding + width] = image
    window = padded[:, down : down + height, right : right + width]
    window = window[:, ::-1] if flips[0] else window
    return window[:, :, ::-1] if flips[1] else window


def what_was_done(image: np.ndarray, result: np.ndarray, augment: Augment) -> list[tuple[int, int, bool, bool]]:
    """Every crop and flip that turns the image into the result."""
    offsets = range(2 * augment.crop_padding + 1)
    vertical, horizontal = ([False, True] if on else [False] for on in (augment.flip_vertical, augment.flip_horizontal))
    return [
        (down, right, v, h)
        for down, right, v, h in itertools.product(offsets, offsets, vertical, horizontal)
        if np.array_equal(naive(image, augment.crop_padding, down, right, (v, h)), result)
    ]


AUGMENTS = [
    Augment(crop_padding=1),
    Augment(flip_horizontal=True),
    Augment(flip_vertical=True),
    Augment(crop_padding=2, flip_horizontal=True, flip_vertical=True),
]


@pytest.mark.parametrize("augment", AUGMENTS, ids=str)
def test_augmentation_is_the_naive_one_image_by_image(augment):
    x = images(900)
    out = augment(x, torch.Generator().manual_seed(1))
    assert out.shape == x.shape
    assert out.dtype == x.dtype
    done = [what_was_done(before, after, augment) for before, after in zip(x.numpy(), out.numpy(), strict=True)]
    assert {len(ways) for ways in done} == {1}
    # Each way is as likely as any other: seeded, with a failure rate of one in a million for another seed.
    counts = Counter(ways[0] for ways in done)
    possible = (2 * augment.crop_padding + 1) ** 2 * 2 ** (augment.flip_horizontal + augment.flip_vertical)
    observed = [*counts.values(), *(0,) * (possible - len(counts))]
    assert chisquare(observed).pvalue > 1e-6


@pytest.mark.parametrize("share", [(0.65, 1.0), (0.3, 0.5), (1.0, 1.0)])
def test_a_resized_crop_is_a_box_of_that_share_scaled_up(share):
    """Channels that hold their own column and row tell where each pixel came from; bilinear sampling keeps ramps."""
    size, n, middle = 32, 400, slice(8, 24)
    column, row = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="xy")
    x = torch.stack([column, row]).float().expand(n, 2, size, size)
    out = Augment(resized_crop=share)(x, torch.Generator().manual_seed(0)).numpy()
    across, down = out[:, 0, middle, middle], out[:, 1, middle, middle]
    width, height = (np.diff(across, axis=2).mean((1, 2)), np.diff(down, axis=1).mean((1, 2)))  # as shares
    np.testing.assert_allclose(np.diff(across, axis=2), np.broadcast_to(width[:, None, None], (n, 16, 15)), atol=1e-4)
    np.testing.assert_allclose(np.diff(down, axis=1), np.broadcast_to(height[:, None, None], (n, 15, 16)), atol=1e-4)
    assert np.ptp(across, axis=1).max() < 1e-4
    left, top = across[:, 0, 0] + 0.5 - 8.5 * width, down[:, 0, 0] + 0.5 - 8.5 * height  # the box's edges, in pixels
    for start, extent in ((left, width), (top, height)):
        assert start.min() > -1e-2
        assert (start + extent * size).max() < size + 1e-2
    if share[1] < 1:  # a box wider than the image is cut to it, and has another aspect then
        area, aspect = width * height, width / height
        assert share[0] - 1e-4 < area.min() < 0.31
        assert 0.49 < area.max() < share[1] + 1e-4
        assert 0.75 - 1e-3 < aspect.min() < 0.8
        assert 1.25 < aspect.max() < 4 / 3 + 1e-3
        assert left.min() < 0.5
        assert np.corrcoef(left, top)[0, 1] == pytest.approx(0, abs=0.2)


def test_augmentation_keeps_bytes():
    x = images(3).to(torch.uint8)
    for augment in (AUGMENTS[3], Augment(resized_crop=(0.5, 1.0))):
        assert augment(x, torch.Generator().manual_seed(0)).dtype == torch.uint8


@given(st.integers(1, 60), st.integers(1, 20), st.integers(0, 5), st.integers(0, 5))
def test_an_epoch_is_a_partition(n, batch_size, seed, epoch):
    x, y = rows(n)
    batches = ArrayBatches(x, y, batch_size)
    parts = list(batches.epoch(seed, epoch))
    assert len(parts) == len(batches) == -(-n // batch_size)
    assert [len(batch.y) for batch in parts[:-1]] == [batch_size] * (len(parts) - 1)
    seen = torch.cat([batch.x for batch in parts])[:, 0].long()
    assert sorted(seen.tolist()) == list(range(n))
    assert torch.equal(torch.cat([batch.y for batch in parts]), seen % 2)


@given(st.integers(0, 8), st.sampled_from([AUGMENTS[3], Augment(1, "alternating")]), st.sampled_from([None, 0.2]))
def test_an_epoch_can_be_entered_anywhere(start, augment, positives):
    batches = ArrayBatches(images(45), (torch.arange(45) % 10 == 0).long(), 6, augment, positives=positives)
    whole = list(batches.epoch(3, 1))
    part = list(batches.epoch(3, 1, start=start))
    assert len(part) == len(whole) - start
    assert all(torch.equal(a.x, b.x) and torch.equal(a.y, b.y) for a, b in zip(whole[start:], part, strict=True))


@given(st.integers(1, 40), st.integers(1, 12), st.integers(1, 5))
def test_ranks_share_out_each_batch(n, batch_size, world):
    batches = ArrayBatches(*rows(n), batch_size)
    whole = [x[:, 0].tolist() for x, _, _ in batches.epoch(0, 0)]
    shared = [[x[:, 0].tolist() for x, _, _ in batches.epoch(0, 0, rank=rank, world=world)] for rank in range(world)]
    for i, batch in enumerate(whole):
        parts = [of_rank[i] for of_rank in shared]
        assert sorted(value for part in parts for value in part) == sorted(batch)
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
        # Sample k of the batch goes to rank k mod world: that is how λ per sample is shared out too.
        assert all(part == batch[rank::world] for rank, part in enumerate(parts))


def test_the_shuffle_is_a_stream_of_its_own():
    batches = ArrayBatches(*rows(20), 20)
    expected = torch.randperm(20, generator=stream(4, Stream.SHUFFLE, 7))
    ((x, _, _),) = batches.epoch(4, 7)
    assert torch.equal(x[:, 0].long(), expected)
    assert not any(torch.equal(x, other.x) for at in ((4, 8), (5, 7)) for other in batches.epoch(*at))


def test_share_without_positives():
    y = torch.zeros(1000).long()
    y[:10] = 1
    batches = ArrayBatches(torch.zeros(1000, 1), y, 64)
    assert batches.share_without_positives() == pytest.approx(0.99**64)
    empty = [float(labels.sum() == 0) for epoch in range(300) for _, labels, _ in list(batches.epoch(0, epoch))[:-1]]
    assert np.mean(empty) == pytest.approx(0.99**64, abs=0.03)  # 4,500 batches: more than four deviations
    assert ArrayBatches(torch.zeros(4, 1), torch.tensor([0, 0, 0, 1]), 64).share_without_positives() == 0.75**4
    unseen = ArrayBatches(torch.zeros(4, 1), torch.tensor([1, 1, 0, 0]), 2, weight=torch.tensor([1.0, 0.0, 1.0, 1.0]))
    assert unseen.share_without_positives() == 0.75**2


def test_weights_go_with_their_samples_and_have_a_mean_of_one():
    x, y = rows(20)
    weight = torch.arange(20.0) + 1
    parts = list(ArrayBatches(x, y, 6, weight=weight).epoch(1, 2))
    assert all(batch.weight is not None for batch in parts)
    seen, drawn = torch.cat([batch.x[:, 0] for batch in parts]), torch.cat([batch.weight for batch in parts])
    torch.testing.assert_close(drawn, (seen + 1) / weight.mean())
    assert drawn.mean().item() == pytest.approx(1)
    unweighted = torch.cat([batch.x[:, 0] for batch in ArrayBatches(x, y, 6).epoch(1, 2)])
    assert torch.equal(seen, unweighted)  # the order is the same


@given(st.integers(1, 20), st.integers(1, 60), st.integers(2, 20), st.floats(0.05, 0.95), st.integers(0, 5))
def test_every_batch_has_its_share_of_positives_and_the_loss_stays_the_same(n_pos, n_neg, batch_size, share, epoch):
    n = n_pos + n_neg
    x, y = torch.arange(n)[:, None], (torch.arange(n) < n_pos).long()
    batches = ArrayBatches(x, y, batch_size, positives=share)
    parts = list(batches.epoch(1, epoch))
    k = min(max(1, round(share * batch_size)), batch_size - 1)
    assert len(parts) == len(batches) == -(-n // batch_size)
    for i, batch in enumerate(parts):
        assert len(batch.y) == batches.size(i) == batch_size
        assert int(batch.y.sum()) == k
        assert torch.equal(batch.y, (batch.x[:, 0] < n_pos).long())
        # Any loss that is one number for each class has the mean that it has over the samples.
        assert batch.weight[batch.y == 1].sum().item() / batch_size == pytest.approx(n_pos / n, rel=1e-5)
        assert batch.weight[batch.y == 0].sum().item() / batch_size == pytest.approx(n_neg / n, rel=1e-5)
    drawn = torch.cat([batch.x[:, 0] for batch in parts])
    counts = torch.bincount(drawn, minlength=n)
    assert counts[:n_pos].max() - counts[:n_pos].min() <= 1  # round after round
    assert counts[n_pos:].max() - counts[n_pos:].min() <= 1


def test_positives_that_come_round_keep_weights_ranks_and_places():
    x, y = torch.arange(40)[:, None], (torch.arange(40) < 4).long()
    weight = torch.linspace(0.5, 2, 40)
    batches = ArrayBatches(x, y, 8, weight=weight, positives=0.25)
    whole = list(batches.epoch(0, 3))
    scaled = weight / weight.mean()
    factor = torch.tensor([0.9 * 8 / 6, 0.1 * 8 / 2])
    for batch in whole:
        torch.testing.assert_close(batch.weight, scaled[batch.x[:, 0]] * factor[batch.y])
    assert torch.equal(next(batches.epoch(0, 3, start=3)).x, whole[3].x)
    both = [next(batches.epoch(0, 3, rank=rank, world=2)) for rank in range(2)]
    assert torch.equal(torch.cat([part.x for part in both]).sort(0)[0], whole[0].x.sort(0)[0])
    assert batches.share_without_positives() == 0
    assert not torch.equal(next(batches.epoch(0, 4)).x, whole[0].x)


def test_reflected_crops_against_numpy() -> None:
    x = images(6, 8, 7)
    augment = Augment(crop_padding=2, crop_fill="reflection")
    result = augment(x, stream(0, Stream.AUGMENT)).numpy()
    for image, found in zip(x.numpy(), result, strict=True):
        padded = np.pad(image, ((0, 0), (2, 2), (2, 2)), mode="reflect")
        windows = [padded[:, i : i + 8, j : j + 7] for i in range(5) for j in range(5)]
        assert sum(np.array_equal(window, found) for window in windows) == 1


def test_alternating_flips_show_both_sides_equally_often() -> None:
    x, y = images(40), (torch.arange(40) % 8 == 0).long()
    batches = ArrayBatches(x, y, 8, Augment(flip_horizontal="alternating"), positives=0.25)
    originals = {tuple(image.flatten().tolist()): i for i, image in enumerate(x)}
    mirrors = {tuple(image.flip(-1).flatten().tolist()): i for i, image in enumerate(x)}
    seen: dict[int, list[bool]] = {}
    for epoch in range(4):
        within: dict[int, list[bool]] = {}
        for batch in batches.epoch(seed=0, epoch=epoch):
            for image in batch.x:
                key = tuple(image.flatten().tolist())
                which = originals.get(key, mirrors.get(key))
                within.setdefault(which, []).append(key in mirrors)
        for which, sides in within.items():
            assert all(a != b for a, b in itertools.pairwise(sides))  # positives, which come twice in an epoch
            seen.setdefault(which, []).append(sides[0])
    starts = [seen[i][0] for i in range(40) if i in seen]
    assert 0 < sum(starts) < len(starts)  # each image begins on a side of its own


def test_alternating_flips_go_by_the_epoch() -> None:
    x, y = images(30), torch.arange(30) % 2
    batches = ArrayBatches(x, y, 7, Augment(flip_horizontal="alternating"))
    sides = []
    for epoch in (0, 1, 2):
        found = torch.zeros(30, dtype=torch.bool)
        for batch in batches.epoch(seed=3, epoch=epoch):
            for image in batch.x:
                equal = [(image == x[i]).all() or (image == x[i].flip(-1)).all() for i in range(30)]
                i = equal.index(True)
                found[i] = bool((image == x[i].flip(-1)).all())
        sides.append(found)
    assert torch.equal(sides[0], ~sides[1])
    assert torch.equal(sides[0], sides[2])


WRONG = [
    (lambda: Augment()(torch.zeros(3, 4), torch.Generator()), r"x must be images \(n, c, h, w\)"),
    (lambda: Augment(crop_padding=-1), "crop_padding must be at least 0"),
    (lambda: Augment(flip_horizontal="often"), "flip_horizontal must be True, False or 'alternating'"),
    (lambda: Augment(crop_fill="grey"), "crop_fill must be 'zeros' or 'reflection'"),
    *(
        (lambda share=share: Augment(resized_crop=share), "resized_crop must be shares")
        for share in ((0.0, 1.0), (0.8, 0.5), (0.5, 1.1))
    ),
    *(
        (lambda share=share: ArrayBatches(*rows(4), 2, positives=share), "positives must be a share of the batch")
        for share in (0.0, 1.0, -0.1, float("nan"))
    ),
    *(
        (lambda y=y, n=n: ArrayBatches(torch.zeros(4, 1), y, n, positives=0.5), "positives needs samples of both")
        for y, n in ((torch.zeros(4), 2), (torch.ones(4), 2), (torch.tensor([0, 1, 0, 1]), 1))
    ),
    *(
        (lambda weight=weight: ArrayBatches(*rows(3), 2, weight=torch.tensor(weight)), "weight must")
        for weight in ([1.0] * 4, [[1.0]] * 3, [1.0, -1.0, 2.0], [1.0, float("inf"), 2.0], [0.0] * 3)
    ),
    (lambda: ArrayBatches(torch.zeros(3, 2), torch.zeros(4), 2), r"y must be \(n,\)"),
    (lambda: ArrayBatches(torch.zeros(3, 2), torch.zeros(3, 1), 2), r"y must be \(n,\)"),
    (lambda: ArrayBatches(torch.zeros(0, 2), torch.zeros(0), 2), "no samples"),
    (lambda: ArrayBatches(torch.zeros(3, 2), torch.zeros(3), 0), "batch_size must be at least 1; got 0"),
]


@pytest.mark.parametrize(("make", "message"), WRONG)
def test_what_is_wrong_is_named_in_a_line(make, message):
    with pytest.raises(ValueError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)
