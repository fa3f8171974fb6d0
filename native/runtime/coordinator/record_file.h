// Record file: what a coordinator has decided, on a disk. One coordinator at a time has it; each
// change is on the disk, whole, before it counts.
#pragma once

#include <memory>
#include <string>

#include "ft/record.h"

namespace holdfast::runtime {

// Worlds that a file has; a world of a name that has been quiet for long makes room.
inline constexpr std::size_t kMaxRecords = 4096;

// Makes the file if there is none. kConfigError for a path that cannot be written, a file that
// another coordinator has, and one that is no record or is damaged; kUnsupported for a later
// format.
Result<std::unique_ptr<ft::Record>> open_record_file(const std::string& path);

}  // namespace holdfast::runtime
