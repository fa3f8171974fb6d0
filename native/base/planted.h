// Planted bugs: mistakes that tests switch on, one at a time, to show that the simulator would
// catch them. Without HOLDFAST_PLANTED they are not compiled in.
#pragma once

namespace holdfast {

enum class Planted {
  kNone,
  kSkipRepairPiece,   // the last transfer of a repair plan is left out
  kAcceptStaleEpoch,  // messages of an earlier view are taken for this one's
  kForgetVote,        // members forget the proposal they have accepted
  kCountTwice,        // a held piece is reduced again
  kForgetHeld,        // an interrupted op reports that it holds nothing
  kSkipRound,         // large ops end before all are known to hold them
  kDropKept,          // results of small ops are not kept
  kStaleOutcome,      // an op's outcome does not know of the last loss
  kIgnoreBallot,      // members accept proposals of coordinators that are outranked
  kLateStop,          // a boundary does not stop the groups
  kSpendUncoded,      // a residual counts as sent where a repair went without it
  kPlainRepair,       // what is reduced again of an average by weights counts all ranks alike
  kWeighServed,       // what is served of an average by weights is weighed again
  kLeaveAtOnce,       // a leaving member does not wait until others have its results
  kMixUncoded,        // a repair takes a giver's data as it is, though others hold it encoded
  kShareAlone,        // a member shares memory though other members cannot
  kHideHole,          // a result with a hole counts as a good one
  kOwnHole,           // only the rank with the hole is told of it
  kMinority,          // the members that are left decide, however few
  kFreePrepare,       // a member that has stopped for a ballot takes proposals of lower ones
  kStaleReport,       // a report for another ballot counts as a promise for this one
  kFreshKept,         // a kept result is served as if no view had begun since
  kNoWithdrawn,       // a sum is taken though the memory it was read from has been taken back
  kNoLeftBehind,      // a slot is read though its owner may be two views ahead
  kDamageIsDeath,     // a damaged frame proves that its sender has died
  kNoWeighing,        // complaints about silent members are never weighed
  kOwnOrder,          // a sum begins with the rank that makes it
  kNeverTakeBack,     // a blocked coordinator does not take back a member that speaks
  kNeverTell,         // a member that was voted out is not told
  kPartialSums,       // partial sums are written where the result will be
  kKeepBallot,        // a loss during a proposal does not raise the ballot
  kAdmitUnconnected,  // a newcomer comes in before it is connected to all
  kLowBallots,        // a coordinator that takes over begins with a ballot that was used
  kNoSilence,         // no member is ever found silent
  kBelieveReset,      // a connection that is closed from the other side proves a death
  kOwnClosing,        // a connection that this side has closed proves the other's death
  kUnrecorded,        // a view is published though the record of it was not written
  kUncompared,        // the record is written whatever it says by now
  kStaleTerm,         // a coordinator decides on though another one has been elected
  kMapAtOnce,         // ops that are under way go by a map that was taken after they were called
  kUntoldMap,         // newcomers are not told the map that members go by
  kForgetMap,         // a map is forgotten though ops of its time are under way
  kOwnCount,          // each member counts by its own calls until when plans start from the base's
  kBelieveAnybody,    // members take decisions from strangers
  kBelieveLobby,      // a coordinator takes a view from a process that waits
  kUncheckedStatement,  // a view counts as signed whatever its statement is
  kOldStatement,        // a signed view is believed though a later one is known
  kBelieveRefusal,      // a refused call proves a death though there is a secret
  kBelieveAfar,         // the word of a witness of another host does
  kSkipReplayed,        // of the frames that a lost lane carried, the last is not sent again
  kDeliverTwice,        // a frame that comes again is delivered again
  kConfirmAhead,        // a frame that has not come is confirmed where a later one has
  kEarlyGoodbye,        // a goodbye counts though frames before it have not come
  kNoSurplus,           // a side ends a lane for each that comes when there are enough
  kKeepStalled,         // what a stalled lane carries waits for it
  kOverNewest,          // the newest committed snapshot is overwritten
  kOverRead,            // a snapshot is overwritten while it is flushed or restored from
  kCommitAlone,         // a snapshot counts though not all keepers agreed
  kForgetDoubt,         // a snapshot that others may have committed is dropped
  kReturnEarly,         // take() returns though the snapshot before is not committed
  kCountStopped,        // parity counts though a stopped keeper's body is not in it
  kMixSteps,            // each code group chooses its newest step
  kAnyHashes,           // a part counts whatever its hashes are
  kRemoveFirst,         // older files are removed before the newer ones verify
  kManifestFirst,       // a manifest is written before its files are on the disk
};

#ifdef HOLDFAST_PLANTED
inline Planted planted = Planted::kNone;
inline bool is_planted(Planted bug) { return planted == bug; }
#else
constexpr bool is_planted(Planted) { return false; }
#endif

}  // namespace holdfast
