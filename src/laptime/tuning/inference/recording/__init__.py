"""What bounds a call: some calls of a folder recorded by its runtime's own profiler, beside the ceilings.

process      the program that records, in a process of its own; in_process/: one file a runtime
pytorch, onnx_runtime, openvino   what each has recorded, as rows by operator and shapes; nodes: of graphs
ceilings     what the cores can at most
recordings   the model as it is and the final folder, inside the budget
"""
