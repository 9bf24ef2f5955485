"""`python -m laptime.apps.node VERB`: the half of a verb that works on another machine.

A request comes in as one line of JSON, events go out as lines of JSON: what is known of the machine first, a
beat every two seconds, `run_finished` or `failed` at the end. When nobody reads any more, the node stops. A
ticket of the user's code may come before the request; code that is `wanted` comes after it, in base64.
What programs print goes to standard error, and nothing is kept here: the other end has the journal."""

import sys

from laptime.launch.fleet.serving import serve

VERBS = {
    "link": ("laptime.probes.rendezvous:Rendezvous", "laptime.probes.link:link"),
    "bench": ("laptime.records.plan:BenchRequest", "laptime.verbs.bench:bench"),
    "ranks": ("laptime.verbs.scale.job:JobRequest", "laptime.verbs.scale.job:ranks"),
    "tune": ("laptime.tuning.script.request:TuneRequest", "laptime.tuning.script.subject:tune"),
    "load": ("laptime.verbs.load.request:LoadRequest", "laptime.verbs.load.run:load"),
    "trace": ("laptime.verbs.trace:TraceRequest", "laptime.verbs.trace:carry_out"),
}

if __name__ == "__main__":
    sys.exit(serve(VERBS, sys.argv[1:]))
