"""Data sets that arrive as folders of image files with tables beside them: Dogs vs. Cats, APTOS, HAM10000, ISIC."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lossdial.base.errors import closest, warn
from lossdial.data.leaks import join_groups
from lossdial.data.readers.decoding import decode_images
from lossdial.data.readers.tables import read_table
from lossdial_studies.data_sets.dataset import ImageDataSet, Listing, PaperCounts
from lossdial_studies.data_sets.fingerprints import pixel_groups
from lossdial_studies.data_sets.mosaics import read_mosaic_set

SUFFIXES = {".jpg", ".jpeg", ".png"}
MOSAIC_SIZE = 64


@dataclass(frozen=True, kw_only=True)
class DogsVsCats(ImageDataSet):
    """Kaggle's training folder: `dog.0.jpg` … and `cat.0.jpg` …; the class is in the name."""

    folder: str

    def present(self, root: str | Path) -> bool:
        return (Path(root) / self.folder).is_dir()

    def files(self, root: Path) -> tuple[Path, ...]:
        return tuple(find_images(root / self.folder).values())

    def listing(self, root: Path, size: int | None, workers: int | None) -> Listing:  # noqa: ARG002 (decoded later)
        label = {self.majority: 0, self.minority: 1}
        named = [(stem.split("."), path) for stem, path in sorted(find_images(root / self.folder).items())]
        # Kaggle's own test folder beside it holds bare numbers, without a class.
        chosen = [(label[parts[0]], path) for parts, path in named if parts[0] in label and len(parts) == 2]
        return Listing(y=np.array([y for y, _ in chosen], dtype=np.int64), images=tuple(path for _, path in chosen))


@dataclass(frozen=True, kw_only=True)
class _TableOfImages(ImageDataSet):
    """A folder with a table and the images that it lists, or sheets of small images that stand in for them."""

    folder: str
    table: str
    mosaic: str

    def present(self, root: str | Path) -> bool:
        sheets = (Path(root) / f"{self.mosaic}_meta.npz", Path(root) / f"{self.mosaic}_0.webp")
        return self._table(Path(root)).is_file() or all(sheet.is_file() for sheet in sheets)

    def files(self, root: Path) -> tuple[Path, ...]:
        if self._table(root).is_file():
            return (self._table(root), *find_images(root / self.folder).values())
        return (root / f"{self.mosaic}_meta.npz", *root.glob(f"{self.mosaic}_*.webp"))

    def _table(self, root: Path) -> Path:
        return root / self.folder / self.table

    def _sheets(self, root: Path, size: int | None) -> tuple[NDArray[np.uint8], dict[str, NDArray[Any]]]:
        if size not in (None, MOSAIC_SIZE):
            at = f"{self.name} is in {root} at {MOSAIC_SIZE} px only; got size={size}"
            raise ValueError(f"{at}. {self.how_to_get(root)}")
        return read_mosaic_set(root, self.mosaic, MOSAIC_SIZE)


@dataclass(frozen=True, kw_only=True)
class Aptos(_TableOfImages):
    """APTOS 2019: grade 0 against grades 1-4, split grade by grade with copies of an image on one side."""

    def listing(self, root: Path, size: int | None, workers: int | None) -> Listing:
        if self._table(root).is_file():
            table = _read(self._table(root), ["id_code", "diagnosis"])
            paths = _paths(root / self.folder, table["id_code"])
            decoded = decode_images(paths, size or self.image_size, workers=workers)
            grades = table["diagnosis"].to_numpy(dtype=np.int64)[decoded.kept]
            images, groups = decoded.x, pixel_groups(decoded.x)
        else:
            images, meta = self._sheets(root, size)
            grades, groups = meta["y"].astype(np.int64), meta["pixel_md5"]
        return Listing(y=(grades > 0).astype(np.int64), images=images, strata=grades, groups=groups)


@dataclass(frozen=True, kw_only=True)
class Ham10000(_TableOfImages):
    """HAM10000: melanoma against the six other diagnoses, images of one lesion on one side."""

    def listing(self, root: Path, size: int | None, workers: int | None) -> Listing:  # noqa: ARG002 (decoded later)
        images: NDArray[np.uint8] | tuple[Path, ...]
        if self._table(root).is_file():
            table = _read(self._table(root), ["lesion_id", "image_id", "dx"])
            images = _paths(root / self.folder, table["image_id"])
            diagnosis, lesions = table["dx"].to_numpy(dtype=np.str_), table["lesion_id"].to_numpy(dtype=np.str_)
        else:
            images, meta = self._sheets(root, size)
            diagnosis, lesions = meta["dx_classes"][meta["y"]], meta["lesion_id"]
        return Listing(y=(diagnosis == "mel").astype(np.int64), images=images, strata=diagnosis, groups=lesions)


@dataclass(frozen=True, kw_only=True)
class Melanoma(ImageDataSet):
    """SIIM-ISIC 2020 with ISIC 2019: melanoma against the rest; a patient (2020) or lesion (2019) on one side.

    Where ISIC's list of duplicate images of 2020 is present, patients who share an image are kept together.
    """

    folder_2020: str
    folder_2019: str

    def present(self, root: str | Path) -> bool:
        return self._table_2020(Path(root)) is not None and self._truth_2019(Path(root)).is_file()

    def files(self, root: Path) -> tuple[Path, ...]:
        folders = (root / self.folder_2020, root / self.folder_2019)
        return tuple(path for folder in folders for path in (*folder.glob("*.csv"), *find_images(folder).values()))

    def listing(self, root: Path, size: int | None, workers: int | None) -> Listing:  # noqa: ARG002 (decoded later)
        y_2020, groups_2020, names_2020 = self._read_2020(root)
        y_2019, groups_2019, names_2019 = self._read_2019(root)
        paths = (*_paths(root / self.folder_2020, names_2020), *_paths(root / self.folder_2019, names_2019))
        return Listing(
            y=np.concatenate([y_2020, y_2019]), images=paths, groups=np.concatenate([groups_2020, groups_2019])
        )

    def _table_2020(self, root: Path) -> Path | None:
        names = ("ISIC_2020_Training_GroundTruth_v2.csv", "ISIC_2020_Training_GroundTruth.csv", "train.csv")
        return next((p for name in names if (p := root / self.folder_2020 / name).is_file()), None)

    def _truth_2019(self, root: Path) -> Path:
        return root / self.folder_2019 / "ISIC_2019_Training_GroundTruth.csv"

    def _read_2020(self, root: Path) -> tuple[NDArray[np.int64], NDArray[np.str_], pd.Series[str]]:
        path = self._table_2020(root) or root / self.folder_2020 / "train.csv"
        table = _read(path, ["image_name", "patient_id", "target"])
        # A missing patient is a patient of its own.
        patients = table["patient_id"].fillna(table["image_name"]).to_numpy(dtype=np.str_)
        listed = root / self.folder_2020 / "ISIC_2020_Training_Duplicates.csv"
        if listed.is_file():
            pairs = _read(listed, ["image_name_1", "image_name_2"])
            patients = _joined(patients, table["image_name"], pairs)
        return table["target"].to_numpy(dtype=np.int64), patients, table["image_name"]

    def _read_2019(self, root: Path) -> tuple[NDArray[np.int64], NDArray[np.str_], pd.Series[str]]:
        truth = _read(self._truth_2019(root), ["image", "MEL"])
        path = root / self.folder_2019 / "ISIC_2019_Training_Metadata.csv"
        if path.is_file():
            lesions = truth["image"].map(_read(path, ["image", "lesion_id"]).set_index("image")["lesion_id"])
        else:
            warn(f"{path} is not there: images of one lesion cannot be kept together")
            lesions = pd.Series(np.nan, index=truth.index, dtype=object)
        groups = lesions.fillna(truth["image"]).to_numpy(dtype=np.str_)
        return (truth["MEL"] > 0.5).to_numpy().astype(np.int64), groups, truth["image"]


def find_images(folder: Path) -> dict[str, Path]:
    """Image files at any depth below `folder`, by their name without suffix."""
    return {path.stem: path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES}


def _paths(folder: Path, names: pd.Series[str]) -> tuple[Path, ...]:
    images = find_images(folder)
    absent = [name for name in names if name not in images]
    if absent:
        shown = ", ".join(absent[:3])
        raise FileNotFoundError(
            f"{len(absent):,} of {len(names):,} images that the table lists are not below {folder}, "
            f"for example {shown}; unpack all image archives into it"
        )
    return tuple(images[name] for name in names)


def _read(path: Path, columns: list[str]) -> pd.DataFrame:
    table = read_table(path)
    for column in columns:
        if column not in table:
            raise ValueError(f"{path} has no column {column!r}; {closest(column, table.columns)}")
    return table


def _joined(patients: NDArray[np.str_], names: pd.Series[str], pairs: pd.DataFrame) -> NDArray[np.str_]:
    """Groups in which two images of a pair are together."""
    first, second = pairs["image_name_1"], pairs["image_name_2"]
    links = [f"pair {k}" for k in range(len(pairs))]
    groups = np.asarray(join_groups([*names, *first, *second], [*patients, *links, *links]))
    return pd.Series(patients).groupby(groups[: len(names)]).transform("min").to_numpy(dtype=np.str_)


DOGS_VS_CATS = DogsVsCats(
    name="dogs-vs-cats",
    majority="dog",
    minority="cat",
    image_size=224,
    n_images=25_000,
    source="Kaggle",
    address="https://www.kaggle.com/c/dogs-vs-cats",
    licence="terms of the competition",
    folder="dogs-vs-cats",
    to_get="Download https://www.kaggle.com/c/dogs-vs-cats/data and unpack its train.zip (dog.0.jpg, cat.0.jpg, …) "
    "into {root}/dogs-vs-cats",
    test_share=(Fraction(1000, 12500), Fraction(1000, 12500)),
    paper=PaperCounts(11500, ((10, 1500), (100, 150), (200, 75)), 1000, 1000),
)

APTOS = Aptos(
    name="aptos",
    majority="no retinopathy",
    minority="retinopathy",
    image_size=256,
    n_images=3_662,
    source="Kaggle",
    address="https://www.kaggle.com/c/aptos2019-blindness-detection",
    licence="terms of the competition",
    folder="aptos2019-blindness-detection",
    table="train.csv",
    mosaic="aptos2019_64",
    to_get="Download https://www.kaggle.com/c/aptos2019-blindness-detection/data and unpack train.csv and "
    "train_images/ into {root}/aptos2019-blindness-detection",
    default_beta=200,
    paper=PaperCounts(1444, ((10, 144), (100, 14), (200, 7)), 361, 370),
)

HAM10000 = Ham10000(
    name="ham10000-melanoma",
    majority="other lesion",
    minority="melanoma",
    image_size=224,
    n_images=10_015,
    source="Tschandl et al. 2018",
    address="https://doi.org/10.7910/DVN/DBW86T",
    licence="CC BY-NC 4.0",
    folder="ham10000",
    table="HAM10000_metadata.csv",
    mosaic="ham10000_64",
    to_get="Download https://doi.org/10.7910/DVN/DBW86T and unpack HAM10000_metadata.csv and both parts of the images "
    "into {root}/ham10000",
)

MELANOMA = Melanoma(
    name="melanoma",
    majority="other lesion",
    minority="melanoma",
    image_size=256,
    n_images=58_457,
    source="ISIC 2020 + 2019",
    address="https://challenge.isic-archive.com/data",
    licence="CC BY-NC 4.0",
    folder_2020="siim-isic-2020",
    folder_2019="isic-2019",
    to_get="From https://challenge.isic-archive.com/data (or Kaggle's siim-isic-melanoma-classification) unpack the "
    "2020 training JPEGs and their table into {root}/siim-isic-2020, and the 2019 training images with "
    "ISIC_2019_Training_GroundTruth.csv and ISIC_2019_Training_Metadata.csv into {root}/isic-2019",
    default_beta=200,
    # The paper's 80/20 split, to the image: 12,300 of 53,351 and 1,035 of 5,106 are for test.
    test_share=(Fraction(12300, 53351), Fraction(1035, 5106)),
    paper=PaperCounts(41051, ((10, 4105), (100, 410), (200, 205)), 12300, 1035),
)
