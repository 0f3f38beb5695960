"""Three CPUs that exchange data by gloo, of which one gives wrong answers in one operation: it is named."""

PROFILE = """
name = "three-cpus"
[cpu]
enabled = false
[stages.collective]
length_s.standard = 0.3
least_s = 10
[[nodes]]
name = "here"
"""
CPU = """
[[nodes.gpus]]
sku = "unknown"
device = "cpu"
vram_gib_per_worker = 0.25
cpus_per_worker = 0.5
"""


def test_a_device_whose_all_to_all_alone_is_wrong_is_found_by_groups_that_do_it(start_run, tmp_path):
    path = tmp_path / "three-cpus.toml"
    path.write_text(PROFILE + 3 * CPU)
    options = (f"--hwprofile={path}", "--hw-level=standard", "-k", "test_all_to_all or test_all_reduce")
    run = start_run(*options, variables={"RIGPROOF_HURT_RANK": "here/cpu1=all_to_all"})
    run.finish()
    found = {one["criterion"]: one for one in run.verdict()["criteria"]}
    assert found["collective.all_to_all"]["outcome"] == "fail", run.text()
    assert "here/cpu1 is to blame: it fails with each partner" in found["collective.all_to_all"]["detail"]
    assert found["collective.all_reduce"]["outcome"] in ("pass", "no_limit")
    groups = [one["data"] for one in run.events("groups_tested")]
    assert groups
    assert all([one for one, _ in data["done"]["here"]] == ["all_to_all"] for data in groups)
    assert run.verdict()["verdict"] == "REJECTED"
    run.check_nothing_is_left()
