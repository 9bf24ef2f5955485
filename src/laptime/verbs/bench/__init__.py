"""`bench`: how fast a model runs, with an interval and a verdict."""

from laptime.verbs.bench.run import bench as bench
