"""Loaders of real data sets with selection bias, and of the data sets of the paper.

The package contains no data, because licences are unknown or incompatible. A loader looks for its
file in `data_home`, else in the directory named by the environment variable UNSKEW_DATA, else in
the user's cache directory (see `get_data_home`). A missing file is downloaded from its public
source if there is one. The SHA-256 of the contents is checked on every load.

Every loader returns a Bunch with

    data            array, or DataFrame for tables
    target          integer classes 0, 1, ..., or None
    feature_names, target_names
    sample_weight   true inverse-selection weights, or None
    suspect         nuisance (batch) variable through which the bias came in, one value per row,
                    or None
    suspect_name    its name, or None
    frame           the whole table as a DataFrame, or None
    DESCR, filename
"""

import gzip
import hashlib
import io
import os
import sys
import zlib
from collections import namedtuple
from pathlib import Path

import numpy as np
from scipy.io import loadmat
from sklearn.utils import Bunch

__all__ = [
    "PAPER_NAMES",
    "SITE_NAMES",
    "ChecksumError",
    "get_data_home",
    "load_nass_cds",
    "load_nhanes",
    "load_paper",
    "load_sites",
    "load_surf",
]

PAPER_NAMES = ("amazon", "caltech", "dslr", "webcam", "OH1", "OH2", "OH3")
SITE_NAMES = ("penguins", "cell_lines", "rna_mixtures", "three_platforms", "vowels", "heart")
DOMAINS = ("amazon", "caltech", "dslr", "webcam")
# Alphabetical order in both sources; the class sizes of the two codings agree.
OFFICE_CLASSES = [
    "backpack", "bike", "calculator", "headphones", "keyboard",
    "laptop", "monitor", "mouse", "mug", "projector",
]  # fmt: skip

# sha256: of the decompressed contents, so that it does not depend on the compression. More than
# one if public copies differ in number formatting only (1990 for 1990.0).
# url: a fixed commit of a copy whose checksum was verified; None if there is none.
_File = namedtuple("_File", "path sha256 source url")

_RAW = "https://raw.githubusercontent.com/"
_PAPER_SOURCE = "github.com/BUPT-GAMMA/IJCAI2020-DCKM, folder data; no licence stated"
_SURF_SOURCE = (
    "Gong et al. 2012, copy in github.com/LeoGautheron/OfficeCaltechDomainAdaptation, "
    "folder features/surf (caltech10.mat there is caltech.mat here)"
)
_PAPER_URL = _RAW + "BUPT-GAMMA/IJCAI2020-DCKM/ccd014fb3fea40cf0f77050d32491fd67b7499b7/data/"
_SURF_URL = (
    _RAW + "LeoGautheron/OfficeCaltechDomainAdaptation/"
    "0bcf68398284dbef34b04b70e5b897815b11147b/features/surf/"
)

_PAPER_SHA256 = {
    "amazon": "998a4d498bef32296172866687a304f09709b424b4a90500f3f858303c5e181b",
    "caltech": "73a34883065a784108fb0dfa59ff6345d3293532337536183e836d2523e2b0d0",
    "dslr": "244832dc3d432a840d7ba65a2a566a8029289aecc7825d2e9190e35cd8119f4e",
    "webcam": "324430c6765d744be9f496828c6057d3a656c70d8852393fa8c29c50cf2294f7",
    "OH1": "a9a3e95f589e5035aa5bd5e78b66634b6a402d0ff7bf920263dbb226872f5393",
    "OH2": "42a1d81f988cf5305f72042961c60b1d13bf5963e9f6c2a8ffae60fb496664b4",
    "OH3": "9a0ca548f2d5536d018e3c5f90a6e98072d661b4f53013734069313dde1682e9",
}
_SURF_SHA256 = {
    "amazon": "df32548b994e18d364c99e1f317e1fae100597259f0423a41b90f4f68187bb1f",
    "caltech": "4f9334c8ced489d5054de97a5fd51a61f017f3bcd1f38c9a85c6d78cb9d7bda5",
    "dslr": "44d673c68e1d07b837893aa74dba3b986e4a6cc3fd66f0dd357683bdef059216",
    "webcam": "a6a9c78b4b7181dfbb58bcfd351d4ebd737f171c31247b8884948aa156d3f700",
}

_FILES = {
    f"paper/{name}": _File(f"paper/{name}.mat", (sha,), _PAPER_SOURCE, f"{_PAPER_URL}{name}.mat")
    for name, sha in _PAPER_SHA256.items()
}
_FILES |= {
    f"surf/{name}": _File(
        f"surf/{name}.mat",
        (sha,),
        _SURF_SOURCE,
        f"{_SURF_URL}{'caltech10' if name == 'caltech' else name}.mat",
    )
    for name, sha in _SURF_SHA256.items()
}
_FILES |= {
    "NHANESraw": _File(
        "NHANESraw.csv.gz",
        ("f325a1ef2991e524585bb545eb124dbf7918adb3441f078d85e019f2a5b4150f",),
        "CDC, NHANES 2009-12, as table NHANESraw of the R package NHANES "
        "(github.com/ProjectMOSAIC/NHANES, data/NHANESraw.rda, written as csv)",
        None,
    ),
    "NHANES_resampled": _File(
        "NHANES_resampled.csv.gz",
        ("e421689454e48befa734a110ab99d22ade6ac6b4d0584c4d5998190a6887bf45",),
        "CDC, NHANES 2009-12, as table NHANES of the R package NHANES "
        "(github.com/ProjectMOSAIC/NHANES, data-raw/NHANES.csv)",
        _RAW + "ProjectMOSAIC/NHANES/f076c4a65aff01dbc1fdca5fe89d2bd65324df5c/data-raw/NHANES.csv",
    ),
    "nassCDS": _File(
        "nassCDS.csv.gz",
        (
            "0ae0d911a38dfbe2b119a9549029c151a7e0c1c3185833b1c71e8af02145d161",
            "33d6f4a2d32e32153817f8df338757c74469b1168b496261313b18422adeadc3",
        ),
        "table nassCDS of the R package DAAG "
        "(github.com/vincentarelbundock/Rdatasets, csv/DAAG/nassCDS.csv)",
        _RAW + "vincentarelbundock/Rdatasets/1dcc2bf5f955cc1224a3e1307256e1fe86b68dae/"
        "csv/DAAG/nassCDS.csv",
    ),
}
# Only the penguins have a url: the originals of the others are in other formats (R data, counts).
_FILES |= {
    f"sites/{name}": _File(f"sites/{file}", tuple(sha.split()), source, url)
    for name, file, sha, source, url in (
        (
            "penguins",
            "penguins.csv",
            "f2d6493fc64ad958edbabd55eb0fc989af2c5a0458a2c79ccffe7985606feb60 "
            "f204db2c753b0937caac3cb35258562c14f073e4bbc76be24b4c51ce22767a93",
            "palmerpenguins (Horst, Hill, Gorman 2020, github.com/allisonhorst/palmerpenguins), "
            "CC0",
            _RAW + "allisonhorst/palmerpenguins/8957207b78d6ccd1b4654a9dd9c9041b657478ab/"
            "inst/extdata/penguins.csv",
        ),
        (
            "cell_lines",
            "harmony_cell_lines.csv.gz",
            "e0ea8ebf63eec359b541783d89dc8eb7f73bd47797252d3493b64afe748b127f",
            "example data of the R package harmony (github.com/immunogenomics/harmony, GPL-3; "
            "measurements 10x Genomics, CC BY 4.0), written as csv",
            None,
        ),
        (
            "rna_mixtures",
            "scmix_rnamix.csv.gz",
            "c0dee98757a31b335271516020111e975ecf89861b7b7cb7e5f72e059befc0bf",
            "RNA mixtures of Tian et al. 2019 (github.com/LuyiTian/sc_mixology), MIT; 500 genes, "
            "log-normalised, written as csv",
            None,
        ),
        (
            "three_platforms",
            "scmix_3lines_3platforms.csv.gz",
            "ca1f52c41db3cd12027d8fe5cdd4e01f57fc1ffd1332ce9ca99f2e320450c6bf",
            "three cell lines of Tian et al. 2019 (github.com/LuyiTian/sc_mixology and "
            "github.com/PYangLab/Cepo), MIT; 889 genes, log-normalised, written as csv",
            None,
        ),
        (
            "vowels",
            "uci_vowel_speakers.csv",
            "ee7e29067a7f24a3727f2e5180f86cbe50761e0f6c4a8eaf8d99897892710fc8",
            "UCI Machine Learning Repository 152 (Deterding), CC BY 4.0",
            None,
        ),
        (
            "heart",
            "uci_heart_four_sites.csv",
            "e2f102f48643abf7d16e2d0ce0a0b2c2320f10b0b4eec5d528638eb204a7d3b2",
            "UCI Machine Learning Repository 45 (Janosi, Steinbrunn, Pfisterer, Detrano), "
            "CC BY 4.0",
            None,
        ),
    )
}

# name -> features (names, a prefix, or None for all other columns), suspects, target, description.
_PENGUIN_COLUMNS = ("bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g")
_SITES = {
    "penguins": (
        _PENGUIN_COLUMNS,
        ("island",),
        "species",
        "Palmer penguins, four measurements in mm and g (two birds without measurements are left "
        "out); one species is on all three islands, the two others on one each.",
    ),
    "cell_lines": (
        "X",
        ("dataset",),
        "cell_type",
        "Cells of two lines, 20 principal components of their expression; two data sets have one "
        "line each, the third has both.",
    ),
    "rna_mixtures": (
        None,
        ("protocol",),
        "mix",
        "RNA of three cell lines in seven mixtures by design, log-expression, two protocols.",
    ),
    "three_platforms": (
        None,
        ("platform",),
        "cell_line",
        "Cells of three lines (known by genotype), log-expression, three platforms.",
    ),
    "vowels": (
        "x",
        ("speaker", "sex"),
        "vowel",
        "Eleven vowels by 15 speakers, ten log area ratios; exactly six rows per speaker and "
        "vowel, so that any selection has known weights.",
    ),
    "heart": (
        ("age", "sex", "cp", "trestbps", "chol", "fbs", "restecg", "thalach", "exang", "oldpeak",
         "slope", "ca", "thal"),
        ("site",),
        "disease",
        "Heart disease in four hospitals, numbers and categories with missing values.",
    ),
}  # fmt: skip
# Codes of the heart data, as documented at UCI. "no" and "yes" for 0 and 1.
_HEART_CODES = {
    "sex": {0: "female", 1: "male"},
    "cp": {1: "typical angina", 2: "atypical angina", 3: "other pain", 4: "no pain"},
    "fbs": {0: "no", 1: "yes"},
    "restecg": {0: "normal", 1: "ST-T abnormal", 2: "hypertrophy"},
    "exang": {0: "no", 1: "yes"},
    "slope": {1: "up", 2: "flat", 3: "down"},
    "thal": {3: "normal", 6: "fixed defect", 7: "reversible defect"},
}


class ChecksumError(OSError):
    """The checksum of a data file differs from the expected one."""


def get_data_home(data_home=None):
    """Directory in which data files are looked up and stored, as a Path.

    `data_home` if given, else the environment variable UNSKEW_DATA, else `unskew` in the user's
    cache directory. It may not exist yet.

    Parameters
    ----------
    data_home : str or Path, default=None
        A directory.

    Returns
    -------
    Path

    Examples
    --------
    >>> from unskew.datasets import get_data_home
    >>> get_data_home("somewhere").name
    'somewhere'
    """
    chosen = data_home or os.environ.get("UNSKEW_DATA")
    if chosen:
        return Path(chosen).expanduser()
    # Equals pooch.os_cache("unskew"), without requiring pooch for existing files.
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
        return Path(local) / "unskew" / "unskew" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "unskew"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "unskew"


def load_paper(name, *, data_home=None, download_if_missing=True):
    """Load one of the seven data sets of the DCKM paper: images as visual words, coded -1/+1.

    The data are n x 800, +1 if a visual word occurs in the image and -1 if not; `data > 0` is the
    0/1 coding. There are ten classes. Each data set has its own vocabulary, so they cannot be
    pooled; see `load_surf`. No bias is known in these data.

    Parameters
    ----------
    name : {"amazon", "caltech", "dslr", "webcam", "OH1", "OH2", "OH3"}
        A domain of Office-Caltech-10 (n = 958, 1123, 157, 295) or a subset of Office-Home (640,
        678, 681).
    data_home : str or Path, default=None
        Directory of the files; see `get_data_home`. The file is `paper/<name>.mat`.
    download_if_missing : bool, default=True
        Whether to download a missing file (needs unskew[data]).

    Returns
    -------
    Bunch, see the module docstring; `target_names` are known for Office-Caltech-10 only.

    Examples
    --------
    >>> from unskew.datasets import load_paper
    >>> load_paper("amazon").data.shape  # doctest: +SKIP
    (958, 800)
    """
    if name not in PAPER_NAMES:
        raise ValueError(f"name={name!r} should be one of {list(PAPER_NAMES)}")
    content, path = _read(f"paper/{name}", data_home, download_if_missing)
    matrices = loadmat(io.BytesIO(content), variable_names=["X_train", "label"])
    office = name in DOMAINS
    return _bunch(
        data=matrices["X_train"].astype(np.float64),
        target=matrices["label"].ravel().astype(np.intp) - 1,
        feature_names=_words(800),
        target_names=list(OFFICE_CLASSES) if office else [f"class_{c}" for c in range(10)],
        DESCR=f"{'Office-Caltech-10' if office else 'Office-Home'}, {name}: 800 visual words "
        f"coded -1/+1, as published with DCKM (IJCAI 2020). Source: {_PAPER_SOURCE}.",
        filename=str(path),
    )


def load_surf(*, data_home=None, download_if_missing=True):
    """Load Office-Caltech-10 with one vocabulary: counts of 800 visual words, four domains pooled.

    2533 images of ten classes from amazon, caltech, dslr and webcam. The domain is a known
    spurious attribute that affects every column. The strength of its association with the class
    can be set with `unskew.simulate.select_with_bias(data, target, domain, strength)`.

    Parameters
    ----------
    data_home : str or Path, default=None
        Directory of the files; see `get_data_home`. The files are `surf/<domain>.mat`.
    download_if_missing : bool, default=True
        Whether to download missing files (needs unskew[data]).

    Returns
    -------
    Bunch, see the module docstring; `suspect` is the domain (not a column of `data`), also
    available as `domain`. `filename` is the list of the four files.

    Examples
    --------
    >>> from unskew.datasets import load_surf
    >>> load_surf().data.shape  # doctest: +SKIP
    (2533, 800)
    """
    data, target, paths = [], [], []
    for domain in DOMAINS:
        content, path = _read(f"surf/{domain}", data_home, download_if_missing)
        matrices = loadmat(io.BytesIO(content), variable_names=["fts", "labels"])
        data.append(matrices["fts"].astype(np.float64))
        target.append(matrices["labels"].ravel().astype(np.intp) - 1)
        paths.append(str(path))
    domains = np.repeat(DOMAINS, [len(labels) for labels in target])
    return _bunch(
        data=np.vstack(data),
        target=np.concatenate(target),
        feature_names=_words(800),
        target_names=list(OFFICE_CLASSES),
        suspect=domains,
        suspect_name="domain",
        domain=domains,
        DESCR="Office-Caltech-10, counts of 800 SURF visual words, four domains pooled. "
        f"Source: {_SURF_SOURCE}.",
        filename=paths,
    )


def load_nhanes(*, resampled=False, data_home=None, download_if_missing=True):
    """Load the US health survey 2009-12: minorities oversampled by design, with true weights.

    20,293 people with mixed columns and missing values, and the weights that represent the
    population; or, resampled, 10,000 rows drawn from the same survey to match the population: the
    unbiased counterpart, without weights. `data` has the same columns, order and categories in
    both, so that a model fitted to one can predict the other.

    Parameters
    ----------
    resampled : bool, default=False
        Whether to load the unbiased counterpart.
    data_home : str or Path, default=None
        Directory of the files; see `get_data_home`. The file is `NHANESraw.csv.gz` or
        `NHANES_resampled.csv.gz`, or the same decompressed.
    download_if_missing : bool, default=True
        Whether to download a missing file (needs unskew[data]). No public CSV copy of the raw
        table is known, so that file has to be provided by the user.

    Returns
    -------
    Bunch, see the module docstring. `sample_weight` is WTMEC2YR, the weight of the medical
    examination: 0 for people who were interviewed only. `suspect` is Race1, also a column of
    `data`. `frame` has identifiers, weights and design columns (SDMVPSU, SDMVSTRA) as well.

    Examples
    --------
    >>> from unskew.datasets import load_nhanes
    >>> load_nhanes().frame.shape  # doctest: +SKIP
    (20293, 79)
    """
    key = "NHANES_resampled" if resampled else "NHANESraw"
    frame, path = _read_table(key, data_home, download_if_missing)
    if resampled:
        # Use the spelling of the raw table; the common columns do not differ otherwise.
        frame = frame.replace(
            {
                "Education": {
                    "8thGrade": "8th Grade",
                    "9_11thGrade": "9 - 11th Grade",
                    "HighSchool": "High School",
                    "SomeCollege": "Some College",
                    "CollegeGrad": "College Grad",
                },
                "BMICatUnder20yrs": {
                    "a_UnderWeight": "UnderWeight",
                    "b_NormWeight": "NormWeight",
                    "c_OverWeight": "OverWeight",
                    "d_Obese": "Obese",
                },
            }
        )
    # Not features: identifiers, the design, duplicates (Sex of Gender, AgeDecade of Age, Smoke100n
    # of Smoke100), and PregnantNow, which is missing in the resampled table.
    not_features = {
        "ID", "WTINT2YR", "WTMEC2YR", "SDMVPSU", "SDMVSTRA",
        "Sex", "AgeDecade", "Smoke100n", "PregnantNow",
    }  # fmt: skip
    columns = sorted(set(frame.columns) - not_features)
    return _bunch(
        data=frame[columns],
        feature_names=columns,
        sample_weight=None if resampled else frame["WTMEC2YR"].to_numpy(np.float64),
        suspect=frame["Race1"].to_numpy(),
        suspect_name="Race1",
        frame=frame,
        DESCR=f"US National Health and Nutrition Examination Survey 2009-12, "
        f"{'resampled to the population' if resampled else 'raw, with design weights'}. "
        f"Source: {_FILES[key].source}.",
        filename=str(path),
    )


def load_nass_cds(*, data_home=None, download_if_missing=True):
    """Load US car crashes 1997-2002: severe crashes oversampled, with true weights.

    26,217 front-seat occupants. Unweighted death rates are several times too high, because severe
    crashes were more likely to be recorded.

    Parameters
    ----------
    data_home : str or Path, default=None
        Directory of the files; see `get_data_home`. The file is `nassCDS.csv.gz`, or the same
        decompressed.
    download_if_missing : bool, default=True
        Whether to download a missing file (needs unskew[data]).

    Returns
    -------
    Bunch, see the module docstring. `sample_weight` is the inverse sampling rate (212 are
    0), `target` is 1 for the dead, `suspect` is dvcat, the class of impact speed, also a column of
    `data`. `data` excludes the outcome of the crash (dead, injSeverity).

    Examples
    --------
    >>> from unskew.datasets import load_nass_cds
    >>> load_nass_cds().frame.shape  # doctest: +SKIP
    (26217, 16)
    """
    frame, path = _read_table("nassCDS", data_home, download_if_missing)
    left_out = {"rownames", "weight", "dead", "injSeverity", "caseid"}
    columns = [c for c in frame.columns if c not in left_out]
    return _bunch(
        data=frame[columns],
        target=(frame["dead"] == "dead").to_numpy(np.intp),
        feature_names=columns,
        target_names=["alive", "dead"],
        sample_weight=frame["weight"].to_numpy(np.float64),
        suspect=frame["dvcat"].to_numpy(),
        suspect_name="dvcat",
        frame=frame,
        DESCR="Front-seat occupants in US police-reported car crashes 1997-2002 (NASS CDS), with "
        f"inverse sampling rates. Source: {_FILES['nassCDS'].source}.",
        filename=str(path),
    )


def load_sites(name, *, suspect=None, data_home=None, download_if_missing=True):
    """Load one of six data sets whose rows come from several sites (batches), with known groups.

    The site (island, batch, protocol, platform, speaker, hospital) affects the columns or is
    associated with the groups, or both. See `unskew.simulate.select_by_site` for a selection of
    any strength with known weights.

    Parameters
    ----------
    name : {"penguins", "cell_lines", "rna_mixtures", "three_platforms", "vowels", "heart"}
        342 x 4, 2370 x 20, 636 x 500, 1394 x 889, 990 x 10 and 920 x 13.
    suspect : str, default=None
        Name of the nuisance (batch) variable; None means the usual one: island, dataset, protocol,
        platform, speaker, site. For the vowels "sex" is another.
    data_home : str or Path, default=None
        Directory of the files; see `get_data_home`. The files are in `sites/`.
    download_if_missing : bool, default=True
        Whether to download the penguins if they are missing (needs unskew[data]). Of the others no
        public copy in this form is known, so they have to be provided by the user.

    Returns
    -------
    Bunch, see the module docstring. `data` is an array; for "heart" a DataFrame with numbers,
    categories and missing values (a cholesterol or blood pressure of 0 is missing). The suspect is
    not a column of it. `target` are the groups: species, cell line, mixture, vowel, disease.

    Examples
    --------
    >>> from unskew.datasets import load_sites
    >>> load_sites("penguins").data.shape  # doctest: +SKIP
    (342, 4)
    """
    if name not in SITE_NAMES:
        raise ValueError(f"name={name!r} should be one of {list(SITE_NAMES)}")
    features, suspects, truth, about = _SITES[name]
    if suspect is None:
        suspect = suspects[0]
    if suspect not in suspects:
        raise ValueError(f"suspect={suspect!r} should be one of {list(suspects)} for {name!r}")
    frame, path = _read_table(f"sites/{name}", data_home, download_if_missing)
    if features is None:
        columns = [c for c in frame.columns if c not in (*suspects, truth)]
    elif isinstance(features, str):
        columns = [c for c in frame.columns if c.startswith(features)]
    else:
        columns = list(features)
    if name == "heart":
        data = frame[columns].replace({"chol": {0: np.nan}, "trestbps": {0: np.nan}})
        for column, words in _HEART_CODES.items():
            data[column] = data[column].map(words).astype("category")
    else:
        frame = frame.dropna(subset=columns).reset_index(drop=True)
        data = frame[columns].to_numpy(np.float64)
    target_names, target = np.unique(frame[truth].to_numpy().astype(str), return_inverse=True)
    return _bunch(
        data=data,
        target=target.astype(np.intp),
        feature_names=columns,
        target_names=target_names.tolist(),
        suspect=frame[suspect].to_numpy().astype(str),
        suspect_name=suspect,
        frame=frame,
        DESCR=f"{about} Source: {_FILES[f'sites/{name}'].source}.",
        filename=str(path),
    )


def _bunch(**given):
    empty = dict.fromkeys(
        ["target", "target_names", "sample_weight", "suspect", "suspect_name", "frame"]
    )
    return Bunch(**empty | given)


def _words(count):
    return [f"word_{j:03d}" for j in range(count)]


def _read_table(key, data_home, download_if_missing):
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("this data set needs pandas: pip install 'unskew[data]'") from error
    content, path = _read(key, data_home, download_if_missing)
    # "None" is an answer in NHANES (days depressed); by default pandas reads it as missing.
    frame = pd.read_csv(
        io.BytesIO(content),
        keep_default_na=False,
        na_values=["", "NA"],
        skipinitialspace=True,
        low_memory=False,
    )
    return frame, path


def _read(key, data_home, download_if_missing):
    """Verified, decompressed contents of a data file, and its path."""
    file = _FILES[key]
    packed = get_data_home(data_home) / file.path
    unpacked = packed.with_suffix("") if packed.suffix == ".gz" else packed
    path = next((p for p in (packed, unpacked) if p.is_file()), None)
    if path is None:
        path = unpacked
        _fetch(file, packed, unpacked, download_if_missing)
    content = path.read_bytes()
    if path.suffix == ".gz":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise ChecksumError(f"{path} is not a complete gzip file: {error}") from error
    found = hashlib.sha256(content).hexdigest()
    if found not in file.sha256:
        raise ChecksumError(
            f"{path} has SHA-256 {found} but should have {' or '.join(file.sha256)}"
            f"{' (decompressed)' if path.suffix == '.gz' else ''}. Replace it; source: "
            f"{file.source}"
        )
    return content, path


def _fetch(file, packed, target, download_if_missing):
    """Download to `target`, or raise an error with instructions."""
    advice = (
        f"Put {packed.name} there, or set data_home or the environment variable UNSKEW_DATA to "
        f"the directory that has {file.path}. Source: {file.source}"
    )
    if file.url is None:
        raise FileNotFoundError(
            f"{packed} does not exist and no public copy with its checksum is known. {advice}"
        )
    if not download_if_missing:
        raise FileNotFoundError(f"{packed} does not exist. {advice}")
    try:
        import pooch
    except ImportError as error:
        raise ImportError(
            f"{packed} does not exist and its download needs pooch: pip install 'unskew[data]'. "
            f"{advice}"
        ) from error
    try:
        # The last checksum is that of the public copy.
        pooch.retrieve(file.url, f"sha256:{file.sha256[-1]}", target.name, target.parent)
    except (OSError, ValueError) as error:
        raise FileNotFoundError(
            f"{packed} does not exist and {file.url} could not be downloaded ({error}). {advice}"
        ) from error
