"""The file: a zip of uncompressed members, a manifest with their checksums, a checksum of it all.

Reading trusts nothing.  The checksum of the whole file is checked before anything is parsed, so
damage of any kind is found first, and those of the members say where; what follows is for files
that somebody made with intent: sizes are compared with the size of the file before memory is asked
for, and nothing is ever compressed.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import struct
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO

from pytensor_jaxlink.artifact.abandoned import writing
from pytensor_jaxlink.artifact.documents import Json, Parsed, dump_document, parse_document
from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.errors import ArtifactError, JAXLinkError
from pytensor_jaxlink.remedies import Remedy

FORMAT, VERSION = "pytensor_jaxlink", 1
MANIFEST = "manifest.json"

Buffer = bytes | memoryview
Member = Sequence[Buffer]
"""The bytes of a member, in parts, so that large arrays are not copied."""

_LOCAL_HEADER = struct.Struct("<4s5H3I2H")
_END = struct.Struct("<4s4H2IH")
_LARGEST_SHORT = 0xFFFFFFFF
_TRAILER = re.compile(rb"pytensor_jaxlink ([0-9]{4}) sha256 ([0-9a-f]{64})")
_TRAILER_BYTES = len(FORMAT) + len(" 0001 sha256 ") + 64
_NAME = re.compile(r"[a-z0-9_]{1,64}(/[a-z0-9_]{1,64}){0,3}\.(json|npy|stablehlo)")
_MOST_MEMBERS, _LARGEST_DIRECTORY = 60_000, 8 << 20
_BLOCK = 1 << 20


Place = str | os.PathLike[str] | BinaryIO
"""A path, or a binary file that is open."""


def named(place: Place) -> str:
    """A place, for messages."""
    if isinstance(place, str | os.PathLike):
        return str(Path(place))
    return str(getattr(place, "name", place))


def write_container(
    path: Place,
    manifest: Mapping[str, Json],
    members: Mapping[str, Member],
    *,
    durable: bool = True,
) -> None:
    """Write a file in one step: until it is complete, what was there before stays.

    The file is written beside its place under another name and renamed.  To a file that is open it
    is written when it is complete, at once.  The checksums of the members are added to the
    manifest.  If not ``durable``, a file may be damaged when the machine loses its power.
    """
    if len(members) > _MOST_MEMBERS:
        raise ArtifactError(
            f"{named(path)}: {len(members)} members to save, and a file holds at most "
            f"{_MOST_MEMBERS}"
        )
    described = {
        name: {"sha256": digest_of(parts), "bytes": sum(map(len, parts))}
        for name, parts in members.items()
    }
    head = {"format": FORMAT, "version": VERSION, **manifest, "members": described}
    members = {MANIFEST: [dump_document(head)], **members}
    if not isinstance(path, str | os.PathLike):
        with TemporaryFile() as file:
            _write_zip(file, members)
            file.seek(0)
            shutil.copyfileobj(file, path, _BLOCK)
        return
    path = Path(path)
    with writing(path) as (temporary, file):
        _write_zip(file, members)
        file.flush()
        if durable:
            os.fsync(file.fileno())
        file.close()  # some systems rename no open file
        temporary.replace(path)
    if durable:
        _flush_directory(path.parent)


def _write_zip(file: BinaryIO, members: Mapping[str, Member]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, parts in members.items():
            # A fixed date: the same function gives the same file.
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.file_size = sum(map(len, parts))
            with archive.open(info, "w") as member:
                for part in parts:
                    member.write(part)
        archive.comment = bytes(_TRAILER_BYTES)
    end = file.seek(-_TRAILER_BYTES, os.SEEK_END)
    digest = _digest_of_start(file, end)
    file.seek(end)
    file.write(f"{FORMAT} {VERSION:04} sha256 {digest}".encode())


def _flush_directory(folder: Path) -> None:
    """Make the new name durable, where the system can."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Container:
    """A file that is open, whose checksums hold.

    Raises `ArtifactError` if it is damaged, of another kind, or of a version that cannot be read.
    """

    def __init__(self, file: BinaryIO, path: str) -> None:
        self._file, self.path = file, path
        size = file.seek(0, os.SEEK_END)
        version, digest = self._trailer(size)
        self._check_version(version)
        self._check_end(size)
        if _digest_of_start(file, size - _TRAILER_BYTES) != digest:
            raise self.error(
                "its content does not have the checksum that was saved with it: the file was "
                f"damaged or changed{self._where()}. {Remedy.SAVE_AGAIN.text()}, or "
                f"{Remedy.COPY_AGAIN.text()}."
            )
        self._members = self._list_members(size)
        self.manifest = self._read_manifest()

    def error(self, problem: str, code: Code | None = Code.DAMAGED) -> ArtifactError:
        """The error that names this file."""
        return ArtifactError(f"{self.path}: {problem}", code=code, path=self.path)

    def _trailer(self, size: int) -> tuple[int, str]:
        self._file.seek(0)
        if self._file.read(4) != b"PK\3\4":
            raise self.error("it is not a saved function: it does not start as one")
        self._file.seek(max(size - _TRAILER_BYTES, 0))
        found = _TRAILER.fullmatch(self._file.read(_TRAILER_BYTES))
        if found is None:
            raise self.error(
                "it does not end as a saved function does: it was truncated, or is a zip file of "
                "another kind"
            )
        return int(found[1]), found[2].decode()

    def _check_version(self, version: object) -> None:
        if type(version) is not int or version != VERSION:
            raise self.error(
                f"it has format version {version!r}, and this version of pytensor_jaxlink reads "
                f"version {VERSION}. {Remedy.NEWER_VERSION.text()}.",
                Code.NEWER_FORMAT,
            )

    def _check_end(self, size: int) -> None:
        """Look at what the zip says of itself before anything is parsed by it."""
        place = size - _TRAILER_BYTES - _END.size
        if place < 0:
            raise self.error("it is too short for a saved function")
        self._file.seek(place)
        mark, disk, first, here, entries, directory, start, comment = _END.unpack(
            self._file.read(_END.size)
        )
        sane = (mark, disk, first) == (b"PK\5\6", 0, 0) and (
            place
            > _LARGEST_SHORT  # `zipfile` looks at the longer form, which is as long as it says
            or (
                here == entries <= _MOST_MEMBERS + 1
                and directory <= _LARGEST_DIRECTORY
                and start + directory == place  # so there is no longer form between
            )
        )
        if not sane or comment != _TRAILER_BYTES:
            raise self.error("the directory at its end is damaged")

    def _list_members(self, size: int) -> dict[str, zipfile.ZipInfo]:
        try:
            with zipfile.ZipFile(self._file) as archive:
                infos = archive.infolist()
        except (zipfile.BadZipFile, ValueError, NotImplementedError, UnicodeError, OSError) as err:
            raise self.error(f"it is not a zip file that can be read: {err}") from err
        members: dict[str, zipfile.ZipInfo] = {}
        for info in infos:
            if not _NAME.fullmatch(info.filename):
                raise self.error(f"it has a member with the name {info.filename[:80]!r}")
            if info.filename in members:
                raise self.error(f"it has two members with the name {info.filename!r}")
            if info.compress_type != zipfile.ZIP_STORED:
                raise self.error(f"its member {info.filename!r} is compressed")
            members[info.filename] = info
        if sum(info.file_size for info in members.values()) > size:
            raise self.error("its members claim more bytes than the file has")
        return members

    def _read_manifest(self) -> dict[str, Parsed]:
        if MANIFEST not in self._members:
            raise self.error(f"it has no {MANIFEST}: it is a zip file of another kind")
        manifest = self.document(MANIFEST)
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            raise self.error(f"its {MANIFEST} is not that of a saved function")
        self._check_version(manifest.get("version"))
        listed = manifest.get("members")
        if not isinstance(listed, dict) or {*listed, MANIFEST} != set(self._members):
            raise self.error(f"its members are not those that its {MANIFEST} lists")
        return manifest

    def read(self, name: str) -> memoryview:
        """The bytes of a member, in memory that may be written."""
        if name not in self._members:
            raise self.error(f"it has no member {name[:80]!r}")
        info = self._members[name]
        file: Any = self._file  # files in memory and on the disk have `readinto`
        file.seek(info.header_offset)
        header = file.read(_LOCAL_HEADER.size)
        if len(header) < _LOCAL_HEADER.size or header[:4] != b"PK\3\4":
            raise self.error(f"its member {name!r} is not where the directory says")
        *_, length, extra = _LOCAL_HEADER.unpack(header)
        file.seek(length + extra, os.SEEK_CUR)
        content = memoryview(bytearray(info.file_size))
        if file.readinto(content) != len(content):
            raise self.error(f"its member {name!r} is cut off")
        return content

    def document(self, name: str) -> Parsed:
        """A member that holds JSON, parsed."""
        content = bytes(self.read(name))
        try:
            return parse_document(content)
        except ArtifactError as error:
            raise self.error(f"{name}: {error.text}") from error

    def _where(self) -> str:
        """Which member of a damaged file is damaged, if that can still be told."""
        try:
            self._members = self._list_members(self._file.seek(0, os.SEEK_END))
            listed = self._read_manifest()["members"]
            damaged = [
                n for n, each in listed.items() if each["sha256"] != digest_of([self.read(n)])
            ]
        except Exception:  # whatever else is wrong with it: it has been found to be damaged
            return ""
        return f" (in {', '.join(damaged[:3])})" if damaged else ""


def problem_of_place(place: object, method: str) -> str | None:
    """The reason why something is no place for a file, or None."""
    if isinstance(place, str | os.PathLike):
        folder = method == "write" and (not Path(place).name or Path(place).is_dir())
        return f"{os.fspath(place)!r:.80} is a folder, and a file is written" if folder else None
    if hasattr(place, method):
        return None
    return f"{place!r:.80} is neither a path nor a binary file that is open"


@contextmanager
def opened(place: Place) -> Iterator[Container]:
    """A file to be read; whatever the block finds wrong with it becomes the error that names it."""
    if isinstance(place, str | os.PathLike):
        with Path(place).open("rb") as file, _reading(Container(file, named(place))) as container:
            yield container
        return
    problem = problem_of_place(place, "read")
    if problem is not None:
        raise TypeError(Code.LOAD_ARGUMENTS.mark(problem))
    file = place if place.seekable() else io.BytesIO(place.read())
    with _reading(Container(file, named(place))) as container:
        yield container


@contextmanager
def _reading(container: Container) -> Iterator[Container]:
    try:
        yield container
    except ArtifactError as error:
        if error.path == container.path:
            raise
        # One that is about saving comes from a description that `save` would not have written.
        code = Code.DAMAGED if error.reason is Code.NOT_SAVABLE else error.reason
        raise container.error(error.text, code) from error
    except JAXLinkError:
        raise
    except Exception as error:
        raise container.error(
            f"it does not hold what a saved function holds ({type(error).__name__}: {error})"
        ) from error


def digest_of(parts: Member) -> str:
    """The checksum of the contents of a member."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def _digest_of_start(file: BinaryIO, size: int) -> str:
    """The checksum of the first bytes of a file."""
    digest = hashlib.sha256()
    file.seek(0)
    while size > 0:
        block = file.read(min(size, _BLOCK))
        if not block:
            break
        digest.update(block)
        size -= len(block)
    return digest.hexdigest()
