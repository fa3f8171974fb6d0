// The table of metrics: one row for each family that a process serves under /metrics. The writers
// (metrics.cpp, layer_metrics.cpp, state_metrics.cpp, status_model.cpp) take their rows from here,
// and docs/reference/metrics.md is made from it; a test compares it with what processes serve.
#pragma once

#include <array>

#include "base/metrics/text.h"
#include "health/state/state_families.h"

namespace holdfast::health::family {

using metrics::Family;
using metrics::Type;

inline constexpr Family kBuild{
    "holdfast_build",
    Type::kInfo,
    "",
    "What is installed here.",
    "version, protocol",
    "Always 1; the labels say the version of Holdfast, and that of the protocol between ranks."};

// ---- ops of a rank ----

inline constexpr Family kOps{
    "holdfast_ops",
    Type::kCounter,
    "",
    "Ops that ended well.",
    "collective, path",
    "Each `advance()` agrees by one small `all_reduce`, which is counted, too."};
inline constexpr Family kOpBytes{
    "holdfast_op_bytes",
    Type::kCounter,
    "bytes",
    "Payload of the ops that ended well: the larger of what went in and came out.",
    "collective, path",
    "What went in is the sum of all input blocks, what came out that of all output blocks."};
inline constexpr Family kOpDuration{
    "holdfast_op_duration_seconds",
    Type::kHistogram,
    "seconds",
    "Time from an op's start to its end, of those that ended well.",
    "collective",
    "Bounds of the buckets are 1.024 us, doubling, to 17.2 s. In OpenMetrics each bucket has an "
    "exemplar, which names the op as `GROUP:NUMBER`: the fields `group` and `sequence` of its "
    "entry in the flight record."};
inline constexpr Family kOpsFailed{
    "holdfast_ops_failed",
    Type::kCounter,
    "",
    "Ops that failed.",
    "cause",
    "`cause` is the class of the error: `PeerLost`, `Timeout`, `NotMember`, ... Every cause "
    "appears, from 0 on."};
inline constexpr Family kQueueDepth{
    "holdfast_queue_depth", Type::kGauge, "",
    "Ops under way.",       "",           "They have begun and not ended."};
inline constexpr Family kActive{"holdfast_op_active_seconds",
                                Type::kCounter,
                                "seconds",
                                "Time in which ops were under way, one or several.",
                                "",
                                "Several at the same time count once; it grows when an op ends."};
inline constexpr Family kExposed{
    "holdfast_op_exposed_seconds",
    Type::kCounter,
    "seconds",
    "The part of it in which a caller stood still for an op.",
    "",
    "The caller is in a blocking call, or in `wait()`. What an op's active time has beyond this is "
    "hidden behind computation."};

// ---- codecs ----

inline constexpr Family kCodecRaw{
    "holdfast_codec_raw_bytes",
    Type::kCounter,
    "bytes",
    "What ops sent as frames of a codec, before it was encoded.",
    "codec",
    "It is counted in the call's dtype. Chunks that are summed up inside a host as they are, and "
    "ops that a loss cut off, are in neither this nor the next."};
inline constexpr Family kCodecWire{"holdfast_codec_wire_bytes", Type::kCounter, "bytes",
                                   "What ops sent as frames of a codec.", "codec"};
inline constexpr Family kCodecResidual{
    "holdfast_codec_residual_norm",
    Type::kGauge,
    "",
    "L2 norm of the residual of the op that was last looked at.",
    "codec",
    "A norm is taken once a second at most. One that grows without end says that what the codec "
    "leaves out is never sent."};

// ---- MPI programs ----

inline constexpr Family kCalls{
    "holdfast_calls",
    Type::kCounter,
    "",
    "Ops by the call of the program that began them.",
    "call",
    "`call` is MPI's name, `MPI_Allreduce`. A call that is several ops counts for each; sends and "
    "receives are messages, and only waits of more than 0.2 s are among these."};
inline constexpr Family kMessages{
    "holdfast_messages",
    Type::kCounter,
    "",
    "Messages of the program with another rank.",
    "peer, direction",
    "`direction` is `sent` or `received`; a large message counts when it is announced. Those that "
    "a rank sends to itself do not count."};
inline constexpr Family kMessageBytes{"holdfast_message_bytes", Type::kCounter, "bytes",
                                      "Bytes of these messages' data.", "peer, direction"};

// ---- links and peers ----

inline constexpr Family kPeerWait{
    "holdfast_peer_wait_seconds",
    Type::kCounter,
    "seconds",
    "Time in which an op that had run for a millisecond waited for the peer.",
    "peer",
    "The oldest collective of a group is looked at every millisecond, or else its oldest message; "
    "an op that waits for two peers counts for both."};
inline constexpr Family kLinkBytes{
    "holdfast_link_bytes",
    Type::kCounter,
    "bytes",
    "Bytes on links, headers included; not those read from a peer's memory.",
    "peer, direction, transport",
    "`direction` is `sent` or `received`; `transport` is `tcp`, `shm` or `ucx`. The flat and slice "
    "exchanges read peers' memory and use no link."};
inline constexpr Family kLinkRtt{"holdfast_link_rtt_seconds",
                                 Type::kGauge,
                                 "seconds",
                                 "Smoothed round-trip time of the TCP connection (TCP_INFO).",
                                 "peer",
                                 "It is the kernel's number, read at every heartbeat."};
inline constexpr Family kLinkLeastRtt{
    "holdfast_link_least_rtt_seconds",
    Type::kGauge,
    "seconds",
    "Least round-trip time of the TCP connection of late (TCP_INFO).",
    "peer",
    "It is the kernel's number, of some minutes: the path without queues. The smoothed one beside "
    "it has the queues that this and other traffic make."};
inline constexpr Family kLinkRate{
    "holdfast_link_delivered_bytes_per_second",
    Type::kGauge,
    "bytes_per_second",
    "What the TCP connection delivered when it was last full (TCP_INFO).",
    "peer",
    "It is the kernel's estimate, read at every heartbeat, and kept while the connection waits for "
    "the program: a lower bound of what the path can do."};
inline constexpr Family kRetransmits{"holdfast_link_retransmits",
                                     Type::kCounter,
                                     "",
                                     "Segments that TCP sent again (TCP_INFO).",
                                     "peer",
                                     "It is the kernel's count."};
inline constexpr Family kLanes{"holdfast_link_lanes",
                               Type::kGauge,
                               "",
                               "Connections of a link that is a trunk.",
                               "peer",
                               "A trunk has more of them while the rate grows with their number, "
                               "and none while the path is down."};
inline constexpr Family kLinkControl{
    "holdfast_link_control",
    Type::kInfo,
    "",
    "The congestion control by which a trunk carries data.",
    "peer, control",
    "Always 1; `control` is Linux's name. While two are tried side by side, both appear."};
inline constexpr Family kLinkCuts{
    "holdfast_link_cuts",
    Type::kCounter,
    "",
    "Connections that a trunk has lost.",
    "peer, why",
    "`why` is `reset`, `closed` (in order, and by a peer that has not left), `timeout` (the system "
    "gave it up), `stalled` (it stood still, and was replaced), `surplus` (a new one came, and it "
    "was silent for longest), `altered` (what came is not what was sealed) or `error`. Every one "
    "appears, from 0 on."};
inline constexpr Family kRecentCuts{
    "holdfast_link_recent_cuts",
    Type::kGauge,
    "",
    "How often a trunk has lost connections within the last minute.",
    "peer",
    "Those lost at one moment count once; 32 at most."};
inline constexpr Family kResumed{"holdfast_link_resumed",
                                 Type::kCounter,
                                 "",
                                 "How often a trunk went on after all its connections had broken.",
                                 "peer",
                                 "What was under way was not lost."};
inline constexpr Family kSentAgain{"holdfast_link_sent_again_bytes",
                                   Type::kCounter,
                                   "bytes",
                                   "What a trunk sent again because a connection was lost.",
                                   "peer",
                                   "Beside it TCP sends lost segments again "
                                   "(`holdfast_link_retransmits_total`)."};

inline constexpr Family kRelayed{"holdfast_link_relayed",
                                 Type::kGauge,
                                 "",
                                 "1: the link goes through a relay.",
                                 "peer",
                                 "Of trunks, and of links that go, or have gone, through one."};
inline constexpr Family kWentDirect{"holdfast_link_went_direct",
                                    Type::kCounter,
                                    "",
                                    "How often a link left its relay for a direct way.",
                                    "peer",
                                    "A relay sees a pair end, and not why."};

// ---- views ----

inline constexpr Family kEpoch{"holdfast_epoch", Type::kGauge, "", "Number of the current view."};
inline constexpr Family kMembers{"holdfast_members", Type::kGauge, "",
                                 "Members of the current view."};
inline constexpr Family kRank{"holdfast_rank", Type::kGauge, "",
                              "Own rank in the world; -1: in none."};
inline constexpr Family kLosses{
    "holdfast_losses",
    Type::kCounter,
    "",
    "Members lost from views.",
    "cause",
    "`cause` is `died` (its process ended), `silent` (nothing was heard, not even that its "
    "connection ended; told a second later), `cut` (the connection broke) or `left` (it said "
    "goodbye). Every cause appears, from 0 on."};
inline constexpr Family kRepairs{"holdfast_repairs", Type::kCounter, "",
                                 "Ops that a loss cut off and that ended well."};
inline constexpr Family kJoins{"holdfast_joins",
                               Type::kCounter,
                               "",
                               "Members that came into views.",
                               "",
                               "Those are views that this process was in."};
inline constexpr Family kRecovery{
    "holdfast_recovery_seconds",
    Type::kHistogram,
    "seconds",
    "Time in which ops stood still between a loss and the next view.",
    "",
    "Neither the time to notice the loss nor that of the repairs is in it. Buckets are those of "
    "`holdfast_op_duration_seconds`."};

// ---- maps of links ----

inline constexpr Family kMap{
    "holdfast_map",
    Type::kInfo,
    "",
    "The map of links by which a group of all ranks plans.",
    "group, digest",
    "Always 1; `digest` is that of `Group.topology()`, the same on all ranks. Where there is no "
    "map, there is no sample, of this and the next three."};
inline constexpr Family kMapVersion{
    "holdfast_map_version",
    Type::kGauge,
    "",
    "How many maps the group has taken.",
    "group",
    "0: the map is that of the option `topology`. It grows with `set_topology()`, `measure()`, and "
    "a `refresh_topology()` that found a change."};
inline constexpr Family kMapRanks{"holdfast_map_ranks", Type::kGauge, "",
                                  "Ranks that the map covers.", "group"};
inline constexpr Family kMapTaken{
    "holdfast_map_taken_timestamp_seconds", Type::kGauge, "seconds",
    "When this process began to plan by the map, as seconds since 1970.", "group"};

// ---- what layers above the core report ----

inline constexpr Family kSyncBytes{
    "holdfast_sync_bytes",
    Type::kCounter,
    "bytes",
    "Bytes of states that ranks gave each other to be the same.",
    "direction",
    "`direction` is `sent` or `received`. `Group.sync` and `holdfast.sync` moved them; the hashes "
    "that they compare do not count."};
inline constexpr Family kSyncs{"holdfast_syncs",
                               Type::kCounter,
                               "",
                               "Syncs that ended well.",
                               "",
                               "Those in which nothing had to move count, "
                               "too."};
inline constexpr Family kSyncTime{"holdfast_sync_seconds", Type::kCounter, "seconds",
                                  "Time that callers spent in syncs."};
inline constexpr Family kReducerRaw{
    "holdfast_reducer_raw_bytes",
    Type::kCounter,
    "bytes",
    "What this rank would have sent to average the gradients as they are.",
    "method",
    "An all-reduce sends 2 (p - 1) / p of the gradients' bytes from each of p ranks. `method` is "
    "the reducer or optimiser; beyond sixteen, `other`."};
inline constexpr Family kReducerWire{"holdfast_reducer_wire_bytes", Type::kCounter, "bytes",
                                     "What it sent instead, before any codec.", "method"};
inline constexpr Family kReducerNorm{
    "holdfast_reducer_residual_norm",
    Type::kGauge,
    "",
    "L2 norm of what the method has left out so far, as last looked at.",
    "method",
    "The momenta of DeMo and TopK, which are sent later, are included; of several reducers of one "
    "method it is the norm of all."};

// ---- worlds of a coordinator ----

inline constexpr Family kWorlds{"holdfast_coordinator_worlds", Type::kGauge, "",
                                "Worlds it decides for."};
inline constexpr Family kWorldEpoch{"holdfast_coordinator_epoch", Type::kGauge, "",
                                    "View of a world.", "world"};
inline constexpr Family kWorldMembers{"holdfast_coordinator_members", Type::kGauge, "",
                                      "Members of that view.", "world"};
inline constexpr Family kRanks{"holdfast_coordinator_ranks", Type::kGauge, "",
                               "Ranks of that view, vacant ones included.", "world"};
inline constexpr Family kWaiting{"holdfast_coordinator_waiting", Type::kGauge, "",
                                 "Strangers that wait for a step boundary.", "world"};
inline constexpr Family kBlocked{"holdfast_coordinator_blocked", Type::kGauge, "",
                                 "1: a loss cannot be decided.", "world"};

// ---- relays ----

inline constexpr Family kRelayMembers{"holdfast_relay_members",
                                      Type::kGauge,
                                      "",
                                      "Members that are registered at the relay.",
                                      "",
                                      "Those wait there for who calls them."};
inline constexpr Family kRelayWaiting{"holdfast_relay_waiting_calls", Type::kGauge, "",
                                      "Callers that wait for a member to pick up."};
inline constexpr Family kRelayPairs{"holdfast_relay_pairs", Type::kGauge, "",
                                    "Pairs that are connected through the relay now."};
inline constexpr Family kRelayJoined{"holdfast_relay_joined",
                                     Type::kCounter,
                                     "",
                                     "Pairs that the relay has connected.",
                                     "",
                                     "Which of them have found a direct way, their members count: "
                                     "`holdfast_link_went_direct_total`."};
inline constexpr Family kRelayPassed{"holdfast_relay_passed_bytes",
                                     Type::kCounter,
                                     "bytes",
                                     "What the relay has passed on.",
                                     "",
                                     "All pairs together, in both directions."};
inline constexpr Family kRelayRefused{
    "holdfast_relay_refused",
    Type::kCounter,
    "",
    "Callers that the relay has refused.",
    "why",
    "`why` is `malformed` (it does not speak the relay's protocol), `token` (none that counts), "
    "`taken` (the member is registered by another token), `full`, `absent` (whom it wants is not "
    "registered, or did not pick up) or `revoked` (its token stopped counting). Every one appears, "
    "from 0 on."};

// In the order in which a rank writes them, then a coordinator. A relay that is a process of its
// own writes the last six, too.
inline constexpr std::array kOfRanks{
    &kBuild,         &kOps,           &kOpBytes,      &kOpDuration,     &kOpsFailed,
    &kQueueDepth,    &kActive,        &kExposed,      &kCodecRaw,       &kCodecWire,
    &kCodecResidual, &kSyncBytes,     &kSyncs,        &kSyncTime,       &kReducerRaw,
    &kReducerWire,   &kReducerNorm,   &kStateAge,     &kStateStep,      &kStateStall,
    &kStateBytes,    &kStateRestores, &kStateDamaged, &kStateProtected, &kStateUnprotected,
    &kCalls,         &kMessages,      &kMessageBytes, &kPeerWait,       &kLinkBytes,
    &kLinkRtt,       &kLinkLeastRtt,  &kLinkRate,     &kRetransmits,    &kLanes,
    &kLinkControl,   &kLinkCuts,      &kRecentCuts,   &kResumed,        &kSentAgain,
    &kRelayed,       &kWentDirect,    &kEpoch,        &kMembers,        &kRank,
    &kLosses,        &kRepairs,       &kJoins,        &kRecovery,       &kMap,
    &kMapVersion,    &kMapRanks,      &kMapTaken};
inline constexpr std::array kOfCoordinators{
    &kBuild,       &kWorlds,      &kWorldEpoch,   &kWorldMembers, &kRanks,
    &kWaiting,     &kBlocked,     &kRelayMembers, &kRelayWaiting, &kRelayPairs,
    &kRelayJoined, &kRelayPassed, &kRelayRefused};

}  // namespace holdfast::health::family
