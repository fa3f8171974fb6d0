// Record text: a coordinator's records as text, for files and stores. The file or store may have
// been changed by others: reading is total.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "ft/record.h"

namespace holdfast::runtime {

using Records = std::map<std::string, ft::WorldRecord>;

// The world's id, the epoch and the members as text; "none" for nullopt.
std::string record_text(const std::optional<ft::WorldRecord>& record);
// kProtocolError for anything record_text() does not make.
Result<std::optional<ft::WorldRecord>> parse_record(std::string_view text);

// All records, after a line that names the format and has a checksum of the rest.
std::string records_text(const Records& records);
// kProtocolError with the line that cannot be read; kUnsupported for a later format.
Result<Records> parse_records(const std::string& text);

}  // namespace holdfast::runtime
