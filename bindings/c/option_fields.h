// The structs of options of the C interface, field by field, as rows of the table of options
// (runtime/option_table.h): their defaults, their variables, and what they mean.
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

// NULL: the defaults. Of a struct that an older header declares, which is smaller, what it lacks
// has its default; one that is larger than this library's is refused.
Result<runtime::Options> native_options(const hf_options* options,
                                        const hf_device_options* devices);

}  // namespace holdfast::c
