#include "comm/engine/run.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "base/copy.h"

namespace holdfast::comm {
namespace {

// Bytes of local work done in one go before links are polled again.
constexpr std::uint64_t kLocalSlice = 256 * 1024;
constexpr std::uint64_t kBlocked = std::numeric_limits<std::uint64_t>::max();

}  // namespace

Run::Run(Program program, const RunKey& key, const std::vector<Link*>& links, LoweringSpace* space)
    : program_(std::move(program)), key_(key), links_(links), space_(space) {
  std::size_t sends = 0;
  std::size_t recvs = 0;
  for (Instruction& i : program_.instructions) {
    if (i.kind == InstructionKind::kSend) i.post = static_cast<int>(sends++);
    if (i.kind == InstructionKind::kRecv) i.post = static_cast<int>(recvs++);
  }
  program_.sends.resize(sends);  // not resized again: links hold pointers into both
  program_.recvs.resize(recvs);
  remaining_ = program_.instructions.size();
}

Run::~Run() {
  stop();
  if (space_ != nullptr) space_->give(std::move(program_));
}

void Run::advance() {
  bool moved = true;
  encoded_ = 0;
  while (moved && failure_.is_ok() && remaining_ > 0) {
    touched_ = false;
    moved = false;
    for (Instruction& i : program_.instructions) {
      if (i.complete) continue;
      moved = advance_one(i) || moved;
      if (!failure_.is_ok()) return;
      if (encoded_ >= kLocalSlice) {
        touched_ = true;
        return;
      }
    }
    if (touched_) return;  // after part of a long local step, the links have their turn
  }
  touched_ = false;
}

bool Run::advance_one(Instruction& instruction) {
  const std::uint64_t ready = available(instruction);
  if (ready == kBlocked) return false;
  const std::uint64_t before = instruction.done;
  const bool was_complete = instruction.complete;
  bool started = false;
  switch (instruction.kind) {
    case InstructionKind::kSend: started = advance_send(instruction, ready); break;
    case InstructionKind::kRecv: started = advance_recv(instruction, ready); break;
    case InstructionKind::kCopy:
    case InstructionKind::kReduce: started = advance_local(instruction, ready); break;
    case InstructionKind::kCode: started = advance_code(instruction); break;
  }
  if (instruction.complete && !was_complete) --remaining_;
  return started || instruction.done != before || instruction.complete != was_complete;
}

// How many bytes of the instruction can be done with the inputs that exist; kBlocked when it must
// not start.
std::uint64_t Run::available(const Instruction& instruction) const {
  std::uint64_t bytes = instruction.bytes;
  for (std::uint32_t i = 0; i < instruction.deps; ++i) {
    const Dependency& d = program_.deps[instruction.first_dep + i];
    const Instruction& on = program_.instructions[d.step];
    if (on.complete) continue;
    // A token of no bytes has no stream to follow: it exists when its producer has ended.
    // The same holds for a frame whose length depends on the data.
    const bool varies = instruction.frame >= 0 && !program_.codec->spec().fixed_size;
    if (!d.streamed || instruction.bytes == 0 || varies) return kBlocked;
    bytes = std::min(bytes, on.done);
  }
  return bytes;
}

template <class P>
void Run::prepare(Instruction& instruction, P& post) {
  post.key = {key_.comm, key_.epoch, key_.op, key_.first_ordinal + instruction.ordinal};
  post.signature = key_.signature;
  post.total_bytes = instruction.bytes;
  post.window = instruction.window;
  post.touched = &touched_;
}

// Copies a post's progress to its instruction; false when there was none.
template <class P>
bool Run::follow(Instruction& instruction, const P& post) {
  if (post.failed) {
    failure_ = post.failure;
    failed_peer_ = instruction.peer;
    return true;
  }
  const bool moved = instruction.done != post.done || instruction.complete != post.finished;
  instruction.done = post.done;
  instruction.complete = post.finished;
  if constexpr (std::is_same_v<P, RecvPost>) {
    if (instruction.complete && instruction.frame >= 0) frame_bytes(instruction) = post.done;
  }
  return moved;
}

bool Run::advance_send(Instruction& instruction, std::uint64_t available) {
  SendPost& post = program_.sends[static_cast<std::size_t>(instruction.post)];
  Link& to = link(instruction);
  if (!post.posted) {
    const bool whole = available == instruction.bytes;
    if (!whole && (available == 0 || instruction.bytes <= kEagerBytes)) return false;
    prepare(instruction, post);
    post.data = instruction.src;
    post.priority = key_.priority;
    post.ready = available;
    if (instruction.frame >= 0 && !program_.codec->spec().fixed_size) {
      post.unused = instruction.bytes - frame_bytes(instruction);
      program_.encoded.frame_bytes -= post.unused;
    }
    if (!to.status().is_ok()) {
      post.failed = true;
      post.failure = to.status();
    } else {
      to.session().post(post);
    }
    follow(instruction, post);
    return true;
  }
  if (available > post.ready) {
    post.ready = available;
    to.session().resume(post);
  }
  return follow(instruction, post);
}

bool Run::advance_recv(Instruction& instruction, std::uint64_t available) {
  RecvPost& post = program_.recvs[static_cast<std::size_t>(instruction.post)];
  Link& from = link(instruction);
  if (instruction.drain >= 0) {
    const Instruction& drain = program_.instructions[static_cast<std::size_t>(instruction.drain)];
    available = std::min(available, drain.done + instruction.window);
  }
  if (!post.posted) {
    // An eager message may come whole at any time, so all of it must be welcome.
    if (available != instruction.bytes && instruction.bytes <= kEagerBytes) return false;
    prepare(instruction, post);
    post.data = instruction.dst;
    post.combine = instruction.combine;
    post.may_end_early = instruction.frame >= 0 && !program_.codec->spec().fixed_size;
    post.limit = available;
    from.session().post(post);
    if (!from.status().is_ok() && !post.finished) {
      post.failed = true;
      post.failure = from.status();
    }
    follow(instruction, post);
    return true;
  }
  if (available > post.limit) {
    post.limit = available;
    from.session().resume(post);
  }
  return follow(instruction, post);
}

bool Run::advance_local(Instruction& instruction, std::uint64_t available) {
  const bool reduces = instruction.kind == InstructionKind::kReduce;
  const bool scales = instruction.combine.scale != 1;
  const std::uint64_t element = reduces || scales ? instruction.combine.element_bytes : 1;
  if (instruction.drain >= 0) {
    const Instruction& drain = program_.instructions[static_cast<std::size_t>(instruction.drain)];
    available = std::min(available, drain.done + instruction.window);
  }
  available = available / element * element;  // what streams in may end within an element
  const std::uint64_t most = std::max(kLocalSlice / element * element, element);
  const std::uint64_t at = instruction.done;
  std::uint64_t length = std::min(available - at, most);
  if (reduces) {
    reduce(instruction, length / element);
  } else if (scales) {
    length = scale(instruction, length);
  } else if (instruction.src == instruction.dst) {
    length = available - at;  // in place: no copy is needed
  } else if (length > 0) {
    copy_bytes(instruction.dst + at, instruction.src + at, length);
  }
  instruction.done += length;
  instruction.complete = instruction.done == instruction.bytes;
  if (instruction.done < available) touched_ = true;
  return length > 0 || instruction.complete;
}

void Run::reduce(const Instruction& instruction, std::uint64_t count) const {
  const Combine& combine = instruction.combine;
  const std::uint64_t at = instruction.done;
  std::byte* to = instruction.dst + at;
  if (combine.scale == 1) {
    combine.kernel(to, instruction.src + at, instruction.right + at, count);
  } else {
    combine_scaled(combine.kernel, combine.dtype, to,
                   {instruction.src + at, instruction.scales_left ? combine.scale : 1},
                   {instruction.right + at, instruction.scales_right ? combine.scale : 1}, count);
  }
  combine.finish(to, count);
}

// Scales up to `length` bytes of a copy, to the end of its window at most; returns how many.
std::uint64_t Run::scale(const Instruction& instruction, std::uint64_t length) const {
  const Combine& combine = instruction.combine;
  const std::uint64_t window = instruction.window;
  const std::uint64_t at = window == 0 ? instruction.done : instruction.done % window;
  if (window > 0) length = std::min(length, window - at);
  scale_kernel(combine.dtype)(instruction.dst + at, instruction.src + instruction.done,
                              length / combine.element_bytes, combine.scale);
  return length;
}

bool Run::advance_code(Instruction& instruction) {
  const CodeStep& step = program_.codes[static_cast<std::size_t>(instruction.code)];
  std::uint64_t none = 0;
  std::uint64_t& frame = instruction.frame >= 0 ? frame_bytes(instruction) : none;
  const Status status = run_code(step, {instruction.dst, instruction.src, frame, program_.unpacked},
                                 *program_.codec, program_.key);
  if (!status.is_ok()) {
    failure_ = status;
    failed_peer_ = instruction.peer;
    return true;
  }
  encoded_ += step.count * dtype_bytes(step.dtype);
  instruction.done = instruction.bytes;
  instruction.complete = true;
  return true;
}

std::vector<Rank> Run::waited_for() const {
  std::vector<Rank> ranks;
  for (const Instruction& i : program_.instructions) {
    if (i.complete || i.post < 0) continue;
    const auto post = static_cast<std::size_t>(i.post);
    const bool posted = i.kind == InstructionKind::kSend ? program_.sends[post].posted
                                                         : program_.recvs[post].posted;
    if (!posted || std::find(ranks.begin(), ranks.end(), i.peer) != ranks.end()) continue;
    ranks.push_back(i.peer);
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

std::vector<Run::HeldPiece> Run::held() const {
  std::vector<HeldPiece> result;
  for (const Instruction& i : program_.instructions) {
    if (!i.writes_output) continue;
    std::uint64_t done = i.complete ? i.bytes : i.done;
    if (!i.complete && i.post >= 0) done = program_.recvs[static_cast<std::size_t>(i.post)].done;
    if (done > 0)
      result.push_back({i.dst, done / i.combine.element_bytes * i.combine.element_bytes});
  }
  return result;
}

BufferPool::Buffer Run::stop() {
  for (Instruction& i : program_.instructions) {
    if (i.complete || i.post < 0) continue;
    const auto index = static_cast<std::size_t>(i.post);
    if (i.kind == InstructionKind::kSend && program_.sends[index].posted)
      link(i).cancel(program_.sends[index]);
    if (i.kind == InstructionKind::kRecv && program_.recvs[index].posted)
      link(i).cancel(program_.recvs[index]);
    i.complete = true;
  }
  return std::move(program_.scratch);
}

}  // namespace holdfast::comm
