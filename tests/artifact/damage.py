"""Ways to damage a file, by chance and with intent."""

from __future__ import annotations

import hashlib
import io
import json
import random
import struct
import zipfile
from collections.abc import Callable

MARK = "pytensor_jaxlink 0001 sha256 "
TRAILER = len(MARK) + 64  # bytes


def sealed(content: bytes) -> bytes:
    """A zip with a trailer whose checksum is right, as somebody with intent would make it."""
    digest = hashlib.sha256(content).hexdigest()
    return content + f"{MARK}{digest}".encode()


def rebuilt(members: list[tuple[str, bytes]], compression: int = zipfile.ZIP_STORED) -> bytes:
    """A sealed zip with these members, names twice included."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content, compression)
        archive.comment = bytes(TRAILER)
    return sealed(buffer.getvalue()[:-TRAILER])


def members_of(content: bytes) -> list[tuple[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return [(name, archive.read(name)) for name in archive.namelist()]


def relisted(members: list[tuple[str, bytes]]) -> bytes:
    """A sealed file whose manifest lists its members as they are now."""
    [(_, head), *others] = members
    manifest = json.loads(head)
    manifest["members"] = {
        name: {"sha256": hashlib.sha256(each).hexdigest(), "bytes": len(each)}
        for name, each in others
    }
    return rebuilt([("manifest.json", json.dumps(manifest).encode()), *others])


def truncated(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content))]


def flipped(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice([1, 1, 1, 2, 8])):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def flipped_and_sealed(content: bytes, rng: random.Random) -> bytes:
    return sealed(flipped(content[:-TRAILER], rng))


def overwritten(content: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(content))
    noise = rng.randbytes(rng.randrange(1, 200))
    return content[:start] + noise + content[start + len(noise) :]


def inserted(content: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(content))
    return content[:start] + rng.randbytes(rng.randrange(1, 50)) + content[start:]


def members_swapped(content: bytes, rng: random.Random) -> bytes:
    members = members_of(content)
    one, other = rng.sample(range(len(members)), 2)
    names = [name for name, _ in members]
    names[one], names[other] = names[other], names[one]
    return rebuilt([(name, each) for name, (_, each) in zip(names, members, strict=True)])


def hostile_name(content: bytes, rng: random.Random) -> bytes:
    name = rng.choice(
        [
            *("../../etc/passwd", "/etc/passwd", "a\\b.json", "C:evil.json", "x" * 3000 + ".json"),
            *("arrays/../a.npy", "evil.pkl", "nul\0.json", "arrays//0.npy", "ARRAYS/0.npy", ""),
        ]
    )
    return rebuilt([*members_of(content), (name or "  ", b"evil")])


def twice(content: bytes, rng: random.Random) -> bytes:
    import warnings

    members = members_of(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zipfile says that the name is there twice
        return rebuilt([*members, rng.choice(members)])


def foreign(content: bytes, rng: random.Random) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for number in range(rng.randrange(4)):
            archive.writestr(f"{number}.txt", rng.randbytes(10))
    return rng.choice([buffer.getvalue(), rng.randbytes(500), b"", b"PK\3\4", b"\x80\x04K\x01."])


def bomb(content: bytes, rng: random.Random) -> bytes:
    zeros = bytes(rng.choice([1 << 20, 20 << 20]))
    return rebuilt([*members_of(content), ("arrays/99.npy", zeros)], zipfile.ZIP_DEFLATED)


def deep(content: bytes, rng: random.Random) -> bytes:
    depth = rng.choice([2_000, 100_000, 3_000_000])
    text = rng.choice([b"[" * depth, b'{"a":' * depth, b"[" * depth + b"]" * depth])
    members = dict(members_of(content))
    members[rng.choice(["data.json", "manifest.json", "graph.json"])] = text
    return relisted_or_not(members, rng)


def relisted_or_not(members: dict[str, bytes], rng: random.Random) -> bytes:
    try:
        return relisted(list(members.items()))
    except (ValueError, TypeError, RecursionError):  # the manifest is no manifest any more
        return rebuilt(list(members.items()))


def document_changed(content: bytes, rng: random.Random) -> bytes:
    """A document that is JSON, listed and sealed, and says something else."""
    members = dict(members_of(content))
    name = rng.choice([name for name in members if name.endswith(".json")])
    members[name] = json.dumps(mutated(json.loads(members[name]), rng)).encode()
    return relisted_or_not(members, rng)


def mutated(document: object, rng: random.Random) -> object:
    absurd = [None, -1, 10**30, 1e300, "", "os:system", [], {}, True, {"data": 10**9}, [[]]]
    if rng.random() < 0.2 or not isinstance(document, dict | list) or not document:
        return rng.choice(absurd)
    copy = document.copy()
    keys = list(copy) if isinstance(copy, dict) else list(range(len(copy)))
    key = rng.choice(keys)
    if rng.random() < 0.2:
        del copy[key]
    else:
        copy[key] = mutated(copy[key], rng)
    return copy


def absurd_size(content: bytes, rng: random.Random) -> bytes:
    """An array whose header claims more than there is, or another kind of data."""
    members = members_of(content)
    claims = [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (100000000000, 1000), }",
        "{'descr': '|O', 'fortran_order': False, 'shape': (5,), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (" + "(" * 5000 + "1,), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': __import__('os').getcwd(), }",
    ]
    header = rng.choice(claims).encode() + b"\n"
    array = b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header + bytes(80)
    return relisted([(n, array if n.endswith(".npy") else each) for n, each in members])


def zip64(content: bytes, rng: random.Random) -> bytes:
    """A second end of the directory, which `zipfile` believes, and a directory of many entries."""
    place = content.rindex(b"PK\5\6")
    entry = b"PK\1\2" + bytes(42)
    directory = entry * rng.choice([10, 18_000])
    start = place
    long_end = struct.pack(
        "<4sQ2H2I4Q",
        *(b"PK\6\6", 44, 45, 45, 0, 0, len(directory) // 46, len(directory) // 46),
        *(len(directory), start),
    )
    locator = struct.pack("<4sIQI", b"PK\6\7", 0, start + len(directory), 1)
    return sealed(content[:place] + directory + long_end + locator + content[place:-TRAILER])


_PRIME = 2**61 - 1  # Python's hash of an integer is its remainder


def colliding(content: bytes, rng: random.Random) -> bytes:
    """A set or a dictionary whose keys have one hash, or low digits that are the same."""
    factor, count = rng.choice([(_PRIME, 300), (_PRIME, 20_000), (1 << 16, 60_000)])
    keys = [factor * number for number in range(count)]
    tag = rng.choice(["set", "frozenset", "dict"])
    value = {tag: [[key, 1] for key in keys] if tag == "dict" else keys}
    members = dict(members_of(content))
    compiled, graph = json.loads(members["compiled.json"]), json.loads(members["graph.json"])
    compiled[""]["constants"].append([0, value])
    graph["parts"][0]["of"]["no_such_property"] = value
    members["compiled.json"] = json.dumps(compiled, separators=(",", ":")).encode()
    members["graph.json"] = json.dumps(graph, separators=(",", ":")).encode()
    return relisted(list(members.items()))


CHANCE: list[Callable[[bytes, random.Random], bytes]] = [truncated, flipped, overwritten, inserted]
INTENT: list[Callable[[bytes, random.Random], bytes]] = [
    members_swapped,
    hostile_name,
    twice,
    foreign,
    bomb,
    deep,
    absurd_size,
]
