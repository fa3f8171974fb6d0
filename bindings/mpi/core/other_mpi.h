// Other libraries of MPI in this process. A program whose libraries need two MPIs would call now
// one and now the other with the handles of either.
#pragma once

#include <string>

namespace holdfast::mpi {

// The path of a loaded library that has the name of an MPI and does not lie where this one does;
// empty: there is none.
std::string other_mpi();
// Of this library.
std::string own_path();

}  // namespace holdfast::mpi
