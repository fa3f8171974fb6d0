// What a process opens is its own: a forked child has none of it. A child that held a socket of its
// parent would keep that alive in the eyes of the parent's peers, for as long as it lives itself.
//
// The one place with mutable statics, for it cannot be otherwise: the system calls back at a fork
// with no word of ours (pthread_atfork), in a child whose other threads are gone, and with them
// whoever could have said what there is. So there is a table, of numbers alone, behind one lock,
// which whoever forks holds meanwhile; and what is done in the child is system calls.
//
// A child that is made without fork() (a raw clone), and whoever exec()s after vfork(), hears
// nothing of this: for the latter everything is opened to be closed on exec.
// Why: docs/decisions/0115-a-death-is-the-kernels-word.md
#pragma once

#include <cstddef>

namespace holdfast {

// While one lives, this process does not fork; for as long as it takes to open something and to
// put it down. Any thread; never two at once in one thread.
class NoFork final {
 public:
  NoFork();
  ~NoFork();
  NoFork(const NoFork&) = delete;
  NoFork& operator=(const NoFork&) = delete;

  // Has the descriptor closed in children; a negative one is nothing. Returns it.
  int close_in_children(int descriptor);
  // What close_in_children() was told no longer holds.
  void forget(int descriptor);
  // Has what a library opens by itself closed in children: what is in this epoll set of its, other
  // sets that hold the same, and what is in those; and both ends of pipes among all that. A few
  // sets; more are let be.
  void close_what_it_holds(int epoll);
  // The mapping is not in children.
  static void keep_from_children(void* memory, std::size_t bytes);
};

// A descriptor that children do not have: `open` returns it, or a negative number and errno.
template <class Open>
int open_unforked(Open open) {
  NoFork no_fork;
  return no_fork.close_in_children(open());
}

// Closes a descriptor, whether or not children have it.
void close_unforked(int descriptor);

}  // namespace holdfast
