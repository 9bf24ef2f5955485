"""What users of the older tools run on a trace. Run by an interpreter that has the tool.

python benchmarks/_their_traces.py tb FILE      torch-tb-profiler: parse, and the data of every view
python benchmarks/_their_traces.py hta FILE     HolisticTraceAnalysis: load, and its six analyses of one rank
python benchmarks/_their_traces.py lens FILE    TraceLens: its report of PyTorch traces, as CSV files
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path


def tb(file: Path) -> None:
    """The plugin's loader for one worker, in this process; views are made on the way."""
    from torch_tb_profiler import io
    from torch_tb_profiler.profiler.data import RunProfileData
    from torch_tb_profiler.profiler.run_generator import RunGenerator

    with tempfile.TemporaryDirectory() as cache:
        data = RunProfileData.parse("worker0", None, str(file), io.Cache(cache).__enter__())
        profile = RunGenerator("worker0", None, data).generate_run_profile()
        profile.get_memory_stats()
        profile.get_memory_curve()
        print(profile.overview["performance"][0]["value"])


def hta(file: Path) -> None:
    """Its loader, then the analyses that its tutorial goes through."""
    from hta.trace_analysis import TraceAnalysis

    analysis = TraceAnalysis(trace_files={0: str(file)}, trace_dir=str(file.parent))
    analysis.get_temporal_breakdown(visualize=False)
    analysis.get_gpu_kernel_breakdown(visualize=False)
    analysis.get_comm_comp_overlap(visualize=False)
    analysis.get_idle_time_breakdown(ranks=[0], visualize=False)
    analysis.get_queue_length_summary()
    analysis.get_cuda_kernel_launch_stats(visualize=False)
    print(analysis.get_profiler_steps())


def lens(file: Path) -> None:
    """Its report with the defaults of its command."""
    from TraceLens.Reporting.generate_perf_report_pytorch import generate_perf_report_pytorch

    with tempfile.TemporaryDirectory() as folder:
        print(len(generate_perf_report_pytorch(str(file), output_csvs_dir=folder)), "tables")


if __name__ == "__main__":
    {"tb": tb, "hta": hta, "lens": lens}[sys.argv[1]](Path(sys.argv[2]))
