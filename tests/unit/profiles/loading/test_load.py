import os

import pytest

from rigproof.profiles.errors import ProfileError
from rigproof.profiles.loading.load import load_rig, load_sku
from rigproof.profiles.loading.structure import PROBLEMS_SHOWN
from rigproof.stages.registry import KINDS
from rigproof.stages.sustained.stage import SustainedSettings

GPU = '[[nodes.gpus]]\nsku = "rtx-3090"\n'
RIG = f'name = "lab"\n[[nodes]]\nname = "a"\n{GPU}'


def problems_of(name_or_path):
    with pytest.raises(ProfileError) as caught:
        load_rig(str(name_or_path), KINDS)
    return caught.value.problems


def test_a_rig_is_merged_over_the_defaults_and_knows_where_values_come_from(desk):
    loaded = desk.load(RIG + "[limits]\nooms = 2\n")
    assert loaded.rig.limits.ooms == 2
    assert loaded.rig.limits.throttle_share == 0.01
    assert loaded.file == "lab.toml"
    assert loaded.source_of("limits.ooms") == "lab.toml"
    assert loaded.source_of("limits.throttle_share") == "hwprofiles/defaults.toml"
    assert loaded.source_of("nodes.a.gpus.0.limits.ooms", "limits.ooms") == "lab.toml"
    assert loaded.source_of("nodes.a.gpus.0.sku") == "lab.toml"
    assert loaded.source_of("nothing.of.the.kind") == "lab.toml"


def test_the_shipped_dual_rig_promises_what_the_seed_documents_say():
    loaded = load_rig("dual-3090-3070", KINDS)
    first, second = loaded.devices()
    assert (first.subject, first.sku_stem, first.gpu.gemm_size) == ("pc1/gpu0", "rtx-3090", 5120)
    assert (second.subject, second.sku_stem, second.gpu.gemm_size) == ("pc2/gpu0", "rtx-3070", 4096)
    assert [node.cpus for node in loaded.rig.nodes] == [80, 16]
    assert loaded.settings(SustainedSettings).combined_floor_tflops == 78.1
    assert loaded.rig.timeouts.task_s == 120
    assert first.limits.core_temperature_c == 80
    assert loaded.cpu_of("pc2").band_percent == (70, 85)
    assert loaded.cpu_of("pc2").warn_percent == 90
    source = loaded.source_of(f"{first.key}.limits.core_temperature_c", "limits.core_temperature_c")
    assert source == "hwprofiles/rigs/dual-3090-3070.toml"


def test_a_child_merges_tables_and_nodes_by_name_and_replaces_gpu_lists(desk):
    desk.write(
        'name = "base"\n[limits]\nooms = 1\nheadroom_gib = 2\n'
        '[[nodes]]\nname = "a"\ncpus = 8\n[[nodes.gpus]]\nsku = "rtx-3090"\nworkers = 2\n'
        '[[nodes]]\nname = "b"\ncpus = 4\n[[nodes.gpus]]\nsku = "rtx-3070"\n',
        "base.toml",
    )
    loaded = desk.load(
        'name = "lab"\nextends = "./base.toml"\n[limits]\nooms = 3\n'
        '[[nodes]]\nname = "b"\ncpus = 6\n[[nodes.gpus]]\nsku = "l4"\n[[nodes.gpus]]\nsku = "t4"\n'
    )
    assert [node.name for node in loaded.rig.nodes] == ["a", "b"]
    assert loaded.rig.limits.ooms == 3
    assert loaded.rig.limits.headroom_gib == 2
    assert [gpu.sku for gpu in loaded.node("b").gpus] == ["l4", "t4"]
    assert loaded.node("b").cpus == 6
    assert loaded.node("a").gpus[0].workers == 2
    assert loaded.source_of("nodes.a.gpus.0.workers") == "base.toml"
    assert loaded.source_of("nodes.b.cpus") == "lab.toml"
    assert loaded.written("nodes.b.gpus.1.sku") == "nodes[0].gpus[1].sku"
    assert set(loaded.skus) == {"rtx-3090", "l4", "t4"}


def test_values_of_a_replaced_gpu_list_lose_their_source(desk):
    desk.write(
        'name = "base"\n[[nodes]]\nname = "a"\n[[nodes.gpus]]\nsku = "l4"\ngemm_size = 4096\n', "base.toml"
    )
    loaded = desk.load(
        'name = "lab"\nextends = "base.toml"\n[[nodes]]\nname = "a"\n[[nodes.gpus]]\nsku = "t4"\n'
    )
    assert "nodes.a.gpus.0.gemm_size" not in loaded.sources


def test_a_gpu_limit_of_its_own_comes_before_the_rigs(desk):
    loaded = desk.load(RIG + "[nodes.gpus.limits]\nooms = 5\n[limits]\nooms = 1\n")
    (device,) = loaded.devices()
    assert device.limits.ooms == 5
    assert device.limits.success_share == 0.95


def test_a_band_that_is_upside_down_reads_as_the_guide_says(desk):
    found = desk.problems(
        'name = "lab"\n[[nodes]]\nname = "a"\n[[nodes]]\nname = "b"\ncpu.band_percent = [85, 70]\n' + GPU
    )
    assert found == (
        "lab.toml: nodes[1].cpu.band_percent = [85, 70]: low end above high end; write e.g. [70, 85]",
    )


def test_every_problem_of_a_file_is_reported_at_once(desk):
    found = desk.problems(
        'name = "lab"\nextends = "dual-3090-307"\ndescripton = "x"\n'
        '[cpu]\nwarn_percent = 60\n[limits]\nooms = "none"\nthrotle_share = 0.1\n'
        '[[nodes]]\nname = "a"\ncpus = true\n[[nodes.gpus]]\nsku = "rtx-3909"\ngemm_size = 1001\n'
        "workers = 0\nvram_share = 1.5\n[[nodes.gpus]]\nworkers = 1\n"
        '[[nodes]]\nname = "a"\n[[nodes]]\nname = "b c"\n[levels.round_s]\nquick = inf\n'
    )
    text = "\n".join(found)
    for expected in (
        'lab.toml: extends = "dual-3090-307": rigproof has no rig of that name; did you mean '
        '"dual-3090-3070"',
        'lab.toml: descripton = "x": unknown key; did you mean "description"',
        "lab.toml: cpu.warn_percent = 60: warn_percent 60 is below the band's high end 85",
        'lab.toml: limits.ooms = "none": not a whole number; write a whole number',
        'lab.toml: limits.throtle_share = 0.1: unknown key; did you mean "throttle_share"',
        "lab.toml: nodes[0].cpus = true: not a number; write a number such as 10",
        'lab.toml: nodes[0].gpus[0].sku = "rtx-3909": no such file in hwprofiles/gpus; did you mean '
        '"rtx-3090"',
        "lab.toml: nodes[0].gpus[0].gemm_size = 1001: not a multiple of 8",
        "lab.toml: nodes[0].gpus[0].workers = 0: too small, it has to be at least 1",
        "lab.toml: nodes[0].gpus[0].vram_share = 1.5: too large, it can be 1 at most",
        "lab.toml: nodes[0].gpus[1].sku: missing",
        'lab.toml: nodes[].name = "a": 2 nodes have this name',
        'lab.toml: nodes[2].name = "b c": not a name',
        "lab.toml: levels.round_s.quick = Infinity: not a finite number",
    ):
        assert expected in text
    assert "pydantic" not in text
    assert "http" not in text
    assert "Traceback" not in text


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("[cpu]\nband_percent = [70]\n", "cpu.band_percent = [70]: too few values"),
        ("[cpu]\nband_percent = [70, 80, 90]\n", "cpu.band_percent = [70, 80, 90]: too many values"),
        (
            "[cpu]\nband_percent = [80, 80]\n",
            "cpu.band_percent = [80, 80]: low end equals high end; write e.g. [70, 85]",
        ),
        ("[cpu]\nband_percent = [80, 95]\n", "cpu.band_percent = [80, 95]: warn_percent 90 is below"),
        ("[cpu]\nband_percent = 70\n", "cpu.band_percent = 70: not a list"),
        ("[cpu]\nenabled = 1\n", "cpu.enabled = 1: neither true nor false"),
        ("[limits]\nthrottle_share = 1\n", "limits.throttle_share = 1: too large, it has to be under 1"),
        ("[limits]\nthrottle_share = nan\n", "limits.throttle_share = NaN:"),
        ("[limits]\nxid_fail = [1.5]\n", "limits.xid_fail[0] = 1.5: not a whole number"),
        ("[timeouts]\ntask_s = 0\n", "timeouts.task_s = 0: too small, it has to be over 0"),
        ("[timeouts]\ntask_s = 2024-01-01\n", 'timeouts.task_s = "2024-01-01": not a number'),
        ("[levels]\nround_s = 3\n", "levels.round_s = 3: not a table"),
        *(
            (f'[[nodes]]\nname = "b"\naddress = "{host}"\n', f'nodes[1].address = "{host}": not a host')
            for host in (
                *("10.0.0.1:6379", "[fd00::1]:6379", "fd00::x", "", "-oProxyCommand=sh", "a b"),
                *("10.0.0.1/24", "192.168,178.30", "192.168..10", ".lan", "pc1.-lan"),
            )
        ),
        *(
            (
                f'[[nodes]]\nname = "b"\naddress = "{host}"\n',
                f'nodes[1].address = "{host}": not an IP address, which is four numbers of 0 to 255, and no '
                "host has a name that ends in a number; write the address as `ip address` shows it",
            )
            for host in ("192.168.178.300", "192.168.178", "192.168.178.3.1", "10", "192.168.01.10", "pc.1.")
        ),
        *(
            (
                f'[[nodes]]\nname = "b"\naddress = "{host}"\n',
                f'nodes[1].address = "{host}": not the address of one machine',
            )
            for host in ("0.0.0.0", "::", "224.0.0.1", "255.255.255.255")
        ),
        ("[levels.round_s]\nquik = 1\n", 'levels.round_s.quik = 1: unknown key; did you mean "quick"'),
        (
            "[stages.sharin]\nworkers = [1]\n",
            'stages.sharin = {"workers": [1]}: unknown key; did you mean "sharing"',
        ),
    ],
)
def test_each_kind_of_mistake_has_its_own_words(desk, body, expected):
    found = desk.problems(RIG + body)
    assert any(line.startswith(f"lab.toml: {expected}") for line in found), found
    assert len(found) == 1


@pytest.mark.parametrize(
    "host",
    [
        "192.168.1.10",
        "fd00::1",
        "fe80::1%eth0",
        "pc1",
        "PC1.lan.",
        "gpu_box",
        "rtx-3090",
        "größe.lan",
        "1a.x",
    ],
)
def test_the_addresses_and_names_that_a_host_can_have(desk, host):
    assert desk.load(f'{RIG}[[nodes]]\nname = "b"\naddress = "{host}"\n').rig.nodes[1].address == host


def test_device_is_one_of_the_known_words(desk):
    (line,) = desk.problems(RIG + 'device = "tpu"\n')
    assert line == (
        'lab.toml: nodes[0].gpus[0].device = "tpu": not one of the known values; '
        "write one of 'cuda' or 'cpu'"
    )


def test_a_missing_name_says_where_to_write_it(desk):
    (line,) = desk.problems(RIG.replace('name = "lab"\n', ""))
    assert line == "lab.toml: name: missing; write name = … in the first lines, before any table"


def test_a_rig_without_nodes_promises_nothing_and_is_refused(desk):
    assert desk.problems('name = "lab"\nnodes = []\n') == (
        "lab.toml: nodes = []: no node is promised; write a [[nodes]] table with its name and [[nodes.gpus]]",
    )
    assert "no node is promised" in desk.problems('name = "lab"\n')[0]


def test_an_error_in_a_parent_names_the_parents_file(desk):
    desk.write('name = "base"\n[limits]\nooms = -1\n[cpu]\nband_percent = [90, 10]\n', "base.toml")
    found = desk.problems(RIG.replace('"lab"\n', '"lab"\nextends = "base.toml"\n', 1))
    assert found == (
        "base.toml: limits.ooms = -1: too small, it has to be at least 0; write 0 or more",
        "base.toml: cpu.band_percent = [90, 10]: low end above high end; write e.g. [10, 90]",
    )


def test_a_circle_of_extends_is_named(desk):
    desk.write('name = "b"\nextends = "lab.toml"\n', "b.toml")
    found = desk.problems(RIG.replace('"lab"\n', '"lab"\nextends = "b.toml"\n', 1))
    assert len(found) == 1
    assert found[0].startswith(
        'b.toml: extends = "lab.toml": goes in a circle: lab.toml extends b.toml extends lab.toml'
    )
    itself = desk.problems(RIG.replace('"lab"\n', '"lab"\nextends = "lab.toml"\n', 1))
    assert "goes in a circle" in itself[0]


def test_a_missing_parent_file_suggests_what_lies_beside(desk):
    desk.write('name = "base"\n', "base.toml")
    (line,) = desk.problems(RIG.replace('"lab"\n', '"lab"\nextends = "./bose.toml"\n', 1))
    assert (
        line == 'lab.toml: extends = "./bose.toml": no such file beside this one; did you mean "./base.toml"?'
    )


def test_a_wrong_name_suggests_the_nearest():
    (line,) = problems_of("dual-3090-3071")
    assert 'hwprofile = "dual-3090-3071": rigproof has no rig of that name' in line
    assert 'did you mean "dual-3090-3070"' in line
    (line,) = problems_of("zzz")
    assert "known: dual-3090-3070, dual-3090-3070-balanced, " in line
    assert "is plain h200-x2" in problems_of("h200-x2.toml")[0]


def test_toml_syntax_errors_name_the_line(desk):
    (line,) = desk.problems('name = "lab"\nnodes = = 3\n')
    assert line.startswith("lab.toml: line 2: 'nodes = = 3': not TOML: ")
    (line,) = desk.problems('name = "lab')
    assert line.startswith("lab.toml: line 1: ")
    (line,) = desk.problems('name = "lab"\nname = "lab"\n')
    assert line.startswith("lab.toml: line 2: ")


@pytest.mark.parametrize("how", ["byte order mark", "lines of Windows", "both"])
def test_what_an_editor_of_windows_writes_is_a_profile(desk, tmp_path, how):
    text = RIG if how == "byte order mark" else RIG.replace("\n", "\r\n")
    (tmp_path / "lab.toml").write_bytes(text.encode("utf-8" if how == "lines of Windows" else "utf-8-sig"))
    assert load_rig("./lab.toml", KINDS).rig == desk.load(RIG).rig


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_another_encoding_is_refused_with_the_way_out(desk, tmp_path, encoding):
    (tmp_path / "lab.toml").write_bytes(RIG.encode(encoding))
    (line,) = problems_of("./lab.toml")
    assert line.startswith("lab.toml: ")
    assert "not UTF-8 text" in line
    assert line.endswith("; save the file as UTF-8")


def test_files_that_are_no_profiles_are_clean_errors(desk, tmp_path):
    assert problems_of("./nowhere.toml") == ("nowhere.toml: No such file or directory; name a .toml file",)
    assert "is a folder" in problems_of(f"{tmp_path}/")[0]
    (tmp_path / "latin.toml").write_bytes(b'name = "x"\ndescription = "\xe4"\n')
    assert problems_of("./latin.toml") == ("latin.toml: line 2: not UTF-8 text; save the file as UTF-8",)
    (tmp_path / "big.toml").write_bytes(b"# " + b"x" * (1 << 20))
    assert "1048578 bytes are more than the 1048576 it can have" in problems_of("./big.toml")[0]
    (tmp_path / "deep.toml").write_text("a = " + "[" * 20000)
    assert "nested too deep" in problems_of("./deep.toml")[0]
    (tmp_path / "dots.toml").write_text(".".join("a" * 20000) + " = 1")
    assert "line 1: more than 200 dots: nested too deep" in problems_of("./dots.toml")[0]
    (tmp_path / "dots.toml").write_text(".".join("a" * 200) + " = 1")
    assert any("unknown key" in line for line in problems_of("./dots.toml"))
    assert problems_of("./nul\0.toml")
    assert problems_of("x" * 5000 + ".toml")
    assert problems_of("")


def test_an_unreadable_file_is_a_clean_error(desk, monkeypatch):
    desk.write(RIG)

    def refuse(*_args, **_kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("rigproof.records.limits.os.open", refuse)
    assert problems_of("./lab.toml") == ("lab.toml: Permission denied; name a .toml file",)


def test_a_pipe_is_not_waited_for(desk, tmp_path):
    os.mkfifo(tmp_path / "pipe.toml")
    assert "not a regular file" in problems_of("./pipe.toml")[0]


def test_thousands_of_mistakes_are_cut_short_and_counted(desk):
    found = desk.problems(RIG + "[limits]\n" + "".join(f"key{number} = 1\n" for number in range(3000)))
    assert len(found) == PROBLEMS_SHOWN + 1
    assert found[-1].endswith("2900 more problems; correct those above first")


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("cpu = 8", 'cpu = 8: not a table; write it as a table of keys and values, or did you mean "cpus"?'),
        ('cpus = "16"', 'cpus = "16": not a number; write it without quotes: 16'),
        ('cpus = "all"', 'cpus = "all": not a number; write a number such as 10'),
        ("stages = 1", "stages = 1: not a table; write it as a table of keys and values"),
    ],
)
def test_a_value_of_the_wrong_type_is_told_what_was_probably_meant(desk, written, said):
    (line,) = desk.problems(RIG.replace('[[nodes]]\nname = "a"\n', f'[[nodes]]\nname = "a"\n{written}\n'))
    assert line == f"lab.toml: nodes[0].{said}"


def test_an_unknown_sku_stem_suggests_the_nearest():
    with pytest.raises(ProfileError, match='did you mean "rtx-3090"'):
        load_sku("rtx-390", KINDS)
