"""status-json.md: the fields of /status, which native/health/status_json.cpp writes."""

from __future__ import annotations

from reference.fields import Field, sections
from reference.markdown import head

TOP = """
What `/status` says, of a coordinator or of a rank ([health.md](../operate/health.md)), and
`holdfast top --json`. `format` is 1: fields may be added to it; a change of those that are here
would be another format. Times `time_s` are seconds since 1970; ages and other times (`_s`) are
seconds; shares are parts of the time from 0 to 1, as they were over the last seconds.
`tests/python/docs/test_reference.py` compares this page with what processes say.
"""

TITLES = {
    "": "Of who answers",
    "relay": "`relay`: the coordinator's own",
    "relay.refused": "`relay.refused`: callers that it has refused, by reason",
    "worlds[]": "`worlds[]`: each job or group",
    "worlds[].map": "`worlds[].map`: the map of links by which it plans",
    "worlds[].ranks[]": "`worlds[].ranks[]`: each rank",
    "worlds[].ranks[].state_kept": "`worlds[].ranks[].state_kept`: how its state is kept",
    "worlds[].links[]": "`worlds[].links[]`: whom a rank waits for",
    "worlds[].far_links[]": "`worlds[].far_links[]`: trunks, and links through a relay",
    "worlds[].stragglers[]": "`worlds[].stragglers[]`: whom the others wait for",
    "worlds[].epochs[]": "`worlds[].epochs[]`: the last 64 views",
    "events[]": "`events[]`: the last 128 events",
}

NUMBERS = "once its numbers have come"
MAPPED = "of a group that has one"
FAR = "where there are any"
KEPT = "of a rank that takes snapshots"
RELAYS = "of a coordinator with a secret"

STATES = """`vacant` (nobody has had it), `well` (heard of, ops can run), `changing` (a change of
view is under way), `failed` (its group has failed, or it was voted out), `unheard` (in the view,
not heard of yet), `silent` (nothing has come for option `silence` or more), `gone` (its connection
has ended, and the view still has it), `left` (it said goodbye, or an operator has drained it),
`lost` (the view has lost it, and nobody has come in its place)"""

FIELDS = [
    Field("format", "integer", "the version of this document: 1."),
    Field("version", "text", "the version of Holdfast."),
    Field("role", "text", "`coordinator` or `rank`."),
    Field("time_s", "number", "when the answer was made."),
    Field(
        "age_s",
        "number",
        "since the figures were brought up to date. More than a few "
        "heartbeats: `sickness` says why.",
    ),
    Field("heartbeat_s", "number", "the time between two signs of life, option `heartbeat`."),
    Field("sickness", "text", "what is wrong with the process; empty: nothing."),
    Field("relay", "object", "what it passes on.", RELAYS),
    Field("relay.members", "integer", "members that are registered there."),
    Field("relay.waiting", "integer", "callers that wait for a member to pick up."),
    Field("relay.pairs", "integer", "pairs that are connected through it now."),
    Field("relay.joined", "integer", "pairs that it has connected."),
    Field("relay.passed_bytes", "integer", "what it has passed on."),
    Field("relay.refused", "object", "how many callers it has refused."),
    Field("relay.refused.malformed", "integer", "they do not speak the relay's protocol."),
    Field("relay.refused.token", "integer", "they have none that counts."),
    Field("relay.refused.taken", "integer", "the member is registered by another token."),
    Field("relay.refused.full", "integer", "there are too many."),
    Field("relay.refused.absent", "integer", "whom they want is not there."),
    Field("relay.refused.revoked", "integer", "their token stopped counting."),
    Field("worlds[]", "list", "the worlds that it decides for, or is in; by name."),
    Field("events[]", "list", "what came and went, the oldest first."),
    Field("worlds[].name", "text", "the name of the job or group."),
    Field("worlds[].epoch", "integer", "number of the view."),
    Field("worlds[].members", "integer", "members of the view."),
    Field("worlds[].size", "integer", "ranks, vacant ones included."),
    Field("worlds[].waiting", "integer", "strangers that wait for a step boundary."),
    Field("worlds[].blocked", "text", "why a loss cannot be decided; empty: it can."),
    Field("worlds[].map", "object", "the newest that a rank has told of.", MAPPED),
    Field("worlds[].ranks[]", "list", "at most 256 ranks, by number."),
    Field("worlds[].ranks_left_out", "integer", "ranks beyond those: well, and waited for least."),
    Field("worlds[].links[]", "list", "at most 1024, those with the most wait first."),
    Field("worlds[].links_left_out", "integer", "links beyond those."),
    Field(
        "worlds[].far_links[]",
        "list",
        "at most 256, those that are cut first, then those that were cut last; of a rank at most "
        "16.",
        FAR,
    ),
    Field("worlds[].far_links_left_out", "integer", "far links beyond those 256.", FAR),
    Field(
        "worlds[].stragglers[]",
        "list",
        "at most 8 ranks that the others wait for 5 % of the time or more, the slowest first.",
    ),
    Field("worlds[].epochs[]", "list", "the views there were, the oldest first."),
    Field(
        "worlds[].map.version",
        "integer",
        "how many the group has taken; 0: it is that of the option `topology`.",
    ),
    Field("worlds[].map.digest", "text", "the same wherever the map is the same."),
    Field("worlds[].map.ranks", "integer", "how many it covers."),
    Field("worlds[].map.time_s", "number", "when it was first told of."),
    Field("worlds[].ranks[].rank", "integer", "its number."),
    Field("worlds[].ranks[].state", "text", f"{STATES}."),
    Field(
        "worlds[].ranks[].cause",
        "text",
        "of a rank that the view has no more, as in `holdfast_losses_total`: `died`,"
        " `silent`, `cut` or `left`, as seen from here; else empty.",
    ),
    Field("worlds[].ranks[].host", "text", "its host."),
    Field(
        "worlds[].ranks[].http",
        "text",
        "`host:port` or `https://host:port` of its pages; empty: none.",
    ),
    Field("worlds[].ranks[].heard_s", "number or null", "since it was last heard."),
    Field("worlds[].ranks[].since_s", "number or null", "since it has been in its state."),
    Field("worlds[].ranks[].epoch", "integer", "number of its view.", NUMBERS),
    Field("worlds[].ranks[].ops", "integer", "ops that ended well.", NUMBERS),
    Field("worlds[].ranks[].ops_per_s", "number", "how fast they grow.", NUMBERS),
    Field("worlds[].ranks[].bytes", "integer", "payload of those ops.", NUMBERS),
    Field("worlds[].ranks[].bytes_per_s", "number", "how fast that grows.", NUMBERS),
    Field("worlds[].ranks[].failed", "integer", "ops that failed.", NUMBERS),
    Field("worlds[].ranks[].queue", "integer", "ops under way.", NUMBERS),
    Field(
        "worlds[].ranks[].waits",
        "number",
        "share of the time in which it waits for the peer that it waits for most.",
        NUMBERS,
    ),
    Field(
        "worlds[].ranks[].waited_for",
        "number",
        "share of the time in which the others wait for it, in the mean.",
    ),
    Field("worlds[].ranks[].state_kept", "object", "its snapshots.", KEPT),
    Field(
        "worlds[].ranks[].state_kept.step",
        "integer or null",
        "of the newest snapshot that is committed.",
    ),
    Field("worlds[].ranks[].state_kept.age_s", "number or null", "since it was taken."),
    Field(
        "worlds[].ranks[].state_kept.unprotected",
        "text",
        "why a loss would cost more than the newest step; empty: it would not.",
    ),
    Field("worlds[].ranks[].state_kept.unprotected_s", "number or null", "for how long."),
    Field("worlds[].links[].rank", "integer", "who waits."),
    Field(
        "worlds[].links[].peer",
        "integer or text",
        'whom it waits for; `"other"`: all beyond the first 64.',
    ),
    Field("worlds[].links[].wait_s", "number", "time that it has waited in all."),
    Field("worlds[].links[].wait_share", "number", "the share of the time."),
    Field("worlds[].links[].sent_bytes", "integer", "bytes on the link, from the rank."),
    Field("worlds[].links[].received_bytes", "integer", "bytes on the link, to the rank."),
    Field("worlds[].links[].bytes_per_s", "number", "how fast both grow."),
    Field("worlds[].far_links[].rank", "integer", "the rank that tells of it."),
    Field("worlds[].far_links[].peer", "integer or text", 'the other one, or `"other"`.'),
    Field(
        "worlds[].far_links[].state",
        "text",
        "`well`, `cut` (it has no connection now) or `mended` (it lost one within the last "
        "minute).",
    ),
    Field("worlds[].far_links[].relayed", "flag", "whether it goes through a relay."),
    Field("worlds[].far_links[].lanes", "integer", "its connections."),
    Field(
        "worlds[].far_links[].control",
        "text",
        "the congestion control by which it carries data, as Linux calls it; `bbr+cubic` while "
        "two are tried; empty: not known.",
    ),
    Field(
        "worlds[].far_links[].bytes_per_s",
        "integer",
        "what it delivered when it was last full; 0: not known.",
    ),
    Field("worlds[].far_links[].rtt_s", "number", "its smoothed round trip; 0: not known."),
    Field(
        "worlds[].far_links[].sent_again_bytes",
        "integer",
        "what was sent again because a connection was lost.",
    ),
    Field(
        "worlds[].far_links[].resumed",
        "integer",
        "how often it went on after all its connections had broken.",
    ),
    Field("worlds[].far_links[].cuts", "integer", "connections that were lost."),
    Field(
        "worlds[].far_links[].recent_cuts",
        "integer",
        "moments of the last minute at which some were lost, at most 32.",
    ),
    Field(
        "worlds[].far_links[].cut_why",
        "text",
        "of the last one, as in `holdfast_link_cuts_total`; empty: there was none.",
    ),
    Field("worlds[].far_links[].cut_s", "number or null", "how long ago that was."),
    Field("worlds[].far_links[].down_s", "number or null", "for how long it has been cut."),
    Field("worlds[].stragglers[].rank", "integer", "the rank."),
    Field("worlds[].stragglers[].host", "text", "its host."),
    Field(
        "worlds[].stragglers[].waited_for",
        "number",
        "share of the time, in the mean of the others.",
    ),
    Field("worlds[].stragglers[].waiters", "integer", "ranks that wait for it 5 % or more."),
    Field("worlds[].epochs[].epoch", "integer", "number of the view."),
    Field("worlds[].epochs[].time_s", "number", "when it began."),
    Field("worlds[].epochs[].members", "integer", "its members."),
    Field("worlds[].epochs[].joined", "integer", "members that came in with it."),
    Field("worlds[].epochs[].lost", "integer", "members that it lost."),
    Field("worlds[].epochs[].left", "integer", "members that left before it, or as it began."),
    Field("events[].time_s", "number", "when."),
    Field("events[].world", "text", "the world's name."),
    Field(
        "events[].kind",
        "text",
        "`began`, `joined`, `lost`, `left`, `blocked`, `map` or `ended`.",
    ),
    Field("events[].cause", "text", "of a loss, as above; else empty."),
    Field("events[].epoch", "integer", "number of the view."),
    Field("events[].count", "integer", "how many ranks it concerns."),
    Field("events[].ranks[]", "list", "the first 16 of them, as integers."),
    Field("events[].hosts[]", "list", "their hosts, each once."),
    Field("events[].why", "text", "`blocked`: the reason; `map`: version, digest, ranks."),
]


def page(_: str) -> str:
    text = head("Status as JSON", "`tests/reference/status_json.py`")
    return text + TOP + sections(FIELDS, TITLES)
