"""config.toml: what is wrong is named with its line and what is allowed."""

from __future__ import annotations

import tomllib

import pytest

from twinnet.errors import UsageError
from twinnet.restore.config import SECTIONS, VERSION, Config, file, load, parse, template

WRONG = {
    "version = 1\n[model]\n\ntype = 'mulot'\n": (":4:", "mulut", "auto-spf"),
    "version = 1\n[model]\ntpye = 'mulut'\n": (":3:", "did you mean type", "sample_size"),
    "version = 1\n[modle]\ntype = 'mulut'\n": (":2:", "did you mean model", "finetune_lut"),
    "version = 1\n[train]\n# x = 1\niterations = 2.5\n": (":4:", "iterations", "a whole number from 1"),
    "version = 1\n[train]\niterations = true\n": (":3:", "True", "a whole number"),
    "version = 1\n[data]\ntrain = 'photos'\n": (":3:", "photos", "a list of texts"),
    "version = 1\n[data]\nquality = 101\n": (":3:", "101", "from 1 to 100"),
    "version = 1\n[model]\nscale = 1\n": (":3:", "sr needs a larger scale", "2, 3 or 4"),
    "version = 1\n[model]\ntask = 'denoize'\n": (":3:", "did you mean 'denoise'", "sr, denoise, deblock"),
    "version = 1\n[model]\ntask = 'denoise'\n": (":2:", "keeps the size", "1"),
    "version = 1\n[model]\ntype = 'srlut'\n": (":2:", "srlut has one pattern", "s, V or F"),
    "version = 1\n[model]\nmodes = 'sq'\n": (":3:", "no pattern named 'q'", "s d y"),
    "version = 1\n[export_lut]\ndfc = true\ndfc_interval = 4\n": (":4:", "coarser", "5 to 8"),
    "version = 1\n[finetune_lut]\ntable = 'compressed'\n": (":3:", "dfc is false", "exported"),
    "version = 1\n[data]\ntrain = ['a', 'b']\ntrain_low = ['c']\n": (":4:", "1 folders", "one for each"),
    "version = 1\n[train]\nlearning_rate_end = 0.1\n": (":3:", "must not exceed"),
    "version = 1\n[model]\ntype = 'cascade'\ncascade = [{ patterns = 's', upscale = 2 }]\n": (":4:", "x2"),
    "version = 1\n[model]\ntype = 'cascade'\n[[model.cascade]]\npatterns = 's'\nup = 2\n": (
        ":6:",
        "up",
        "cell",
    ),
    "version = 1\nmodel = 3\n": (":2:", "must be a section"),
    "version = 1\n[model\n": (":2:", "not valid TOML"),
    f"version = {VERSION + 1}\n": (":1:", "newer"),
    "version = 0\n": (":1:", "version = 0"),
    "[model]\n": ("no version is stated",),
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_is_named_with_its_line(text):
    with pytest.raises(UsageError) as caught:
        parse(text)
    for words in WRONG[text]:
        assert words in str(caught.value)


def test_all_mistakes_are_named_at_once():
    with pytest.raises(UsageError) as caught:
        parse("version = 1\n[model]\nscale = 9\n[train]\nloss = 'l2'\n")
    assert ":3:" in str(caught.value) and ":5:" in str(caught.value)


def test_the_template_says_everything_and_is_the_default():
    text = template()
    assert parse(text) == Config()
    written = tomllib.loads(text)
    for name, section in SECTIONS.items():
        assert set(written[name]) == set(section.model_fields)
        for key in section.model_fields:
            line = text.splitlines()[file.line_of(text, (name, key)) - 2]
            assert line.startswith("# "), f"{name}.{key} has no comment"


def test_chosen_values_are_written():
    config = parse(template({"model": {"scale": 2}, "data": {"train": ["a b", 'c"d']}}))
    assert config.model.scale == 2 and config.data.train == ["a b", 'c"d']
    with pytest.raises(KeyError):
        template({"model": {"skale": 2}})


def test_a_folder_without_config(tmp_path):
    with pytest.raises(UsageError, match=r"no such experiment: .*mine\n.*twinnet lut new .*mine$"):
        load(tmp_path / "mine")
    with pytest.raises(UsageError, match="twinnet lut new"):
        load(tmp_path)
    (tmp_path / "config.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="cannot be read"):
        load(tmp_path)
