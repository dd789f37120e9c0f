"""The files of a cache: damaged, too many, and written by several at once."""

from __future__ import annotations

import os
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pytensor_jaxlink.artifact.container import Container
from pytensor_jaxlink.artifact.folder import Folder

A, B = "a" * 64, "b" * 64


def named(number: int) -> str:
    return f"{number:064x}"


def content(container: Container) -> bytes:
    return bytes(container.read("data.json"))


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_what_is_written_is_read(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "new", 1 << 20)
    assert folder.read(A, content) is None
    assert folder.write(A, {}, {"data.json": [b"1"]}) is None
    assert folder.read(A, content) == b"1"
    assert folder.read(B, content) is None


def test_damaged_files_are_deleted(tmp_path: Path) -> None:
    folder = Folder(tmp_path, 1 << 20)
    rng = random.Random(5)
    for _ in range(40):
        folder.write(A, {}, {"data.json": [b"[1, 2, 3]"]})
        [path] = files(tmp_path)
        damaged = bytearray(path.read_bytes())
        if rng.random() < 0.5:
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        else:
            del damaged[rng.randrange(len(damaged)) :]
        path.write_bytes(damaged)
        assert folder.read(A, content) is None
        assert files(tmp_path) == []


def test_a_file_under_another_name_is_not_taken(tmp_path: Path) -> None:
    folder = Folder(tmp_path, 1 << 20)
    folder.write(A, {}, {"data.json": [b"1"]})
    [path] = files(tmp_path)
    path.rename(path.with_name(path.name.replace(A, B)))
    assert folder.read(B, content) is None


def test_what_was_used_least_recently_goes(tmp_path: Path) -> None:
    folder = Folder(tmp_path, 40_000)
    for number in range(6):
        folder.write(named(number), {}, {"data.json": [bytes(5000)]})
        for path in files(tmp_path):
            os.utime(path, ns=tuple(time - 10**9 for time in [path.stat().st_mtime_ns] * 2))
    assert folder.read(named(0), content) is not None  # used now
    folder.write(named(5), {}, {"data.json": [bytes(5000)]})
    folder.write(named(6), {}, {"data.json": [bytes(5000)]})
    folder.write(named(7), {}, {"data.json": [bytes(5000)]})
    names = [path.stem for path in files(tmp_path)]
    assert f"code-{named(0)}" in names
    assert f"code-{named(7)}" in names
    assert f"code-{named(1)}" not in names
    assert sum(path.stat().st_size for path in files(tmp_path)) <= 40_000


def foreign(folder: Path) -> list[Path]:
    """Files that are not ours, some with names that look like it."""
    names = (
        *("results.npz", "f.jaxlink", "code-0.jaxlink", f"code-{A}.jaxlink.bak"),
        *(f"other-{A}.jaxlink", f".results.npz.{'0' * 16}", f".f.jaxlink.{'1' * 16}"),
        *(f"old-code-{A}.jaxlink", f"code-{A}.JAXLINK", f"code-{A}.jaxlink\n", "a/b.npy"),
    )
    paths = [folder / name for name in names]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes(30_000))
        os.utime(path, (0, 0))
    return paths


def test_files_of_others_are_neither_counted_nor_deleted(tmp_path: Path) -> None:
    others = foreign(tmp_path)
    (tmp_path / f"code-{A}.jaxlink").symlink_to(others[0])
    (tmp_path / f"plan-{A}.jaxlink").mkdir()
    folder = Folder(tmp_path, 40_000)
    for number in range(20):
        folder.write(named(number), {}, {"data.json": [bytes(5000)]})
    assert all(path.stat().st_size == 30_000 for path in others)
    own = list(tmp_path.glob(f"code-{'0' * 60}*"))
    # As many as there would be in a folder of their own.
    assert 30_000 < sum(path.stat().st_size for path in own) <= 40_000
    assert (tmp_path / f"code-{A}.jaxlink").is_symlink()
    assert (tmp_path / f"plan-{A}.jaxlink").is_dir()


def test_what_killed_writers_have_left_is_deleted(tmp_path: Path) -> None:
    others = foreign(tmp_path)
    left = tmp_path / f".code-{A}.jaxlink.{'0' * 16}"
    written_now = tmp_path / f".code-{A}.jaxlink.{'1' * 16}"
    for path in (left, written_now):
        path.write_bytes(b"half")
    os.utime(left, (0, 0))
    Folder(tmp_path, 1 << 20).write(B, {}, {"data.json": [b"1"]})
    assert not left.exists()
    assert written_now.exists()
    assert all(path.exists() for path in others)


def test_many_at_once(tmp_path: Path) -> None:
    folder = Folder(tmp_path, 20_000)  # smaller than what they write

    def work(number: int) -> bool:
        name = named(number % 5)
        folder.write(name, {}, {"data.json": [name.encode() * 2000]})
        return folder.read(name, content) in (None, name.encode() * 2000)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(200)))
    assert all(path.suffix == ".jaxlink" for path in files(tmp_path))
