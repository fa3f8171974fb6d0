# The libholdfast.so of another build, as HOLDFAST_LIBRARY names it. It depends on no Python, so
# wheels for several of them share one build. `cmake --install` has stripped it.
if(HOLDFAST_TESTS)
  message(FATAL_ERROR "HOLDFAST_TESTS needs a library of its own, and HOLDFAST_LIBRARY is set")
endif()
add_library(holdfast SHARED IMPORTED)
set_target_properties(holdfast PROPERTIES IMPORTED_LOCATION ${HOLDFAST_LIBRARY})
target_include_directories(holdfast INTERFACE native native/include)
install(FILES ${HOLDFAST_LIBRARY} DESTINATION holdfast)
install(DIRECTORY native/include/holdfast DESTINATION holdfast/include)
