"""Dtypes of tensors by the names that torch has for them, and what safetensors calls them."""

from __future__ import annotations

# Bytes of an element, by torch's name without "torch.".
ITEM_BYTES = {
    "bool": 1,
    "uint8": 1,
    "int8": 1,
    "uint16": 2,
    "int16": 2,
    "uint32": 4,
    "int32": 4,
    "uint64": 8,
    "int64": 8,
    "float8_e4m3fn": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2": 1,
    "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1,
    "float16": 2,
    "bfloat16": 2,
    "float32": 4,
    "float64": 8,
    "complex32": 4,
    "complex64": 8,
    "complex128": 16,
}

# The format's name, and how many of its elements make one of ours: what it has no name for is
# written as the numbers that it consists of, and the head says what they are.
SAFETENSORS = {
    "bool": ("BOOL", 1),
    "uint8": ("U8", 1),
    "int8": ("I8", 1),
    "uint16": ("U16", 1),
    "int16": ("I16", 1),
    "uint32": ("U32", 1),
    "int32": ("I32", 1),
    "uint64": ("U64", 1),
    "int64": ("I64", 1),
    "float8_e4m3fn": ("F8_E4M3", 1),
    "float8_e4m3fnuz": ("U8", 1),
    "float8_e5m2": ("F8_E5M2", 1),
    "float8_e5m2fnuz": ("U8", 1),
    "float8_e8m0fnu": ("U8", 1),
    "float16": ("F16", 1),
    "bfloat16": ("BF16", 1),
    "float32": ("F32", 1),
    "float64": ("F64", 1),
    "complex32": ("F16", 2),
    "complex64": ("F32", 2),
    "complex128": ("F64", 2),
}
