"""What the comments above some blocks would say (`pages.py`), of pages that have none.

Keys are a page and how the first line of a block begins. A comment in the page goes first.
"""

from __future__ import annotations

NOT_RUN: dict[tuple[str, str], str] = {
    ("README.md", "make demo"): "installs packages, and takes minutes",
    ("docs/start.md", "pip install ."): "installs what is tested here",
}

BEFORE: dict[tuple[str, str], str] = {
    ("docs/guide/c.md", "#include <holdfast/holdfast_device.h>"): """
hf_options options;
hf_device_options devices = {sizeof devices};
hf_node* node;
hf_group* group;
hf_options_from_env(&options);
hf_device_options_from_env(&devices);
hf_node_create_with_devices(&options, &devices, &node);
hf_group_join_env(node, "world", &group);
uint64_t count = 4;
void* gradient;
hf_device_allocate(node, 0, 4 * sizeof(float), &gradient);
void* stream = HF_NO_STREAM;
""",
    ("docs/guide/c.md", "hf_device_options devices"): """
#include <holdfast/holdfast_device.h>
hf_options options;
hf_node* node;
hf_options_from_env(&options);
""",
}
