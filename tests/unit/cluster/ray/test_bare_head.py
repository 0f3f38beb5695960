"""What a Ray of our own is started with instead of Ray's own arguments."""

from pathlib import Path

from ray._private import services

from rigproof.cluster.ray.bare_head import IN_ADVANCE, _in_advance


def test_a_raylet_starts_as_many_processes_in_advance_as_are_wanted(monkeypatch):
    started = []
    monkeypatch.setattr(services, "start_ray_process", lambda command, *_, **__: started.append(command))
    with _in_advance(5):
        services.start_ray_process(["raylet", f"{IN_ADVANCE}64", "--node_id=1"], "raylet", fate_share=True)
    services.start_ray_process(["raylet", f"{IN_ADVANCE}64"], "raylet")
    assert started == [["raylet", f"{IN_ADVANCE}5", "--node_id=1"], ["raylet", f"{IN_ADVANCE}64"]]


def test_this_ray_starts_its_raylet_with_that_argument():
    assert IN_ADVANCE in Path(services.__file__).read_text()
