"""In a real browser: a suite with a planted fault runs against the server, and leads to the layer and the repro.

The screenshots of all pages, light and dark, on a phone and wide, are in `bench-results/dashboard/`.
"""

from __future__ import annotations

import base64
import io
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.dashboard.places import Running, running
from tests.needs import need_engine
from tests.report.browser import Browser, open_browser
from tests.suite.project import PLANTED, write_net
from twinnet.dashboard.demo import fill

SHOTS = Path(__file__).parents[2] / "bench-results" / "dashboard"
MODES = {"light": (1300, "light"), "dark": (1300, "dark"), "phone": (390, "light"), "4k": (3840, "dark")}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("browser")


@pytest.fixture(scope="module")
def dashboard(place: Path) -> Iterator[Running]:
    with running(f"sqlite:///{place}/a.db", place / "files") as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser(1300, 1000) as found:
        yield found


def sign_in(browser: Browser, dashboard: Running) -> None:
    browser.open(f"{dashboard.url}/enter")
    browser.run(
        "document.getElementById('token').value = arguments[0]; document.querySelector('form').submit()",
        dashboard.token,
    )
    browser.until("return location.pathname", "/", 30)


def run_suite(folder: Path, dashboard: Running, spec: str) -> subprocess.CompletedProcess[str]:
    engines = f'engines = [{{spec = "{spec}", name = "default", layers = false}}]'
    (folder / "pyproject.toml").write_text(f"[tool.twinnet]\n{engines}\n")
    (folder / "planted_engine.py").write_text(PLANTED)
    code = "import planted_engine; from twinnet.cli.main import main; main()"
    environment = {**os.environ, "TWINNET_SERVER": dashboard.url, "TWINNET_TOKEN": dashboard.token}
    environment["TWINNET_BRANCH"] = "main"
    environment["PYTHONPATH"] = os.pathsep.join([str(folder), environment.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-c", code, "suite", "--recompute-cache"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )


def test_from_the_failure_to_its_layer_and_its_repro(
    browser: Browser, dashboard: Running, place: Path
) -> None:
    need_engine("onnxruntime")
    folder = place / "project"
    folder.mkdir()
    write_net(folder)
    good = run_suite(folder, dashboard, "planted")
    assert good.returncode == 0, good.stdout + good.stderr
    bad = run_suite(folder, dashboard, "planted?at=r2")
    assert bad.returncode == 1, bad.stdout + bad.stderr
    browser.go(folder / "runs/suite/index.html")
    assert browser.run("return document.querySelector('.badge').textContent") == "FAIL"
    assert browser.barriers() == []
    sign_in(browser, dashboard)
    assert browser.run("return document.querySelector('.badge').textContent") == "WORSE"
    # The first page names the layer; its link leads to the case.
    named = browser.run("return document.querySelector('.top-changes li').textContent")
    assert "relu" in named.lower() and "net" in named
    browser.run("document.querySelector('.top-changes a').click()")
    browser.until("return location.pathname.startsWith('/cases/') && document.readyState", "complete", 30)
    assert browser.run("return document.querySelector('.badge').textContent") == "FAIL"
    assert "relu" in browser.run("return document.querySelector('#findings h3').textContent").lower()
    browser.until("return document.querySelectorAll('#tensors figure img').length > 0", True, 60)
    # The layer's trend is one click away.
    browser.run(CLICK)
    browser.until("return location.pathname", "/trends", 30)
    browser.run("history.back()")
    browser.until("return location.pathname.startsWith('/cases/') && document.readyState", "complete", 30)
    got = browser.run(FETCH, browser.run("return document.getElementById('download').href"))
    unpacked = place / "downloaded"
    zipfile.ZipFile(io.BytesIO(base64.b64decode(got))).extractall(unpacked)
    [run] = unpacked.iterdir()
    command = browser.run("return document.getElementById('repro').textContent")
    assert command.endswith(f"twinnet repro {run.name}")
    code = "import planted_engine; from twinnet.cli.main import main; main()"
    made = subprocess.run(
        [sys.executable, "-c", code, "repro", run.name, "-o", "repro"],
        cwd=unpacked,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert (unpacked / "repro" / "repro.py").exists(), made.stdout + made.stderr
    assert browser.errors() == []


CLICK = """
const link = document.querySelector('#layers svg a circle.point.fail').parentNode;
link.dispatchEvent(new MouseEvent('click', {bubbles: true, cancelable: true}));
"""
FETCH = """
const request = new XMLHttpRequest();
request.open('GET', arguments[0], false);
request.overrideMimeType('text/plain; charset=x-user-defined');
request.send();
let text = '';
for (const char of request.responseText) text += String.fromCharCode(char.charCodeAt(0) & 255);
return btoa(text);
"""


@pytest.mark.slow
def test_every_page_in_light_and_dark_on_a_phone_and_wide(browser: Browser, place: Path) -> None:
    """No page overflows sideways, bars anyone, complains in the console, or stays blank; the pictures are kept."""
    SHOTS.mkdir(parents=True, exist_ok=True)
    with running(f"sqlite:///{place}/demo.db", place / "demo-files") as demo:
        service = demo.service
        assert service is not None
        fill(service.database, service.store)
        newest = demo.json("/sessions?branch=main&limit=1")["items"][0]["id"]
        runs = demo.json(f"/sessions/{newest}/runs")["items"]
        bad = next(r for r in runs if r["verdict"] == "FAIL")
        pages = {
            "sessions": "/",
            "session": f"/sessions/{newest}",
            "cases": f"/sessions/{newest}/cases",
            "case": f"/cases/{bad['id']}",
            "models": "/models",
            "model": f"/models/{bad['model']}?session={newest}&engine={bad['engine']}&with=iree-default",
            "trends": "/trends?model=yolo-nano&engine=iree-default&branch=main",
            "compare": "/compare",
            "api": "/api",
        }
        browser.open(f"{demo.url}/enter")
        shoot(browser, "enter-light", 1300)
        sign_in(browser, demo)
        for mode, (width, scheme) in MODES.items():
            cdp(
                browser,
                "Emulation.setEmulatedMedia",
                features=[{"name": "prefers-color-scheme", "value": scheme}],
            )
            for name, path in pages.items():
                size(browser, width, 1000)
                browser.open(demo.url + path)
                if name == "case":
                    browser.until(
                        "return document.querySelectorAll('#tensors figure img').length > 0", True, 60
                    )
                wide, tall = browser.run(
                    "const e = document.documentElement; return [e.scrollWidth, e.scrollHeight]"
                )
                assert wide <= width, f"{name} is {wide} wide on {mode}"
                assert browser.barriers() == [], f"{name} on {mode}"
                size(browser, width, min(tall, 3000))
                shoot(browser, f"{name}-{mode}", width)
        assert browser.errors() == []
    cdp(browser, "Emulation.clearDeviceMetricsOverride")


def shoot(browser: Browser, name: str, width: int) -> None:
    path = SHOTS / f"{name}.png"
    browser.screenshot(path)
    with Image.open(path) as picture:
        assert picture.width >= width
        assert len(picture.convert("L").resize((64, 64)).getcolors() or ()) > 5, f"{name} is blank"


def cdp(browser: Browser, command: str, **parameters: Any) -> None:
    browser._send("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})


def size(browser: Browser, width: int, height: int) -> None:
    cdp(
        browser,
        "Emulation.setDeviceMetricsOverride",
        width=width,
        height=height,
        deviceScaleFactor=1,
        mobile=False,
    )
