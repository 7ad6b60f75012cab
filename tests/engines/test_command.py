"""Toolchains described by a file: what they are given, what they give back, and what is said when they fail."""

from __future__ import annotations

import re
from pathlib import Path
from string import Template

import numpy as np
import onnx
import pytest
from onnx import helper

import twinnet
from tests.needs import need_engine
from tests.onnx_edit import make_model, node_of, save
from twinnet.engines import find_engine, parse_spec
from twinnet.engines._command_file import find_description, read_description, ready_files
from twinnet.engines.base import Session
from twinnet.errors import EngineError, UsageError
from twinnet.job import Job
from twinnet.network import load_network
from twinnet.result import Result
from twinnet.trace import TraceBuilder

VENDOR = Path(__file__).with_name("vendor.py")
X = {"x": np.random.default_rng(1).standard_normal((1, 3, 6, 6)).astype(np.float32)}

DESCRIPTION = Template("""
name = "vendor"
problem = "error: (.*)"

[version]
run = ["{python}", "$vendor", "--version"]

[options.chip]
values = ["a1", "b2"]
default = "a1"

[options.fail]

[compile]
artefact = "network.bin"
run = ["{python}", "$vendor", "compile", "{model}", "{artefact}", "--chip", "{option.chip}"]

[run]
run = ["{python}", "$vendor", "run", "{artefact}", $inputs,
       "--out", "{outputs}", "--form", "$form", "--fail={option.fail}"]
watch = ["--dump"]
time_limit = 120

[tensors]
inputs = "$form"
outputs = "$form"
output_files = "$files"

[intermediates]
how = "files"
files = "$files"
""")
_FORMS = {
    "npy": ('"--in", "x={inputs[x]}"', "{plain}.npy"),
    "raw": ('{ each = "inputs", text = "--in={name}={file}:{dtype}:{shape}" }', "{plain}.raw"),
    "safetensors": ('"--all-in", "{inputs}/tensors.safetensors"', "tensors.safetensors"),
}


@pytest.fixture(autouse=True)
def _engine() -> None:
    need_engine("onnxruntime")


def describe(folder: Path, form: str = "npy", change: tuple[str, str] = ("", "")) -> Path:
    """The vendor's description with tensors of one form; `change` replaces a part of it."""
    inputs, files = _FORMS[form]
    text = DESCRIPTION.substitute(vendor=VENDOR, inputs=inputs, form=form, files=files)
    assert change[0] in text
    path = folder / "vendor.toml"
    path.write_text(text.replace(*change) if change[0] else text)
    return path


def _model() -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    weights = {"w": (rng.standard_normal((4, 3, 3, 3)) / 5).astype(np.float32)}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["block/conv"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["block/conv"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["y"]),
    ]
    return make_model(nodes, {"x": (1, 3, 6, 6)}, ["y"], weights)


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(_model(), tmp_path_factory.mktemp("command") / "net.onnx")


def _check(net: Path, twin: str, **options: object) -> Result:
    found = twinnet.check(str(net), X, twin, **options)
    assert isinstance(found, Result)
    return found


def _open(net: Path, file: Path, job: Job | None = None, **options: str) -> Session:
    return find_engine("command").open(load_network(str(net)), options, str(file), job or Job(X))


# -- a vendor's runtime ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", _FORMS)
def test_tensors_travel_in_every_form(form: str, net: Path, tmp_path: Path) -> None:
    found = _check(net, f"command:{describe(tmp_path, form)}")
    assert found.verdict == "PASS", found
    assert [p.site.tensor for p in found.pairs] == ["block/conv", "r", "y"]
    assert found.twin.version == "7.2.1" and found.twin.engine == "command"


def test_a_tensor_can_be_replaced(net: Path, tmp_path: Path) -> None:
    session = _open(net, describe(tmp_path, "raw"))
    plain = session.trace(X, {"block/conv", "r"}, TraceBuilder())
    patch = np.full((1, 4, 6, 6), 2.0, np.float32)
    changed = session.retrace(X, {"r": patch}, {"block/conv", "r"}, TraceBuilder())
    assert np.array_equal(changed["r"], patch) and np.array_equal(changed["y"], np.full((1, 4, 1, 1), 2.0))
    assert np.array_equal(changed["block/conv"], plain["block/conv"])
    assert not np.allclose(plain["y"], 2.0)


def test_an_option_reaches_the_compiler_and_what_it_does_is_found(net: Path, tmp_path: Path) -> None:
    found = _check(net, f"command?chip=b2:{describe(tmp_path)}", out=tmp_path / "run")
    assert found.verdict == "FAIL" and found.findings[0].site.tensor == "block/conv", found
    made = twinnet.repro(tmp_path / "run", tmp_path / "repro")
    assert made.confirmed and made.nodes == 1, made
    text = (tmp_path / "repro" / "repro.py").read_text()
    assert str(VENDOR) in text and "import twinnet" not in text


def test_what_the_compiler_refuses_is_an_error_with_its_words_and_a_small_network(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Unique", ["r"], ["y"], axis=3)]
    path = save(make_model(nodes, {"x": (1, 3, 6, 6)}, ["y"]), tmp_path / "net.onnx")
    found = _check(path, f"command:{describe(tmp_path, 'raw')}", out=tmp_path / "run")
    assert found.verdict == "ERROR" and found.stage == "compile the network"
    assert "could not compile the network: no kernel for Unique on a1" in found.error
    made = twinnet.repro(tmp_path / "run", tmp_path / "repro")
    assert made.kind == "error" and made.confirmed and made.nodes == 1, made


@pytest.mark.parametrize(
    ("how", "said", "logged"),
    [
        ("abort", "died of SIGABRT; vendor runtime: DMA timeout on channel 3", "opening the device"),
        ("silent", "the run succeeded but wrote no file for the output y", "opening the device"),
    ],
)
def test_a_failing_runtime_is_an_error_with_its_last_lines(
    how: str, said: str, logged: str, net: Path, tmp_path: Path
) -> None:
    found = _check(net, f"command?fail={how}:{describe(tmp_path)}")
    assert found.verdict == "ERROR" and said in found.error and logged in found.log, found


def test_a_missing_file_says_where_it_was_looked_for(net: Path, tmp_path: Path) -> None:
    file = describe(tmp_path, change=('output_files = "{plain}.npy"', 'output_files = "result_{index}.npy"'))
    with pytest.raises(EngineError, match="wrote no file for the output y") as caught:
        _open(net, file).run(X)
    assert "looked for outputs/result_0.npy; there are: inputs/0.npy, outputs/y.npy" in str(caught.value)


def test_a_file_of_the_wrong_size_is_an_error(net: Path, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"y.raw holds 3 values of float32; y has 4 \(1x4x1x1\)"):
        _open(net, describe(tmp_path, "raw"), fail="short").run(X)


def test_the_time_limit_of_the_file_and_of_the_check_hold(net: Path, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="within the time limit of 1 s"):
        _open(net, describe(tmp_path, change=("time_limit = 120", "time_limit = 1")), fail="hang").run(X)
    with pytest.raises(EngineError, match="within the time limit of 1 s"):
        job = Job(X)
        session = _open(net, describe(tmp_path), job, fail="hang")
        job.time_limit = 1
        session.run(X)


def test_without_inner_tensors_the_outputs_are_compared(net: Path, tmp_path: Path) -> None:
    file = describe(tmp_path, change=('how = "files"\nfiles = "{plain}.npy"', 'how = "none"'))
    found = _check(net, f"command:{file}")
    assert found.verdict == "PASS" and [p.site.tensor for p in found.pairs] == ["y"]


def test_a_compiled_network_is_kept_until_something_changes(net: Path, tmp_path: Path) -> None:
    file = describe(tmp_path)
    _open(net, file)
    for options, compiled in (({}, False), ({"chip": "b2"}, True)):
        job = Job(X)
        _open(net, file, job, **options)
        assert ("compile" in job.timings) == compiled
    job = Job(X)
    _open(net, describe(tmp_path, change=("time_limit = 120", "time_limit = 121")), job)
    assert "compile" not in job.timings  # how it is run is of no matter
    _open(net, describe(tmp_path, change=("network.bin", "program.bin")), job)
    assert "compile" in job.timings


def test_no_compile_step_means_that_the_model_itself_is_run(net: Path, tmp_path: Path) -> None:
    script = tmp_path / "run.py"
    script.write_text(
        "import sys, numpy, onnxruntime\n"
        "s = onnxruntime.InferenceSession(sys.argv[1], providers=['CPUExecutionProvider'])\n"
        "numpy.save(sys.argv[3], s.run(None, {'x': numpy.load(sys.argv[2])})[0])\n"
    )
    file = tmp_path / "plain.toml"
    file.write_text(
        'name = "plain"\n[run]\nrun = ["{python}", "{here}/run.py", "{model}", "{inputs[x]}", "{outputs}/0.npy"]\n'
    )
    found = _check(net, str(file))  # a bare .toml is a description
    assert found.verdict == "PASS", found


def test_an_output_of_a_module_with_several_functions_and_many_inputs(tmp_path: Path) -> None:
    nodes = [helper.make_node("Sub", ["a", "b"], ["y"]), helper.make_node("Mul", ["a", "b"], ["z"])]
    path = save(make_model(nodes, {"a": (2, 3), "b": (2, 3)}, ["z", "y"]), tmp_path / "net.onnx")
    file = describe(tmp_path, "raw")
    feeds = {"a": np.full((2, 3), 5, np.float32), "b": np.arange(6, dtype=np.float32).reshape(2, 3)}
    session = find_engine("command").open(load_network(str(path)), {}, str(file), Job(feeds))
    got = session.run(feeds)
    assert list(got) == ["z", "y"]
    assert np.array_equal(got["y"], feeds["a"] - feeds["b"])
    assert np.array_equal(got["z"], feeds["a"] * feeds["b"])


# -- real tools ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_tools_of_iree_as_external_programs(net: Path, tmp_path: Path) -> None:
    need_engine("iree")
    found = _check(net, "command:iree-tools")
    assert found.verdict == "PASS" and [p.site.tensor for p in found.pairs] == ["block/conv", "r", "y"]
    assert found.twin.version == need_engine("iree").split()[0]
    faulty = onnx.load(str(net))
    node_of(faulty, "Relu").op_type = "Abs"
    wrong = twinnet.check(
        str(save(faulty, tmp_path / "abs.onnx")), X, f"command:iree-tools,onnxruntime:{net}", keep="none"
    )
    assert [r.verdict for r in wrong] == ["PASS", "FAIL"]  # the toolchain is given the network, not a file


def test_ready_descriptions_are_valid() -> None:
    assert set(ready_files()) >= {"iree-tools", "torq", "tensorrt", "coreml", "qnn"}
    for name in ready_files():
        path = find_description(name)
        found = read_description(path)
        said = path.read_text()
        assert found.about and ("Not run here" in said or name == "iree-tools"), name


@pytest.mark.parametrize("name", ["torq", "tensorrt", "qnn"])
def test_a_toolchain_that_is_not_installed_is_an_error(name: str, net: Path) -> None:
    found = _check(net, f"command:{name}")
    assert found.verdict == "ERROR" and "was not found" in found.error and "put it on PATH" in found.error


def test_the_program_behind_coreml_runs_a_provider(net: Path, tmp_path: Path) -> None:
    """The description is tried with the CPU's provider in place of Core ML's, which only a Mac has."""
    ready = find_description("coreml")
    text = ready.read_text().replace("CoreMLExecutionProvider", "CPUExecutionProvider")
    text = re.sub(r'  "--option=.*\n', "", text).replace("{here}", str(ready.parent))
    file = tmp_path / "cpu.toml"
    file.write_text(text)
    found = _check(net, f"command?units=CPUOnly:{file}")
    assert found.verdict == "PASS" and len(found.pairs) == 3, found
    assert found.twin.precision == "float32" and found.twin.version == need_engine("onnxruntime")
    absent = _check(net, "command:coreml")
    assert absent.verdict == "ERROR" and "has no CoreMLExecutionProvider, only" in absent.error


def test_the_outputs_of_trtexec_become_files(tmp_path: Path) -> None:
    """JSON as its reporter writes it: dimensions as text, values in one list."""
    from twinnet.engines.vendors.trtexec_outputs import convert

    source = tmp_path / "outputs.json"
    source.write_text(
        '[\n  { "name" : "block/conv"\n  , "dimensions" : "1x2x2"\n  , "values" : [ 1.5, -2, 3, 4e-1 ]\n  }\n'
        ', { "name" : "k"\n  , "dimensions" : "2"\n  , "values" : [ 7, 9 ]\n  }\n]\n'
    )
    convert(source, tmp_path)
    assert np.load(tmp_path / "block_conv.npy").tolist() == [[[1.5, -2.0], [3.0, 0.4]]]
    assert np.load(tmp_path / "k.npy").tolist() == [7, 9]


def test_a_list_of_inputs_is_written_for_programs_that_want_one(net: Path, tmp_path: Path) -> None:
    script = tmp_path / "run.py"
    script.write_text(
        "import sys, numpy, onnxruntime\n"
        "name, file = open(sys.argv[2]).read().split(':=')\n"
        "s = onnxruntime.InferenceSession(sys.argv[1], providers=['CPUExecutionProvider'])\n"
        "x = numpy.fromfile(file.strip(), 'float32').reshape(1, 3, 6, 6)\n"
        "s.run(None, {name: x})[0].tofile(sys.argv[3] + '/Result_0_y.raw')\n"
    )
    file = tmp_path / "listed.toml"
    file.write_text(
        'name = "listed"\n[run]\n'
        'run = ["{python}", "{here}/run.py", "{model}", "{folder}/inputs.txt", "{outputs}"]\n'
        '[run.files]\n"inputs.txt" = { each = "inputs", text = "{name}:={file}", join = " " }\n'
        '[tensors]\ninputs = "raw"\noutputs = "raw"\noutput_files = "Result_0_{plain}.raw"\n'
    )
    found = _check(net, f"command:{file}")
    assert found.verdict == "PASS", found


# -- descriptions ----------------------------------------------------------------------------------------------------

_GOOD = 'name = "t"\n[run]\nrun = ["prog", "{model}"]\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('name = "t"\n', ": 'run' is missing"),
        ('name = "t"\n[run\n', "is not a readable TOML file"),
        (_GOOD + 'speed = "high"\n', "line 4: unknown key 'run.speed'"),
        ('nam = "t"\n[run]\nrun = ["prog"]\n', "'name' is missing"),
        (_GOOD + '[tensors]\ninputs = "npz"\n', "line 5: tensors.inputs = 'npz' is not valid"),
        (_GOOD + '[tensors]\ninputs = "npz"\n', "one of: 'npy', 'raw' or 'safetensors'"),
        (_GOOD + '[options.chip]\nvalues = ["a"]\ndefault = "b"\n', "line 4: options.chip: default = 'b'"),
        (_GOOD.replace("{model}", "{modle}"), "line 3: run.run has the unknown placeholder {modle}"),
        (_GOOD.replace("{model}", "{option.chip}"), "unknown placeholder {option.chip}"),
        (_GOOD.replace("{model}", "{artefact}"), "names {artefact}, but there is no [compile]"),
        ('name = "t"\n[run]\nrun = "prog {model}"\n', "line 3: run.run"),
        (_GOOD + "time_limit = 0\n", "line 4: run.time_limit"),
        (_GOOD + '[intermediates]\nhow = "files"\n', "line 4: intermediates: files"),
        (
            _GOOD + '[version]\nrun = ["p"]\npattern = "("\n',
            "line 6: version.pattern: not a regular expression",
        ),
    ],
)
def test_a_wrong_description_is_named_by_line_and_key(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "tool.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        read_description(path)
    assert said in str(caught.value) and str(path) in str(caught.value), caught.value


def test_wrong_options_and_files_are_named(net: Path, tmp_path: Path) -> None:
    file = describe(tmp_path)
    with pytest.raises(UsageError, match="has no option 'chp'") as caught:
        _open(net, file, chp="a1")
    assert "chip=a1|b2" in str(caught.value)
    with pytest.raises(UsageError, match="unknown value 'c3' for chip") as caught:
        _open(net, file, chip="c3")
    assert "one of: a1, b2" in str(caught.value)
    with pytest.raises(UsageError, match=r"no such file: nowhere\.toml"):
        _open(net, Path("nowhere.toml"))
    with pytest.raises(UsageError, match="needs a description"):
        find_engine("command").open(load_network(str(net)), {}, None, Job(X))
    with pytest.raises(UsageError, match="the network has no inputs"):
        _open(net, describe(tmp_path, change=("{inputs[x]}", "{inputs[picture]}"))).run(X)


def test_a_spec_names_options_and_file() -> None:
    spec = parse_spec("command?chip=b2:tools/vendor.toml")
    assert (spec.engine, spec.options, spec.file) == ("command", {"chip": "b2"}, "tools/vendor.toml")
    assert parse_spec("tools/vendor.toml").engine == "command"
