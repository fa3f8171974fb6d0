// Runtime: everything of a process that the driving thread owns: sockets, peers, links,
// communicators. It turns; the driver decides when and on which thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "comm/live_communicator.h"
#include "comm/transport/bell.h"
#include "comm/transport/segment.h"
#include "comm/transport/shm.h"
#include "comm/transport/tcp.h"
#include "runtime/driver.h"
#include "runtime/handshake.h"
#include "runtime/options.h"

namespace holdfast::runtime {

// One process we are connected to.
struct Peer {
  MemberId id;
  comm::Segment bell;
  std::unique_ptr<comm::TcpLink> control;  // carries data too when there is no shm
  std::unique_ptr<comm::ShmLink> shm;
  bool same_host = false;
  bool reported = false;  // its loss is known to the communicators

  comm::Link& data() { return shm ? static_cast<comm::Link&>(*shm) : *control; }
};

class Runtime final : public comm::Executor,
                      public Machinery,
                      public std::enable_shared_from_this<Runtime> {
 public:
  struct Parts {
    Options options;
    MemberId self;
    std::string host;
    int listener = -1;
    int epoll = -1;
    int interrupt = -1;  // eventfd
    std::uint16_t port = 0;
    comm::Segment bell;
    std::shared_ptr<const Clock> clock;
  };
  explicit Runtime(Parts parts);
  ~Runtime() override;

  // comm::Executor.
  void submit(Task task, bool wake) override { driver_.submit(std::move(task), wake); }
  void defer(Task task) override { driver_.defer(std::move(task)); }
  void drive_until(const std::function<bool()>& done, Instant deadline) override {
    driver_.drive_until(done, deadline);
  }

  // Machinery: driving thread only, but interrupt().
  bool turn(Instant now) override;
  void poll_sockets(Duration timeout) override;
  bool sockets_matter() const override { return sockets_matter_ || !handshakes_.empty(); }
  bool busy() const override;
  bool latency_bound() const override;
  Instant next_deadline() const override;
  void interrupt() override;

  // Driving thread only.
  void connect(const Card& card, Instant deadline);
  Peer* find_peer(MemberId id);
  // Why the last attempt to reach the member failed; ok when none did.
  Status connect_failure(MemberId id) const;
  void add_communicator(const std::shared_ptr<comm::LiveCommunicator>& communicator);
  void say_goodbye();

  void start() { driver_.start_thread(); }
  void stop();
  const Parts& parts() const { return parts_; }
  std::shared_ptr<const Clock> clock() const { return parts_.clock; }
  comm::Bell own_bell() const;

 private:
  struct Attempt {
    Card card;
    std::size_t next_address = 0;
    Instant deadline;
    Instant not_before;
  };

  void accept_callers(Instant now);
  void step_handshakes(Instant now);
  void call(Attempt& attempt, Instant now);
  void answer(Handshake& handshake);
  void establish(Handshake& handshake);
  void watch(int fd, std::uint32_t events, void* tag);
  bool pump_peer(Peer& peer);
  void take_controls(Peer& peer);
  static void deliver(comm::LiveCommunicator& to, Rank from, const comm::ControlFrame& frame);
  void report_loss(Peer& peer);
  void count_local_ranks();
  bool may_use(const std::string& transport) const;

  Parts parts_;
  std::map<MemberId, std::unique_ptr<Peer>> peers_;
  std::vector<std::unique_ptr<Handshake>> handshakes_;
  // Segments of links we offered, by the member that was called.
  std::map<MemberId, comm::Segment> offered_;
  std::map<MemberId, Attempt> attempts_;
  std::map<MemberId, Status> connect_failures_;
  // Weak: a communicator belongs to its user and to its ops.
  std::vector<std::weak_ptr<comm::LiveCommunicator>> communicators_;
  struct EarlyRevoke {
    MemberId from;
    comm::ControlFrame frame;
  };
  std::vector<EarlyRevoke> early_;  // for communicators not yet known here
  bool sockets_matter_ = false;
  Driver driver_;  // last: its thread stops before the rest goes
};

}  // namespace holdfast::runtime
