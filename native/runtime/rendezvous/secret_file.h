// Files with a secret or a token, which others must not read.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "secure/secret.h"
#include "secure/token.h"

namespace holdfast::runtime {

// Writes a new, random secret to a file that is not there yet, for its owner alone.
Status make_secret_file(const std::string& path);
// kConfigError, here and below: what is wrong with the file, what is accepted, and what to do.
Result<secure::Secret> read_secret_file(const std::string& path);
// Of a file, or of two with a comma between them: the first makes tokens and passes.
Result<std::vector<secure::Secret>> read_secret_files(const std::string& paths);

// Adds a line to the file of revoked tokens beside the first of these secrets, as `holdfast token
// revoke` does. kSystem: it cannot be written.
Status append_revoked(const std::string& secret_files, const secure::Serial& serial);

// The token of a file.
Result<secure::Token> read_token_file(const std::string& path);

}  // namespace holdfast::runtime
