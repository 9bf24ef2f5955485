"""Which cloud this machine is of: what its mainboard's name (DMI) tells, read from /sys; no network.

Amazon writes the instance type into the product's name; the others tell the provider alone.

Source: systemd's src/basic/virt.c for the vendors' names; cloud-init's ds-identify for the chassis asset tags
of OCI and Azure.
"""

from __future__ import annotations

from pathlib import Path

from laptime.kit import system_files

AZURE_TAG = "7783-7084-3265-9085-8269-3286-77"


def cloud(root: str = "/") -> str | None:
    """`aws:c5.xlarge`, or `oci:`, `gcp:`, `azure:` where only the provider is told; None where nothing is."""
    folder = Path(root) / "sys/class/dmi/id"
    names = ("sys_vendor", "product_name", "chassis_asset_tag", "bios_vendor")
    vendor, product, tag, bios = (system_files.text(folder / name) or "" for name in names)
    if vendor.startswith("Amazon EC2") or bios.startswith("Amazon EC2"):
        return f"aws:{product if '.' in product else ''}"
    if tag.startswith("OracleCloud"):
        return "oci:"
    if tag == AZURE_TAG:
        return "azure:"
    return "gcp:" if product.startswith("Google Compute Engine") else None
