// Failure: what is wrong with a call that has begun.
#pragma once

#include <string>

namespace holdfast {
class Status;
}

namespace holdfast::mpi {

struct Failure {
  int code = 0;  // kSuccess: nothing
  std::string text;
};
// The class and text of a failure of the core.
Failure failure_of(const holdfast::Status& status);

}  // namespace holdfast::mpi
