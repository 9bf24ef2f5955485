"""The metrics that the engine makes, and those that several backends make alike."""

from __future__ import annotations

from laptime.records.requests import LATENCY as LATENCY
from laptime.records.series import Metric

CPU_TIME = Metric(
    tag="disturbance/cpu",
    unit="s",
    title="CPU time used in the call",
    meaning="CPU seconds of the process, all threads, in each sample.",
    lies_when="The program itself sleeps or waits for a disk, network or device.",
)
LATENESS = Metric(
    tag="disturbance/late",
    unit="s",
    title="start behind schedule",
    better="lower",
    meaning="Paced calls: how long after its scheduled time a call began.",
)
IMPORT = Metric(
    tag="time/import",
    unit="s",
    title="import",
    better="lower",
    meaning="Importing the framework in a fresh process.",
    lies_when="The file cache is warm; the first import after boot is slower.",
)
LOAD = Metric(
    tag="time/load",
    unit="s",
    title="load",
    better="lower",
    meaning="Building the model and moving it to the device.",
)
EXPORT = Metric(
    tag="time/export",
    unit="s",
    title="export",
    better="lower",
    meaning="Exporting the model from another framework, in a process of its own, before it was loaded.",
    lies_when="It was exported before: this is then the time to find that (the case's details say which).",
)
FIRST_CALL = Metric(
    tag="time/first_call",
    unit="s",
    title="first call",
    better="lower",
    meaning="The first call with this batch size: allocation, autotuning and compilation included.",
)
COLD_START = Metric(
    tag="time/cold_start",
    unit="s",
    title="cold start",
    better="lower",
    meaning="From a fresh process to the first answer: import, load and first call; exporting, which is done "
    "once beforehand, is a number of its own.",
    lies_when="Files are in the page cache; the first start after boot is slower.",
)
WARM_UP = Metric(
    tag="time/warm_up",
    unit="s",
    title="warm-up",
    better="lower",
    meaning="The first call and all calls before the level settled.",
)
COMPILE = Metric(
    tag="time/compile",
    unit="s",
    title="compile",
    better="lower",
    meaning="First call minus a steady call, when a compiler is in use.",
    lies_when="The compiler's disk cache was warm from an earlier run.",
)
PAGE_FAULTS = Metric(
    tag="memory/host/page_faults",
    unit="1",
    title="page faults of a call",
    better="lower",
    meaning="Pages that the kernel had to give the process during one steady call (minor faults).",
    lies_when="The allocator's habits depend on what ran before in the process.",
)
PARAMETERS = Metric(
    tag="params/all", unit="1", title="parameters", meaning="Weights of the model, each once."
)
TRAINABLE = Metric(tag="params/trainable", unit="1", title="trainable parameters")
BUFFERS = Metric(
    tag="buffers/all",
    unit="1",
    title="buffer elements",
    meaning="Running statistics and other tensors not learnt.",
)
MACS = Metric(
    tag="macs",
    unit="MAC",
    title="MACs per call",
    meaning="FLOPs / 2: multiply-accumulates of matrix products, convolutions, recurrent layers in one call.",
    lies_when="Masks skip work. If operators have no formula the number says `at least`; see the receipt.",
)
FLOPS = Metric(
    tag="flops",
    unit="FLOP",
    title="FLOPs per call",
    meaning="Floating-point operations of products, convolutions, recurrent layers and FFTs in one call.",
    lies_when=MACS.lies_when,
)
