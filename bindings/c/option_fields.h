// The C interface's structs of options, field by field, mapped to rows of the table of options
// (runtime/option_table.h), which gives defaults, variables and meanings.
#pragma once

#include <cstddef>

#include "handles.h"

namespace holdfast::c {

// What hf_options had before version 8 of the interface, when hf_options_init() was not told how
// large its caller's struct is.
inline constexpr std::size_t kOptionsBefore8 =
    (offsetof(hf_options, trust_resets) + sizeof(hf_trust_resets) + alignof(hf_options) - 1) /
    alignof(hf_options) * alignof(hf_options);

// Of a struct of this size, which may be an older header's and smaller, or else is refused; nothing
// behind it is touched.
Status set_defaults(hf_options& options, std::size_t size);

// What the environment sets, over what is there, of what the struct's `size` has. The strings are
// the environment's.
Status read_environment(hf_options& options);
Status read_environment(hf_device_options& options);

// NULL gives the defaults. A struct of an older header is smaller: fields that it lacks get their
// defaults. A struct that is larger than this library's is refused.
Result<runtime::Options> native_options(const hf_options* options,
                                        const hf_device_options* devices);

}  // namespace holdfast::c
