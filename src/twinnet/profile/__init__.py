"""Where the time goes: the steps of an engine, measured and tied to the layers of the network.

`measure` runs a twin and joins its steps to the network's sites; `Profile` is what it says, as a file too. The verb is
in `twinnet.profiling`, what people see in `twinnet.report`.
"""

from twinnet.profile.compare import Change, Comparison, compare_profiles
from twinnet.profile.measure import Measured, measure
from twinnet.profile.model import Profile, Quantiles, Row, load_profile
from twinnet.profile.target import Target, machine, read_target

__all__ = [
    "Change",
    "Comparison",
    "Measured",
    "Profile",
    "Quantiles",
    "Row",
    "Target",
    "compare_profiles",
    "load_profile",
    "machine",
    "measure",
    "read_target",
]
