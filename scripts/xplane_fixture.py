"""Records tests/unit/trace/keras_fit.xplane.pb: five steps of a small Keras fit, and of them what is read.

Needs TensorFlow: `python scripts/xplane_fixture.py OUTPUT`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

KEPT = {"step_num", "tf_function_call", "correlation_id"}
LEFT_OUT = ("Threadpool", "TFE_", "EagerCopyToDevice", "ValidateInput", "convert_to_tensor")


def main(output: Path) -> None:
    """Record, shrink, write."""
    import numpy as np
    import tensorflow as tf
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    x, y = np.ones((32, 32), "float32"), np.ones((32, 1), "float32")
    data = tf.data.Dataset.from_tensors((x, y)).repeat().prefetch(2)
    layers = [tf.keras.layers.Dense(256, activation="relu"), tf.keras.layers.Dense(1)]
    model = tf.keras.Sequential(layers)
    model.compile("sgd", "mse")
    model.fit(data, epochs=1, steps_per_epoch=3, verbose=0)
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder)
        model.fit(data, epochs=1, steps_per_epoch=5, verbose=0)
        tf.profiler.experimental.stop()
        recorded = xplane_pb2.XSpace()
        recorded.ParseFromString(next(Path(folder).rglob("*.xplane.pb")).read_bytes())
    small = xplane_pb2.XSpace(hostnames=["host"])
    for plane in recorded.planes:
        if plane.lines:
            _shrink(plane, small.planes.add(name=plane.name, id=plane.id))
    output.write_bytes(small.SerializeToString(deterministic=True))


def _shrink(plane: Any, new: Any) -> None:
    """The events of a plane without the stats that nobody reads; thread numbers left out."""
    for line in plane.lines:
        name = line.name.split("/")[0] + ("/1" if "/" in line.name else "")
        into = new.lines.add(id=line.id, name=name, timestamp_ns=line.timestamp_ns)
        for event in line.events:
            kind = plane.event_metadata[event.metadata_id]
            if kind.name.startswith(LEFT_OUT):
                continue
            new.event_metadata[kind.id].CopyFrom(
                type(kind)(id=kind.id, name=kind.name, display_name=kind.display_name)
            )
            kept = into.events.add(
                metadata_id=kind.id, offset_ps=event.offset_ps, duration_ps=event.duration_ps
            )
            for stat in event.stats:
                if plane.stat_metadata[stat.metadata_id].name in KEPT:
                    kept.stats.add().CopyFrom(stat)
                    for used in (stat.metadata_id, stat.ref_value):
                        if used in plane.stat_metadata:
                            new.stat_metadata[used].CopyFrom(plane.stat_metadata[used])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
