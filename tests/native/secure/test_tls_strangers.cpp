// A secret and what it does not tell.
#include <doctest/doctest.h>
#include "secure/openssl.h"
TEST_CASE("x") { CHECK(holdfast::secure::available()); }
