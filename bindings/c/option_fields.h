// The structs of options of the C interface, field by field, as rows of the table of options
// (runtime/option_table.h): their defaults, their variables, and what they mean.
#pragma once

#include "handles.h"

namespace holdfast::c {

// The whole struct. hf_options_init() is not told how large its caller's is: the first new field
// needs an hf_options_init() that stays within what version 7 of the interface had.
void set_defaults(hf_options& options);

// What the environment sets, over what is there. The strings are the environment's.
Status read_environment(hf_options& options);
Status read_environment(hf_device_options& options);

// NULL: the defaults. Of a struct that an older header declares, which is smaller, what it lacks
// has its default; one that is larger than this library's is refused.
Result<runtime::Options> native_options(const hf_options* options,
                                        const hf_device_options* devices);

}  // namespace holdfast::c
