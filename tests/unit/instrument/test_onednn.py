"""oneDNN's verbose lines, as several of its releases write them."""

from __future__ import annotations

from laptime.instrument.recorder import primitives

NEW = """
onednn_verbose,v1,info,oneDNN v3.13.3 (commit b38f97e)
onednn_verbose,v1,primitive,info,template:operation,engine,primitive,implementation,prop_kind,memory_descriptors
onednn_verbose,v1,graph,info,template:operation,engine,partition_id,partition_kind,op_names,data_formats
onednn_verbose,v1,primitive,exec,cpu,reorder,jit:uni,undef,src:f32 dst:f32,attr,,32x3x3x3,0.5
onednn_verbose,v1,primitive,exec,cpu,convolution,jit:avx512_core,forward,src:f32,attr,alg:direct,mb8_ic3oc32,1.25
onednn_verbose,v1,primitive,exec,cpu,convolution,jit:avx512_core,forward,src:f32,attr,alg:direct,mb8_ic3oc32,1.0
onednn_verbose,v1,primitive,create:cache_hit,cpu,convolution,jit:avx512_core,forward,src:f32,attr,,mb8,0.01
""".splitlines()
OLD = ["dnnl_verbose,exec,cpu,matmul,gemm:jit,undef,src_f32 dst_f32,,,b64n1000,0.75"]


def test_executions_are_added_up_most_time_first() -> None:
    rows = primitives(NEW)
    assert rows[0] == {
        "kind": "convolution",
        "implementation": "jit:avx512_core",
        "shapes": "mb8_ic3oc32",
        "calls": 2,
        "total_ns": 2_250_000,
    }
    assert [(row["kind"], row["total_ns"]) for row in rows[1:]] == [("reorder", 500_000)]


def test_lines_of_older_releases_are_read() -> None:
    assert [(row["kind"], row["shapes"], row["total_ns"]) for row in primitives(OLD)] == [
        ("matmul", "b64n1000", 750_000)
    ]


def test_what_cannot_be_read_is_left_out() -> None:
    assert (
        primitives(["", "onednn_verbose", "onednn_verbose,exec,cpu,matmul,gemm,a,b,not-a-time", "words"])
        == []
    )
