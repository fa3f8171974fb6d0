// The C interface's structs of options, field by field, mapped to rows of the table of options
// (runtime/option_table.h), which gives defaults, variables and meanings.
#pragma once

#include <cstddef>

#include "handles.h"

namespace holdfast::c {

// Sets the whole struct. hf_options_init() does not know the size of its caller's struct: the first
// new field needs an hf_options_init() that writes only the fields of version 7 of the interface.
void set_defaults(hf_options& options);

// Overwrites fields that the environment sets. The strings belong to the environment.
Status read_environment(hf_options& options);
Status read_environment(hf_device_options& options);

// NULL gives the defaults. A struct of an older header is smaller: fields that it lacks get their
// defaults. A struct that is larger than this library's is refused.
Result<runtime::Options> native_options(const hf_options* options,
                                        const hf_device_options* devices);

}  // namespace holdfast::c
