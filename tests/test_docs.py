"""README, docs/ and examples/: commands and snippets run, links lead somewhere, tables are complete.

A page is a session. Its blocks run in order in one folder, with a copy of `examples/` as in a checkout:

* ```bash runs in bash; ```python runs in one namespace per page. A python or toml block whose first line is
  a comment with a file name is written to that file instead; toml is parsed.
* ```yaml is a job of a CI: it is parsed, and its commands run, without those that install or post something.
* ```text after a block is what it printed: the same lines by their first words, numbers masked. A line `...`
  stands for any lines.
* `<!-- setup: COMMAND -->` runs unseen; `$FILES` holds model.onnx and faulty.onnx, made once for all pages.
* `<!-- exit: N -->` states the exit code of the next block; `<!-- not run: REASON -->` spares the next block.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import pytest
import yaml
from filelock import FileLock

from tests.suite.project import OUR_PLUGIN

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TEXTS = [*PAGES, ROOT / "CHANGELOG.md"]
EXAMPLES = {
    "01_check_in_python.py": "verdict PASS, evidence strong",
    "02_planted_fault.py": "fault in blocks.0.norm",
    "03_callable_twin.py": "born in  1 gelu",
    "04_two_onnx_files.py": "born in  blocks.0.norm",
    "07_own_detector.sh": "weights of channel 2 are 1.5x",
    "05_tolerances_and_baseline.sh": "FAIL\n-- the same run under a stated tolerance",
}
SPARED = 8
"""How many blocks of all pages may stay untried: set-up commands of a machine."""

_PART = re.compile(r"^```(\w*)\n(.*?)^```$|^<!-- (setup|exit|not run): (.*?) -->$", re.M | re.S)
_TABLED = re.compile(r"^\| (`[^|]+) \|", re.M)
_NAMED = re.compile(r"# ([\w./-]+\.(?:py|toml))\n")
_NUMBER = re.compile(r"\d+(?:[ \u00a0\u202f]\d{3})*(?:\.\d+)*(?:e[-+]?\d+)?")


@dataclass(frozen=True)
class Block:
    """One fenced block (or setup command), the exit code it must have, and why it is not run."""

    kind: str
    text: str
    line: int
    exit: int = 0
    spared: str = ""


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of a page, told apart by their language."""
    text = page.read_text(encoding="utf-8")
    code, spared = 0, ""
    for part in _PART.finditer(text):
        line = text.count("\n", 0, part.start()) + 1
        if part[3] == "exit":
            code = int(part[4])
        elif part[3] == "not run":
            spared = part[4]
        elif part[3] == "setup":
            yield Block("setup", part[4], line)
        else:
            yield Block(part[1], part[2], line, code, spared)
            code, spared = 0, ""


def shell_commands(job: object) -> Iterator[str]:
    """The commands of a CI job, without those that install packages or talk to a server."""
    for key, value in job.items() if isinstance(job, dict) else ():
        if key in ("run", "script", "after_script"):
            for command in [value] if isinstance(value, str) else value:
                if not command.startswith(("pip ", "gh ")):
                    yield command
        else:
            for inner in value if isinstance(value, list) else [value]:
                yield from shell_commands(inner)


class Session:
    """The folder and the Python namespace of one page."""

    def __init__(self, folder: Path, files: Path, page: Path, commands: Path) -> None:
        self.folder = folder
        self.page = page
        self.printed: str | None = None
        self._names: dict[str, object] = {"__name__": "__page__"}
        self._started: set[int] = set()
        self._environment = {
            **os.environ,
            "PATH": os.pathsep.join([str(commands), str(Path(sys.executable).parent), os.environ["PATH"]]),
            "FILES": str(files),
            "COLUMNS": "80",
            "GITHUB_STEP_SUMMARY": str(folder / "step-summary.md"),
            "PYTHONWARNINGS": "ignore",
            **OUR_PLUGIN,
        }

    def do(self, block: Block) -> None:
        """Run, write or compare one block."""
        if block.spared:
            self.printed = None
        elif block.kind in ("bash", "setup"):
            self.printed = self._bash(block)
        elif block.kind in ("python", "toml"):
            self.printed = self._written(block) or (self._python(block) if block.kind == "python" else None)
        elif block.kind == "text" and self.printed is not None:
            same(block, self.printed, self.page)
        elif block.kind == "yaml":
            for command in shell_commands(yaml.safe_load(block.text)):
                self._bash(replace(block, text=command))
        if block.kind == "toml":
            tomllib.loads(block.text)

    def _bash(self, block: Block) -> str:
        shell = subprocess.Popen(
            ["bash", "-eo", "pipefail", "-c", block.text],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._started.add(shell.pid)
        out, err = shell.communicate(timeout=600)
        place = f"{self.page.name}:{block.line}"
        assert shell.returncode == block.exit, f"{place}: exit {shell.returncode}\n{out}\n{err}"
        return out + (err if block.exit == 2 else "")

    def close(self) -> None:
        """End what the page left in the background, such as a server."""
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, ProcessLookupError):
                if os.getsid(process.pid) in self._started:
                    process.kill()

    def _written(self, block: Block) -> str:
        named = _NAMED.match(block.text)
        if named:
            path = self.folder / named[1]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
            if path.suffix == ".py":
                compile(block.text, str(path), "exec")
        return named[1] if named else ""

    def _python(self, block: Block) -> str:
        out = io.StringIO()
        code = compile("\n" * block.line + block.text, str(self.page), "exec")
        with contextlib.redirect_stdout(out):
            exec(code, self._names)
        return out.getvalue()


def words(text: str) -> list[str]:
    """The lines of an answer by their first words: numbers masked, wrapped lines joined, no blank ones."""
    joined = re.sub(r"\n {9,}", " ", text)
    lines = (_NUMBER.sub("N", line).split() for line in joined.splitlines())
    return [" ".join(line[:3]) for line in lines if line]


def same(block: Block, printed: str, page: Path) -> None:
    """The lines that the page shows are those that were printed, in this order."""
    parts: list[list[str]] = [[]]
    for line in words(block.text):
        if line == "...":
            parts.append([])
        else:
            parts[-1].append(line)
    got = words(printed)
    at = 0
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        starts = (
            [len(got) - len(part)] if last and number else [0] if number == 0 else range(at, len(got) + 1)
        )
        start = next((s for s in starts if s >= at and got[s : s + len(part)] == part), None)
        whole = start is not None and (not last or start + len(part) == len(got))
        assert whole, f"{page.name}:{block.line} shows\n{block.text}\nbut printed was\n{printed}"
        at = (start or 0) + len(part)


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """model.onnx and faulty.onnx, exported once for all workers."""
    root = tmp_path_factory.getbasetemp()
    root = root.parent if os.environ.get("PYTEST_XDIST_WORKER") else root
    folder = root / "example-files"
    with FileLock(str(folder) + ".lock"):
        if not (folder / "faulty.onnx").exists():
            folder.mkdir(exist_ok=True)
            subprocess.run(
                [sys.executable, ROOT / "examples" / "faulty.py", folder], check=True, capture_output=True
            )
    return folder


@pytest.fixture
def checkout(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """A folder that looks like a checkout to a page's commands; its modules are those found in it, and go with it."""
    forget_modules(tmp_path_factory.getbasetemp())  # another test's net.py is not the page's
    ignored = shutil.ignore_patterns("__pycache__", "runs")
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=ignored)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    forget_modules(tmp_path)


def forget_modules(folder: Path) -> None:
    """Modules whose files are in a folder are imported anew next time."""
    for name, module in list(sys.modules.items()):
        if Path(getattr(module, "__file__", None) or "/").is_relative_to(folder):
            del sys.modules[name]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_of_the_page_runs(page: Path, checkout: Path, files: Path, commands: Path) -> None:
    with contextlib.closing(Session(checkout, files, page, commands)) as session:
        for block in blocks(page):
            session.do(block)


def _untried(block: Block) -> bool:
    """Whether nothing runs a block: a reason that begins with a file of tests says what does."""
    by = block.spared.partition(" ")[0]
    return bool(block.spared) and not (by.startswith("tests/") and (ROOT / by).is_file())


def test_few_blocks_are_spared() -> None:
    spared = [(page.name, block.line) for page in PAGES for block in blocks(page) if _untried(block)]
    assert len(spared) <= SPARED, spared


def test_output_is_compared_line_by_line() -> None:
    page, shown = Path("page.md"), Block("text", "PASS     output differs by 3\n...\nlast line\n", 1)
    same(shown, "PASS     output differs by 1 000 x\n\nin between\nlast line\n", page)
    for wrong in ("FAIL     output differs by 3\nlast line", "PASS     output differs by 3\nlast line\nmore"):
        with pytest.raises(AssertionError):
            same(shown, wrong, page)


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_runs(name: str, checkout: Path, commands: Path) -> None:
    program = "sh" if name.endswith(".sh") else "python"
    path = os.pathsep.join([str(commands), str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        [program, f"examples/{name}"],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert EXAMPLES[name] in done.stdout


# -- links -----------------------------------------------------------------------------------------------


def anchors(page: Path) -> set[str]:
    """The headings of a page as links spell them."""
    bare = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.+)$", bare, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.stem)
def test_no_link_is_dead(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("http://", "https://")):
            continue
        place, _, anchor = target.partition("#")
        file = (page.parent / place).resolve() if place else page
        assert file.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in anchors(file), f"{page.name}: {target}"


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.stem)
def test_nothing_is_loaded_from_elsewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"!\[[^]]*\]\(\s*https?:|<(?:img|script|link|iframe)\b[^>]*https?:", text)


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    for page in PAGES[1:]:
        assert page.name == "index.md" or f"({page.relative_to(ROOT / 'docs').as_posix()})" in index, (
            page.name
        )


# -- tables that must be complete ------------------------------------------------------------------------


def section(page: str, heading: str) -> str:
    """The text under a heading of a reference page, up to the next one of its level or above."""
    text = (ROOT / "docs" / "reference" / page).read_text(encoding="utf-8")
    found = re.search(rf"^(#+) {re.escape(heading)}\n", text, re.M)
    assert found, f"{page} has no section {heading!r}"
    return re.split(rf"^#{{1,{len(found[1])}}} ", text[found.end() :], maxsplit=1, flags=re.M)[0]


def first_cells(text: str) -> set[str]:
    """Names in back quotes in the first cells of a table."""
    cells = re.findall(r"^\| ((?:[^|\\]|\\.)+) \|", text, re.M)
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def test_cli_page_names_every_verb_and_option() -> None:
    import typer

    from twinnet.cli.main import app

    group = typer.main.get_command(app)
    for verb, command in group.commands.items():  # type: ignore[attr-defined]
        listed = first_cells(section("cli.md", f"twinnet {verb}"))
        if hasattr(command, "commands"):
            assert {name for name in listed if not name.startswith("-")} == set(command.commands), verb
            if not command.invoke_without_command:
                continue
        if "Shared options" in section("cli.md", f"twinnet {verb}"):
            listed |= first_cells(section("cli.md", "Shared options"))
        options = {max(p.opts, key=len) for p in command.params if p.param_type_name == "option"} - {"--help"}
        assert options <= listed, f"twinnet {verb}: {sorted(options - listed)} missing"
        own = {name for name in first_cells(section("cli.md", f"twinnet {verb}")) if name.startswith("--")}
        assert own <= options, f"twinnet {verb} has no {sorted(own - options)}"


def test_every_twin_of_the_readme_can_be_named() -> None:
    from twinnet.engines import engine_names

    table = (ROOT / "README.md").read_text("utf-8").partition("| spec | twin |")[2].partition("\n\n")[0]
    told = {re.split(r"[?:]", spec)[0] for spec in first_cells(table)}
    told = {name for name in told if not name.endswith(".onnx")}
    assert told <= set(engine_names()) and len(told) > 8


def test_the_readme_names_every_verb() -> None:
    import typer

    from twinnet.cli.main import app

    told = set(re.findall(r"`([a-z-]+)`", " ".join(_TABLED.findall((ROOT / "README.md").read_text("utf-8")))))
    assert set(typer.main.get_command(app).commands) <= told  # type: ignore[attr-defined]


def test_engines_page_names_every_engine_and_option() -> None:
    from twinnet.engines import BUILT_IN, find_engine

    for name in BUILT_IN:
        text = section("engines.md", name)
        assert first_cells(text) == set(find_engine(name).options), name


def test_causes_page_names_every_kind() -> None:
    from twinnet.blame import KINDS

    assert first_cells(section("causes.md", "Kinds")) == set(KINDS)


def test_run_folder_page_names_every_field() -> None:
    from twinnet import result
    from twinnet.report.json_facts import keys
    from twinnet.site import Site

    classes = {
        "Result": result.Result,
        "Side": result.SideInfo,
        "Inputs": result.InputsInfo,
        "Coverage": result.Coverage,
        "Guard": result.Guard,
        "Pair": result.PairResult,
        "Difference": result.Difference,
        "Finding": result.Finding,
        "Cause": result.Cause,
        "Advice": result.Advice,
        "Advice step": result.AdviceStep,
        "Cost": result.Cost,
        "Task metric": result.TaskMetric,
        "Stage": result.Stage,
        "Step": result.Step,
        "Site": Site,
    }
    for heading, kind in classes.items():
        # Seeds and tensors are kept in memory, and in files of their own.
        apart = {"seeds", "tensors"} if kind is result.Result else set()
        assert first_cells(section("run-folder.md", heading)) == set(keys(kind)) - apart, heading
