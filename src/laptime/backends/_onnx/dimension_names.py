"""The names of an ONNX file's dimensions, which OpenVINO drops when it reads the file.

Read from the bytes, so that neither the package onnx is needed nor the weights are loaded. Numbers of fields:
github.com/onnx/onnx/blob/main/onnx/onnx.proto.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from laptime.kit.protobuf import NUMBER, Damaged, fields

_GRAPH, _INPUT, _NAME, _TYPE, _TENSOR, _SHAPE, _DIM, _PARAM = 7, 11, 1, 2, 1, 2, 1, 2


def dimension_names(path: Path) -> dict[str, list[str]]:
    """By input, the name of each dimension, "" where it has none; empty for a file that is no ONNX file."""
    if path.suffix != ".onnx":
        return {}
    damaged = (OSError, ValueError, Damaged, UnicodeDecodeError)
    with (
        suppress(*damaged),
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        return dict(_inputs(data))
    return {}


def _inputs(data: mmap.mmap) -> Iterator[tuple[str, list[str]]]:
    for graph in _within(data, (0, len(data)), _GRAPH):
        for each in _within(data, graph, _INPUT):
            name = next(_within(data, each, _NAME), None)
            shapes = [
                shape
                for kind in _within(data, each, _TYPE)
                for tensor in _within(data, kind, _TENSOR)
                for shape in _within(data, tensor, _SHAPE)
            ]
            names = [
                next((_text(data, text) for text in _within(data, dim, _PARAM)), "")
                for shape in shapes
                for dim in _within(data, shape, _DIM)
            ]
            if name is not None:
                yield _text(data, name), names


def _within(data: mmap.mmap, place: tuple[int, int], number: int) -> Iterator[tuple[int, int]]:
    """Begin and end of every field of this number in the message at a place."""
    for key, begin, end in fields(data, *place):
        if key == number and end != NUMBER:
            yield begin, end


def _text(data: mmap.mmap, place: tuple[int, int]) -> str:
    return data[slice(*place)].decode()
