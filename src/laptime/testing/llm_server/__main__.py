"""`python -m laptime.testing.llm_server PORT SCRIPT`: serves a script (JSON) and prints its address.

Flags say the same: `--port 8000 --slots 4`.
"""

from __future__ import annotations

import asyncio
import sys

from aiohttp import web

from laptime.testing.llm_server.app import ScriptedApp
from laptime.testing.llm_server.script import Script
from laptime.testing.server_process import arguments


async def _serve(port: int, script: Script) -> None:
    runner = web.AppRunner(ScriptedApp(script).application(), access_log=None, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, shutdown_timeout=0).start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}")  # noqa: T201 - its address is what it is asked for
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(*arguments(sys.argv[1:], Script)))
