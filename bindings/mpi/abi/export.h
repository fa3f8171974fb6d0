// What libraries of MPI export: everything else in them is hidden.
#pragma once

// As in other MPIs a tool that puts itself before a function calls it by its PMPI name.
#define HOLDFAST_MPI __attribute__((visibility("default")))
#define HOLDFAST_MPI_WEAK(target) __attribute__((visibility("default"), weak, alias(#target)))
