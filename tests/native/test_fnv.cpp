// FNV-1a against its authors' vectors, and the number of a history of calls, which ranks of one
// version must have alike.
#include <doctest/doctest.h>

#include "base/fnv.h"
#include "comm/call/call.h"

namespace holdfast {
namespace {

template <class Hash>
auto hash_of(std::string_view text) {
  Hash hash;
  hash.mix(text);
  return hash.value();
}

TEST_CASE("texts have the published hashes, of both widths") {
  CHECK(hash_of<Fnv1a32>("") == 0x811c9dc5U);
  CHECK(hash_of<Fnv1a32>("a") == 0xe40c292cU);
  CHECK(hash_of<Fnv1a32>("foobar") == 0xbf9cf968U);
  CHECK(hash_of<Fnv1a>("") == 0xcbf29ce484222325ULL);
  CHECK(hash_of<Fnv1a>("a") == 0xaf63dc4c8601ec8cULL);
  CHECK(hash_of<Fnv1a>("foobar") == 0x85944171f73967e8ULL);
}

TEST_CASE("a hash goes on where another has ended") {
  Fnv1a32 rest(hash_of<Fnv1a32>("foo"));
  rest.mix("bar");
  CHECK(rest.value() == hash_of<Fnv1a32>("foobar"));
}

TEST_CASE("calls have the history that they had in earlier builds") {
  const comm::Call call{
      {7},  comm::Collective::kReduce,        DType::kF16, ReduceOp::kMax, {3}, 1ULL << 40, 77,
      true, "int8(block=64) with a residual", true};
  CHECK(comm::history_after(Fnv1a32().value(), call) == 0xd7136b72U);
}

}  // namespace
}  // namespace holdfast
