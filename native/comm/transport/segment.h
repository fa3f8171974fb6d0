// Segment: a named shared-memory object, mapped. A name says which process made it, so that
// segments left behind by a killed process can be told apart from those in use; a segment that
// every reader has mapped is unlinked at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/result.h"

namespace holdfast::comm {

class Segment {
 public:
  // Whether forked children have the mapping.
  enum class Children : std::uint8_t { kLack, kHave };

  Segment() = default;
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  ~Segment();  // unmaps, and unlinks what this process created

  // Makes a zero-filled segment of `bytes`, readable by this user only and not mapped in forked
  // children. It fails where there is no memory for all of it, since using missing memory would end
  // the process. `purpose`: a short word for the name.
  static Result<Segment> create(const std::string& purpose, std::size_t bytes);
  // As create(), but only `parts` of the segment can be used until it grows.
  struct SegmentPart {
    std::size_t offset;
    std::size_t bytes;
  };
  static Result<Segment> create_growing(const std::string& purpose, std::size_t bytes,
                                        std::span<const SegmentPart> parts);
  // Makes a segment for tensors, and fails where too little shared memory would be left for others.
  // Forked children have it as they have all memory of their parent's program, but they share it
  // with the parent.
  static Result<Segment> create_for_tensors(const std::string& purpose, std::size_t bytes);
  // Makes zero-filled memory of this process alone, without a name.
  static Result<Segment> create_private(std::size_t bytes);
  // Maps a peer's segment, for this process and no forked child; refuses one of another size or
  // owner. The name comes from the network, so names that create() would not make are refused.
  static Result<Segment> open(const std::string& name, std::size_t bytes);
  static Result<Segment> open_growing(const std::string& name, std::size_t bytes);
  // Removes segments whose maker is provably gone (this user, this PID namespace, no such process).
  // Returns how many.
  static int remove_orphans();

  // Says in words how large shared memory is here, and how much of it is free.
  static std::string room();

  void unlink();  // the name goes, the mapping stays
  // Makes another part usable in all processes; false if that failed. It leaves half of shared
  // memory to users that cannot do without. A growing segment holds a descriptor until
  // stop_growing().
  bool grow(const SegmentPart& part);
  void stop_growing();

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  const std::string& name() const { return name_; }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  static Result<Segment> make(const std::string& purpose, std::size_t bytes, Children children,
                              const std::function<int(int)>& size, bool grows = false);

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::string name_;
  int file_ = -1;        // descriptor of a segment that may grow
  bool linked_ = false;  // this process created it and its name still exists
};

}  // namespace holdfast::comm
