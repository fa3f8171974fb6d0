"""States in files: a safetensors file for each rank, parity beside it, and a manifest last.

Nothing here knows torch. `schemes` says where files may be, `direct` writes local ones past the
page cache, `container` and `manifest` say what is in them, `flush` writes a state, `saved` reads
one.
"""
