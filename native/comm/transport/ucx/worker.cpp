#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <random>

#include "base/forks.h"
#include "comm/transport/ucx/channel.h"
#include "comm/transport/ucx/ucx.h"

#ifdef HOLDFAST_UCX

namespace holdfast::comm {
namespace {

// Frames that one link sends before other links have their turn.
constexpr int kUcxFramesPerTurn = 8;
// Polls of UCX in a turn: it may have many connections.
constexpr int kLooksPerTurn = 16;
// Polls of UCX at the end, so that it releases what it holds.
constexpr int kLastLooks = 1000;

std::uint64_t random_token() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

// A card: token and address, as hexadecimal digits.
std::string encode_ucx_card(std::uint64_t token, const std::string& address) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string bytes(sizeof token, '\0');
  std::memcpy(bytes.data(), &token, sizeof token);
  bytes += address;
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

// The address in a card, and its token; empty: the card is malformed.
std::vector<std::byte> parse_ucx_card(const std::string& text, std::uint64_t& token) {
  std::vector<std::byte> bytes(text.size() / 2);
  if (text.size() % 2 != 0 || text.size() > kMaxUcxCard || bytes.size() <= sizeof token) return {};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const char* at = text.data() + 2 * i;
    unsigned char byte = 0;
    if (std::from_chars(at, at + 2, byte, 16).ptr != at + 2) return {};
    bytes[i] = static_cast<std::byte>(byte);
  }
  std::memcpy(&token, bytes.data(), sizeof token);
  bytes.erase(bytes.begin(), bytes.begin() + sizeof token);
  return bytes;
}

class Worker;

class UcxWorkerLink final : public UcxLink, private UcxListener {
 public:
  UcxWorkerLink(Worker& worker, std::uint64_t token);
  ~UcxWorkerLink() override;

  std::string card() const override;
  void connect(const std::string& card) override;
  UcxWorker& worker() override;
  bool pump() override;
  std::uint64_t received() const override { return received_; }
  UcxChannel& channel() { return *channel_; }

 protected:
  void release(const SendPost& post) override { channel_->release(post); }

 private:
  Session& heard_session() override { return session(); }
  void on_sent(const OutFrame& frame) override {
    count_sent(kUcxHeaderBytes + frame.payload.size());
    session().sent(frame);
  }
  void on_received(std::size_t bytes) override {
    count_received(bytes);
    received_ += bytes;
  }
  void on_broken(Status why) override { fail(std::move(why)); }

  Worker& worker_;
  const std::uint64_t token_;
  std::unique_ptr<UcxChannel> channel_;
  std::uint64_t received_ = 0;
};

class Worker final : public UcxWorker {
 public:
  explicit Worker(const UcxApi& api) : api_(api) {}
  ~Worker() override;

  Status start();
  std::unique_ptr<UcxLink> make_link() override;
  bool progress() override;
  bool busy() const override { return in_flight_ > 0; }
  int fd() const override { return fd_; }
  bool arm() override { return api_.worker_arm(worker_) == UCS_OK; }

  const std::string& address() const { return address_; }
  std::unique_ptr<UcxChannel> make_channel(UcxListener* listener) {
    return std::make_unique<UcxChannel>(api_, worker_, in_flight_, listener);
  }
  void forget(std::uint64_t token, std::unique_ptr<UcxChannel> channel);

 private:
  Status start_context();
  Status start_worker();
  Status refused(const char* what, ucs_status_t status) const;
  Status read_address();
  static ucs_status_t on_message(void* worker, const void* header, std::size_t header_length,
                                 void* data, std::size_t length, const ucp_am_recv_param_t* param);

  const UcxApi api_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int fd_ = -1;
  std::string address_;
  std::size_t in_flight_ = 0;
  std::map<std::uint64_t, UcxWorkerLink*> links_;       // by token
  std::vector<std::unique_ptr<UcxChannel>> forgotten_;  // channels whose links have gone
};

UcxWorkerLink::UcxWorkerLink(Worker& worker, std::uint64_t token)
    : worker_(worker), token_(token), channel_(worker.make_channel(this)) {}

UcxWorkerLink::~UcxWorkerLink() { worker_.forget(token_, std::move(channel_)); }

UcxWorker& UcxWorkerLink::worker() { return worker_; }

std::string UcxWorkerLink::card() const { return encode_ucx_card(token_, worker_.address()); }

void UcxWorkerLink::connect(const std::string& card) {
  std::uint64_t token = 0;
  const std::vector<std::byte> address = parse_ucx_card(card, token);
  if (address.empty()) return fail({Code::kProtocolError, "malformed greeting: no UCX address"});
  if (Status status = channel_->connect(address, token); !status.is_ok()) fail(std::move(status));
}

// Only sends: frames are received in the worker's progress().
bool UcxWorkerLink::pump() {
  bool moved = false;
  for (int i = 0; i < kUcxFramesPerTurn && status().is_ok(); ++i) {
    OutFrame frame;
    if (!channel_->may_send() || !session().next_frame(kMaxFramePayload, frame)) break;
    channel_->send(std::move(frame));
    moved = true;
  }
  return moved;
}

Worker::~Worker() {
  for (int i = 0; i < kLastLooks && !forgotten_.empty(); ++i) progress();
  if (fd_ >= 0) {
    NoFork no_fork;
    no_fork.forget(fd_);
  }
  if (worker_ != nullptr) api_.worker_destroy(worker_);
  if (context_ != nullptr) api_.cleanup(context_);
}

Status Worker::refused(const char* what, ucs_status_t status) const {
  return {Code::kConfigError, "option transports names \"ucx\", and UCX " + api_.version() +
                                  " cannot " + what + ": " + api_.status_string(status)};
}

Status Worker::start() {
  TRY(start_context());
  TRY(start_worker());
  return read_address();
}

Status Worker::start_context() {
  ucp_config_t* config = nullptr;
  ucs_status_t status = api_.config_read(nullptr, nullptr, &config);
  if (status != UCS_OK) return refused("read its configuration (UCX_...)", status);
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  status = api_.init_version(kUcxMajor, kUcxMinor, &params, config, &context_);
  api_.config_release(config);
  return status == UCS_OK ? Status::ok() : refused("start", status);
}

Status Worker::start_worker() {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  // Threads call UCX one after the other: only the holder of the runtime does.
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  ucs_status_t status = api_.worker_create(context_, &params, &worker_);
  if (status != UCS_OK) return refused("make a worker", status);
  status = api_.worker_get_efd(worker_, &fd_);
  if (status != UCS_OK) return refused("be waited for (ucp_worker_get_efd)", status);
  {
    NoFork no_fork;
    no_fork.close_what_it_holds(fd_);
  }
  ucp_worker_attr_t room{};
  room.field_mask = UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER;
  status = api_.worker_query(worker_, &room);
  if (status != UCS_OK) return refused("tell its limits", status);
  if (room.max_am_header < kUcxHeaderBytes) {
    return refused("carry headers of 64 bytes", UCS_ERR_UNSUPPORTED);
  }
  ucp_am_handler_param_t messages{};
  messages.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                        UCP_AM_HANDLER_PARAM_FIELD_ARG | UCP_AM_HANDLER_PARAM_FIELD_FLAGS;
  messages.id = kUcxMessage;
  messages.cb = on_message;
  messages.arg = this;
  messages.flags = UCP_AM_FLAG_WHOLE_MSG;
  status = api_.worker_set_am_recv_handler(worker_, &messages);
  return status == UCS_OK ? Status::ok() : refused("take active messages", status);
}

Status Worker::read_address() {
  ucp_worker_attr_t attributes{};
  attributes.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS | UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS;
  // The address has networks only: inside a host "shm" is used.
  attributes.address_flags = UCP_WORKER_ADDRESS_FLAG_NET_ONLY;
  const ucs_status_t status = api_.worker_query(worker_, &attributes);
  if (status != UCS_OK) return refused("tell its address", status);
  address_.assign(reinterpret_cast<const char*>(attributes.address), attributes.address_length);
  api_.worker_release_address(worker_, attributes.address);
  if (2 * (address_.size() + sizeof(std::uint64_t)) <= kMaxUcxCard) return Status::ok();
  return {Code::kConfigError,
          "option transports names \"ucx\", and UCX uses so many devices that its address has " +
              std::to_string(address_.size()) + " bytes; name the ones to use in UCX_NET_DEVICES"};
}

std::unique_ptr<UcxLink> Worker::make_link() {
  const std::uint64_t token = random_token();
  auto link = std::make_unique<UcxWorkerLink>(*this, token);
  links_[token] = link.get();
  return link;
}

void Worker::forget(std::uint64_t token, std::unique_ptr<UcxChannel> channel) {
  links_.erase(token);
  channel->abandon();
  if (!channel->has_ended()) forgotten_.push_back(std::move(channel));
}

bool Worker::progress() {
  int looks = 0;
  while (looks < kLooksPerTurn && api_.worker_progress(worker_) != 0) ++looks;
  if (!forgotten_.empty()) {
    std::erase_if(forgotten_, [](const auto& channel) { return channel->has_ended(); });
  }
  return looks > 0;
}

ucs_status_t Worker::on_message(void* worker, const void* header, std::size_t header_length,
                                void* data, std::size_t length, const ucp_am_recv_param_t* param) {
  auto* self = static_cast<Worker*>(worker);
  if (header_length != kUcxHeaderBytes) return UCS_OK;
  UcxHeader ours;
  std::memcpy(&ours, header, sizeof ours);
  const auto found = self->links_.find(ours.token);
  if (found == self->links_.end() || !found->second->status().is_ok()) return UCS_OK;
  const bool is_here = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0;
  return found->second->channel().receive(ours, data, length, is_here);
}

}  // namespace

Result<std::unique_ptr<UcxWorker>> UcxWorker::create() {
  auto api = UcxApi::open();
  if (!api.is_ok()) return api.status();
  auto worker = std::make_unique<Worker>(api.value());
  TRY(worker->start());
  return std::unique_ptr<UcxWorker>(std::move(worker));
}

}  // namespace holdfast::comm

#endif
