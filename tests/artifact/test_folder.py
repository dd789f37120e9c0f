"""The files of a cache: damaged, too many, and written by several at once."""

from __future__ import annotations

import os
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pytensor_jaxlink.artifact.container import Container
from pytensor_jaxlink.artifact.folder import Folder


def content(container: Container) -> bytes:
    return bytes(container.read("data.json"))


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_what_is_written_is_read(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "new", 1 << 20)
    assert folder.read("code", "a", content) is None
    assert folder.write("code", "a", {}, {"data.json": [b"1"]}) is None
    assert folder.read("code", "a", content) == b"1"
    assert folder.read("plan", "a", content) is None


def test_damaged_files_are_deleted(tmp_path: Path) -> None:
    folder = Folder(tmp_path, 1 << 20)
    rng = random.Random(5)
    for _ in range(40):
        folder.write("code", "a", {}, {"data.json": [b"[1, 2, 3]"]})
        [path] = files(tmp_path)
        damaged = bytearray(path.read_bytes())
        if rng.random() < 0.5:
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        else:
            del damaged[rng.randrange(len(damaged)) :]
        path.write_bytes(damaged)
        assert folder.read("code", "a", content) is None
        assert files(tmp_path) == []


def test_a_file_under_another_name_is_not_taken(tmp_path: Path) -> None:
    folder = Folder(tmp_path, 1 << 20)
    folder.write("code", "a", {}, {"data.json": [b"1"]})
    [path] = files(tmp_path)
    path.rename(path.with_name(path.name.replace("-a", "-b")))
    assert folder.read("code", "b", content) is None


def test_what_was_used_least_recently_goes(tmp_path: Path) -> None:
    folder = Folder(tmp_path, 40_000)
    for number in range(6):
        folder.write("code", str(number), {}, {"data.json": [bytes(5000)]})
        for path in files(tmp_path):
            os.utime(path, ns=tuple(time - 10**9 for time in [path.stat().st_mtime_ns] * 2))
    assert folder.read("code", "0", content) is not None  # used now
    folder.write("xla", "5", {}, {"data.json": [bytes(5000)]})
    folder.write("code", "6", {}, {"data.json": [bytes(5000)]})
    folder.write("code", "7", {}, {"data.json": [bytes(5000)]})
    names = [path.stem for path in files(tmp_path)]
    assert "code-0" in names
    assert "code-7" in names
    assert "code-1" not in names
    assert sum(path.stat().st_size for path in files(tmp_path)) <= 40_000


def test_many_at_once(tmp_path: Path) -> None:
    folder = Folder(tmp_path, 20_000)  # smaller than what they write

    def work(number: int) -> bool:
        name = str(number % 5)
        folder.write("code", name, {}, {"data.json": [name.encode() * 2000]})
        return folder.read("code", name, content) in (None, name.encode() * 2000)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(200)))
    assert all(path.suffix == ".jaxlink" for path in files(tmp_path))
