"""Attacks on the verdict that no simulated rig shows by one fault, each with the test that does."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tested:
    """What no simulated rig shows by one fault: the test that does, below tests/."""

    about: str
    before: str
    now: str
    test: str


TESTED = (
    Tested(
        "a healthy run judged by a profile that plans other workers",
        "REJECTED: workers did not start",
        "INCOMPLETE: what rests on the plan is not measured",
        "unit/criteria/checks/test_memory.py::test_another_number_of_workers_fails_no_healthy_rig",
    ),
    Tested(
        "a healthy run judged by a profile with another CPU band",
        "REJECTED",
        "INCOMPLETE",
        "unit/criteria/checks/test_host.py::test_the_band_of_another_profile_fails_nobody_whose_load_aimed_elsewhere",
    ),
    Tested(
        "a card that is left alone because others hold it",
        "`activity.gpu_active` fail: see what that worker waited for",
        "not measured: see inventory.foreign_memory",
        "unit/criteria/checks/test_activity.py::test_a_device_that_was_left_alone_on_purpose_is_not_measured",
    ),
    Tested(
        "an unknown card at a quarter of its rate, 600 MHz, 245 of 700 W",
        "ACCEPTED",
        "REJECTED",
        "unit/test_samples.py::test_an_unknown_card_at_a_quarter_of_its_rate_is_rejected",
    ),
    Tested(
        "a power cap that explains a clock at a third of the cap",
        "pass",
        "fail",
        "unit/criteria/checks/test_clock.py::test_a_power_cap_explains_nothing_where_the_card_draws_less_than_its_cap",
    ),
    Tested(
        "a million times the rate",
        "pass",
        "not measured",
        "unit/criteria/evidence/test_silicon.py::test_a_million_times_the_rate",
    ),
    Tested(
        "a kernel that does not run after the reference",
        "verified",
        "wrong result",
        "unit/stages/gemm/test_workload.py::test_a_kernel_that_does_not_run_after_the_references",
    ),
    Tested(
        "one product in a thousand, in each precision",
        "passes 93 of 100",
        "wrong result",
        "unit/stages/gemm/test_workload.py::test_one_product_in_a_thousand_is_caught_in_each_precision",
    ),
    Tested(
        "memory that does not keep what it is filled with",
        "verified",
        "wrong result",
        "unit/devices/test_pool.py::test_an_operand_that_memory_does_not_keep",
    ),
    Tested(
        "rounds that are recorded twice",
        "twice the rate",
        "not measured",
        "unit/stages/sustained/test_criteria.py::test_rounds_that_are_recorded_twice",
    ),
    Tested(
        "measured rounds that nobody verified",
        "pass",
        "fail",
        "unit/criteria/evidence/test_tasks.py::test_measured_rounds_that_nobody_verified",
    ),
    Tested(
        "energy that disagrees with power",
        "pass",
        "not measured",
        "unit/criteria/evidence/test_sensors.py::test_power_and_energy_agree_within_a_tenth",
    ),
    Tested(
        "a temperature that ignores a step of power",
        "pass",
        "not measured",
        "unit/criteria/evidence/test_sensor_temperatures.py::test_a_temperature_that_ignores_a_step_of_power_is_frozen",
    ),
    Tested(
        "an energy counter that stops, or runs backward, under load",
        "pass",
        "not measured",
        "unit/criteria/evidence/test_sensors.py::test_an_energy_counter_that_counts_no_more_is_doubted",
    ),
    Tested(
        "energy that disagrees in the last 9 s",
        "pass",
        "not measured",
        "unit/criteria/evidence/test_sensors.py::test_a_rest_of_less_than_ten_seconds_has_to_agree_too",
    ),
    Tested(
        "a window that opens before the load",
        "seven criteria not measured",
        "pass",
        "unit/criteria/evidence/test_sensor_times.py::test_a_window_that_opens_before_the_load_is_no_load",
    ),
    Tested(
        "all telemetry 6 s late",
        "REJECTED, “another job on the card”",
        "not measured",
        "unit/criteria/evidence/test_sensor_times.py::test_readings_that_come_late_leave_no_time_before_the_load",
    ),
    Tested(
        "utilisation of another time",
        "“let the rewards keep up”",
        "not measured",
        "unit/stages/feeding/test_criteria.py::test_utilisation_that_reads_nothing_while_it_works",
    ),
    Tested(
        "600 MHz in 45 of 100 samples",
        "pass",
        "fail",
        "unit/criteria/checks/test_clock.py::test_a_clock_that_is_low_for_less_than_half_of_the_time",
    ),
    Tested(
        "600 MHz for half of a stretch, and the rate that it gives",
        "not measured",
        "fail",
        "unit/criteria/checks/test_clock.py::test_a_card_that_fell_half_way_through_is_slow",
    ),
    Tested(
        "a link that is down for two of five seconds",
        "pass",
        "a warning",
        "unit/criteria/checks/test_transfer.py::test_a_moment_at_a_lower_generation_is_no_fault",
    ),
    Tested(
        "a driver that counts no PCIe replays",
        "INCOMPLETE",
        "judged by its link",
        "unit/criteria/checks/test_transfer.py::test_a_card_that_cannot_count_replays",
    ),
    Tested(
        "a sound card whose “average” power is instant",
        "REJECTED for 1 s",
        "pass",
        "unit/criteria/checks/test_power.py::test_a_card_whose_average_is_instant",
    ),
    Tested(
        "recordings of sound cards at 1 and 2 Hz",
        "REJECTED or INCOMPLETE, some",
        "ACCEPTED",
        "unit/test_samples.py::test_a_sample_that_was_read_less_often",
    ),
    Tested(
        "readings from another time than the work",
        "pass",
        "not measured",
        "unit/criteria/evidence/test_sensor_times.py::test_readings_from_another_time_than_the_work_are_none",
    ),
    Tested(
        "a clock at which the card could not do its work",
        "pass or fail",
        "not measured",
        "unit/criteria/checks/test_clock.py::test_a_clock_at_which_the_card_could_not_do_its_work_is_no_reading",
    ),
    Tested(
        "a 3090 at its printed boost",
        "REJECTED",
        "pass",
        "unit/criteria/checks/test_clock.py::test_a_geforce_at_its_printed_boost_passes",
    ),
    Tested(
        "a card without a power limit",
        "not measured",
        "active by its utilisation",
        "unit/criteria/checks/test_activity.py::test_a_card_without_a_power_limit_is_active_by_its_utilisation",
    ),
    Tested(
        "a power limit that moves",
        "read once",
        "judged by its lowest",
        "unit/criteria/checks/test_power.py::test_a_limit_that_falls_during_the_run_is_judged_by_its_lowest",
    ),
    Tested(
        "two drivers on purpose",
        "fail",
        "pass",
        "unit/criteria/checks/test_inventory.py::test_different_drivers_on_purpose_pass",
    ),
    Tested(
        "`--hw-level soak --hw-duration 0.1`",
        "“fit for training”",
        "“ACCEPTED for … s of load, not a soak”",
        "plugin/test_simulated.py::test_",
    ),
    Tested(
        "`judge --hwprofile` with a profile that lint refuses",
        "judged",
        "exit 4",
        "unit/cli/test_cli.py::test_judge_refuses_a_profile",
    ),
    Tested(
        "a rate that misses its limit by 1 %",
        "REJECTED on one measurement",
        "measured twice, both figures reported",
        "simulation/test_measured_again.py::test_",
    ),
    Tested(
        "an `auto` run judged by another profile",
        "“check its network cable”",
        "not measured, with both ways out",
        "unit/criteria/checks/test_cluster.py::test_a_node_of_another_profile",
    ),
    Tested(
        "a card that stutters in 45 % of its measured rounds",
        "ACCEPTED: a median",
        "`throughput.gemm_bf16` fails",
        "unit/stages/sustained/test_criteria_edges.py::test_a_card_that_stutters",
    ),
    Tested(
        "one short slowdown in each attempt at a stage that was repeated",
        "a warning",
        "`thermal.throttle` fails",
        "unit/criteria/checks/test_thermal.py::test_a_slowdown_in_each_attempt",
    ),
    Tested(
        "an unknown card that multiplies well and trains at 30 %",
        "ACCEPTED",
        "`training.step` fails",
        "unit/stages/training/test_criteria.py::test_a_card_without_a_sku_file_trains",
    ),
    Tested(
        "57 of 70 s of the sustained stage labelled as warm-up, at a third of the rate",
        "ACCEPTED for 12 s",
        "not measured",
        "unit/criteria/evidence/test_rates.py::test_a_warm_up_of_more_than_half",
    ),
    Tested(
        "a last round in fp32 behind a sustained stage in bf16",
        "judged by the floor of fp32",
        "not measured",
        "unit/criteria/evidence/test_rates.py::test_a_rate_is_reported_with_its_precision",
    ),
    Tested(
        "a champion of 5000 TFLOP/s",
        "REJECTED: a floor of 4750",
        "no floor",
        "unit/criteria/evidence/test_floors.py::test_a_champion_that_no_silicon_can_do",
    ),
    Tested(
        "a recording that says its level had no sustained stage, and holds one",
        "“fit for training”",
        "judged",
        "unit/judging/test_judge.py::test_a_stage_that_ran_is_judged",
    ),
    Tested(
        "a desktop at 6 % of the SMs, an empty CUDA context",
        "REJECTED",
        "`activity.undisturbed` warns",
        "unit/criteria/checks/test_disturbance.py::test_an_empty_context",
    ),
    Tested(
        "ECC switched off on an H200",
        "not applicable",
        "`health.ecc_mode` fails",
        "unit/criteria/checks/test_ecc_mode.py::test_ecc_that_is_off_fails",
    ),
    Tested(
        "a driver that is killed in the middle, and the next start",
        "nothing",
        "INCOMPLETE; the next one warns",
        "faults/test_killed_driver.py::test_",
    ),
    Tested(
        "rounds in GB or GFLOP where TFLOP are meant",
        "pass",
        "not measured",
        "unit/criteria/evidence/test_stage_rounds.py::test_a_round_in_another_unit",
    ),
    Tested(
        "a card a seventh slower than its twin, with its power limit a watt lower",
        "ACCEPTED",
        "`throughput.peer_outlier` fails",
        "unit/stages/sustained/test_peers.py::test_a_watt_more_or_less_hides_no_straggler",
    ),
    Tested(
        "two stragglers of three, two of four, three of five, four of eight",
        "ACCEPTED, some",
        "each is named",
        "unit/stages/sustained/test_peers.py::test_each_straggler_is_named",
    ),
    Tested(
        "two stragglers of two",
        "`throughput.combined` fails and points to a criterion that passes",
        "it names both, with the part that they lack",
        "unit/stages/sustained/test_peers.py::test_two_slow_cards_of_two_are_named",
    ),
    Tested(
        "0.3 of the work in fp32 or tf32 training steps",
        "pass",
        "fail, beside a peer and alone",
        "unit/stages/training/test_criteria.py::test_a_step_in_32_bits",
    ),
    Tested(
        "0.3 of the work in any batch of the sweep",
        "pass",
        "fail, beside a peer and alone",
        "unit/stages/training/test_criteria.py::test_each_batch_of_the_sweep",
    ),
    Tested(
        "memory of a known model that is 7 % slower than its twin's",
        "pass",
        "fail",
        "unit/stages/bandwidth/test_criteria.py::test_a_card_of_a_known_model_is_held_against_its_twin",
    ),
    Tested(
        "a copy in RAM that arrives wrong, and is overwritten by the next one",
        "ACCEPTED",
        "`host.memory` fails",
        "unit/stages/ram/test_memory_test.py::test_a_copy_that_arrived_wrong_shows_in_all_that_follow",
    ),
    Tested(
        "one round of a host's RAM that is not verified",
        "ACCEPTED",
        "`host.memory` fails",
        "unit/stages/ram/test_criteria.py::test_a_round_of_copies_that_arrived_wrong_fails_without_an_event",
    ),
    Tested(
        "wrong words or chunks that only the test's own record counts",
        "ACCEPTED",
        "not measured",
        "unit/stages/ram/test_criteria.py::test_wrong_words_that_only_the_test_counted_are_no_measurement",
    ),
    Tested(
        "a slowdown while the card rests, in transfer or ram",
        "ACCEPTED",
        "`thermal.throttle` fails",
        "unit/criteria/checks/test_thermal.py::test_a_slowdown_while_the_card_rests_is_one_too",
    ),
    Tested(
        "an Xid or a wrong result of a card that is not there",
        "ignored",
        "not measured, for the cards of that node",
        "unit/criteria/checks/test_health.py::test_an_xid_of_a_card_that_is_not_there_is_not_ignored",
    ),
    Tested(
        "an Xid or a wrong result of a host or of the rig, which only devices have",
        "ignored",
        "not measured, for the cards of that node",
        "unit/criteria/checks/test_health.py::test_an_xid_of_a_card_that_is_not_there_is_not_ignored",
    ),
    Tested(
        "a round of a card's warm-up that is not verified, without a wrong result",
        "ACCEPTED",
        "`memory.success_rate` not measured",
        "unit/criteria/evidence/test_tasks.py::test_warm_up_that_nobody_verified",
    ),
    Tested(
        "3 wrong passes that only the count of the pattern stage tells of",
        "ACCEPTED",
        "`memory.pattern` not measured",
        "unit/stages/pattern/test_criteria.py::test_passes_that_only_the_count_says_were_wrong",
    ),
    Tested(
        "rounds without a label of their stage, such as the precision, or with a precision that is none",
        "ACCEPTED in feeding, replay and shapes, which have no rate for each",
        "not measured, in every stage",
        "unit/criteria/evidence/test_stage_rounds.py::test_a_round_whose_labels_are_not_those_of_its_stage",
    ),
    Tested(
        "a disk test that read nothing back, or more than it wrote",
        "ACCEPTED",
        "`host.disk` not measured",
        "unit/stages/disk/test_criteria.py::test_a_test_that_read_nothing_back",
    ),
    Tested(
        "two cards of a node with one PCI bus id",
        "ACCEPTED",
        "`inventory.gpus_present` not measured",
        "unit/criteria/checks/test_inventory.py::test_two_cards_at_one_place_on_the_bus_contradict_each_other",
    ),
    Tested(
        "sensors of two cards that agree in every digit",
        "ACCEPTED",
        "not measured",
        "unit/criteria/evidence/test_sensors.py::test_sensors_of_two_cards_that_agree_in_every_digit_are_those_of_one",
    ),
    Tested(
        "a replay that counts a differing run, without a wrong result",
        "ACCEPTED",
        "`training.replay` not measured",
        "unit/stages/replay/test_criteria.py::test_runs_that_only_the_count_says_differ_are_no_measurement",
    ),
    Tested(
        "a pool of rewards smaller than planned, which lowers its own limit",
        "ACCEPTED",
        "`feeding.parallel_rewards` not measured",
        "unit/stages/feeding/test_criteria.py::test_a_pool_smaller_than_planned_does_not_lower_its_own_limit",
    ),
    Tested(
        "a node's clock that jumps by 30 s in mid-run",
        "REJECTED: another job on the card, heat, a weak power supply",
        "INCOMPLETE: the hole is named",
        "unit/criteria/evidence/test_clocks.py::test_a_clock_that_jumps_in_mid_run_rejects_nothing_and_is_named",
    ),
    Tested(
        "Gen1 x4 for the last 14 s of training on two H200",
        "a warning",
        "`transfer.link` fails",
        "unit/test_samples.py::test_a_link_that_goes_down_for_the_last_part_of_training_is_rejected",
    ),
    Tested(
        "a link that is down under its own transfers alone",
        "`transfer.h2d` fails at “Gen5 x16”: see transfer.link, which passes",
        "it says that the link was down then, and what to do",
        "unit/stages/transfer/test_criteria.py::test_a_link_that_is_down_under_its_own_transfers_alone_is_named",
    ),
    Tested(
        "waves of the last GPU to join, or of a lone one, at 0.6 of its rate",
        "pass",
        "`power.transient` fails: the sustained rate is the reference",
        "unit/stages/transient/test_criteria.py::test_the_last_gpu_to_join",
    ),
    Tested(
        "0.6 of the rate at 20 Hz alone",
        "pass",
        "`power.transient` fails: slower waves are the reference",
        "unit/stages/transient/test_criteria.py::test_faster_waves",
    ),
)
