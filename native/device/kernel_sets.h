// One set of kernels to a `.cu` file, which defines it beside the CPU's code for the same thing.
#pragma once

#include <span>

#include "device/kernel.h"

namespace holdfast::device {

std::span<const KernelRow> reduce_kernels();   // comm/reduce/reduce.cu
std::span<const KernelRow> codec_kernels();    // compress/block_codec.cu
std::span<const KernelRow> strided_kernels();  // device/strided.cu
std::span<const KernelRow> gather_kernels();   // device/gather.cu
std::span<const KernelRow> hash_kernels();     // device/hash.cu

}  // namespace holdfast::device
