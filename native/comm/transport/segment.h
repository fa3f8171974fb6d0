// Segment: a named shared-memory object, mapped. Names carry who made them, so that what a killed
// process left behind can be told apart from what is in use; a segment that every reader has mapped
// is unlinked at once.
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
  // Whether forked children have the mapping, too.
  enum class Children : std::uint8_t { kLack, kHave };

  Segment() = default;
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  ~Segment();  // unmaps, and unlinks what this process created

  // A zero-filled segment of `bytes`, readable by this user only, and not there in forked children.
  // Fails where there is no memory for all of it, which would otherwise end the process at its use.
  // `purpose`: a short word for the name.
  static Result<Segment> create(const std::string& purpose, std::size_t bytes);
  // The same, of which these parts alone can be used, until it grows.
  struct SegmentPart {
    std::size_t offset;
    std::size_t bytes;
  };
  static Result<Segment> create_growing(const std::string& purpose, std::size_t bytes,
                                        std::span<const SegmentPart> parts);
  // Leaves other users of shared memory some. For tensors: forked children have it as they have all
  // memory of their parent's program, but share it.
  static Result<Segment> create_for_tensors(const std::string& purpose, std::size_t bytes);
  // Zero-filled memory of this process alone, without a name.
  static Result<Segment> create_private(std::size_t bytes);
  // Maps a peer's segment, for this process and no forked child; refuses one of another size or
  // owner. The name comes from the network: anything but a name that create() makes is refused.
  static Result<Segment> open(const std::string& name, std::size_t bytes);
  static Result<Segment> open_growing(const std::string& name, std::size_t bytes);
  // Removes segments whose maker is provably gone (this user, this PID namespace, no such process).
  // Returns how many.
  static int remove_orphans();

  // How large shared memory is here, and how much of it is free, in words.
  static std::string room();

  void unlink();  // the name goes, the mapping stays
  // Whether the part can be used now as well, in all processes. Leaves half of shared memory to
  // who cannot do without. Holds a descriptor until stop_growing().
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
  int file_ = -1;        // of one that may grow
  bool linked_ = false;  // this process created it and its name still exists
};

}  // namespace holdfast::comm
