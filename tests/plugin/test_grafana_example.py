"""Every panel of the Grafana dashboard has something to show: a real Prometheus has a real run's metrics."""

import http.server
import importlib
import json
import shutil
import socket
import subprocess
import threading
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from support.acceptance import CHECKOUT
from support.waiting import wait_for

DASHBOARD = CHECKOUT / "examples" / "grafana" / "rigproof.json"
RUN = CHECKOUT / "reports" / "samples" / "h200-x2-extended"  # of two H200, with a warning
PANELS = json.loads(DASHBOARD.read_text())["panels"]
Ask = Callable[..., Any]


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Nothing."""

    def guess_type(self, path: Any) -> str:
        return "text/plain"


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Ask Prometheus, which has scraped the metrics of the run."""
    if shutil.which("prometheus") is None:
        pytest.skip("prometheus is not installed")
    folder = tmp_path_factory.mktemp("prometheus")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=RUN))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    target = {"job_name": "rigs", "metrics_path": "/metrics.prom", "scrape_interval": "1s"}
    target["static_configs"] = [{"targets": [f"127.0.0.1:{server.server_port}"]}]
    (folder / "prometheus.yml").write_text(json.dumps({"scrape_configs": [target]}))
    options = {"config.file": folder / "prometheus.yml", "storage.tsdb.path": folder / "data"}
    options["web.listen-address"] = f"127.0.0.1:{port}"
    with (folder / "log").open("w") as log:
        command = ["prometheus", *(f"--{name}={value}" for name, value in options.items())]
        process = subprocess.Popen(command, stdout=log, stderr=log)

    def asked(path: str, **query: str) -> Any:
        url = f"http://127.0.0.1:{port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.load(answer)["data"]

    def scraped() -> bool:
        assert process.poll() is None, (folder / "log").read_text()
        try:
            return bool(asked("query", query="rigproof_verdict")["result"])
        except OSError:
            return False

    try:
        wait_for(scraped, "Prometheus", step_s=0.1)
        yield asked
    finally:
        process.terminate()
        process.wait(30)
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_a_panel_has_something_to_show(ask: Ask, panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        found = ask("query", query=target["expr"].replace("$rig", ".*"))["result"]
        assert found, f"{target['expr']} finds nothing"
        if "legendFormat" in target:
            wanted = set(target["legendFormat"].replace("{{", "").replace("}}", "").split())
            assert all(wanted <= set(one["metric"]) for one in found), "a legend would be empty"
            assert len({tuple(one["metric"][name] for name in sorted(wanted)) for one in found}) == len(found)


def test_what_the_panels_say_is_so(ask: Ask) -> None:
    verdict, _, wrong, *_, floors = (
        ask("query", query=panel["targets"][0]["expr"].replace("$rig", ".*"))["result"] for panel in PANELS
    )
    assert [(one["metric"], one["value"][1]) for one in verdict] == [({"rig": "vm"}, "1")]  # ACCEPTED
    assert [one["metric"]["outcome"] for one in wrong] == ["warn"]
    assert all(float(one["value"][1]) >= 100 for one in floors)


def test_the_rigs_to_choose_from_are_found(ask: Ask) -> None:
    (rig,) = (one for one in json.loads(DASHBOARD.read_text())["templating"]["list"] if one["name"] == "rig")
    assert rig["query"] == "label_values(rigproof_verdict, rig)"
    assert ask("label/rig/values", **{"match[]": "rigproof_verdict"}) == ["vm"]


def test_grafana_knows_every_key(tmp_path: Path) -> None:
    models = pytest.importorskip(
        "grafana_foundation_sdk.models.dashboard", reason="no grafana-foundation-sdk"
    )
    encoder = importlib.import_module("grafana_foundation_sdk.cog.encoder").JSONEncoder
    importlib.import_module("grafana_foundation_sdk.cog.plugins").register_default_plugins()

    def kept(dashboard: Any) -> bool:
        """Whether Grafana's own models read all of it: they leave out what they do not know."""
        read = json.loads(encoder().encode(models.Dashboard.from_json(dashboard)))
        return within(dashboard, read)

    text = DASHBOARD.read_text()
    assert kept(json.loads(text))
    for right in ('"expr"', '"fieldConfig"', '"gridPos"', '"templating"', '"legendFormat"', '"refId"'):
        assert not kept(json.loads(text.replace(right, right[:-1] + 's"'))), f"it accepts {right[:-1]}s"


def within(part: Any, whole: Any) -> bool:
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(name in whole and within(value, whole[name]) for name, value in part.items())
    if isinstance(part, list) and isinstance(whole, list):
        return len(part) == len(whole) and all(map(within, part, whole))
    return bool(part == whole)
