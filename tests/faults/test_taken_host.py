"""A host has one run at a time: a second one is refused before any load, or waits for the first one's end."""

from support.small_rigs import small_rig


def test_a_second_run_names_the_first_and_is_refused_or_waits_for_its_end(start_run, tmp_path):
    profile = small_rig(tmp_path, sustained_s=20, gemm_s=1)
    first = start_run(profile)
    first.wait_for_stage("sustained", inside_s=0.3)
    who = f"this host is under test by pid {first.process.pid} of user "

    refused = start_run(profile)
    assert refused.finish() == 4, refused.text()
    assert who in refused.text()
    assert f"which writes to {first.folder}" in refused.text()
    assert "--hw-wait" in refused.text()
    assert "starting Ray" not in refused.text()
    refused.check_nothing_is_left()

    waits = start_run(profile, "--hw-wait")
    waits.wait_for(lambda run: f"waiting: {who}" in run.text())
    assert first.process.poll() is None, "the first one ended too early for this"
    for run in (first, waits):
        assert run.finish() in (0, 6), run.text()  # a slow machine may not do enough products
        assert run.not_well() == set(), run.text()
        run.check_nothing_is_left()
    assert waits.text().count("waiting: ") == 1
