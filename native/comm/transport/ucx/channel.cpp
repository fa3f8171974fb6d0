#include "comm/transport/ucx/channel.h"

#ifdef HOLDFAST_UCX

#include <algorithm>

#include "base/copy.h"

namespace holdfast::comm {

Status UcxChannel::connect(std::span<const std::byte> address, std::uint64_t peer_token) {
  peer_token_ = peer_token;
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {on_error, this};
  const ucs_status_t status = api_.ep_create(worker_, &params, &endpoint_);
  if (status == UCS_OK) return Status::ok();
  endpoint_ = nullptr;
  return {Code::kSystem, std::string("UCX has no way to the peer: ") + api_.status_string(status) +
                             " (UCX_NET_DEVICES and UCX_TLS narrow the ways)"};
}

bool UcxChannel::may_send() const {
  if (endpoint_ == nullptr) return false;
  bool free = false;
  std::uint64_t first = next_number_;
  for (const UcxSlot& slot : slots_) {
    free = free || !slot.taken;
    if (slot.taken) first = std::min(first, slot.header.number);
  }
  return free && next_number_ - first < kAhead;
}

UcxChannel::UcxSlot* UcxChannel::free_slot() {
  const auto found =
      std::find_if(slots_.begin(), slots_.end(), [](const UcxSlot& slot) { return !slot.taken; });
  CHECK(found != slots_.end());
  return &*found;
}

void UcxChannel::fill(UcxSlot& slot, OutFrame frame) {
  slot.channel = this;
  slot.header.token = peer_token_;
  slot.header.number = next_number_++;
  encode_header(frame.header, slot.header.frame);
  const std::size_t bytes = frame.payload.size();
  if (bytes > slot.capacity) {
    slot.capacity = bytes > kEagerBytes ? kMaxFramePayload : kEagerBytes;
    slot.memory = std::make_unique_for_overwrite<std::byte[]>(slot.capacity);
  }
  copy_bytes(slot.memory.get(), frame.payload.data(), bytes);
  slot.frame = std::move(frame);
  slot.frame.payload = {slot.memory.get(), bytes};
  slot.frame.owned_payload.clear();
}

void UcxChannel::send(OutFrame frame) {
  UcxSlot& slot = *free_slot();
  fill(slot, std::move(frame));
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.cb.send = on_send_end;
  param.user_data = &slot;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  slot.taken = true;
  ++in_flight_;
  void* request = api_.am_send(endpoint_, kUcxMessage, &slot.header, kUcxHeaderBytes,
                               slot.frame.payload.data(), slot.frame.payload.size(), &param);
  if (request == nullptr) {
    ended(slot, UCS_OK);
  } else if (UCS_PTR_IS_ERR(request)) {
    ended(slot, UCS_PTR_STATUS(request));
  }
}

void UcxChannel::on_send_end(void* request, ucs_status_t status, void* slot) {
  auto* sent = static_cast<UcxSlot*>(slot);
  UcxChannel* channel = sent->channel;
  channel->ended(*sent, status);
  channel->api_.request_free(request);
}

void UcxChannel::ended(UcxSlot& slot, ucs_status_t status) {
  --in_flight_;
  slot.taken = false;
  const OutFrame frame = std::exchange(slot.frame, {});
  if (listener_ == nullptr) return;
  if (status == UCS_OK) {
    listener_->on_sent(frame);
  } else {
    broken_by("send", status);
  }
}

void UcxChannel::release(const SendPost& post) {
  for (UcxSlot& slot : slots_) {
    if (slot.taken && slot.frame.post == &post) slot.frame.post = nullptr;
  }
}

// Returns UCS_INPROGRESS if it took over the data's descriptor, which UCX must then keep.
ucs_status_t UcxChannel::receive(const UcxHeader& header, void* data, std::size_t length,
                                 bool is_here) {
  auto frame = parse_header(header.frame);
  if (!frame.is_ok()) {
    broken(frame.status());
    return UCS_OK;
  }
  if (frame.value().payload_bytes != length) {
    broken({Code::kProtocolError, "malformed frame: its payload has another size than it says"});
    return UCS_OK;
  }
  if (!is_here) return pull(header.number, frame.value(), data);
  listener_->on_received(kUcxHeaderBytes + length);
  Status status =
      order_.take(header.number, frame.value(), {static_cast<const std::byte*>(data), length},
                  listener_->heard_session());
  if (!status.is_ok()) broken(std::move(status));
  return UCS_OK;
}

ucs_status_t UcxChannel::pull(std::uint64_t number, const FrameHeader& header, void* description) {
  if (pulls_ == kPulls) {
    broken({Code::kProtocolError, "broken peer: too many large frames at once"});
    return UCS_OK;
  }
  auto place = order_.expect(number, header);
  if (!place.is_ok()) {
    broken(place.status());
    return UCS_OK;
  }
  auto* pull = new Pull{this, number, header.payload_bytes};
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.cb.recv_am = on_pull_end;
  param.user_data = pull;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  ++pulls_;
  void* request =
      api_.am_recv_data(worker_, description, place.value(), header.payload_bytes, &param);
  if (request == nullptr) {
    pulled(pull, UCS_OK);
  } else if (UCS_PTR_IS_ERR(request)) {
    pulled(pull, UCS_PTR_STATUS(request));
  }
  return UCS_INPROGRESS;
}

void UcxChannel::on_pull_end(void* request, ucs_status_t status, std::size_t, void* pull) {
  auto* ended = static_cast<Pull*>(pull);
  const UcxApi& api = ended->channel->api_;
  ended->channel->pulled(ended, status);
  api.request_free(request);
}

void UcxChannel::pulled(Pull* pull, ucs_status_t status) {
  const std::unique_ptr<Pull> ended(pull);
  --pulls_;
  if (listener_ == nullptr) return;
  if (status != UCS_OK) return broken_by("receive", status);
  listener_->on_received(kUcxHeaderBytes + ended->bytes);
  Status delivered = order_.filled(ended->number, listener_->heard_session());
  if (!delivered.is_ok()) broken(std::move(delivered));
}

void UcxChannel::broken(Status why) {
  if (listener_ != nullptr) listener_->on_broken(std::move(why));
}

void UcxChannel::broken_by(const char* what, ucs_status_t status) {
  broken({Code::kPeerLost, std::string("UCX, ") + what + ": " + api_.status_string(status)});
}

void UcxChannel::on_error(void* channel, ucp_ep_h, ucs_status_t status) {
  static_cast<UcxChannel*>(channel)->broken_by("connection", status);
}

void UcxChannel::abandon() {
  listener_ = nullptr;
  if (endpoint_ == nullptr) return;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  void* request = api_.ep_close(std::exchange(endpoint_, nullptr), &param);
  if (UCS_PTR_IS_PTR(request)) closing_ = request;
}

bool UcxChannel::has_ended() {
  if (closing_ != nullptr && api_.request_check_status(closing_) != UCS_INPROGRESS) {
    api_.request_free(std::exchange(closing_, nullptr));
  }
  const auto is_taken = [](const UcxSlot& slot) { return slot.taken; };
  return closing_ == nullptr && pulls_ == 0 && std::none_of(slots_.begin(), slots_.end(), is_taken);
}

}  // namespace holdfast::comm

#endif
