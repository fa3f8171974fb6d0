// Read before every file of a wheel's build (HOLDFAST_PORTABLE). g++ 12 gave this function a second
// version, GLIBCXX_3.4.30, which only threads that are cancelled by pthread_cancel() can tell from
// the first one. Taking the first is what lets a wheel run where libstdc++ is that of g++ 11, as on
// RHEL 9: auditwheel's tag is manylinux_2_34 instead of 2_35.
#pragma once

__asm__(
    ".symver _ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE, "
    "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE@GLIBCXX_3.4.11");
