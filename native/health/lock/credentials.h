// Credentials: who may read a process's pages, as a file names them: tokens, and users with
// passwords, each with a role. It compares in a time that depends on how many there are, and on
// nothing else.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "health/lock/authorization.h"
#include "health/lock/page_caller.h"
#include "health/lock/page_roles.h"

namespace holdfast::health {

// For each person and program of a large team; a comparison with all takes microseconds.
inline constexpr std::size_t kMaxCredentials = 64;
// Nothing slows a guesser down but this: tokens and passwords are random, and that long.
inline constexpr std::size_t kLeastSecretCharacters = 16;

// It never changes: any thread, while one owns it.
class Credentials {
 public:
  // Of a file that others cannot read (option http_credentials). kConfigError names the file, the
  // line, and what is accepted, but never what the line says.
  static Result<Credentials> open(const std::string& path);
  static Result<Credentials> parse(std::string_view text);

  // By the value of the header Authorization; "" for none.
  PageReader reader_of(std::string_view authorization) const {
    return caller_of(authorization).reader;
  }
  PageCaller caller_of(std::string_view authorization) const;
  // That value for a program that reads pages with this file: of the first admin, or else of the
  // first line.
  std::string authorization() const;

 private:
  // Padded, so that all have the same size.
  struct KnownCredential {
    std::array<std::byte, 1 + kMaxCredentialBytes> bytes{};
    PageReader reader = PageReader::kAnybody;

    std::string name = {};  // of the user; else its place among the credentials

    explicit KnownCredential(const Authorization& authorization);
    ~KnownCredential();
    KnownCredential(const KnownCredential&) = default;
    KnownCredential& operator=(const KnownCredential&) = default;
  };
  Credentials() = default;
  Status add(std::string_view line);

  std::vector<KnownCredential> entries_;
};

}  // namespace holdfast::health
