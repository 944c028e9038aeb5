"""Sets of image files with tables: generated in the official layouts, and the real ones."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lossdial_studies.data_sets.dataset import ImageDataSet, Listing
from lossdial_studies.data_sets.folders import APTOS, DOGS_VS_CATS, HAM10000, MELANOMA

SaveImage = Callable[..., None]


def counts(y: np.ndarray) -> list[int]:
    return np.bincount(y, minlength=2).tolist()


def test_dogs_vs_cats(tmp_path: Path, save_image: SaveImage) -> None:
    for i in range(50):
        save_image(tmp_path / "dogs-vs-cats" / "train" / f"dog.{i}.jpg", i)
        save_image(tmp_path / "dogs-vs-cats" / "train" / f"cat.{i}.jpg", 100 + i)
    save_image(tmp_path / "dogs-vs-cats" / "test1" / "1.jpg", 999)  # Kaggle's own test images have no class
    split = DOGS_VS_CATS.load(tmp_path, beta=10, size=32)
    assert split.class_names == ("dog", "cat")
    assert counts(split.y_train) == [46, 5]
    assert counts(split.y_test) == [4, 4]
    assert split.x_train.shape == (51, 3, 32, 32)
    check_paper_counts(DOGS_VS_CATS, Listing(y=np.repeat([0, 1], 12_500), images=()))
    before = DOGS_VS_CATS.fingerprint(tmp_path)
    save_image(tmp_path / "dogs-vs-cats" / "train" / "cat.0.jpg", 999)
    assert DOGS_VS_CATS.fingerprint(str(tmp_path)) != before


def check_paper_counts(data: ImageDataSet, listing: Listing) -> None:
    """Training and test counts for every β of the paper's table, nested, from labels and groups alone."""
    assert data.paper is not None
    kept = []
    for beta, minority in data.paper.minority:
        train, test = data.choose(listing, beta, seed=1)
        everything, _ = data.choose(listing, None, seed=1)
        there = int(listing.y[everything].sum())
        # The table's 4,105 + 1,035 melanomas at β = 10 are 34 more than the 5,106 that exist.
        assert minority <= there or (data.name, beta, minority, there) == ("melanoma", 10, 4105, 4071)
        assert counts(listing.y[train]) == [data.paper.train_majority, min(minority, there)]
        assert counts(listing.y[test]) == [data.paper.test_majority, data.paper.test_minority]
        if listing.groups is not None:
            assert not set(listing.groups[test]) & set(listing.groups[everything])
        kept.append(set(train.tolist()))
    assert kept[0] > kept[1] > kept[2]


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (DOGS_VS_CATS, "kaggle.*dogs-vs-cats"),
        (APTOS, "kaggle.*aptos2019-blindness-detection"),
        (HAM10000, "ham10000"),
        (MELANOMA, "siim-isic-2020.*isic-2019"),
    ],
    ids=lambda v: getattr(v, "name", ""),
)
def test_missing_data_say_what_to_download_and_where_to_put_it(tmp_path: Path, data: ImageDataSet, place: str) -> None:
    assert not data.present(tmp_path)
    with pytest.raises(FileNotFoundError, match=rf"{data.name} is not in {tmp_path}\. .*{place}") as caught:
        data.load(tmp_path, beta=100)
    assert str(tmp_path) in str(caught.value).split(". ", 1)[1]


@pytest.fixture
def aptos(tmp_path: Path, save_image: SaveImage) -> Path:
    """60 images, 12 a grade, the last two of each grade copies of the first two."""
    folder = tmp_path / "aptos2019-blindness-detection"
    rows = []
    for grade in range(5):
        for i in range(12):
            rows.append((f"{grade}_{i:02d}", grade))
            save_image(folder / "train_images" / f"{grade}_{i:02d}.png", 100 * grade + i % 10)
    pd.DataFrame(rows, columns=["id_code", "diagnosis"]).to_csv(folder / "train.csv", index=False)
    return tmp_path


def test_aptos_folder(aptos: Path) -> None:
    split = APTOS.load(aptos, beta=None, size=24)
    assert counts(split.y_test) == [2, 8]
    assert counts(split.y_train) == [10, 40]
    assert split.x_train.shape[1:] == (3, 24, 24)
    assert split.groups_train is not None
    assert len(set(split.groups_train)) + len(set(split.groups_test)) == 50  # type: ignore[arg-type]  # not None either
    (aptos / "aptos2019-blindness-detection" / "train_images" / "0_03.png").unlink()
    with pytest.raises(FileNotFoundError, match=r"1 of 60 images that the table lists are not below .* example 0_03"):
        APTOS.load(aptos, beta=None)


def test_table_without_the_expected_column(aptos: Path) -> None:
    path = aptos / "aptos2019-blindness-detection" / "train.csv"
    path.write_text(path.read_text().replace("diagnosis", "diagnose"))
    with pytest.raises(ValueError, match="no column 'diagnosis'; did you mean 'diagnose'"):
        APTOS.load(aptos, beta=None)


def test_ham10000_folder(tmp_path: Path, save_image: SaveImage) -> None:
    rows = []
    for i in range(90):
        part = f"HAM10000_images_part_{1 + i % 2}"
        rows.append((f"HAM_{i // 2:07d}", f"ISIC_{i:07d}", "mel" if i // 2 % 3 == 0 else "nv"))
        save_image(tmp_path / "ham10000" / part / f"ISIC_{i:07d}.jpg", i)
    table = pd.DataFrame(rows, columns=["lesion_id", "image_id", "dx"])
    table.to_csv(tmp_path / "ham10000" / "HAM10000_metadata.csv", index=False)
    split = HAM10000.load(tmp_path, beta=6, size=16)
    assert split.class_names == ("other lesion", "melanoma")
    assert counts(split.y_train) == [48, 8]
    assert counts(split.y_test) == [12, 6]
    assert not set(split.groups_train.tolist()) & set(split.groups_test.tolist())  # type: ignore[union-attr]  # both set


def write_melanoma(
    root: Path, patients: np.ndarray, y_2020: np.ndarray, lesions: np.ndarray, y_2019: np.ndarray
) -> None:
    first, second = root / "siim-isic-2020", root / "isic-2019"
    names_2020 = [f"ISIC_{i:07d}" for i in range(len(y_2020))]
    names_2019 = [f"ISIC_{i:07d}{'_downsampled' * (i % 50 == 0)}" for i in range(len(y_2019))]
    (first / "jpeg" / "train").mkdir(parents=True)
    (second / "ISIC_2019_Training_Input").mkdir(parents=True)
    table = {"image_name": names_2020, "patient_id": patients, "sex": "male", "target": y_2020}
    pd.DataFrame(table).to_csv(first / "train.csv", index=False)
    truth = {"image": names_2019, "MEL": y_2019.astype(float), "NV": 1.0 - y_2019}
    pd.DataFrame(truth).to_csv(second / "ISIC_2019_Training_GroundTruth.csv", index=False)
    meta = {"image": names_2019, "age_approx": 50, "lesion_id": lesions}
    pd.DataFrame(meta).to_csv(second / "ISIC_2019_Training_Metadata.csv", index=False)


def test_melanoma_counts_are_the_papers() -> None:
    """As many images, patients, lesions and melanomas as the official tables have, grouped at random."""
    generator = np.random.default_rng(0)
    y_2020 = generator.permutation(np.repeat([0, 1], [33_126 - 584, 584]))
    y_2019 = generator.permutation(np.repeat([0, 1], [25_331 - 4_522, 4_522]))
    lesions = 10_000 + generator.integers(0, 12_000, len(y_2019))
    unknown = generator.permutation(len(lesions))[:2_084]
    lesions[unknown] = 100_000 + unknown
    groups = np.concatenate([generator.integers(0, 2_056, len(y_2020)), lesions])
    check_paper_counts(MELANOMA, Listing(y=np.concatenate([y_2020, y_2019]), images=(), groups=groups))


@pytest.fixture
def melanoma(tmp_path: Path, save_image: SaveImage) -> Path:
    """120 images of 2020 (40 patients) and 120 of 2019 (90 lesions, some unknown); one in five a melanoma."""
    y = (np.arange(120) % 5 == 0).astype(int)
    patients = np.array([f"IP_{i % 40}" for i in range(120)], dtype=object)
    lesions = np.array([f"LE_{i % 90}" if i % 7 else None for i in range(120)], dtype=object)
    write_melanoma(tmp_path, patients, y, lesions, y)
    for i in range(120):
        save_image(tmp_path / "siim-isic-2020" / "jpeg" / "train" / f"ISIC_{i:07d}.jpg", i)
        name = f"ISIC_{i:07d}{'_downsampled' * (i % 50 == 0)}.jpg"
        save_image(tmp_path / "isic-2019" / "ISIC_2019_Training_Input" / name, 1000 + i)
    return tmp_path


@pytest.mark.filterwarnings("ignore:.* went to test where")
def test_melanoma_folders(melanoma: Path) -> None:
    split = MELANOMA.load(melanoma, beta=10, size=20)
    negatives, positives = counts(split.y_train)
    assert positives == round(negatives / 10)
    assert split.x_test.shape[1:] == (3, 20, 20)
    train, test = set(split.groups_train.tolist()), set(split.groups_test.tolist())  # type: ignore[union-attr]  # both set
    assert not train & test
    assert any(group.startswith("IP_") for group in test)
    assert any(group.startswith("LE_") for group in test)


def test_patients_who_share_an_image_are_one_group(melanoma: Path) -> None:
    listed = melanoma / "siim-isic-2020" / "ISIC_2020_Training_Duplicates.csv"
    # Images 0, 1 and 2 belong to three patients; the last pair names an image that is not in the table.
    listed.write_text(
        "image_name_1,image_name_2\nISIC_0000000,ISIC_0000001\nISIC_0000001,ISIC_0000002\nISIC_9,ISIC_0000003\n"
    )
    groups = MELANOMA.listing(melanoma, None, None).groups
    assert groups is not None
    assert len(set(groups[[0, 1, 2, 40, 41, 42]])) == 1
    assert len(set(groups[:120])) == 38
    assert groups[3] != groups[0]


def test_melanoma_without_lesions_is_warned_of(melanoma: Path) -> None:
    (melanoma / "isic-2019" / "ISIC_2019_Training_Metadata.csv").unlink()
    with pytest.warns(UserWarning, match="images of one lesion cannot be kept together"):
        listing = MELANOMA.listing(melanoma, None, None)
    assert len(set(listing.groups[120:])) == 120  # type: ignore[index]  # groups are always set


def test_real_aptos_has_the_papers_counts(data_dir: Path) -> None:
    check_paper_counts(APTOS, APTOS.listing(data_dir, None, None))
    split = APTOS.load(data_dir, beta=200)
    assert split.x_train.shape == (1451, 3, 64, 64)
    with pytest.raises(ValueError, match="at 64 px only; got size=256"):
        APTOS.load(data_dir, beta=200, size=256)


def test_real_ham10000(data_dir: Path) -> None:
    split = HAM10000.load(data_dir, beta=None)
    assert len(split.y_train) + len(split.y_test) == 10_015
    assert split.y_train.sum() + split.y_test.sum() == 1_113
    assert abs(split.y_test.mean() - split.y_train.mean()) < 0.005
    assert not set(split.groups_train.tolist()) & set(split.groups_test.tolist())  # type: ignore[union-attr]  # both set
