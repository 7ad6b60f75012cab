"""Where the time goes: the steps of an engine, measured and tied to the layers of the network.

`profile_of` joins the times of a twin's steps to the network's sites; a `Profile` is the result, which is also a file.
The verb is in `twinnet.profiling`, what people see in `twinnet.report`.
"""

from twinnet.profile.compare import Change, Comparison, compare_profiles
from twinnet.profile.measure import Measured, profile_of
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
    "profile_of",
    "read_target",
]
