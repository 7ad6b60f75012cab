"""The file of an experiment, `config.toml`: what it may say (`sections`), read with line numbers, and written.

A section is one pydantic model in a file of its own or in `sections`; `Config` lists them all, so that a new one
is one line there. There are no overrides: what the file says is what is done.

>>> config = parse(template())
>>> config.model.type, config.train.iterations
('mulut', 200000)
"""

from twinnet.restore.config.file import CONFIG_NAME, load, parse
from twinnet.restore.config.template import template
from twinnet.restore.config.whole import SECTIONS, VERSION, Config

__all__ = ["CONFIG_NAME", "SECTIONS", "VERSION", "Config", "load", "parse", "template"]
