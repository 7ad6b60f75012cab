"""What people see of a profile: a table, CSV, traces for Perfetto, a page."""

from twinnet.report.profiles.choice import choice_text
from twinnet.report.profiles.files import write_compile_profile, write_profile, write_profiles
from twinnet.report.profiles.table import comparison_text, compile_text, profile_text

__all__ = [
    "choice_text",
    "comparison_text",
    "compile_text",
    "profile_text",
    "write_compile_profile",
    "write_profile",
    "write_profiles",
]
