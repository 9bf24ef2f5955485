"""Every line of the doctor, from fake machines."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec import structs

from fixtures.fake_root import FakeRoot
from laptime.kit.extras import install
from laptime.probes import machine, nvml, rapl
from laptime.probes.cpu import cpu
from laptime.probes.energy import Absence, CounterMeter
from laptime.probes.nvml import Gpu
from laptime.probes.others import Other
from laptime.probes.scheduler import Reading
from laptime.probes.wall import Timer
from laptime.records.environment import Device, DoctorCheck, Environment
from laptime.verbs.doctor import checks

GIB = 2**30


@pytest.fixture
def tree(tmp_path: Path) -> FakeRoot:
    """Bare metal, 4 logical CPUs on 2 cores, performance governor, turbo off."""
    tree = FakeRoot(tmp_path)
    info = "processor : {n}\nvendor_id : GenuineIntel\nmodel name : Xeon\nflags : avx2 avx512f amx_bf16\n\n"
    tree.put("proc/cpuinfo", "".join(info.format(n=n) for n in range(4)))
    tree.put("proc/self/status", "Cpus_allowed_list:\t0-3\n")
    tree.put("proc/meminfo", "MemTotal:  16777216 kB\nMemAvailable:  8388608 kB\n")
    tree.put("sys/devices/system/cpu/online", "0-3")
    for number, pair in enumerate(["0,2", "1,3", "0,2", "1,3"]):
        tree.put(f"sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list", pair)
    tree.put("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "performance")
    tree.put("sys/devices/system/cpu/intel_pstate/no_turbo", "1")
    return tree


def _environment(tree: FakeRoot) -> Environment:
    return machine.environment(tree.root)


def _named(lines: Iterable[DoctorCheck], name: str) -> DoctorCheck:
    (found,) = [line for line in lines if line.name == name]
    return found


def _outcomes(lines: Iterable[DoctorCheck]) -> set[str]:
    found = list(lines)
    for line in found:
        assert line.sentence
        assert (line.outcome == "warn") <= bool(line.next), f"{line.name} warns without a command"
    return {line.outcome for line in found}


def test_a_whole_machine_is_content(tree: FakeRoot) -> None:
    lines = [*checks.cpus(_environment(tree))]
    assert _outcomes(lines) == {"ok"}
    assert "4 vCPUs on 2" in _named(lines, "cpu/cores").sentence
    assert "all 4 CPUs" in _named(lines, "cpu/limit").sentence
    assert "amx_bf16" in _named(lines, "cpu/isa").sentence


def test_a_container_quota_ends_with_the_docker_option(tree: FakeRoot) -> None:
    tree.cgroup2("/app", {"cpu.max": "200000 100000", "cpu.stat": ""})
    line = _named([*checks.cpus(_environment(tree))], "cpu/quota")
    assert line.outcome == "warn"
    assert "2 of 4 CPUs" in line.sentence
    assert "docker run --cpus 4" in line.next


def test_a_version_1_quota_of_part_of_a_cpu_says_what_that_means(tree: FakeRoot) -> None:
    tree.cgroup1("cpu", "/a", {"cpu.cfs_quota_us": "150000", "cpu.cfs_period_us": "100000"})
    line = _named([*checks.cpus(_environment(tree))], "cpu/quota")
    assert "1.5 of 4" in line.sentence
    assert "stopping threads" in line.sentence


def test_a_narrow_affinity_ends_with_taskset(tree: FakeRoot) -> None:
    tree.put("proc/self/status", "Cpus_allowed_list:\t1\n")
    line = _named([*checks.cpus(_environment(tree))], "cpu/affinity")
    assert (line.outcome, line.next) == ("warn", "taskset -c 0-3 laptime doctor")


def test_hidden_cores_are_no_warning(tree: FakeRoot) -> None:
    tree.put("proc/cpuinfo", "processor : 0\nflags : avx2 hypervisor\n")
    for number in range(4):
        tree.put(f"sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list", str(number))
    line = _named([*checks.cpus(_environment(tree))], "cpu/cores")
    assert line.outcome == "none"
    assert "hypervisor hides" in line.sentence


def test_memory_says_the_containers_limit(tree: FakeRoot) -> None:
    (line,) = [*checks.memory(_environment(tree), 8 * GIB, exact_peak=True)]
    assert (line.outcome, line.sentence) == ("ok", "16.0 GiB memory, 8.00 GiB free to use")
    tree.cgroup2("/app", {"memory.max": str(4 * GIB), "memory.stat": ""})
    (line,) = [*checks.memory(_environment(tree), 3 * GIB, exact_peak=True)]
    assert "4.00 GiB of 16.0 GiB memory (container limit)" in line.sentence


def test_little_memory_warns_with_a_command_that_fits_the_cause(tree: FakeRoot) -> None:
    (line,) = [*checks.memory(_environment(tree), GIB, exact_peak=True)]
    assert (line.outcome, line.next[:2]) == ("warn", "ps")
    tree.cgroup2("/app", {"memory.max": str(GIB), "memory.stat": ""})
    (line,) = [*checks.memory(_environment(tree), GIB, exact_peak=True)]
    assert "docker run --memory" in line.next


def test_a_peak_that_cannot_be_reset_is_told(tree: FakeRoot) -> None:
    lines = [*checks.memory(_environment(tree), 8 * GIB, exact_peak=False)]
    assert _named(lines, "memory/peak").outcome == "none"


def test_steady_clocks_are_content(tree: FakeRoot) -> None:
    lines = [*checks.clocks(_environment(tree), vendor="GenuineIntel", battery=False)]
    assert _outcomes(lines) == {"ok"}


def test_a_saving_governor_ends_with_cpupower(tree: FakeRoot) -> None:
    tree.put("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "powersave")
    lines = [*checks.clocks(_environment(tree), vendor="GenuineIntel", battery=None)]
    assert _named(lines, "cpu/governor").next == "sudo cpupower frequency-set -g performance"


@pytest.mark.parametrize(
    ("file", "on", "vendor", "command"),
    [
        ("intel_pstate/no_turbo", "0", "GenuineIntel", "intel_pstate/no_turbo"),
        ("cpufreq/boost", "1", "AuthenticAMD", "cpufreq/boost"),
    ],
)
def test_turbo_ends_with_the_file_of_its_maker(
    tmp_path: Path, file: str, on: str, vendor: str, command: str
) -> None:
    tree = FakeRoot(tmp_path)
    tree.put(f"sys/devices/system/cpu/{file}", on)
    lines = [*checks.clocks(_environment(tree), vendor=vendor, battery=None)]
    assert command in _named(lines, "cpu/turbo").next


def test_a_hidden_governor_and_turbo_are_no_warning(tmp_path: Path) -> None:
    lines = [*checks.clocks(_environment(FakeRoot(tmp_path)), vendor="", battery=None)]
    assert _outcomes(lines) == {"none"}


def test_a_battery_warns(tree: FakeRoot) -> None:
    lines = [*checks.clocks(_environment(tree), vendor="", battery=True)]
    assert _named(lines, "power/battery").outcome == "warn"


def test_neighbours_are_named_with_their_owners_and_nobody_is_to_be_killed(tree: FakeRoot) -> None:
    running = [Other(7, "burn", 0.98, "ann"), Other(8, "idle", 0.03, "bob")]
    line = checks.others(running, _environment(tree))
    assert line.outcome == "warn"
    assert (
        "others use 1.0 of 4 CPUs: burn of ann (7) 98%, idle of bob (8) 3%; wait for them, or ask"
        in line.sentence
    )
    assert line.next == "ps -o user,pid,etime,args -p 7"
    assert checks.others([Other(8, "idle", 0.03)], _environment(tree)).outcome == "ok"


def test_many_small_neighbours_still_name_somebody(tree: FakeRoot) -> None:
    running = [Other(n, "small", 0.04) for n in range(5)]
    line = checks.others(running, _environment(tree))
    assert line.outcome == "warn"
    assert line.next == "ps -o user,pid,etime,args -p 0,1,2"


QUIET = Reading(waited_s=0.0, stolen_s=1.0, throttled_s=0.0, switches=1, missing_s=0.0)


def test_steal_is_a_share_of_all_cpus(tree: FakeRoot) -> None:
    later = QUIET._replace(stolen_s=1.4)
    environment = _environment(tree)
    assert checks.steal_share(QUIET, later, 10.0, environment) == pytest.approx(0.01)
    line = _named([*checks.stolen(QUIET, later, 10.0, environment)], "cpu/steal")
    assert line.outcome == "warn"
    assert "1.0%" in line.sentence
    assert _outcomes([*checks.stolen(QUIET, QUIET, 10.0, environment)]) == {"ok"}


def test_steal_that_is_not_told_is_no_zero(tree: FakeRoot) -> None:
    blind = Reading(waited_s=None, stolen_s=None, throttled_s=None, switches=None)
    assert checks.steal_share(blind, blind, 10.0, _environment(tree)) is None
    assert _outcomes([*checks.stolen(blind, blind, 10.0, _environment(tree))]) == {"none"}


def test_throttling_ends_with_a_thread_count(tree: FakeRoot) -> None:
    tree.cgroup2("/app", {"cpu.max": "250000 100000", "cpu.stat": ""})
    lines = [*checks.stolen(QUIET, QUIET._replace(throttled_s=0.5), 10.0, _environment(tree))]
    line = _named(lines, "cpu/throttled")
    assert "500 ms" in line.sentence
    assert "--threads 2" in line.next


def test_a_slow_clock_names_its_source() -> None:
    slow = Timer("perf_counter", step=1e-6, cost=2e-6)
    lines = [*checks.timing([slow], "hpet", QUIET, 5e-6)]
    line = _named(lines, "timer")
    assert line.outcome == "warn"
    assert "hpet" in line.sentence
    assert "current_clocksource" in line.next
    fast = Timer("perf_counter", step=4e-8, cost=4e-8)
    assert _outcomes([*checks.timing([fast], "tsc", QUIET, 5e-6)]) == {"ok"}


def test_evidence_that_is_missing_is_told() -> None:
    fast = Timer("perf_counter", step=4e-8, cost=4e-8)
    blind = Reading(waited_s=None, stolen_s=None, throttled_s=0.0, switches=3, missing_s=0.0)
    lines = [*checks.timing([fast], None, blind, 1e-6)]
    assert "CPU, stolen" in _named(lines, "evidence/missing").sentence


def test_closed_energy_counters_end_with_the_command_that_opens_them(tree: FakeRoot) -> None:
    tree.put("sys/class/powercap/intel-rapl:0/name", "package-0")
    _, absent = rapl.open_meters(tree.root)
    assert absent is not None
    lines = [*checks.energy([], {"rapl": absent})]
    assert _outcomes(lines) == {"warn"}
    assert lines[0].next.startswith("sudo chmod a+r /sys/class/powercap/")


def test_energy_that_nothing_would_help_is_one_quiet_line() -> None:
    lines = [*checks.energy([], {"nvml": Absence("no NVIDIA GPU"), "rapl": Absence("hidden")})]
    assert [(line.outcome, line.sentence) for line in lines] == [
        ("none", "no energy readings: no NVIDIA GPU; hidden")
    ]


def test_a_slow_meter_says_how_long_windows_must_be() -> None:
    meter = CounterMeter("nvml:0", lambda: 1.0, device="cuda:0", covers="cuda:0", period=0.1)
    (line,) = [*checks.energy([meter], {})]
    assert (line.outcome, line.sentence) == (
        "ok",
        "energy counter of cuda:0 updates every 100 ms: energy needs windows of 2 s and more",
    )


def test_settings_that_slow_everything_are_unset(tree: FakeRoot) -> None:
    environment = structs.replace(
        _environment(tree), knobs={"CUDA_LAUNCH_BLOCKING": "1", "TORCH_COMPILE_DISABLE": "0"}
    )
    (line,) = [*checks.settings(environment)]
    assert (line.outcome, line.next) == ("warn", "unset CUDA_LAUNCH_BLOCKING")


def test_more_threads_than_cpus_end_with_the_right_number(tree: FakeRoot) -> None:
    tree.cgroup2("/app", {"cpu.max": "150000 100000", "cpu.stat": ""})
    crowded = structs.replace(_environment(tree), knobs={"torch.num_threads": 64})
    (line,) = [*checks.settings(crowded)]
    assert line.next == "export OMP_NUM_THREADS=1"
    assert [*checks.settings(structs.replace(crowded, knobs={"torch.num_threads": 2}))] == []


def test_a_broken_extension_is_named_with_its_reason() -> None:
    (line,) = [*checks.extensions({"reports": {"pdf": "ImportError: no cairo"}, "probes": {}}, 9)]
    assert line.outcome == "warn"
    assert "no cairo)" in line.sentence
    assert line.next
    assert "all 9" in next(checks.extensions({"reports": {}}, 9)).sentence


def test_a_framework_that_is_missing_ends_with_pip() -> None:
    lines = [*checks.frameworks({"torch": {}, "null": {"python": "3.12"}})]
    assert [(line.outcome, line.next) for line in lines] == [("none", install("torch"))]
    assert next(checks.frameworks({"torch": {"torch": "2.15"}})).sentence == "torch 2.15"


# GPUs

GPU = Gpu(
    index=1,
    device="cuda:0",
    uuid="GPU-a",
    model="NVIDIA H200",
    driver="570.86",
    memory=140 * GIB,
    memory_used=0,
    power_limit=700.0,
    power=80.0,
    clock=345e6,
    max_clock=1980e6,
    temperature=31.0,
    throttles=[],
    busy=0.0,
    persistent=True,
    others=[],
)


def test_a_gpu_is_told_with_its_facts() -> None:
    lines = [*checks.gpus([GPU])]
    assert (
        _named(lines, "gpu/1").sentence
        == "cuda:0: NVIDIA H200, 140 GiB, driver 570.86, power limit 700 W, 31 °C"
    )
    assert "nobody else" in _named(lines, "gpu/1/others").sentence


def test_a_clock_that_may_move_ends_with_the_lock_of_that_gpu() -> None:
    line = _named([*checks.gpus([GPU])], "gpu/1/clock")
    assert line.outcome == "warn"
    assert "345 MHz now, up to 1980" in line.sentence
    assert line.next.startswith("sudo nvidia-smi -i 1 -lgc 1380")


@pytest.mark.parametrize(
    ("changes", "name", "words"),
    [
        ({"others": [1, 2]}, "gpu/1/others", "2 other programs on cuda:0"),
        ({"busy": 0.4}, "gpu/1/others", "busy 40% of the time"),
        ({"throttles": ["power limit"]}, "gpu/1/throttled", "held back now: power limit"),
        ({"persistent": False}, "gpu/1/persistence", "persistence mode off"),
    ],
)
def test_trouble_on_a_gpu_warns_with_a_command(changes: dict[str, object], name: str, words: str) -> None:
    line = _named([*checks.gpus([structs.replace(GPU, **changes)])], name)
    assert line.outcome == "warn"
    assert words in line.sentence
    assert "nvidia-smi -i 1" in line.next


def test_a_gpu_that_tells_nothing_more_gives_no_empty_words() -> None:
    silent = structs.replace(
        GPU,
        driver=None,
        memory=None,
        memory_used=None,
        power_limit=None,
        clock=None,
        max_clock=None,
        temperature=None,
        busy=None,
        persistent=None,
    )
    lines = [*checks.gpus([silent])]
    assert [line.name for line in lines] == ["gpu/1", "gpu/1/others"]
    assert lines[0].sentence == "cuda:0: NVIDIA H200"


def test_a_hidden_gpu_is_told_and_not_judged() -> None:
    lines = [*checks.gpus([structs.replace(GPU, device="")])]
    assert [(line.outcome, "CUDA_VISIBLE_DEVICES" in line.sentence) for line in lines] == [("none", True)]


def test_a_gpu_that_torch_does_not_see_warns() -> None:
    lines = [
        *checks.framework_devices(
            [Device(name="cpu", model="CPU")], {"cpu": 0.0}, visible=[GPU], version="2.15.0+cpu"
        )
    ]
    line = _named(lines, "framework/torch/devices")
    assert "torch 2.15.0+cpu does not see cuda:0 (NVIDIA H200)" in line.sentence
    assert line.next


def test_waiting_for_an_accelerator_has_its_price_told() -> None:
    seen = [Device(name="cuda:0", model="NVIDIA H200"), Device(name="cpu", model="CPU")]
    (line,) = [
        *checks.framework_devices(seen, {"cpu": 0.0, "cuda:0": 4.2e-6}, visible=[GPU], version="2.15.0")
    ]
    assert "cuda:0 costs 4.20 us" in line.sentence


def test_fakes_have_the_fields_of_real_ones(tree: FakeRoot) -> None:
    """The GPU record above comes from the same reader as on real machines."""
    library = SimpleNamespace(
        NVMLError=RuntimeError,
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: 1,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetName=lambda handle: "NVIDIA H200",
    )
    (gpu,) = nvml.Nvml(library).gpus({})
    assert _outcomes([*checks.gpus([gpu])]) == {"ok"}
    assert cpu(tree.root).vendor == "GenuineIntel"
