"""A C program of MPI alone over Holdfast's libmpi and over others: ``bench --api mpi``."""
