"""The machine, read from fake trees: bare metal, guests, containers; Intel, AMD, Arm."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from fixtures.fake_root import FakeRoot
from laptime.probes import machine
from laptime.probes import machine as software
from laptime.probes.cpu import cpu, cpu_list

XEON = """processor\t: {n}
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 143
model name\t: Intel(R) Xeon(R)  Platinum 8480+
stepping\t: 8
flags\t\t: fpu avx avx2 fma f16c avx512f avx512_bf16 amx_tile amx_bf16 {more}

"""
GRAVITON = """processor\t: 0
BogoMIPS\t: 2100.00
Features\t: fp asimd asimdhp asimddp sve i8mm bf16
CPU implementer\t: 0x41
CPU part\t: 0xd40

"""


def _cpus(tree: FakeRoot, siblings: list[str]) -> None:
    tree.put("sys/devices/system/cpu/online", f"0-{len(siblings) - 1}")
    for number, words in enumerate(siblings):
        tree.put(f"sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list", words)


@pytest.fixture
def tree(tmp_path: Path) -> FakeRoot:
    tree = FakeRoot(tmp_path)
    tree.put("proc/cpuinfo", "".join(XEON.format(n=n, more="") for n in range(4)))
    tree.put("proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-3\nVmRSS:\t 10 kB\n")
    tree.put("proc/meminfo", "MemTotal:  16000000 kB\nMemAvailable:  4000 kB\n")
    tree.put("proc/loadavg", "1.50 0.45 0.30 3/97 9178\n")
    tree.put("proc/pressure/cpu", "some avg10=12.50 avg60=0.41 avg300=0.79 total=3\n")
    tree.put("etc/os-release", 'NAME=x\nPRETTY_NAME="Ubuntu 24.04.1 LTS"\n')
    tree.put("proc/sys/kernel/osrelease", "6.8.0-40-generic\n")
    _cpus(tree, ["0,2", "1,3", "0,2", "1,3"])
    return tree


def test_hyperthreads_are_not_counted_as_cores(tree: FakeRoot) -> None:
    found = cpu(tree.root)
    assert (found.vcpus, found.physical_cores) == (4, 2)
    assert found.model == "Intel(R) Xeon(R) Platinum 8480+"
    assert (found.vendor, found.family, found.code, found.stepping) == ("GenuineIntel", 6, 143, 8)
    assert found.isa == ["avx", "avx2", "fma", "f16c", "avx512f", "avx512_bf16", "amx_tile", "amx_bf16"]


def test_bare_metal_without_hyperthreads_has_as_many_cores_as_cpus(tree: FakeRoot) -> None:
    _cpus(tree, ["0", "1", "2", "3"])
    assert cpu(tree.root).physical_cores == 4


def test_a_guest_that_is_shown_no_hyperthreads_does_not_know_its_cores(tree: FakeRoot) -> None:
    tree.put("proc/cpuinfo", XEON.format(n=0, more="hypervisor"))
    _cpus(tree, ["0", "1", "2", "3"])
    assert cpu(tree.root).physical_cores is None


def test_a_guest_that_is_shown_hyperthreads_knows_its_cores(tree: FakeRoot) -> None:
    tree.put("proc/cpuinfo", XEON.format(n=0, more="hypervisor"))
    assert cpu(tree.root).physical_cores == 2


@pytest.mark.parametrize(
    ("allowed", "kind"), [("0-3", ""), ("0-1", "2 on 1 core"), ("0,2", "2 on 2 cores"), ("3", "1 on 1 core")]
)
def test_pinned_cpus_are_told_by_the_cores_that_they_share(tree: FakeRoot, allowed: str, kind: str) -> None:
    _cpus(tree, ["0-1", "0-1", "2-3", "2-3"])
    tree.put("proc/self/status", f"Cpus_allowed_list:\t{allowed}\n")
    assert cpu(tree.root).kind == kind


def test_pinned_cpus_of_a_machine_with_fast_and_slow_ones_are_told_by_their_clock(tree: FakeRoot) -> None:
    _cpus(tree, ["0", "1", "2", "3"])
    for number, khz in enumerate((5_200_000, 5_200_000, 3_900_000, 3_900_000)):
        tree.put(f"sys/devices/system/cpu/cpu{number}/cpufreq/cpuinfo_max_freq", f"{khz}\n")
    kinds = []
    for allowed in ("0", "1", "2", "1-2"):
        tree.put("proc/self/status", f"Cpus_allowed_list:\t{allowed}\n")
        kinds.append(cpu(tree.root).kind)
    fast = "1 on 1 core of 5200 MHz"
    assert kinds == [fast, fast, "1 on 1 core of 3900 MHz", "2 on 2 cores of 3900 and 5200 MHz"]


def test_an_arm_server_is_named_by_its_part_number(tree: FakeRoot) -> None:
    tree.put("proc/cpuinfo", GRAVITON)
    found = cpu(tree.root)
    assert found.model == "Neoverse V1"
    assert found.vendor == "Arm"
    assert found.code == 0xD40
    assert found.isa == ["asimd", "asimdhp", "asimddp", "i8mm", "bf16", "sve"]
    assert found.guest is None


def test_governor_and_turbo_of_intel(tree: FakeRoot) -> None:
    for number in range(2):
        tree.put(f"sys/devices/system/cpu/cpufreq/policy{number}/scaling_governor", "powersave\n")
        tree.put(f"sys/devices/system/cpu/cpufreq/policy{number}/cpuinfo_max_freq", "3800000\n")
    tree.put("sys/devices/system/cpu/intel_pstate/no_turbo", "1\n")
    found = cpu(tree.root)
    assert (found.governor, found.turbo, found.max_hz) == ("powersave", False, 3.8e9)


def test_turbo_of_amd_is_called_boost(tree: FakeRoot) -> None:
    tree.put("sys/devices/system/cpu/cpufreq/boost", "1\n")
    assert cpu(tree.root).turbo is True


def test_mixed_governors_are_all_named(tree: FakeRoot) -> None:
    tree.put("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "powersave\n")
    tree.put("sys/devices/system/cpu/cpufreq/policy1/scaling_governor", "performance\n")
    assert cpu(tree.root).governor == "performance+powersave"


def test_an_empty_root_gives_none_and_never_raises(tmp_path: Path) -> None:
    found = machine.environment(str(tmp_path))
    assert found.governor is None
    assert found.turbo is None
    assert found.physical_cores is None
    assert found.cpu_quota is None
    assert found.memory_limit is None
    assert found.virtual is None
    assert found.load == {}
    assert found.vcpus >= 1
    assert found.memory > 0


def test_garbage_in_the_files_is_none_and_never_raises(tmp_path: Path) -> None:
    tree = FakeRoot(tmp_path)
    for path in (
        "proc/cpuinfo",
        "proc/self/cgroup",
        "proc/self/mountinfo",
        "proc/loadavg",
        "proc/meminfo",
        "proc/self/status",
        "proc/pressure/cpu",
        "sys/devices/system/cpu/online",
        "sys/devices/system/cpu/intel_pstate/no_turbo",
    ):
        tree.put(path, "\x00 : - x,y\n:::\n")
    assert machine.environment(tree.root).turbo is None


def test_quota_and_affinity_together_say_what_is_usable(tree: FakeRoot) -> None:
    tree.put("proc/self/status", "Cpus_allowed_list:\t0,2-3\n")
    assert machine.environment(tree.root).usable_cpus == 3.0
    tree.cgroup2("/app", {"cpu.max": "150000 100000", "cpu.stat": ""})
    found = machine.environment(tree.root)
    assert found.affinity == [0, 2, 3]
    assert (found.cpu_quota, found.usable_cpus) == (1.5, 1.5)


def test_load_and_pressure_are_plain_numbers(tree: FakeRoot) -> None:
    assert machine.load(tree.root) == {"average": 1.5, "runnable": 3.0, "pressure": 0.125}


def test_the_operating_system_is_kernel_and_distribution(tree: FakeRoot) -> None:
    assert machine.operating_system(tree.root).endswith("6.8.0-40-generic · Ubuntu 24.04.1 LTS")


@pytest.mark.parametrize(
    ("files", "flags", "expected"),
    [
        ({}, "", ""),
        ({}, "hypervisor", "unnamed"),
        ({"sys/class/dmi/id/sys_vendor": "Amazon EC2"}, "hypervisor", "amazon"),
        ({"sys/class/dmi/id/product_name": "m5.metal"}, "", ""),
        ({"sys/class/dmi/id/sys_vendor": "QEMU"}, "hypervisor", "qemu"),
        ({"sys/class/dmi/id/chassis_asset_tag": "OracleCloud.com"}, "hypervisor", "oracle"),
        (
            {
                "sys/class/dmi/id/sys_vendor": "Microsoft Corporation",
                "sys/class/dmi/id/product_name": "Virtual Machine",
            },
            "hypervisor",
            "hyper-v",
        ),
        ({"sys/hypervisor/type": "xen"}, "hypervisor", "xen"),
        (
            {"sys/devices/system/clocksource/clocksource0/available_clocksource": "tsc kvm-clock"},
            "hypervisor",
            "kvm",
        ),
    ],
)
def test_hypervisors_are_told_by_name(
    tree: FakeRoot, files: dict[str, str], flags: str, expected: str
) -> None:
    tree.put("proc/cpuinfo", XEON.format(n=0, more=flags))
    for path, text in files.items():
        tree.put(path, text)
    assert machine.hypervisor(cpu(tree.root), tree.root) == expected


def test_an_arm_guest_is_known_by_its_board_only(tree: FakeRoot) -> None:
    tree.put("proc/cpuinfo", GRAVITON)
    assert machine.hypervisor(cpu(tree.root), tree.root) is None
    tree.put("sys/class/dmi/id/sys_vendor", "Amazon EC2")
    assert machine.hypervisor(cpu(tree.root), tree.root) == "amazon"


def test_this_machine_is_read_quickly() -> None:
    machine.environment()
    best = float("inf")
    for _ in range(3):
        started = time.perf_counter()
        found = machine.environment()
        best = min(best, time.perf_counter() - started)
    assert best < 0.15
    assert found.vcpus >= 1
    assert 0 < found.usable_cpus <= found.vcpus
    assert len(found.fingerprint) == 12


@pytest.mark.parametrize(
    ("words", "expected"), [("0-2,5", [0, 1, 2, 5]), ("7", [7]), ("", []), ("a-b", []), ("0-1, 3", [0, 1, 3])]
)
def test_cpu_lists(words: str, expected: list[int]) -> None:
    assert cpu_list(words) == expected


def test_only_settings_that_change_speed_are_kept() -> None:
    found = software.knobs({"OMP_NUM_THREADS": "4", "SECRET_TOKEN": "x", "MKL_CBWR": ""})
    assert found == {"OMP_NUM_THREADS": "4"}


def test_preloaded_libraries_are_named_without_their_folders() -> None:
    found = software.knobs({"LD_PRELOAD": "/home/me/lib/libjemalloc.so.2:/x/libtcmalloc.so"})
    assert found == {"LD_PRELOAD": "libjemalloc.so.2 libtcmalloc.so"}


def test_the_package_hash_is_stable() -> None:
    assert software.packages_sha256() == software.packages_sha256()
    assert len(software.packages_sha256()) == 64
    assert machine.environment().packages_sha256 == software.packages_sha256()


def test_the_package_hash_changes_with_a_version_and_not_with_the_folder(tmp_path: Path) -> None:
    hashes = []
    for place, folders in {
        "a": ["Some_Name-1.0.dist-info", "some_name"],
        "b": ["some_name-1.0.dist-info"],
        "c": ["some_name-1.1.dist-info"],
        "d": [],
    }.items():
        for name in (".", *folders):
            (tmp_path / place / name).mkdir(exist_ok=True)
        hashes.append(software.packages_sha256([str(tmp_path / place), "/no/such/folder"]))
    assert hashes[0] == hashes[1]
    assert len({*hashes}) == 3


def test_a_folder_outside_a_repository_has_no_git_state(tmp_path: Path) -> None:
    assert software.git_state(tmp_path) is None
    assert software.git_state(tmp_path / "missing") is None


def test_a_changed_file_makes_the_repository_dirty(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-b", "trunk")
    assert software.git_state(tmp_path) == {"commit": None, "branch": "trunk", "dirty": False}
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("commit", "-m", "one")
    clean = software.git_state(tmp_path)
    assert clean is not None
    assert (len(clean["commit"]), clean["dirty"]) == (40, False)
    (tmp_path / "untracked").write_text("1")
    assert software.git_state(tmp_path) == clean
    (tmp_path / "a").write_text("2")
    assert software.git_state(tmp_path) == {**clean, "dirty": True}
