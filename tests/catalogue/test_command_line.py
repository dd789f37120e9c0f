"""The command line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import pytest

import pytensor_jaxlink
from pytensor_jaxlink.__main__ import main
from pytensor_jaxlink.catalogue import Code
from pytensor_jaxlink.catalogue.pages import page_of

ROOT = Path(__file__).resolve().parents[2]


def python(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


def test_version(capsys: Any) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"pytensor_jaxlink {pytensor_jaxlink.__version__}\n"


class TestExplain:
    @pytest.mark.parametrize("typed", ["PJL201", "pjl201", "201", " 201 ", "0201", "Pjl0201"])
    def test_a_page(self, typed: str, capsys: Any) -> None:
        assert main(["explain", typed]) == 0
        assert capsys.readouterr().out.split() == page_of(Code.NOT_JITTABLE).split()

    @pytest.mark.parametrize(("columns", "widest"), [("40", 40), ("500", 88), ("1", 30), ("x", 88)])
    def test_it_is_wrapped(
        self, columns: str, widest: int, capsys: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("COLUMNS", columns)
        assert main(["explain", "601"]) == 0
        text, program, *_ = capsys.readouterr().out.split("```")
        assert max(map(len, text.splitlines())) <= widest
        assert program in page_of(Code.DONATED)

    def test_all_codes(self, capsys: Any) -> None:
        assert main(["explain"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert all(f"  {code.text}  {code.title}" in lines for code in Code)

    @pytest.mark.parametrize(
        ("typed", "nearest"),
        [
            ("PJL114", ["PJL113", "PJL112", "PJL111"]),
            ("PJL-201", ["PJL201", "PJL202", "PJL203"]),
            ("0", ["PJL101", "PJL102", "PJL103"]),
            ("999999", ["PJL906", "PJL905", "PJL904"]),
            ("NotJittableError", ["PJL201"]),
            ("recompiled", ["PJL301"]),
        ],
    )
    def test_an_unknown_code(self, typed: str, nearest: list[str], capsys: Any) -> None:
        assert main(["explain", typed]) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err.startswith(f"there is no code {typed!r}; the nearest are {nearest[0]} (")
        assert all(text in printed.err for text in nearest)

    @pytest.mark.parametrize(
        "typed",
        [
            "",
            " ",
            "../errors.py",
            "/etc/passwd",
            "PJL201.md",
            "PJL201/../PJL101",
            "PJL201\0",
            "PJL201\nPJL101",
            "\x1b[31mPJL201",
            "\udcff",
            "\u0662\u0660\u0661",  # digits of another script
            "\uff30\uff2a\uff2c201",  # letters that are as wide as two
            "2" * 100_000,
            "[" * 5000,
            "None",
            "__init__",
            "nan",
            "2e2",
            "0x201",
            "%s",
            "{0}",
        ],
        ids=lambda typed: repr(typed[:9]),
    )
    def test_a_hostile_argument(self, typed: str, capsys: Any) -> None:
        assert main(["explain", "--", typed]) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err.startswith("there is no code ")
        assert len(printed.err) < 400
        assert printed.err.isascii()
        assert printed.err.rstrip("\n").isprintable()

    def test_bytes_that_are_no_text(self) -> None:
        ended = python("-m", "pytensor_jaxlink", "explain", os.fsdecode(b"\xff\xfe"))
        assert (ended.returncode, ended.stdout) == (2, "")
        assert ended.stderr.startswith("there is no code")

    def test_a_reader_that_stops(self) -> None:
        command = [sys.executable, "-u", "-m", "pytensor_jaxlink", "explain"]
        with subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.close()
            assert process.stderr.read() == b""
            assert process.wait() == 1

    def test_a_terminal_that_knows_little(self) -> None:
        environment = {**os.environ, "PYTHONIOENCODING": "ascii:strict"}
        for arguments in ([], ["PJL622"]):
            ended = python("-m", "pytensor_jaxlink", "explain", *arguments, env=environment)
            assert ended.returncode == 0, ended.stderr

    def test_it_imports_little(self) -> None:
        code = (
            "import sys; from pytensor_jaxlink.__main__ import main; main(['explain', '201']); "
            "print({'jax', 'numpy', 'pytensor', 'rich'} & {*sys.modules})"
        )
        assert python("-c", code).stdout.splitlines()[-1] == "set()"


class TestInfo:
    def test_all_of_it(self, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("XLA_OF_TESTS", "one\ntwo")
        monkeypatch.setenv("SECRET_TOKEN", "hidden")
        assert main(["info"]) == 0
        text = capsys.readouterr().out
        for line in (
            f"  pytensor_jaxlink: {pytensor_jaxlink.__version__} ({ROOT / 'pytensor_jaxlink'})",
            f"  jax: {jax.__version__}",
            f"  {jax.devices()[0]}: {jax.devices()[0].platform}, {jax.devices()[0].device_kind}",
            r"  XLA_OF_TESTS: 'one\ntwo'",
            "  floatX: 'float64'",
        ):
            assert line in text.splitlines()
        assert "hidden" not in text
        assert "no such option" not in text
        assert "not available" not in text

    def test_without_pytensor(self, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in [name for name in sys.modules if name.split(".")[0] == "pytensor"]:
            monkeypatch.setitem(sys.modules, name, None)
        assert main(["info"]) == 0
        text = capsys.readouterr().out
        [_, flags] = text.split("\nflags of PyTensor\n")
        assert flags.startswith("  not available: ModuleNotFoundError: import of pytensor")
        assert f"  jax: {jax.__version__}" in text

    def test_without_a_device(self, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        def nothing() -> Any:
            raise RuntimeError("Unable to initialize backend 'cuda'\nand more")

        monkeypatch.setattr(jax, "devices", nothing)
        assert main(["info"]) == 0
        text = capsys.readouterr().out
        assert (
            "devices\n  not available: RuntimeError: Unable to initialize backend 'cuda'\n" in text
        )

    def test_a_flag_that_ends_the_process(self) -> None:
        flags = {"XLA_FLAGS": "--xla_no_such_flag=1"}
        ended = python("-m", "pytensor_jaxlink", "info", env={**os.environ, **flags})
        assert ended.stdout.startswith("versions\n  pytensor_jaxlink: ")
        assert "  XLA_FLAGS: '--xla_no_such_flag=1'\n" in ended.stdout
        assert "flags of PyTensor\n" in ended.stdout
        assert "xla_no_such_flag" in ended.stderr

    def test_a_cache(self, capsys: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "one").write_bytes(bytes(2_000_000))
        jax.config.update("jax_compilation_cache_dir", str(tmp_path))
        assert main(["info"]) == 0
        line = f"  compilation cache of JAX: {tmp_path} (1 files, 2.0 MB)"
        assert line in capsys.readouterr().out.splitlines()


def test_inspect_goes_on(capsys: Any, tmp_path: Path) -> None:
    assert main(["inspect", str(tmp_path / "nothing")]) == 1
    assert "nothing" in capsys.readouterr().err
