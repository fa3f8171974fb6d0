// Record file: a coordinator's decisions on a disk. One coordinator at a time holds the file; each
// change is on the disk, whole, before it counts.
#pragma once

#include <memory>
#include <string>

#include "ft/record.h"

namespace holdfast::runtime {

// Limit of the worlds in a file; a world that has not changed for long makes room for a new one.
inline constexpr std::size_t kMaxRecords = 4096;

// Makes the file if there is none. kConfigError for a path that cannot be written, a file that
// another coordinator holds, and one that is no record or is damaged; kUnsupported for a later
// format.
Result<std::unique_ptr<ft::Record>> open_record_file(const std::string& path);

}  // namespace holdfast::runtime
