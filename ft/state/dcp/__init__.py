"""Torch's dcp.save and dcp.load over our files: a safetensors file for each rank, a manifest last.

What DCP plans are boxes of global tensors, as entries are; so its plans become heads, and a load is
a plan of ours, which reads the bytes that are needed and checks every tile. What DCP pickles is
kept as it gives it, as bytes, so that reading a list or a head unpickles nothing.
"""
