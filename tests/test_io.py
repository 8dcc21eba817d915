"""Files: every format in, whole files out, errors that name file, place and rule."""

import csv
import datetime
import gzip
import io
import os
import stat
import sys
import tomllib
import zipfile
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import given, settings

from unskew import _io
from unskew._io import FileError, Outputs, read_table, same_file, table_bytes, write_atomic

pl = pytest.importorskip("polars")


def put(folder: Path, name: str, content) -> Path:
    path = folder / name
    if isinstance(content, str):
        content = content.encode()
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


def rows(path, **options):
    return read_table(path, **options).data.rows()


FRAME = {
    "age": [34, None, 7],
    "bmi": [20.5, 31.0, None],
    "site": ["A", "B", None],
    "ok": [True, False, None],
    "day": [datetime.date(2024, 1, 31), None, datetime.date(2020, 2, 29)],
}


def write_frame(path: Path) -> None:
    frame = pl.DataFrame(FRAME)
    buffer = io.BytesIO()
    name = path.name.removesuffix(".gz")
    if name.endswith(".csv"):
        frame.write_csv(buffer)
    elif name.endswith(".tsv"):
        frame.write_csv(buffer, separator="\t")
    elif name.endswith("jsonl"):
        frame.write_ndjson(buffer)
    elif name.endswith("parquet"):
        frame.write_parquet(buffer)
    elif name.endswith("stream.arrow"):
        frame.write_ipc_stream(buffer)
    else:
        frame.write_ipc(buffer)
    content = buffer.getvalue()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


@pytest.mark.parametrize(
    "name",
    ["a.csv", "a.csv.gz", "a.tsv", "a.tsv.gz", "a.jsonl", "a.jsonl.gz", "a.parquet", "a.feather",
     "a.arrow", "stream.arrow", "A.CSV"],
)  # fmt: skip
def test_every_table_format_gives_the_same_table(tmp_path, name):
    write_frame(tmp_path / name.lower())
    if name != name.lower():
        (tmp_path / name.lower()).rename(tmp_path / name)
    table = read_table(tmp_path / name)
    assert table.data.to_dict(as_series=False) == FRAME
    assert table.names == tuple(FRAME)
    assert len(table) == 3
    assert table.notes == ()


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "many.npz", "sparse.npz", "a.mat", "s.mat"])
def test_every_matrix_format_gives_the_same_matrix(tmp_path, name):
    X = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]])
    path = tmp_path / name
    if name == "a.npy":
        np.save(path, X)
    elif name == "a.npz":
        np.savez(path, X=X, labels=[1, 2])
    elif name == "many.npz":
        np.savez(path, X=X, Y=X + 1)
    elif name == "sparse.npz":
        sp.save_npz(path, sp.csc_array(X))
    elif name == "a.mat":
        scipy.io.savemat(path, {"X": X, "label": np.array([[1], [2]])})
    else:
        scipy.io.savemat(path, {"X": sp.csc_matrix(X)})
    table = read_table(path, variable="X" if name == "many.npz" else None)
    data = table.data.toarray() if sp.issparse(table.data) else table.data
    np.testing.assert_array_equal(data, X)
    assert table.names == ("c0", "c1", "c2")
    np.testing.assert_array_equal(table.column("c1"), [0, 3])
    chosen = table.select(["c2", "c0"])
    np.testing.assert_array_equal(chosen.toarray() if sp.issparse(chosen) else chosen, X[:, [2, 0]])


def test_svmlight_stays_sparse(tmp_path):
    path = put(tmp_path, "a.svmlight.gz", "1 1:2 3:1\n0 2:5\n")
    table = read_table(path)
    assert sp.issparse(table.data)
    np.testing.assert_array_equal(table.data.toarray(), [[2, 0, 1], [0, 5, 0]])


def test_size_and_sum_are_those_of_the_file_as_it_lies_there(tmp_path):
    import hashlib

    for name in ("a.csv.gz", "a.parquet"):
        write_frame(tmp_path / name)
        content = (tmp_path / name).read_bytes()
        table = read_table(tmp_path / name)
        assert table.size == len(content)
        assert table.sha256 == hashlib.sha256(content).hexdigest()


# -------------------------------------------------------------- statistics packages, Excel, zip


LABELS = {"sex": {1: "male", 2: "female"}, "income": {98: "unknown", 99: "refused"}}


@pytest.mark.parametrize("name", ["a.dta", "a.sav", "a.zsav", "a.xpt"])
def test_files_of_statistics_packages_have_their_labels_and_missing_values(tmp_path, name):
    package, pd = pytest.importorskip("pyreadstat"), pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {"sex": [1, 2, 2, None], "income": [10.5, 98, None, 20], "word": ["a", "", "c", "d"]}
    )
    if name == "a.xpt":
        package.write_xport(frame, tmp_path / name)
    elif name == "a.dta":
        package.write_dta(frame, tmp_path / name, variable_value_labels=LABELS)
    else:
        package.write_sav(
            frame,
            tmp_path / name,
            compress=name == "a.zsav",
            variable_value_labels=LABELS,
            missing_ranges={"income": [20]},
        )
    table = read_table(tmp_path / name)
    assert table.names == ("sex", "income", "word")
    assert table.data["word"].to_list() == ["a", None, "c", "d"]
    # A number of which few values have labels stays a number; SPSS declares 20 missing.
    last = 20 if name in ("a.dta", "a.xpt") else None
    assert table.data["income"].to_list() == [10.5, 98, None, last]
    if name == "a.xpt":  # which has no labels
        assert table.data["sex"].to_list() == [1, 2, 2, None]
        assert table.findings == ()
        return
    assert table.data["sex"].to_list() == ["male", "female", "female", None]
    (found,) = table.findings
    assert found[:2] == ("value labels", "income")
    assert found.text == f"{1 + (last == 20)} values without label; others: 98 'unknown'"


def put_excel(path, sheets, merged=()):
    """Write an Excel file of the rows of each sheet; None is an empty cell."""
    start = '<?xml version="1.0"?>'
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    main = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    package = "http://schemas.openxmlformats.org/package/2006"
    relation = '<Relationship Id="r{0}" Type="{1}" Target="{2}"/>'
    relations = f'{start}<Relationships xmlns="{package}/relationships">{{}}</Relationships>'
    kinds = "application/vnd.openxmlformats-officedocument.spreadsheetml."
    part = f'<Override PartName="/{{}}" ContentType="{kinds}{{}}+xml"/>'
    parts = part.format("xl/workbook.xml", "sheet.main")
    listed = linked = ""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for i, (name, rows) in enumerate(sheets.items(), 1):
            parts += part.format(f"xl/s{i}.xml", "worksheet")
            listed += f'<sheet name="{name}" sheetId="{i}" r:id="r{i}"/>'
            linked += relation.format(i, f"{office}/worksheet", f"s{i}.xml")
            cells = "".join(
                f'<row r="{at}">'
                + "".join(
                    f'<c r="{letter}{at}" t="inlineStr"><is><t>{cell}</t></is></c>'
                    if isinstance(cell, str)
                    else f'<c r="{letter}{at}"><v>{cell}</v></c>'
                    for letter, cell in zip("ABCDEFGH", row)
                    if cell is not None
                )
                + "</row>"
                for at, row in enumerate(rows, 1)
            )
            ranges = "".join(f'<mergeCell ref="{ref}"/>' for ref in merged)
            ranges = f"<mergeCells>{ranges}</mergeCells>" if merged else ""
            sheet = f"{start}<worksheet {main}><sheetData>{cells}</sheetData>{ranges}</worksheet>"
            archive.writestr(f"xl/s{i}.xml", sheet)
        archive.writestr("xl/workbook.xml", f'{start}<workbook {main} xmlns:r="{office}"><sheets>'
                         f"{listed}</sheets></workbook>")  # fmt: skip
        archive.writestr("xl/_rels/workbook.xml.rels", relations.format(linked))
        root = relation.format(1, f"{office}/officeDocument", "xl/workbook.xml")
        archive.writestr("_rels/.rels", relations.format(root))
        xml = '<Default Extension="{}" ContentType="application/{}xml"/>'
        types = xml.format("rels", "vnd.openxmlformats-package.relationships+") + xml.format(
            "xml", ""
        )
        archive.writestr(
            "[Content_Types].xml",
            f'{start}<Types xmlns="{package}/content-types">{types}{parts}</Types>',
        )
    return path


def test_excel(tmp_path):
    pytest.importorskip("fastexcel")
    rows = [["age", "site"], [34, "A"], [".", "B"], [7.5, "NA"]]
    sheets = {"People": rows, "Notes": [["x"], ["only"]]}
    path = put_excel(tmp_path / "a.xlsx", sheets)
    table = read_table(path)
    assert table.data.rows() == [(34, "A"), (None, "B"), (7.5, None)]
    assert table.findings == (("missing", "age", "'.' in 1 row"),)
    assert table.notes == (
        f"{path}: the first of its 2 sheets, 'People', is read; --variable names another: Notes",
    )
    assert read_table(path, variable="Notes").data.rows() == [("only",)]
    with pytest.raises(FileError, match="has no sheet 'Other'; it has People, Notes"):
        read_table(path, variable="Other")


@pytest.mark.parametrize(("above", "words"), [
    ([], ""),
    ([["Study of 2021"]], "the first row is above the names of the columns and left out"),
    ([["Study of 2021"], []], "the first 2 rows are above the names of the columns and left out"),
    ([[None, "values", None, "when"]], "the first row is above the names"),
])  # fmt: skip
def test_names_of_columns_of_a_sheet_may_follow_a_title(tmp_path, above, words):
    pytest.importorskip("fastexcel")
    rows = [["site", "x", None, "y"], ["a", 1.5, None, "n"], ["b", 2, None, "m"]]
    path = put_excel(tmp_path / "a.xlsx", {"s": [*above, *rows]})
    table = read_table(path)
    assert table.names == ("site", "x", "y")
    assert table.data.rows() == [("a", 1.5, "n"), ("b", 2.0, "m")]
    assert [words in note for note in table.notes] == [True] * len(above[:1])


def test_a_sheet_of_a_report_is_read_with_notes(tmp_path):
    pytest.importorskip("fastexcel")
    rows = [["site", "x"], ["a", 1], [None, 2], [None, None], ["b", "none yet"], [None, 4]]
    sheets = {"About": [["see data"]], "A &amp; B": rows}
    path = put_excel(tmp_path / "a.xlsx", sheets, merged=["A2:A3", "A1:B1"])
    with pytest.raises(FileError, match=r"'About' has no rows .*; --variable names another: A & B"):
        read_table(path)
    table = read_table(path, variable="A & B", missing=("none yet",))
    assert table.data.rows() == [("a", 1), (None, 2), ("b", None), (None, 4)]
    empty, merged = table.notes
    assert "rows without any value are left out: 1" in empty
    assert "cells of several rows are merged (A2:A3): the first row of each has" in merged


def put_zip(path, **members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "/", 1).replace("_", "."), content)
    return path


def test_a_zip_archive_of_one_table_is_that_table(tmp_path):
    csv_text = "a,b\n1,x\n2,y\n"
    path = put_zip(tmp_path / "a.zip", data__="", data__t_csv=csv_text, readme_txt="about")
    table = read_table(path)
    assert (table.data.rows(), table.format) == ([(1, "x"), (2, "y")], "csv")
    assert table.size == path.stat().st_size
    two = put_zip(tmp_path / "two.zip", a_csv=csv_text, b_csv="c\n1\n2\n")
    assert read_table(two, variable="b.csv").data.rows() == [(1,), (2,)]
    with pytest.raises(FileError, match=r"should contain one table, .* contains a.csv, b.csv"):
        read_table(two)
    with pytest.raises(FileError, match=r"should contain one table, .* contains a.doc"):
        read_table(put_zip(tmp_path / "no.zip", a_doc="x"))
    large = put_zip(tmp_path / "large.zip", a_csv="a\n" + "1\n" * 10_000)
    with pytest.raises(FileError, match="exceeds the limit of 1,000"):
        read_table(large, max_bytes=1000)


@pytest.mark.parametrize("name", ["a.dta", "a.sav", "a.sas7bdat", "a.xpt", "a.xlsx", "a.zip"])
def test_a_damaged_file_is_named(tmp_path, name):
    pytest.importorskip("fastexcel" if name == "a.xlsx" else "pyreadstat")
    with pytest.raises(FileError, match=rf"{name}: cannot be read as {name[2:]}: "):
        read_table(put(tmp_path, name, b"not such a file" * 100))


@pytest.mark.parametrize(("name", "module"), [("a.dta", "pyreadstat"), ("a.xlsx", "fastexcel")])
def test_what_is_not_installed_is_named_with_its_extra(tmp_path, monkeypatch, name, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(FileError, match=rf"needs {module}.* 'unskew\[survey\]'"):
        read_table(put(tmp_path, name, b"PK"))


# --------------------------------------------------------------------------------------- types


def test_words_for_a_gap_and_none_which_is_an_answer(tmp_path):
    path = put(tmp_path, "a.csv", "a,b\nNone,1\nNA,NaN\nN/A,null\n,\nMost, 2\n.,3\n")
    table = read_table(path, missing=(".",))
    assert table.data["a"].to_list() == ["None", None, None, None, "Most", None]
    assert table.data["b"].to_list() == [1, None, None, None, 2, 3]
    assert table.notes == ()


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["1", "-2", ""], [1, -2, None]),
        (["1", "2.5", "1e3"], [1.0, 2.5, 1000.0]),
        (["true", "False", "TRUE"], [True, False, True]),
        (["2024-01-31", "NA"], [datetime.date(2024, 1, 31), None]),
        (["2024/01/31", "2024/2/1"], [datetime.date(2024, 1, 31), datetime.date(2024, 2, 1)]),
        (["2024-01-31 12:30:00", "2024-02-01T00:00:00"],
         [datetime.datetime(2024, 1, 31, 12, 30), datetime.datetime(2024, 2, 1)]),
        (["2024-01-31", "2024-13-99"], ["2024-01-31", "2024-13-99"]),
        (["31.01.2024", "1/2/2024"], ["31.01.2024", "1/2/2024"]),
        (["007", "12"], ["007", "12"]),
        (["0", "0.5", "10"], [0.0, 0.5, 10.0]),
        (["2009_10", "2011_12"], ["2009_10", "2011_12"]),
        (["99999999999999999999", "1"], [1e20, 1.0]),
        (["", ""], [None, None]),
        (["yes", "no"], ["yes", "no"]),
    ],
)  # fmt: skip
def test_types_of_text_columns(tmp_path, cells, values):
    lines = "".join(f"x,{cell}\n" for cell in cells)
    table = read_table(put(tmp_path, "a.csv", "k,v\n" + lines))
    assert table.data["v"].to_list() == values
    assert table.notes == ()


def test_a_column_of_numbers_with_a_word_becomes_text_and_is_noted(tmp_path):
    path = put(tmp_path, "a.csv", "age,b\n34,1\n5,1\nunknown,1\n80+,1\n6,2\n")
    table = read_table(path)
    assert table.data["age"].to_list() == ["34", "5", "unknown", "80+", "6"]
    found = "3 numbers and 2 other values, first 'unknown' in line 4"
    assert table.findings == (("read as text", "age", found),)
    assert read_table(path, missing=("unknown", "80+")).data["age"].to_list() == [
        34, 5, None, None, 6,
    ]  # fmt: skip


def test_a_cell_of_several_lines_makes_places_rows(tmp_path):
    text = 'a,b\n1,"two\nlines"\n2,x\nno,y\n'
    (found,) = read_table(put(tmp_path, "a.csv", text)).findings
    assert "'no' in row 3" in found.text  # which begins at line 5


@pytest.mark.parametrize("mark", ["?", ".", "-", "--", "None", "n.a.", "..", "na"])
@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (["1", "2", "3"], pl.Int64),
        (["1.5", "-2", "1e3"], pl.Float64),
        (["2024-01-31", "2023-02-01", "2022-03-04"], pl.Date),
        (["true", "false", "true"], pl.Boolean),
        (["Most", "Several", "Most"], pl.String),
        (["007", "12", "3"], pl.String),
    ],
)
def test_marks_are_missing_values_unless_the_column_is_text(tmp_path, mark, values, dtype):
    cells = [*values, mark, *values, mark]
    path = put(tmp_path, "a.csv", "k,v\n" + "".join(f"x,{cell}\n" for cell in cells))
    table = read_table(path)
    assert table.data["v"].dtype == dtype
    if dtype == pl.String:
        assert table.data["v"].to_list() == cells
        assert not any(f.topic == "missing" for f in table.findings)
    else:
        assert table.data["v"].null_count() == 2
        assert table.findings == (("missing", "v", f"{mark!r} in 2 rows"),)


@pytest.mark.parametrize("word", ["n/a", "#N/A", "<NA>", "NaT"])
def test_unmistakable_words_are_missing_in_text_too(tmp_path, word):
    table = read_table(put(tmp_path, "a.csv", f"k,v\nx,Most\ny,{word}\nz,None\n"))
    assert table.data["v"].to_list() == ["Most", None, "None"]


def test_single_quotes_around_all_names_are_not_part_of_them(tmp_path):
    assert read_table(put(tmp_path, "a.csv", "'a','b c'\n1,2\n")).names == ("a", "b c")
    assert read_table(put(tmp_path, "b.csv", "'a','b' or 'c'\n1,2\n")).names[0] == "'a'"


def test_a_name_that_occurs_again_gets_a_number(tmp_path):
    table = read_table(put(tmp_path, "a.csv", "age,b,age,age_2,age\n1,2,3,4,5\n"))
    assert table.names == ("age", "b", "age_3", "age_2", "age_4")
    assert table.data.row(0) == (1, 2, 3, 4, 5)
    assert table.findings == (
        ("renamed", "age_3", "column 3, also named 'age'"),
        ("renamed", "age_4", "column 5, also named 'age'"),
    )


def test_a_decimal_comma_is_read_where_semicolons_separate(tmp_path):
    assert rows(put(tmp_path, "a.csv", "a;b\n1,5;x,y\n2;z\n")) == [(1.5, "x,y"), (2.0, "z")]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_the_separator_is_guessed_from_the_first_line(tmp_path, separator):
    text = 'a@"b,;c"@d\n1@x@2\n'.replace("@", separator)
    table = read_table(put(tmp_path, "a.csv", text))
    assert table.names == ("a", "b,;c", "d")
    assert table.data.rows() == [(1, "x", 2)]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("'OBS' 'GPA' 'X'\n1 2.6 20\n2 2.8 22\n", ("OBS", "GPA", "X")),
        ("a|b\n1|x\n2|y z\n", ("a", "b")),
        ("full name\nAnn Lee\nBo Ek\n", ("full name",)),
        ("some words here\none two\nthree\n", ("some words here",)),
    ],
)
def test_bars_and_blanks_separate_where_all_lines_have_as_many(tmp_path, text, names):
    assert read_table(put(tmp_path, "a.csv", text)).names == names


def test_one_column_needs_no_separator(tmp_path):
    assert rows(put(tmp_path, "a.csv", "a\n1\n2\n")) == [(1,), (2,)]


def test_no_header_gives_numbered_names(tmp_path):
    table = read_table(put(tmp_path, "a.csv", "1,2\n3,4\n"), header=False)
    assert table.names == ("c0", "c1")
    assert table.data.rows() == [(1, 2), (3, 4)]
    with_header = read_table(tmp_path / "a.csv")
    assert "--no-header" in with_header.notes[0]


def test_other_separator_and_encoding(tmp_path):
    path = put(tmp_path, "a.csv", "name|n\nZoë|1\n".encode("latin-1"))
    assert rows(path, separator="|", encoding="latin-1") == [("Zoë", 1)]
    path = put(tmp_path, "b.csv", "name,n\nZoë,1\n".encode("utf-16"))
    assert rows(path, encoding="utf-16") == [("Zoë", 1)]
    with pytest.raises(FileError, match="UTF-16"):
        read_table(path)
    path = put(tmp_path, "c.csv", b"\xef\xbb\xbfname,n\nZo\xc3\xab,1\n")
    assert read_table(path).names == ("name", "n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a,b\r\n1,x\r\n2,y\r\n", [(1, "x"), (2, "y")]),
        ("a,b\r1,x\r2,y\r", [(1, "x"), (2, "y")]),
        ("a,b\n1,x\n\n2,y\n\n\n", [(1, "x"), (2, "y")]),
        ("\n\na,b\n1,x\n2,y", [(1, "x"), (2, "y")]),
        ("a,b\n1,x\n2,y\n,,,\n", [(1, "x"), (2, "y")]),
        ('a,b\n5" pipe,x\n6,y\n', [('5" pipe', "x"), ("6", "y")]),
        ('a,b\n"two\nlines",x\n"say ""hi""",y\n', [("two\nlines", "x"), ('say "hi"', "y")]),
        ('a, "b"\n1, "x, y"\n', [(1, "x, y")]),
        (",a,b,\n0,1,x,\n1,2,y,\n", [(0, 1, "x"), (1, 2, "y")]),
    ],
)
def test_untidy_csv_is_read(tmp_path, text, expected):
    table = read_table(put(tmp_path, "a.csv", text))
    assert [tuple(r) for r in table.data.rows()] == expected


cell = st.text(st.sampled_from("xyzé \",;\n\t'|"), min_size=0, max_size=6).map(lambda s: f"q{s}q")


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 4).flatmap(lambda d: st.lists(st.tuples(*[cell] * d), min_size=1)))
def test_what_a_csv_writer_writes_is_read_back(tmp_path_factory, records):
    wide = len(records[0])
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow([f"name {j}" for j in range(wide)])
    writer.writerows(records)
    path = put(tmp_path_factory.mktemp("csv"), "a.csv", out.getvalue())
    assert rows(path, separator=",") == records


def test_pandas_row_index_is_no_column(tmp_path):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    pd.DataFrame({"a": [1, 2]}, index=[7, 9]).to_parquet(tmp_path / "a.parquet")
    table = read_table(tmp_path / "a.parquet")
    assert table.names == ("a",)
    assert "index" in table.notes[0]


def test_columns_of_odd_types(tmp_path):
    import decimal

    frame = pl.DataFrame(
        {
            "price": [decimal.Decimal("1.5"), None],
            "gone": pl.Series([None, None], dtype=pl.Null),
            "span": [datetime.timedelta(seconds=90), None],
            "at": [datetime.time(0, 1), None],
            "tags": [["a"], ["b"]],
        }
    )
    frame.write_parquet(tmp_path / "a.parquet")
    table = read_table(tmp_path / "a.parquet")
    chosen = table.select(["price", "gone", "span", "at"])
    assert chosen.rows()[0] == (1.5, None, 90.0, pytest.approx(60.0))
    assert chosen.rows()[1] == (None,) * 4
    with pytest.raises(FileError, match=r"a\.parquet: column 'tags' .*--drop"):
        table.select(["price", "tags"])


def test_mixed_jsonl_becomes_text(tmp_path):
    path = put(tmp_path, "a.jsonl", '{"a": 1, "b": 2}\n\n{"a": true, "c": "x"}\n')
    table = read_table(path)
    assert table.data.to_dict(as_series=False) == {
        "a": ["1", "true"], "b": [2, None], "c": [None, "x"],
    }  # fmt: skip


def test_standard_input_and_pipes_are_csv_by_default(tmp_path, monkeypatch):
    class Stdin:
        buffer = io.BytesIO(gzip.compress(b"a,b\n1,x\n"))

    monkeypatch.setattr(sys, "stdin", Stdin)
    table = read_table("-")
    assert table.name == "standard input"
    assert table.data.rows() == [(1, "x")]
    Stdin.buffer = io.BytesIO(b'{"a": 1}\n')
    assert rows("-", format="jsonl") == [(1,)]
    buffer = io.BytesIO()
    pl.DataFrame({"a": [1]}).write_parquet(buffer)
    Stdin.buffer = io.BytesIO(buffer.getvalue())
    assert rows("-", format="parquet") == [(1,)]


# -------------------------------------------------------------------------------------- errors

BAD = {
    "empty.csv": (b"", "is empty"),
    "blank.csv": (b"\n \n", "is empty"),
    "header.csv": (b"a,b\n", "no rows"),
    "long.csv": (b"a,b\n1,2\n1,2,3\n", "line 3: 3 fields, but the first line has 2"),
    "short.csv": (b"a,b\n1,2\n1\n3,4\n", "line 3: 1 field, but the first line has 2"),
    "quoted.csv": (b'a,b\n"x\ny",2\n1\n', "line 4: 1 field"),
    "open.csv": (b'a,b\n"x,2\n1,2\n', "line 3"),
    "last.csv": (b'a,b\n1,2\n1,"x\n', "line 3"),
    "twin.csv": (b'a\n"x\n"y\n', "line 3: ',' expected after"),
    "stray.csv": (b'a,b\n1,2\n"x"y,2\n', "line 3: ',' expected after"),
    "latin.csv": (b"a,b\n1,x\n2,Zo\xeb\n", "line 3: byte 0xeb at offset 12 is not UTF-8"),
    "binary.csv": (b"a,b\n1,\0\n", "byte 0x00 at offset 6"),
    "cut.csv.gz": (None, "not a complete gzip file"),
    "bare.csv.gz": (None, "is named .gz but is not a gzip file"),
    "broken.parquet": (b"PAR1 and then nothing of use", "cannot be read as parquet"),
    "broken.feather": (b"ARROW1 and then nothing", "cannot be read as feather"),
    "broken.npy": (b"what is this", "cannot be read as npy"),
    "broken.npz": (b"PK what is this", "cannot be read as npz"),
    "broken.mat": (b"what is this" * 20, "cannot be read as mat"),
    "broken.svmlight": (b"1 a:b\n", "cannot be read as svmlight"),
    "empty.parquet": (b"", "is empty"),
    "half.jsonl": (b'{"a": 1}\n{"a": \n', "line 2: is not JSON"),
    "list.jsonl": (b'{"a": 1}\n[1]\n', "line 2: should be an object"),
    "deep.jsonl": (b'{"a": 1}\n{"a": [1]}\n', "line 2: column 'a' has a list"),
    "none.jsonl": (b"{}\n{}\n", "no rows"),
    "what.doc": (b"x", "suffix .doc is not one of those that are read: .csv, .txt,"),
    "noname": (b"x", r"suffix \(none\)"),
}


@pytest.mark.parametrize("name", BAD)
def test_an_unreadable_file_is_one_line_with_file_place_and_rule(tmp_path, name):
    content, words = BAD[name]
    path = tmp_path / name
    if name == "cut.csv.gz":
        content = gzip.compress(os.urandom(1000))[:-300]
    elif name == "bare.csv.gz":
        content = b"a,b\n1,2\n"
    path.write_bytes(content)
    with pytest.raises(FileError, match=words) as caught:
        read_table(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_missing_file_folder_and_wrong_matrix(tmp_path):
    with pytest.raises(FileError, match=r"nofile\.csv: no such file"):
        read_table(tmp_path / "nofile.csv")
    with pytest.raises(FileError, match="is a folder"):
        read_table(tmp_path)
    with pytest.raises(FileError, match="a part of the path is a file"):
        read_table(put(tmp_path, "a.csv", "a\n1\n") / "b.csv")
    np.save(tmp_path / "v.npy", np.arange(3))
    with pytest.raises(FileError, match=r"v.npy: has shape \(3,\)"):
        read_table(tmp_path / "v.npy")
    np.save(tmp_path / "o.npy", np.array([[{}]], dtype=object), allow_pickle=True)
    with pytest.raises(FileError, match="Python objects"):
        read_table(tmp_path / "o.npy")
    np.savez(tmp_path / "two.npz", A=np.eye(2), B=np.eye(2))
    with pytest.raises(FileError, match=r"2 matrices \(A, B\)"):
        read_table(tmp_path / "two.npz")
    with pytest.raises(FileError, match="no variable 'C'; it has A, B"):
        read_table(tmp_path / "two.npz", variable="C")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_permission_denied(tmp_path):
    path = put(tmp_path, "a.csv", "a\n1\n")
    path.chmod(0)
    with pytest.raises(FileError, match=r"a\.csv: permission denied"):
        read_table(path)


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("a.parquet", {"header": False}, "--no-header does not apply to parquet"),
        ("a.tsv", {"separator": ";"}, "--separator does not apply to tsv"),
        ("a.csv", {"separator": "||"}, "should be one character"),
        ("a.csv", {"variable": "X"}, "--variable does not apply to csv"),
        ("a.csv", {"encoding": "klingon"}, "'klingon' is not a text encoding known"),
        ("a.csv", {"format": "xls"}, "format 'xls' should be one of csv"),
    ],
)
def test_an_option_without_meaning_is_an_error(tmp_path, name, options, words):
    write_frame(tmp_path / name)
    with pytest.raises(FileError, match=words):
        read_table(tmp_path / name, **options)


# ------------------------------------------------------------------------------------- writing


@pytest.mark.parametrize(
    "name", ["a.csv", "a.csv.gz", "a.tsv", "a.jsonl", "a.parquet", "a.feather"]
)
def test_a_written_table_is_read_back(tmp_path, name):
    columns = {"id": ["x", "y"], "cluster": np.array([1, 0], np.int32), "weight": [0.5, 1.5]}
    write_atomic(tmp_path / name, table_bytes(tmp_path / name, columns))
    assert rows(tmp_path / name) == [("x", 1, 0.5), ("y", 0, 1.5)]
    assert os.listdir(tmp_path) == [name]


def test_an_unknown_suffix_is_refused(tmp_path):
    with pytest.raises(FileError, match=r"not \.xlsx"):
        table_bytes(tmp_path / "a.xlsx", {"a": [1]})
    with pytest.raises(FileError, match=r"a\.parquet\.gz"):
        table_bytes(tmp_path / "a.parquet.gz", {"a": [1]})


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = put(tmp_path, "a.txt", "old")

    def fail(*_):
        raise OSError(28, "No space left on device")

    for name in ("fsync", "replace", "chmod"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, fail)
            with pytest.raises(FileError, match="no space left"):
                write_atomic(path, "new")
        assert path.read_text() == "old"
        assert os.listdir(tmp_path) == ["a.txt"]

    def stop(temporary):
        temporary.write_text("ne")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomic(path, stop)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]
    write_atomic(path, "new")
    assert path.read_text() == "new"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_named():
    with pytest.raises(FileError, match="/dev/full: cannot be written: no space left"):
        write_atomic("/dev/full", "x")
    with pytest.raises(FileError, match="/dev/full: cannot be written: no space left"):
        write_atomic("/dev/full", lambda path: path.write_text("x"))
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


def test_permissions_links_and_folders(tmp_path):
    path = put(tmp_path, "a.txt", "old")
    path.chmod(0o640)
    link = tmp_path / "link.txt"
    link.symlink_to(path)
    write_atomic(link, "new")
    assert link.is_symlink()
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    with pytest.raises(FileError, match="does not exist"):
        write_atomic(tmp_path / "no" / "a.txt", "x")
    with pytest.raises(FileError, match="is a folder"):
        write_atomic(tmp_path, "x")
    path.chmod(0o440)
    with pytest.raises(FileError, match="read-only"):
        write_atomic(path, "x")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_found_before_the_work(tmp_path):
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(FileError, match="permission denied"):
            _io.check_output(tmp_path / "a.txt")
    finally:
        tmp_path.chmod(0o700)


def test_outputs_appear_together_or_not_at_all(tmp_path):
    with Outputs() as outputs:
        outputs.write(tmp_path / "a.txt", "a")
        outputs.write(tmp_path / "b.txt", lambda path: path.write_text("b"))
        assert not (tmp_path / "a.txt").exists()
        outputs.commit()
    assert sorted(os.listdir(tmp_path)) == ["a.txt", "b.txt"]
    with Outputs() as outputs:
        outputs.write(tmp_path / "c.txt", "c")
    assert sorted(os.listdir(tmp_path)) == ["a.txt", "b.txt"]


def test_inputs_are_never_overwritten_and_no_two_outputs_meet(tmp_path):
    source = put(tmp_path, "data.csv", "a\n1\n")
    (tmp_path / "soft.csv").symlink_to(source)
    os.link(source, tmp_path / "hard.csv")
    for name in ("data.csv", "soft.csv", "hard.csv", "./data.csv"):
        with Outputs((source,)) as outputs, pytest.raises(FileError, match="overwrite the input"):
            outputs.claim(tmp_path / name, "--labels")
    with Outputs((source,)) as outputs:
        outputs.claim(tmp_path / "out.csv", "--labels")
        with pytest.raises(FileError, match="--labels and --weights cannot both"):
            outputs.claim(str(tmp_path) + "/./out.csv", "--weights")
        outputs.claim("-", "--report")
        with pytest.raises(FileError, match="standard output: --report and --model"):
            outputs.claim("-", "--model")
    assert same_file(source, tmp_path / "hard.csv")
    assert source.read_text() == "a\n1\n"


def test_stems():
    assert _io.stem_of("x/labels.csv.gz") == "labels"
    assert _io.stem_of("m.skops") == "m"
    assert _io.stem_of("v1.2.parquet") == "v1.2"


def test_text_of_toml_is_read_as_it_was():
    document = {"a": 'x "y"\x7f', "b": [1, 2.5], "c": True, "d": float("inf"), "e": []}
    document |= {"t": {"k": 1, "inner": {"n": 0}, "rows": [{"z": "ü"}, {"z": "-"}]}}
    text = _io.toml_text({**document, "none": None, "no": False})
    assert tomllib.loads(text) == document
    assert "# none is not set\n# no is not set\n" in text


def test_a_file_of_a_run_is_read_with_its_record(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    table = read_table(tmp_path / "a.csv")
    path = _io.path_of_run(["-", str(tmp_path / "labels.csv.gz")])
    assert path == tmp_path / "labels.run.toml"
    assert _io.path_of_run(["-"]) is None
    path.write_text(_io.run_text("fit", _io.toml_text({"clusters": 3}), [table]))
    assert _io.read_run(path, "fit") == ({"clusters": 3}, {"a.csv": table.sha256})
    with pytest.raises(FileError, match="records a run of 'fit', not of 'weigh'"):
        _io.read_run(path, "weigh")


# ------------------------------------------------------------------ files that carry more than data


def test_arrays_of_objects_are_not_read(tmp_path):
    objects = np.array([[1, "a"], [None, 2]], dtype=object)
    np.save(tmp_path / "a.npy", objects, allow_pickle=True)
    np.savez(tmp_path / "a.npz", X=np.eye(3), y=objects)
    for name in ("a.npy", "a.npz"):
        with pytest.raises(
            FileError, match=f"{name}: .*contains Python objects, which are not read"
        ):
            read_table(tmp_path / name)


def test_an_array_that_declares_more_than_the_file_has_is_refused(tmp_path):
    with open(tmp_path / "a.npy", "wb") as file:
        header = {"shape": (10**9, 1000), "fortran_order": False, "descr": "<f8"}
        np.lib.format.write_array_header_1_0(file, header)
    with pytest.raises(FileError, match=r"declares 8,000,000,000,000 bytes .* but has 0"):
        read_table(tmp_path / "a.npy")


@pytest.mark.parametrize("name", ["bomb.npz", "bomb.csv.gz", "bomb.mat"])
def test_a_file_that_unpacks_to_far_more_than_its_size_is_refused(name, tmp_path, monkeypatch):
    monkeypatch.setattr("unskew._io._archive.SMALL", 2**16)
    path = tmp_path / name
    if name.endswith("npz"):
        np.savez_compressed(path, X=np.zeros((2**10, 2**10)))
    elif name.endswith("mat"):
        scipy.io.savemat(path, {"X": np.zeros((2**10, 2**10))}, do_compression=True)
    else:
        path.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 2**19))
    with pytest.raises(FileError, match=f"{name}: .* increase max_bytes to read it"):
        read_table(path)
    assert read_table(path, max_bytes=2**24).data.shape[0] >= 2**10


def test_a_limit_where_nothing_is_unpacked_is_an_error(tmp_path):
    np.save(tmp_path / "a.npy", np.eye(3))
    with pytest.raises(FileError, match="--max-bytes does not apply to npy"):
        read_table(tmp_path / "a.npy", max_bytes=100)


@pytest.mark.parametrize(
    "wrong",
    [{"indices": [0, 9]}, {"indices": [0, -1]}, {"indptr": [0, 1, 9]}, {"indptr": [0, 5, 2]}],
)
def test_a_sparse_matrix_with_indices_out_of_range_is_refused(wrong, tmp_path):
    parts = {"format": "csr", "shape": [2, 2], "data": [1.0, 1.0], "indices": [0, 1]}
    np.savez(tmp_path / "a.npz", **{**parts, "indptr": [0, 1, 2], **wrong})
    with pytest.raises(FileError, match="cannot be read as npz"):
        read_table(tmp_path / "a.npz")


def test_only_matrices_of_a_mat_file_are_constructed(tmp_path):
    cell = np.array([np.eye(2), "text"], dtype=object)
    content = {"X": np.eye(3), "cell": cell, "text": "words", "structure": {"a": 1}}
    scipy.io.savemat(tmp_path / "a.mat", content)
    np.testing.assert_array_equal(read_table(tmp_path / "a.mat").data, np.eye(3))
    with pytest.raises(FileError, match="'cell' is a MATLAB cell; it should be a matrix of"):
        read_table(tmp_path / "a.mat", variable="cell")


@pytest.mark.parametrize("words", [
    ("Apr 1 2005", "Dec 31 2006"), ("1-Apr-2005", "31-Dec-2006"), ("April 1, 2005", "May 31, 2006"),
])  # fmt: skip
def test_dates_with_a_named_month_are_dates(tmp_path, words):
    path = tmp_path / "t.tsv"
    path.write_text("day\tx\n" + "".join(f"{word}\t{i}\n" for i, word in enumerate(words)))
    days = read_table(path).data["day"]
    assert [d.year for d in days] == [2005, 2006]
    assert days[0].month == 4
    # A word that is no month: text.
    path.write_text("day\tx\nFoo 1 2005\t1\nApr 2 2005\t2\n")
    assert str(read_table(path).data["day"].dtype) == "String"
