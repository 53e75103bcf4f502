"""Reads the traces that a training run wrote with PyTorch's Holistic Trace Analysis: one file for each GPU."""

import json
import logging
import os
import pathlib
import sys

logging.disable(logging.CRITICAL)
os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"  # operations of less than a microsecond would last -1
from hta.trace_analysis import TraceAnalysis

folder = pathlib.Path(sys.argv[1]).resolve()
files = {0: str(folder / "rank0.json"), 1: str(folder / "rank1.json")}
events = {rank: json.loads(pathlib.Path(path).read_text())["traceEvents"] for rank, path in files.items()}


def kernels(rank, collective):
    return [
        event
        for event in events[rank]
        if event.get("cat") == "kernel" and ("Collective name" in event["args"]) == collective
    ]


analysis = TraceAnalysis(trace_files=files)
assert analysis.t.get_ranks() == [0, 1]

kinds, by_kernel = analysis.get_gpu_kernel_breakdown(visualize=False)
sums = kinds.set_index("kernel_type")["sum"]
assert sums["COMPUTATION"] > 0 and sums["COMMUNICATION"] > 0, kinds
names = set(by_kernel["name"])
assert any(name.startswith("ncclDevKernel_AllReduce_Sum_f32") for name in names), names
assert "matmul" in names, names

overlap = analysis.get_comm_comp_overlap(visualize=False)
assert list(overlap["rank"]) == [0, 1] and (overlap["comp_comm_overlap_pctg"] >= 0).all(), overlap
times = analysis.get_temporal_breakdown(visualize=False)
assert (times["compute_time(us)"] > 0).all() and (times["idle_time(us)"] >= 0).all(), times

launches = analysis.get_cuda_kernel_launch_stats(ranks=[0, 1], visualize=False)
for rank in files:
    launched = launches[rank]
    assert len(launched) >= len(kernels(rank, False)) // 2, (len(launched), len(kernels(rank, False)))
    assert (launched["launch_delay"] >= 0).all(), launched

queue = analysis.get_queue_length_summary()
assert queue is not None and len(queue) > 0

for rank in files:
    sums = [event["args"] for event in kernels(rank, True) if event["args"]["Collective name"] == "allreduce"]
    # 2 * 8 weights, 2 biases of one layer: in one bucket, in each of the steps.
    assert sums and all(event["In msg nelems"] == event["Out msg nelems"] for event in sums)
    assert all(event["bytes"] == 4 * event["In msg nelems"] and event["dtype"] == "Float" for event in sums)
    assert all(event["Group size"] == 2 and event["Rank"] == rank for event in sums)
