"""The suite in pytest: models are collected as files, their cases as tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from _pytest._code.code import ReprEntryNative, ReprExceptionInfo, ReprFileLocation, ReprTraceback

from twinnet.errors import TwinnetError
from twinnet.progress import TRACES, quiet
from twinnet.suite import fixtures
from twinnet.suite.cluster import Cluster, is_cluster
from twinnet.suite.config import Config, read_config
from twinnet.suite.expected import Expectation, compared, fitting_none, read_expected
from twinnet.suite.models import Model, find_models, is_model, model_at
from twinnet.suite.outcome import Case, Outcome
from twinnet.suite.session import Session
from twinnet.suite.uploading import uploading

__all__ = ["SuitePlugin", "activate"]

_KEY: pytest.StashKey[SuitePlugin] = pytest.StashKey()


def activate(config: pytest.Config, root: Path) -> None:
    """Make a suite of a pytest run, with the settings of a project folder."""
    try:
        suite = SuitePlugin(config, root)
    except TwinnetError as error:
        raise pytest.UsageError(str(error)) from None
    config.stash[_KEY] = suite
    config.pluginmanager.register(suite, "twinnet-suite")
    config.pluginmanager.register(fixtures, "twinnet-fixtures")


class SuitePlugin:
    """The hooks of a run with a suite."""

    def __init__(self, config: pytest.Config, root: Path) -> None:
        self.pytest_config = config
        self.config = _settings(config, root)
        self.expected: tuple[Expectation, ...] = read_expected(self.config.expected)
        self.models = {model.path: model for model in find_models(self.config.models)}
        self._chosen: dict[Case, set[str]] = {}
        self.cluster: Cluster | None = None
        self.is_worker = hasattr(config, "workerinput")
        self.session = Session(self.config.report, ("pytest", *config.invocation_params.args))
        self.uploading = None if self.is_worker else uploading(self.session)
        if config.getoption("recompute_cache") and not self.is_worker:
            from twinnet.cache import rebuild_from_now

            rebuild_from_now()
            config.add_cleanup(lambda: _unset("TWINNET_CACHE_SINCE"))
        if config.option.capture == "no":
            os.environ["TWINNET_SHOW_PROGRAMS"] = "1"
            config.add_cleanup(lambda: _unset("TWINNET_SHOW_PROGRAMS"))
        config.add_cleanup(_stuck_ends())
        if config.args_source is pytest.Config.ArgsSource.TESTPATHS:
            config.args += [str(f) for f in self.config.models if f.is_dir()]

    # -- collecting ----------------------------------------------------------------------------------------------------

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        model = self.models.get(file_path)
        if model is None and is_model(file_path) and parent.session.isinitpath(file_path):
            model = model_at(file_path)
        if model is None:
            return None
        return ModelFile.from_parent(parent, path=file_path, model=model, suite=self)

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "twin_case" not in metafunc.fixturenames:
            return
        found = [item for model in self.models.values() for item in self.cases(model)]
        pairs = [(model, case) for model, case in found if isinstance(case, Case)]
        metafunc.parametrize("twin_case", pairs, ids=[case.name for _, case in pairs], indirect=True)

    def cases(self, model: Model) -> list[tuple[Model, Case | TwinnetError]]:
        """The cases of a model, or the error of a file that cannot be read."""
        from twinnet.suite.cases import cases_of

        try:
            with quiet(TRACES):
                return [(model, case) for case in cases_of(model, self.config)]
        except TwinnetError as error:
            return [(model, error)]

    # -- running -------------------------------------------------------------------------------------------------------

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._chosen.clear()
        for item in session.items:
            if isinstance(item, CaseItem) and item.case.layer:
                self._chosen.setdefault(replace(item.case, layer=""), set()).add(item.case.layer)
        if is_cluster(self.config.place) and not session.config.option.collectonly:
            self._submit([i for i in session.items if isinstance(i, CaseItem) and i.readable])

    def _submit(self, items: list[CaseItem]) -> None:
        """Start all cases on the cluster; each test then waits for its own."""
        try:
            self.cluster = Cluster(self.config)
            self.cluster.submit(
                (item.model, item.case, self._chosen.get(replace(item.case, layer=""), set()))
                for item in items
            )
        except TwinnetError as error:
            raise pytest.UsageError(str(error)) from None

    def run(self, model: Model, case: Case) -> Outcome:
        """Run a case, and compare its outcome with what is expected."""
        from twinnet.suite.run import run_case
        from twinnet.suite.subject import subject_of

        chosen = self._chosen.get(replace(case, layer=""), set())
        if self.cluster is not None and self.cluster.has(case):
            return compared(self.cluster.outcome(case, self.folder(case)), self.expected)
        with quiet(TRACES):
            outcome = run_case(case, subject_of(model, self.config), self.folder(case), chosen)
        return compared(outcome, self.expected)

    def folder(self, case: Case) -> Path:
        """The run folder of a case."""
        return self.config.report / "runs" / case.name

    @cached_property
    def given(self) -> tuple[str, ...]:
        """What was said on the command line about which cases there are and where they run, for `twinnet suite`."""
        said = {name: self.pytest_config.getoption(f"twin_{name.replace('-', '_')}") for name in _GIVEN}
        words = [word for name, value in said.items() if value for word in (f"--{name}", str(value))]
        for folder in self.pytest_config.getoption("twin_models") or ():
            words += ["--models", str(folder)]
        if self.config.place:
            words += ["--on", self.config.place]
        return (*words, "--with-random") if self.config.random else tuple(words)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, Any, Any]:
        report: Any = yield
        if call.excinfo is not None and isinstance(call.excinfo.value, _NotAsWanted):
            report.longrepr = _told(call.excinfo.value, item.path)
        if isinstance(item, CaseItem) and item.outcome is None and report.failed:
            # A bug in twinnet, or a plugin that stopped the test; the trace is in the output.
            what = str(call.excinfo.value if call.excinfo else "").partition("\n")[0]
            message = f"a bug in twinnet: {what}"
            item.outcome = Outcome(item.case, "ERROR", "compare", "bug", message, expected="no")
        outcome = getattr(item, "outcome", None)
        if report.when == "setup" and isinstance(outcome, Outcome):
            report.twin_outcome = outcome.to_json()  # plain data, so that it travels from workers
        return report

    def pytest_runtest_logreport(self, report: Any) -> None:
        told = getattr(report, "twin_outcome", None)
        if told is not None and not self.is_worker:
            self.session.finished(Outcome.from_json(told))

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Print the page of the case that has just finished, under its line."""
        if self.uploading is None or not self.uploading.links:
            return
        links, self.uploading.links = self.uploading.links, {}
        reporter = self.pytest_config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            for link in links.values():
                reporter.write_line(f"  {link}")

    # -- ending --------------------------------------------------------------------------------------------------------

    def pytest_sessionfinish(self) -> None:
        if self.cluster is not None:
            self.cluster.close()
        if self.session.outcomes and not self.is_worker:
            bundle = self.pytest_config.getoption("twin_bundle")
            self.session.write(None if bundle is None else Path(bundle))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if not self.session.outcomes:
            return
        from twinnet.report.figures import clean
        from twinnet.suite.summary import summary_lines

        terminalreporter.section("twinnet")
        for line in summary_lines(list(self.session.outcomes.values())):
            terminalreporter.write_line(line)
        idle = fitting_none(self.expected, self.session.outcomes.values()) if self._ran_all() else ()
        for one in idle:
            where = f"{self.config.expected.name}:{one.line}"
            terminalreporter.write_line(f"note     {where} fits no case: {clean(one.pattern)}")
        terminalreporter.write_line(f"report   {self.config.report / 'index.html'}")
        for line in self.uploading.end() if self.uploading is not None else ():
            terminalreporter.write_line(line)

    def _ran_all(self) -> bool:
        """Whether every case of the suite has run: nothing was chosen, and nothing stopped it."""
        option = self.pytest_config.option
        chosen = any(getattr(option, name, None) for name in _CHOOSING)
        ran = {outcome.case.model for outcome in self.session.outcomes.values()}
        return not chosen and ran >= {model.name for model in self.models.values()}


_GIVEN = ("engines", "chips", "hw-type", "tolerance")
"""Options that are called `--twin-...` in pytest."""
_CHOOSING = (
    *("keyword", "markexpr", "lf", "deselect", "maxfail", "stepwise"),
    *("twin_engines", "twin_models", "twin_chips"),
)
"""Options that leave cases out."""


class ModelFile(pytest.File):
    """A model, whose tests are its cases."""

    def __init__(self, *, model: Model, suite: SuitePlugin, **more: Any) -> None:
        super().__init__(**more)
        self._model, self._suite = model, suite

    def collect(self) -> Iterator[CaseItem]:
        for model, case in self._suite.cases(self._model):
            name = case.name if isinstance(case, Case) else f"{model.name}_full_model"
            yield CaseItem.from_parent(self, name=name, model=model, case=case, suite=self._suite)


class CaseItem(pytest.Item):
    """One case. It runs in the setup, where what stops it is an error; a mismatch then fails the test."""

    def __init__(self, *, model: Model, case: Case | TwinnetError, suite: SuitePlugin, **more: Any) -> None:
        super().__init__(**more)
        self._model, self._case, self._suite = model, case, suite
        self.outcome: Outcome | None = None

    @property
    def model(self) -> Model:
        """The model of the case."""
        return self._model

    @property
    def readable(self) -> bool:
        """Whether there is a case to run."""
        return isinstance(self._case, Case)

    @cached_property
    def case(self) -> Case:
        """The case; one for the whole file if it cannot be read."""
        if isinstance(self._case, Case):
            return self._case
        return Case(self._model.name, "", "", "")

    def setup(self) -> None:
        if isinstance(self._case, Case):
            self.outcome = self._suite.run(self._model, self._case)
        else:
            stopped = Outcome(self.case, "ERROR", "import", "read", str(self._case))
            self.outcome = compared(stopped, self._suite.expected)
        outcome = self.outcome = replace(self.outcome, given=self._suite.given)
        if outcome.expected == "yes":
            pytest.xfail(" ".join(filter(None, (outcome.kind, outcome.reason, outcome.link))))
        if outcome.verdict == "SKIP":
            pytest.skip(outcome.message)
        if outcome.verdict == "ERROR":
            raise _NotAsWanted(outcome)

    def runtest(self) -> None:
        assert self.outcome is not None
        if not self.outcome.good:
            raise _NotAsWanted(self.outcome)

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, self.name


class _NotAsWanted(Exception):
    """Stops the test of a case; its message is the answer of the check."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(f"{outcome.kind} {outcome.message.partition(chr(10))[0]}")
        self.outcome = outcome


def _stuck_ends() -> Callable[[], None]:
    """Until the returned function is called, native code that ignores its time limit ends this process.

    What has finished is kept, and with several processes another one takes over.
    """
    from twinnet.time_limit import when_stuck

    def end(error: TwinnetError) -> None:
        os.write(2, f"\ntwinnet: {error}\n".encode())
        os._exit(error.exit_code)

    stack = ExitStack()
    stack.enter_context(when_stuck(end))
    return stack.close


def _unset(name: str) -> None:
    os.environ.pop(name, None)


def _told(error: _NotAsWanted, model: Path) -> ReprExceptionInfo:
    """The whole answer where pytest shows failures, one sentence in its summary and its junit.xml.

    A plain text would be repeated whole in the summary wherever `CI` is set.
    """
    from twinnet.report.quoting import screen
    from twinnet.suite.summary import answer_words

    answer = ReprEntryNative([f"{screen(answer_words(error.outcome))}\n"])
    where = ReprFileLocation(str(model), 0, screen(str(error)))
    return ReprExceptionInfo(ReprTraceback([answer], None, "native"), where)


def _settings(config: pytest.Config, root: Path) -> Config:
    """The settings of the project, changed by the options of the command line."""

    def given(name: str) -> Any:
        return config.getoption(name)

    made = read_config(
        root,
        engines=given("twin_engines") or "",
        chips=given("twin_chips") or "",
        hw_type=given("twin_hw_type") or "",
        models=given("twin_models") or (),
    )
    report = given("twin_report")
    shown = Path(report) if report else made.root / made.report
    changes: dict[str, Any] = {
        "report": _from_here(shown),
        "random": bool(given("with_random")),
    }
    address = given("twin_addr")
    if address is not None:
        changes["place"] = _place(address)
    if given("twin_tolerance") is not None:
        changes["tolerance"] = given("twin_tolerance")
    if given("twin_time_limit") is not None:
        changes |= _limited(made, given("twin_time_limit"))
    for name, option in (
        ("expected", "twin_expected"),
        ("debug_ir", "debug_ir"),
        ("runtime_profile", "runtime_profile"),
        ("compile_profile", "compile_profile"),
    ):
        if given(option) is not None:
            changes[name] = Path(given(option))
    return replace(made, **changes)


def _limited(config: Config, text: str) -> dict[str, Any]:
    """The time limits of the command line over those of the project and of its engines."""
    from twinnet.time_limit import TimeLimits

    stated = TimeLimits.of(text)
    engines = (replace(e, time_limit=stated.over(TimeLimits.of(e.time_limit)).stated) for e in config.engines)
    return {"engines": tuple(engines), "time_limit": stated.over(config.limits_of()).stated}


def _place(text: str) -> str | None:
    """What `--twin-addr` names: a cluster, or a board with or without its `ssh://`."""
    from twinnet.engines.spec import place_name

    return text if is_cluster(text) else place_name(text if "://" in text else f"ssh://{text}") or None


def _from_here(path: Path) -> Path:
    """A path as people would type it."""
    try:
        return Path(os.path.relpath(path)) if not str(os.path.relpath(path)).startswith("..") else path
    except ValueError:  # another drive
        return path
