// Each `.cu` file defines one set of kernels, named after the file, and lies beside the CPU's code
// for the same task.
#pragma once

#include <span>

#include "device/kernel.h"

namespace holdfast::device {

std::span<const KernelRow> reduce_kernels();         // comm/reduce
std::span<const KernelRow> block_codec_kernels();    // compress
std::span<const KernelRow> topk_kernels();           // compress
std::span<const KernelRow> bfloat_kernels();         // compress
std::span<const KernelRow> sum_residual_kernels();   // compress
std::span<const KernelRow> tile_products_kernels();  // erasure
std::span<const KernelRow> strided_kernels();        // datatype
std::span<const KernelRow> block_list_kernels();     // datatype
std::span<const KernelRow> rows_kernels();           // datatype
std::span<const KernelRow> state_hash_kernels();     // device

}  // namespace holdfast::device
