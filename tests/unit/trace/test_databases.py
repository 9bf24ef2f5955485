"""Exports of Nsight Systems and databases of rocprof, made by hand after their documented schemas."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest

from laptime.kit.errors import UsageError
from laptime.records.profile import Profile
from laptime.trace.reading import reader
from laptime.verbs.trace import analyse

NSYS = """
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE ThreadNames (nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER);
CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, totalMemory INTEGER, computeMajor INTEGER,
  computeMinor INTEGER, smCount INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER
NOT NULL,
  globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL,
  callchainId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER
NOT NULL,
  contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
  demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, registersPerThread INTEGER NOT NULL,
  gridX INTEGER NOT NULL, gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL, blockX INTEGER NOT NULL,
  blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL, staticSharedMemory INTEGER NOT NULL,
  dynamicSharedMemory INTEGER NOT NULL, graphNodeId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER
NOT NULL,
  streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT NULL,
  copyKind INTEGER NOT NULL, srcKind INTEGER, dstKind INTEGER);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId
INTEGER, text TEXT,
  globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER);
"""
STRINGS = ["", "cudaLaunchKernel_v7000", "cuLaunchKernel", "cudaMemcpyAsync_v3020", "void gemm<float>(int)",
           "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "python"]  # fmt: skip
MS = 1_000_000


def insert(connection: sqlite3.Connection, table: str, rows: Sequence[tuple[object, ...]]) -> None:
    connection.executemany(f"INSERT INTO {table} VALUES ({','.join('?' * len(rows[0]))})", rows)


def nsys(path: Path, pids: tuple[int, ...] = (77,)) -> Path:
    """Three steps of 9.9 ms of each process: a product of 3 ms, an all_reduce of 1 ms, a copy of 200 us."""
    connection = sqlite3.connect(path)
    connection.executescript(NSYS)
    insert(connection, "StringIds", list(enumerate(STRINGS)))
    insert(connection, "TARGET_INFO_GPU", [(0, "NVIDIA A100", 80 << 30, 8, 0, 108)])
    for device, pid in enumerate(pids):
        _process(connection, pid << 24, device)
    connection.commit()
    connection.close()
    return path


def _process(connection: sqlite3.Connection, process: int, device: int) -> None:
    thread, calls, kernels, ranges = process | 5, [], [], []
    insert(connection, "ThreadNames", [(6, 0, thread)])
    for step in range(3):
        at = 1000 * MS + step * 10 * MS
        sizes = "aten::mm, seq = 3, op_id = 9, sizes = [[64, 32], [32, 16]]"
        ranges += [(at, at + 9_900_000, 59, None, f"step {step}", thread, None, None, 0)]
        ranges += [(at + 100_000, at + 300_000, 59, None, sizes, thread, None, None, 0)]
        ranges += [(at, None, 34, None, "a mark", thread, None, None, 0)]
        for number, (name, begin, end) in enumerate(((4, 1 * MS, 4 * MS), (5, 4 * MS, 5 * MS)), 1):
            launch = at + 150_000 + number * 200_000 - 200_000
            calls += [(launch, launch + 10_000, 0, thread, step * 10 + number, number, 0, None)]
            kernels += [(at + begin, at + end, device, 1, 7, step * 10 + number, process, name, name, 32,
                         216, 1, 1, 256, 1, 1, 0, 1024, None)]  # fmt: skip
        calls += [(at + 500_000, at + 510_000, 0, thread, step * 10 + 3, 3, 0, None)]
        copy = (at + 6 * MS, at + 6_200_000, device, 7, step * 10 + 3, process, 1 << 20, 1, 0, 2)
        insert(connection, "CUPTI_ACTIVITY_KIND_MEMCPY", [copy])
    insert(connection, "CUPTI_ACTIVITY_KIND_RUNTIME", calls)
    insert(connection, "CUPTI_ACTIVITY_KIND_KERNEL", kernels)
    insert(connection, "NVTX_EVENTS", ranges)


ROCPD = """
CREATE TABLE rocpd_string_X (id INTEGER PRIMARY KEY, guid TEXT, string TEXT NOT NULL);
CREATE TABLE rocpd_info_process_X (id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, ppid INTEGER, pid INTEGER);
CREATE TABLE rocpd_info_thread_X (id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, ppid INTEGER, pid INTEGER,
  tid INTEGER, name TEXT);
CREATE TABLE rocpd_info_agent_X (id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER, type TEXT,
  absolute_index INTEGER, logical_index INTEGER, type_index INTEGER, uuid INTEGER, name TEXT, model_name TEXT,
  vendor_name TEXT, product_name TEXT, user_name TEXT);
CREATE TABLE rocpd_info_kernel_symbol_X (id INTEGER PRIMARY KEY, guid TEXT, kernel_name TEXT, display_name
TEXT,
  arch_vgpr_count INTEGER);
CREATE TABLE rocpd_event_X (id INTEGER PRIMARY KEY, guid TEXT, category_id INTEGER, stack_id INTEGER,
  parent_stack_id INTEGER, correlation_id INTEGER);
CREATE TABLE rocpd_region_X (id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER, tid INTEGER,
  start BIGINT, end BIGINT, name_id INTEGER, event_id INTEGER);
CREATE TABLE rocpd_kernel_dispatch_X (id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER, tid
INTEGER,
  agent_id INTEGER, kernel_id INTEGER, dispatch_id INTEGER, queue_id INTEGER, stream_id INTEGER, start BIGINT,
  end BIGINT, private_segment_size INTEGER, group_segment_size INTEGER, workgroup_size_x INTEGER,
  workgroup_size_y INTEGER, workgroup_size_z INTEGER, grid_size_x INTEGER, grid_size_y INTEGER,
  grid_size_z INTEGER, region_name_id INTEGER, event_id INTEGER);
CREATE TABLE rocpd_memory_copy_X (id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER, tid INTEGER,
  start BIGINT, end BIGINT, name_id INTEGER, dst_agent_id INTEGER, dst_address INTEGER, src_agent_id INTEGER,
  src_address INTEGER, size INTEGER, queue_id INTEGER, stream_id INTEGER, region_name_id INTEGER, event_id
  INTEGER);
CREATE VIEW rocpd_string AS SELECT * FROM rocpd_string_X;
"""


def rocpd(path: Path) -> Path:
    """Two steps that the program marked, each with a kernel of 2 ms and a copy of 1 ms."""
    connection = sqlite3.connect(path)
    connection.executescript(ROCPD.replace("_X", "_0a1b"))
    texts = ["HIP_RUNTIME_API_EXT", "MARKER_CORE_API", "hipLaunchKernel", "hipMemcpyAsync", "iteration 0",
             "iteration 1", "MEMORY_COPY_HOST_TO_DEVICE"]  # fmt: skip
    insert(connection, "rocpd_string_0a1b", [(at, "g", text) for at, text in enumerate(texts, 1)])
    insert(connection, "rocpd_info_process_0a1b", [(1, "g", 1, 1, 4242)])
    insert(connection, "rocpd_info_thread_0a1b", [(9, "g", 1, 1, 1, 4243, "python")])
    agents = [(1, "g", 1, 1, "CPU", 0, 0, 0, 0, "cpu", "", "", "EPYC", ""),
              (2, "g", 1, 1, "GPU", 1, 0, 0, 0, "gfx942", "", "AMD", "AMD Instinct MI300X", "")]  # fmt: skip
    insert(connection, "rocpd_info_agent_0a1b", agents)
    insert(connection, "rocpd_info_kernel_symbol_0a1b", [(3, "g", "Cijk_Ailk.kd", "Cijk_Ailk_Bljk_HHS", 128)])
    for step in range(2):
        at, first = step * 10 * MS + 5 * MS, step * 10 + 1
        events = [(first, "g", 2, 100 + first, 0, 0)]
        events += [(first + 1, "g", 1, 200 + first, 0, 0), (first + 2, "g", 1, 200 + first, 0, 0)]
        events += [(first + 3, "g", 1, 300 + first, 0, 0), (first + 4, "g", 1, 300 + first, 0, 0)]
        insert(connection, "rocpd_event_0a1b", events)
        regions = [(None, "g", 1, 1, 9, at, at + 9 * MS, 5 + step, first),
                   (None, "g", 1, 1, 9, at + MS, at + MS + 5_000, 3, first + 1),
                   (None, "g", 1, 1, 9, at + 2 * MS, at + 2 * MS + 9_000, 4, first + 3)]  # fmt: skip
        insert(connection, "rocpd_region_0a1b", regions)
        sizes = (0, 4096, 256, 1, 1, 1024, 1, 1, 0)
        dispatch = (None, "g", 1, 1, 9, 2, 3, step, 1, 4, at + 2 * MS, at + 4 * MS, *sizes, first + 2)
        insert(connection, "rocpd_kernel_dispatch_0a1b", [dispatch])
        copy = (None, "g", 1, 1, 9, at + 5 * MS, at + 6 * MS, 7, 2, 0, 1, 0, 1 << 20, 0, 4, 0, first + 4)
        insert(connection, "rocpd_memory_copy_0a1b", [copy])
    connection.commit()
    connection.close()
    return path


@pytest.fixture
def of_nsys(tmp_path: Path) -> Profile:
    return analyse([nsys(tmp_path / "report.sqlite")])


@pytest.fixture
def of_rocprof(tmp_path: Path) -> Profile:
    return analyse([rocpd(tmp_path / "1234_results.db")])


def test_steps_of_nsys_are_the_ranges_called_so(of_nsys: Profile) -> None:
    assert [step.number for step in of_nsys.steps] == [0, 1, 2]
    assert of_nsys.overview.step_ns == 9_900_000
    (use,) = of_nsys.overview.devices
    assert (use.compute_ns, use.exposed_communication_ns, use.exposed_copy_ns) == (9 * MS, 3 * MS, 600_000)


def test_kernels_of_nsys_have_the_operator_that_launched_them(of_nsys: Profile) -> None:
    row = next(row for row in of_nsys.kernels_by_launch if row.name.startswith("void gemm"))
    assert (row.operator, row.calls, row.total_ns, row.grid) == ("aten::mm", 3, 9 * MS, "[216, 1, 1]")
    assert (row.registers, row.shared_memory, row.blocks_per_sm) == (32, 1024, 2.0)
    (operator,) = of_nsys.operators_by_shape
    assert (operator.name, operator.shapes) == ("aten::mm", "[[64, 32], [32, 16]]")


def test_calls_of_nsys_have_no_version_and_copies_their_direction(of_nsys: Profile) -> None:
    assert of_nsys.launches is not None
    assert {name for name, _, _ in of_nsys.launches.calls} == {
        "cudaLaunchKernel",
        "cuLaunchKernel",
        "cudaMemcpyAsync",
    }
    (copy,) = of_nsys.copies
    assert (copy.direction, copy.memory, copy.bytes) == ("HtoD", "pageable", 3 << 20)


def test_nsys_names_the_gpu(of_nsys: Profile) -> None:
    (gpu,) = of_nsys.accelerators
    assert (gpu.name, gpu.memory, gpu.capability, gpu.sms) == ("NVIDIA A100", 80 << 30, "8.0", 108)


def test_a_file_without_marks_of_training_does_not_tell_what_it_is(of_nsys: Profile) -> None:
    assert of_nsys.workload is not None
    assert of_nsys.workload.kind == "unknown"


def test_two_processes_of_one_file_do_not_launch_each_others_kernels(tmp_path: Path) -> None:
    trace = reader.read(nsys(tmp_path / "two.sqlite", pids=(77, 78)))
    assert len(trace.device) == 18
    calls = trace.host.correlation[trace.host.correlation >= 0].tolist()
    assert len(set(calls)) == len(calls) == 18
    assert set(calls) == set(trace.device.correlation.tolist())


def test_a_version_of_nsys_without_some_columns_is_read(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript(
        "CREATE TABLE StringIds (id INTEGER, value TEXT);"
        "INSERT INTO StringIds VALUES (4, 'void gemm<float>(int)');"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, "
        "streamId INTEGER, correlationId INTEGER, shortName INTEGER);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (5, 9, 0, 7, 1, 4);"
    )
    connection.commit()
    connection.close()
    (row,) = analyse([path]).kernels
    assert (row.name, row.total_ns, row.registers, row.grid) == ("void gemm<float>(int)", 4, None, "")


def test_steps_kernels_and_copies_of_rocprof(of_rocprof: Profile) -> None:
    assert [step.number for step in of_rocprof.steps] == [0, 1]
    (use,) = of_rocprof.overview.devices
    assert (use.compute_ns, use.exposed_copy_ns) == (4 * MS, 2 * MS)
    (row,) = of_rocprof.kernels_by_launch
    assert (row.name, row.grid, row.block, row.registers) == (
        "Cijk_Ailk_Bljk_HHS",
        "[4, 1, 1]",
        "[256, 1, 1]",
        128,
    )
    (copy,) = of_rocprof.copies
    assert (copy.direction, copy.bytes, copy.calls) == ("HtoD", 2 << 20, 2)


def test_dispatches_of_rocprof_are_linked_to_their_calls(of_rocprof: Profile) -> None:
    assert of_rocprof.device_type == "hip"
    assert of_rocprof.launches is not None
    assert (of_rocprof.launches.launches, of_rocprof.launches.unlaunched) == (4, 0)
    assert of_rocprof.launches.delay_median_ns > 0
    assert [gpu.name for gpu in of_rocprof.accelerators] == ["AMD Instinct MI300X"]


def test_a_folder_with_an_export_is_read(tmp_path: Path) -> None:
    nsys(tmp_path / "report.sqlite")
    assert analyse([tmp_path]).files[0].format == "nsys"


def test_other_databases_and_damaged_ones_are_refused_in_words(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE people (name TEXT)")
    connection.close()
    whole = nsys(tmp_path / "whole.sqlite").read_bytes()
    damaged, text = tmp_path / "damaged.sqlite", tmp_path / "text.sqlite"
    damaged.write_bytes(whole[: len(whole) // 2])
    text.write_text("no database")
    for path in (other, damaged, text, tmp_path / "missing.sqlite"):
        with pytest.raises(UsageError) as raised:
            reader.read(path)
        assert raised.value.why
        assert raised.value.next


def test_damaged_names_are_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "damaged.sqlite"
    path.write_bytes(
        nsys(tmp_path / "whole.sqlite").read_bytes().replace(b"CREATE TABLE", b"\xff\xfeEATE TABLE")
    )
    with pytest.raises(UsageError, match="be read"):
        reader.read(path)


def test_a_thread_whose_name_is_no_text_has_none(tmp_path: Path) -> None:
    path = rocpd(tmp_path / "odd_results.db")
    connection = sqlite3.connect(path)
    names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    table = next(name for name in names if name.startswith("rocpd_info_thread"))
    connection.execute(f"UPDATE {table} SET name = X'05'")
    connection.commit()
    connection.close()
    assert {thread.name for thread in reader.read(path).threads} == {""}


def test_cells_of_other_types_are_unknown(tmp_path: Path) -> None:
    path = nsys(tmp_path / "odd.sqlite")
    connection = sqlite3.connect(path)
    connection.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET registersPerThread = 'many', streamId = 1e300")
    connection.execute("UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET end = start - 5")
    connection.commit()
    connection.close()
    trace = reader.read(path)
    assert trace.device.registers.tolist() == [-1] * 6
    assert "3 events" in trace.warnings[0]
