import pytest

from lossdial_studies.presets import preset


def test_the_paper_s_recipes() -> None:
    cifar = preset("cifar10-auto-truck", "paper").recipe
    assert (cifar.epochs, cifar.optimizer.name, cifar.clip_norm) == (500, "sgd", 0.5)
    rates = [cifar.optimizer.lr * cifar.schedule(e, 500) for e in (0, 399.9, 400, 450)]
    assert rates == pytest.approx([0.1, 0.1, 1e-3, 1e-5])

    melanoma = preset("melanoma", "paper")
    rates = [melanoma.recipe.optimizer.lr * melanoma.recipe.schedule(e, 10) for e in (4.9, 5)]
    assert rates == pytest.approx([0.01, 0.001])
    assert melanoma.recipe.augment is not None
    assert melanoma.recipe.augment.resized_crop == (0.65, 1.0)
    assert (melanoma.image_size, melanoma.recipe.epochs, melanoma.recipe.optimizer.weight_decay) == (256, 10, 1e-3)

    assert {preset(data, "paper").recipe.lam_per for data in ("cifar10-auto-truck", "melanoma", "aptos")} == {"batch"}
    aptos = preset("aptos", "paper")
    assert (aptos.recipe.epochs, aptos.recipe.optimizer.lr, aptos.recipe.optimizer.name) == (35, 5e-5, "adam")
    assert aptos.recipe.schedule(35, 35) == pytest.approx(0)
