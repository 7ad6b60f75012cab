"""Tables fitted to images directly, without a network: a stage of lookups is linear in its entries.

`fit_cascade(stages, (train, valid))` fits stage by stage; `preset(name, scale)` gives stages; `FitImages.of_task`
makes the planes; `fit(folder)` is `twinnet lut fit -e folder`.

>>> from twinnet.restore.fit import FitImages, FitStage, Settings, fit_cascade
>>> from twinnet.restore.sample import scene
>>> from twinnet.restore.tasks.sr import SuperResolution
>>> images = FitImages.of_task(SuperResolution(2), [scene(k, 48, 48) for k in range(3)])
>>> result = fit_cascade([FitStage("V", upscale=2)], (images, images), Settings(iterations=(2,)))
>>> result.plan.scale, result.lookups, result.nbytes
(2, 4, 324)
"""

from twinnet.restore.fit.cascade import FitResult, FitStage, check_stages, fit_cascade
from twinnet.restore.fit.images import FitImages
from twinnet.restore.fit.layout import TableLayout
from twinnet.restore.fit.presets import PRESETS, preset
from twinnet.restore.fit.problem import Passes, StageProblem
from twinnet.restore.fit.run import FitDone, fit
from twinnet.restore.fit.sites import SiteData
from twinnet.restore.fit.smooth import Penalty
from twinnet.restore.fit.solve import Settings, fit_stage

__all__ = [
    "PRESETS",
    "FitDone",
    "FitImages",
    "FitResult",
    "FitStage",
    "Passes",
    "Penalty",
    "Settings",
    "SiteData",
    "StageProblem",
    "TableLayout",
    "check_stages",
    "fit",
    "fit_cascade",
    "fit_stage",
    "preset",
]
