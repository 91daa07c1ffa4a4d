"""Files that are not parts, parts that change while being read and addresses with secrets get a plain message."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from sureenough.cli import app
from sureenough.errors import SureEnoughError, TraceError
from sureenough.pools import Pool
from tests.pools.test_parts import write_parts

# -- addresses


@pytest.mark.parametrize(
    "uri",
    [
        "s3://bucket/pool?X-Amz-Signature=hunter2",
        "nosuch://bucket/pool?sig=hunter2",
        "nosuch://bucket/pool?other=hunter2",
        "gs://bucket/pool?%73ig=hunter2",
        "abfs://bucket/pool#sig=hunter2",
        "s3://AKIA:hunter2/RET@bucket/pool",
        "s3://AKIA:hunter2%40bucket/pool",
        "s3://AKIA:hunter2/bucket",
        "s3://bucket/pool?endpoint_override=http://me:hunter2@host",
        "s3://two words/pool?other=hunter2",
        "s3://two words/pool?other=x\nhunter2",
        "s3://two words/pool?other=x://hunter2",
        "file://host?sig=hunter2",
    ],
)
def test_secrets_of_an_address_are_not_printed(uri: str) -> None:
    for place in (uri, Path(uri)):
        with pytest.raises(SureEnoughError) as raised:
            Pool(place)
        assert "hunter2" not in str(raised.value)
    for command in (["replay"], ["replay", "-q", "q"], ["view", "--no-browser"]):
        done = CliRunner().invoke(app, [*command, uri])
        assert "hunter2" not in done.output + str(done.exception)
        assert isinstance(done.exception, SureEnoughError)


def test_a_file_uri_may_have_an_at_sign(tmp_path: Path) -> None:
    pool = write_parts(tmp_path / "run@3", "ab")
    assert Pool(f"file://{pool}").rows == 6


# -- files that are not parts


@pytest.mark.parametrize("target", ["nothing", "part-00009.parquet"])
@pytest.mark.parametrize("uri", [False, True])
def test_links_that_lead_nowhere(tmp_path: Path, target: str, uri: bool) -> None:
    write_parts(tmp_path, "ab")
    (tmp_path / "part-00009.parquet").symlink_to(tmp_path / target)
    with pytest.raises(TraceError, match=r"part-00009\.parquet"):
        Pool(tmp_path.as_uri() if uri else tmp_path)
    with pytest.raises(TraceError):
        Pool(tmp_path / "part-00009.parquet")


@pytest.mark.parametrize("uri", [False, True])
def test_a_pipe_is_not_waited_for(tmp_path: Path, uri: bool) -> None:
    write_parts(tmp_path, "ab")
    pipe = tmp_path / "part-00009.parquet"
    os.mkfifo(pipe)
    for place in (pipe, tmp_path):
        with pytest.raises(TraceError, match=r"part-00009\.parquet is not a regular file"):
            Pool(place.as_uri() if uri else place)


def test_a_name_that_is_not_utf8(tmp_path: Path) -> None:
    part = write_parts(tmp_path, "ab") / "part-00000.parquet"
    os.rename(part, os.fsencode(tmp_path) + b"/\xff.parquet")
    with pytest.raises(TraceError, match=r"\\udcff\.parquet: its name is not UTF-8 text; rename it"):
        Pool(tmp_path)


@pytest.mark.parametrize("command", [["replay"], ["replay", "-q", "q"], ["view", "--no-browser"]])
def test_a_name_that_is_too_long(command: list[str]) -> None:
    done = CliRunner().invoke(app, [*command, "a" * 300 + ".parquet"])
    assert isinstance(done.exception, SureEnoughError), done.exception


# -- parts that change while they are read


def replaced(table: pa.Table, how: str) -> pa.Table:
    numbers = pa.array([1] * len(table))
    return {
        "other columns": pa.table({"x": numbers}),
        "other types": table.set_column(table.schema.get_field_index("conf"), "conf", numbers),
        "fewer columns": table.drop_columns(["conf"]),
        "no rows": table.slice(0, 0),
        "fewer rows": table.slice(0, 3),
    }[how]


@pytest.mark.parametrize("how", ["other columns", "other types", "fewer columns", "no rows", "fewer rows"])
@pytest.mark.parametrize("read", [list, Pool.starts, Pool.lengths])
def test_a_part_that_is_replaced(tmp_path: Path, how: str, read: Any) -> None:
    pool = Pool(write_parts(tmp_path, "ab", "cd"))
    part = tmp_path / "part-00001.parquet"
    pq.write_table(replaced(pq.read_table(part), how), part)
    with pytest.raises(TraceError, match=r"part-00001\.parquet"):
        read(pool)


# -- footers of damaged or made-up files


def test_a_few_bytes_cannot_promise_any_number_of_values(tmp_path: Path) -> None:
    part = write_parts(tmp_path, "ab") / "part-00000.parquet"
    table = pq.read_table(part).slice(0, 1)
    zeros = pa.ListArray.from_arrays(pa.array([0, 5_000_000], pa.int32()), np.zeros(5_000_000, np.float16))
    for name in ("peak", "conf"):
        table = table.set_column(table.schema.get_field_index(name), name, zeros)
    pq.write_table(table, part, compression="zstd")
    with pytest.raises(TraceError, match=r"promises 1e\+07 values in \d,\d{3} bytes"):
        Pool(part)


READ_EVERY_FLIP = """
import sys
from pathlib import Path
from sureenough.errors import TraceError
from sureenough.pools import Pool
file, start = Path(sys.argv[1]), int(sys.argv[2])
whole = file.read_bytes()
for at in range(start, start + 300):  # its description of the columns
    for byte in {0, 0xFF} - {whole[at]}:
        file.write_bytes(whole[:at] + bytes([byte]) + whole[at + 1 :])
        try:
            list(Pool(file))
        except TraceError:
            pass
print("read")
"""


def test_a_flipped_byte_of_a_footer_does_not_end_the_process(tmp_path: Path) -> None:
    part = write_parts(tmp_path, "ab") / "part-00000.parquet"
    data = part.read_bytes()
    (length,) = struct.unpack("<I", data[-8:-4])
    command = [sys.executable, "-c", READ_EVERY_FLIP, str(part), str(len(data) - 8 - length)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.stdout == "read\n", done.stderr[-500:]
