"""The files of a form, in memory: nothing of what strangers send touches the disk."""

from __future__ import annotations

from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header

from lossdial.serve.limits import Refused

__all__ = ["form_files"]


def form_files(content_type: str, body: bytes, most: int) -> list[bytes]:
    """The content of each part of a multipart body."""
    _, options = parse_options_header(content_type)
    boundary = options.get(b"boundary", b"")
    if not boundary or len(boundary) > 200:
        raise Refused(400, "the form has no boundary; send it as multipart/form-data with one.")
    parts: list[bytearray] = []

    def begin() -> None:
        if len(parts) >= most:
            raise Refused(413, f"the form has more than {most:,} files; send several forms.")
        parts.append(bytearray())

    ended = False

    def end() -> None:
        nonlocal ended
        ended = True

    def data(chunk: bytes, start: int, stop: int) -> None:
        parts[-1] += chunk[start:stop]

    parser = MultipartParser(boundary, {"on_part_begin": begin, "on_part_data": data, "on_end": end})
    try:
        parser.write(body)
        parser.finalize()
    except MultipartParseError as error:
        raise Refused(400, f"the form cannot be read: {error}.") from None
    if not ended or not parts:
        raise Refused(400, "the form is cut short, or has no files.")
    return [bytes(part) for part in parts]
