"""The metrics that the engine makes, and those that several backends make alike."""

from laptime.records.requests import LATENCY as LATENCY
from laptime.records.series import read_metrics

CPU_TIME, LATENESS = read_metrics("""
disturbance/cpu s none CPU time used in the call
    CPU seconds of the process, all threads, in each sample.
    Lies when: The program itself sleeps or waits for a disk, network or device.
disturbance/late s lower start behind schedule
    Paced calls: how long after its scheduled time a call began.
""")
IMPORT, LOAD, EXPORT, FIRST_CALL, COLD_START, WARM_UP, COMPILE = read_metrics("""
time/import s lower import
    Importing the framework in a fresh process.
    Lies when: The file cache is warm; the first import after boot is slower.
time/load s lower load
    Building the model and moving it to the device.
time/export s lower export
    Exporting the model from another framework, in a process of its own, before it was loaded.
    Lies when: It was exported before: this is then the time to find that (the case's details say which).
time/first_call s lower first call
    The first call with this batch size: allocation, autotuning and compilation included.
time/cold_start s lower cold start
    From a fresh process to the first answer: import, load and first call; exporting, which is done once
    beforehand, is a number of its own.
    Lies when: Files are in the page cache; the first start after boot is slower.
time/warm_up s lower warm-up
    The first call and all calls before the level settled.
time/compile s lower compile
    First call minus a steady call, when a compiler is in use.
    Lies when: The compiler's disk cache was warm from an earlier run.
""")
PAGE_FAULTS, PARAMETERS, TRAINABLE, BUFFERS, MACS, FLOPS = read_metrics("""
memory/host/page_faults 1 lower page faults of a call
    Pages that the kernel had to give the process during one steady call (minor faults).
    Lies when: The allocator's habits depend on what ran before in the process.
params/all 1 none parameters
    Weights of the model, each once.
params/trainable 1 none trainable parameters
buffers/all 1 none buffer elements
    Running statistics and other tensors not learnt.
macs MAC none MACs per call
    FLOPs / 2: multiply-accumulates of matrix products, convolutions, recurrent layers in one call.
    Lies when: Masks skip work. If operators have no formula the number says `at least`; see the receipt.
flops FLOP none FLOPs per call
    Floating-point operations of products, convolutions, recurrent layers and FFTs in one call.
    Lies when: Masks skip work. If operators have no formula the number says `at least`; see the receipt.
""")
