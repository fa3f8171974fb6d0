// Descriptors that a process opens are its own: a forked child has none of them. A child that held
// a socket of its parent would keep the socket open, and the parent would seem alive to its peers
// for as long as the child lives.
//
// This is the one place with mutable statics, which cannot be avoided: the callbacks of
// pthread_atfork take no argument, and in the child all other threads, and with them the owners of
// the descriptors, are gone. So there is a table, of numbers alone, behind one lock, which the
// forking thread holds during the fork; and the child makes only system calls.
//
// These callbacks do not run for a child that is made without fork() (a raw clone), or after
// vfork() and exec(): for the latter everything is opened to be closed on exec.
// Why: docs/decisions/0115-a-death-is-the-kernels-word.md
#pragma once

#include <cstddef>

namespace holdfast {

// While a NoFork lives, this process does not fork: hold one while a descriptor is opened and put
// into the table. Any thread; never two at once in one thread.
class NoFork final {
 public:
  NoFork();
  ~NoFork();
  NoFork(const NoFork&) = delete;
  NoFork& operator=(const NoFork&) = delete;

  // Has the descriptor closed in children; ignores a negative one. Returns it.
  int close_in_children(int descriptor);
  // Undoes close_in_children() or close_what_it_holds().
  void forget(int descriptor);
  // Has descriptors that a library opens by itself closed in children: those in this epoll set of
  // the library, other sets that hold one of them, and those in these sets; and both ends of pipes
  // among them. Keeps a few sets (kMostSets); more are ignored.
  void close_what_it_holds(int epoll);
  // Keeps the mapping out of children.
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
