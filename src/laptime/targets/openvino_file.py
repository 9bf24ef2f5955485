"""`model.xml`: a model in OpenVINO's intermediate representation, its weights in `model.bin` beside it."""

from laptime.targets import Recipe, _shared

FORM = "FILE.xml"
names = _shared.none_known


def matches(text: str) -> bool:
    return text.endswith(".xml")


def resolve(text: str) -> Recipe:
    return _shared.resolve_file(text, kind="openvino_file", backend="openvino", parts=(".bin",))
