// A program that loads a CUDA driver, the argument, after messages of host memory. The driver says
// that all memory is a device's, and has no device, so that a message of what it is asked about is
// refused by name.
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int to_itself(const char* out, char* in) {
  return MPI_Sendrecv(out, 8, MPI_CHAR, 0, 1, in, 8, MPI_CHAR, 0, 1, MPI_COMM_SELF,
                      MPI_STATUS_IGNORE);
}

int main(int argc, char** argv) {
  char out[8] = "message", in[8] = "";
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  for (int i = 0; i < 3; ++i) {
    if (to_itself(out, in) != MPI_SUCCESS || strcmp(in, out) != 0) return 1;
  }
  if (argc < 2 || dlopen(argv[1], RTLD_NOW) == NULL) return 2;
  // What malloc() gives from the program's break is nobody else's: the driver is not asked.
  char* const small = malloc(16);
  if (to_itself(small, small + 8) != MPI_SUCCESS) return 3;
  free(small);
  const int code = to_itself(out, in);
  if (code == MPI_SUCCESS) return 4;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  puts(strstr(text, "CUDA device 0; accepted: none") != NULL ? "fine" : text);
  MPI_Finalize();
  return 0;
}
