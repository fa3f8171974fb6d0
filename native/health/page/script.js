"use strict";
// Asks /status again and again and shows what it says. All that comes from ranks (hosts, names of
// worlds, reasons) is set as text, never as markup.

const kPeriodMs = 500;
const kTimeoutMs = 4000;
// The picture has a cell for each rank and peer; larger worlds get a list of the worst links.
const kMatrixRanks = 64;
const kListed = 40;
const kDrawn = { width: 600, height: 70, margin: 6 };

const kMood = {
  well: "well", changing: "warn", silent: "warn", unheard: "warn", left: "idle", vacant: "idle",
  gone: "bad", lost: "bad", failed: "bad",
};

const byId = (id) => document.getElementById(id);

function make(tag, text, className) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  return element;
}

function draw(tag, attributes, title) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (title) {
    const text = document.createElementNS("http://www.w3.org/2000/svg", "title");
    text.textContent = title;
    element.append(text);
  }
  return element;
}

function short(value) {
  if (value === undefined || value === null) return "";
  const steps = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
  for (const [size, letter] of steps) {
    if (value >= size) return (value / size).toPrecision(3) + letter;
  }
  return Number.isInteger(value) ? String(value) : value.toPrecision(3);
}

const percent = (share) => share === undefined ? "" : Math.round(share * 100) + "%";
const clock = (timeS) => new Date(timeS * 1000).toLocaleTimeString();

function age(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds < 60) return seconds.toFixed(1) + " s";
  if (seconds < 3600) return Math.floor(seconds / 60) + " min";
  return Math.floor(seconds / 3600) + " h";
}

function rankRow(rank) {
  const row = make("tr", undefined, kMood[rank.state] ?? "warn");
  row.dataset.rank = rank.rank;
  row.dataset.state = rank.state;
  const add = (text, className) => row.append(make("td", text, className));
  add(rank.rank);
  add(rank.cause ? rank.state + ": " + rank.cause : rank.state, "state");
  row.lastChild.title = "for " + age(rank.since_s);
  add(rank.host);
  row.lastChild.title = rank.http ? rank.host + ", pages at " + rank.http : rank.host;
  add(rank.epoch ?? "");
  add(age(rank.heard_s));
  add(short(rank.ops_per_s));
  row.lastChild.title = rank.ops === undefined ? "" : rank.ops + " ops in all";
  row.lastChild.dataset.ops = rank.ops ?? "";
  add(short(rank.bytes_per_s));
  add(rank.failed ?? "");
  add(rank.queue ?? "");
  add(percent(rank.waits));
  add(percent(rank.waited_for));
  return row;
}

function measured(link, measure) {
  return measure === "bytes" ? link.sent_bytes + link.received_bytes : link[measure];
}

function shown(value, measure) {
  if (measure === "wait_share") return percent(value);
  return short(value) + (measure === "wait_s" ? " s" : "B");
}

function linkTitle(link) {
  return "rank " + link.rank + " and peer " + link.peer + ": waits " + percent(link.wait_share) +
      " of the time, " + link.wait_s.toFixed(3) + " s in all; sent " + short(link.sent_bytes) +
      "B, received " + short(link.received_bytes) + "B";
}

function linkCell(link, measure, most) {
  const cell = make("td");
  if (!link) return cell;
  const value = measured(link, measure);
  cell.textContent = value > 0 ? shown(value, measure) : "";
  cell.title = linkTitle(link);
  Object.assign(cell.dataset, {
    rank: link.rank, peer: link.peer, waitS: link.wait_s, sent: link.sent_bytes,
    received: link.received_bytes,
  });
  cell.style.setProperty("--heat", most > 0 ? (0.85 * value / most).toFixed(3) : 0);
  return cell;
}

function matrix(world, measure) {
  const links = new Map(world.links.map((link) => [link.rank + " " + link.peer, link]));
  // The scale ends at a fifth of the time at least, so that colours keep their meaning between
  // updates.
  const least = measure === "wait_share" ? 0.2 : 0;
  const most = world.links.reduce((m, link) => Math.max(m, measured(link, measure)), least);
  const rows = [make("tr")];
  rows[0].append(make("th"));
  for (let peer = 0; peer < world.size; ++peer) rows[0].append(make("th", peer));
  for (let rank = 0; rank < world.size; ++rank) {
    const row = make("tr");
    row.append(make("th", rank));
    for (let peer = 0; peer < world.size; ++peer) {
      const cell = linkCell(links.get(rank + " " + peer), measure, most);
      if (rank === peer) cell.className = "own";
      row.append(cell);
    }
    rows.push(row);
  }
  return rows;
}

function list(world, measure) {
  const links = [...world.links].sort((a, b) => measured(b, measure) - measured(a, measure));
  return links.slice(0, kListed).map((link) => {
    const row = make("tr");
    row.append(make("th", link.rank + " ← " + link.peer));
    row.append(make("td", shown(measured(link, measure), measure)));
    row.title = linkTitle(link);
    return row;
  });
}

const kFarMood = { cut: "bad", mended: "warn", well: "well" };

function farState(link) {
  if (link.state === "cut") return "cut for " + age(link.down_s) + ": " + link.cut_why;
  if (link.state === "mended") return "cut " + age(link.cut_s) + " ago: " + link.cut_why;
  return link.state;
}

function farRow(link) {
  const row = make("tr", undefined, kFarMood[link.state] ?? "warn");
  row.dataset.rank = link.rank;
  row.dataset.peer = link.peer;
  const add = (text, className) => row.append(make("td", text, className));
  add(link.rank + " – " + link.peer);
  add(farState(link), "state");
  add(link.relayed ? "relay" : "direct");
  add(link.lanes);
  add(link.control);
  add((1000 * link.rtt_s).toPrecision(3) + " ms");
  add(short(link.bytes_per_s));
  add(short(link.sent_again_bytes));
  add(link.cuts);
  row.lastChild.title = link.recent_cuts + " in the last minute; resumed " + link.resumed +
      " times";
  return row;
}

function exposedItem(rank) {
  const kept = rank.state_kept;
  const item = make("li", "rank " + rank.rank + " on " + rank.host + ": for " +
      age(kept.unprotected_s) + ": " + kept.unprotected + "; keepers have " +
      (kept.step === null ? "nothing" : "step " + kept.step + ", " + age(kept.age_s) + " old"));
  item.dataset.rank = rank.rank;
  return item;
}

function epochs(world, now) {
  const views = world.epochs;
  if (!views.length) return [];
  const { width, height, margin } = kDrawn;
  const first = views[0].time_s;
  const span = Math.max(now - first, 1);
  const most = Math.max(...views.map((view) => view.members), 1);
  const x = (time) => margin + (width - 2 * margin) * (time - first) / span;
  const y = (members) => height - margin - (height - 2 * margin) * members / most;
  let path = "";
  const dots = [];
  for (const view of views) {
    const [left, level] = [x(view.time_s), y(view.members)];
    path += path ? "H" + left + "V" + level : "M" + left + " " + level;
    const title = "epoch " + view.epoch + " at " + clock(view.time_s) + ": " + view.members +
        " members, " + view.joined + " joined, " + view.lost + " lost, " + view.left + " left";
    const kind = view.lost ? "lost" : "joined";
    // A line without length stays round however the picture is stretched.
    dots.push(draw("path", { d: "M" + left + " " + level + "h0", class: "dot " + kind }, title));
  }
  const ground = { x1: 0, x2: width, y1: height - margin, y2: height - margin };
  return [draw("line", ground), draw("path", { d: path + "H" + x(now) }), ...dots];
}

function worldSection(name) {
  for (const section of document.querySelectorAll("section.world")) {
    if (section.dataset.world === name) return section;
  }
  const section = byId("world").content.firstElementChild.cloneNode(true);
  section.dataset.world = name;
  section.querySelector(".name").textContent = name;
  section.querySelector(".measure").addEventListener("change", () => latest && show(latest));
  byId("worlds").append(section);
  return section;
}

function showWorld(world, now) {
  const section = worldSection(world.name);
  const at = (selector) => section.querySelector(selector);
  at(".facts").textContent = "epoch " + world.epoch + ", " + world.members + " of " + world.size +
      " ranks" + (world.waiting ? ", " + world.waiting + " waiting to come in" : "");
  at(".map").textContent = world.map ? "map of links: version " + world.map.version +
      ", digest " + world.map.digest + ", " + world.map.ranks + " ranks, since " +
      clock(world.map.time_s) : "";
  at(".map").hidden = !world.map;
  at(".blocked").textContent = world.blocked;
  at(".blocked").hidden = !world.blocked;
  at(".epochs").replaceChildren(...epochs(world, now));
  const last = world.epochs.slice(-6).map((view) => view.epoch + " at " + clock(view.time_s) +
      " (" + view.members + (view.joined ? ", +" + view.joined : "") +
      (view.lost ? ", −" + view.lost : "") + ")");
  at(".views").textContent = "views: " + last.join(", ");
  at(".ranks tbody").replaceChildren(...world.ranks.map(rankRow));
  at(".ranks-more").textContent =
      world.ranks_left_out ? world.ranks_left_out + " more ranks, all well" : "";
  const measure = at(".measure").value;
  const many = world.size > kMatrixRanks;
  at(".links").replaceChildren(...(many ? list : matrix)(world, measure));
  at(".links").classList.toggle("many", !many && world.size > 20);
  at(".links-more").textContent =
      world.links_left_out ? world.links_left_out + " more links, with less" : "";
  const far = world.far_links ?? [];
  at(".far").hidden = !far.length;
  at(".far tbody").replaceChildren(...far.slice(0, kListed).map(farRow));
  const farMore = (world.far_links_left_out ?? 0) + Math.max(0, far.length - kListed);
  at(".far-more").textContent = farMore ? farMore + " more far links, cut longer ago or never" : "";
  const exposed = world.ranks.filter((rank) => rank.state_kept?.unprotected);
  at(".unprotected").hidden = !exposed.length;
  at(".unprotected ul").replaceChildren(...exposed.slice(0, kListed).map(exposedItem));
  const slow = world.stragglers.map((one) => make("li", "rank " + one.rank + " on " + one.host +
      ": the others wait for it " + percent(one.waited_for) + " of their time (" + one.waiters +
      (one.waiters === 1 ? " rank" : " ranks") + " more than 5%)"));
  at(".stragglers").replaceChildren(...(slow.length ? slow : [make("li", "none")]));
}

function eventItem(event) {
  const item = make("li");
  item.append(make("time", clock(event.time_s)));
  let text = event.world + ": " + event.kind;
  if (event.count) {
    text += " " + (event.count === 1 ? "rank " : "ranks ") + event.ranks.join(", ");
    if (event.count > event.ranks.length) text += ", … (" + event.count + ")";
    text += " on " + event.hosts.join(", ");
  }
  if (event.cause) text += ": " + event.cause;
  if (event.why) text += ": " + event.why;
  item.append(make("span", text + " (epoch " + event.epoch + ")", event.kind));
  return item;
}

let latest = null;

function show(status) {
  latest = status;
  byId("role").textContent = status.role;
  byId("version").textContent = "version " + status.version;
  const names = new Set(status.worlds.map((world) => world.name));
  for (const section of document.querySelectorAll("section.world")) {
    if (!names.has(section.dataset.world)) section.remove();
  }
  for (const world of status.worlds) showWorld(world, status.time_s);
  byId("events").replaceChildren(...[...status.events].reverse().map(eventItem));
  const old = status.age_s > Math.max(5, 10 * status.heartbeat_s);
  const wrong = status.sickness || (old ? "nothing new for " + age(status.age_s) : "");
  byId("fresh").textContent = wrong || "as of " + clock(status.time_s) +
      (status.worlds.length ? "" : ": no world yet");
  byId("fresh").className = wrong ? "bad" : "";
  document.body.dataset.loaded = "1";
}

async function look() {
  const began = performance.now();
  try {
    const answer = await fetch("status", { signal: AbortSignal.timeout(kTimeoutMs) });
    if (!answer.ok) throw new Error("status " + answer.status);
    show(await answer.json());
  } catch (error) {
    byId("fresh").textContent = "no answer (" + error.message + "); what follows is old";
    byId("fresh").className = "bad";
  }
  // A large world's answer takes longer, so it is asked for less often.
  setTimeout(look, Math.max(kPeriodMs, 5 * (performance.now() - began)));
}

look();
