// Small files that an option names: as one text, bounded; and those with a secret, of which other
// users of the host may read nothing.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"

namespace holdfast {

struct SmallFile {
  std::string option;  // for errors
  std::string path;
  std::size_t most_bytes = 0;
};

// What errors about a file with a secret advise.
struct SecretAdvice {
  std::string how_made;  // "`holdfast secret FILE` makes one"
  std::string what;      // "secret": what to make anew if others may have read it
};

// kConfigError: the option, the file, what is wrong with it, and what to do. Any thread.
Result<std::string> read_small_file(const SmallFile& file);
// The same, and refuses a file that others may use. Who asked wipes the text.
Result<std::string> read_private_file(const SmallFile& file, const SecretAdvice& advice);

}  // namespace holdfast
