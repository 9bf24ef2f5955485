"""What to do where an address does not answer, by kind of failure."""

from __future__ import annotations

_NEXT = {
    "refused": "start the server, or look at the port",
    "tls": "SSL_CERT_FILE=ca.pem laptime load ...   trusts a CA of your own; --insecure trusts anybody",
    "http 401": "--header 'Authorization: Bearer ...'",
    "http 403": "--header 'Authorization: Bearer ...'",
    "http 404": "look at the path of the address",
    "http 405": "--method POST, or --body x.json",
    "http 429": "the server limits requests: ask later, or with another key",
    "timeout": "--timeout 5m   if it is only slow",
}


def advice(kind: str, detail: str, address: str) -> str:
    """The next step, for an address without a query."""
    if kind == "tls" and "WRONG_VERSION" in detail:
        return address.replace("https://", "http://", 1) + "   if the server speaks no TLS"
    return _NEXT.get(kind, f"curl -i {address}   shows what it says")
