"""`rigproof lint` says how a rig was understood."""

from rigproof.profiles.documents.text import summary_lines


def lines(loaded):
    return list(summary_lines(loaded))


def test_a_rig_is_told_with_what_it_inherits_and_from_where(desk):
    desk.write(
        'name = "base"\n[limits]\nooms = 3\ncore_temperature_c = 80\n[[nodes]]\nname = "pc1"\naddress = '
        '"10.0.0.1"\n'
        'cpus = 8\n[[nodes.gpus]]\nsku = "rtx-3090"\nworkers = 2\n[[nodes]]\nname = "pc2"\naddress = '
        '"pc2.lan"\n'
        '[[nodes.gpus]]\nsku = "unknown"\nmemory_gib = 4\ngemm_size = 1024\n',
        "base.toml",
    )
    loaded = desk.load(
        'name = "lab"\nextends = "./base.toml"\n[limits]\nooms = 2\n[[nodes]]\nname = "pc1"\naddress = '
        '"10.0.0.9"\n'
    )
    assert lines(loaded) == [
        "lab (lab.toml): 2 machines",
        "  pc1: 10.0.0.9, 8 CPUs",
        "    pc1/gpu0: GeForce RTX 3090 (hwprofiles/gpus/rtx-3090.toml); 2 workers fill 16.8 of 24 GiB, "
        "matrices of 8192",
        "  pc2: pc2.lan, CPUs not stated",
        "    pc2/gpu0: unknown: no figures known for this card: judged by NVML's limits and its "
        "architecture's "
        "floors; 1 worker fills 2.8 of 4 GiB, matrices of 1024",
        "  stated in lab.toml: limits.ooms = 2",
        "  inherited from base.toml: limits.core_temperature_c = 80, cpus and gpus of pc1, "
        "address and gpus of pc2",
    ]


def test_a_machine_whose_parts_are_found_later_is_told_as_that(desk):
    loaded = desk.load('name = "one"\n[[nodes]]\nname = "a"\n[[nodes.gpus]]\nsku = "unknown"\n')
    assert lines(loaded) == [
        "one (lab.toml): 1 machine",
        "  a: this machine, CPUs as found",
        "    a/gpu0: unknown: whatever card is found in its place, matrices of 8192",
    ]


def test_lists_of_tables_are_shown_once(desk):
    rates = '[[architectures]]\ncompute_capability = "8.6"\nhighest = { fp32 = 128 }\n'
    loaded = desk.load('name = "one"\n[[nodes]]\nname = "a"\n[[nodes.gpus]]\nsku = "rtx-3090"\n' + rates)
    (stated,) = [line for line in lines(loaded) if "stated in" in line]
    assert stated.startswith('  stated in lab.toml: architectures = [{"compute_capability"')
    assert stated.count("architectures") == 1
