# SPDX-License-Identifier: Apache-2.0
"""Reads and writes safetensors files with numpy alone.

A file is the length of its header (8 bytes, little-endian), the header (JSON: name to dtype,
shape and data_offsets, and strings under __metadata__) and the data without holes.
Source: the format's description in the repository huggingface/safetensors.
"""

import json
import math
import mmap
import os
import struct

import numpy

DTYPES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "U8": "|u1"}
NAMES = {numpy.dtype(code): name for name, code in DTYPES.items()}
MAX_HEADER_BYTES = 100_000_000


class FormatError(ValueError):
    """What is wrong with a file, and where."""


def without_duplicates(pairs):
    result = dict(pairs)
    if len(result) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise FormatError("header: %r is there twice" % twice)
    return result


def read_header(content):
    if len(content) < 8:
        raise FormatError("%d bytes: a safetensors file begins with 8 of a length" % len(content))
    (length,) = struct.unpack("<Q", content[:8])
    if length > min(MAX_HEADER_BYTES, len(content) - 8):
        raise FormatError("byte 0: a header of %d bytes in a file of %d" % (length, len(content)))
    try:
        text = content[8 : 8 + length].decode("utf-8")
        header = json.loads(text, object_pairs_hook=without_duplicates)
    except UnicodeDecodeError as error:
        raise FormatError("header: not UTF-8: %s" % error)
    except json.JSONDecodeError as error:
        raise FormatError("header: not JSON: %s" % error)
    if not isinstance(header, dict):
        raise FormatError("header: not a JSON object")
    return header, 8 + length


def is_sizes(value, count=None):
    good = isinstance(value, list) and all(type(n) is int and n >= 0 for n in value)
    return good and (count is None or len(value) == count)


def read_tensor(name, entry, data):
    """One tensor of the header, and where its data end."""
    if not isinstance(entry, dict) or entry.get("dtype") not in DTYPES:
        raise FormatError("%s: dtype must be one of %s" % (name, ", ".join(DTYPES)))
    shape, offsets = entry.get("shape"), entry.get("data_offsets")
    if not is_sizes(shape) or not is_sizes(offsets, 2):
        raise FormatError("%s: shape must be a list of sizes, data_offsets one of two" % name)
    dtype = numpy.dtype(DTYPES[entry["dtype"]])
    begin, end = offsets
    if end > len(data) or end - begin != math.prod(shape) * dtype.itemsize:
        raise FormatError(
            "%s: bytes %d to %d of %d do not hold %s of shape %s"
            % (name, begin, end, len(data), entry["dtype"], shape)
        )
    return numpy.frombuffer(data[begin:end], dtype).reshape(shape), begin, end


def parse(content):
    """Metadata and tensors of a file's bytes."""
    header, start = read_header(content)
    metadata = header.pop("__metadata__", {})
    texts = metadata.values() if isinstance(metadata, dict) else [None]
    if not all(isinstance(value, str) for value in texts):
        raise FormatError("__metadata__: must be an object of strings")
    data = memoryview(content)[start:]
    tensors, spans = {}, []
    for name, entry in header.items():
        tensors[name], begin, end = read_tensor(name, entry, data)
        spans.append((begin, end))
    position = 0
    for begin, end in sorted(spans):
        if begin != position:
            raise FormatError("data: a hole or an overlap at byte %d" % min(begin, position))
        position = end
    if position != len(data):
        raise FormatError("data: %d bytes, of which the header names %d" % (len(data), position))
    return metadata, tensors


def read(path):
    """Metadata (strings) and tensors (read-only arrays over the mapped file)."""
    with open(path, "rb") as file:
        is_empty = os.fstat(file.fileno()).st_size == 0  # which cannot be mapped
        content = b"" if is_empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    try:
        return parse(content)
    except FormatError as error:
        raise FormatError("%s: %s" % (path, error))


def write(path, metadata, tensors):
    """Writes arrays of one of the DTYPES, in the order given."""
    header, position, arrays = {"__metadata__": metadata}, 0, []
    for name, value in tensors.items():
        array = numpy.asarray(value, order="C")
        if array.dtype not in NAMES:
            raise ValueError("%s: cannot write %s" % (name, array.dtype))
        header[name] = {
            "dtype": NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [position, position + array.nbytes],
        }
        position += array.nbytes
        arrays.append(array)
    text = json.dumps(header).encode("utf-8")
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)))
        file.write(text)
        for array in arrays:
            file.write(array.tobytes())
