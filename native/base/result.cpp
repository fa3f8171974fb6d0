#include "base/result.h"

namespace holdfast {

const char* code_name(Code code) {
  switch (code) {
    case Code::kOk: return "ok";
    case Code::kPeerLost: return "PeerLost";
    case Code::kTimeout: return "Timeout";
    case Code::kNotMember: return "NotMember";
    case Code::kAuthFailed: return "AuthFailed";
    case Code::kProtocolError: return "ProtocolError";
    case Code::kConfigError: return "ConfigError";
    case Code::kAborted: return "Aborted";
    case Code::kUnsupported: return "Unsupported";
    case Code::kSystem: return "System";
    case Code::kUnconfirmed: return "Unconfirmed";
  }
  return "?";
}

}  // namespace holdfast
